/* Binary operations on packed rows. */
#include <math.h>

#include "ops/host/math/elementwise.h"

/* The output may be one of the inputs. Iterations are independent even then, but the compiler
 * cannot know that. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops that are not vectorised are fine here */
#define NO_CARRY _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_CARRY _Pragma("GCC ivdep")
#endif

#define ROW(name, type, result, expr)                                                   \
    static void name(void *out, const void *const *in, int64_t n, const void *constant) \
    {                                                                                   \
        const type *pa = in[0], *pb = in[1];                                            \
        result *po = out;                                                               \
        (void)constant;                                                                 \
        NO_CARRY                                                                        \
        for (int64_t i = 0; i < n; i++) {                                               \
            type a = pa[i], b = pb[i];                                                  \
            po[i] = (result)(expr);                                                     \
        }                                                                               \
    }

/* Integers wrap; x / 0 is 0. The only quotient that does not fit its type wraps too. */
#define INT_DIVIDE(name, type, wide)                                \
    static inline type name(type a, type b)                         \
    {                                                               \
        if (b == 0)                                                 \
            return 0;                                               \
        return b == (type)-1 ? (type)(0 - (wide)a) : (type)(a / b); \
    }
INT_DIVIDE(divide_i64, int64_t, uint64_t)
INT_DIVIDE(divide_i32, int32_t, uint32_t)
INT_DIVIDE(divide_i8, int8_t, uint32_t)

static inline uint8_t divide_u8(uint8_t a, uint8_t b)
{
    return b ? (uint8_t)(a / b) : 0;
}

/* a^b mod 2^64; for b < 0 the integer part of the true quotient. */
static inline uint64_t power(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, y = 1;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? (uint64_t)-1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            y *= base;
    return y;
}

/* NaN if either operand is NaN. Cubes are computed as products, as on a GPU, because models use
 * them in every layer. */
#define FLOAT_ROWS(T, type, power_fn)                             \
    ROW(add_##T, type, type, a + b)                               \
    ROW(sub_##T, type, type, a - b)                               \
    ROW(mul_##T, type, type, a *b)                                \
    ROW(div_##T, type, type, a / b)                               \
    ROW(pow_##T, type, type, b == 3 ? a * a * a : power_fn(a, b)) \
    ROW(maximum_##T, type, type, a != a ? a : a > b ? a : b)      \
    ROW(minimum_##T, type, type, a != a ? a : a < b ? a : b)

#define INT_ROWS(T, type, wide)                 \
    ROW(add_##T, type, type, (wide)a + (wide)b) \
    ROW(sub_##T, type, type, (wide)a - (wide)b) \
    ROW(mul_##T, type, type, (wide)a *(wide)b)  \
    ROW(div_##T, type, type, divide_##T(a, b))  \
    ROW(pow_##T, type, type, power(a, b))       \
    ROW(maximum_##T, type, type, a > b ? a : b) \
    ROW(minimum_##T, type, type, a < b ? a : b)

/* A shift by the width or more, or by a negative number, shifts out all bits; a shift to the right
 * fills with the sign bit. Converted to unsigned, negative shifts are large. A shift by `most`
 * leaves only the sign.
 */
#define BITS_ROWS(T, type, wide, width, most)                               \
    ROW(bitwise_and_##T, type, type, a &b)                                  \
    ROW(bitwise_or_##T, type, type, a | b)                                  \
    ROW(bitwise_xor_##T, type, type, a ^ b)                                 \
    ROW(left_shift_##T, type, type,                                         \
        (wide)b < (width) ? (wide)((wide)a << ((wide)b & ((width)-1))) : 0) \
    ROW(right_shift_##T, type, type, a >> ((wide)b < (most) ? (wide)b : (most)))

#define COMPARE_ROWS(T, type)          \
    ROW(eq_##T, type, uint8_t, a == b) \
    ROW(ne_##T, type, uint8_t, a != b) \
    ROW(lt_##T, type, uint8_t, a < b)  \
    ROW(le_##T, type, uint8_t, a <= b) \
    ROW(gt_##T, type, uint8_t, a > b)  \
    ROW(ge_##T, type, uint8_t, a >= b)

FLOAT_ROWS(f32, float, powf)
FLOAT_ROWS(f64, double, pow)
INT_ROWS(i64, int64_t, uint64_t)
INT_ROWS(i32, int32_t, uint32_t)
INT_ROWS(i8, int8_t, uint32_t)
INT_ROWS(u8, uint8_t, uint32_t)
BITS_ROWS(i64, int64_t, uint64_t, 64, 63)
BITS_ROWS(i32, int32_t, uint32_t, 32, 31)
BITS_ROWS(i8, int8_t, uint32_t, 8, 7)
BITS_ROWS(u8, uint8_t, uint32_t, 8, 8)
COMPARE_ROWS(f32, float)
COMPARE_ROWS(f64, double)
COMPARE_ROWS(i64, int64_t)
COMPARE_ROWS(i32, int32_t)
COMPARE_ROWS(i8, int8_t)
COMPARE_ROWS(u8, uint8_t)
/* A bool from outside weir may hold any byte. */
ROW(maximum_bool, uint8_t, uint8_t, (a | b) != 0)
ROW(minimum_bool, uint8_t, uint8_t, (a != 0) & (b != 0))
ROW(bitwise_and_bool, uint8_t, uint8_t, (a != 0) & (b != 0))
ROW(bitwise_or_bool, uint8_t, uint8_t, (a | b) != 0)
ROW(bitwise_xor_bool, uint8_t, uint8_t, (a != 0) ^ (b != 0))
ROW(eq_bool, uint8_t, uint8_t, !a == !b)
ROW(ne_bool, uint8_t, uint8_t, !a != !b)
ROW(lt_bool, uint8_t, uint8_t, !a > !b)
ROW(le_bool, uint8_t, uint8_t, !a >= !b)
ROW(gt_bool, uint8_t, uint8_t, !a < !b)
ROW(ge_bool, uint8_t, uint8_t, !a <= !b)

#define INTEGERS(name) \
    [WEIR_I64] = name##_i64, [WEIR_I32] = name##_i32, [WEIR_I8] = name##_i8, [WEIR_U8] = name##_u8
#define NUMBERS(name)                                                           \
    [WEIR_F32] = name##_f32, [WEIR_F16] = name##_f32, [WEIR_BF16] = name##_f32, \
    [WEIR_F64] = name##_f64, INTEGERS(name)
#define ALL(name) NUMBERS(name), [WEIR_BOOL] = name##_bool

const struct weir__binary_table WEIR__ISA_NAME(weir__binary) = {{
    [WEIR__BINARY_ADD] = {NUMBERS(add)},
    [WEIR__BINARY_SUB] = {NUMBERS(sub)},
    [WEIR__BINARY_MUL] = {NUMBERS(mul)},
    [WEIR__BINARY_DIV] = {NUMBERS(div)},
    [WEIR__BINARY_POW] = {NUMBERS(pow)},
    [WEIR__BINARY_MAXIMUM] = {ALL(maximum)},
    [WEIR__BINARY_MINIMUM] = {ALL(minimum)},
    [WEIR__BINARY_BITWISE_AND] = {INTEGERS(bitwise_and), [WEIR_BOOL] = bitwise_and_bool},
    [WEIR__BINARY_BITWISE_OR] = {INTEGERS(bitwise_or), [WEIR_BOOL] = bitwise_or_bool},
    [WEIR__BINARY_BITWISE_XOR] = {INTEGERS(bitwise_xor), [WEIR_BOOL] = bitwise_xor_bool},
    [WEIR__BINARY_LEFT_SHIFT] = {INTEGERS(left_shift)},
    [WEIR__BINARY_RIGHT_SHIFT] = {INTEGERS(right_shift)},
    [WEIR__BINARY_EQ] = {ALL(eq)},
    [WEIR__BINARY_NE] = {ALL(ne)},
    [WEIR__BINARY_LT] = {ALL(lt)},
    [WEIR__BINARY_LE] = {ALL(le)},
    [WEIR__BINARY_GT] = {ALL(gt)},
    [WEIR__BINARY_GE] = {ALL(ge)},
}};

#define WHERE(bits)                                                                             \
    static void where_##bits(void *out, const void *const *in, int64_t n, const void *constant) \
    {                                                                                           \
        const uint8_t *condition = in[0];                                                       \
        const uint##bits##_t *pa = in[1], *pb = in[2];                                          \
        uint##bits##_t *po = out;                                                               \
        (void)constant;                                                                         \
        NO_CARRY                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                       \
            uint##bits##_t a = pa[i], b = pb[i];                                                \
            po[i] = condition[i] ? a : b;                                                       \
        }                                                                                       \
    }
WHERE(8)
WHERE(16)
WHERE(32)
WHERE(64)

weir__ew_fn WEIR__ISA_NAME(weir__where)(size_t elem)
{
    return elem == 1 ? where_8 : elem == 2 ? where_16 : elem == 4 ? where_32 : where_64;
}
