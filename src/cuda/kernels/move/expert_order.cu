/* Entries in the order of their experts, those of one expert as they stand. V0: type of experts.
 *
 * A warp has an expert: it counts the entries of experts before it and of its own, then goes over
 * them again and places its own. No warp waits for another. */
#include "index.cuh"
#include "ops/host/move/experts.h"

enum { EACH = 4 };

/* Entries first + lane, first + 32 + lane, ...; n for those that are none. */
static __device__ inline void read_some(const weir__expert_order &a, int64_t first, int64_t *e)
{
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int64_t i = first + 32 * k + threadIdx.x % 32;

        e[k] = i < a.m ? read_index<V0>(a.experts, i * a.experts_step) : a.n;
    }
}

static __device__ inline int64_t count(const weir__expert_order &a, int64_t expert, int64_t *before,
                                       const weir__code_context &c)
{
    int64_t own = 0, bad = 0;

    *before = 0;
    for (int64_t first = 0; first < a.m; first += 32 * EACH) {
        int64_t e[EACH];

        read_some(a, first, e);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            *before += __popc(__ballot_sync(~0u, e[k] < expert));
            own += __popc(__ballot_sync(~0u, e[k] == expert));
            if (e[k] < 0 || (e[k] >= a.n && first + 32 * k + threadIdx.x % 32 < a.m))
                bad = e[k];
        }
    }
    if (expert == 0)
        in_range(bad, a.n, c);
    return __any_sync(~0u, bad != 0) ? -1 : own;
}

extern "C" __global__ void expert_order(const __grid_constant__ weir__expert_order a,
                                        weir__code_context c)
{
    await_earlier();
    int64_t warps = thread_count() / 32;

    for (int64_t expert = thread_index() / 32; expert < a.n; expert += warps) {
        int64_t at, own = count(a, expert, &at, c);
        unsigned lane = threadIdx.x % 32;

        if (own < 0)
            return;
        if (lane == 0)
            a.ends[expert * a.ends_step] = (int32_t)(at + own);
        for (int64_t first = 0; own && first < a.m; first += 32 * EACH) {
            int64_t e[EACH];

            read_some(a, first, e);
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                unsigned mine = __ballot_sync(~0u, e[k] == expert);
                int64_t i = first + 32 * k + lane, to = at + __popc(mine & ((1u << lane) - 1));

                if (mine >> lane & 1) {
                    a.order[to * a.order_step] = (int64_t)((uint32_t)i / (uint32_t)a.k);
                    a.places[i * a.places_step] = to;
                }
                at += __popc(mine);
            }
        }
    }
}
