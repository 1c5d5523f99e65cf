/* The instructions of src/cuda/kernels/ptx.cuh on the host. */
#pragma once

#include "weir/tensor.h"

/* Kernels run one after the other here. */
static inline void await_earlier()
{
}

static inline void let_next_begin()
{
}

static inline float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, digits = h & 1023;

    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000 | (digits ? digits << 13 | 0x400000 : 0));
    if (!exponent) {
        float x = (float)digits * 0x1p-24f;

        return sign ? -x : x;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | digits << 13);
}

/* To the nearest, halves to even. */
static inline uint16_t to_f16(float f)
{
    uint32_t bits = __float_as_uint(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

    if (rest > 0x7f800000)
        return 0x7fff;
    if (rest >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* what adding a half leaves is the number of the smallest steps */
        float sum = __uint_as_float(rest) + 0.5f;

        return (uint16_t)(sign | (__float_as_uint(sum) - 0x3f000000));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

static inline uint16_t to_bf16(float f)
{
    uint32_t bits = __float_as_uint(f);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <int dtype> static inline uint32_t pack_two(float low, float high)
{
    if (dtype == WEIR_F16)
        return to_f16(low) | (uint32_t)to_f16(high) << 16;
    return to_bf16(low) | (uint32_t)to_bf16(high) << 16;
}

static inline float max_or_nan(float a, float b)
{
    return a != a || b != b ? __uint_as_float(0x7fffffff) : a > b ? a : b;
}

static inline float exp2_fast(float x)
{
    return __builtin_exp2f(x);
}

/* The digits of f32 are enough for a sum, difference or product to be rounded once. */
#define EMU_PAIRS(name, sign)                                                               \
    static inline uint32_t name(uint32_t x, uint32_t y)                                     \
    {                                                                                       \
        uint16_t low = to_f16(from_f16((uint16_t)x) sign from_f16((uint16_t)y));            \
        uint16_t high = to_f16(from_f16((uint16_t)(x >> 16)) sign from_f16((uint16_t)(y >> 16))); \
                                                                                            \
        return low | (uint32_t)high << 16;                                                  \
    }
EMU_PAIRS(add_f16x2, +)
EMU_PAIRS(sub_f16x2, -)
EMU_PAIRS(mul_f16x2, *)

/* A microsecond goes by at every look. */
EMU_PLAIN static uint64_t clock_ns()
{
    static uint64_t now;

    return now += 1000;
}
