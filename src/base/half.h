/* f16 and bf16 to and from f32, one by one and by rows.
 *
 * Rounding is to nearest, ties to even; infinities, subnormals and the sign of
 * zero are kept; a NaN stays a NaN and becomes quiet. Hardware instructions and
 * the portable code give the same bits.
 */
#ifndef WEIR_BASE_HALF_H
#define WEIR_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

static inline uint32_t weir__f32_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float weir__f32_from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float weir__bf16_to_f32(uint16_t h)
{
    return weir__f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t weir__f32_to_bf16(float x)
{
    uint32_t bits = weir__f32_bits(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40;

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

#ifdef __F16C__
static inline float weir__f16_to_f32(uint16_t h)
{
    return _cvtsh_ss(h);
}

static inline uint16_t weir__f32_to_f16(float x)
{
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
#else
/* Both directions use float arithmetic: scaling by a power of two is exact for
 * subnormals, and adding a larger number rounds to nearest even at that number's
 * last bit. There are no branches, so that compilers can vectorize loops. */
static inline float weir__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
    /* (2^-14 + mantissa * 2^-24) - 2^-14 */
    float tiny = weir__f32_from_bits(rest + (113u << 23)) - weir__f32_from_bits(113u << 23);
    uint32_t normal = rest + (112u << 23);
    uint32_t special = rest | 0x7f800000 | (rest & 0x007fffff ? 0x00400000 : 0);
    uint32_t bits = rest < 0x00800000 ? weir__f32_bits(tiny) : rest < 0x0f800000 ? normal : special;

    return weir__f32_from_bits(bits | sign);
}

static inline uint16_t weir__f32_to_f16(float x)
{
    uint32_t bits = weir__f32_bits(x);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    /* 0.5 has its last bit at 2^-24, the smallest f16 */
    uint32_t tiny = weir__f32_bits(weir__f32_from_bits(rest) + 0.5f) - weir__f32_bits(0.5f);
    uint32_t normal = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    uint32_t nan = 0x7e00 | (rest >> 13 & 0x3ff);
    uint32_t half = rest > 0x7f800000    ? nan
                    : rest >= 0x477ff000 ? 0x7c00
                    : rest < 0x38800000  ? tiny
                                         : normal;

    return (uint16_t)(half | sign);
}
#endif

static inline void weir__f16_to_f32_row(float *restrict dst, const uint16_t *restrict src, size_t n)
{
    size_t i = 0;

#ifdef __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(src + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + i))));
#endif
    for (; i < n; i++)
        dst[i] = weir__f16_to_f32(src[i]);
}

static inline void weir__f32_to_f16_row(uint16_t *restrict dst, const float *restrict src, size_t n)
{
    size_t i = 0;

#ifdef __AVX512F__
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(dst + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        dst[i] = weir__f32_to_f16(src[i]);
}

static inline void weir__bf16_to_f32_row(float *restrict dst, const uint16_t *restrict src,
                                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = weir__bf16_to_f32(src[i]);
}

static inline void weir__f32_to_bf16_row(uint16_t *restrict dst, const float *restrict src,
                                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = weir__f32_to_bf16(src[i]);
}

#endif
