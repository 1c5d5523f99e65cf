/* The kernel of attention in tiles, as weir__attention_bf16_amx. */
#include "kernels/tiles.h"

#if TILES_ARE_BUILT
#include "ops/host/product/attention_bf16.c"
#endif
