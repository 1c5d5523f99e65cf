#include "trace/record/kernel_names.h"

#include <ctype.h>
#include <stddef.h>

/* Only letters and digits are compared: all_reduce, AllReduce and allReduce are equal. DeepEP's
 * kernels are called dispatch and combine, as are other libraries', so they are recognised by their
 * namespaces. */
static const char *const words[] = {
    "nccl",
    "rccl",
    "hccl",
    "hcom",
    "nvshmem",
    "deepep",
    "dpskep",
    "internode",
    "intranode",
    "allreduce",
    "reducescatter",
    "allgather",
    "alltoall",
    "distributedispatch",
    "distributecombine",
};

static bool has_word(const char *text, const char *word)
{
    for (; *text; text++) {
        const char *t = text, *w = word;

        while (*t && *w)
            if (!isalnum((unsigned char)*t))
                t++;
            else if (tolower((unsigned char)*t) == *w)
                t++, w++;
            else
                break;
        if (!*w)
            return true;
    }
    return false;
}

bool weir__trace_is_comm(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(name, words[i]))
            return true;
    return false;
}
