/* Packing of operands into panels, with conversion to the compute type.
 * See gemm_tile.h. */
#ifndef WEIR_OPS_HOST_GEMM_PACK_H
#define WEIR_OPS_HOST_GEMM_PACK_H

#include "ops/host/product/gemm_tile.h"

typedef uint16_t half_vec __attribute__((vector_size(VEC_BYTES / 2), aligned(2), may_alias));
typedef uint16_t half_vec4 __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint32_t word_vec __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t word_vec4 __attribute__((vector_size(16)));

/* In hot loops, dtype is a constant at each call of these. */

ALWAYS_INLINE real load_one(const char *src, int64_t at, weir_dtype dtype)
{
#if !WEIR__REAL_F64
    if (dtype == WEIR_F16)
        return weir__f16_to_f32(((const uint16_t *)src)[at]);
    if (dtype == WEIR_BF16)
        return weir__bf16_to_f32(((const uint16_t *)src)[at]);
#endif
    (void)dtype;
    return ((const real *)src)[at];
}

/* Returns through a pointer, because four f64 do not fit a register at the baseline level. */
ALWAYS_INLINE void load_four(vec4 *out, const char *src, int64_t at, weir_dtype dtype)
{
#if !WEIR__REAL_F64
    const uint16_t *half = (const uint16_t *)src + at;

    if (dtype == WEIR_F16) {
#ifdef __F16C__
        *out = _mm_cvtph_ps(_mm_loadl_epi64((const void *)half));
#else
        *out = (vec4){weir__f16_to_f32(half[0]), weir__f16_to_f32(half[1]),
                      weir__f16_to_f32(half[2]), weir__f16_to_f32(half[3])};
#endif
        return;
    }
    if (dtype == WEIR_BF16) {
#ifdef __SSE2__
        *out = (vec4)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const void *)half));
#else
        *out = (vec4)(__builtin_convertvector(*(const half_vec4 *)half, word_vec4) << 16);
#endif
        return;
    }
#endif
    (void)dtype;
    *out = *(const vec4 *)((const real *)src + at);
}

ALWAYS_INLINE vec load_vec(const char *src, int64_t at, weir_dtype dtype)
{
#if !WEIR__REAL_F64
    const uint16_t *half = (const uint16_t *)src + at;

    if (dtype == WEIR_F16) {
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
        return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)half));
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
        return _mm256_cvtph_ps(_mm_loadu_si128((const void *)half));
#else
        vec4 four;

        load_four(&four, src, at, dtype);
        return four;
#endif
    }
    if (dtype == WEIR_BF16)
        return (vec)(__builtin_convertvector(*(const half_vec *)half, word_vec) << 16);
#endif
    (void)dtype;
    return *(const vec *)((const real *)src + at);
}

/* Loads the first n lanes; zeros beyond. */
ALWAYS_INLINE vec load_part(const char *src, int64_t at, int64_t n, weir_dtype dtype)
{
    vec v = vec_set(0);

    for (int64_t i = 0; i < n; i++)
        v[i] = load_one(src, at + i, dtype);
    return v;
}

/* dst[k][i] = src[i][k] for a square of 4; dst rows are `width` apart. */
ALWAYS_INLINE void pack_square(real *dst, int width, const char *src, int64_t at, int64_t step,
                               weir_dtype dtype)
{
    vec4 r[4], a, b, c, d;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        load_four(&r[i], src, at + i * step, dtype);
    a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    *(vec4 *)dst = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    *(vec4 *)(dst + width) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    *(vec4 *)(dst + 2 * width) = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    *(vec4 *)(dst + 3 * width) = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

#if WEIR__ISA_LEVEL == WEIR__ISA_V4 && !WEIR__REAL_F64
/* dst[k][i] = src[i][k] for 8 lines of 16 elements; rows of dst are `width` apart. */
ALWAYS_INLINE void pack_eight(real *dst, int width, const char *src, int64_t at, int64_t step,
                              weir_dtype dtype)
{
    __m512 r[8], t[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = (__m512)load_vec(src, at + i * step, dtype);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
#pragma GCC unroll 2
        for (int q = 0; q < 2; q++) {
            const __m512d a = (__m512d)t[4 * i + q], b = (__m512d)t[4 * i + 2 + q];

            r[4 * i + 2 * q] = (__m512)_mm512_unpacklo_pd(a, b);
            r[4 * i + 2 * q + 1] = (__m512)_mm512_unpackhi_pd(a, b);
        }
        /* r[q]: elements q, q + 4, q + 8, q + 12 of lines 0 .. 3, one per quarter; r[4 + q]: of
         * lines 4 .. 7 */
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        const __m512 low = _mm512_shuffle_f32x4(r[q], r[4 + q], 0x44);
        const __m512 high = _mm512_shuffle_f32x4(r[q], r[4 + q], 0xee);

        const __m512 a = _mm512_shuffle_f32x4(low, low, 0xd8);
        const __m512 b = _mm512_shuffle_f32x4(high, high, 0xd8);

        _mm256_storeu_ps(dst + q * width, _mm512_castps512_ps256(a));
        _mm256_storeu_ps(dst + (q + 4) * width, (__m256)_mm512_extractf32x8_ps(a, 1));
        _mm256_storeu_ps(dst + (q + 8) * width, _mm512_castps512_ps256(b));
        _mm256_storeu_ps(dst + (q + 12) * width, (__m256)_mm512_extractf32x8_ps(b, 1));
    }
}
#endif

/* Packs a panel whose lines are contiguous along k. Uses up a few cache lines of each of four lines
 * at once, so that strides of a power of two do not hurt. */
ALWAYS_INLINE void pack_across(real *dst, int width, int64_t count, int64_t kn, const char *src,
                               int64_t step, weir_dtype dtype)
{
    const int64_t run = 256 / (int64_t)sizeof(real);

    for (int64_t k0 = 0; k0 < kn; k0 += run) {
        int64_t end = k0 + run < kn ? k0 + run : kn;
        int64_t i = 0;

#if WEIR__ISA_LEVEL == WEIR__ISA_V4 && !WEIR__REAL_F64
        for (; i + 8 <= count; i += 8) {
            int64_t k = k0;

            for (; k + 16 <= end; k += 16)
                pack_eight(dst + k * width + i, width, src, i * step + k, step, dtype);
            for (; k + 4 <= end; k += 4) {
                pack_square(dst + k * width + i, width, src, i * step + k, step, dtype);
                pack_square(dst + k * width + i + 4, width, src, (i + 4) * step + k, step, dtype);
            }
            for (; k < end; k++)
                for (int64_t q = i; q < i + 8; q++)
                    dst[k * width + q] = load_one(src, q * step + k, dtype);
        }
#endif
        for (; i + 4 <= count; i += 4) {
            int64_t k = k0;

            for (; k + 4 <= end; k += 4)
                pack_square(dst + k * width + i, width, src, i * step + k, step, dtype);
            for (; k < end; k++)
                for (int64_t q = i; q < i + 4; q++)
                    dst[k * width + q] = load_one(src, q * step + k, dtype);
        }
        for (; i < width; i++)
            for (int64_t k = k0; k < end; k++)
                dst[k * width + i] = i < count ? load_one(src, i * step + k, dtype) : 0;
    }
}

/* Packs a panel whose elements with the same k are contiguous. */
ALWAYS_INLINE void pack_along(real *dst, int width, int64_t count, int64_t kn, const char *src,
                              int64_t step, weir_dtype dtype)
{
    const int64_t size = (int64_t)weir_dtype_size(dtype), ahead = 8 * step * size;

    for (int64_t k = 0; k < kn; k++, dst += width) {
        int i = 0;

        for (int64_t at = 0; at <= width * size; at += 64)
            __builtin_prefetch(src + k * step * size + ahead + at);
        for (; i + LANES <= count; i += LANES)
            *(vec *)(dst + i) = load_vec(src, k * step + i, dtype);
        for (; i + 4 <= count; i += 4)
            load_four((vec4 *)(dst + i), src, k * step + i, dtype);
        for (; i < width; i++)
            dst[i] = i < count ? load_one(src, k * step + i, dtype) : 0;
    }
}

ALWAYS_INLINE void pack_typed(real *dst, int width, int64_t count, int64_t kn, const char *src,
                              int64_t step_i, int64_t step_k, weir_dtype dtype)
{
    if (step_i == 1) {
        if (count == width) /* constant width: the loops unroll */
            pack_along(dst, width, width, kn, src, step_k, dtype);
        else
            pack_along(dst, width, count, kn, src, step_k, dtype);
    } else if (step_k == 1) {
        pack_across(dst, width, count, kn, src, step_i, dtype);
    } else {
        for (int64_t k = 0; k < kn; k++)
            for (int i = 0; i < width; i++)
                dst[k * width + i] = i < count ? load_one(src, i * step_i + k * step_k, dtype) : 0;
    }
}

/* Packs one panel: dst[k][i] = element (i, k) of src for i < count <= width, zero beyond. `src`
 * points to element (0, 0); the steps are in elements. */
ALWAYS_INLINE void pack_panel(real *dst, int width, int64_t count, int64_t kn, const char *src,
                              int64_t step_i, int64_t step_k, weir_dtype dtype)
{
#if !WEIR__REAL_F64
    if (dtype == WEIR_F16)
        pack_typed(dst, width, count, kn, src, step_i, step_k, WEIR_F16);
    else if (dtype == WEIR_BF16)
        pack_typed(dst, width, count, kn, src, step_i, step_k, WEIR_BF16);
    else
#endif
        pack_typed(dst, width, count, kn, src, step_i, step_k, dtype);
}

/* Packs all panels of `count` lines, one after the other. */
static inline void pack_rows(real *dst, int64_t count, int64_t kn, const char *src, int64_t step_i,
                             int64_t step_k, weir_dtype dtype)
{
    const int64_t size = (int64_t)weir_dtype_size(dtype);

    for (int64_t i = 0; i < count; i += MR, dst += kn * MR)
        pack_panel(dst, MR, count - i < MR ? count - i : MR, kn, src + i * step_i * size, step_i,
                   step_k, dtype);
}

static inline void pack_cols(real *dst, int64_t count, int64_t kn, const char *src, int64_t step_i,
                             int64_t step_k, weir_dtype dtype)
{
    const int64_t size = (int64_t)weir_dtype_size(dtype);

    for (int64_t i = 0; i < count; i += NR, dst += kn * NR)
        pack_panel(dst, NR, count - i < NR ? count - i : NR, kn, src + i * step_i * size, step_i,
                   step_k, dtype);
}

/* Stores a row of the compute type to memory of `dtype`, elements `step` apart. */
static inline void store_row(char *dst, int64_t step, weir_dtype dtype, const real *src, int64_t n)
{
#if !WEIR__REAL_F64
    if (dtype == WEIR_F16) {
        uint16_t *half = (uint16_t *)dst;

        if (step == 1)
            weir__f32_to_f16_row(half, src, (size_t)n);
        else
            for (int64_t i = 0; i < n; i++)
                half[i * step] = weir__f32_to_f16(src[i]);
        return;
    }
    if (dtype == WEIR_BF16) {
        uint16_t *half = (uint16_t *)dst;

        if (step == 1)
            weir__f32_to_bf16_row(half, src, (size_t)n);
        else
            for (int64_t i = 0; i < n; i++)
                half[i * step] = weir__f32_to_bf16(src[i]);
        return;
    }
#endif
    (void)dtype;
    for (int64_t i = 0; i < n; i++)
        ((real *)dst)[i * step] = src[i];
}

#endif
