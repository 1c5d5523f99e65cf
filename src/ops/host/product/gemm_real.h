/* Matrix multiplication for one compute type; included by gemm_f32.c and
 * gemm_f64.c. The cut:
 *
 *   blocks of C                       what fits local memory
 *     chunks of KC of k               packed B
 *       bands of MB rows              packed A: these two parts
 *         stripes of NB columns       stay in the second-level cache,
 *           panels of MR rows         this part of A in the first-level cache,
 *             tiles of MR x NR        and these in registers
 */
#include "base/base.h"
#include "ops/host/product/gemm.h"
#include "ops/host/product/gemm_dot.h"

enum {
    KC = CHUNK,
    MB = 256,
    NB = 96,
    NC_IN_C = 1536,                       /* if C itself holds the sums between chunks */
    MC_SUMS = (int)(1920 / sizeof(real)), /* if local memory does */
    NC_SUMS = 768,
};
_Static_assert((MB + NC_IN_C) * KC * sizeof(real) <= WEIR_LOCAL_BYTES, "packed operands");
_Static_assert(((MB + NC_SUMS) * KC + MC_SUMS * NC_SUMS) * sizeof(real) <= WEIR_LOCAL_BYTES,
               "packed operands and sums");
_Static_assert(((MB + WEIR__GEMM_PACKED_N + NR) * KC + MC_SUMS * (WEIR__GEMM_PACKED_N + NR)) *
                           sizeof(real) <=
                       WEIR__GEMM_PACKED_BYTES &&
                   (MB + 2 * WEIR__GEMM_PACKED_N + NR) * KC * sizeof(real) <=
                       WEIR__GEMM_PACKED_BYTES,
               "few columns that are packed");
_Static_assert(MB % MR == 0 && MC_SUMS % MR == 0 && NB % NR == 0, "whole panels");
_Static_assert(NC_IN_C % NR == 0 && NC_SUMS % NR == 0, "whole panels");

/* A block of C and the current chunk of k. */
struct block {
    const struct weir__gemm *g;
    int64_t i0, j0, m, n;
    int64_t band; /* first packed row of A */
    real *a, *b;
    const real *b_direct; /* the chunk of B in place; NULL if it must be packed */
    real *sums;           /* one tile after another; NULL if C holds the sums */
    int64_t kn;
    bool first, last; /* chunk */
};

static void add_bias(const struct weir__gemm *g, real *c, int64_t ldc, int64_t i, int64_t j,
                     int64_t rows, int64_t cols)
{
    const int64_t size = (int64_t)weir_dtype_size(g->dtype);
    const char *at = g->bias + (i * g->bias_row + j * g->bias_col) * size;

    for (int64_t r = 0; r < rows; r++, c += ldc) {
        const real same = load_one(at, r * g->bias_row, g->dtype);

        if (g->bias_col)
            for (int64_t q = 0; q < cols; q++)
                c[q] += load_one(at, r * g->bias_row + q * g->bias_col, g->dtype);
        else
            for (int64_t q = 0; q < cols; q++)
                c[q] += same;
    }
}

static void run_tile(const struct block *s, int64_t i, int64_t j)
{
    const struct weir__gemm *g = s->g;
    const int64_t rows = weir__min(MR, s->m - i), cols = weir__min(NR, s->n - j);
    const int64_t size = (int64_t)weir_dtype_size(g->dtype);
    char *out = g->c + ((s->i0 + i) * g->c_row + (s->j0 + j) * g->c_col) * size;
    _Alignas(64) real edge[MR * NR];
    const real *b = s->b + j * s->kn;
    real *c = edge;
    int64_t ldb = NR, ldc = NR;
    bool in_place = false;

    if (s->sums) {
        c = s->sums + i * weir__div_up(s->n, NR) * NR + j * MR;
    } else if (tile_rows(rows) == rows && tile_cols(cols) == cols) {
        c = (real *)out;
        ldc = g->c_row;
        in_place = true;
        /* prefetches the next tile's part of C: its stores would otherwise wait for it */
        for (int64_t r = 0; r < rows; r++)
            for (int v = 0; v < NV; v++)
                __builtin_prefetch(c + r * ldc + NR + v * LANES, 1);
    } else if (!s->first) {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t q = 0; q < cols; q++)
                edge[r * NR + q] = ((const real *)out)[r * g->c_row + q];
    }
    if (s->b_direct && tile_cols(cols) == cols) {
        b = s->b_direct + j;
        ldb = g->b_row;
    }
    panel_tile(rows, cols, s->kn, s->a + (i - s->band) * s->kn, b, ldb, NULL, c, ldc, !s->first);
    if (s->last && g->bias)
        add_bias(g, c, ldc, s->i0 + i, s->j0 + j, rows, cols);
    if (!in_place && (s->last || !s->sums))
        for (int64_t r = 0; r < rows; r++)
            store_row(out + r * g->c_row * size, g->c_col, g->dtype, c + r * ldc, cols);
}

/* Packing B pays if it is used often, unless all of B stays in the cache anyway. */
static bool reads_b_directly(const struct block *s)
{
    const struct weir__gemm *g = s->g;

    return !g->pack_b && g->b_col == 1 && g->dtype == REAL_DTYPE &&
           (s->m <= 2 * MR || g->k * s->n * (int64_t)sizeof(real) <= 1 << 19);
}

/* Packs columns j .. stop of the chunk of B that begins at k. */
static void pack_stripe(const struct block *s, int64_t k, int64_t j, int64_t stop)
{
    const struct weir__gemm *g = s->g;
    const int64_t size = (int64_t)weir_dtype_size(g->dtype);

    for (; j < stop; j += NR) {
        const int64_t cols = weir__min(NR, stop - j);
        real *dst = s->b + j * s->kn;

        if (s->b_direct && cols == tile_cols(cols))
            continue;
        if (g->pack_b)
            g->pack_b(g->pack_source, dst, NR, k, s->kn, s->j0 + j, cols);
        else
            pack_cols(dst, cols, s->kn, g->b + (k * g->b_row + (s->j0 + j) * g->b_col) * size,
                      g->b_col, g->b_row, g->dtype);
    }
}

static void run_block(struct block *s)
{
    const struct weir__gemm *g = s->g;
    const int64_t size = (int64_t)weir_dtype_size(g->dtype);
    int64_t k = 0;

    do { /* at least once: with k = 0, C is the bias */
        s->kn = weir__min(KC, g->k - k);
        s->first = k == 0;
        s->last = k + s->kn == g->k;
        s->b_direct = reads_b_directly(s) ? (const real *)g->b + k * g->b_row + s->j0 : NULL;
        for (s->band = 0; s->band < s->m; s->band += MB) {
            int64_t end = weir__min(s->m, s->band + MB);

            pack_rows(s->a, end - s->band, s->kn,
                      g->a + ((s->i0 + s->band) * g->a_row + k * g->a_col) * size, g->a_row,
                      g->a_col, g->dtype);
            for (int64_t stripe = 0; stripe < s->n; stripe += NB) {
                int64_t stop = weir__min(s->n, stripe + NB);

                /* right before its first use, so that it is still in the cache */
                if (s->band == 0)
                    pack_stripe(s, k, stripe, stop);
                for (int64_t i = s->band; i < end; i += MR)
                    for (int64_t j = stripe; j < stop; j += NR)
                        run_tile(s, i, j);
            }
        }
        k += s->kn;
    } while (k < g->k);
}

/* The size of equal parts of n, as few as possible, of at most `max` each. */
static int64_t even_part(int64_t n, int64_t max, int64_t unit)
{
    int64_t part = weir__div_up(n, weir__max(1, weir__div_up(n, max)));

    return weir__div_up(part, unit) * unit;
}

static void gemm(const struct weir__gemm *g, void *local)
{
    const bool in_c = g->c_col == 1 && g->dtype == REAL_DTYPE;
    const int64_t mc = in_c ? g->m : even_part(g->m, MC_SUMS, MR);
    const int64_t nc = even_part(g->n, in_c ? NC_IN_C : NC_SUMS, NR);
    const int64_t kc = weir__min(KC, g->k);
    struct block s = {.g = g, .a = local};

    if (g->dot) {
        dot_lines(g);
        return;
    }
    if (g->thin) {
        thin(g, local, (struct thin_target){.part = -1});
        return;
    }
    s.b = s.a + MB * kc;
    s.sums = in_c ? NULL : s.b + nc * kc;
    for (s.j0 = 0; s.j0 < g->n; s.j0 += nc) {
        s.n = weir__min(nc, g->n - s.j0);
        for (s.i0 = 0; s.i0 < g->m; s.i0 += mc) {
            s.m = weir__min(mc, g->m - s.i0);
            run_block(&s);
        }
    }
}
