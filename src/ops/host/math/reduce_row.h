/* Reductions of packed rows to one value, and of rows into a row of values. */
#ifndef WEIR_OPS_HOST_REDUCE_ROW_H
#define WEIR_OPS_HOST_REDUCE_ROW_H

#include <math.h>

#include "ops/host/math/simd.h"

/* Several accumulators per vector lane, so that additions do not wait for each other. */
#define WEIR__REDUCE_LANES 8

static inline double weir__row_sum_f32(const float *x, int64_t n)
{
    weir__vf s[4] = {{0}};
    double sum = 0;
    int64_t i = 0;

    for (; i + 4 * WEIR__VF_LANES <= n; i += 4 * WEIR__VF_LANES)
        for (int k = 0; k < 4; k++)
            s[k] += weir__vf_load(x + i + k * WEIR__VF_LANES);
    for (; i + WEIR__VF_LANES <= n; i += WEIR__VF_LANES)
        s[0] += weir__vf_load(x + i);
    if (i < n)
        s[1] += weir__vf_load_part(x + i, n - i);
    s[0] = (s[0] + s[1]) + (s[2] + s[3]);
    for (int k = 0; k < WEIR__VF_LANES; k++)
        sum += s[0][k];
    return sum;
}

static inline double weir__row_sum_f64(const double *x, int64_t n)
{
    double s[WEIR__REDUCE_LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + WEIR__REDUCE_LANES <= n; i += WEIR__REDUCE_LANES)
        for (int k = 0; k < WEIR__REDUCE_LANES; k++)
            s[k] += x[i + k];
    for (int k = 0; i < n; i++, k++)
        s[k] += x[i];
    for (int k = 0; k < WEIR__REDUCE_LANES; k++)
        sum += s[k];
    return sum;
}

/* A NaN beats every number. The last vectors may read some elements twice, which does not change
 * the result. */
#define WEIR__ROW_EXTREME_F32(name, OP, worst)                                     \
    static inline float name(const float *x, int64_t n)                            \
    {                                                                              \
        const int64_t step = 4 * WEIR__VF_LANES;                                   \
        float best = worst;                                                        \
        int64_t i = 0;                                                             \
        if (n >= step) {                                                           \
            weir__vf m[4];                                                         \
            for (int k = 0; k < 4; k++)                                            \
                m[k] = weir__vf_load(x + k * WEIR__VF_LANES);                      \
            for (i = step; i < n; i += step) {                                     \
                const float *p = x + (i + step <= n ? i : n - step);               \
                for (int k = 0; k < 4; k++) {                                      \
                    weir__vf v = weir__vf_load(p + k * WEIR__VF_LANES);            \
                    m[k] = weir__vf_pick((v OP m[k]) | (v != v), v, m[k]);         \
                }                                                                  \
            }                                                                      \
            for (int k = 1; k < 4; k++)                                            \
                m[0] = weir__vf_pick((m[k] OP m[0]) | (m[k] != m[k]), m[k], m[0]); \
            for (int k = 0; k < WEIR__VF_LANES; k++)                               \
                best = m[0][k] OP best || m[0][k] != m[0][k] ? m[0][k] : best;     \
        }                                                                          \
        for (; i < n; i++)                                                         \
            best = x[i] OP best || x[i] != x[i] ? x[i] : best;                     \
        return best;                                                               \
    }
WEIR__ROW_EXTREME_F32(weir__row_max_f32, >, -INFINITY)
WEIR__ROW_EXTREME_F32(weir__row_min_f32, <, INFINITY)

static inline double weir__row_max_f64(const double *x, int64_t n)
{
    double best = -INFINITY;

    for (int64_t i = 0; i < n; i++)
        best = x[i] > best || x[i] != x[i] ? x[i] : best;
    return best;
}

static inline double weir__row_min_f64(const double *x, int64_t n)
{
    double best = INFINITY;

    for (int64_t i = 0; i < n; i++)
        best = x[i] < best || x[i] != x[i] ? x[i] : best;
    return best;
}

#define WEIR__ROW_REDUCE_INT(T, type)                                 \
    static inline int64_t weir__row_sum_##T(const type *x, int64_t n) \
    {                                                                 \
        uint64_t sum = 0; /* wraps */                                 \
        for (int64_t i = 0; i < n; i++)                               \
            sum += (uint64_t)(int64_t)x[i];                           \
        return (int64_t)sum;                                          \
    }                                                                 \
    static inline int64_t weir__row_max_##T(const type *x, int64_t n) \
    {                                                                 \
        type best = x[0];                                             \
        for (int64_t i = 1; i < n; i++)                               \
            best = x[i] > best ? x[i] : best;                         \
        return best;                                                  \
    }                                                                 \
    static inline int64_t weir__row_min_##T(const type *x, int64_t n) \
    {                                                                 \
        type best = x[0];                                             \
        for (int64_t i = 1; i < n; i++)                               \
            best = x[i] < best ? x[i] : best;                         \
        return best;                                                  \
    }
WEIR__ROW_REDUCE_INT(i64, int64_t)
WEIR__ROW_REDUCE_INT(i32, int32_t)

#endif
