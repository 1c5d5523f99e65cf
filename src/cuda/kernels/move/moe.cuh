/* Shared by dispatch and combine of experts. */
#pragma once

#include "index.cuh"
#include "ops/host/part.h"

static __device__ inline int64_t expert_at(const weir__moe_part &a, int rank, int64_t slot)
{
    return a.wide >> rank & 1 ? ((const int64_t *)a.experts[rank])[slot]
                              : ((const int32_t *)a.experts[rank])[slot];
}

static __device__ inline bool is_expert(const weir__moe_part &a, int rank, int64_t slot, int64_t e,
                                        const weir__code_context &c)
{
    if (e >= 0 && e < a.nexperts)
        return true;
    weir__code_report(&c, e, a.nexperts, WEIR__MOE_AT(WEIR__MOE_BAD_EXPERT, rank, slot / a.k));
    return false;
}
