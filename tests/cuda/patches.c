/* Nodes of a plan's graph that are replaced when memory moves, while launches before are pending.
 */
#include "gpu.h"

enum { ROWS = 4, N = 16, KERNELS = 12, PLACES = 6, RUNS = 40 };

struct job {
    weir_device *dev;
    weir_stream *s;
    weir_tensor *w, *in[PLACES], *out[PLACES][2];
};

/* Many kernels, of which the first reads x, and a product. */
static weir_tensor *multiply(weir_tensor *x, weir_tensor *w)
{
    weir_tensor *h, *next;

    CHECK_OK(weir_exp(x, &h));
    for (int i = 0; i < KERNELS; i++) {
        CHECK_OK(weir_softmax(h, -1, &next));
        weir_tensor_release(h);
        h = next;
    }
    CHECK_OK(weir_matmul(h, w, &next));
    weir_tensor_release(h);
    return next;
}

/* That product, and x + x, on one lane or two. */
static weir_plan *compile(const struct job *j, bool two)
{
    weir_tensor *x, *product, *sum;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(j->dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (const int64_t[]){ROWS, N}, &x));
    product = multiply(x, j->w);
    if (two)
        CHECK_OK(weir_scope_push_stream("other", 0));
    CHECK_OK(weir_add(x, x, &sum));
    if (two)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_output(g, "product", product));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(product);
    weir_tensor_release(sum);
    weir_graph_destroy(g);
    return plan;
}

static void open_job(struct job *j)
{
    j->dev = open_gpu("cuda:0");
    j->s = weir_stream_default(j->dev);
    CHECK_OK(weir_tensor_empty(j->s, WEIR_F32, 2, (const int64_t[]){N, N}, &j->w));
    CHECK_OK(weir_random_normal(j->w, 7, 0, 1));
    for (int i = 0; i < PLACES; i++) {
        CHECK_OK(weir_tensor_empty(j->s, WEIR_F32, 2, (const int64_t[]){ROWS, N}, &j->in[i]));
        CHECK_OK(weir_random_normal(j->in[i], (uint64_t)i, 0, 1));
        for (int k = 0; k < 2; k++)
            CHECK_OK(
                weir_tensor_empty(j->s, WEIR_F32, 2, (const int64_t[]){ROWS, N}, &j->out[i][k]));
    }
    CHECK_OK(weir_stream_sync(j->s));
}

static void close_job(struct job *j)
{
    for (int i = 0; i < PLACES; i++) {
        weir_tensor_release(j->in[i]);
        weir_tensor_release(j->out[i][0]);
        weir_tensor_release(j->out[i][1]);
    }
    weir_tensor_release(j->w);
    CHECK_OK(weir_device_close(j->dev));
}

/* The results in this place are the bits of eager calls. */
static void check_place(const struct job *j, int from, int to)
{
    float got[ROWS * N], want[ROWS * N];
    weir_tensor *eager[2] = {multiply(j->in[from], j->w), NULL};

    CHECK_OK(weir_add(j->in[from], j->in[from], &eager[1]));
    for (int k = 0; k < 2; k++) {
        CHECK_OK(weir_tensor_read(j->out[to][k], got, sizeof got));
        CHECK_OK(weir_tensor_read(eager[k], want, sizeof want));
        CHECK(!memcmp(got, want, sizeof got));
        weir_tensor_release(eager[k]);
    }
}

static weir_status run(struct job *j, weir_plan *plan, int from, int to)
{
    return weir_plan_run(plan, j->s, &j->in[from], 1, j->out[to], 2);
}

static void warm_up(struct job *j, weir_plan *plan)
{
    for (int i = 0; i < 2 * PLACES; i++) { /* all graphs that it makes are there then */
        CHECK_OK(run(j, plan, i % PLACES, i / 2 % PLACES));
        CHECK_OK(weir_stream_sync(j->s));
    }
}

/* From every place to every other: more sets of addresses than a plan has graphs for. */
static void run_everywhere(bool two)
{
    const struct fake_control *fake = use_fake();
    struct job j;
    weir_plan *plan;

    open_job(&j);
    plan = compile(&j, two);
    warm_up(&j, plan);
    for (int i = 0; i < RUNS; i += PLACES) {
        fake->watch();
        for (int k = 0; k < PLACES; k++) {
            CHECK_OK(run(&j, plan, (i + 5 * k) % PLACES, k));
            if (two) /* a graph of several lanes is not touched while it runs */
                CHECK_OK(weir_stream_sync(j.s));
        }
        CHECK_EQ(called(fake, "cuGraphInstantiateWithFlags"), 0);
        CHECK_EQ(called(fake, "cuGraphExecUpdate_v2"), 0);
        CHECK_EQ(called(fake, "cuGraphLaunch"), PLACES);
        CHECK_GE(called(fake, "cuGraphExecKernelNodeSetParams_v2"), PLACES);
        for (int k = 0; k < PLACES; k++)
            check_place(&j, (i + 5 * k) % PLACES, k);
    }
    weir_plan_destroy(plan);
    close_job(&j);
}

TEST(cuda_patches, any_memory_is_put_into_the_graph_while_earlier_launches_are_pending)
{
    run_everywhere(false);
}

TEST(cuda_patches, any_memory_is_put_into_the_graph_of_several_lanes)
{
    run_everywhere(true);
}

/* The kernel that reads x is replaced first, then the product is captured, which fails. */
TEST(cuda_patches, a_patch_that_fails_half_way_leaves_no_wrong_graph_behind)
{
    static const char *const functions[] = {
        "cuStreamBeginCapture_v2", "cuGraphExecKernelNodeSetParams_v2",
        "cuGraphKernelNodeGetParams_v2", "cuGraphNodeGetType", "cuStreamGetCaptureInfo_v3"};
    const struct fake_control *fake = use_fake();

    for (size_t i = 0; i < weir__countof(functions); i++) {
        struct job j;
        weir_plan *plan;

        open_job(&j);
        plan = compile(&j, false);
        test_note("%s", functions[i]);
        warm_up(&j, plan);
        for (int k = 0; k < 2 * PLACES; k++) {
            fake->lack_memory(k % 3 ? NULL : functions[i]);
            CHECK_OK(run(&j, plan, k * 5 % PLACES, k % PLACES));
            fake->lack_memory(NULL);
            check_place(&j, k * 5 % PLACES, k % PLACES);
        }
        weir_plan_destroy(plan);
        close_job(&j);
    }
}

/* Whatever call fails: the run fails or its values are right, and so are those of the next. */
TEST(cuda_patches, any_call_may_fail)
{
    const struct fake_control *fake = use_fake();
    struct job j;
    weir_plan *plan;

    open_job(&j);
    plan = compile(&j, false);
    warm_up(&j, plan);
    for (uint64_t n = 1; n <= 30; n++) {
        int from = (int)n % PLACES, to = (int)n * 5 % PLACES;
        weir_stream *s;
        weir_status st;

        CHECK_OK(weir_stream_create(j.dev, NULL, &s));
        fake->fail_call(n, 2);
        st = weir_plan_run(plan, s, &j.in[from], 1, j.out[to], 2);
        fake->fail_call(0, 0);
        if (!st && !weir_stream_sync(s))
            check_place(&j, from, to);
        CHECK_OK(weir_stream_destroy(s)); /* and with it its error */
        CHECK_OK(run(&j, plan, to, from));
        check_place(&j, to, from);
    }
    weir_plan_destroy(plan);
    close_job(&j);
}

/* Runs from each place three times and checks the values. Returns how many runs were launches of
 * the plan's graph, of which the caller's lane must have so many cores. */
static int run_on_cores(const struct fake_control *fake, struct job *j, weir_plan *plan, int cores)
{
    char nodes[4096], want[40];
    int launches = 0;

    snprintf(want, sizeof want, "softmax %d of 1+%d ", ROWS, cores);
    for (int i = 0; i < 3 * PLACES; i++) {
        fake->watch();
        CHECK_OK(run(j, plan, i / 3, (i / 3 + 1) % PLACES));
        CHECK_OK(weir_stream_sync(j->s));
        fake->launched(nodes, sizeof nodes);
        if (called(fake, "cuGraphLaunch") && strstr(nodes, "softmax")) { /* others time products */
            launches++;
            for (const char *at = nodes; (at = strstr(at, "softmax")); at++)
                CHECK(!strncmp(at, want, strlen(want)));
        }
        check_place(j, i / 3, (i / 3 + 1) % PLACES);
    }
    return launches;
}

TEST(cuda_patches, a_core_limit_that_is_new_holds_for_every_node)
{
    const struct fake_control *fake = use_fake();

    for (int two = 0; two < 2; two++) {
        struct job j;
        weir_plan *plan;

        open_job(&j);
        plan = compile(&j, two);
        warm_up(&j, plan);
        test_note("%d lanes, limited", 1 + two);
        CHECK_OK(weir_stream_set_limit(j.s, (weir_cores){16, 16}));
        CHECK_GT(run_on_cores(fake, &j, plan, 16), 0);
        test_note("%d lanes, free again", 1 + two);
        weir_stream_reset_limit(j.s);
        CHECK_GT(run_on_cores(fake, &j, plan, 132), 0);
        weir_plan_destroy(plan);
        close_job(&j);
    }
}

/* A capture fails that has noted its nodes; the next has a limit and notes none. */
TEST(cuda_patches, nodes_of_a_capture_that_failed_are_not_replaced_later)
{
    const struct fake_control *fake = use_fake();
    struct job j;
    weir_plan *plan;
    weir_stream *s;

    open_job(&j);
    plan = compile(&j, false);
    CHECK_OK(weir_stream_create(j.dev, NULL, &s));
    fake->lack_memory("cuStreamEndCapture");
    CHECK(weir_plan_run(plan, s, &j.in[0], 1, j.out[0], 2) != WEIR_OK);
    fake->lack_memory(NULL);
    CHECK_OK(weir_stream_destroy(s)); /* and with it its error */
    CHECK_OK(weir_stream_set_limit(j.s, (weir_cores){16, 16}));
    CHECK_OK(weir_fill(j.out[0][0], 0)); /* the GPU is divided before the capture, not in it */
    CHECK_OK(run(&j, plan, 0, 0));
    CHECK_OK(weir_stream_sync(j.s));
    weir_stream_reset_limit(j.s);
    CHECK_GT(run_on_cores(fake, &j, plan, 132), 0);
    weir_plan_destroy(plan);
    close_job(&j);
}

/* A graph that has followed changes is to be made anew, for which there is no memory. */
TEST(cuda_patches, a_graph_that_cannot_be_made_anew_is_updated)
{
    const struct fake_control *fake = use_fake();
    struct job j;
    weir_plan *plan;

    open_job(&j);
    plan = compile(&j, false);
    warm_up(&j, plan);
    fake->lack_memory("cuGraphInstantiateWithFlags");
    CHECK_OK(weir_stream_set_limit(j.s, (weir_cores){16, 16}));
    CHECK_GT(run_on_cores(fake, &j, plan, 16), 0);
    fake->lack_memory(NULL);
    weir_plan_destroy(plan);
    close_job(&j);
}
