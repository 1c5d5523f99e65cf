/* The x86-64 level that both the processor and the operating system support.
 *
 * It uses cpuid directly: no compiler's list of feature names covers all of x86-64-v3, and
 * __builtin_cpu_supports needs libgcc, which not every toolchain links.
 */
#ifndef WEIR_BASE_X86_H
#define WEIR_BASE_X86_H

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns a bit mask of the register sets that the operating system saves (XCR0). */
static inline unsigned weir__x86_saved(void)
{
    unsigned low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Returns 4 for x86-64-v4, 3 for v3, 1 for everything else. */
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

/* True if a processor of level 4 has AVX-512 BF16. */
static inline bool weir__x86_has_bf16(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1 << 5;
}

/* True if a processor of level 4 has AVX-512 VNNI. */
static inline bool weir__x86_has_vnni(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1 << 11;
}

/* True if the processor has AMX with bf16 and this process may use it. Linux saves the tile
 * registers only for processes that request permission, which this function does. */
static inline bool weir__x86_takes_amx(void)
{
    enum {
        AMX_BF16_TILE = 1 << 22 | 1 << 24, /* leaf 7, d */
        TILE_CONFIG_DATA = 1 << 17 | 1 << 18,
        REQUEST_PERMISSION = 0x1023, /* arch_prctl */
        TILE_DATA = 18,
    };
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16_TILE) == AMX_BF16_TILE &&
           (weir__x86_saved() & TILE_CONFIG_DATA) == TILE_CONFIG_DATA &&
           !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}
#else
#include <stdbool.h>

static inline int weir__x86_level(void)
{
    return 1;
}

static inline bool weir__x86_has_bf16(void)
{
    return false;
}

static inline bool weir__x86_has_vnni(void)
{
    return false;
}

static inline bool weir__x86_takes_amx(void)
{
    return false;
}
#endif

#endif
