/* The kernel that multiplies bf16 in tiles, as weir__gemm_bf16_amx. */
#include "kernels/tiles.h"

#if TILES_ARE_BUILT
#include "ops/host/product/gemm_bf16.c"
#endif
