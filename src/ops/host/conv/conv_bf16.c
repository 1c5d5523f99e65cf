/* Convolution of bf16 with instructions that multiply pairs of elements, see gemm_bf16.c. */
#include "ops/host/conv/conv.h"

#if WEIR__ISA_LEVEL == WEIR__ISA_V4
#define WEIR__REAL_F64 0
#include "ops/host/conv/strip.h"

enum { PANEL = 16 }; /* as in pairs.h */

/* Columns of a panel that one load reads, and their distance from a kernel position. */
struct piece {
    __mmask16 in;
    int64_t from;
};

/* Loads a row of a panel from n pieces; n is a constant at each call, except for large n. The copy
 * holds f32 converted from bf16: the upper halves are the bf16 values. */
ALWAYS_INLINE __m512i load_pieces(const float *tap, const struct piece *pieces, int n)
{
    __m512 row = _mm512_setzero_ps();

#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        row = _mm512_mask_loadu_ps(row, pieces[i].in, tap + pieces[i].from);
    return _mm512_castps_si512(row);
}

ALWAYS_INLINE void pack_pieces(const struct strip *s, uint32_t *row, int64_t k, int64_t kn,
                               const struct piece *pieces, int n)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    const int32_t *at = s->at + k;
    int64_t i = 0;

    for (; i + 1 < kn; i += 2, row += PANEL) {
        const __m512i even = load_pieces(s->copy + at[i], pieces, n);
        const __m512i odd = load_pieces(s->copy + at[i + 1], pieces, n);

        _mm512_storeu_si512(
            row, _mm512_or_si512(_mm512_srli_epi32(even, 16), _mm512_and_si512(odd, upper)));
    }
    if (i < kn)
        _mm512_storeu_si512(row, _mm512_srli_epi32(load_pieces(s->copy + at[i], pieces, n), 16));
}

static void pack_pairs(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn,
                       int64_t j0, int64_t jn)
{
    const struct strip *s = source;
    struct run runs[PANEL];
    struct piece pieces[PANEL];
    const int n = find_runs(s, j0, jn, runs);

    (void)width; /* PANEL */
    for (int i = 0; i < n; i++)
        pieces[i] = (struct piece){(__mmask16)(((1u << runs[i].n) - 1) << runs[i].to),
                                   runs[i].from - runs[i].to};
    if (n == 1)
        pack_pieces(s, dst, k0, kn, pieces, 1);
    else if (n == 2)
        pack_pieces(s, dst, k0, kn, pieces, 2);
    else if (n == 3)
        pack_pieces(s, dst, k0, kn, pieces, 3);
    else
        pack_pieces(s, dst, k0, kn, pieces, n);
}

static uint32_t half_of(const struct strip *s, int64_t k, int64_t j)
{
    const float tap = tap_of(s, k, j);
    uint32_t bits;

    memcpy(&bits, &tap, sizeof bits);
    return bits >> 16;
}

static void pack_pairs_of_taps(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn,
                               int64_t j0, int64_t jn)
{
    const struct strip *s = source;
    uint32_t *row = dst;

    for (int64_t k = k0; k < k0 + kn; k += 2, row += width)
        for (int64_t q = 0; q < width; q++)
            row[q] = (q < jn ? half_of(s, k, j0 + q) : 0) |
                     (q < jn && k + 1 < k0 + kn ? half_of(s, k + 1, j0 + q) << 16 : 0);
}

static void run_packed(struct strip *s, const struct weir__conv_part *p)
{
    lay_out(s);
    multiply(s, p, pack_pairs, WEIR__ISA_NAME(weir__gemm_bf16));
}

static void run_taps(struct strip *s, const struct weir__conv_part *p)
{
    multiply(s, p, pack_pairs_of_taps, WEIR__ISA_NAME(weir__gemm_bf16));
}

#endif

void WEIR__ISA_NAME(weir__conv_bf16)(const struct weir__conv *c, const struct weir__conv_part *p,
                                     void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    struct strip s = strip_of(c, local);
    const bool matrix = is_matrix(c), by_columns = c->oh == 1;
    const bool copied = size_strip(&s, by_columns ? 1 : p->n1 - p->n0,
                                   by_columns ? p->n1 - p->n0 : c->ow, WEIR__GEMM_PACKED_N);

    for (int64_t unit = p->unit0; unit < p->unit1; unit++) {
        go_to_unit(&s, unit);
        if (matrix)
            multiply_matrix(&s, p, local, WEIR__ISA_NAME(weir__gemm_bf16));
        else if (copied)
            each_strip(&s, p, run_packed);
        else
            each_strip(&s, p, run_taps);
    }
#else
    WEIR__ISA_NAME(weir__conv_f32)
    (c, p, local); /* no processor of this level has the
                    * instructions */
#endif
}
