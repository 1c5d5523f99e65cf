/* OpenBLAS: row-major f32 matmul, as column-major of the transposes. */
#include "../harness.h"

#include <stdlib.h>

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);
void openblas_set_num_threads(int threads);

enum { N = 1000 };

struct matrices {
    float *a, *b, *c;
};

static float *make(void)
{
    float *x = malloc(sizeof(float) * N * N);

    if (!x)
        abort();
    for (int i = 0; i < N * N; i++)
        x[i] = (float)(i % 13) - 6;
    return x;
}

static double once(void *ctx)
{
    const struct matrices *m = ctx;
    const int n = N;
    const float one = 1, zero = 0;
    double start = bench_now_ns();

    sgemm_("N", "N", &n, &n, &n, &one, m->b, &n, m->a, &n, &zero, m->c, &n);
    return 2.0 * N * N * N / (bench_now_ns() - start);
}

static void matmul(struct bench *b)
{
    struct matrices m = {make(), make(), make()};

    openblas_set_num_threads(b->threads);
    bench_sample(b, "OpenBLAS", "GFLOP/s", 3, once, &m);
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        BENCH_ON_CORES("matmul_f32_1000", matmul),
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
