/* Depthwise convolution (one filter per group) with AVX-512: 16 groups at once, one per lane.
 *
 * The copy of a strip interleaves the 16 channels: those of one place are adjacent. So no lane is
 * idle and no load crosses a cache line, whatever the size of the image. The order of the sums is
 * that of lone_tile. Included by conv_real.h.
 */
#ifndef WEIR_OPS_HOST_CONV_DEPTHWISE_H
#define WEIR_OPS_HOST_CONV_DEPTHWISE_H

enum {
    DEPTHWISE_GROUPS = 16, /* groups */
    DEPTHWISE_LEAST = 6,   /* fewest groups for which it pays on narrow images */
    DEPTHWISE_PLACES = 8,  /* places of the output at a time */
    DEPTHWISE_TAPS = 2048,
    DEPTHWISE_BYTES =
        256 << 10, /* size of a copy, and of its sums; both fit the second-level cache */
};

/* The work on groups unit .. unit + count of an image. */
struct depthwise {
    struct strip *s;
    int64_t count;
    int64_t lines, cols; /* of the copy, with the padding */
    int64_t begin, end;  /* the rows of the image in the copy */
    real *weight;        /* [taps][DEPTHWISE_GROUPS] */
    real *sums, *rows;   /* [rows * ow][DEPTHWISE_GROUPS], [DEPTHWISE_GROUPS][rows * ow] */
};

/* Lines and columns of a copy without phases. */
static int64_t reach(int64_t n, int64_t stride, int64_t kernel, int64_t dilation)
{
    return (n - 1) * stride + (kernel - 1) * dilation + 1;
}

/* Returns the number of rows of a strip; 0 if this variant cannot be used. Dilations and strides
 * are within an image, and an image with its padding is smaller than 2^31. */
static int64_t depthwise_rows(const struct weir__conv *c, const struct weir__conv_part *p)
{
    const int64_t rows = p->n1 - p->n0, place = DEPTHWISE_GROUPS * (int64_t)sizeof(real);
    const int64_t cols = reach(c->ow, c->stride[1], c->kw, c->dilation[1]);
    const int64_t least = reach(1, 1, c->kh, c->dilation[0]);
    const int64_t lines = DEPTHWISE_BYTES / place / weir__max(cols, weir__max(c->ow, c->w));
    int64_t most;

    if (c->channels != 1 || c->outputs != 1 || c->oh == 1 || c->x_step[3] != 1 ||
        c->x_step[2] != c->w || c->kh * c->kw > DEPTHWISE_TAPS || rows < 1)
        return 0;
    if (weir__min(p->unit1 - p->unit0, c->groups) <
        (c->ow < 2 * LANES ? DEPTHWISE_LEAST : DEPTHWISE_GROUPS))
        return 0;
    if (lines < least)
        return 0;
    most = (lines - least) / c->stride[0] + 1;
    if (most < weir__min(rows, 2 * c->kh))
        return 0;
    return weir__div_up(rows, weir__div_up(rows, most));
}

/* Transposes a square of 16 by 16. */
ALWAYS_INLINE void turn_square(__m512 r[16])
{
    __m512 t[16];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (int q = 0; q < 2; q++) {
            const __m512d a = _mm512_castps_pd(t[i + q]), b = _mm512_castps_pd(t[i + 2 + q]);

            r[i + 2 * q] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
        /* r[4 i + q]: elements q, q + 4, q + 8, q + 12 of rows 4 i .. 4 i + 3, in quarters */
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        const __m512 a = _mm512_shuffle_f32x4(r[q], r[4 + q], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(r[q], r[4 + q], 0xdd);
        const __m512 c = _mm512_shuffle_f32x4(r[8 + q], r[12 + q], 0x88);
        const __m512 d = _mm512_shuffle_f32x4(r[8 + q], r[12 + q], 0xdd);

        t[q] = _mm512_shuffle_f32x4(a, c, 0x88);
        t[8 + q] = _mm512_shuffle_f32x4(a, c, 0xdd);
        t[4 + q] = _mm512_shuffle_f32x4(b, d, 0x88);
        t[12 + q] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = t[i];
}

/* ---- copies ---- */

ALWAYS_INLINE __m512 load_lanes(const char *from, int64_t at, __mmask16 in, weir_dtype dtype)
{
    if (dtype == WEIR_F16)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(in, (const uint16_t *)from + at));
    if (dtype == WEIR_BF16)
        return _mm512_castsi512_ps(_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(in, (const uint16_t *)from + at)), 16));
    return _mm512_maskz_loadu_ps(in, (const float *)from + at);
}

/* Interleaves n elements of each group; groups are `step` elements apart. Element i of all groups
 * is stored at dst + to[i], or at dst + i * DEPTHWISE_GROUPS if `to` is NULL. */
ALWAYS_INLINE void spread(real *dst, const int32_t *to, const char *from, int64_t step, int64_t n,
                          int64_t count, weir_dtype dtype)
{
    for (int64_t i = 0; i < n; i += DEPTHWISE_GROUPS) {
        const int64_t some = weir__min(DEPTHWISE_GROUPS, n - i);
        const __mmask16 in = (__mmask16)((1u << some) - 1);
        __m512 r[16];

        /* Lanes past `count` repeat the last group. */
#pragma GCC unroll 16
        for (int64_t g = 0; g < DEPTHWISE_GROUPS; g++)
            r[g] = load_lanes(from, weir__min(g, count - 1) * step + i, in, dtype);
        turn_square(r);
        if (some == DEPTHWISE_GROUPS) {
#pragma GCC unroll 16
            for (int64_t q = 0; q < DEPTHWISE_GROUPS; q++)
                _mm512_store_ps(dst + (to ? to[i + q] : (i + q) * DEPTHWISE_GROUPS), r[q]);
        } else {
            _Alignas(64) real rest[DEPTHWISE_GROUPS][DEPTHWISE_GROUPS];

#pragma GCC unroll 16
            for (int64_t q = 0; q < DEPTHWISE_GROUPS; q++)
                _mm512_store_ps(rest[q], r[q]);
            for (int64_t q = 0; q < some; q++)
                _mm512_store_ps(dst + (to ? to[i + q] : (i + q) * DEPTHWISE_GROUPS),
                                _mm512_load_ps(rest[q]));
        }
    }
}

static void spread_typed(real *dst, const int32_t *to, const char *from, int64_t step, int64_t n,
                         int64_t count, weir_dtype dtype)
{
    if (dtype == WEIR_F16)
        spread(dst, to, from, step, n, count, WEIR_F16);
    else if (dtype == WEIR_BF16)
        spread(dst, to, from, step, n, count, WEIR_BF16);
    else
        spread(dst, to, from, step, n, count, WEIR_F32);
}

/* Sets the offsets of the kernel's elements, then those of the image's places, and zeroes the copy:
 * loading an image leaves the padding zero. */
static void lay_out_depthwise(struct depthwise *b)
{
    const struct strip *s = b->s;
    const struct weir__conv *c = s->c;
    const int64_t top = s->y0 * c->stride[0] - c->padding[0];
    int32_t *at = s->at;

    b->lines = reach(s->rows, c->stride[0], c->kh, c->dilation[0]);
    b->begin = weir__min(c->h, weir__max(0, top));
    b->end = weir__max(b->begin, weir__min(c->h, top + b->lines));
    for (int64_t ky = 0; ky < c->kh; ky++)
        for (int64_t kx = 0; kx < c->kw; kx++)
            *at++ =
                (int32_t)((ky * c->dilation[0] * b->cols + kx * c->dilation[1]) * DEPTHWISE_GROUPS);
    memset(s->copy, 0, (size_t)(b->lines * b->cols * DEPTHWISE_GROUPS) * sizeof(real));
    for (int64_t y = b->begin; y < b->end; y++)
        for (int64_t x = 0; x < c->w; x++) {
            const int64_t column = x + c->padding[1];

            /* columns that no kernel element reads go to a place that is never read */
            *at++ =
                (int32_t)((column < b->cols ? (y - top) * b->cols + column : b->lines * b->cols) *
                          DEPTHWISE_GROUPS);
        }
}

static void load_depthwise(const struct depthwise *b)
{
    const struct strip *s = b->s;
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype), *step = c->weight_step;
    const char *weight = c->weight + s->first * step[0] * size;

    spread_typed(s->copy, s->at + s->taps, s->x + b->begin * c->w * size, c->x_step[1],
                 (b->end - b->begin) * c->w, b->count, c->dtype);
    if (weir__conv_weight_is_matrix(c)) {
        spread_typed(b->weight, NULL, weight, step[0], s->taps, b->count, c->dtype);
        return;
    }
    for (int64_t k = 0; k < s->taps; k++)
        for (int64_t g = 0; g < DEPTHWISE_GROUPS; g++)
            b->weight[k * DEPTHWISE_GROUPS + g] = load_one(
                weight,
                weir__min(g, b->count - 1) * step[0] + k / c->kw * step[2] + k % c->kw * step[3],
                c->dtype);
}

/* ---- sums ---- */

/* Computes `n` places of a row of the output, which are `next` elements apart in the copy. Both are
 * constants at each call. */
ALWAYS_INLINE void sum_places(int n, int64_t next, const struct strip *s, const real *weight,
                              const real *from, __m512 bias, bool biased, real *to)
{
    const int32_t *at = s->at;
    const int64_t taps = s->taps;
    __m512 sum[DEPTHWISE_PLACES] = {0};

    for (int64_t k = 0; k < taps;) {
        const int64_t chunk = weir__min(CHUNK - k % CHUNK, taps - k);
        const int64_t stop = k + weir__min(STRETCH, chunk);
        const bool first = k == 0;
        __m512 acc[DEPTHWISE_PLACES];

#pragma GCC unroll 8
        for (int v = 0; v < n; v++)
            acc[v] = _mm512_setzero_ps();
        for (; k < stop; k++) {
            const real *row = from + at[k];
            const __m512 w = _mm512_load_ps(weight + k * DEPTHWISE_GROUPS);

#pragma GCC unroll 8
            for (int v = 0; v < n; v++)
                acc[v] = _mm512_fmadd_ps(w, _mm512_load_ps(row + v * next), acc[v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < n; v++)
            sum[v] = first ? acc[v] : _mm512_add_ps(acc[v], sum[v]); /* a zero keeps its sign */
    }
#pragma GCC unroll 8
    for (int v = 0; v < n; v++)
        _mm512_store_ps(to + v * DEPTHWISE_GROUPS, biased ? _mm512_add_ps(sum[v], bias) : sum[v]);
}

/* Computes a row of the output in parts of nearly equal size. */
ALWAYS_INLINE void sum_row(int64_t next, const struct strip *s, const real *weight,
                           const real *from, __m512 bias, bool biased, real *to)
{
    const int64_t cols = s->cols;
    const int64_t most = weir__div_up(cols, weir__div_up(cols, DEPTHWISE_PLACES));

    for (int64_t x = 0; x < cols; x += most, from += most * next, to += most * DEPTHWISE_GROUPS)
        switch (weir__min(most, cols - x)) {
        case 1:
            sum_places(1, next, s, weight, from, bias, biased, to);
            break;
        case 2:
            sum_places(2, next, s, weight, from, bias, biased, to);
            break;
        case 3:
            sum_places(3, next, s, weight, from, bias, biased, to);
            break;
        case 4:
            sum_places(4, next, s, weight, from, bias, biased, to);
            break;
        case 5:
            sum_places(5, next, s, weight, from, bias, biased, to);
            break;
        case 6:
            sum_places(6, next, s, weight, from, bias, biased, to);
            break;
        case 7:
            sum_places(7, next, s, weight, from, bias, biased, to);
            break;
        default:
            sum_places(8, next, s, weight, from, bias, biased, to);
        }
}

static void sum_depthwise(const struct depthwise *b)
{
    const struct strip *s = b->s;
    const struct weir__conv *c = s->c;
    const int64_t next = c->stride[1] * DEPTHWISE_GROUPS,
                  down = c->stride[0] * b->cols * DEPTHWISE_GROUPS;
    _Alignas(64) real lanes[DEPTHWISE_GROUPS] = {0};
    __m512 bias;

    for (int64_t g = 0; c->bias && g < b->count; g++)
        lanes[g] = load_one(c->bias, (s->first + g) * c->bias_step, c->dtype);
    bias = _mm512_load_ps(lanes);
    for (int64_t y = 0; y < s->rows; y++) {
        const real *from = s->copy + y * down;
        real *to = b->sums + y * s->cols * DEPTHWISE_GROUPS;

        if (next == DEPTHWISE_GROUPS)
            sum_row(DEPTHWISE_GROUPS, s, b->weight, from, bias, c->bias, to);
        else if (next == 2 * DEPTHWISE_GROUPS)
            sum_row(2 * DEPTHWISE_GROUPS, s, b->weight, from, bias, c->bias, to);
        else
            sum_row(next, s, b->weight, from, bias, c->bias, to);
    }
}

/* Separates the interleaved sums: one row of n per group. */
static void gather_rows(real *dst, int64_t step, const real *sums, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < n; i += DEPTHWISE_GROUPS) {
        const __mmask16 in = (__mmask16)((1u << weir__min(DEPTHWISE_GROUPS, n - i)) - 1);
        __m512 r[16];

#pragma GCC unroll 16
        for (int64_t q = 0; q < DEPTHWISE_GROUPS; q++)
            r[q] = _mm512_load_ps(sums + (i + q) * DEPTHWISE_GROUPS);
        turn_square(r);
#pragma GCC unroll 16
        for (int64_t g = 0; g < DEPTHWISE_GROUPS; g++)
            if (g < count)
                _mm512_mask_storeu_ps(dst + g * step + i, in, r[g]);
    }
}

static void store_depthwise(const struct depthwise *b)
{
    const struct strip *s = b->s;
    const struct weir__conv *c = s->c;
    const int64_t n = s->rows * s->cols, plane = c->oh * c->ow;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype);
    char *out = s->out + (s->first * plane + s->y0 * c->ow) * size;

    if (c->dtype == REAL_DTYPE) {
        gather_rows((real *)out, plane, b->sums, n, b->count);
        return;
    }
    gather_rows(b->rows, n, b->sums, n, b->count);
    for (int64_t g = 0; g < b->count; g++)
        store_row(out + g * plane * size, 1, c->dtype, b->rows + g * n, n);
}

static void conv_depthwise(struct strip *s, const struct weir__conv_part *p, int64_t rows)
{
    const struct weir__conv *c = s->c;
    const int64_t room = (rows * c->ow + DEPTHWISE_GROUPS) * DEPTHWISE_GROUPS;
    struct depthwise b = {.s = s, .weight = s->local};

    b.cols = reach(c->ow, c->stride[1], c->kw, c->dilation[1]);
    b.sums = b.weight + s->taps * DEPTHWISE_GROUPS + DEPTHWISE_GROUPS * DEPTHWISE_GROUPS;
    b.rows = b.sums + room;
    s->cols = c->ow;
    for (s->y0 = p->n0; s->y0 < p->n1; s->y0 += rows) {
        s->rows = weir__min(rows, p->n1 - s->y0);
        lay_out_depthwise(&b);
        for (int64_t unit = p->unit0; unit < p->unit1; unit += b.count) {
            go_to_unit(s, unit);
            b.count = weir__min(p->unit1 - unit,
                                weir__min(DEPTHWISE_GROUPS, c->groups - unit % c->groups));
            load_depthwise(&b);
            sum_depthwise(&b);
            store_depthwise(&b);
        }
    }
}

#endif
