/* Kernels that use AMX, compiled for a stand-in of it (amx.h): the same sources, under other names.
 */
#ifndef WEIR_TESTS_KERNELS_TILES_H
#define WEIR_TESTS_KERNELS_TILES_H

#ifdef __x86_64__
#define TILES_ARE_BUILT 1
#define WEIR_ISA amx
#define WEIR__ISA_LEVEL_amx WEIR__ISA_V4
#define WEIR__AMX_STAND_IN "kernels/amx.h"
#else
#define TILES_ARE_BUILT 0
#endif

#include "ops/host/conv/conv.h"
#include "ops/host/product/attention.h"
#include "ops/host/product/gemm.h"

void weir__gemm_bf16_amx(const struct weir__gemm *g, void *local);
void weir__gemm_bf16_thin_amx(const struct weir__gemm *g, void *local);
void weir__gemm_part_bf16_amx(const struct weir__gemm *g, int64_t part, void *sums, int64_t step,
                              void *local);
void weir__conv_bf16_amx(const struct weir__conv *c, const struct weir__conv_part *part,
                         void *local);
void weir__attention_bf16_amx(const struct weir__attention *a, int64_t unit, void *local);

#endif
