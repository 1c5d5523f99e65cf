/* Softmax of many rows side by side, one vector of rows at a time: used if adjacent elements in
 * memory belong to different rows, or if rows are too short to be computed one by one. The
 * additions of a row and their order do not depend on the other rows. */
#include "ops/host/math/norm.h"

#include "ops/host/box.h"
#include "ops/host/math/vmath.h"
#include "ops/tile.h"

enum {
    SHORT_ROW = 16,    /* elements */
    MIN_COLUMNS = 16,  /* fewer do not pay */
    MAX_COLUMNS = 256, /* at once */
    STRIP = 1 << 16,   /* elements of all rows at once, which stay in the second-level cache */
    ROOM = 1 << 17,    /* elements in the buffers */
};

/* Rows of one strip. */
struct columns {
    int64_t n, width;
    void *out, *max, *sum; /* a maximum and a sum for each column */
    const void *in;
    int64_t in_step, out_step; /* distance between elements of a row */
};

static void columns_f32(const struct columns *c)
{
    const float *in = c->in;
    float *out = c->out, *max = c->max;
    double *sum = c->sum;

    for (int64_t j = 0; j < c->width; j++) {
        max[j] = -INFINITY;
        sum[j] = 0;
    }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < c->width; j++) {
            float x = in[i * c->in_step + j];

            max[j] = ((x > max[j]) | (x != x)) ? x : max[j];
        }
    for (int64_t i = 0; i < c->n; i++) {
        const float *x = in + i * c->in_step;
        float *y = out + i * c->out_step;
        int64_t j = 0;

        for (; j + WEIR__VF_LANES <= c->width; j += WEIR__VF_LANES)
            weir__vf_store(y + j, weir__vf_exp(weir__vf_load(x + j) - weir__vf_load(max + j)));
        if (j < c->width)
            weir__vf_store_part(y + j,
                                weir__vf_exp(weir__vf_load_part(x + j, c->width - j) -
                                             weir__vf_load_part(max + j, c->width - j)),
                                c->width - j);
        for (j = 0; j < c->width; j++)
            sum[j] += (double)y[j];
    }
    for (int64_t j = 0; j < c->width; j++)
        max[j] = (float)(1 / sum[j]);
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < c->width; j++)
            out[i * c->out_step + j] *= max[j];
}

static void columns_f64(const struct columns *c)
{
    const double *in = c->in;
    double *out = c->out, *max = c->max, *sum = c->sum;

    for (int64_t j = 0; j < c->width; j++) {
        max[j] = -INFINITY;
        sum[j] = 0;
    }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < c->width; j++) {
            double x = in[i * c->in_step + j];

            max[j] = ((x > max[j]) | (x != x)) ? x : max[j];
        }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < c->width; j++)
            sum[j] += out[i * c->out_step + j] = exp(in[i * c->in_step + j] - max[j]);
    for (int64_t j = 0; j < c->width; j++)
        max[j] = 1 / sum[j];
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = 0; j < c->width; j++)
            out[i * c->out_step + j] *= max[j];
}

/* Whether this side of the call is packed along the columns, in the compute type. */
static bool is_direct(const struct weir__softmax *a, const int64_t *stride)
{
    return stride[a->rows.ndim - 1] == 1 && weir__compute_type(a->dtype) == a->dtype;
}

bool WEIR__ISA_NAME(weir__softmax_is_columns)(const struct weir__softmax *a)
{
    const struct weir__rows *r = &a->rows;
    int last = r->ndim - 1;
    bool fits =
        r->n * MIN_COLUMNS <= ROOM || (is_direct(a, r->in_stride) && is_direct(a, r->out_stride));

    return fits && r->n && r->shape[last] >= MIN_COLUMNS &&
           (r->n <= SHORT_ROW || (r->in_step != 1 && r->in_stride[last] == 1));
}

/* Computes the strip of `width` rows whose elements begin at `in` and `out`. */
static void run_strip(const struct weir__softmax *a, int64_t in, int64_t out, int64_t width,
                      char *local)
{
    const struct weir__rows *r = &a->rows;
    int last = r->ndim - 1;
    size_t elem = weir__elem_size(a->dtype);
    weir_dtype type = weir__compute_type(a->dtype);
    char *max = local, *sum = max + MAX_COLUMNS * sizeof(double);
    char *rows = sum + MAX_COLUMNS * sizeof(double), *raw = rows + ROOM * sizeof(double);
    const char *src = a->in + in * (int64_t)elem;
    char *dst = a->out + out * (int64_t)elem;
    const int64_t shape[] = {r->n, width};
    struct weir__box box;
    struct columns c = {.n = r->n, .width = width, .max = max, .sum = sum};

    if (is_direct(a, r->in_stride)) {
        c.in = src;
        c.in_step = r->in_step;
    } else {
        WEIR__ISA_NAME(weir__box_init)
        (&box, 2, shape, (int64_t[]){r->in_step, r->in_stride[last]});
        WEIR__ISA_NAME(weir__box_pack)(type == a->dtype ? rows : raw, src, &box, elem);
        if (type != a->dtype)
            WEIR__ISA_NAME(weir__row_convert)(rows, type, raw, a->dtype, box.numel);
        c.in = rows;
        c.in_step = width;
    }
    c.out = is_direct(a, r->out_stride) ? dst : rows;
    c.out_step = is_direct(a, r->out_stride) ? r->out_step : width;
    if (type == WEIR_F64)
        columns_f64(&c);
    else
        columns_f32(&c);
    if (c.out == dst)
        return;
    WEIR__ISA_NAME(weir__box_init)
    (&box, 2, shape, (int64_t[]){r->out_step, r->out_stride[last]});
    if (type != a->dtype)
        WEIR__ISA_NAME(weir__row_convert)(raw, a->dtype, rows, type, box.numel);
    WEIR__ISA_NAME(weir__box_unpack)(dst, type == a->dtype ? rows : raw, &box, elem);
}

void WEIR__ISA_NAME(weir__softmax_columns)(const struct weir__softmax *a, int64_t begin,
                                           int64_t end, void *local)
{
    int64_t last = a->rows.shape[a->rows.ndim - 1], width;
    int64_t most = weir__min(weir__max(STRIP / weir__max(a->rows.n, 1), MIN_COLUMNS), MAX_COLUMNS);

    for (; begin < end; begin += width) {
        int64_t in, out;

        width = weir__min(weir__min(most, last - begin % last), end - begin);
        weir__rows_at(&a->rows, begin, &in, &out);
        run_strip(a, in, out, width, local);
    }
}
