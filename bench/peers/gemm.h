/* The 256x256 f32 matmul of the overlap work, on the calling core alone, and that
 * work's loop: 50 matmuls per chain. Needs OpenBLAS (PEER_OPENBLAS). */
#ifndef WEIR_BENCH_GEMM_H
#define WEIR_BENCH_GEMM_H

#include "../harness.h"

#include <stdlib.h>

#define GEMM_N 256
#define GEMM_CHAIN 50

struct gemm {
    float *a, *b, *c;
};

#ifdef PEER_OPENBLAS
#ifdef __cplusplus
extern "C" {
#endif
/* The Fortran interface, and the switch that keeps OpenBLAS on one core. */
void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);
void openblas_set_num_threads(int threads);
#ifdef __cplusplus
}
#endif

static inline struct gemm gemm_make(void)
{
    size_t count = GEMM_N * GEMM_N;
    struct gemm g;

    openblas_set_num_threads(1);
    g.a = (float *)aligned_alloc(64, count * sizeof(float));
    g.b = (float *)aligned_alloc(64, count * sizeof(float));
    g.c = (float *)aligned_alloc(64, count * sizeof(float));
    if (!g.a || !g.b || !g.c)
        abort();
    for (size_t i = 0; i < count; i++) {
        g.a[i] = 0.5f;
        g.b[i] = 0.25f;
        g.c[i] = 0;
    }
    return g;
}

static inline void gemm_run(const struct gemm *g)
{
    const int n = GEMM_N;
    const float one = 1, zero = 0;

    sgemm_("N", "N", &n, &n, &n, &one, g->a, &n, g->b, &n, &zero, g->c, &n);
}

/* Runs both chains, on one queue or on two, and returns the nanoseconds. */
typedef double (*gemm_chains_fn)(void *ctx, int queues);

struct gemm_queues {
    gemm_chains_fn chains;
    void *ctx;
};

static inline double gemm_overlap_once(void *ctx)
{
    struct gemm_queues *o = (struct gemm_queues *)ctx;
    double one = o->chains(o->ctx, 1);

    return one / o->chains(o->ctx, 2);
}

/* How many times faster two chains are on two queues than on one. */
static inline void gemm_overlap(const struct bench *b, const char *subject, gemm_chains_fn chains,
                                void *ctx)
{
    struct gemm_queues o = {chains, ctx};

    bench_sample(b, subject, "x", b->quick ? 1 : 3, gemm_overlap_once, &o);
}
#endif
#endif
