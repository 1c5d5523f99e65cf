/* Products of groups on a GPU. How many tiles each group has is known only there: the blocks go
 * round all of them, and find the group of each from where the groups end. */
#include "ops/host/product/grouped.h"

#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"

#define TILE 64     /* rows and columns of grouped.cu, */
#define COLUMNS 128 /* and columns of grouped_tiles.cu */
#define DEPTH 64

/* As many tiles as there may be, roughly. One block is there in any case, to check the ends. */
static int64_t most_tiles(const struct weir__grouped *g, int64_t rows, int64_t columns)
{
    int64_t down = weir__div_up(g->gemm.m, rows), across = weir__div_up(g->gemm.n, columns);

    if (g->along == WEIR__GROUPED_ROWS)
        return (down + weir__min(g->groups, g->gemm.m)) * across;
    if (g->along == WEIR__GROUPED_COLUMNS)
        return down * (across + weir__min(g->groups, g->gemm.n));
    return down * across * g->groups;
}

static void plain_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__grouped *g = args;

    (void)phase;
    l->variant[0] = (uint8_t)g->gemm.dtype;
    l->variant[1] = (uint8_t)g->along;
    l->variant[2] = (uint8_t)g->end_type;
    l->threads = 256;
    weir__gpu_spread(weir__max(1, most_tiles(g, TILE, TILE)), cores, 4, l);
}

static const struct weir__code plain = {
    .text = "grouped", .fails = true, .contract = true, .shape = plain_shape};

/* ---- on tensor cores ---- */

/* Rows of a tile: what groups of one size would have, so that few are computed for nothing. */
static int64_t tile_rows(const struct weir__grouped *g)
{
    int64_t rows = g->gemm.m;

    if (g->along == WEIR__GROUPED_DEPTH)
        return rows <= 64 ? 64 : 128;
    rows /= weir__max(1, g->groups);
    return rows <= 16 ? 16 : rows <= 96 ? 64 : 128;
}

static void tiles_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__grouped *g = args;
    int64_t rows = tile_rows(g), stages = rows == 16 ? 4 : 3;

    (void)phase;
    l->variant[0] = (uint8_t)g->gemm.dtype;
    l->variant[1] = (uint8_t)g->along;
    l->variant[2] = (uint8_t)g->end_type;
    l->variant[3] = (uint8_t)(rows / 16);
    l->variant[4] = g->gemm.b_col != 1;
    l->variant[5] = (uint8_t)stages;
    l->threads = 256;
    l->shared = (uint32_t)(1024 + stages * (rows + COLUMNS) * DEPTH * 2);
    weir__gpu_spread(weir__max(1, most_tiles(g, rows, COLUMNS)), cores, rows == 16 ? 3 : 2, l);
}

static const struct weir__code tiles = {
    .text = "grouped_tiles", .fails = true, .contract = true, .shape = tiles_shape};

static bool by_eights(int64_t a, int64_t b, int64_t c)
{
    return a % 8 == 0 && b % 8 == 0 && c % 8 == 0;
}

/* Whether whole chunks of 16 bytes can be fetched: rows of a, and rows or columns of b. */
static bool fits_tiles(const struct weir__grouped *g)
{
    const struct weir__gemm *p = &g->gemm;
    const int64_t most = INT32_MAX / 2;

    if ((p->dtype != WEIR_F16 && p->dtype != WEIR_BF16) || p->c_col != 1 || p->m > most ||
        p->n > most || p->k > most || !p->k ||
        ((uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c) & 15 ||
        !by_eights(p->n, p->c_row, g->c_group))
        return false;
    if (g->along == WEIR__GROUPED_ROWS)
        return p->a_col == 1 && by_eights(p->a_row, p->k, g->b_group) &&
               (p->b_col == 1 ? p->b_row % 8 == 0 : p->b_row == 1 && p->b_col % 8 == 0);
    return g->along == WEIR__GROUPED_DEPTH && p->a_row == 1 && p->b_col == 1 &&
           by_eights(p->m, p->a_col, p->b_row);
}

const struct weir__code *weir__gpu_grouped(const struct weir__grouped *g)
{
    return fits_tiles(g) ? &tiles : &plain;
}
