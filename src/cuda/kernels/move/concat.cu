/* Concatenates tensors along one dim. V0: bytes of an element; V1: elements moved at once, of the
 * last dim; V2: offsets fit 32 bits */
#include "kernel.cuh"
#include "ops/host/move/concat.h"

typedef Word<V0 * V1>::type word;

template <bool fits> struct Index { typedef int64_t type; };
template <> struct Index<true> { typedef uint32_t type; };
typedef Index<V2 != 0>::type Place;

/* The argument struct with as many pieces as fit into the arguments. */
struct Args {
    weir__concat c;
    int64_t pieces[(WEIR_ARGS_MAX - sizeof(weir__concat)) / 8];
};

/* Converts sizes and strides from elements to moves. */
static __device__ inline Place size_of(const weir__concat &c, int d, int64_t size)
{
    return (Place)(d == c.ndim - 1 ? size / V1 : size);
}

static __device__ inline Place stride_of(const weir__concat &c, int d, int64_t stride)
{
    return (Place)(d == c.ndim - 1 ? stride : stride / V1);
}

extern "C" __global__ void concat(const __grid_constant__ Args a)
{
    await_earlier();
    const weir__concat &c = a.c;
    Place n = 1;

    for (int d = 0; d < c.ndim; d++)
        n *= size_of(c, d, c.shape[d]);
    for (Place i = (Place)thread_index(); i < n; i += (Place)thread_count()) {
        Place at[WEIR_MAX_DIMS], rest = i, out = 0, in = 0, along = 0, step = 1;
        const int64_t *piece = a.pieces;

#pragma unroll
        for (int d = WEIR_MAX_DIMS - 1; d >= 0; d--)
            if (d < c.ndim) {
                Place size = size_of(c, d, c.shape[d]), next = rest / size;

                at[d] = rest - next * size;
                rest = next;
                out += at[d] * stride_of(c, d, c.stride[d]);
                along = d == c.dim ? at[d] : along;
            }
        while (along >= size_of(c, c.dim, piece[1])) {
            along -= size_of(c, c.dim, piece[1]);
            piece += c.strided ? 2 + c.ndim : 2;
        }
#pragma unroll
        for (int d = WEIR_MAX_DIMS - 1; d >= 0; d--)
            if (d < c.ndim) {
                Place own = d == c.dim ? along : at[d];

                in += own * (c.strided ? stride_of(c, d, piece[2 + d]) : step);
                step *= size_of(c, d, d == c.dim ? piece[1] : c.shape[d]);
            }
        ((word *)c.out)[out] = ((const word *)piece[0])[in];
    }
}
