/* How products are chosen: by time, alone and beside each other, once for all processes. */
#include "gpu.h"
#include "kept.h"

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
    CHECK_EQ(list_kept(path, ".way", NULL, 0), 1);
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
    CHECK_GT(list_kept(path, ".way", NULL, 0), 2);
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
    CHECK_EQ(list_kept(path, ".way", name, sizeof name), 1);
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
