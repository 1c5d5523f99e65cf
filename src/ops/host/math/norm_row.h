/* The inner loops of softmax and normalisation, in f32 and f64. */
#ifndef WEIR_OPS_HOST_NORM_ROW_H
#define WEIR_OPS_HOST_NORM_ROW_H

#include "ops/host/math/reduce_row.h"
#include "ops/host/math/vmath.h"

/* dst = exp(x - max). Returns the sum. dst may be x. */
static inline double weir__row_exp_f32(float *dst, const float *x, int64_t n, float max)
{
    weir__vf sum = {0};
    double total = 0;
    int64_t i = 0;

    for (; i + WEIR__VF_LANES <= n; i += WEIR__VF_LANES) {
        weir__vf e = weir__vf_exp(weir__vf_load(x + i) - max);

        weir__vf_store(dst + i, e);
        sum += e;
    }
    if (i < n) {
        weir__vf_store_part(dst + i, weir__vf_exp(weir__vf_load_part(x + i, n - i) - max), n - i);
        sum += weir__vf_load_part(dst + i, n - i);
    }
    for (int k = 0; k < WEIR__VF_LANES; k++)
        total += sum[k];
    return total;
}

static inline double weir__row_exp_f64(double *dst, const double *x, int64_t n, double max)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += dst[i] = exp(x[i] - max);
    return sum;
}

/* The sum of (x - mean)^2. */
static inline double weir__row_squares_f32(const float *x, int64_t n, float mean)
{
    weir__vf s[2] = {{0}};
    double total = 0;
    int64_t i = 0;

    for (; i + 2 * WEIR__VF_LANES <= n; i += 2 * WEIR__VF_LANES)
        for (int k = 0; k < 2; k++) {
            weir__vf d = weir__vf_load(x + i + k * WEIR__VF_LANES) - mean;

            s[k] = weir__vf_fma(d, d, s[k]);
        }
    for (int64_t m; i < n; i += m) {
        float part[WEIR__VF_LANES] = {0};
        weir__vf d;

        m = n - i < WEIR__VF_LANES ? n - i : WEIR__VF_LANES;
        for (int64_t j = 0; j < m; j++)
            part[j] = x[i + j] - mean;
        d = weir__vf_load(part);
        s[0] = weir__vf_fma(d, d, s[0]);
    }
    s[0] += s[1];
    for (int k = 0; k < WEIR__VF_LANES; k++)
        total += s[0][k];
    return total;
}

static inline double weir__row_squares_f64(const double *x, int64_t n, double mean)
{
    double s[WEIR__REDUCE_LANES] = {0}, total = 0;
    int64_t i = 0;

    for (; i + WEIR__REDUCE_LANES <= n; i += WEIR__REDUCE_LANES)
        for (int k = 0; k < WEIR__REDUCE_LANES; k++)
            s[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (int k = 0; i < n; i++, k++)
        s[k] += (x[i] - mean) * (x[i] - mean);
    for (int k = 0; k < WEIR__REDUCE_LANES; k++)
        total += s[k];
    return total;
}

#define WEIR__ROW_SCALE(T, type)                                                                   \
    /* dst = x * factor; dst may be x. */                                                          \
    static inline void weir__row_scale_##T(type *dst, const type *x, int64_t n, type factor)       \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            dst[i] = x[i] * factor;                                                                \
    }                                                                                              \
    /* dst = (x - mean) * factor * weight + bias; weight and bias may be NULL. */                  \
    static inline void weir__row_affine_##T(type *restrict dst, const type *restrict x, int64_t n, \
                                            type mean, type factor, const type *restrict weight,   \
                                            const type *restrict bias)                             \
    {                                                                                              \
        if (weight && bias)                                                                        \
            for (int64_t i = 0; i < n; i++)                                                        \
                dst[i] = (x[i] - mean) * factor * weight[i] + bias[i];                             \
        else if (weight)                                                                           \
            for (int64_t i = 0; i < n; i++)                                                        \
                dst[i] = (x[i] - mean) * factor * weight[i];                                       \
        else if (bias)                                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                dst[i] = (x[i] - mean) * factor + bias[i];                                         \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                dst[i] = (x[i] - mean) * factor;                                                   \
    }
WEIR__ROW_SCALE(f32, float)
WEIR__ROW_SCALE(f64, double)

#endif
