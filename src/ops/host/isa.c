#include "ops/host/isa.h"

/* Compiled with the others, but needed once, and by the variant that every
 * processor runs, if there are several. */
#if WEIR__ISA_LEVEL == WEIR__ISA_V1 || defined(WEIR_ISA_ONLY)

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Neither compiler's list of names has all of x86-64-v3, so the rest is asked of
 * cpuid; __builtin_cpu_supports also knows whether the system saves the registers. */
static int detect(void)
{
    unsigned a, b, c, d;
    const unsigned movbe_f16c = 1u << 22 | 1u << 29, lzcnt = 1u << 5;

    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return WEIR__ISA_V1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & movbe_f16c) != movbe_f16c)
        return WEIR__ISA_V1;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & lzcnt))
        return WEIR__ISA_V1;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return WEIR__ISA_V4;
    return WEIR__ISA_V3;
}
#else
static int detect(void)
{
    return WEIR__ISA_V1;
}
#endif

int weir__isa(void)
{
    static _Atomic int cached;
    int isa = atomic_load_explicit(&cached, memory_order_relaxed);

    if (!isa) {
        const char *wish = getenv("WEIR_ISA");

        isa = detect();
        if (wish && wish[0] == 'v' && wish[1] >= '1' && wish[1] < '0' + isa && !wish[2])
            isa = wish[1] >= '3' ? WEIR__ISA_V3 : WEIR__ISA_V1;
        /* Threads that race here all store the same value. */
        atomic_store_explicit(&cached, isa, memory_order_relaxed);
    }
    return isa;
}

#endif
