/* Cuts large products whose operands are packed once for all cores. */
#include "ops/product/gemm_packed_cut.h"

#include "ops/host/product/gemm_bf16.h"

#define LEAST_CORES 4         /* with fewer, each operand is packed once or twice anyway */
#define LEAST_SIZE 384        /* of m and n; a smaller operand is packed in no time */
#define LEAST_MACS 150000000. /* smaller problems are not worth another phase */
/* Elements of C per core. Larger blocks use what they pack so often that packing it again costs
 * less than writing it to memory and reading it from there. */
#define MOST_PER_CORE 190000.
#define MOST_BYTES (48 << 20)

/* Whether weir__gemm_f32 or _f64 computes the problem, and packs both operands. */
static bool takes_panels(const struct weir__gemm *g)
{
    return weir_dtype_is_float(g->dtype) && !g->dot && !g->thin && !g->pack_b &&
           !weir__gemm_takes_pairs(g) && !weir__gemm_is_thin_pairs(g);
}

static size_t size_of_real(const struct weir__gemm *g)
{
    return g->dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
}

static int64_t up(int64_t n, int64_t unit)
{
    return weir__div_up(n, unit) * unit;
}

size_t weir__packed_scratch(const struct weir__gemm *g, unsigned cores)
{
    const double bytes =
        ((double)up(g->m, WEIR__GEMM_PACKED_ROWS) + (double)up(g->n, WEIR__GEMM_PACKED_COLS)) *
        (double)g->k * (double)size_of_real(g);

    if (cores < LEAST_CORES || !takes_panels(g) || weir__min(g->m, g->n) < LEAST_SIZE ||
        (double)g->m * (double)g->n * (double)g->k < LEAST_MACS ||
        (double)g->m * (double)g->n > MOST_PER_CORE * cores || bytes > MOST_BYTES)
        return 0;
    return (size_t)bytes;
}

void weir__packed_make(struct weir__packed_cut *cut, const struct weir__gemm *g, void *scratch,
                       unsigned cores, struct weir__grid grids[2])
{
    const int64_t wide_m = up(g->m, WEIR__GEMM_PACKED_ROWS);
    const bool f64 = g->dtype == WEIR_F64;

    *cut = (struct weir__packed_cut){
        .pack = f64 ? WEIR__ISA_PICK(weir__gemm_pack_f64) : WEIR__ISA_PICK(weir__gemm_pack_f32),
        .run = f64 ? WEIR__ISA_PICK(weir__gemm_packed_f64) : WEIR__ISA_PICK(weir__gemm_packed_f32),
        .packed = {.a = scratch,
                   .b = (char *)scratch + (size_t)(wide_m * g->k) * size_of_real(g),
                   .wide_m = wide_m,
                   .wide_n = up(g->n, WEIR__GEMM_PACKED_COLS)},
    };
    weir__grid_make_two(&weir__grid_panels, g->m, g->n, g->k, cores, grids);
}

void weir__packed_run(const struct weir__packed_cut *cut, const struct weir__gemm *whole,
                      const struct weir__grid grids[2], const weir_block *block)
{
    const int64_t size = (int64_t)weir_dtype_size(whole->dtype);
    struct weir__gemm_packed packed = cut->packed;
    struct weir__gemm g = *whole;
    struct weir__part part;

    if (block->phase == 0) {
        cut->pack(whole, &packed, block);
        return;
    }
    part = weir__grid_part_of_two(grids, block->index);
    if (part.m.begin >= part.m.end || part.n.begin >= part.n.end)
        return;
    g.m = part.m.end - part.m.begin;
    g.n = part.n.end - part.n.begin;
    g.c += (part.m.begin * g.c_row + part.n.begin * g.c_col) * size;
    if (g.bias)
        g.bias += part.n.begin * g.bias_col * size;
    packed.i = part.m.begin;
    packed.j = part.n.begin;
    cut->run(&g, &packed, block->local);
}
