/* Operands of chains of elementwise calls. The rest of such a source is generated for each
 * chain. */
#pragma once

#include "elementwise.cuh"
#include "ops/gpu/chain.h"

template <int ndim, int dim, int stride>
static __device__ inline int64_t place(const weir__chain &c, int64_t i)
{
    uint32_t rest = (uint32_t)i;
    int64_t at = 0;

    if constexpr (ndim == 0)
        return i;
#pragma unroll
    for (int d = ndim - 1; d >= 0; d--) {
        uint32_t next = quotient(rest, c.dim[dim + d].divisor);

        at += (rest - next * c.dim[dim + d].size) * c.stride[stride + d];
        rest = next;
    }
    return at;
}

template <int layout, int n, int ndim, int dim, int stride> struct Places {
    int64_t at[layout == WEIR__LAYOUT_ANY ? n : 1];

    __device__ inline Places(const weir__chain &c, int64_t i)
    {
#pragma unroll
        for (int k = 0; k < (layout == WEIR__LAYOUT_ANY ? n : 1); k++)
            at[k] = place<ndim, dim, stride>(c, i + k);
    }
};

/* Elements i .. i + n - 1 of an operand. */
template <int layout, int n, int type, int ndim, int dim, int stride>
static __device__ inline Pack<typename Type<type>::store, n> get(const weir__chain &c, int operand,
                                                                 int64_t i)
{
    Places<layout, n, ndim, dim, stride> places(c, i);

    return read<layout, n, typename Type<type>::store>(c.operand[operand].data, places.at);
}

template <int layout, int n, int type, int ndim, int dim, int stride>
static __device__ inline void put(const weir__chain &c, int operand, int64_t i,
                                  const Pack<typename Type<type>::store, n> &p)
{
    Places<layout, n, ndim, dim, stride> places(c, i);

    write<layout, n>(c.operand[operand].data, places.at, p);
}
