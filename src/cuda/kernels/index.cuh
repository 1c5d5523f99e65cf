/* Steps through groups of dims, indices, and what to say of one that is out of range. */
#pragma once

#include "device/code.h"
#include "kernel.cuh"
#include "ops/host/index.h"

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

/* Notes a failure for the host. */
static __device__ inline void report(int64_t index, int64_t limit, int64_t at,
                                     const weir__code_context &c)
{
    unsigned long long n = atomicAdd((unsigned long long *)c.nfailures, 1ull);
    weir__code_failure *f = &c.failures[n % WEIR__CODE_FAILURES];

    f->where = c.where;
    f->index = index;
    f->limit = limit;
    f->at = at;
    __threadfence_system();
    *(volatile uint64_t *)&f->ready = n + 1;
}

/* True if the index is one; else the failure is noted. */
static __device__ inline bool in_range(int64_t index, int64_t limit, const weir__code_context &c)
{
    if (index >= 0 && index < limit)
        return true;
    report(index, limit, 0, c);
    return false;
}
