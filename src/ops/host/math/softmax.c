/* Softmax of rows, and the gate of a mixture of experts. */
#include "ops/host/math/norm.h"

#include "ops/host/math/norm_row.h"
#include "ops/tile.h"

#define CHUNK WEIR__ROW_CHUNK

/* A row in memory, read in chunks. */
struct source {
    const char *at;
    weir_dtype dtype;
    int64_t step, n;
    char *buffer;
};

static const void *source_load(const struct source *s, int64_t i, int64_t m)
{
    return WEIR__ISA_NAME(weir__row_load)(s->buffer, weir__compute_type(s->dtype),
                                          s->at + i * s->step * (int64_t)weir__elem_size(s->dtype),
                                          s->dtype, s->step, m);
}

static void softmax_f32(const struct source *s, float *dst)
{
    float max = -INFINITY;
    double sum = 0;

    for (int64_t i = 0; i < s->n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, s->n - i);
        float v = weir__row_max_f32(source_load(s, i, m), m);

        max = v > max || v != v ? v : max;
    }
    for (int64_t i = 0; i < s->n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, s->n - i);

        sum += weir__row_exp_f32(dst + i, source_load(s, i, m), m, max);
    }
    weir__row_scale_f32(dst, dst, s->n, (float)(1 / sum));
}

static void softmax_f64(const struct source *s, double *dst)
{
    double max = -INFINITY, sum = 0;

    for (int64_t i = 0; i < s->n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, s->n - i);
        double v = weir__row_max_f64(source_load(s, i, m), m);

        max = v > max || v != v ? v : max;
    }
    for (int64_t i = 0; i < s->n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, s->n - i);

        sum += weir__row_exp_f64(dst + i, source_load(s, i, m), m, max);
    }
    weir__row_scale_f64(dst, dst, s->n, 1 / sum);
}

static void softmax(const struct source *s, void *dst)
{
    if (s->dtype == WEIR_F64)
        softmax_f64(s, dst);
    else
        softmax_f32(s, dst);
}

weir_status WEIR__ISA_NAME(weir__softmax_kernel)(const void *args, const weir_block *block)
{
    const struct weir__softmax *a = args;
    size_t elem = weir__elem_size(a->dtype);
    bool columns = WEIR__ISA_NAME(weir__softmax_is_columns)(a);
    /* Neighbouring rows share cache lines, which two cores should not both write. */
    struct weir__range range =
        weir__tile_rows(a->rows.count, columns ? 64 / (int64_t)elem : 1, block);
    weir_dtype type = weir__compute_type(a->dtype);
    bool direct = type == a->dtype && a->rows.out_step == 1;
    struct source s = {
        .dtype = a->dtype,
        .step = a->rows.in_step,
        .n = a->rows.n,
        .buffer = block->local,
    };
    char *row = s.buffer + WEIR__ROW_BYTES;

    if (columns) {
        WEIR__ISA_NAME(weir__softmax_columns)(a, range.begin, range.end, block->local);
        return WEIR_OK;
    }
    if (a->wide_rows)
        row = a->wide_rows + (size_t)block->index * (size_t)s.n * weir__elem_size(type);
    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t in, out;

        weir__rows_at(&a->rows, i, &in, &out);
        s.at = a->in + in * (int64_t)elem;
        if (direct) {
            softmax(&s, a->out + out * (int64_t)elem);
        } else {
            softmax(&s, row);
            WEIR__ISA_NAME(weir__row_store)
            (a->out + out * (int64_t)elem, a->dtype, a->rows.out_step, row, type, s.n);
        }
    }
    return WEIR_OK;
}

/* Writes the k largest of n probabilities to best[], their indices to place[]. Of equal ones the
 * first is selected. */
#define SELECT(T, type)                                                                     \
    static void select_##T(const type *p, int64_t n, int64_t k, type *best, int32_t *place) \
    {                                                                                       \
        int64_t held = 0;                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                   \
            int64_t j = held;                                                               \
            if (held == k && !(p[i] > best[k - 1]))                                         \
                continue;                                                                   \
            if (held < k)                                                                   \
                held++;                                                                     \
            else                                                                            \
                j = k - 1;                                                                  \
            for (; j > 0 && p[i] > best[j - 1]; j--) {                                      \
                best[j] = best[j - 1];                                                      \
                place[j] = place[j - 1];                                                    \
            }                                                                               \
            best[j] = p[i];                                                                 \
            place[j] = (int32_t)i;                                                          \
        }                                                                                   \
    }
SELECT(f32, float)
SELECT(f64, double)

weir_status WEIR__ISA_NAME(weir__gating_kernel)(const void *args, const weir_block *block)
{
    const struct weir__gating *a = args;
    struct weir__range range = weir__tile_range(a->rows.count, 1, block);
    size_t elem = weir__elem_size(a->dtype);
    weir_dtype type = weir__compute_type(a->dtype);
    struct source s = {
        .dtype = a->dtype,
        .step = a->rows.in_step,
        .n = a->rows.n,
        .buffer = block->local,
    };
    char *row = s.buffer + WEIR__ROW_BYTES;
    char *best = row + (size_t)WEIR__GATING_MAX * 8;
    int32_t *place = (int32_t *)(void *)(best + (size_t)WEIR__GATING_MAX * 8);

    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t in, out;

        weir__rows_at(&a->rows, i, &in, &out);
        s.at = a->in + in * (int64_t)elem;
        softmax(&s, row);
        if (type == WEIR_F64) {
            select_f64((double *)(void *)row, s.n, a->k, (double *)(void *)best, place);
            if (a->renormalise)
                weir__row_scale_f64((double *)(void *)best, (double *)(void *)best, a->k,
                                    1 / weir__row_sum_f64((double *)(void *)best, a->k));
        } else {
            select_f32((float *)(void *)row, s.n, a->k, (float *)(void *)best, place);
            if (a->renormalise)
                weir__row_scale_f32((float *)(void *)best, (float *)(void *)best, a->k,
                                    (float)(1 / weir__row_sum_f32((float *)(void *)best, a->k)));
        }
        WEIR__ISA_NAME(weir__row_store)
        (a->weights + out * (int64_t)elem, a->dtype, a->rows.out_step, best, type, a->k);
        WEIR__ISA_NAME(weir__row_unpack)
        (a->experts + i * a->experts_row, a->experts_step, place, sizeof *place, a->k);
    }
    return WEIR_OK;
}
