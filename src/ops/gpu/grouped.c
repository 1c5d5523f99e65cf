/* Products of groups on a GPU. Only the device knows how many tiles each group has: the blocks loop
 * over all tiles, and find the group of each tile from the groups' ends. */
#include "ops/host/product/grouped.h"

#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"

#define TILE 64 /* rows and columns of a tile of grouped.cu */
#define DEPTH 64

/* An upper bound of the number of tiles, roughly. There is always one block, to check the ends. */
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

/* Rows of a tile: as many as groups of equal size would have, so that few padding rows are
 * computed. */
static int64_t tile_rows(const struct weir__grouped *g)
{
    int64_t rows = g->gemm.m;

    if (g->along == WEIR__GROUPED_DEPTH)
        return rows <= 64 ? 64 : 128;
    rows /= weir__max(1, g->groups);
    return rows <= 16 ? 16 : rows <= 96 ? 64 : 128;
}

/* Describes the tiles that the GPU's copy unit fetches: rows of a, and the rows of k of each
 * group's b. */
static bool tile_operands(const struct weir__grouped *g, struct weir__code_tiled *t)
{
    const struct weir__gemm *p = &g->gemm;
    const int64_t most = (int64_t)INT32_MAX * 16;

    t[0] = (struct weir__code_tiled){
        .data = p->a, .row_bytes = p->m > 1 ? p->a_row * 2 : 16, .rows = p->m, .columns = p->k};
    t[1] = (struct weir__code_tiled){.data = p->b,
                                     .row_bytes = p->b_col * 2,
                                     .reach = (g->groups - 1) * g->b_group * 2,
                                     .rows = p->n,
                                     .columns = p->k};
    return g->along == WEIR__GROUPED_ROWS && p->b_row == 1 && t[0].row_bytes > 0 &&
           t[0].row_bytes < most && t[1].row_bytes > 0 && t[1].row_bytes < most &&
           t[1].reach >= 0 && t[1].reach < most;
}

static void tiles_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__grouped *g = args;
    struct weir__code_tiled t[WEIR__CODE_TILED];
    int64_t rows = tile_rows(g), columns = 128, stages = rows == 16 ? 4 : 3;
    bool fetched = l->arch == 90 && rows > 16 && tile_operands(g, t);

    if (fetched) {
        columns = rows == 64 ? 256 : 128;
        stages = rows == 64 ? 5 : 6;
    }
    (void)phase;
    l->variant[0] = (uint8_t)g->gemm.dtype;
    l->variant[1] = (uint8_t)g->along;
    l->variant[2] = (uint8_t)g->end_type;
    l->variant[3] = (uint8_t)(rows / 16);
    l->variant[4] = g->gemm.b_col != 1;
    l->variant[5] = (uint8_t)stages;
    l->variant[6] = (uint8_t)(columns / 64);
    l->variant[7] = fetched;
    l->threads = fetched ? 288 : 256; /* the last warp fetches */
    l->shared = (uint32_t)(1280 + stages * (rows + columns) * DEPTH * 2);
    weir__gpu_spread(weir__max(1, most_tiles(g, rows, columns)), cores,
                     fetched      ? 1
                     : rows == 16 ? 3
                                  : 2,
                     l);
}

static int tiles_tiled(const void *args, const struct weir__code_launch *l,
                       struct weir__code_tiled *tiled)
{
    if (!l->variant[7])
        return 0;
    (void)tile_operands(args, tiled);
    tiled[0].tile_rows = l->variant[3] * 16u;
    tiled[1].tile_rows = 128;
    return 2;
}

static const struct weir__code tiles = {.text = "grouped_tiles",
                                        .fails = true,
                                        .contract = true,
                                        .shape = tiles_shape,
                                        .tiled = tiles_tiled};

static bool by_eights(int64_t a, int64_t b, int64_t c)
{
    return a % 8 == 0 && b % 8 == 0 && c % 8 == 0;
}

/* Whether rows of a, and rows or columns of b, consist of aligned chunks of 16 bytes. */
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
