/* Convolution for one compute type; included by conv_f32.c and conv_f64.c, with GEMM as the matrix
 * product of that type. All variants give the same bits. */
#include "ops/host/conv/strip.h"

enum {
    LONE_VECTORS = 8,   /* vectors of columns of one output at a time */
    PACKED_LEAST = 512, /* pack filters if a strip has at least this many places */
};
_Static_assert(LONE_VECTORS >= NV, "lines of tiles");

/* ---- tiles that read the copy in place ---- */

static void pack_weight(const struct strip *s, int64_t o, int64_t rows, real *panel)
{
    const struct weir__conv *c = s->c;
    const int64_t *step = c->weight_step;
    const int64_t size = (int64_t)weir_dtype_size(c->dtype);
    const char *from = c->weight + o * step[0] * size;

    if (weir__conv_weight_is_matrix(c)) {
        pack_panel(panel, MR, rows, s->taps, from, step[0], 1, c->dtype);
        return;
    }
    for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t ky = 0; ky < c->kh; ky++)
            for (int64_t kx = 0; kx < c->kw; kx++, panel += MR)
                pack_panel(panel, MR, rows, 1,
                           from + (ch * step[1] + ky * step[2] + kx * step[3]) * size, step[0], 1,
                           c->dtype);
}

/* The address in the output's row o of column j of the copy, which has `pitch` columns per row. */
static char *place_of(const struct strip *s, int64_t o, int64_t j)
{
    const struct weir__conv *c = s->c;
    const int64_t at = (s->y0 + j / s->pitch) * c->ow + s->x0 + j % s->pitch;

    return s->out + (o * c->oh * c->ow + at) * (int64_t)weir_dtype_size(c->dtype);
}

static void write_line(const struct strip *s, int64_t o, char *to, const real *row, int64_t n)
{
    const struct weir__conv *c = s->c;
    const real bias = c->bias ? load_one(c->bias, o * c->bias_step, c->dtype) : 0;
    real sums[LONE_VECTORS * LANES];

    if (c->bias) {
        for (int64_t q = 0; q < n; q++)
            sums[q] = row[q] + bias;
        row = sums;
    }
    if (c->dtype == REAL_DTYPE)
        memcpy(to, row, (size_t)n * sizeof *row);
    else
        store_row(to, 1, c->dtype, row, n);
}

/* Writes `cols` sums from column j of the copy on. Skips columns between the end of one row of the
 * output and the next. */
static void write_row(const struct strip *s, int64_t o, int64_t j, int64_t cols, const real *row)
{
    for (int64_t q = 0; q < cols;) {
        const int64_t x = (j + q) % s->pitch, n = weir__min(cols - q, s->pitch - x);
        const int64_t valid = weir__min(n, s->cols - x);

        if (valid > 0)
            write_line(s, o, place_of(s, o, j + q), row + q, valid);
        q += n;
    }
}

/* Filters: a packed panel, or rows that are `step` apart if `step` is not 0. */
struct filters {
    const real *data;
    int64_t step;
};

/* Whole panels of a weight that is a matrix are read in place, unless so many places use them that
 * packing costs less than reading eight streams. */
static struct filters filters_of(const struct strip *s, int64_t o, int64_t rows)
{
    const struct weir__conv *c = s->c;

    if (rows == MR && s->rows * s->cols < PACKED_LEAST && c->dtype == REAL_DTYPE &&
        c->weight_step[0] > 0 && weir__conv_weight_is_matrix(c))
        return (struct filters){(const real *)c->weight + o * c->weight_step[0], c->weight_step[0]};
    pack_weight(s, o, rows, s->local);
    return (struct filters){s->local, 0};
}

/* The sums of a tile from the copy's column j on, in the chunks of a matrix product. */
static void sum_tile(const struct strip *s, struct filters f, int64_t rows, int64_t j, int64_t cols,
                     real *c, int64_t ldc)
{
    int64_t k = 0;

    do { /* at least once: without kernel elements the sums are 0 */
        const int64_t kn = weir__min(CHUNK, s->taps - k);

        if (f.step)
            tile_of_rows(MR, cols, kn, f.data + k, f.step, s->copy + j, 0, s->at + k, c, ldc,
                         k > 0);
        else
            panel_tile(rows, cols, kn, f.data + k * MR, s->copy + j, 0, s->at + k, c, ldc, k > 0);
        k += CHUNK;
    } while (k < s->taps);
}

/* Computes `rows` x `cols` of the output, from row o and the copy's column j on. */
static void run_tile(const struct strip *s, struct filters f, int64_t o, int64_t rows, int64_t j,
                     int64_t cols)
{
    const struct weir__conv *c = s->c;
    const bool whole = j % s->pitch + cols <= s->cols || (s->pitch == s->cols && s->cols == c->ow);
    const int64_t plane = c->oh * c->ow;
    _Alignas(64) real edge[MR * NR];
    real *out;

    if (!whole || c->dtype != REAL_DTYPE || tile_rows(rows) != rows || tile_cols(cols) != cols) {
        sum_tile(s, f, rows, j, cols, edge, NR);
        for (int64_t r = 0; r < rows; r++)
            write_row(s, o + r, j, cols, edge + r * NR);
        return;
    }
    out = (real *)place_of(s, o, j);
    sum_tile(s, f, rows, j, cols, out, plane);
    for (int64_t r = 0; c->bias && r < rows; r++) {
        const real bias = load_one(c->bias, (o + r) * c->bias_step, c->dtype);

        for (int64_t q = 0; q < cols; q++)
            out[r * plane + q] += bias;
    }
}

/* Whether tiles continue over the ends of rows: chosen by the smaller number of vectors. */
static bool is_flat(const struct strip *s)
{
    return s->pitch == s->cols || s->pitch < weir__div_up(s->cols, LANES) * LANES;
}

static int64_t flat_end(const struct strip *s)
{
    return (s->rows - 1) * s->pitch + s->cols;
}

/* Columns of the copy from j on, in tiles of much the same size: one of a single vector would wait
 * for its loads. */
static void run_columns(const struct strip *s, struct filters f, int64_t o, int64_t rows, int64_t j,
                        int64_t cols)
{
    while (cols > 0) {
        const int64_t vectors = weir__div_up(cols, LANES), tiles = weir__div_up(vectors, NV);
        const int64_t n = weir__min(cols, weir__div_up(vectors, tiles) * LANES);

        run_tile(s, f, o, rows, j, n);
        j += n;
        cols -= n;
    }
}

static void run_direct(struct strip *s, const struct weir__conv_part *p)
{
    lay_out(s);
    for (int64_t o = p->o0; o < p->o1; o += MR) {
        const int64_t rows = weir__min(MR, p->o1 - o);
        const struct filters f = filters_of(s, s->first + o, rows);

        if (is_flat(s)) {
            run_columns(s, f, s->first + o, rows, 0, flat_end(s));
            continue;
        }
        for (int64_t y = 0; y < s->rows; y++)
            run_columns(s, f, s->first + o, rows, y * s->pitch, s->cols);
    }
}

/* ---- groups with one output ---- */

/* `nv` vectors of columns, a constant at each call. The sums have the same order as in a tile. */
ALWAYS_INLINE void lone_tile(int nv, const struct strip *s, const real *weight, const real *from,
                             real *to)
{
    vec sum[LONE_VECTORS] = {0};

    for (int64_t k = 0; k < s->taps;) {
        const int64_t chunk = weir__min(CHUNK - k % CHUNK, s->taps - k);
        const int64_t stop = k + weir__min(STRETCH, chunk);
        const bool first = k == 0;
        vec acc[LONE_VECTORS];

#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            acc[v] = vec_set(0);
        for (; k < stop; k++) {
            const real *row = from + s->at[k];
            const vec x = vec_set(weight[k]);

#pragma GCC unroll 8
            for (int v = 0; v < nv; v++)
                acc[v] = fused(x, *(const vec *)(row + v * LANES), acc[v]);
        }
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) {
            if (!first) /* a zero keeps its sign */
                acc[v] += sum[v];
            sum[v] = acc[v];
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < nv; v++)
        *(vec *)(to + v * LANES) = sum[v];
}

/* `rows` x `nv` vectors of the output, constants at each call, from `from` in the copy on.
 */
ALWAYS_INLINE void lone_rows(int rows, int nv, const struct strip *s, const real *weight,
                             const real *from, real to[][4 * LANES])
{
    vec acc[16];

#pragma GCC unroll 16
    for (int i = 0; i < rows * nv; i++)
        acc[i] = vec_set(0);
    for (int64_t k = 0; k < s->taps; k++) {
        const real *row = from + s->at[k];
        const vec x = vec_set(weight[k]);

#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                acc[r * nv + v] =
                    fused(x, *(const vec *)(row + r * s->pitch + v * LANES), acc[r * nv + v]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            *(vec *)(to[r] + v * LANES) = acc[r * nv + v];
}

/* The same for strides and dilations of 1, where several rows use each loaded vector. Each row is
 * still summed in its own order. */
ALWAYS_INLINE void lone_rows_shared(int rows, int nv, const struct strip *s, const real *weight,
                                    const real *from, real to[][4 * LANES])
{
    const struct weir__conv *c = s->c;
    vec acc[16];

#pragma GCC unroll 16
    for (int i = 0; i < rows * nv; i++)
        acc[i] = vec_set(0);
    for (int64_t y = 0; y < rows + c->kh - 1; y++, from += s->pitch)
        for (int64_t kx = 0; kx < c->kw; kx++) {
            vec row[4];

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                row[v] = *(const vec *)(from + kx + v * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                vec x;

                if (y < r || y - r >= c->kh)
                    continue;
                x = vec_set(weight[(y - r) * c->kw + kx]);
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++)
                    acc[r * nv + v] = fused(x, row[v], acc[r * nv + v]);
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            *(vec *)(to[r] + v * LANES) = acc[r * nv + v];
}

/* Computes a strip's rows for output o, by one of the two functions above. The last rows may be
 * computed twice. */
ALWAYS_INLINE void run_lone_rows(int rows, int nv, bool shared, const struct strip *s, int64_t o,
                                 const real *weight)
{
    for (int64_t y = 0; y < s->rows; y += rows) {
        const int64_t top = weir__min(y, s->rows - rows);

        for (int64_t x = 0; x < s->cols; x += nv * LANES) {
            const int64_t cols = weir__min(nv * LANES, s->cols - x), j = top * s->pitch + x;
            _Alignas(64) real sums[8][4 * LANES];

            if (shared)
                lone_rows_shared(rows, nv, s, weight, s->copy + j, sums);
            else
                lone_rows(rows, nv, s, weight, s->copy + j, sums);
            for (int64_t r = 0; r < rows; r++)
                write_line(s, o, place_of(s, o, j + r * s->pitch), sums[r], cols);
        }
    }
}

/* Computes the copy's columns consecutively, over the ends of rows. */
static void run_lone_flat(const struct strip *s, int64_t o, const real *weight)
{
    const int64_t end = flat_end(s);

    for (int64_t j = 0; j < end; j += LONE_VECTORS * LANES) {
        const int64_t cols = weir__min(LONE_VECTORS * LANES, end - j);
        _Alignas(64) real row[LONE_VECTORS * LANES];

        if (cols > 4 * LANES)
            lone_tile(LONE_VECTORS, s, weight, s->copy + j, row);
        else if (cols > 2 * LANES)
            lone_tile(4, s, weight, s->copy + j, row);
        else
            lone_tile(2, s, weight, s->copy + j, row);
        write_row(s, o, j, cols, row);
    }
}

/* Loads the weight of output o in the compute type. */
static void load_weight(const struct strip *s, int64_t o, real *weight)
{
    const struct weir__conv *c = s->c;
    const char *from =
        c->weight + (s->first + o) * c->weight_step[0] * (int64_t)weir_dtype_size(c->dtype);

    if (!weir__conv_weight_is_matrix(c)) {
        lay_weight_out(s, o, 1);
        from = s->weight;
    }
    for (int64_t k = 0; k < s->taps; k++)
        weight[k] = load_one(from, k, c->dtype);
}

static void run_lone(struct strip *s, const struct weir__conv_part *p)
{
    const struct weir__conv *c = s->c;
    const bool shared = c->stride[0] * c->stride[1] == 1 && c->dilation[0] * c->dilation[1] == 1 &&
                        c->channels == 1;
    real *weight = s->local;
    bool by_rows;

    lay_out(s);
    by_rows = s->taps <= STRETCH && s->rows >= 8 &&
              s->rows * weir__div_up(s->cols, LANES) <= weir__div_up(flat_end(s), LANES) * 5 / 4;
    for (int64_t o = p->o0; o < p->o1; o++) {
        load_weight(s, o, weight);
        if (!by_rows)
            run_lone_flat(s, s->first + o, weight);
        else if (s->cols <= LANES)
            run_lone_rows(8, 1, false, s, s->first + o, weight);
        else if (!shared)
            run_lone_rows(4, 2, false, s, s->first + o, weight);
        else if (s->cols <= 2 * LANES)
            run_lone_rows(4, 2, true, s, s->first + o, weight);
        else
            run_lone_rows(4, 4, true, s, s->first + o, weight);
    }
}

/* ---- matrix product with packed panels ---- */

/* Fills a row of a panel from the copy. Writes whole vectors; the next run or row overwrites the
 * excess. */
ALWAYS_INLINE void pack_runs(real *row, const real *from, const struct run *runs, int n)
{
    for (int i = 0; i < n; i++)
        for (int64_t q = 0; q < runs[i].n; q += LANES)
            *(vec *)(row + runs[i].to + q) = *(const vec *)(from + runs[i].from + q);
}

static void pack_columns(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn,
                         int64_t j0, int64_t jn)
{
    const struct strip *s = source;
    struct run runs[NR];
    const int n = find_runs(s, j0, jn, runs);
    real *row = dst;

    for (int64_t k = k0; k < k0 + kn; k++, row += width) {
        const real *from = s->copy + s->at[k];

        if (k == k0 + kn - 1) /* the last row: no later row overwrites the excess */
            for (int i = 0; i < n; i++)
                memcpy(row + runs[i].to, from + runs[i].from, (size_t)runs[i].n * sizeof *row);
        else
            pack_runs(row, from, runs, n);
        for (int64_t q = jn; q < width; q++)
            row[q] = 0;
    }
}

static void run_packed(struct strip *s, const struct weir__conv_part *p)
{
    lay_out(s);
    multiply(s, p, pack_columns, GEMM);
}

/* ---- without a copy ---- */

static void pack_taps(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn,
                      int64_t j0, int64_t jn)
{
    const struct strip *s = source;
    real *row = dst;

    for (int64_t k = k0; k < k0 + kn; k++, row += width)
        for (int64_t q = 0; q < width; q++)
            row[q] = q < jn ? tap_of(s, k, j0 + q) : 0;
}

static void run_taps(struct strip *s, const struct weir__conv_part *p)
{
    multiply(s, p, pack_taps, GEMM);
}

#if WEIR__ISA_LEVEL == WEIR__ISA_V4 && !WEIR__REAL_F64
#include "ops/host/conv/depthwise.h"
#endif

/* ---- choice of the variant ---- */

/* Packing panels pays if many outputs use them, and if tiles that read the copy in place would
 * compute many columns between its rows. */
static bool pays_to_pack(const struct strip *s, int64_t outputs)
{
    const struct strip laid = {
        .rows = s->rows, .cols = s->cols, .pitch = copy_pitch(s->c, s->cols)};
    const int64_t vectors = is_flat(&laid) ? weir__div_up(flat_end(&laid), LANES)
                                           : laid.rows * weir__div_up(laid.cols, LANES);

    if (s->taps * MR * (int64_t)sizeof(real) > WEIR__GEMM_PACKED_BYTES) /* a panel of weights does
                                                                         * not fit */
        return true;
    return outputs >= 4 * MR && vectors * 16 > weir__div_up(laid.rows * laid.cols, LANES) * 17;
}

static void conv(const struct weir__conv *c, const struct weir__conv_part *p, void *local)
{
    struct strip s = strip_of(c, local);
    const int64_t rows = c->oh == 1 ? 1 : p->n1 - p->n0, cols = c->oh == 1 ? p->n1 - p->n0 : c->ow;
    /* for a matrix product that keeps its sums in the output */
    const int64_t packed_n = WEIR__GEMM_PACKED_N * (c->dtype == REAL_DTYPE ? 2 : 1);
    bool copied = size_strip(&s, rows, cols, INT32_MAX);
    void (*run)(struct strip *, const struct weir__conv_part *) = run_direct;
#if WEIR__ISA_LEVEL == WEIR__ISA_V4 && !WEIR__REAL_F64
    const int64_t side = depthwise_rows(c, p);

    if (side) {
        conv_depthwise(&s, p, side);
        return;
    }
#endif

    if (p->o1 - p->o0 == 1) {
        run = run_lone;
    } else if (pays_to_pack(&s, p->o1 - p->o0)) {
        copied = size_strip(&s, rows, cols, packed_n);
        run = run_packed;
    }
    for (int64_t unit = p->unit0; unit < p->unit1; unit++) {
        go_to_unit(&s, unit);
        if (is_matrix(c))
            multiply_matrix(&s, p, local, GEMM);
        else if (!copied)
            each_strip(&s, p, run_taps);
        else
            each_strip(&s, p, run);
    }
}
