/* Copies elements between strided tensors, or between a strided and a packed one.
 * V0: bytes of an element; V1: one side is packed memory; V2: that side is the destination;
 * V3: the source is in the arguments */
#include "device/code.h"
#include "kernel.cuh"

struct strided {
    struct weir__copy copy;
    char *packed;
    int64_t first, count;
    unsigned char bytes[1024];
};

typedef Word<V0>::type word;

extern "C" __global__ void copy(const __grid_constant__ strided a)
{
    await_earlier();
    for (int64_t i = thread_index(); i < a.count; i += thread_count()) {
        int64_t rest = a.first + i, to = 0, from = 0;

        for (int d = a.copy.ndim - 1; d >= 0; d--) {
            int64_t at = rest % a.copy.shape[d];

            rest /= a.copy.shape[d];
            to += at * a.copy.dst_stride[d];
            from += at * a.copy.src_stride[d];
        }
        if (V3)
            ((word *)a.copy.dst)[to] = ((const word *)a.bytes)[i];
        else if (!V1)
            ((word *)a.copy.dst)[to] = ((const word *)a.copy.src)[from];
        else if (V2)
            ((word *)a.packed)[i] = ((const word *)a.copy.src)[from];
        else
            ((word *)a.copy.dst)[to] = ((const word *)a.packed)[i];
    }
}
