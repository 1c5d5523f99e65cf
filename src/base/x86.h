/* Which level of x86-64 the processor has and the system saves the registers of.
 *
 * By cpuid itself: neither compiler's list of names has all of x86-64-v3, and what stands behind
 * __builtin_cpu_supports is in libgcc, which not every toolchain links.
 */
#ifndef WEIR_BASE_X86_H
#define WEIR_BASE_X86_H

#if defined(__x86_64__)
#include <cpuid.h>

/* The components of the register file that the system saves. */
static inline unsigned weir__x86_saved(void)
{
    unsigned low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* 4 for x86-64-v4, 3 for v3, 1 for all else. */
static inline int weir__x86_level(void)
{
    enum {
        FMA_MOVBE_OSXSAVE_F16C = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 29, /* leaf 1, c */
        BMI_AVX2_BMI2 = 1 << 3 | 1 << 5 | 1 << 8,                       /* leaf 7, b */
        LZCNT = 1 << 5,                                                 /* leaf 0x80000001, c */
        XMM_YMM = 1 << 1 | 1 << 2,
        MASKS_ZMM = 1 << 5 | 1 << 6 | 1 << 7,
    };
    const unsigned f_dq_cd_bw_vl = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    unsigned a, b, c, d, saved;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & FMA_MOVBE_OSXSAVE_F16C) != FMA_MOVBE_OSXSAVE_F16C ||
        ((saved = weir__x86_saved()) & XMM_YMM) != XMM_YMM)
        return 1;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & LZCNT))
        return 1;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & BMI_AVX2_BMI2) != BMI_AVX2_BMI2)
        return 1;
    return (b & f_dq_cd_bw_vl) == f_dq_cd_bw_vl && (saved & MASKS_ZMM) == MASKS_ZMM ? 4 : 3;
}
#else
static inline int weir__x86_level(void)
{
    return 1;
}
#endif

#endif
