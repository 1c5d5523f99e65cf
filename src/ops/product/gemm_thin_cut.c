/* Cuts products of few rows along k. */
#include "ops/product/gemm_thin_cut.h"

#include "ops/host/product/gemm_bf16.h"

#define SHORT_ROW 8192  /* bytes of a row per core; longer pieces need no such cut */
#define SMALL (1 << 20) /* bytes; smaller matrices are not worth two phases */
#define PIECE 512       /* least bytes of a row that a block reads */
#define BLOCKS_A_CORE 2 /* so that other cores can help a late one */

static int64_t parts_of(const struct weir__gemm *g)
{
    return weir__div_up(g->k, weir__gemm_part(g->k));
}

size_t weir__thin_scratch(const struct weir__gemm *g, unsigned cores)
{
    const int64_t row = g->n * (int64_t)weir_dtype_size(g->dtype);

    if (!(g->thin || weir__gemm_is_thin_pairs(g)) || cores == 1 || row * g->k < SMALL ||
        row >= (int64_t)cores * SHORT_ROW || parts_of(g) == 1)
        return 0;
    return (size_t)(parts_of(g) * g->m * g->n) * weir__thin_sum_size(g->dtype);
}

void weir__thin_make(struct weir__thin_cut *cut, const struct weir__gemm *g, void *scratch,
                     unsigned cores)
{
    const int64_t row = g->n * (int64_t)weir_dtype_size(g->dtype);
    const unsigned blocks =
        weir__tile_blocks(row * g->k / WEIR__TILE_BYTES_PER_NS, BLOCKS_A_CORE * (int64_t)cores,
                          BLOCKS_A_CORE * cores);
    const int64_t wanted = weir__div_up((int64_t)blocks, parts_of(g));

    *cut = (struct weir__thin_cut){
        .sums = scratch,
        .parts = parts_of(g),
        .pieces = weir__max(1, weir__min(wanted, row / PIECE)),
    };
    if (g->dtype == WEIR_F64) {
        cut->part = WEIR__ISA_PICK(weir__gemm_part_f64);
        cut->join = WEIR__ISA_PICK(weir__gemm_join_f64);
    } else {
        cut->part = weir__gemm_is_thin_pairs(g) ? WEIR__ISA_PICK(weir__gemm_part_bf16)
                                                : WEIR__ISA_PICK(weir__gemm_part_f32);
        cut->join = WEIR__ISA_PICK(weir__gemm_join_f32);
    }
}

struct weir__range weir__thin_columns(const struct weir__thin_cut *cut, int64_t n, unsigned index)
{
    const weir_block piece = {.index = (unsigned)(index % cut->pieces),
                              .count = (unsigned)cut->pieces};

    return weir__tile_range(n, 64, &piece);
}

/* Phase 0: a part of k of a piece of the columns. Phase 1: adds up all parts for a stretch of the
 * columns. */
void weir__thin_run(const struct weir__thin_cut *cut, const struct weir__gemm *whole,
                    const weir_block *block)
{
    const int64_t size = (int64_t)weir_dtype_size(whole->dtype);
    const int64_t sum_size = (int64_t)weir__thin_sum_size(whole->dtype);
    const int64_t next = whole->m * whole->n;
    const bool joins = block->phase == 1;
    const struct weir__range columns = joins ? weir__tile_range(whole->n, 16, block)
                                             : weir__thin_columns(cut, whole->n, block->index);
    struct weir__gemm g = *whole;
    char *sums = cut->sums + columns.begin * sum_size;

    if (columns.begin >= columns.end)
        return;
    g.n = columns.end - columns.begin;
    g.b += columns.begin * g.b_col * size;
    g.c += columns.begin * g.c_col * size;
    if (g.bias)
        g.bias += columns.begin * g.bias_col * size;
    if (joins) {
        cut->join(&g, sums, cut->parts, whole->n, next, block->local);
    } else {
        const int64_t part = block->index / cut->pieces;

        cut->part(&g, part, sums + part * next * sum_size, whole->n, block->local);
    }
}
