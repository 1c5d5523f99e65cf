/* Strips: the parts of a convolution that one core computes at a time, and the copies made for
 * them.
 *
 * A strip is several whole rows of an output image, or some columns of one row. The input it reads
 * is copied with padding and split by stride. Then, for each row of the strip, every row of the
 * im2col matrix is contiguous in the copy at a known offset. So the matrix itself is never stored,
 * except for the panels that a matrix product packs.
 *
 * Included with WEIR__REAL_F64 set, which decides the type of the copy.
 */
#ifndef WEIR_OPS_HOST_STRIP_H
#define WEIR_OPS_HOST_STRIP_H

#include <string.h>

#include "base/base.h"
#include "ops/host/conv/conv.h"
#include "ops/host/product/gemm.h"
#include "ops/host/product/gemm_pack.h"

enum {
    COPY_BYTES = 768 << 10,
    MOST_TAPS = 1 << 16, /* number of kernel elements whose offsets are stored */
};
/* Local memory: offsets, copy, reordered weights, and the memory of a matrix product. */
#define COPY_AT ((int64_t)(MOST_TAPS * sizeof(int32_t)))
#define WEIGHT_AT (COPY_AT + COPY_BYTES)
#define PRODUCT_AT (WEIGHT_AT + WEIR__CONV_WEIGHT_BYTES)
_Static_assert(PRODUCT_AT + WEIR__GEMM_PACKED_BYTES <= WEIR_LOCAL_BYTES, "local memory");

struct strip {
    const struct weir__conv *c;
    const char *x; /* start of this image and group */
    char *out;     /* start of this image */
    int64_t first; /* first output of this group */
    int64_t y0, x0, rows, cols;
    int64_t taps;               /* channels * kh * kw */
    int64_t phases[2];          /* number of phases that the copy is split into, by stride */
    int64_t lines, pitch;       /* of one phase of one channel */
    int32_t *at;                /* offset in the copy of each kernel element, for the first output
                                 * element */
    int64_t at_lines, at_pitch; /* lines and pitch that `at` was computed for */
    real *copy;
    char *weight; /* memory for reordered rows of the weight */
    void *local;  /* memory of the matrix product */
};

/* Rows and columns of the copy, for one channel and one phase, that this many rows and columns of
 * the output need. */
static inline int64_t copy_lines(const struct weir__conv *c, int64_t rows)
{
    return rows + (c->kh - 1) * c->dilation[0] / c->stride[0];
}

static inline int64_t copy_pitch(const struct weir__conv *c, int64_t cols)
{
    return cols + (c->kw - 1) * c->dilation[1] / c->stride[1];
}

/* Whether the copy for such a strip fits. Multiplies only numbers that are known to be small.
 */
static bool copy_fits(const struct strip *s, int64_t rows, int64_t cols)
{
    int64_t room = COPY_BYTES / (int64_t)sizeof(real) - 2 * NR;
    const int64_t planes = s->phases[0] * s->phases[1];

    if (planes > room || s->c->channels > room / planes)
        return false;
    room /= weir__max(1, s->c->channels * planes);
    return copy_lines(s->c, rows) <= room &&
           copy_pitch(s->c, cols) <= room / copy_lines(s->c, rows);
}

/* ---- the copy ---- */

/* Indices of every second element of two vectors; then the same for two vectors that end with the
 * last of these elements. */
#define EVENS_2 0, 2
#define EVENS_4 EVENS_2, 4, 6
#define EVENS_8 EVENS_4, 8, 10, 12, 14
#define EVENS_16 EVENS_8, 16, 18, 20, 22, 24, 26, 28, 30
#if VEC_BYTES / (4 + 4 * WEIR__REAL_F64) == 16
#define EVENS EVENS_16
#define EVENS_END EVENS_8, 17, 19, 21, 23, 25, 27, 29, 31
#elif VEC_BYTES / (4 + 4 * WEIR__REAL_F64) == 8
#define EVENS EVENS_8
#define EVENS_END EVENS_4, 9, 11, 13, 15
#elif VEC_BYTES / (4 + 4 * WEIR__REAL_F64) == 4
#define EVENS EVENS_4
#define EVENS_END EVENS_2, 5, 7
#else
#define EVENS EVENS_2
#define EVENS_END 0, 3
#endif

/* The part of a line of the copy that comes from the image: elements begin .. end. Element 0 is at
 * offset `from`, in elements, from the start of the image's row; it may lie outside the row. */
struct line {
    int64_t begin, end, from;
};

/* The line that takes every stride-th column from padded column `first` on. */
static struct line line_of(const struct strip *s, int64_t first)
{
    const struct weir__conv *c = s->c;
    const int64_t stride = c->stride[1];
    /* inside the image: 0 <= first - padding + i * stride < w */
    int64_t begin = c->padding[1] > first ? weir__div_up(c->padding[1] - first, stride) : 0;
    int64_t end = weir__div_up(weir__max(0, c->w + c->padding[1] - first), stride);

    begin = weir__min(begin, s->pitch);
    return (struct line){begin, weir__max(begin, weir__min(end, s->pitch)),
                         (first - c->padding[1]) * c->x_step[3]};
}

/* `dtype` is a constant at each call. */
ALWAYS_INLINE void copy_line(const struct strip *s, real *dst, const char *row,
                             const struct line *line, weir_dtype dtype)
{
    const int64_t stride = s->c->stride[1], step = s->c->x_step[3];
    const int64_t begin = line->begin, end = line->end, from = line->from;
    int64_t i = 0;

    for (; i < begin; i++)
        dst[i] = 0;
    if (step == 1 && stride == 1 && end - begin >= LANES) {
        for (; i + LANES < end; i += LANES)
            *(vec *)(dst + i) = load_vec(row, from + i, dtype);
        i = end - LANES; /* the overlap is written again with the same values */
        *(vec *)(dst + i) = load_vec(row, from + i, dtype);
        i = end;
    } else if (step == 1 && stride == 2 && end - begin >= LANES) {
        for (; i + LANES < end; i += LANES)
            *(vec *)(dst + i) =
                __builtin_shufflevector(load_vec(row, from + 2 * i, dtype),
                                        load_vec(row, from + 2 * i + LANES, dtype), EVENS);
        i = end - LANES; /* so that nothing is read past the last element */
        *(vec *)(dst + i) =
            __builtin_shufflevector(load_vec(row, from + 2 * i, dtype),
                                    load_vec(row, from + 2 * i + LANES - 1, dtype), EVENS_END);
        i = end;
    } else if (step == 1 && stride == 1 && end - begin >= 4) {
        for (; i + 4 < end; i += 4)
            load_four((vec4 *)(dst + i), row, from + i, dtype);
        i = end - 4;
        load_four((vec4 *)(dst + i), row, from + i, dtype);
        i = end;
    }
    for (; i < end; i++)
        dst[i] = load_one(row, from + i * stride * step, dtype);
    for (; i < s->pitch; i++)
        dst[i] = 0;
}

ALWAYS_INLINE void copy_typed(const struct strip *s, weir_dtype dtype)
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(dtype);
    real *dst = s->copy;

    for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t py = 0; py < s->phases[0]; py++)
            for (int64_t px = 0; px < s->phases[1]; px++) {
                const struct line line = line_of(s, s->x0 * c->stride[1] + px);

                for (int64_t r = 0; r < s->lines; r++, dst += s->pitch) {
                    const int64_t y = (s->y0 + r) * c->stride[0] + py - c->padding[0];

                    if (y < 0 || y >= c->h)
                        memset(dst, 0, (size_t)s->pitch * sizeof *dst);
                    else
                        copy_line(s, dst, s->x + (ch * c->x_step[1] + y * c->x_step[2]) * size,
                                  &line, dtype);
                }
            }
    /* Whole vectors and tiles read past the end. */
    memset(dst, 0, 2 * NR * sizeof *dst);
}

static void copy_image(const struct strip *s)
{
#if !WEIR__REAL_F64
    if (s->c->dtype == WEIR_F16)
        copy_typed(s, WEIR_F16);
    else if (s->c->dtype == WEIR_BF16)
        copy_typed(s, WEIR_BF16);
    else
#endif
        copy_typed(s, REAL_DTYPE);
}

static void find_offsets(const struct strip *s)
{
    const struct weir__conv *c = s->c;
    const int64_t plane = s->lines * s->pitch, taps = c->kh * c->kw;
    int32_t *at = s->at;

    for (int64_t ky = 0; ky < c->kh; ky++)
        for (int64_t kx = 0; kx < c->kw; kx++) {
            const int64_t y = ky * c->dilation[0], x = kx * c->dilation[1];
            const int64_t phase = y % c->stride[0] * s->phases[1] + x % c->stride[1];

            *at++ = (int32_t)(phase * plane + y / c->stride[0] * s->pitch + x / c->stride[1]);
        }
    for (int64_t i = taps; i < s->taps; i++, at++)
        *at = at[-taps] + (int32_t)(s->phases[0] * s->phases[1] * plane);
}

/* ---- strips ---- */

/* The number of rows of strips of similar size, at most `most`; without a partial vector if
 * possible. */
static int64_t even_rows(int64_t rows, int64_t cols, int64_t most)
{
    const int64_t even = weir__div_up(rows, weir__div_up(rows, most));
    int64_t whole = LANES; /* this many rows fill whole vectors */

    for (int64_t q = cols; whole > 1 && q % 2 == 0; q /= 2)
        whole /= 2;
    whole = weir__div_up(even, whole) * whole;
    return even < rows && whole <= most ? whole : even;
}

/* Sets the rows and columns of a strip, as large as possible with at most `elements`. False if not
 * even a few columns fit into the copy. */
static bool size_strip(struct strip *s, int64_t rows, int64_t cols, int64_t elements)
{
    s->rows = 1;
    s->cols = weir__min(cols, NR);
    if (s->taps > MOST_TAPS)
        return false;
    if (cols <= elements && copy_fits(s, 1, cols)) {
        int64_t most = weir__min(rows, elements / cols);

        while (most > 1 && !copy_fits(s, most, cols))
            most--;
        s->rows = even_rows(rows, cols, most);
        s->cols = cols;
        return true;
    }
    s->cols = weir__min(elements, COPY_BYTES) / NR * NR;
    while (s->cols > NR && !copy_fits(s, 1, s->cols))
        s->cols = s->cols / 2 / NR * NR;
    s->cols = weir__min(s->cols, cols);
    return copy_fits(s, 1, s->cols);
}

/* Makes the copy and the offsets of the current strip. */
static void lay_out(struct strip *s)
{
    s->lines = copy_lines(s->c, s->rows);
    s->pitch = copy_pitch(s->c, s->cols);
    copy_image(s);
    if (s->at_lines != s->lines || s->at_pitch != s->pitch)
        find_offsets(s);
    s->at_lines = s->lines;
    s->at_pitch = s->pitch;
}

static struct strip strip_of(const struct weir__conv *c, void *local)
{
    struct strip s = {
        .c = c,
        .taps = c->channels * c->kh * c->kw,
        .phases = {c->kh > 1 ? c->stride[0] : 1, c->kw > 1 ? c->stride[1] : 1},
        .at = local,
        .copy = (real *)((char *)local + COPY_AT),
        .weight = (char *)local + WEIGHT_AT,
        .local = (char *)local + PRODUCT_AT,
    };

    return s;
}

/* Moves to the image and group of a unit. */
static void go_to_unit(struct strip *s, int64_t unit)
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype);
    const int64_t image = unit / c->groups, group = unit % c->groups;

    s->x = c->x + (image * c->x_step[0] + group * c->channels * c->x_step[1]) * size;
    s->out = c->out + image * c->groups * c->outputs * c->oh * c->ow * size;
    s->first = group * c->outputs;
}

/* Calls `run` for strips of rows y0 .. y1 and columns x0 .. x1 of one unit. */
ALWAYS_INLINE void each_strip(struct strip *s, const struct weir__conv_part *p,
                              void (*run)(struct strip *s, const struct weir__conv_part *p))
{
    const struct weir__conv *c = s->c;
    const bool by_columns = c->oh == 1;
    const int64_t y0 = by_columns ? 0 : p->n0, y1 = by_columns ? 1 : p->n1;
    const int64_t x0 = by_columns ? p->n0 : 0, x1 = by_columns ? p->n1 : c->ow;
    const int64_t rows = s->rows, cols = s->cols;

    for (s->y0 = y0; s->y0 < y1; s->y0 += rows)
        for (s->x0 = x0; s->x0 < x1; s->x0 += cols) {
            s->rows = weir__min(rows, y1 - s->y0);
            s->cols = weir__min(cols, x1 - s->x0);
            run(s, p);
        }
    s->rows = rows;
    s->cols = cols;
}

/* Outputs o .. o + rows of the strip as a matrix product, without its second operand.
 */
static struct weir__gemm product_of(const struct strip *s, int64_t o, int64_t rows)
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype), plane = c->oh * c->ow;
    const int64_t first = s->first + o;
    const bool matrix = weir__conv_weight_is_matrix(c);

    return (struct weir__gemm){
        .m = rows,
        .n = s->rows * s->cols,
        .k = s->taps,
        .a = matrix ? c->weight + first * c->weight_step[0] * size : s->weight,
        .a_row = matrix ? c->weight_step[0] : s->taps,
        .a_col = 1,
        .c = s->out + (first * plane + s->y0 * c->ow + s->x0) * size,
        .c_row = plane,
        .c_col = 1,
        .bias = c->bias ? c->bias + first * c->bias_step * size : NULL,
        .bias_row = c->bias_step,
        .dtype = c->dtype,
        .pack_source = s,
    };
}

/* Copies rows o .. o + rows of this group's weight, contiguous in the order of the sum. */
static void lay_weight_out(const struct strip *s, int64_t o, int64_t rows)
{
    const struct weir__conv *c = s->c;
    const int64_t *step = c->weight_step, size = (int64_t)weir_dtype_size(c->dtype);
    char *dst = s->weight;

    for (int64_t r = o; r < o + rows; r++)
        for (int64_t ch = 0; ch < c->channels; ch++)
            for (int64_t ky = 0; ky < c->kh; ky++)
                for (int64_t kx = 0; kx < c->kw; kx++, dst += size)
                    memcpy(dst,
                           c->weight + ((s->first + r) * step[0] + ch * step[1] + ky * step[2] +
                                        kx * step[3]) *
                                           size,
                           (size_t)size);
}

/* Multiplies outputs o0 .. o1 of the strip's part. If the weight must be reordered first, a few
 * rows at a time. */
ALWAYS_INLINE void multiply(const struct strip *s, const struct weir__conv_part *p,
                            void (*pack)(const void *, void *, int64_t, int64_t, int64_t, int64_t,
                                         int64_t),
                            void (*gemm)(const struct weir__gemm *, void *))
{
    const int64_t row_bytes = s->taps * (int64_t)weir_dtype_size(s->c->dtype);
    const bool matrix = weir__conv_weight_is_matrix(s->c);
    const int64_t most = matrix || !row_bytes ? p->o1 - p->o0 : WEIR__CONV_WEIGHT_BYTES / row_bytes;

    for (int64_t o = p->o0; o < p->o1; o += most) {
        const int64_t rows = weir__min(most, p->o1 - o);
        struct weir__gemm g = product_of(s, o, rows);

        if (!matrix)
            lay_weight_out(s, o, rows);
        g.pack_b = pack;
        gemm(&g, s->local);
    }
}

/* ---- images that already are matrices ---- */

static bool is_matrix(const struct weir__conv *c)
{
    return c->kh * c->kw == 1 && c->stride[0] * c->stride[1] == 1 &&
           c->padding[0] + c->padding[1] == 0 && c->x_step[3] == 1 && c->x_step[2] == c->w;
}

/* Computes the whole part of a unit; y0 and x0 select its row and column. */
ALWAYS_INLINE void multiply_matrix(struct strip *s, const struct weir__conv_part *p, void *local,
                                   void (*gemm)(const struct weir__gemm *, void *))
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype);
    const bool by_columns = c->oh == 1;
    struct weir__gemm g;

    s->y0 = by_columns ? 0 : p->n0;
    s->x0 = by_columns ? p->n0 : 0;
    s->rows = by_columns ? 1 : p->n1 - p->n0;
    s->cols = by_columns ? p->n1 - p->n0 : c->ow;
    g = product_of(s, p->o0, p->o1 - p->o0);
    g.a = c->weight + (s->first + p->o0) * c->weight_step[0] * size;
    g.a_row = c->weight_step[0];
    g.a_col = c->weight_step[1];
    g.b = s->x + (s->y0 * c->w + s->x0) * size;
    g.b_row = c->x_step[1];
    g.b_col = 1;
    gemm(&g, local);
}

/* ---- panels of the im2col matrix ---- */

/* Columns of a panel that are adjacent in the copy: `n` of them, from column `to` on. */
struct run {
    int64_t to, n, from;
};

/* Splits columns j0 .. j0 + jn of the strip into runs; at most as many runs as columns. */
static int find_runs(const struct strip *s, int64_t j0, int64_t jn, struct run *runs)
{
    int n = 0;

    for (int64_t j = j0; j < j0 + jn; n++) {
        const int64_t y = j / s->cols, x = j % s->cols;
        const int64_t count = weir__min(s->cols - x, j0 + jn - j);

        runs[n] = (struct run){j - j0, count, y * s->pitch + x};
        j += count;
    }
    return n;
}

/* An element of the matrix, read from the image, if there is no copy. */
static real tap_of(const struct strip *s, int64_t k, int64_t j)
{
    const struct weir__conv *c = s->c;
    const int64_t ch = k / (c->kh * c->kw), ky = k / c->kw % c->kh, kx = k % c->kw;
    const int64_t y = (s->y0 + j / s->cols) * c->stride[0] + ky * c->dilation[0] - c->padding[0];
    const int64_t x = (s->x0 + j % s->cols) * c->stride[1] + kx * c->dilation[1] - c->padding[1];

    if (y < 0 || y >= c->h || x < 0 || x >= c->w)
        return 0;
    return load_one(s->x, ch * c->x_step[1] + y * c->x_step[2] + x * c->x_step[3], c->dtype);
}

#endif
