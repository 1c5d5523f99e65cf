/* A vector of floats as wide as the instruction set's registers, by GNU vector types.
 *
 * Arithmetic is built into the compiler (a + b, a * 2.0f); this header adds the rest. A result has
 * the same bits at every position in a row: loops pad their last vector instead of using scalar
 * code.
 */
#ifndef WEIR_OPS_HOST_SIMD_H
#define WEIR_OPS_HOST_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ops/host/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if WEIR__ISA_LEVEL == WEIR__ISA_V4
#define WEIR__VF_LANES 16
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
#define WEIR__VF_LANES 8
#else
#define WEIR__VF_LANES 4
#endif

typedef float weir__vf __attribute__((vector_size(4 * WEIR__VF_LANES)));
typedef int32_t weir__vi __attribute__((vector_size(4 * WEIR__VF_LANES)));
typedef uint32_t weir__vu __attribute__((vector_size(4 * WEIR__VF_LANES)));

static inline weir__vf weir__vf_load(const float *p)
{
    weir__vf v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void weir__vf_store(float *p, weir__vf v)
{
    memcpy(p, &v, sizeof v);
}

/* Loads the first n < WEIR__VF_LANES elements; the others are 0. */
static inline weir__vf weir__vf_load_part(const float *p, int64_t n)
{
    weir__vf v = {0};

    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

static inline void weir__vf_store_part(float *p, weir__vf v, int64_t n)
{
    memcpy(p, &v, (size_t)n * sizeof *p);
}

/* a * b + c, rounded once if the processor can. */
static inline weir__vf weir__vf_fma(weir__vf a, weir__vf b, weir__vf c)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    return (weir__vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
    return (weir__vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

static inline weir__vf weir__vf_sqrt(weir__vf v)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    return (weir__vf)_mm512_sqrt_ps((__m512)v);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
    return (weir__vf)_mm256_sqrt_ps((__m256)v);
#elif defined(__x86_64__)
    return (weir__vf)_mm_sqrt_ps((__m128)v);
#else
    for (int i = 0; i < WEIR__VF_LANES; i++)
        v[i] = __builtin_sqrtf(v[i]);
    return v;
#endif
}

static inline weir__vf weir__vf_set(float x)
{
    return x - (weir__vf){0};
}

static inline weir__vf weir__vf_pick(weir__vi mask, weir__vf yes, weir__vf no)
{
    return (weir__vf)((mask & (weir__vi)yes) | (~mask & (weir__vi)no));
}

static inline weir__vf weir__vf_abs(weir__vf v)
{
    return (weir__vf)((weir__vi)v & 0x7fffffff);
}

static inline weir__vi weir__vf_sign_bit(weir__vf v)
{
    return (weir__vi)v & INT32_MIN;
}

/* Evaluates a polynomial by Horner's rule, c[n-1] first. */
static inline weir__vf weir__vf_poly(weir__vf x, const float *c, int n)
{
    weir__vf y = weir__vf_set(c[n - 1]);

    for (int i = n - 2; i >= 0; i--)
        y = weir__vf_fma(y, x, weir__vf_set(c[i]));
    return y;
}

#endif
