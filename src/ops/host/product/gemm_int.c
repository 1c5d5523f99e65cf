/* Integer matrix products; sums wrap. */
#include <string.h>

#include "base/base.h"
#include "ops/host/product/gemm.h"

/* Multiplies numbers of type `from`, and adds the products in `type`. */
#define DEFINE_GEMM(name, from, type)                                              \
    static void name(const struct weir__gemm *g, type *sums, int64_t width)        \
    {                                                                              \
        const from *a = (const from *)g->a, *b = (const from *)g->b;               \
        const type *bias = (const type *)g->bias;                                  \
        type *c = (type *)g->c;                                                    \
                                                                                   \
        for (int64_t i = 0; i < g->m; i++)                                         \
            for (int64_t j0 = 0; j0 < g->n; j0 += width) {                         \
                const int64_t n = weir__min(width, g->n - j0);                     \
                                                                                   \
                memset(sums, 0, (size_t)n * sizeof *sums);                         \
                for (int64_t k = 0; k < g->k; k++) {                               \
                    const type x = (type)a[i * g->a_row + k * g->a_col];           \
                    const from *row = b + k * g->b_row + j0 * g->b_col;            \
                                                                                   \
                    for (int64_t j = 0; j < n; j++)                                \
                        sums[j] += x * (type)row[j * g->b_col];                    \
                }                                                                  \
                for (int64_t j = 0; j < n; j++) {                                  \
                    if (bias)                                                      \
                        sums[j] += bias[i * g->bias_row + (j0 + j) * g->bias_col]; \
                    c[i * g->c_row + (j0 + j) * g->c_col] = sums[j];               \
                }                                                                  \
            }                                                                      \
    }
DEFINE_GEMM(gemm_8, int8_t, uint32_t)
DEFINE_GEMM(gemm_32, uint32_t, uint32_t)
DEFINE_GEMM(gemm_64, uint64_t, uint64_t)

void WEIR__ISA_NAME(weir__gemm_int)(const struct weir__gemm *g, void *local)
{
    enum { WIDTH = 1024 };

    if (g->dtype == WEIR_I8)
        gemm_8(g, local, WIDTH);
    else if (g->dtype == WEIR_I32)
        gemm_32(g, local, WIDTH);
    else
        gemm_64(g, local, WIDTH);
}
