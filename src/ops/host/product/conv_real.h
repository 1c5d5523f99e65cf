/* Convolution for one compute type; included by conv_f32.c and conv_f64.c,
 * with GEMM naming the matrix product of that type. */
#include <string.h>

#include "base/base.h"
#include "ops/host/product/conv.h"
#include "ops/host/product/gemm.h"
#include "ops/host/product/gemm_pack.h"

/* The size of the padded copy, chosen so that it stays in the second-level cache. */
#define COPY_BYTES (384 << 10)

/* The part at hand: some output rows of one image and group. */
struct strip {
    const struct weir__conv *c;
    const char *x; /* of this image and group */
    int64_t y0, rows;
    int64_t k; /* channels * kh * kw */
    int64_t pitch;
    real *copy;
    int32_t *at; /* k offsets into the copy, of the element for output (y0, 0) */
    real *panel;
    bool flat; /* tiles run on over the ends of output rows */
};

/* One row of the image from padded column `first` on, every stride-th. */
ALWAYS_INLINE void copy_row(const struct strip *s, real *dst, const char *row, int64_t first,
                            weir_dtype dtype)
{
    const struct weir__conv *c = s->c;
    const int64_t stride = c->stride[1], step = c->x_step[3];
    /* inside the image: 0 <= first - padding + i * stride < w */
    int64_t begin = c->padding[1] > first ? weir__div_up(c->padding[1] - first, stride) : 0;
    int64_t end = weir__div_up(weir__max(0, c->w + c->padding[1] - first), stride);
    int64_t from = (first - c->padding[1]) * step, i = 0;

    begin = weir__min(begin, s->pitch);
    end = weir__max(begin, weir__min(end, s->pitch));
    for (; i < begin; i++)
        dst[i] = 0;
    if (stride * step == 1)
        for (; i + LANES <= end; i += LANES)
            *(vec *)(dst + i) = load_vec(row, from + i, dtype);
    for (; i < end; i++)
        dst[i] = load_one(row, from + i * stride * step, dtype);
    for (; i < s->pitch; i++)
        dst[i] = 0;
}

ALWAYS_INLINE void copy_typed(const struct strip *s, weir_dtype dtype)
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(dtype), rows = weir__conv_rows(c, s->rows);
    real *dst = s->copy;

    for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t py = 0; py < c->stride[0]; py++)
            for (int64_t px = 0; px < c->stride[1]; px++)
                for (int64_t r = 0; r < rows; r++, dst += s->pitch) {
                    const int64_t y = (s->y0 + r) * c->stride[0] + py - c->padding[0];

                    if (y < 0 || y >= c->h)
                        memset(dst, 0, (size_t)s->pitch * sizeof *dst);
                    else
                        copy_row(s, dst, s->x + (ch * c->x_step[1] + y * c->x_step[2]) * size, px,
                                 dtype);
                }
    /* The last tile reads past the end. */
    memset(dst, 0, NR * sizeof *dst);
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
    const int64_t plane = weir__conv_rows(c, s->rows) * s->pitch;
    int32_t *at = s->at;

    for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t ky = 0; ky < c->kh; ky++)
            for (int64_t kx = 0; kx < c->kw; kx++) {
                const int64_t y = ky * c->dilation[0], x = kx * c->dilation[1];
                const int64_t phase =
                    (ch * c->stride[0] + y % c->stride[0]) * c->stride[1] + x % c->stride[1];

                *at++ = (int32_t)(phase * plane + y / c->stride[0] * s->pitch + x / c->stride[1]);
            }
}

static bool weight_is_matrix(const struct weir__conv *c)
{
    return c->weight_step[3] == 1 && c->weight_step[2] == c->kw &&
           c->weight_step[1] == c->kh * c->kw;
}

static void pack_weight(const struct strip *s, int64_t o, int64_t rows)
{
    const struct weir__conv *c = s->c;
    const int64_t *step = c->weight_step;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype);
    const char *from = c->weight + o * step[0] * size;
    real *dst = s->panel;

    if (weight_is_matrix(c)) {
        pack_panel(dst, MR, rows, s->k, from, step[0], 1, c->dtype);
        return;
    }
    for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t ky = 0; ky < c->kh; ky++)
            for (int64_t kx = 0; kx < c->kw; kx++, dst += MR)
                pack_panel(dst, MR, rows, 1,
                           from + (ch * step[1] + ky * step[2] + kx * step[3]) * size, step[0], 1,
                           c->dtype);
}

/* `rows` x `cols` of the output, whose first row is o; the tile's first column is
 * at `j` in the copy's own counting of columns, pitch to a row. */
static void run_tile(const struct strip *s, char *out, int64_t o, int64_t rows, int64_t j,
                     int64_t cols)
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype), plane = c->oh * c->ow;
    const int64_t y = j / s->pitch, x = j % s->pitch;
    const bool whole = x + cols <= c->ow || s->pitch == c->ow;
    _Alignas(64) real edge[MR * NR];
    real *tile_c = edge;
    int64_t ldc = NR;

    out += (o * plane + (s->y0 + y) * c->ow + x) * size;
    if (whole && c->dtype == REAL_DTYPE && tile_rows(rows) == rows && tile_cols(cols) == cols) {
        tile_c = (real *)out;
        ldc = plane;
    }
    panel_tile(rows, cols, s->k, s->panel, s->copy + j, 0, s->at, tile_c, ldc, false);
    for (int64_t r = 0; r < rows; r++) {
        real *row = tile_c + r * ldc;

        if (c->bias) {
            const real bias = load_one(c->bias, (o + r) * c->bias_step, c->dtype);

            for (int64_t q = 0; q < cols; q++)
                row[q] += bias;
        }
        if (tile_c != edge)
            continue;
        /* Columns of the tile between the end of one output row and the beginning of the next are
         * not stored. */
        for (int64_t q = 0; q < cols;) {
            const int64_t at = whole ? x : (x + q) % s->pitch;
            const int64_t line = whole ? 0 : (x + q) / s->pitch;
            const int64_t n = whole ? cols : weir__min(cols - q, s->pitch - at);
            const int64_t valid = whole ? cols : weir__min(n, c->ow - at);

            if (valid > 0)
                store_row(out + (r * plane + line * c->ow + at - x) * size, 1, c->dtype, row + q,
                          valid);
            q += n;
        }
    }
}

/* Output rows of one strip, for outputs o0 .. o1. */
static void run_strip(const struct strip *s, char *out, int64_t group, int64_t o0, int64_t o1)
{
    const struct weir__conv *c = s->c;
    const int64_t flat_end = (s->rows - 1) * s->pitch + c->ow;

    for (int64_t o = o0; o < o1; o += MR) {
        const int64_t rows = weir__min(MR, o1 - o), first = group * c->outputs + o;

        pack_weight(s, first, rows);
        if (s->flat) {
            for (int64_t j = 0; j < flat_end; j += NR)
                run_tile(s, out, first, rows, j, weir__min(NR, flat_end - j));
            continue;
        }
        for (int64_t y = 0; y < s->rows; y++)
            for (int64_t x = 0; x < c->ow; x += NR)
                run_tile(s, out, first, rows, y * s->pitch + x, weir__min(NR, c->ow - x));
    }
}

/* For the fallback: columns of im2col, one element at a time. */
static void pack_columns(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn,
                         int64_t j0, int64_t jn)
{
    const struct strip *s = source;
    const struct weir__conv *c = s->c;
    real *row = dst;

    for (int64_t k = k0; k < k0 + kn; k++, row += width) {
        const int64_t ch = k / (c->kh * c->kw), ky = k / c->kw % c->kh, kx = k % c->kw;

        for (int64_t q = 0; q < width; q++) {
            const int64_t j = j0 + q;
            const int64_t y =
                (s->y0 + j / c->ow) * c->stride[0] + ky * c->dilation[0] - c->padding[0];
            const int64_t x = j % c->ow * c->stride[1] + kx * c->dilation[1] - c->padding[1];
            const bool inside = q < jn && y >= 0 && y < c->h && x >= 0 && x < c->w;

            row[q] = inside
                         ? load_one(s->x, ch * c->x_step[1] + y * c->x_step[2] + x * c->x_step[3],
                                    c->dtype)
                         : 0;
        }
    }
}

static void conv_by_gemm(const struct strip *s, char *out, int64_t group, int64_t o0, int64_t o1,
                         void *local)
{
    const struct weir__conv *c = s->c;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype), plane = c->oh * c->ow;
    const int64_t first = group * c->outputs + o0;
    const struct weir__gemm g = {
        .m = o1 - o0,
        .n = s->rows * c->ow,
        .k = s->k,
        .a = c->weight + first * c->weight_step[0] * size,
        .a_row = c->weight_step[0],
        .a_col = 1,
        .c = out + (first * plane + s->y0 * c->ow) * size,
        .c_row = plane,
        .c_col = 1,
        .bias = c->bias ? c->bias + first * c->bias_step * size : NULL,
        .bias_row = c->bias_step,
        .dtype = c->dtype,
        .pack_b = pack_columns,
        .pack_source = s,
    };

    GEMM(&g, local);
}

static void conv(const struct weir__conv *c, int64_t image, int64_t group, int64_t o0, int64_t o1,
                 int64_t y0, int64_t y1, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(c->dtype);
    int64_t fixed, per_row, most;
    char *out = c->out + image * c->groups * c->outputs * c->oh * c->ow * size;
    struct strip s = {
        .c = c,
        .x = c->x + (image * c->x_step[0] + group * c->channels * c->x_step[1]) * size,
        .y0 = y0,
        .rows = y1 - y0,
        .k = c->channels * c->kh * c->kw,
        .pitch = weir__conv_pitch(c),
        .panel = local,
    };

    if (!weir__conv_fits(c)) {
        conv_by_gemm(&s, out, group, o0, o1, local);
        return;
    }
    fixed = weir__conv_copy_size(c, 0);
    per_row = weir__max(1, weir__conv_copy_size(c, 1) - fixed);
    most = weir__max(1, (COPY_BYTES / (int64_t)sizeof(real) - fixed) / per_row);
    /* Takes the mode with fewer vectors. Flat tiles with gaps are stored less directly. */
    s.flat = s.pitch == c->ow || s.pitch * 9 / 8 < weir__div_up(c->ow, LANES) * LANES;
    s.at = (int32_t *)(s.panel + s.k * MR);
    s.copy = (real *)(s.at + weir__div_up(s.k, 16) * 16);
    for (; s.y0 < y1; s.y0 += s.rows) {
        s.rows = weir__min(most, y1 - s.y0);
        copy_image(&s);
        find_offsets(&s);
        run_strip(&s, out, group, o0, o1);
    }
}
