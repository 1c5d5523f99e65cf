/* Steps through groups of dims, indices, and what to say of one that is out of range. */
#pragma once

#include "kernel.cuh"
#include "report.cuh"
#include "ops/host/move/index.h"

static __device__ inline int64_t offset(const weir__steps &s, int which, int64_t i)
{
    int64_t at = 0;

    if (s.ndim == 1)
        return i * s.stride[which][0];
    for (int d = s.ndim - 1; d >= 0; d--) {
        at += i % s.shape[d] * s.stride[which][d];
        i /= s.shape[d];
    }
    return at;
}

template <int type> static __device__ inline int64_t read_index(const char *index, int64_t at)
{
    return (int64_t)((const typename Type<type>::store *)index)[at];
}

/* True if the index is one; else the failure is noted. */
static __device__ inline bool in_range(int64_t index, int64_t limit, const weir__code_context &c)
{
    if (index >= 0 && index < limit)
        return true;
    weir__code_report(&c, index, limit, 0);
    return false;
}
