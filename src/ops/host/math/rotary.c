/* Rotary position embedding: rotates pairs of elements by an angle per position. */
#include "ops/host/math/rotary.h"

#include "ops/tile.h"

#define TURN(T, type)                                                                      \
    static void turn_##T(type *restrict y, const type *restrict x, const type *restrict c, \
                         const type *restrict s, int64_t half, bool interleaved)           \
    {                                                                                      \
        if (interleaved)                                                                   \
            for (int64_t i = 0; i < half; i++) {                                           \
                y[2 * i] = x[2 * i] * c[i] - x[2 * i + 1] * s[i];                          \
                y[2 * i + 1] = x[2 * i] * s[i] + x[2 * i + 1] * c[i];                      \
            }                                                                              \
        else                                                                               \
            for (int64_t i = 0; i < half; i++) {                                           \
                y[i] = x[i] * c[i] - x[i + half] * s[i];                                   \
                y[i + half] = x[i] * s[i] + x[i + half] * c[i];                            \
            }                                                                              \
    }
TURN(f32, float)
TURN(f64, double)

weir_status WEIR__ISA_NAME(weir__rotary_kernel)(const void *args, const weir_block *block)
{
    const struct weir__rotary *a = args;
    struct weir__range range = weir__tile_rows(a->rows.count, 1, block);
    int64_t elem = (int64_t)weir__elem_size(a->dtype), half = a->rows.n / 2, loaded = -1;
    int64_t angle_elem = (int64_t)weir__elem_size(a->angle_type);
    weir_dtype type = weir__compute_type(a->dtype);
    char *x = block->local, *y = x + WEIR__ROTARY_MAX * 8;
    char *c = y + WEIR__ROTARY_MAX * 8, *s = c + WEIR__ROTARY_MAX * 8;

    for (int64_t r = range.begin; r < range.end; r++) {
        int64_t position = r / a->heads % a->length, in, out;

        if (position != loaded) {
            WEIR__ISA_NAME(weir__row_load_all)
            (c, type, a->cosines + position * a->cos_row * angle_elem, a->angle_type, a->cos_step,
             half);
            WEIR__ISA_NAME(weir__row_load_all)
            (s, type, a->sines + position * a->sin_row * angle_elem, a->angle_type, a->sin_step,
             half);
            loaded = position;
        }
        weir__rows_at(&a->rows, r, &in, &out);
        WEIR__ISA_NAME(weir__row_load_all)
        (x, type, a->in + in * elem, a->dtype, a->rows.in_step, a->rows.n);
        if (type == WEIR_F64)
            turn_f64((double *)(void *)y, (void *)x, (void *)c, (void *)s, half, a->interleaved);
        else
            turn_f32((float *)(void *)y, (void *)x, (void *)c, (void *)s, half, a->interleaved);
        WEIR__ISA_NAME(weir__row_store)
        (a->out + out * elem, a->dtype, a->rows.out_step, y, type, a->rows.n);
    }
    return WEIR_OK;
}
