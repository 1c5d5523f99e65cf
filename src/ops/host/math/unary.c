/* Unary operations on packed rows. */
#include "ops/host/math/elementwise.h"
#include "ops/host/math/vmath.h"

#define VECTOR_ROW(name, expr)                                                          \
    static void name(void *out, const void *const *in, int64_t n, const void *constant) \
    {                                                                                   \
        const float *p = in[0];                                                         \
        float *po = out;                                                                \
        int64_t i = 0;                                                                  \
        (void)constant;                                                                 \
        for (; i + WEIR__VF_LANES <= n; i += WEIR__VF_LANES) {                          \
            weir__vf x = weir__vf_load(p + i);                                          \
            weir__vf_store(po + i, expr);                                               \
        }                                                                               \
        if (i < n) {                                                                    \
            weir__vf x = weir__vf_load_part(p + i, n - i);                              \
            weir__vf_store_part(po + i, expr, n - i);                                   \
        }                                                                               \
    }

VECTOR_ROW(neg_f32, -x)
VECTOR_ROW(abs_f32, weir__vf_abs(x))
VECTOR_ROW(exp_f32, weir__vf_exp(x))
VECTOR_ROW(log_f32, weir__vf_log(x))
VECTOR_ROW(sqrt_f32, weir__vf_sqrt(x))
VECTOR_ROW(rsqrt_f32, 1.0f / weir__vf_sqrt(x))
VECTOR_ROW(sigmoid_f32, weir__vf_sigmoid(x))
VECTOR_ROW(tanh_f32, weir__vf_tanh(x))
VECTOR_ROW(relu_f32, weir__vf_pick(x < 0.0f, weir__vf_set(0.0f), x))
VECTOR_ROW(gelu_f32, weir__vf_gelu(x))
VECTOR_ROW(silu_f32, weir__vf_silu(x))

#define ROW(name, type, expr)                                                           \
    static void name(void *out, const void *const *in, int64_t n, const void *constant) \
    {                                                                                   \
        const type *p = in[0];                                                          \
        type *po = out;                                                                 \
        (void)constant;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                               \
            type x = p[i];                                                              \
            po[i] = (type)(expr);                                                       \
        }                                                                               \
    }

static double sigmoid(double x)
{
    double e = exp(-fabs(x));

    return (x < 0 ? e : 1) / (1 + e);
}

ROW(neg_f64, double, -x)
ROW(abs_f64, double, fabs(x))
ROW(exp_f64, double, exp(x))
ROW(log_f64, double, log(x))
ROW(sqrt_f64, double, sqrt(x))
ROW(rsqrt_f64, double, 1 / sqrt(x))
ROW(sigmoid_f64, double, sigmoid(x))
ROW(tanh_f64, double, tanh(x))
ROW(relu_f64, double, x < 0 ? 0 : x)
ROW(gelu_f64, double, x == -INFINITY ? -0.0 : 0.5 * x * erfc(x * -0.70710678118654752440))
ROW(silu_f64, double, x == -INFINITY ? -0.0 : x * sigmoid(x))
ROW(sin_f64, double, sin(x))
ROW(cos_f64, double, cos(x))
/* Calls the C library for each element: tables of angles are small, and computed once per step. */
ROW(sin_f32, float, sinf(x))
ROW(cos_f32, float, cosf(x))

#define INT_ROWS(T, type, wide)                       \
    ROW(neg_##T, type, 0 - (wide)x)                   \
    ROW(abs_##T, type, x < 0 ? 0 - (wide)x : (wide)x) \
    ROW(relu_##T, type, x < 0 ? 0 : x)
INT_ROWS(i64, int64_t, uint64_t)
INT_ROWS(i32, int32_t, uint32_t)
INT_ROWS(i8, int8_t, uint32_t)
ROW(neg_u8, uint8_t, 0 - (uint32_t)x)
ROW(same_u8, uint8_t, x)
ROW(bitwise_not_i64, int64_t, ~x)
ROW(bitwise_not_i32, int32_t, ~x)
ROW(bitwise_not_i8, int8_t, ~x)
ROW(bitwise_not_u8, uint8_t, ~x)
ROW(bitwise_not_bool, uint8_t, !x)

/* The bounds are the first two values of `constant`; NaN stays NaN. */
#define CLAMP(T, type)                                                                       \
    static void clamp_##T(void *out, const void *const *in, int64_t n, const void *constant) \
    {                                                                                        \
        const type *p = in[0];                                                               \
        type *po = out;                                                                      \
        type low, high;                                                                      \
        memcpy(&low, constant, sizeof low);                                                  \
        memcpy(&high, (const char *)constant + sizeof(double), sizeof high);                 \
        for (int64_t i = 0; i < n; i++) {                                                    \
            type x = p[i];                                                                   \
            type y = x < low ? low : x;                                                      \
            po[i] = y > high ? high : y;                                                     \
        }                                                                                    \
    }
CLAMP(f32, float)
CLAMP(f64, double)
CLAMP(i64, int64_t)
CLAMP(i32, int32_t)
CLAMP(i8, int8_t)
CLAMP(u8, uint8_t)

#define FLOATS(name)                                                            \
    [WEIR_F32] = name##_f32, [WEIR_F16] = name##_f32, [WEIR_BF16] = name##_f32, \
    [WEIR_F64] = name##_f64
#define NUMBERS(name)                                                                      \
    FLOATS(name), [WEIR_I64] = name##_i64, [WEIR_I32] = name##_i32, [WEIR_I8] = name##_i8, \
                  [WEIR_U8] = name##_u8
#define abs_u8 same_u8
#define relu_u8 same_u8

const struct weir__unary_table WEIR__ISA_NAME(weir__unary) = {{
    [WEIR__UNARY_NEG] = {NUMBERS(neg)},
    [WEIR__UNARY_ABS] = {NUMBERS(abs)},
    [WEIR__UNARY_EXP] = {FLOATS(exp)},
    [WEIR__UNARY_LOG] = {FLOATS(log)},
    [WEIR__UNARY_SQRT] = {FLOATS(sqrt)},
    [WEIR__UNARY_RSQRT] = {FLOATS(rsqrt)},
    [WEIR__UNARY_SIGMOID] = {FLOATS(sigmoid)},
    [WEIR__UNARY_TANH] = {FLOATS(tanh)},
    [WEIR__UNARY_RELU] = {NUMBERS(relu)},
    [WEIR__UNARY_GELU] = {FLOATS(gelu)},
    [WEIR__UNARY_SILU] = {FLOATS(silu)},
    [WEIR__UNARY_CLAMP] = {NUMBERS(clamp)},
    [WEIR__UNARY_SIN] = {FLOATS(sin)},
    [WEIR__UNARY_COS] = {FLOATS(cos)},
    [WEIR__UNARY_BITWISE_NOT] = {[WEIR_I64] = bitwise_not_i64,
                                 [WEIR_I32] = bitwise_not_i32,
                                 [WEIR_I8] = bitwise_not_i8,
                                 [WEIR_U8] = bitwise_not_u8,
                                 [WEIR_BOOL] = bitwise_not_bool},
}};

void WEIR__ISA_NAME(weir__swiglu_f32)(void *out, const void *const *in, int64_t n,
                                      const void *constant)
{
    const float *a = in[0], *b = in[1];
    float *po = out;
    int64_t i = 0;

    (void)constant;
    for (; i + WEIR__VF_LANES <= n; i += WEIR__VF_LANES)
        weir__vf_store(po + i, weir__vf_silu(weir__vf_load(a + i)) * weir__vf_load(b + i));
    if (i < n)
        weir__vf_store_part(po + i,
                            weir__vf_silu(weir__vf_load_part(a + i, n - i)) *
                                weir__vf_load_part(b + i, n - i),
                            n - i);
}

void WEIR__ISA_NAME(weir__swiglu_f64)(void *out, const void *const *in, int64_t n,
                                      const void *constant)
{
    const double *a = in[0], *b = in[1];
    double *po = out;

    (void)constant;
    for (int64_t i = 0; i < n; i++)
        po[i] = (a[i] == -INFINITY ? -0.0 : a[i] * sigmoid(a[i])) * b[i];
}
