/* What an x86-64 processor and the operating system support.
 *
 * It uses cpuid directly: no compiler's list of feature names covers all of x86-64-v3, and
 * __builtin_cpu_supports needs libgcc, which not every toolchain links. The functions ask through
 * a struct weir__x86, so that tests can decide the answers.
 */
#ifndef WEIR_BASE_X86_H
#define WEIR_BASE_X86_H

#include <stdbool.h>

struct weir__x86 {
    /* Writes registers a, b, c and d of the leaf; false if the processor has no such leaf. */
    bool (*cpuid)(unsigned leaf, unsigned sub, unsigned out[4]);
    /* Returns a bit mask of the register sets that the operating system saves (XCR0). */
    unsigned (*saved)(void);
    /* Requests the permission to use tiles. Linux saves the tile registers only for processes that
     * request it, and may refuse: no memory for larger signal stacks, or a seccomp filter. */
    bool (*grants_tiles)(void);
};

enum { WEIR__X86_A, WEIR__X86_B, WEIR__X86_C, WEIR__X86_D };

/* Returns 4 for x86-64-v4, 3 for v3, 1 for everything else. */
static inline int weir__x86_level(const struct weir__x86 *x)
{
    enum {
        FMA_MOVBE_OSXSAVE_F16C = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 29, /* leaf 1, c */
        BMI_AVX2_BMI2 = 1 << 3 | 1 << 5 | 1 << 8,                       /* leaf 7, b */
        LZCNT = 1 << 5,                                                 /* leaf 0x80000001, c */
        XMM_YMM = 1 << 1 | 1 << 2,
        MASKS_ZMM = 1 << 5 | 1 << 6 | 1 << 7,
    };
    const unsigned f_dq_cd_bw_vl = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    unsigned r[4], saved;

    if (!x->cpuid(1, 0, r) || (r[WEIR__X86_C] & FMA_MOVBE_OSXSAVE_F16C) != FMA_MOVBE_OSXSAVE_F16C ||
        ((saved = x->saved()) & XMM_YMM) != XMM_YMM)
        return 1;
    if (!x->cpuid(0x80000001, 0, r) || !(r[WEIR__X86_C] & LZCNT))
        return 1;
    if (!x->cpuid(7, 0, r) || (r[WEIR__X86_B] & BMI_AVX2_BMI2) != BMI_AVX2_BMI2)
        return 1;
    return (r[WEIR__X86_B] & f_dq_cd_bw_vl) == f_dq_cd_bw_vl && (saved & MASKS_ZMM) == MASKS_ZMM
               ? 4
               : 3;
}

/* True if a processor of level 4 has AVX-512 BF16. */
static inline bool weir__x86_has_bf16(const struct weir__x86 *x)
{
    unsigned r[4];

    return x->cpuid(7, 1, r) && r[WEIR__X86_A] & 1 << 5;
}

/* True if a processor of level 4 has AVX-512 VNNI. */
static inline bool weir__x86_has_vnni(const struct weir__x86 *x)
{
    unsigned r[4];

    return x->cpuid(7, 0, r) && r[WEIR__X86_C] & 1 << 11;
}

/* True if the processor has AMX with bf16 and this process may use it. Requests the permission, but
 * only if the rest is there. */
static inline bool weir__x86_takes_amx(const struct weir__x86 *x)
{
    enum {
        AMX_BF16_TILE = 1 << 22 | 1 << 24, /* leaf 7, d */
        TILE_CONFIG_DATA = 1 << 17 | 1 << 18,
    };
    unsigned r[4];

    return x->cpuid(7, 0, r) && (r[WEIR__X86_D] & AMX_BF16_TILE) == AMX_BF16_TILE &&
           (x->saved() & TILE_CONFIG_DATA) == TILE_CONFIG_DATA && x->grants_tiles();
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline bool weir__x86_cpuid(unsigned leaf, unsigned sub, unsigned out[4])
{
    return __get_cpuid_count(leaf, sub, &out[0], &out[1], &out[2], &out[3]);
}

/* Call it only if cpuid says that the system has set OSXSAVE. */
static inline unsigned weir__x86_saved(void)
{
    unsigned low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static inline bool weir__x86_grants_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    return !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}
#else
static inline bool weir__x86_cpuid(unsigned leaf, unsigned sub, unsigned out[4])
{
    (void)leaf;
    (void)sub;
    (void)out;
    return false;
}

static inline unsigned weir__x86_saved(void)
{
    return 0;
}

static inline bool weir__x86_grants_tiles(void)
{
    return false;
}
#endif

/* This machine. */
static const struct weir__x86 weir__x86_here = {weir__x86_cpuid, weir__x86_saved,
                                                weir__x86_grants_tiles};

#endif
