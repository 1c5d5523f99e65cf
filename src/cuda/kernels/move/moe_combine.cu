/* Sums the experts' rows of each token, weighted, in the order of the slots. V0: type of the rows;
 * V1: type of the weights */
#include "moe.cuh"

typedef Type<V0>::compute value;

/* The address of the slot's row on its rank; NULL if the slot has no row. */
static __device__ inline const char *find_row(const weir__moe_part &a, int64_t slot,
                                              const weir__code_context &c)
{
    int64_t e = expert_at(a, a.rank, slot), row = a.positions[slot];
    int owner;

    if (!is_expert(a, a.rank, slot, e, c))
        return NULL;
    owner = (int)(e / (a.nexperts / a.ranks));
    if (row >= 0 && row < a.rows[owner])
        return a.x[owner] + row * a.hidden * (int64_t)sizeof(Type<V0>::store);
    weir__code_report(&c, row, a.rows[owner], WEIR__MOE_AT(WEIR__MOE_BAD_POSITION, owner, slot / a.k));
    return NULL;
}

extern "C" __global__ void moe_combine(const __grid_constant__ weir__moe_part a,
                                       weir__code_context c)
{
    await_earlier();
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x)
        for (int64_t h = threadIdx.x; h < a.hidden; h += blockDim.x) {
            value sum = 0;

            for (int64_t slot = t * a.k; slot < (t + 1) * a.k; slot++) {
                const char *row = find_row(a, slot, c);

                if (!row)
                    return;
                sum += (value)load<V1>(a.weights, slot) * load<V0>(row, h);
            }
            store<V0>(a.out, t * a.hidden + h, sum);
        }
}
