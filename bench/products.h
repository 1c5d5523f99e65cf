/* The works on matrix products and attention: their names, types and sizes, the same for all. */
#ifndef WEIR_BENCH_PRODUCTS_H
#define WEIR_BENCH_PRODUCTS_H

#include "harness.h"

#include <stdio.h>
#include <string.h>

/* Attention has 16 heads of 64. */
enum { BENCH_HEADS = 16, BENCH_HEAD = 64 };

#define BENCH_MATMULS(run)                                                                \
    BENCH_ON_CORES("matmul_f32_1000", run), BENCH_ON_CORES("matmul_f32_2048", run),       \
        BENCH_ON_CORES("matmul_f32_4096", run), BENCH_ON_CORES("matmul_bf16_1000", run),  \
        BENCH_ON_CORES("matmul_bf16_2048", run), BENCH_ON_CORES("matmul_bf16_4096", run), \
        BENCH_ON_CORES("matmul_f16_1000", run), BENCH_ON_CORES("matmul_f16_2048", run),   \
        BENCH_ON_CORES("matmul_f16_4096", run)
#define BENCH_MATVECS(run)                                                           \
    BENCH_ON_CORES("matvec_f32_4096", run), BENCH_ON_CORES("matvec_bf16_4096", run), \
        BENCH_ON_CORES("matvec_f16_4096", run)
#define BENCH_ATTENTIONS(run)                                                              \
    BENCH_ON_CORES("attention_f32_1024", run), BENCH_ON_CORES("attention_bf16_1024", run), \
        BENCH_ON_CORES("attention_f16_1024", run)

struct bench_product {
    char op[16], type[8];
    int size;
    double amount;    /* flops; of matvec the bytes of the matrix */
    const char *unit; /* of amount per nanosecond */
};

static inline struct bench_product bench_product_of(const char *work)
{
    struct bench_product p = {.unit = "GFLOP/s"};
    double n;

    sscanf(work, "%15[a-z]_%7[a-z0-9]_%d", p.op, p.type, &p.size);
    n = p.size;
    if (!strcmp(p.op, "matvec")) {
        p.amount = n * n * (strcmp(p.type, "f32") ? 2 : 4);
        p.unit = "GB/s";
    } else {
        p.amount =
            strcmp(p.op, "matmul") ? 4.0 * BENCH_HEADS * n * n * BENCH_HEAD : 2.0 * n * n * n;
    }
    return p;
}

/* Takes samples; fewer of what takes a second each. */
static inline void bench_product_sample(const struct bench *b, const char *subject,
                                        const struct bench_product *p, bench_once_fn once,
                                        void *ctx)
{
    struct bench few = *b;
    bool is_long = p->amount > 1e11;

    if (is_long)
        few.reps = 2;
    bench_sample(&few, subject, p->unit, is_long ? 1 : 3, once, ctx);
}

#endif
