/* Layer norm and rms norm of rows. */
#include "ops/host/math/norm.h"

#include "ops/host/math/norm_row.h"
#include "ops/tile.h"

#define CHUNK WEIR__ROW_CHUNK

/* Loads rows and parameters in chunks, in the compute type. */
struct loader {
    const struct weir__norm *a;
    const char *row;
    char *buffer;
};

static const void *load(const struct loader *l, const char *base, int64_t step, int which,
                        int64_t i, int64_t m)
{
    weir_dtype dtype = l->a->dtype;

    if (!base)
        return NULL;
    return WEIR__ISA_NAME(weir__row_load)(
        l->buffer + (size_t)which * WEIR__ROW_BYTES, weir__compute_type(dtype),
        base + i * step * (int64_t)weir__elem_size(dtype), dtype, step, m);
}

static double row_sum(const struct loader *l, bool squares, double mean)
{
    const struct weir__norm *a = l->a;
    double sum = 0;

    for (int64_t i = 0; i < a->rows.n; i += CHUNK) {
        int64_t m = weir__min(CHUNK, a->rows.n - i);
        const void *x = load(l, l->row, a->rows.in_step, 0, i, m);

        if (a->dtype == WEIR_F64)
            sum += squares ? weir__row_squares_f64(x, m, mean) : weir__row_sum_f64(x, m);
        else
            sum += squares ? weir__row_squares_f32(x, m, (float)mean) : weir__row_sum_f32(x, m);
    }
    return sum;
}

weir_status WEIR__ISA_NAME(weir__norm_kernel)(const void *args, const weir_block *block)
{
    const struct weir__norm *a = args;
    struct weir__range range = weir__tile_rows(a->rows.count, 1, block);
    struct loader l = {.a = a, .buffer = block->local};
    char *result = l.buffer + 3 * WEIR__ROW_BYTES;
    int64_t elem = (int64_t)weir__elem_size(a->dtype), n = a->rows.n;
    weir_dtype type = weir__compute_type(a->dtype);

    for (int64_t r = range.begin; r < range.end; r++) {
        double mean, factor;
        int64_t in, out;

        weir__rows_at(&a->rows, r, &in, &out);
        l.row = a->in + in * elem;
        mean = a->centred ? row_sum(&l, false, 0) / (double)n : 0;
        factor = 1 / sqrt(row_sum(&l, true, mean) / (double)n + a->eps);
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t m = weir__min(CHUNK, n - i);
            const void *x = load(&l, l.row, a->rows.in_step, 0, i, m);
            const void *weight = load(&l, a->weight, a->weight_step, 1, i, m);
            const void *bias = load(&l, a->bias, a->bias_step, 2, i, m);

            if (type == WEIR_F64)
                weir__row_affine_f64((double *)(void *)result, x, m, mean, factor, weight, bias);
            else
                weir__row_affine_f32((float *)(void *)result, x, m, (float)mean, (float)factor,
                                     weight, bias);
            WEIR__ISA_NAME(weir__row_store)
            (a->out + (out + i * a->rows.out_step) * elem, a->dtype, a->rows.out_step, result, type,
             m);
        }
    }
    return WEIR_OK;
}
