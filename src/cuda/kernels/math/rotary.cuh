/* Rotary position embedding, of one pair or of several.
 * V0: type; V1: type of the angles; V2: interleaved; V3: if not 0, rows are contiguous and this
 * many pairs are moved at once */
#pragma once

#include "kernel.cuh"
#include "ops/host/math/rotary.h"

typedef Type<V0>::compute real;

static __device__ inline void turn_pair(const weir__rotary &a, int64_t e, int64_t half)
{
    const weir__rows &rows = a.rows;
    int64_t r = e / half, i = e % half, position = r / a.heads % a.length, in, out;
    int64_t first = V2 ? 2 * i : i, second = V2 ? 2 * i + 1 : i + half;
    real c = (real)load<V1>(a.cosines, position * a.cos_row + i * a.cos_step);
    real s = (real)load<V1>(a.sines, position * a.sin_row + i * a.sin_step), x, y;

    weir__rows_at(&rows, r, &in, &out);
    x = load<V0>(a.in, in + first * rows.in_step);
    y = load<V0>(a.in, in + second * rows.in_step);
    store<V0>(a.out, out + first * rows.out_step, x * c - y * s);
    store<V0>(a.out, out + second * rows.out_step, x * s + y * c);
}

template <typename T, int n> struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Several {
    T at[n];
};

/* Pairs i .. i + n - 1 of row r: both halves are moved in wide accesses. Sizes fit 32 bits. */
template <int n> static __device__ inline void turn_pairs(const weir__rotary &a, uint32_t e)
{
    typedef Several<Type<V0>::store, n> Pairs;
    typedef Several<Type<V1>::store, n> Angles;
    uint32_t half = (uint32_t)a.rows.n / 2, packs = half / n, r = e / packs, i = (e - r * packs) * n;
    uint32_t position = r / (uint32_t)a.heads % (uint32_t)a.length, rest = r;
    int64_t in = i, out = i;

    for (int d = a.rows.ndim - 1; d >= 0; d--) {
        uint32_t next = rest / (uint32_t)a.rows.shape[d];
        int64_t here = rest - next * (uint32_t)a.rows.shape[d];

        in += here * a.rows.in_stride[d];
        out += here * a.rows.out_stride[d];
        rest = next;
    }
    const Type<V0>::store *from = (const Type<V0>::store *)a.in + in;
    Type<V0>::store *to = (Type<V0>::store *)a.out + out;
    Pairs x = *(const Pairs *)from, y = *(const Pairs *)(from + half);
    Angles c = *(const Angles *)((const Type<V1>::store *)a.cosines + position * a.cos_row + i);
    Angles s = *(const Angles *)((const Type<V1>::store *)a.sines + position * a.sin_row + i);

#pragma unroll
    for (int k = 0; k < n; k++) {
        real left = Type<V0>::load(x.at[k]), right = Type<V0>::load(y.at[k]);
        real cosine = (real)Type<V1>::load(c.at[k]), sine = (real)Type<V1>::load(s.at[k]);

        x.at[k] = Type<V0>::pack(left * cosine - right * sine);
        y.at[k] = Type<V0>::pack(left * sine + right * cosine);
    }
    *(Pairs *)to = x;
    *(Pairs *)(to + half) = y;
}

/* Returns how many calls of turn() all threads make together. */
static __device__ inline int64_t turns(const weir__rotary &a)
{
    return a.rows.count * (a.rows.n / 2 / (V3 ? V3 : 1));
}

static __device__ inline void turn(const weir__rotary &a, int64_t e)
{
    if constexpr (V3 != 0)
        turn_pairs<V3>(a, (uint32_t)e);
    else
        turn_pair(a, e, a.rows.n / 2);
}
