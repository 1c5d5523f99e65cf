/* Tiles of pairs.h with AMX. With WEIR__AMX_STAND_IN, which a test defines, the registers are
 * memory and the instructions are functions, so that everything except the instructions can be
 * tested on any machine. */
#ifndef WEIR_OPS_HOST_PAIRS_AMX_H
#define WEIR_OPS_HOST_PAIRS_AMX_H

#ifdef WEIR__AMX_STAND_IN
#include WEIR__AMX_STAND_IN
#define TARGET_AMX
#else
#define TARGET_AMX __attribute__((target("amx-tile,amx-bf16")))
#define tile_load _tile_loadd
#define tile_store _tile_stored
#define tile_clear _tile_zero
#define tile_dot _tile_dpbf16ps

/* Configures eight registers of 16 rows of 64 bytes. */
static TARGET_AMX void amx_begin(void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    /* gcc 12 optimises as if _tile_loadconfig read only the first bytes */
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

static TARGET_AMX void amx_end(void)
{
    _tile_release();
}
#endif

static inline bool uses_amx(void)
{
#ifdef WEIR__AMX_STAND_IN
    return true;
#else
    return weir__isa_best_pairs() == WEIR__ISA_AMX;
#endif
}

/* Call it between amx_begin and amx_end. */
static TARGET_AMX void amx_tile(const struct pair_tile *t)
{
    const size_t a_step = (size_t)t->a_step * sizeof *t->a, b_step = PANEL * sizeof *t->b;
    const size_t c_step = (size_t)t->c_step * sizeof *t->c;
    const uint16_t *a = t->a;
    const uint32_t *b = t->b;
    float *c = t->c, *low = c + PANEL * t->c_step;

    __asm__ volatile("" : : : "memory"); /* gcc 12 does not know that _tile_loadd reads memory */
    if (t->add) {
        tile_load(0, c, c_step);
        tile_load(1, c + PANEL, c_step);
        tile_load(2, low, c_step);
        tile_load(3, low + PANEL, c_step);
    } else {
        tile_clear(0);
        tile_clear(1);
        tile_clear(2);
        tile_clear(3);
    }
    for (int64_t k = 0; k < t->k; k += UNIT) {
        tile_load(4, a + k, a_step);
        tile_load(6, b + k / 2 * PANEL, b_step);
        tile_dot(0, 4, 6);
        tile_load(7, b + t->b_next + k / 2 * PANEL, b_step);
        tile_dot(1, 4, 7);
        tile_load(5, a + PANEL * t->a_step + k, a_step);
        tile_dot(2, 5, 6);
        tile_dot(3, 5, 7);
    }
    tile_store(0, c, c_step);
    tile_store(1, c + PANEL, c_step);
    tile_store(2, low, c_step);
    tile_store(3, low + PANEL, c_step);
    __asm__ volatile("" : : : "memory");
}

#endif
