/* Rows of elements: conversion, packing, non-temporal stores. */
#include "ops/host/row.h"

#include <stdbool.h>
#include <string.h>

#include "base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Out-of-range conversions are undefined in C, so bounds are checked; NaN gives 0. */
#define FLOAT_TO_INT(name, from, to, least, limit)                                       \
    static inline to name(from x)                                                        \
    {                                                                                    \
        from y = x >= (limit) ? (from)0 : x;                                             \
        y = y >= (from)(least) ? y : (from)0;                                            \
        return x >= (limit) ? (to)((limit##_INT)) : x < (from)(least) ? (least) : (to)y; \
    }
#define LIMIT_I64 9223372036854775808.0
#define LIMIT_I64_INT INT64_MAX
#define LIMIT_I32 2147483648.0
#define LIMIT_I32_INT INT32_MAX
#define LIMIT_I8 128.0
#define LIMIT_I8_INT INT8_MAX
#define LIMIT_U8 256.0
#define LIMIT_U8_INT UINT8_MAX

FLOAT_TO_INT(f32_to_i64, float, int64_t, INT64_MIN, LIMIT_I64)
FLOAT_TO_INT(f32_to_i32, float, int32_t, INT32_MIN, LIMIT_I32)
FLOAT_TO_INT(f32_to_i8, float, int8_t, INT8_MIN, LIMIT_I8)
FLOAT_TO_INT(f32_to_u8, float, uint8_t, 0, LIMIT_U8)
FLOAT_TO_INT(f64_to_i64, double, int64_t, INT64_MIN, LIMIT_I64)
FLOAT_TO_INT(f64_to_i32, double, int32_t, INT32_MIN, LIMIT_I32)
FLOAT_TO_INT(f64_to_i8, double, int8_t, INT8_MIN, LIMIT_I8)
FLOAT_TO_INT(f64_to_u8, double, uint8_t, 0, LIMIT_U8)

#define PLAIN(to, x) ((to)(x))
#define TRUTH(to, x) ((to)((x) != 0))
#define CALL_F32_I64(to, x) f32_to_i64(x)
#define CALL_F32_I32(to, x) f32_to_i32(x)
#define CALL_F32_I8(to, x) f32_to_i8(x)
#define CALL_F32_U8(to, x) f32_to_u8(x)
#define CALL_F64_I64(to, x) f64_to_i64(x)
#define CALL_F64_I32(to, x) f64_to_i32(x)
#define CALL_F64_I8(to, x) f64_to_i8(x)
#define CALL_F64_U8(to, x) f64_to_u8(x)

#define CONVERT(name, from, to, how)                                          \
    static void name(void *restrict dst, const void *restrict src, int64_t n) \
    {                                                                         \
        const from *s = src;                                                  \
        to *d = dst;                                                          \
        for (int64_t i = 0; i < n; i++)                                       \
            d[i] = how(to, s[i]);                                             \
    }
#define CONVERT_FLOAT(F, type, other, OTHER)        \
    CONVERT(F##_##OTHER, type, other, PLAIN)        \
    CONVERT(F##_I64, type, int64_t, CALL_##F##_I64) \
    CONVERT(F##_I32, type, int32_t, CALL_##F##_I32) \
    CONVERT(F##_I8, type, int8_t, CALL_##F##_I8)    \
    CONVERT(F##_U8, type, uint8_t, CALL_##F##_U8)   \
    CONVERT(F##_BOOL, type, uint8_t, TRUTH)
#define CONVERT_INT(I, type)               \
    CONVERT(I##_F32, type, float, PLAIN)   \
    CONVERT(I##_F64, type, double, PLAIN)  \
    CONVERT(I##_I64, type, int64_t, PLAIN) \
    CONVERT(I##_I32, type, int32_t, PLAIN) \
    CONVERT(I##_I8, type, int8_t, PLAIN)   \
    CONVERT(I##_U8, type, uint8_t, PLAIN)  \
    CONVERT(I##_BOOL, type, uint8_t, TRUTH)

CONVERT_FLOAT(F32, float, double, F64)
CONVERT_FLOAT(F64, double, float, F32)
CONVERT_INT(I64, int64_t)
CONVERT_INT(I32, int32_t)
CONVERT_INT(I8, int8_t)
CONVERT_INT(U8, uint8_t)
CONVERT(BOOL_F32, uint8_t, float, TRUTH)
CONVERT(BOOL_F64, uint8_t, double, TRUTH)
CONVERT(BOOL_I64, uint8_t, int64_t, TRUTH)
CONVERT(BOOL_I32, uint8_t, int32_t, TRUTH)
CONVERT(BOOL_BYTE, uint8_t, uint8_t, TRUTH)

typedef void (*convert_fn)(void *dst, const void *src, int64_t n);

#define ROW_FROM(T)                                                                              \
    [WEIR_##T] = {                                                                               \
        [WEIR_F32] = T##_F32, [WEIR_F64] = T##_F64, [WEIR_I64] = T##_I64,  [WEIR_I32] = T##_I32, \
        [WEIR_I8] = T##_I8,   [WEIR_U8] = T##_U8,   [WEIR_BOOL] = T##_BOOL}
#define F32_F32 NULL
#define F64_F64 NULL
#define BOOL_I8 BOOL_BYTE
#define BOOL_U8 BOOL_BYTE
#define BOOL_BOOL BOOL_BYTE
static const convert_fn converters[WEIR_DTYPE_COUNT][WEIR_DTYPE_COUNT] = {
    ROW_FROM(F32), ROW_FROM(F64), ROW_FROM(I64),  ROW_FROM(I32),
    ROW_FROM(I8),  ROW_FROM(U8),  ROW_FROM(BOOL),
};

/* Rounds to odd: if the value is inexact, sets the last bit. Rounding the result again to f16 or
 * bf16 then equals rounding once. */
static float f64_to_odd_f32(double x)
{
    float nearest = (float)x;
    uint32_t bits = weir__f32_bits(nearest);

    if ((double)nearest == x || !(nearest - nearest == 0)) /* exact, infinite or NaN */
        return nearest;
    if ((nearest > x) == (x > 0)) /* rounded away from zero */
        bits--;
    return weir__f32_from_bits(bits | 1);
}

static void to_odd_f32(float *dst, const void *src, weir_dtype from, int64_t n)
{
    double wide[256];

    converters[from][WEIR_F64] ? converters[from][WEIR_F64](wide, src, n)
                               : (void)memcpy(wide, src, (size_t)n * sizeof *wide);
    for (int64_t i = 0; i < n; i++)
        dst[i] = f64_to_odd_f32(wide[i]);
}

static void to_f32(float *dst, const void *src, weir_dtype from, int64_t n)
{
    if (from == WEIR_F16)
        weir__f16_to_f32_row(dst, src, (size_t)n);
    else if (from == WEIR_BF16)
        weir__bf16_to_f32_row(dst, src, (size_t)n);
    else
        converters[from][WEIR_F32](dst, src, n);
}

static void from_f32(void *dst, weir_dtype to, const float *src, int64_t n)
{
    if (to == WEIR_F16)
        weir__f32_to_f16_row(dst, src, (size_t)n);
    else if (to == WEIR_BF16)
        weir__f32_to_bf16_row(dst, src, (size_t)n);
    else
        converters[WEIR_F32][to](dst, src, n);
}

void WEIR__ISA_NAME(weir__row_convert)(void *dst, weir_dtype to, const void *src, weir_dtype from,
                                       int64_t n)
{
    bool half_from = from == WEIR_F16 || from == WEIR_BF16;
    bool half_to = to == WEIR_F16 || to == WEIR_BF16;

    if (from == to && from != WEIR_BOOL) {
        memmove(dst, src, (size_t)n * weir__elem_size(from));
    } else if (to == WEIR_F32) {
        to_f32(dst, src, from, n);
    } else if (from == WEIR_F32) {
        from_f32(dst, to, src, n);
    } else if (half_from || half_to) {
        float chunk[256];

        for (int64_t i = 0; i < n; i += 256) {
            int64_t m = n - i < 256 ? n - i : 256;

            (half_from ? to_f32 : to_odd_f32)(
                chunk, (const char *)src + (size_t)i * weir__elem_size(from), from, m);
            from_f32((char *)dst + (size_t)i * weir__elem_size(to), to, chunk, m);
        }
    } else {
        converters[from][to](dst, src, n);
    }
}

#define PACK(type)                      \
    do {                                \
        const type *s = src;            \
        type *d = dst;                  \
        for (int64_t i = 0; i < n; i++) \
            d[i] = s[i * stride];       \
    } while (0)
#define UNPACK(type)                    \
    do {                                \
        const type *s = src;            \
        type *d = dst;                  \
        for (int64_t i = 0; i < n; i++) \
            d[i * stride] = s[i];       \
    } while (0)

void WEIR__ISA_NAME(weir__row_pack)(void *dst, const void *src, int64_t stride, size_t elem,
                                    int64_t n)
{
    switch (elem) {
    case 1:
        PACK(uint8_t);
        break;
    case 2:
        PACK(uint16_t);
        break;
    case 4:
        PACK(uint32_t);
        break;
    default:
        PACK(uint64_t);
        break;
    }
}

void WEIR__ISA_NAME(weir__row_unpack)(void *dst, int64_t stride, const void *src, size_t elem,
                                      int64_t n)
{
    switch (elem) {
    case 1:
        UNPACK(uint8_t);
        break;
    case 2:
        UNPACK(uint16_t);
        break;
    case 4:
        UNPACK(uint32_t);
        break;
    default:
        UNPACK(uint64_t);
        break;
    }
}

#define FILL(type)                      \
    do {                                \
        type x, *d = dst;               \
        memcpy(&x, src, sizeof x);      \
        for (int64_t i = 0; i < n; i++) \
            d[i] = x;                   \
    } while (0)

void WEIR__ISA_NAME(weir__row_fill)(void *dst, const void *src, size_t elem, int64_t n)
{
    switch (elem) {
    case 1:
        FILL(uint8_t);
        break;
    case 2:
        FILL(uint16_t);
        break;
    case 4:
        FILL(uint32_t);
        break;
    default:
        FILL(uint64_t);
        break;
    }
}

const void *WEIR__ISA_NAME(weir__row_load)(void *buffer, weir_dtype to, const void *src,
                                           weir_dtype from, int64_t stride, int64_t n)
{
    size_t elem = weir__elem_size(from);

    if (n == 1 || stride == 1) {
        if (from == to)
            return src;
        WEIR__ISA_NAME(weir__row_convert)(buffer, to, src, from, n);
        return buffer;
    }
    if (from == to) {
        WEIR__ISA_NAME(weir__row_pack)(buffer, src, stride, elem, n);
    } else {
        _Alignas(64) char packed[WEIR__ROW_BYTES];

        WEIR__ISA_NAME(weir__row_pack)(packed, src, stride, elem, n);
        WEIR__ISA_NAME(weir__row_convert)(buffer, to, packed, from, n);
    }
    return buffer;
}

void WEIR__ISA_NAME(weir__row_load_all)(void *dst, weir_dtype to, const void *src, weir_dtype from,
                                        int64_t stride, int64_t n)
{
    for (int64_t i = 0; i < n; i += WEIR__ROW_CHUNK) {
        int64_t m = n - i < WEIR__ROW_CHUNK ? n - i : WEIR__ROW_CHUNK;
        char *d = (char *)dst + (size_t)i * weir__elem_size(to);
        const char *s = (const char *)src + i * stride * (int64_t)weir__elem_size(from);
        const void *row = WEIR__ISA_NAME(weir__row_load)(d, to, s, from, stride, m);

        if (row != d)
            memcpy(d, row, (size_t)m * weir__elem_size(to));
    }
}

void WEIR__ISA_NAME(weir__row_store)(void *dst, weir_dtype to, int64_t stride, const void *src,
                                     weir_dtype from, int64_t n)
{
    _Alignas(64) char packed[WEIR__ROW_BYTES];

    if (n == 1 || stride == 1) {
        WEIR__ISA_NAME(weir__row_convert)(dst, to, src, from, n);
        return;
    }
    if (from == to) {
        WEIR__ISA_NAME(weir__row_unpack)(dst, stride, src, weir__elem_size(to), n);
        return;
    }
    for (int64_t i = 0; i < n; i += WEIR__ROW_CHUNK) {
        int64_t m = n - i < WEIR__ROW_CHUNK ? n - i : WEIR__ROW_CHUNK;

        WEIR__ISA_NAME(weir__row_convert)
        (packed, to, (const char *)src + (size_t)i * weir__elem_size(from), from, m);
        WEIR__ISA_NAME(weir__row_unpack)
        ((char *)dst + i * stride * (int64_t)weir__elem_size(to), stride, packed,
         weir__elem_size(to), m);
    }
}

void WEIR__ISA_NAME(weir__row_stream)(void *dst, const void *src, size_t bytes)
{
#if defined(__x86_64__)
    char *d = dst;
    const char *s = src;
    size_t head = (size_t)(-(uintptr_t)d & 63);

    head = head < bytes ? head : bytes;
    memcpy(d, s, head);
    for (d += head, s += head, bytes -= head; bytes >= 64; d += 64, s += 64, bytes -= 64) {
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
        _mm512_stream_si512((void *)d, _mm512_loadu_si512(s));
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
        _mm256_stream_si256((void *)d, _mm256_loadu_si256((const void *)s));
        _mm256_stream_si256((void *)(d + 32), _mm256_loadu_si256((const void *)(s + 32)));
#else
        for (int i = 0; i < 64; i += 16)
            _mm_stream_si128((void *)(d + i), _mm_loadu_si128((const void *)(s + i)));
#endif
    }
    memcpy(d, s, bytes);
#else
    memcpy(dst, src, bytes);
#endif
}

void WEIR__ISA_NAME(weir__row_stream_end)(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}
