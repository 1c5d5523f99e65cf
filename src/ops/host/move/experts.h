/* Rows of a mixture of experts: their order, and the weighted sum of the experts' results. */
#ifndef WEIR_OPS_HOST_EXPERTS_H
#define WEIR_OPS_HOST_EXPERTS_H

#include "ops/host/isa.h"
#include "weir/launch.h"

/* Sorts entries by expert; entries of one expert keep their order. Steps are in elements. */
struct weir__expert_order {
    const char *experts;
    int64_t *order, *places;
    int32_t *ends;
    weir_dtype index_type;
    int64_t m, n, k; /* entries, experts, and the divisor of entry numbers */
    int64_t experts_step, order_step, places_step, ends_step;
};

/* The largest number of experts: their counts must fit local memory. */
#define WEIR__EXPERTS_MAX ((int64_t)1 << 16)

/* out[t] = sum over j of weights[t, j] * rows[places[t, j]], j ascending, rounded once. */
struct weir__expert_sum {
    const char *rows, *places;
    const char *weights; /* NULL: all 1 */
    char *out;
    weir_dtype dtype, weight_type, index_type;
    int64_t tokens, k, width, limit; /* limit: number of rows */
    int64_t rows_row, rows_step, places_row, places_step, weights_row, weights_step, out_row,
        out_step;
};

/* Block functions; their arguments are the structs above. WEIR_ERANGE for an expert or a place
 * that is out of range. */
WEIR__ISA_DECLARE(weir_status, weir__expert_order_kernel,
                  (const void *args, const weir_block *block));
WEIR__ISA_DECLARE(weir_status, weir__expert_sum_kernel,
                  (const void *args, const weir_block *block));

#endif
