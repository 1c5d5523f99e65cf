/* One filter a group, for AVX-512: 16 groups side by side, one in each lane.
 *
 * The copy of a strip has the 16 channels of a place one behind the other, so that whatever the
 * size of the image no lane is idle and no load crosses a cache line. The order of the sums is that
 * of lone_tile. Included by conv_real.h.
 */
#ifndef WEIR_OPS_HOST_BESIDE_H
#define WEIR_OPS_HOST_BESIDE_H

enum {
    BESIDE = 16,       /* groups */
    BESIDE_LEAST = 6,  /* groups for which it pays on narrow images */
    BESIDE_PLACES = 8, /* of the output at a time */
    BESIDE_TAPS = 2048,
    BESIDE_BYTES = 256 << 10, /* of a copy, and of its sums; both stay in the second-level cache */
};

/* Groups unit .. unit + count of an image. */
struct beside {
    struct strip *s;
    int64_t count;
    int64_t lines, cols; /* of the copy, with the padding */
    int64_t begin, end;  /* rows of the image that it has */
    real *weight;        /* [taps][BESIDE] */
    real *sums, *rows;   /* [rows * ow][BESIDE], [BESIDE][rows * ow] */
};

/* Lines and columns of a copy without phases. */
static int64_t reach(int64_t n, int64_t stride, int64_t kernel, int64_t dilation)
{
    return (n - 1) * stride + (kernel - 1) * dilation + 1;
}

/* The rows of a strip; 0 where this does not serve. Dilations and strides are within an image, and
 * an image with its padding is smaller than 2^31. */
static int64_t beside_rows(const struct weir__conv *c, const struct weir__conv_part *p)
{
    const int64_t rows = p->n1 - p->n0, place = BESIDE * (int64_t)sizeof(real);
    const int64_t cols = reach(c->ow, c->stride[1], c->kw, c->dilation[1]);
    const int64_t least = reach(1, 1, c->kh, c->dilation[0]);
    const int64_t lines = BESIDE_BYTES / place / weir__max(cols, weir__max(c->ow, c->w));
    int64_t most;

    if (c->channels != 1 || c->outputs != 1 || c->oh == 1 || c->x_step[3] != 1 ||
        c->x_step[2] != c->w || c->kh * c->kw > BESIDE_TAPS || rows < 1)
        return 0;
    if (weir__min(p->unit1 - p->unit0, c->groups) < (c->ow < 2 * LANES ? BESIDE_LEAST : BESIDE))
        return 0;
    if (lines < least)
        return 0;
    most = (lines - least) / c->stride[0] + 1;
    if (most < weir__min(rows, 2 * c->kh))
        return 0;
    return weir__div_up(rows, weir__div_up(rows, most));
}

/* A square of 16 by 16. */
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

/* n elements of each group, `step` elements apart, as vectors of one element of all groups: element
 * i goes to dst + to[i], or to dst + i * BESIDE without `to`. */
ALWAYS_INLINE void spread(real *dst, const int32_t *to, const char *from, int64_t step, int64_t n,
                          int64_t count, weir_dtype dtype)
{
    for (int64_t i = 0; i < n; i += BESIDE) {
        const int64_t some = weir__min(BESIDE, n - i);
        const __mmask16 in = (__mmask16)((1u << some) - 1);
        __m512 r[16];

#pragma GCC unroll 16
        for (int64_t g = 0; g < BESIDE; g++) /* lanes beyond compute what the last one does */
            r[g] = load_lanes(from, weir__min(g, count - 1) * step + i, in, dtype);
        turn_square(r);
        if (some == BESIDE) {
#pragma GCC unroll 16
            for (int64_t q = 0; q < BESIDE; q++)
                _mm512_store_ps(dst + (to ? to[i + q] : (i + q) * BESIDE), r[q]);
        } else {
            _Alignas(64) real rest[BESIDE][BESIDE];

#pragma GCC unroll 16
            for (int64_t q = 0; q < BESIDE; q++)
                _mm512_store_ps(rest[q], r[q]);
            for (int64_t q = 0; q < some; q++)
                _mm512_store_ps(dst + (to ? to[i + q] : (i + q) * BESIDE), _mm512_load_ps(rest[q]));
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

/* Offsets of taps, and of the image's places after them; and the zeros around those, which no image
 * changes. */
static void lay_beside_out(struct beside *b)
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
            *at++ = (int32_t)((ky * c->dilation[0] * b->cols + kx * c->dilation[1]) * BESIDE);
    memset(s->copy, 0, (size_t)(b->lines * b->cols * BESIDE) * sizeof(real));
    for (int64_t y = b->begin; y < b->end; y++)
        for (int64_t x = 0; x < c->w; x++) {
            const int64_t column = x + c->padding[1];

            /* columns that no tap reads go where nothing is read */
            *at++ =
                (int32_t)((column < b->cols ? (y - top) * b->cols + column : b->lines * b->cols) *
                          BESIDE);
        }
}

static void load_beside(const struct beside *b)
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
        for (int64_t g = 0; g < BESIDE; g++)
            b->weight[k * BESIDE + g] = load_one(weight,
                                                 weir__min(g, b->count - 1) * step[0] +
                                                     k / c->kw * step[2] + k % c->kw * step[3],
                                                 c->dtype);
}

/* ---- sums ---- */

/* `n` places of a row of the output, `next` elements apart in the copy; constants where it is
 * called. */
ALWAYS_INLINE void sum_places(int n, int64_t next, const struct strip *s, const real *weight,
                              const real *from, __m512 bias, bool biased, real *to)
{
    const int32_t *at = s->at;
    const int64_t taps = s->taps;
    __m512 sum[BESIDE_PLACES] = {0};

    for (int64_t k = 0; k < taps;) {
        const int64_t chunk = weir__min(CHUNK - k % CHUNK, taps - k);
        const int64_t stop = k + weir__min(STRETCH, chunk);
        const bool first = k == 0;
        __m512 acc[BESIDE_PLACES];

#pragma GCC unroll 8
        for (int v = 0; v < n; v++)
            acc[v] = _mm512_setzero_ps();
        for (; k < stop; k++) {
            const real *row = from + at[k];
            const __m512 w = _mm512_load_ps(weight + k * BESIDE);

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
        _mm512_store_ps(to + v * BESIDE, biased ? _mm512_add_ps(sum[v], bias) : sum[v]);
}

/* A row of the output in parts of much the same size. */
ALWAYS_INLINE void sum_row(int64_t next, const struct strip *s, const real *weight,
                           const real *from, __m512 bias, bool biased, real *to)
{
    const int64_t cols = s->cols;
    const int64_t most = weir__div_up(cols, weir__div_up(cols, BESIDE_PLACES));

    for (int64_t x = 0; x < cols; x += most, from += most * next, to += most * BESIDE)
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

static void sum_beside(const struct beside *b)
{
    const struct strip *s = b->s;
    const struct weir__conv *c = s->c;
    const int64_t next = c->stride[1] * BESIDE, down = c->stride[0] * b->cols * BESIDE;
    _Alignas(64) real lanes[BESIDE] = {0};
    __m512 bias;

    for (int64_t g = 0; c->bias && g < b->count; g++)
        lanes[g] = load_one(c->bias, (s->first + g) * c->bias_step, c->dtype);
    bias = _mm512_load_ps(lanes);
    for (int64_t y = 0; y < s->rows; y++) {
        const real *from = s->copy + y * down;
        real *to = b->sums + y * s->cols * BESIDE;

        if (next == BESIDE)
            sum_row(BESIDE, s, b->weight, from, bias, c->bias, to);
        else if (next == 2 * BESIDE)
            sum_row(2 * BESIDE, s, b->weight, from, bias, c->bias, to);
        else
            sum_row(next, s, b->weight, from, bias, c->bias, to);
    }
}

/* The sums of each group as rows of n. */
static void gather_rows(real *dst, int64_t step, const real *sums, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < n; i += BESIDE) {
        const __mmask16 in = (__mmask16)((1u << weir__min(BESIDE, n - i)) - 1);
        __m512 r[16];

#pragma GCC unroll 16
        for (int64_t q = 0; q < BESIDE; q++)
            r[q] = _mm512_load_ps(sums + (i + q) * BESIDE);
        turn_square(r);
#pragma GCC unroll 16
        for (int64_t g = 0; g < BESIDE; g++)
            if (g < count)
                _mm512_mask_storeu_ps(dst + g * step + i, in, r[g]);
    }
}

static void store_beside(const struct beside *b)
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

static void conv_beside(struct strip *s, const struct weir__conv_part *p, int64_t rows)
{
    const struct weir__conv *c = s->c;
    const int64_t room = (rows * c->ow + BESIDE) * BESIDE;
    struct beside b = {.s = s, .weight = s->local};

    b.cols = reach(c->ow, c->stride[1], c->kw, c->dilation[1]);
    b.sums = b.weight + s->taps * BESIDE + BESIDE * BESIDE;
    b.rows = b.sums + room;
    s->cols = c->ow;
    for (s->y0 = p->n0; s->y0 < p->n1; s->y0 += rows) {
        s->rows = weir__min(rows, p->n1 - s->y0);
        lay_beside_out(&b);
        for (int64_t unit = p->unit0; unit < p->unit1; unit += b.count) {
            go_to_unit(s, unit);
            b.count = weir__min(p->unit1 - unit, weir__min(BESIDE, c->groups - unit % c->groups));
            load_beside(&b);
            sum_beside(&b);
            store_beside(&b);
        }
    }
}

#endif
