/* Products of few rows with a row-major matrix: values, which do not depend on the split. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "harness/test.h"
#include "ops/host/product/gemm_bf16.h"
#include "ops/product/gemm_thin_cut.h"

static uint64_t state;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static void set(void *x, weir_dtype dtype, int64_t i, float v)
{
    if (dtype == WEIR_F64)
        ((double *)x)[i] = v;
    else if (dtype == WEIR_F32)
        ((float *)x)[i] = v;
    else
        ((uint16_t *)x)[i] = dtype == WEIR_F16 ? weir__f32_to_f16(v) : weir__f32_to_bf16(v);
}

static double value(const void *x, weir_dtype dtype, int64_t i)
{
    if (dtype == WEIR_F64)
        return ((const double *)x)[i];
    if (dtype == WEIR_F32)
        return (double)((const float *)x)[i];
    return (double)(dtype == WEIR_F16 ? weir__f16_to_f32(((const uint16_t *)x)[i])
                                      : weir__bf16_to_f32(((const uint16_t *)x)[i]));
}

static void *numbers(weir_dtype dtype, int64_t n)
{
    void *x = malloc((size_t)n * weir_dtype_size(dtype));

    CHECK(x);
    for (int64_t i = 0; i < n; i++)
        set(x, dtype, i, (float)(below(4001) - 2000) / 1000);
    return x;
}

static struct weir__gemm make(weir_dtype dtype)
{
    struct weir__gemm g = {.dtype = dtype,
                           .m = 1 + below(dtype == WEIR_BF16 ? 12 : 8),
                           .n = 64 + below(600),
                           .k = 1 + below(below(2) ? 300 : 5000)};

    g.a_row = below(2) ? g.k : 1;
    g.a_col = g.a_row == 1 ? g.m : 1;
    g.b_row = g.n + below(3);
    g.b_col = 1;
    g.c_row = g.n;
    g.c_col = 1;
    g.bias_col = 1;
    g.a = numbers(dtype, g.m * g.k);
    g.b = numbers(dtype, g.k * g.b_row);
    g.c = numbers(dtype, g.m * g.n);
    g.bias = below(2) ? numbers(dtype, g.n) : NULL;
    g.dot = weir__gemm_is_dot(&g);
    g.thin = weir__gemm_is_thin(&g);
    return g;
}

static void release(const struct weir__gemm *g)
{
    free((void *)g->a);
    free((void *)g->b);
    free((void *)g->bias);
    free(g->c);
}

static void check_values(const struct weir__gemm *g)
{
    static const double eps[] = {
        [WEIR_F32] = 0x1p-20, [WEIR_F16] = 0x1p-10, [WEIR_BF16] = 0x1p-7, [WEIR_F64] = 0x1p-48};

    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const double got = value(g->c, g->dtype, i * g->c_row + j);
            double sum = g->bias ? value(g->bias, g->dtype, j) : 0, reach = fabs(sum);

            for (int64_t k = 0; k < g->k; k++) {
                const double term = value(g->a, g->dtype, i * g->a_row + k * g->a_col) *
                                    value(g->b, g->dtype, k * g->b_row + j);

                sum += term;
                reach += fabs(term);
            }
            if (!(fabs(got - sum) <= fabs(sum) * eps[g->dtype] + reach * 0x1p-20))
                test_fail(__FILE__, __LINE__, "row %lld, column %lld is %g, not %g", (long long)i,
                          (long long)j, got, sum);
        }
}

/* As matmul.c does it, block after block, in an order of its own. */
static void run_cut(const struct weir__gemm *whole, unsigned cores, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(whole->dtype);
    const int64_t sum_size = (int64_t)weir__thin_sum_size(whole->dtype);
    struct weir__gemm g = *whole;
    struct weir__thin_cut cut;
    char *sums;

    weir__thin_make(&cut, whole, NULL, cores);
    CHECK(sums = malloc((size_t)(cut.parts * whole->m * whole->n * sum_size)));
    for (int64_t at = cut.parts * cut.pieces - 1; at >= 0; at--) {
        const struct weir__range columns = weir__thin_columns(&cut, whole->n, (unsigned)at);
        const int64_t part = at / cut.pieces;

        if (columns.begin >= columns.end)
            continue;
        g.n = columns.end - columns.begin;
        g.b = whole->b + columns.begin * size;
        cut.part(&g, part, sums + (part * whole->m * whole->n + columns.begin) * sum_size, whole->n,
                 local);
    }
    for (int64_t begin = 0, end; begin < whole->n; begin = end) {
        end = weir__min(whole->n, begin + 1 + below(200));
        g.n = end - begin;
        g.c = whole->c + begin * size;
        g.bias = whole->bias ? whole->bias + begin * size : NULL;
        cut.join(&g, sums + begin * sum_size, cut.parts, whole->n, whole->m * whole->n, local);
    }
    free(sums);
}

static void check_dtype(weir_dtype dtype)
{
    void *local = aligned_alloc(64, WEIR_LOCAL_BYTES);

    CHECK(local);
    for (state = 1; state < 12 / TEST_SLOWDOWN + 3;) {
        const uint64_t seed = state;
        struct weir__gemm g = make(dtype), some;
        const size_t bytes = (size_t)(g.m * g.n) * weir_dtype_size(dtype);
        const bool pairs = weir__gemm_is_thin_pairs(&g);
        void *whole = malloc(bytes);

        test_note("%s, seed %llu: %lld x %lld x %lld", weir_dtype_name(dtype),
                  (unsigned long long)seed, (long long)g.m, (long long)g.n, (long long)g.k);
        CHECK(whole && (g.thin || pairs || g.m > WEIR__GEMM_THIN_MAX));
        memset(local, 0xff, WEIR_LOCAL_BYTES); /* NaN */
        if (dtype == WEIR_F64)
            WEIR__ISA_PICK(weir__gemm_f64)(&g, local);
        else if (pairs)
            WEIR__ISA_PICK(weir__gemm_bf16_thin)(&g, local);
        else
            WEIR__ISA_PICK(weir__gemm_f32)(&g, local);
        check_values(&g);
        memcpy(whole, g.c, bytes);
        if (g.thin || pairs) {
            some = g;
            memset(g.c, 0, bytes);
            run_cut(&some, 1 + (unsigned)below(40), local);
            CHECK(!memcmp(whole, g.c, bytes));
        }
        free(whole);
        release(&g);
        state = seed + 1;
    }
    free(local);
}

TEST(thin, f32_products_agree_with_f64_and_do_not_depend_on_the_split)
{
    check_dtype(WEIR_F32);
}

TEST(thin, f16_products_agree_with_f64_and_do_not_depend_on_the_split)
{
    check_dtype(WEIR_F16);
}

TEST(thin, bf16_products_agree_with_f64_and_do_not_depend_on_the_split)
{
    check_dtype(WEIR_BF16);
}

TEST(thin, f64_products_do_not_depend_on_the_split)
{
    check_dtype(WEIR_F64);
}
