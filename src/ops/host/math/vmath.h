/* exp, log and their kin on vectors of floats, within 3 units in the last place
 * (gelu of negative numbers within 7).
 *
 * Infinities, NaN and subnormal arguments and results follow the C library's
 * functions, but that subnormal results of silu are less exact. The polynomials
 * are minimax fits on the intervals named.
 */
#ifndef WEIR_OPS_HOST_VMATH_H
#define WEIR_OPS_HOST_VMATH_H

#include <math.h>

#include "ops/host/math/simd.h"

/* ln 2 in two parts: the first has 9 bits, so that its product with an exponent is exact. */
#define WEIR__LN2_HIGH 0.693359375f
#define WEIR__LN2_LOW (-2.12194440e-4f)

/* 2^n for n in -126..127. */
static inline weir__vf weir__vf_exp2i(weir__vi n)
{
    return (weir__vf)(((weir__vu)n + 127u) << 23); /* unsigned: n is anything where the result is
                                                    * not taken */
}

static inline weir__vf weir__vf_exp(weir__vf x)
{
    /* (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2 */
    static const float c[] = {5.000000000e-01f, 1.666651815e-01f, 4.166620597e-02f,
                              8.368954062e-03f, 1.395059982e-03f};
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits. */
    const float magic = 12582912.0f;
    weir__vf shifted = weir__vf_fma(x, weir__vf_set(1.44269504f), weir__vf_set(magic));
    weir__vf n = shifted - magic;
    weir__vi k = (weir__vi)((weir__vu)shifted - 0x4b400000u);
    weir__vf r = weir__vf_fma(n, weir__vf_set(-WEIR__LN2_HIGH), x);
    weir__vf y;

    r = weir__vf_fma(n, weir__vf_set(-WEIR__LN2_LOW), r);
    y = weir__vf_fma(r * r, weir__vf_poly(r, c, 5), r) + 1.0f;
    /* Scaling twice reaches subnormals and the largest finite value. */
    y = y * weir__vf_exp2i(k >> 1) * weir__vf_exp2i(k - (k >> 1));
    y = weir__vf_pick(x > 88.7228394f, weir__vf_set(INFINITY), y);
    return weir__vf_pick(x < -104.0f, weir__vf_set(0.0f), y);
}

static inline weir__vf weir__vf_log(weir__vf x)
{
    /* (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f in sqrt(1/2)..sqrt(2) */
    static const float c[] = {3.333331347e-01f,  -2.500000894e-01f, 2.000211924e-01f,
                              -1.666799635e-01f, 1.421955079e-01f,  -1.240559220e-01f,
                              1.188817769e-01f,  -1.167563871e-01f, 6.746591628e-02f};
    weir__vi subnormal = x < 1.17549435e-38f;
    weir__vf scaled = weir__vf_pick(subnormal, x * 8388608.0f, x);
    weir__vi bits = (weir__vi)scaled;
    /* 0x3f3504f3 is sqrt(1/2); unsigned, since a negative x wraps (and is no number later) */
    weir__vi k = (weir__vi)((weir__vu)bits - 0x3f3504f3u) >> 23;
    weir__vf f = (weir__vf)((weir__vu)bits - ((weir__vu)k << 23)) - 1.0f;
    weir__vf e = __builtin_convertvector(k - (subnormal & 23), weir__vf);
    weir__vf ff = f * f;
    weir__vf y = ff * f * weir__vf_poly(f, c, 9);

    y = weir__vf_fma(e, weir__vf_set(WEIR__LN2_LOW), y);
    y = weir__vf_fma(ff, weir__vf_set(-0.5f), y);
    y = weir__vf_fma(e, weir__vf_set(WEIR__LN2_HIGH), f + y);
    y = weir__vf_pick(x == INFINITY, x, y);
    y = weir__vf_pick(x == 0.0f, weir__vf_set(-INFINITY), y);
    /* also NaN */
    return weir__vf_pick(x >= 0.0f, y, weir__vf_set(NAN));
}

static inline weir__vf weir__vf_tanh(weir__vf x)
{
    /* (tanh(x) / x - 1) / x^2 as a function of x^2, for |x| <= 0.63 */
    static const float c[] = {-3.333327770e-01f, 1.333132833e-01f, -5.372922868e-02f,
                              2.060199901e-02f, -5.660780706e-03f};
    weir__vf a = weir__vf_abs(x), xx = x * x;
    weir__vf near = weir__vf_fma(x * xx, weir__vf_poly(xx, c, 5), x);
    weir__vf far = 1.0f - 2.0f / (weir__vf_exp(a + a) + 1.0f);
    weir__vf y = weir__vf_pick(a < 0.625f, near, far);

    return (weir__vf)((weir__vi)y | weir__vf_sign_bit(x)); /* of -0, too */
}

/* By exp(-|x|), which cannot overflow and keeps small results exact. */
static inline weir__vf weir__vf_sigmoid(weir__vf x)
{
    weir__vf e = weir__vf_exp(-weir__vf_abs(x));

    return weir__vf_pick(x < 0.0f, e, weir__vf_set(1.0f)) / (1.0f + e);
}

static inline weir__vf weir__vf_silu(weir__vf x)
{
    /* Below -120 the result is less than the smallest subnormal; -inf ends here too. */
    return weir__vf_pick(x < -120.0f, weir__vf_set(-0.0f), x * weir__vf_sigmoid(x));
}

/* x * Phi(x), the normal distribution function: near 0 by Phi itself, farther out
 * by the tail Phi(-|x|), which keeps small results exact. */
static inline weir__vf weir__vf_gelu(weir__vf x)
{
    /* (Phi(x) - 1/2) / x as a function of x^2, for |x| <= 0.7 */
    static const float n[] = {3.989422917e-01f, -6.649032980e-02f, 9.972713888e-03f,
                              -1.182554523e-03f, 1.042966542e-04f};
    /* Phi(-a) * exp(a^2 / 2) / t as a function of t - 0.4375, t = 1 / (1 + a / 2), for a in
     * 0.65..14.6 */
    static const float c[] = {3.157519102e-01f,  3.224961758e-01f,  8.477105200e-02f,
                              -1.414653808e-01f, -4.060696438e-02f, 1.256321669e-01f,
                              -2.472397871e-02f, -1.131494343e-01f, 8.012513816e-02f,
                              5.909491330e-02f};
    weir__vf magnitude = weir__vf_abs(x), xx = x * x;
    weir__vf near = weir__vf_fma(x, weir__vf_poly(xx, n, 5), weir__vf_set(0.5f));
    /* Past 15 the tail is 0 in single precision; NaN passes. */
    weir__vf a = weir__vf_pick(magnitude > 15.0f, weir__vf_set(15.0f), magnitude);
    weir__vf t = 1.0f / weir__vf_fma(a, weir__vf_set(0.5f), weir__vf_set(1.0f));
    /* a^2 with its rounding error, which exp would magnify. */
    weir__vf square = a * a;
    weir__vf high = (weir__vf)((weir__vi)a & (int32_t)0xfffff000);
    weir__vf low = a - high;
    weir__vf error = ((high * high - square) + 2.0f * high * low) + low * low;
    weir__vf density = weir__vf_exp(-0.5f * square) * (1.0f - 0.5f * error);
    weir__vf mills = t * weir__vf_poly(t - 0.4375f, c, 10);
    /* The smallest factor last, so that it alone may be subnormal. */
    weir__vf far = weir__vf_pick(x < 0.0f, x * mills * density, x * (1.0f - density * mills));

    far = weir__vf_pick(x < -15.0f, weir__vf_set(-0.0f), far);
    return weir__vf_pick(magnitude < 0.68f, x * near, far);
}

/* sin and cos of 2 pi u for u in 0..1. */
static inline void weir__vf_sincos_turns(weir__vf u, weir__vf *sine, weir__vf *cosine)
{
    /* sin(2 pi v) / v and cos(2 pi v) as functions of v^2, for |v| <= 1/8 */
    static const float s[] = {6.283185482e+00f, -4.134170151e+01f, 8.160520172e+01f,
                              -7.669786835e+01f, 4.147294617e+01f};
    static const float c[] = {1.000000000e+00f, -1.973920822e+01f, 6.493931580e+01f,
                              -8.544285583e+01f, 5.922040558e+01f};
    weir__vi quarter = __builtin_convertvector(u * 4.0f + 0.5f, weir__vi);
    weir__vf v = u - 0.25f * __builtin_convertvector(quarter, weir__vf);
    weir__vf sv = v * weir__vf_poly(v * v, s, 5), cv = weir__vf_poly(v * v, c, 5);
    weir__vi swap = (quarter & 1) != 0;
    weir__vi sine_sign = (quarter & 2) << 30, cosine_sign = ((quarter + 1) & 2) << 30;

    *sine = (weir__vf)((weir__vi)weir__vf_pick(swap, cv, sv) ^ sine_sign);
    *cosine = (weir__vf)((weir__vi)weir__vf_pick(swap, sv, cv) ^ cosine_sign);
}

#endif
