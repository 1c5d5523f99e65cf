/* Decides which products of bf16 are multiplied by pairs, besides those of
 * weir__gemm_takes_pairs. */
#ifndef WEIR_OPS_HOST_GEMM_BF16_H
#define WEIR_OPS_HOST_GEMM_BF16_H

#include "ops/host/product/gemm.h"

#define WEIR__GEMM_THIN_PAIRS 12 /* rows */

/* A few rows times a row-major matrix [k, n]. Decided for a whole problem, so that its parts
 * agree. */
static inline bool weir__gemm_is_thin_pairs(const struct weir__gemm *g)
{
    return g->dtype == WEIR_BF16 && !g->pack_b && !g->dot && g->k > 0 && g->m > 1 &&
           g->m <= WEIR__GEMM_THIN_PAIRS && g->b_col == 1 && g->n >= 64 &&
           weir__isa_best_pairs() != WEIR__ISA_NO_PAIRS;
}

/* For these problems and parts of them. local WEIR_LOCAL_BYTES, 64-byte aligned.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__gemm_bf16_thin, (const struct weir__gemm *g, void *local));

#endif
