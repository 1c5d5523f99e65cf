/* Tensors side by side along one dim. V0: bytes of an element */
#include "kernel.cuh"
#include "ops/host/move/concat.h"

typedef Word<V0>::type word;

/* The struct with as many pieces as arguments can hold. */
struct Args {
    weir__concat c;
    int64_t pieces[(WEIR_ARGS_MAX - sizeof(weir__concat)) / 8];
};

extern "C" __global__ void concat(const __grid_constant__ Args a)
{
    await_earlier();
    const weir__concat &c = a.c;
    int64_t n = 1;

    for (int d = 0; d < c.ndim; d++)
        n *= c.shape[d];
    for (int64_t i = thread_index(); i < n; i += thread_count()) {
        int64_t at[WEIR_MAX_DIMS], rest = i, out = 0, in = 0, along = 0, step = 1;
        const int64_t *piece = a.pieces;

        for (int d = WEIR_MAX_DIMS - 1; d >= 0; d--) {
            int64_t size = d < c.ndim ? c.shape[d] : 1;

            at[d] = rest % size;
            rest /= size;
            out += d < c.ndim ? at[d] * c.stride[d] : 0;
            along = d == c.dim ? at[d] : along;
        }
        while (along >= piece[1]) {
            along -= piece[1];
            piece += c.strided ? 2 + c.ndim : 2;
        }
        for (int d = WEIR_MAX_DIMS - 1; d >= 0; d--)
            if (d < c.ndim) {
                in += (d == c.dim ? along : at[d]) * (c.strided ? piece[2 + d] : step);
                step *= d == c.dim ? piece[1] : c.shape[d];
            }
        ((word *)c.out)[out] = ((const word *)piece[0])[in];
    }
}
