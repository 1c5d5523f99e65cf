/* out[t] = sum over j of weights[t, j] * rows[places[t, j]], j ascending. V0: type; V1: type of the
 * weights; V2: type of the places; V3: columns that a thread takes at once */
#include "index.cuh"
#include "ops/host/move/experts.h"

typedef Type<V0>::store Store;
typedef Type<V0>::compute Sum;

enum { EACH = 4 }; /* rows whose loads are in flight together */

struct alignas(sizeof(Store) * V3) Pack {
    Store v[V3];
};

extern "C" __global__ void expert_sum(const __grid_constant__ weir__expert_sum a,
                                      weir__code_context c)
{
    await_earlier();
    int64_t packs = a.width / V3, n = a.tokens * packs;

    for (int64_t e = thread_index(); e < n; e += thread_count()) {
        int64_t token = e / packs, column = e % packs * V3;
        Sum sum[V3] = {0};
        Pack made;

        for (int64_t j = 0; j < a.k; j += EACH) {
            Pack x[EACH];
            Sum weight[EACH];

#pragma unroll
            for (int m = 0; m < EACH; m++) {
                if (j + m >= a.k)
                    break;
                int64_t row = read_index<V2>(a.places, token * a.places_row + (j + m) * a.places_step);

                if (!in_range(row, a.limit, c))
                    return;
                x[m] = *(const Pack *)((const Store *)a.rows + row * a.rows_row + column * a.rows_step);
                weight[m] = a.weights ? (Sum)load<V1>(a.weights, token * a.weights_row +
                                                                     (j + m) * a.weights_step)
                                      : (Sum)1;
            }
#pragma unroll
            for (int m = 0; m < EACH; m++) {
                if (j + m >= a.k)
                    break;
#pragma unroll
                for (int i = 0; i < V3; i++)
                    sum[i] += weight[m] * Type<V0>::load(x[m].v[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < V3; i++)
            made.v[i] = Type<V0>::pack(sum[i]);
        *(Pack *)((Store *)a.out + token * a.out_row + column * a.out_step) = made;
    }
}
