#include "ops/host/isa.h"

/* Compiled for every level like the other files, but its code is needed only once: in the variant
 * that every processor can run. */
#if WEIR__ISA_LEVEL == WEIR__ISA_V1 || defined(WEIR_ISA_ONLY)

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/x86.h"

int weir__isa(void)
{
    static _Atomic int cached;
    int isa = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!isa) {
        const char *wish = getenv("WEIR_ISA");

        isa = weir__x86_level(); /* 1, 3 and 4: WEIR__ISA_V1, V3, V4 */
        if (wish && wish[0] == 'v' && wish[1] >= '1' && wish[1] < '0' + isa && !wish[2])
            isa = wish[1] >= '3' ? WEIR__ISA_V3 : WEIR__ISA_V1;
        /* Threads that race here store the same value. */
        atomic_store_explicit(&cached, isa, memory_order_relaxed);
    }
    return isa;
}

static enum weir__isa_pairs find_pairs(void)
{
    const char *wish = getenv("WEIR_ISA");

    if (weir__isa() != WEIR__ISA_V4 || (wish && !strcmp(wish, "v4")) || !weir__x86_has_bf16())
        return WEIR__ISA_NO_PAIRS;
    return wish && !strcmp(wish, "bf16") ? WEIR__ISA_BF16
           : weir__x86_takes_amx()       ? WEIR__ISA_AMX
                                         : WEIR__ISA_BF16;
}

enum weir__isa_pairs weir__isa_best_pairs(void)
{
    static _Atomic int cached;
    int pairs = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!pairs) {
        pairs = (int)find_pairs(); /* threads that race here find the same value */
        atomic_store_explicit(&cached, pairs, memory_order_relaxed);
    }
    return (enum weir__isa_pairs)pairs;
}

#endif
