/* AMX's registers as memory and its instructions as functions, after the manual: a product of tiles
 * sums the even and the odd elements of k apart, takes subnormal numbers as zeros, and adds both to
 * what was there. Using a register without a configuration is what the processor refuses too. */
#ifndef WEIR_TESTS_KERNELS_AMX_H
#define WEIR_TESTS_KERNELS_AMX_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

static _Thread_local struct {
    uint32_t at[8][16][16];
    int configured;
} amx_state;

static void amx_begin(void)
{
    amx_state.configured++;
    memset(amx_state.at, 0xff, sizeof amx_state.at); /* NaN until something is loaded */
}

static void amx_end(void)
{
    amx_state.configured--;
}

static void tile_is_there(int tile)
{
    if (amx_state.configured != 1 || tile < 0 || tile >= 8)
        abort();
}

static void tile_load(int tile, const void *from, size_t step)
{
    tile_is_there(tile);
    for (size_t r = 0; r < 16; r++)
        memcpy(amx_state.at[tile][r], (const char *)from + r * step, 64);
}

static void tile_store(int tile, void *to, size_t step)
{
    tile_is_there(tile);
    for (size_t r = 0; r < 16; r++)
        memcpy((char *)to + r * step, amx_state.at[tile][r], 64);
}

static void tile_clear(int tile)
{
    tile_is_there(tile);
    memset(amx_state.at[tile], 0, sizeof amx_state.at[tile]);
}

static float tile_element(uint32_t pair, int odd)
{
    const uint16_t bits = (uint16_t)(odd ? pair >> 16 : pair);

    return bits & 0x7f80 ? weir__bf16_to_f32(bits) : 0;
}

static void tile_dot(int c, int a, int b)
{
    tile_is_there(a);
    tile_is_there(b);
    tile_is_there(c);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float sums[2] = {0, 0}, sum;

            for (int k = 0; k < 16; k++)
                for (int odd = 0; odd < 2; odd++)
                    sums[odd] += tile_element(amx_state.at[a][m][k], odd) *
                                 tile_element(amx_state.at[b][k][n], odd);
            memcpy(&sum, &amx_state.at[c][m][n], sizeof sum);
            sum += sums[0] + sums[1];
            memcpy(&amx_state.at[c][m][n], &sum, sizeof sum);
        }
}

#endif
