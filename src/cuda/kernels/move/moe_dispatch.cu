/* Moves tokens' rows to the ranks of their experts. V0: bytes of an element.
 * Phase 0 counts, and computes the first row of each expert and source rank; phase 1 computes the
 * row of each slot; phase 2 copies the rows of this rank's experts. */
#include "moe.cuh"

static __device__ inline void place(const weir__moe_part &a, int owner)
{
    int64_t per = a.nexperts / a.ranks, row = 0;

    for (int64_t e = owner * per; e < (owner + 1) * per; e++) {
        int64_t before = row;

        for (int r = 0; r < a.ranks; r++) {
            int64_t *start = &a.starts[r * a.nexperts + e], n = *start;

            *start = row;
            row += n;
        }
        if (owner == a.rank)
            a.counts[e - owner * per] = row - before;
    }
    if (owner == a.rank)
        a.routes[a.capacity].token = row;
}

static __device__ inline void count(const weir__moe_part &a, const weir__code_context &c)
{
    int64_t *nrows = &a.routes[a.capacity].token;
    int bad = 0;

    for (int64_t i = threadIdx.x; i < a.ranks * a.nexperts; i += blockDim.x)
        a.starts[i] = 0;
    __syncthreads();
    for (int r = 0; r < a.ranks; r++)
        for (int64_t i = threadIdx.x; i < a.rows[r] * a.k; i += blockDim.x) {
            int64_t e = expert_at(a, r, i);

            if (is_expert(a, r, i, e, c))
                atomicAdd((unsigned long long *)&a.starts[r * a.nexperts + e], 1ull);
            else
                bad = 1;
        }
    bad = __syncthreads_or(bad);
    for (int owner = threadIdx.x; owner < a.ranks; owner += blockDim.x)
        place(a, owner);
    __syncthreads();
    if (threadIdx.x)
        return;
    if (*nrows > a.capacity) {
        weir__code_report(&c, *nrows, a.capacity, WEIR__MOE_AT(WEIR__MOE_NO_ROOM, a.rank, 0));
        bad = 1;
    }
    if (bad)
        *nrows = -1;
}

/* A warp processes the slots of one rank for one expert, in order. */
static __device__ inline void route(const weir__moe_part &a)
{
    int64_t per = a.nexperts / a.ranks, warps = thread_count() / 32;
    int lane = threadIdx.x % 32;

    for (int64_t pair = thread_index() / 32; pair < a.ranks * a.nexperts; pair += warps) {
        int r = (int)(pair / a.nexperts);
        int64_t e = pair % a.nexperts, row = a.starts[pair], n = a.rows[r] * a.k;
        bool mine = e / per == a.rank, here = r == a.rank;

        for (int64_t from = 0; (mine || here) && from < n; from += 32) {
            int64_t slot = from + lane;
            bool is = slot < n && expert_at(a, r, slot) == e;
            unsigned all = __ballot_sync(~0u, is);
            int64_t at = row + __popc(all & ((1u << lane) - 1));

            if (is && here)
                a.positions[slot] = (int32_t)at;
            if (is && mine) {
                a.routes[at].rank = r;
                a.routes[at].token = slot / a.k;
            }
            row += __popc(all);
        }
    }
}

template <typename T>
static __device__ inline void move_row(char *to, const char *from, int64_t bytes)
{
    for (int64_t i = threadIdx.x; i < bytes / (int64_t)sizeof(T); i += blockDim.x)
        ((T *)to)[i] = ((const T *)from)[i];
}

static __device__ inline void move(const weir__moe_part &a, int64_t nrows)
{
    int64_t bytes = a.hidden * V0;

    for (int64_t i = blockIdx.x; i < nrows; i += gridDim.x) {
        char *to = a.out + i * bytes;
        const char *from = a.x[a.routes[i].rank] + a.routes[i].token * bytes;

        if (((uint64_t)to | (uint64_t)from | (uint64_t)bytes) % 16)
            move_row<Word<V0>::type>(to, from, bytes);
        else
            move_row<uint4>(to, from, bytes);
    }
}

extern "C" __global__ void moe_dispatch(const __grid_constant__ weir__moe_part a,
                                        weir__code_context c)
{
    await_earlier();
    if (c.phase == 0)
        count(a, c);
    else if (a.routes[a.capacity].token < 0)
        return;
    else if (c.phase == 1)
        route(a);
    else
        move(a, a.routes[a.capacity].token);
}
