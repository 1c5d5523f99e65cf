/* The kernel of convolution that multiplies bf16 in tiles, as weir__conv_bf16_amx. */
#include "kernels/tiles.h"

#if TILES_ARE_BUILT
#include "ops/host/conv/conv_bf16.c"
#endif
