/* How products are chosen: by time, alone and beside each other, once for all processes. */
#include "gpu.h"
#include "kept.h"

#include "base/half.h"
#include "cuda/product/product.h"

enum { N = 16, BYTES = N * N * (int)sizeof(float) };

/* Two products of x, one of them on a stream of its own if there are to be two, and beside each a
 * sum that counts the runs. */
static weir_status make_plan(weir_device *dev, bool two, weir_plan **plan)
{
    const int64_t shape[] = {N, N};
    weir_tensor *x, *count, *y[2];
    weir_graph *g;
    weir_status st;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_graph_input(g, "count", WEIR_F32, 2, shape, &count));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add_into(count, x, count));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_scope_push_stream(i && two ? "side" : "default", 0));
        CHECK_OK(weir_matmul(x, x, &y[i]));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y0", y[0]));
    CHECK_OK(weir_graph_output(g, "y1", y[1]));
    st = weir_graph_compile(g, NULL, plan);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(y[i]);
    weir_tensor_release(x);
    weir_tensor_release(count);
    weir_graph_destroy(g);
    return st;
}

struct run {
    weir_device *dev;
    weir_plan *plan;
    weir_tensor *in[2], *out[2];
};

static void open_run(struct run *r, const char *spec, bool two)
{
    const int64_t shape[] = {N, N};

    *r = (struct run){.dev = open_gpu(spec)};
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_tensor_empty(weir_stream_default(r->dev), WEIR_F32, 2, shape, &r->in[i]));
    CHECK_OK(weir_fill(r->in[0], 2));
    CHECK_OK(weir_fill(r->in[1], 0));
    CHECK_OK(make_plan(r->dev, two, &r->plan));
}

static void close_run(struct run *r)
{
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(r->in[i]);
        weir_tensor_release(r->out[i]);
    }
    weir_plan_destroy(r->plan);
    CHECK_OK(weir_device_close(r->dev));
}

static weir_status run_once(struct run *r)
{
    weir_status st = weir_plan_run(r->plan, weir_stream_default(r->dev), r->in, 2, r->out, 2);

    return st ? st : weir_device_sync(r->dev);
}

/* Both products are right, and the plan has run so many times, however often it was timed. */
static void check_values(struct run *r, int runs)
{
    float y[N * N];

    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_read(r->out[i], y, BYTES));
        for (int k = 0; k < N * N; k++)
            CHECK_NEAR(y[k], 4.0 * N, 0);
    }
    CHECK_OK(weir_tensor_read(r->in[1], y, BYTES));
    for (int k = 0; k < N * N; k++)
        CHECK_NEAR(y[k], 2.0 * runs, 0);
}

/* A device, a plan and a run; the algorithm it took and whether that was found by time. */
static int algorithm_taken(const struct fake_control *fake, const char *spec, bool two, bool *timed)
{
    struct run r;

    open_run(&r, spec, two);
    fake->watch();
    CHECK_OK(run_once(&r));
    *timed = count_calls(fake, "cuEventElapsedTime") > 0;
    check_values(&r, 1);
    CHECK_OK(run_once(&r));
    check_values(&r, 2);
    close_run(&r);
    return fake->last_algorithm();
}

TEST(cuda_products, the_fastest_algorithm_is_found_by_timing_and_kept_for_later_processes)
{
    const struct fake_control *fake = use_fake();
    char path[100];
    bool timed;

    make_cache(path, sizeof path);
    fake->slow_algorithm(0); /* the library's own choice */
    CHECK_GT(algorithm_taken(fake, "cuda:0", false, &timed), 0);
    CHECK(timed);
    CHECK_EQ(list_kept(path, ".algorithm", NULL, 0), 1);
    fake->slow_algorithm(1); /* timed once more it would be another */
    CHECK_GT(algorithm_taken(fake, "cuda:0", false, &timed), 0);
    CHECK(!timed);
    drop_cache(path);
}

TEST(cuda_products, products_of_two_lanes_are_timed_beside_each_other_and_run_once)
{
    const struct fake_control *fake = use_fake();
    char path[100];
    bool timed;

    make_cache(path, sizeof path);
    fake->slow_algorithm(0);
    CHECK_GT(algorithm_taken(fake, "cuda:0", true, &timed), 0);
    CHECK(timed);
    /* On its own, in this concurrent set, and both as one; and how the plan is made of them. */
    CHECK_GT(list_kept(path, ".algorithm", NULL, 0), 2);
    CHECK_EQ(list_kept(path, ".plan", NULL, 0), 1);
    CHECK_GT(algorithm_taken(fake, "cuda:0", true, &timed), 0);
    CHECK(!timed);
    drop_cache(path);
}

TEST(cuda_products, a_cache_file_that_names_no_algorithm_is_refused)
{
    const struct fake_control *fake = use_fake();
    char path[100], name[400] = "";
    bool timed;
    FILE *f;

    make_cache(path, sizeof path);
    fake->slow_algorithm(0);
    algorithm_taken(fake, "cuda:0", false, &timed);
    CHECK_EQ(list_kept(path, ".algorithm", name, sizeof name), 1);
    CHECK((f = fopen(name, "r+b")) != NULL);
    CHECK(!fseek(f, -8, SEEK_END)); /* the last of the library's own bytes are not looked at, */
    fputs("garbage!", f);
    fclose(f);
    CHECK_GT(algorithm_taken(fake, "cuda:0", false, &timed), 0);
    CHECK(!timed);
    CHECK((f = fopen(name, "r+b")) != NULL);
    CHECK(!fseek(f, -64, SEEK_END)); /* the first ones say which algorithm it is, */
    fputs("garbage!", f);
    fclose(f);
    CHECK_GT(algorithm_taken(fake, "cuda:0", false, &timed), 0);
    CHECK(timed);
    CHECK((f = fopen(name, "wb")) != NULL); /* and a file may be cut short */
    fputs("garbage!", f);
    fclose(f);
    CHECK_GT(algorithm_taken(fake, "cuda:0", false, &timed), 0);
    CHECK(timed);
    drop_cache(path);
}

TEST(cuda_products, a_deterministic_device_takes_no_times)
{
    const struct fake_control *fake = use_fake();
    bool timed;

    fake->slow_algorithm(0);
    CHECK_EQ(algorithm_taken(fake, "cuda:0,deterministic", true, &timed), 0);
    CHECK(!timed);
}

/* Timing does without what it cannot have: what fails is the run, if anything, and not the next. */
TEST_TIMEOUT(cuda_products, a_call_that_fails_while_products_are_timed_leaves_the_plan_whole, 60)
{
    const struct fake_control *fake = use_fake();
    uint64_t calls = 0;
    char text[400];
    struct run r;

    open_run(&r, "cuda:0", true);
    fake->watch();
    CHECK_OK(run_once(&r));
    while (fake->watched(calls + 1))
        calls++;
    close_run(&r);
    for (uint64_t n = 1; n < calls; n += 1 + calls / 5 * TEST_SLOWDOWN) {
        int runs = 1;

        test_note("call %llu of %llu fails", (unsigned long long)n, (unsigned long long)calls);
        open_run(&r, "cuda:0", true);
        fake->fail_call(n, CU_ERROR_OUT_OF_MEMORY);
        runs += run_once(&r) == WEIR_OK;
        fake->fail_call(0, 0);
        CHECK_OK(run_once(&r));
        if (runs == 2)
            check_values(&r, runs);
        close_run(&r);
        fake->live(text, sizeof text);
        CHECK_STR_EQ(text, "");
    }
}

/* ---- a bias of 16 bits ---- */

struct biased {
    int batch, m, n, k;
    weir_dtype dtype;
    weir_tensor *a, *b, *c, *bias;
    float *values[3]; /* of a, b and bias */
};

/* Whole numbers: f32 holds their sums exactly, in any order. */
static weir_tensor *whole_numbers(weir_stream *s, weir_dtype dtype, int n, int most, float **values)
{
    weir_tensor *wide, *t;
    unsigned next = 12345;

    CHECK((*values = malloc((size_t)n * sizeof **values)) != NULL);
    for (int i = 0; i < n; i++) {
        next = next * 1103515245u + 12345u;
        (*values)[i] = (float)((int)(next >> 16) % (2 * most + 1) - most);
    }
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){n}, *values, &wide));
    CHECK_OK(weir_cast(wide, dtype, &t));
    weir_tensor_release(wide);
    return t;
}

static void check_once_rounded(const struct biased *x)
{
    int count = x->batch * x->m * x->n;
    float *got = malloc((size_t)count * sizeof *got);
    weir_tensor *wide;

    CHECK(got != NULL);
    CHECK_OK(weir_cast(x->c, WEIR_F32, &wide));
    CHECK_OK(weir_tensor_read(wide, got, (size_t)count * sizeof *got));
    for (int i = 0; i < count; i++) {
        int which = i / (x->m * x->n), row = i / x->n % x->m, col = i % x->n;
        const float *a = x->values[0] + (which * x->m + row) * x->k;
        const float *b = x->values[1] + which * x->k * x->n + col;
        float sum = x->values[2][col];

        for (int k = 0; k < x->k; k++)
            sum += a[k] * b[k * x->n];
        CHECK_NEAR(got[i],
                   x->dtype == WEIR_F16 ? weir__f16_to_f32(weir__f32_to_f16(sum))
                                        : weir__bf16_to_f32(weir__f32_to_bf16(sum)),
                   0);
    }
    weir_tensor_release(wide);
    free(got);
}

/* Every algorithm that the library offers for it. */
static void check_algorithms(weir_device *dev, struct biased *x)
{
    weir_stream *s = weir_stream_default(dev);
    struct weir__cuda *gpu = weir__cuda_of(dev);
    void *workspace = NULL;
    struct weir__cuda_sink sink = {.dev = gpu, .cores = UINT32_MAX, .workspace = &workspace};
    struct weir__product call = {.dtype = x->dtype,
                                 .m = x->m,
                                 .n = x->n,
                                 .k = x->k,
                                 .a_row = x->k,
                                 .a_col = 1,
                                 .b_row = x->n,
                                 .b_col = 1,
                                 .c_row = x->n,
                                 .c_col = 1,
                                 .bias_step = 1,
                                 .ndims = 1,
                                 .shape = {x->batch},
                                 .a_step = {x->m * x->k},
                                 .b_step = {x->k * x->n},
                                 .c_step = {x->m * x->n}};
    struct weir__cuda_product *p;
    int n = 1;

    x->a = whole_numbers(s, x->dtype, x->batch * x->m * x->k, 24, &x->values[0]);
    x->b = whole_numbers(s, x->dtype, x->batch * x->k * x->n, 24, &x->values[1]);
    x->bias = whole_numbers(s, x->dtype, x->n, 100, &x->values[2]);
    CHECK_OK(weir_tensor_empty(s, x->dtype, 1, (int64_t[]){x->batch * x->m * x->n}, &x->c));
    CHECK_OK(weir_device_sync(dev));
    call.a = weir_tensor_data(x->a);
    call.b = weir_tensor_data(x->b);
    call.c = weir_tensor_data(x->c);
    call.bias = weir_tensor_data(x->bias);
    for (int i = 0; i < n; i++) {
        bool pushed;

        test_note("%s, %d of %d x %d x %d, algorithm %d", weir_dtype_name(x->dtype), x->batch, x->m,
                  x->n, x->k, i);
        weir__light_lock(&dev->lock);
        pushed = weir__cuda_enter(gpu);
        CHECK_OK(weir__cuda_tail(weir__cuda_stream_of(s), UINT32_MAX, &sink.stream));
        CHECK_OK(weir__cuda_product_find(gpu, &call, UINT32_MAX, &p));
        for (int t = 1; t < WEIR__CUDA_TARGETS && !i; t++)
            weir__cuda_product_ask(gpu, p, t);
        n = p->nalgorithms;
        CHECK_OK(weir__cuda_product_workspace(&sink));
        CHECK_OK(weir__cuda_product_issue(&sink, p, i, &call, 1));
        weir__cuda_leave(gpu, pushed);
        weir__light_unlock(&dev->lock);
        check_once_rounded(x);
    }
    gpu->api->cu.memory_free((weir__cu_address)(uintptr_t)workspace);
    weir_tensor_release(x->a);
    weir_tensor_release(x->b);
    weir_tensor_release(x->c);
    weir_tensor_release(x->bias);
    for (int i = 0; i < 3; i++)
        free(x->values[i]);
}

TEST(cuda_products, every_algorithm_rounds_a_product_of_16_bits_and_its_bias_once)
{
    static const int sizes[][4] = {{1, 48, 48, 48},   {1, 64, 40, 96},  {2, 24, 32, 40},
                                   {1, 1, 96, 304},   {3, 8, 8, 8},     {1, 16, 64, 1024},
                                   {1, 128, 128, 64}, {1, 1, 128, 1024}};
    weir_device *dev = open_gpu("cuda:0");

    for (size_t i = 0; i < weir__countof(sizes); i++)
        for (int half = 0; half < 2; half++)
            check_algorithms(dev, &(struct biased){.batch = sizes[i][0],
                                                   .m = sizes[i][1],
                                                   .n = sizes[i][2],
                                                   .k = sizes[i][3],
                                                   .dtype = half ? WEIR_F16 : WEIR_BF16});
    CHECK_OK(weir_device_close(dev));
}
