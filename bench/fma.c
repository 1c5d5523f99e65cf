/* The machine's arithmetic speed, and whether its two CPUs are two cores. */
#include "harness.h"

#include <stdatomic.h>

#include "../src/base/x86.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    CHAINS = 12,    /* independent sums: latency times throughput of FMA, and some */
    STEPS = 150000, /* under a millisecond */
    TRIALS = 5,
};

/* Keeps the sums alive; written once per call. */
static _Atomic float sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double fma_avx512(long steps)
{
    __m512 sum[CHAINS], scale = _mm512_set1_ps(0.999f), add = _mm512_set1_ps(0.001f);

    for (int c = 0; c < CHAINS; c++)
        sum[c] = _mm512_set1_ps((float)c);
    for (long i = 0; i < steps; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            sum[c] = _mm512_fmadd_ps(sum[c], scale, add);
    }
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm512_add_ps(sum[0], sum[c]);
    atomic_store_explicit(&sink, _mm512_cvtss_f32(sum[0]), memory_order_relaxed);
    return (double)steps * CHAINS * 16 * 2;
}

__attribute__((target("avx2,fma"))) static double fma_avx2(long steps)
{
    __m256 sum[CHAINS], scale = _mm256_set1_ps(0.999f), add = _mm256_set1_ps(0.001f);

    for (int c = 0; c < CHAINS; c++)
        sum[c] = _mm256_set1_ps((float)c);
    for (long i = 0; i < steps; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            sum[c] = _mm256_fmadd_ps(sum[c], scale, add);
    }
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm256_add_ps(sum[0], sum[c]);
    atomic_store_explicit(&sink, _mm256_cvtss_f32(sum[0]), memory_order_relaxed);
    return (double)steps * CHAINS * 8 * 2;
}
#endif

static double fma_portable(long steps)
{
    float sum[CHAINS * 4];
    float total = 0;

    for (int c = 0; c < CHAINS * 4; c++)
        sum[c] = (float)c;
    for (long i = 0; i < steps; i++)
        for (int c = 0; c < CHAINS * 4; c++)
            sum[c] = sum[c] * 0.999f + 0.001f;
    for (int c = 0; c < CHAINS * 4; c++)
        total += sum[c];
    atomic_store_explicit(&sink, total, memory_order_relaxed);
    return (double)steps * CHAINS * 4 * 2;
}

/* Does `steps` rounds and returns the operations done. */
static double fma_run(long steps)
{
#if defined(__x86_64__)
    int level = weir__x86_level(&weir__x86_here);

    if (level == 4)
        return fma_avx512(steps);
    if (level == 3)
        return fma_avx2(steps);
#endif
    return fma_portable(steps);
}

struct speeds {
    double gflops[2];
};

static void time_fma(void *ctx, int who)
{
    struct speeds *s = ctx;
    double start = bench_now_ns();
    double ops = fma_run(STEPS);

    s->gflops[who] = ops / (bench_now_ns() - start);
}

struct alone {
    struct speeds *speeds;
    int turn; /* who runs */
};

static void time_fma_alone(void *ctx, int who)
{
    struct alone *a = ctx;

    /* The other core must be idle, not spinning: it may be the same core. */
    if (who != a->turn)
        return;
    time_fma(a->speeds, who);
}

/* The mean of the two cores' speeds, each measured alone. */
static double one_thread(void)
{
    struct speeds s;

    for (int turn = 0; turn < 2; turn++) {
        struct alone a = {.speeds = &s, .turn = turn};

        bench_on_two(time_fma_alone, &a);
    }
    return (s.gflops[0] + s.gflops[1]) / 2;
}

static double two_threads(void)
{
    struct speeds s;

    bench_on_two(time_fma, &s);
    return s.gflops[0] + s.gflops[1];
}

double bench_fma_gflops(int threads)
{
    return threads == 1 ? one_thread() : two_threads();
}

double bench_fma_ratio(void)
{
    double one[TRIALS], two[TRIALS];

    two_threads(); /* wakes the vector units up */
    for (int i = 0; i < TRIALS; i++) {
        one[i] = one_thread();
        two[i] = two_threads();
    }
    return bench_quantile(two, TRIALS, 0.5) / bench_quantile(one, TRIALS, 0.5);
}
