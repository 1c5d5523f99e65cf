/* Products of several lanes as one call: what is merged, what is not, and right values either way.
 */
#include <stdlib.h>

#include "base/half.h"
#include "cuda/product/product.h"
#include "gpu.h"
#include "kept.h"

enum { N = 8, INPUTS = 4, MOST = 4 };

/* A product of two inputs, or, from RESULT on, of earlier results. */
enum { RESULT = 10 };
struct node {
    const char *lane;
    int a, b, priority, cores;
};

struct run {
    weir_device *dev;
    weir_plan *plan;
    weir_tensor *in[INPUTS], *out[2][MOST]; /* by address; two sets of results */
    const struct node *nodes;
    int n;
};

/* x[3] is twice as wide as the others. */
static int64_t width(int input)
{
    return input == 3 ? 2 * N : N;
}

static weir_status make_plan(struct run *r)
{
    weir_tensor *x[INPUTS], *y[MOST];
    weir_status st;
    weir_graph *g;
    char name[16];

    CHECK_OK(weir_graph_create(r->dev, &g));
    for (int i = 0; i < INPUTS; i++) {
        snprintf(name, sizeof name, "x%d", i);
        CHECK_OK(weir_graph_input(g, name, WEIR_F32, 2, (int64_t[]){N, width(i)}, &x[i]));
    }
    CHECK_OK(weir_graph_begin(g));
    for (int i = 0; i < r->n; i++) {
        const struct node *node = &r->nodes[i];
        int cores = node->cores ? node->cores : -1;

        CHECK_OK(weir_scope_push_stream(node->lane, node->priority));
        CHECK_OK(weir_scope_push_cores((weir_cores){cores, cores}));
        CHECK_OK(
            weir_matmul(node->a < RESULT ? x[node->a] : y[node->a - RESULT], x[node->b], &y[i]));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < r->n; i++) {
        snprintf(name, sizeof name, "y%d", i);
        CHECK_OK(weir_graph_output(g, name, y[i]));
        weir_tensor_release(y[i]);
    }
    for (int i = 0; i < INPUTS; i++)
        weir_tensor_release(x[i]);
    st = weir_graph_compile(g, NULL, &r->plan);
    weir_graph_destroy(g);
    return st;
}

static int by_address(const void *a, const void *b)
{
    const char *x = weir_tensor_data(*(weir_tensor *const *)a);
    const char *y = weir_tensor_data(*(weir_tensor *const *)b);

    return (x > y) - (x < y);
}

static float input_value(int input, int i)
{
    return (float)((i * (input + 2) + input) % 5) - 2;
}

static void open_run(struct run *r, const char *spec, const struct node *nodes, int n)
{
    *r = (struct run){.dev = open_gpu(spec), .nodes = nodes, .n = n};
    CHECK_OK(make_plan(r));
    for (int i = 0; i < INPUTS; i++)
        CHECK_OK(weir_tensor_empty(weir_stream_default(r->dev), WEIR_F32, 2,
                                   (int64_t[]){N, width(i)}, &r->in[i]));
    qsort(r->in, 3, sizeof *r->in, by_address); /* the fourth has its own shape */
    for (int i = 0; i < INPUTS; i++) {
        float values[2 * N * N];

        for (int k = 0; k < N * width(i); k++)
            values[k] = input_value(i, k);
        CHECK_OK(weir_tensor_write(r->in[i], values, (size_t)(N * width(i)) * sizeof *values));
    }
    for (int set = 0; set < 2; set++) {
        for (int i = 0; i < n; i++)
            CHECK_OK(weir_tensor_empty(weir_stream_default(r->dev), WEIR_F32, 2,
                                       (int64_t[]){N, width(nodes[i].b)}, &r->out[set][i]));
        if (n == 2)
            qsort(r->out[set], 2, sizeof *r->out[set], by_address);
    }
}

static void close_run(struct run *r)
{
    for (int i = 0; i < INPUTS; i++)
        weir_tensor_release(r->in[i]);
    for (int i = 0; i < 2 * r->n; i++)
        weir_tensor_release(r->out[i / r->n][i % r->n]);
    weir_plan_destroy(r->plan);
    CHECK_OK(weir_device_close(r->dev));
}

/* The products that a run's graph is made of; all values are right. */
static int run_into(const struct fake_control *fake, struct run *r, weir_tensor *const *out)
{
    float y[MOST][2 * N * N], got[2 * N * N];
    weir_tensor *to[MOST];
    int calls;

    for (int i = 0; i < r->n; i++)
        to[i] = out[i];
    fake->watch();
    CHECK_OK(weir_plan_run(r->plan, weir_stream_default(r->dev), r->in, INPUTS, to, r->n));
    calls = count_calls(fake, "cublasLtMatmul");
    CHECK_OK(weir_device_sync(r->dev));
    for (int i = 0; i < r->n; i++) {
        const struct node *node = &r->nodes[i];
        int64_t w = width(node->b);

        for (int k = 0; k < N * w; k++) {
            y[i][k] = 0;
            for (int j = 0; j < N; j++) {
                int at = (int)(k / w) * N + j;

                y[i][k] += (node->a < RESULT ? input_value(node->a, at) : y[node->a - RESULT][at]) *
                           input_value(node->b, j * (int)w + (int)(k % w));
            }
        }
        CHECK_OK(weir_tensor_read(to[i], got, (size_t)(N * w) * sizeof *got));
        for (int k = 0; k < N * w; k++)
            CHECK_NEAR(got[k], y[i][k], 0);
    }
    return calls;
}

/* In a new place nothing is timed any more, so what is asked for is the graph alone. */
static int count_products(const char *spec, const struct node *nodes, int n)
{
    const struct fake_control *fake = use_fake();
    struct run r;
    int calls;

    fake->slow_algorithm(FAKE_EVERY_ALGORITHM);
    open_run(&r, spec, nodes, n);
    (void)run_into(fake, &r, r.out[0]);
    calls = run_into(fake, &r, r.out[1]);
    close_run(&r);
    return calls;
}

TEST(cuda_merges, independent_products_are_merged)
{
    const struct node shared[] = {{"default", 0, 1, 0, 0}, {"side", 0, 1, 0, 0}};
    const struct node other[] = {{"default", 0, 1, 0, 0}, {"side", 0, 2, 0, 0}};

    CHECK_EQ(count_products("cuda:0", shared, 2), 1);
    CHECK_EQ(count_products("cuda:0", other, 2), 1);
}

TEST(cuda_merges, dependent_products_are_not_merged)
{
    const struct node direct[] = {{"default", 0, 1, 0, 0}, {"side", RESULT, 1, 0, 0}};
    const struct node around[] = {
        {"default", 0, 1, 0, 0}, {"third", RESULT, 1, 0, 0}, {"side", RESULT + 1, 1, 0, 0}};
    const struct node one_lane[] = {{"default", 0, 1, 0, 0}, {"default", 0, 2, 0, 0}};

    CHECK_EQ(count_products("cuda:0", direct, 2), 2);
    CHECK_EQ(count_products("cuda:0", around, 3), 3);
    CHECK_EQ(count_products("cuda:0", one_lane, 2), 2);
}

/* Either pair could be merged, but with both each would wait for the other. */
TEST(cuda_merges, pairs_that_cross_are_not_both_merged)
{
    const struct node crossed[] = {{"default", 0, 1, 0, 0},
                                   {"default", 0, 3, 0, 0},
                                   {"side", 0, 3, 0, 0},
                                   {"side", 0, 1, 0, 0}};

    CHECK_EQ(count_products("cuda:0", crossed, 4), 3);
}

TEST(cuda_merges, products_that_the_user_separates_are_not_merged)
{
    const struct node priorities[] = {{"default", 0, 1, 0, 0}, {"urgent", 0, 1, -4, 0}};
    const struct node limits[] = {{"default", 0, 1, 0, 64}, {"side", 0, 1, 0, 64}};
    const struct node plain[] = {{"default", 0, 1, 0, 0}, {"side", 0, 1, 0, 0}};

    CHECK_EQ(count_products("cuda:0", priorities, 2), 2);
    CHECK_EQ(count_products("cuda:0", limits, 2), 2);
    CHECK_EQ(count_products("cuda:0,deterministic", plain, 2), 2);
}

/* A step back from one operand to the next cannot be said; the next tensors may lie well again. */
TEST(cuda_merges, products_on_rebound_tensors_are_merged_if_possible)
{
    const struct node nodes[] = {{"default", 0, 1, 0, 0}, {"side", 0, 2, 0, 0}};
    const struct fake_control *fake = use_fake();
    struct run r;

    fake->slow_algorithm(FAKE_EVERY_ALGORITHM);
    open_run(&r, "cuda:0", nodes, 2);
    (void)run_into(fake, &r, r.out[0]);
    CHECK_EQ(run_into(fake, &r, (weir_tensor *[]){r.out[1][1], r.out[1][0]}), 2);
    CHECK_EQ(run_into(fake, &r, r.out[1]), 1);
    CHECK_EQ(run_into(fake, &r, (weir_tensor *[]){r.out[0][0], r.out[1][1]}), 1);
    close_run(&r);
}

TEST(cuda_merges, merges_are_kept_for_later_processes_unless_the_file_is_damaged)
{
    const struct node nodes[] = {{"default", 0, 1, 0, 0}, {"side", 0, 1, 0, 0}};
    const struct fake_control *fake = use_fake();
    char path[100], name[400] = "";
    struct run r;
    FILE *f;

    make_cache(path, sizeof path);
    fake->slow_algorithm(FAKE_EVERY_ALGORITHM);
    for (int i = 0; i < 4; i++) {
        open_run(&r, "cuda:0", nodes, 2);
        (void)run_into(fake, &r, r.out[0]);
        CHECK_EQ(count_calls(fake, "cuEventElapsedTime") > 0, i != 1);
        CHECK_EQ(run_into(fake, &r, r.out[1]), 1);
        close_run(&r);
        CHECK_EQ(list_kept(path, ".plan", name, sizeof name), 1);
        if (i == 1) { /* places that are none */
            CHECK((f = fopen(name, "r+b")) != NULL);
            CHECK(!fseek(f, 2 * (long)sizeof(int), SEEK_SET));
            fwrite((int[]){1, 9, 9, 9, 9}, sizeof(int), 5, f);
            fclose(f);
        } else if (i == 2) {
            CHECK((f = fopen(name, "wb")) != NULL);
            fputs("garbage!", f);
            fclose(f);
        }
    }
    drop_cache(path);
}

/* ---- the stacks themselves, which a real GPU does as well ---- */

struct stack {
    weir_dtype dtype;
    int n;
    bool shared_a, shared_b, biased;
};

static double stack_value(int which, int i)
{
    return ((i * 7 + which * 3) % 9 - 4) / 4.0;
}

static weir_tensor *stack_tensor(weir_stream *s, weir_dtype dtype, int which, int n, int rows,
                                 int cols)
{
    weir_tensor *t, *wide;
    int count = n * rows * cols;
    float *values = malloc((size_t)count * sizeof *values);

    CHECK(values != NULL);
    for (int i = 0; i < count; i++)
        values[i] = (float)stack_value(which, i);
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 3, (int64_t[]){n, rows, cols}, &wide));
    CHECK_OK(weir_tensor_write(wide, values, (size_t)count * sizeof *values));
    CHECK_OK(weir_cast(wide, dtype, &t));
    weir_tensor_release(wide);
    free(values);
    return t;
}

/* Several products at places evenly apart, handed over in no order. */
static void check_stack(weir_device *dev, const struct stack *x)
{
    enum { M = 24, K = 40, W = 32 };
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *a = stack_tensor(s, x->dtype, 0, x->n, M, K);
    weir_tensor *b = stack_tensor(s, x->dtype, 1, x->n, K, W);
    weir_tensor *c = stack_tensor(s, x->dtype, 2, x->n, M, W);
    weir_tensor *bias = stack_tensor(s, x->dtype, 3, 1, 1, W), *wide;
    size_t size = weir_dtype_size(x->dtype);
    struct weir__product products[WEIR__CUDA_OFFERS];
    void *workspace = NULL;
    struct weir__cuda_sink sink = {
        .dev = weir__cuda_of(dev), .cores = UINT32_MAX, .workspace = &workspace};
    float *got = malloc((size_t)(x->n * M * W) * sizeof *got);
    bool pushed;

    CHECK(got != NULL);
    for (int i = 0; i < x->n; i++) {
        int at = (i + 1) % x->n;

        products[i] = (struct weir__product){
            .dtype = x->dtype,
            .m = M,
            .n = W,
            .k = K,
            .a_row = K,
            .a_col = 1,
            .b_row = W,
            .b_col = 1,
            .c_row = W,
            .c_col = 1,
            .bias_step = 1,
            .a = (char *)weir_tensor_data(a) + (x->shared_a ? 0 : (size_t)(at * M * K) * size),
            .b = (char *)weir_tensor_data(b) + (x->shared_b ? 0 : (size_t)(at * K * W) * size),
            .c = (char *)weir_tensor_data(c) + (size_t)(at * M * W) * size,
        };
        if (x->biased)
            products[i].bias = weir_tensor_data(bias);
    }
    CHECK_OK(weir_device_sync(dev));
    weir__light_lock(&dev->lock);
    pushed = weir__cuda_enter(weir__cuda_of(dev));
    CHECK_OK(weir__cuda_tail(weir__cuda_stream_of(s), UINT32_MAX, &sink.stream));
    CHECK_OK(weir__cuda_product_run(&sink, products, x->n));
    weir__cuda_leave(weir__cuda_of(dev), pushed);
    weir__light_unlock(&dev->lock);
    CHECK_OK(weir_cast(c, WEIR_F32, &wide)); /* behind it on the same stream */
    CHECK_OK(weir_tensor_read(wide, got, (size_t)(x->n * M * W) * sizeof *got));
    for (int i = 0; i < x->n * M * W; i++) {
        int which = i / (M * W), row = i / W % M, col = i % W;
        double sum = x->biased ? stack_value(3, col) : 0;

        for (int k = 0; k < K; k++)
            sum += stack_value(0, (x->shared_a ? 0 : which * M * K) + row * K + k) *
                   stack_value(1, (x->shared_b ? 0 : which * K * W) + k * W + col);
        CHECK_NEAR(got[i], sum, x->dtype == WEIR_BF16 ? 0.25 : 0.04);
    }
    if (workspace)
        weir__cuda_of(dev)->api->cu.memory_free((weir__cu_address)(uintptr_t)workspace);
    weir_tensor_release(wide);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(c);
    weir_tensor_release(bias);
    free(got);
}

TEST(cuda_merges, a_stack_has_the_values_of_its_products)
{
    static const weir_dtype dtypes[] = {WEIR_F16, WEIR_BF16, WEIR_F32, WEIR_F64};
    weir_device *dev = open_gpu("cuda:0");

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++) {
            struct stack x = {dtypes[i], k & 4 ? 3 : 2, k & 1, k & 2, k & 4};

            test_note("dtype %d, %d of them, a %s, b %s", (int)x.dtype, x.n,
                      x.shared_a ? "shared" : "each", x.shared_b ? "shared" : "each");
            check_stack(dev, &x);
        }
    CHECK_OK(weir_device_close(dev));
}

/* What is no stack is not taken for one. */
TEST(cuda_merges, products_that_differ_or_lie_unevenly_are_no_stack)
{
    static char memory[1 << 16];
    struct weir__product x[3], stack;
    size_t span = (size_t)N * N * 2;

    for (int i = 0; i < 3; i++)
        x[i] = (struct weir__product){.dtype = WEIR_F16,
                                      .m = N,
                                      .n = N,
                                      .k = N,
                                      .a = memory,
                                      .b = memory + 512 * i,
                                      .c = memory + 8192 + 1024 * i,
                                      .a_row = N,
                                      .a_col = 1,
                                      .b_row = N,
                                      .b_col = 1,
                                      .c_row = N,
                                      .c_col = 1};
    CHECK(weir__cuda_product_stack(x, 3, false, &stack));
    CHECK_EQ(stack.a_step[0], 0);
    CHECK_EQ(stack.b_step[0], 256);
    CHECK_EQ(stack.c_step[0], 512);
    CHECK(weir__cuda_product_stack(x, 3, true, &stack));
    CHECK_EQ(weir__cuda_product_span(&stack), 2 * 256 + span); /* in units of 256 bytes */
    x[2].c += 32; /* not as far apart as the first two */
    CHECK(!weir__cuda_product_stack(x, 3, false, &stack));
    CHECK(weir__cuda_product_stack(x, 2, false, &stack));
    x[1].c += 8; /* not in units of 16 bytes */
    CHECK(!weir__cuda_product_stack(x, 2, false, &stack));
    x[1].c = x[0].c + span - 16; /* one result in the other */
    CHECK(!weir__cuda_product_stack(x, 2, false, &stack));
    x[1].c = x[0].c - 1024; /* b would go back */
    CHECK(!weir__cuda_product_stack(x, 2, false, &stack));
    x[1].c = x[0].c + 1024;
    x[1].b_row = 2 * N;
    CHECK(!weir__cuda_product_stack(x, 2, false, &stack));
    x[1].b_row = N;
    CHECK(weir__cuda_product_stack(x, 2, false, &stack));
    x[1].bias = memory; /* the library takes one for all */
    CHECK(!weir__cuda_product_stack(x, 2, false, &stack));
}

/* Memory of two allocators can lie 2^46 bytes apart, and the library's kernels keep 40 bits of a
 * stack's step: such products run one by one. */
TEST(cuda_merges, products_too_far_apart_for_the_library_are_not_merged)
{
    weir_device *dev = open_gpu("cuda:0");
    struct weir__product stack = {.dtype = WEIR_BF16,
                                  .m = N,
                                  .n = N,
                                  .k = N,
                                  .ndims = 1,
                                  .shape = {2},
                                  .a_row = N,
                                  .a_col = 1,
                                  .b_row = N,
                                  .b_col = 1,
                                  .c_row = N,
                                  .c_col = 1};
    int64_t *const steps[] = {stack.a_step, stack.b_step, stack.c_step};
    const int64_t limit = (INT64_C(1) << 40) / 2; /* in elements */
    struct weir__cuda_product *product;
    bool pushed;

    weir__light_lock(&dev->lock);
    pushed = weir__cuda_enter(weir__cuda_of(dev));
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            *steps[k] = N * N;
        CHECK_OK(weir__cuda_product_find(weir__cuda_of(dev), &stack, UINT32_MAX, &product));
        *steps[i] = limit - 8;
        CHECK_OK(weir__cuda_product_find(weir__cuda_of(dev), &stack, UINT32_MAX, &product));
        *steps[i] = limit;
        CHECK_EQ(weir__cuda_product_find(weir__cuda_of(dev), &stack, UINT32_MAX, &product),
                 WEIR_EUNSUPPORTED);
    }
    weir__cuda_leave(weir__cuda_of(dev), pushed);
    weir__light_unlock(&dev->lock);
    CHECK_OK(weir_device_close(dev));
}
