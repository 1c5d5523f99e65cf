/* Steps through groups of dims; reads indices, and reports one that is out of range. */
#pragma once

#include "kernel.cuh"
#include "report.cuh"
#include "ops/host/move/index.h"

/* i / n and the remainder. A 32-bit division takes a fifth of the time of a 64-bit one. */
static __device__ inline int64_t quotient(int64_t i, int64_t n, int64_t *rest)
{
    int64_t q = (uint64_t)(i | n) >> 32 ? i / n : (int64_t)((uint32_t)i / (uint32_t)n);

    *rest = i - q * n;
    return q;
}

static __device__ inline int64_t offset(const weir__steps &s, int which, int64_t i)
{
    int64_t at = 0, here;

    if (s.ndim == 1)
        return i * s.stride[which][0];
    for (int d = s.ndim - 1; d >= 0; d--) {
        i = quotient(i, s.shape[d], &here);
        at += here * s.stride[which][d];
    }
    return at;
}

/* The same in three tensors. */
static __device__ inline void offsets(const weir__steps &s, int64_t i, int64_t *at)
{
    at[0] = at[1] = at[2] = 0;
    for (int d = s.ndim - 1; d >= 0; d--) {
        int64_t here = i;

        if (d)
            i = quotient(i, s.shape[d], &here);
        for (int k = 0; k < 3; k++)
            at[k] += here * s.stride[k][d];
    }
}

template <int type> static __device__ inline int64_t read_index(const char *index, int64_t at)
{
    return (int64_t)((const typename Type<type>::store *)index)[at];
}

/* True if the index is in range; otherwise reports the failure. */
static __device__ inline bool in_range(int64_t index, int64_t limit, const weir__code_context &c)
{
    if (index >= 0 && index < limit)
        return true;
    weir__code_report(&c, index, limit, 0);
    return false;
}
