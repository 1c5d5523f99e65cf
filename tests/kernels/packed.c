/* Large products whose operands are packed once for all cores: the same bits as without. */
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "harness/test.h"
#include "ops/product/gemm_packed_cut.h"

static uint64_t state;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static void *numbers(weir_dtype dtype, int64_t n)
{
    char *x = malloc((size_t)n * weir_dtype_size(dtype));

    CHECK(x);
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)(below(4001) - 2000) / 1000;

        if (dtype == WEIR_F64)
            ((double *)x)[i] = (double)v;
        else if (dtype == WEIR_F32)
            ((float *)x)[i] = v;
        else
            ((uint16_t *)x)[i] = dtype == WEIR_F16 ? weir__f32_to_f16(v) : weir__f32_to_bf16(v);
    }
    return x;
}

/* Rows of n elements and a few more, or their transposition. */
static char *matrix(weir_dtype dtype, int64_t m, int64_t n, int64_t *row, int64_t *col)
{
    const int64_t more = below(3);

    *row = below(2) ? n + more : 1;
    *col = *row == 1 ? m + more : 1;
    return numbers(dtype, (m + more) * (n + more));
}

/* A problem that is large enough; C and the bias are rows. */
static struct weir__gemm make(weir_dtype dtype)
{
    struct weir__gemm g = {
        .dtype = dtype, .m = 384 + below(100), .n = 384 + below(100), .c_col = 1, .bias_col = 1};

    g.k = 150000000 / (g.m * g.n) + 1 + below(20);
    g.a = matrix(dtype, g.m, g.k, &g.a_row, &g.a_col);
    g.b = matrix(dtype, g.k, g.n, &g.b_row, &g.b_col);
    g.c_row = g.n + below(3);
    g.c = calloc((size_t)(g.m * g.c_row), weir_dtype_size(dtype));
    g.bias = below(2) ? numbers(dtype, g.n) : NULL;
    CHECK(g.c);
    return g;
}

static void compute(const struct weir__gemm *g, void *local)
{
    if (g->dtype == WEIR_F64)
        WEIR__ISA_PICK(weir__gemm_f64)(g, local);
    else
        WEIR__ISA_PICK(weir__gemm_f32)(g, local);
}

/* Blocks of both phases, the last ones first: they may run in any order. */
static void compute_packed(const struct weir__gemm *g, unsigned cores, void *local)
{
    char *scratch = aligned_alloc(64, (weir__packed_scratch(g, cores) + 63) / 64 * 64);
    struct weir__packed_cut cut;
    struct weir__grid grids[2];
    unsigned blocks;

    CHECK(scratch);
    memset(scratch, 0xff, weir__packed_scratch(g, cores)); /* NaN, should any of it be used */
    weir__packed_make(&cut, g, scratch, cores, grids);
    blocks = grids[0].blocks + grids[1].blocks;
    for (unsigned phase = 0; phase < 2; phase++)
        for (unsigned i = blocks; i-- > 0;)
            weir__packed_run(
                &cut, g, grids,
                &(weir_block){.index = i, .count = blocks, .phase = phase, .local = local});
    free(scratch);
}

TEST(packed, a_product_whose_operands_are_packed_once_has_the_same_bits)
{
    static const weir_dtype dtypes[] = {WEIR_F32, WEIR_F64, WEIR_F16};
    void *local = aligned_alloc(64, WEIR_LOCAL_BYTES);

    CHECK(local);
    for (int i = 0; i < 12 / TEST_SLOWDOWN_ALONE + 3; i++) {
        struct weir__gemm g = make(dtypes[i % 3]);
        const unsigned cores = 4 + (unsigned)below(30);
        const size_t size = (size_t)(g.m * g.c_row) * weir_dtype_size(g.dtype);
        char *alone = g.c;

        test_note("%s, %lld x %lld x %lld on %u cores", weir_dtype_name(g.dtype), (long long)g.m,
                  (long long)g.n, (long long)g.k, cores);
        CHECK(weir__packed_scratch(&g, cores) > 0);
        compute(&g, local);
        CHECK((g.c = calloc(1, size)));
        compute_packed(&g, cores, local);
        CHECK(!memcmp(g.c, alone, size));
        free(alone);
        free(g.c);
        free((void *)g.a);
        free((void *)g.b);
        free((void *)g.bias);
    }
    free(local);
}

TEST(packed, with_fewer_cores_a_product_never_needs_more_memory_for_packed_operands)
{
    for (int i = 0; i < 2000; i++) {
        const struct weir__gemm g = {
            .dtype = WEIR_F32, .m = 1 + below(6000), .n = 1 + below(6000), .k = 1 + below(6000)};

        for (unsigned cores = 1; cores < 70; cores++)
            CHECK(weir__packed_scratch(&g, cores) <= weir__packed_scratch(&g, cores + 1));
    }
}
