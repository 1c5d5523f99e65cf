/* Matrix products of i8, four multiply-adds of bytes at a time. */
#ifndef WEIR_OPS_HOST_GEMM_I8_H
#define WEIR_OPS_HOST_GEMM_I8_H

#include "ops/host/product/gemm.h"

/* Whether the processor adds four products of bytes at once (AVX-512 VNNI), if level v4 is used.
 * WEIR_ISA=v4 disables it. threads  any. */
bool weir__isa_has_bytes(void);

/* Whether weir__gemm_i8 handles the problem. Results equal those of weir__gemm_int. */
static inline bool weir__gemm_takes_bytes(const struct weir__gemm *g)
{
    return g->dtype == WEIR_I8 && !g->pack_b && g->k > 0 && weir__isa_has_bytes();
}

/* local  WEIR_LOCAL_BYTES, 64-byte aligned.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__gemm_i8, (const struct weir__gemm *g, void *local));

#endif
