/* Every call of the driver, the compiler and the products library fails once: the error is a
 * sentence, nothing stays behind, nothing hangs, and the device goes on as far as CUDA lets it. */
#include <pthread.h>
#include <sched.h>

#include "gpu.h"

enum { N = 64, STREAMS = 2 };

/* Everything that one round makes, given back whatever happens. */
struct round {
    weir_device *dev;
    weir_stream *s[STREAMS];
    weir_event *event, *start, *end;
    weir_tensor *t[12];
    int nt;
    weir_graph *graph;
    weir_plan *plan;
    weir_group *group; /* both ranks are the device */
    bool asked;        /* for a callback */
    bool traced;       /* a trace is recorded */
    _Atomic int called;
    float in[N], out[N];
};

#define STEP(call)                \
    do {                          \
        weir_status st_ = (call); \
        if (st_)                  \
            return st_;           \
    } while (0)

static void count_call(void *user, weir_status st)
{
    (void)st;
    atomic_fetch_add(&((struct round *)user)->called, 1);
}

static weir_status make(struct round *r)
{
    const int64_t n = N, square[2] = {8, 8};

    for (int i = 0; i < STREAMS; i++)
        STEP(weir_stream_create(r->dev, NULL, &r->s[i]));
    STEP(weir_event_create(r->dev, NULL, &r->event));
    STEP(weir_event_create(r->dev, &(weir_event_options){.timing = true}, &r->start));
    STEP(weir_event_create(r->dev, &(weir_event_options){.timing = true}, &r->end));
    STEP(weir_group_create((weir_device *[]){r->dev, r->dev}, 2, NULL, &r->group));
    for (int i = 0; i < N; i++)
        r->in[i] = (float)i;
    STEP(weir_stream_set_current(r->s[0]));
    STEP(weir_tensor_from(r->s[0], WEIR_F32, 1, &n, r->in, &r->t[r->nt]));
    r->nt++;
    STEP(weir_tensor_reshape(r->t[0], 2, square, &r->t[r->nt]));
    r->nt++;
    return WEIR_OK;
}

/* Others queue on the first stream, and it on theirs. */
static weir_status share(struct round *r)
{
    void *native;
    weir_status st;

    STEP(weir_stream_native(r->s[0], &native));
    STEP(weir_scope_push_cores((weir_cores){8, 8}));
    st = weir_add_into(r->t[0], r->t[0], r->t[0]); /* beside the native stream */
    if (weir_scope_pop(WEIR_SCOPE_CORES) || st)
        return st ? st : WEIR_ESTATE;
    STEP(weir_mul_scalar_into(r->t[0], 0.5, r->t[0]));
    STEP(weir_stream_wait_native(r->s[0], NULL));
    STEP(weir_stream_signal_native(r->s[0], NULL));
    return weir_tensor_signal_native(r->t[0], NULL);
}

/* On both streams, under limits, with everything that a stream can carry. */
static weir_status compute(struct round *r)
{
    weir_tensor *turned;

    STEP(weir_event_record(r->start, r->s[0]));
    STEP(weir_stream_set_limit(r->s[1], (weir_cores){16, 16}));
    STEP(weir_add_scalar(r->t[1], 1, &r->t[r->nt]));
    r->nt++;
    STEP(weir_event_record(r->event, r->s[0]));
    STEP(weir_stream_wait(r->s[1], r->event));
    STEP(weir_stream_set_current(r->s[1]));
    STEP(weir_matmul(r->t[2], r->t[1], &r->t[r->nt]));
    r->nt++;
    STEP(weir_stream_callback(r->s[1], count_call, r));
    r->asked = true;
    STEP(weir_stream_wait_stream(r->s[0], r->s[1]));
    STEP(weir_stream_set_current(r->s[0]));
    STEP(weir_sub(r->t[3], r->t[3], &r->t[r->nt])); /* zeros, after the product */
    r->nt++;
    STEP(weir_tensor_transpose(r->t[1], 0, 1, &r->t[r->nt]));
    turned = r->t[r->nt++];
    STEP(weir_add(turned, r->t[4], &r->t[r->nt]));
    r->nt++;
    STEP(weir_event_record(r->end, r->s[0]));
    return WEIR_OK;
}

static weir_status meet(struct round *r)
{
    const int64_t rows[2] = {4, 1};

    STEP(weir_stream_wait_stream(r->s[1], r->s[0]));
    for (int i = 0; i < STREAMS; i++) {
        STEP(weir_stream_set_current(r->s[i]));
        STEP(weir_all_reduce(weir_group_rank(r->group, i), r->t[1], WEIR_REDUCE_SUM, &r->t[r->nt]));
        r->nt++;
    }
    for (int i = 0; i < STREAMS; i++) {
        weir_tensor *experts, *x = NULL, *to[3] = {NULL};
        weir_status st;

        STEP(weir_stream_set_current(r->s[i]));
        STEP(weir_tensor_from(r->s[i], WEIR_I32, 2, rows, (int32_t[]){0, 1, 0, 1}, &experts));
        if (!(st = weir_tensor_slice(r->t[r->nt - STREAMS + i], 0, 0, 4, 1, &x)))
            st = weir_moe_dispatch(weir_group_rank(r->group, i), x, experts, 2, 8, &to[0], &to[1],
                                   &to[2]);
        for (int k = 0; k < 3; k++)
            weir_tensor_release(to[k]);
        weir_tensor_release(x);
        weir_tensor_release(experts);
        STEP(st);
    }
    STEP(weir_stream_wait_stream(r->s[0], r->s[1]));
    return weir_stream_set_current(r->s[0]);
}

/* out = in, of N floats. */
static weir_status copy_on_host(void *user, void *const *in, void *const *out)
{
    (void)user;
    memcpy(out[0], in[0], N * sizeof(float));
    return WEIR_OK;
}

static const weir_host_call host_copy = {
    .name = "copy", .fn = copy_on_host, .nout = 1, .out = {{WEIR_F32, 2, {8, 8}}}};

static weir_status build_plan(struct round *r)
{
    const int64_t square[2] = {8, 8};
    weir_tensor *x, *y = NULL, *z = NULL;
    weir_status st;

    STEP(weir_graph_create(r->dev, &r->graph));
    STEP(weir_graph_begin(r->graph));
    if (!(st = weir_graph_input(r->graph, "x", WEIR_F32, 2, square, &x))) {
        if (!(st = weir_matmul(x, x, &y)) && !(st = weir_sub(x, y, &z)))
            st = weir_graph_output(r->graph, "z", z);
        weir_tensor_release(x);
        weir_tensor_release(y);
        weir_tensor_release(z);
    }
    if (weir_graph_end(r->graph) && !st)
        return WEIR_EINVAL;
    STEP(st);
    /* Without timing products, which does without a call that fails: see products.c. */
    return weir_graph_compile(
        r->graph, &(weir_compile_options){.mode = WEIR_COMPILE_REDUCE_OVERHEAD}, &r->plan);
}

/* At once, and in a plan. */
static weir_status call_host(struct round *r)
{
    const int64_t square[2] = {8, 8};
    weir_tensor *x, *y = NULL, *out = NULL;
    weir_graph *graph = NULL;
    weir_plan *plan = NULL;
    weir_status st;

    STEP(weir_host_run(&host_copy, &r->t[6], 1, &out));
    st = weir_copy_into(out, r->t[6]);
    weir_tensor_release(out);
    out = NULL;
    STEP(st);
    STEP(weir_graph_create(r->dev, &graph));
    if (!(st = weir_graph_input(graph, "x", WEIR_F32, 2, square, &x))) {
        if (!(st = weir_graph_begin(graph))) {
            st = weir_host_run(&host_copy, &x, 1, &y);
            if (weir_graph_end(graph) && !st)
                st = WEIR_EINVAL;
        }
        if (!st)
            st = weir_graph_output(graph, "y", y);
        weir_tensor_release(x);
        weir_tensor_release(y);
    }
    if (!st && !(st = weir_graph_compile(graph, NULL, &plan)) &&
        !(st = weir_plan_run(plan, r->s[0], &r->t[6], 1, &out, 1)))
        st = weir_copy_into(out, r->t[6]);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(graph);
    return st;
}

static weir_status trace(struct round *r)
{
    STEP(weir_trace_start(NULL));
    r->traced = true;
    return WEIR_OK;
}

static weir_status stop_trace(struct round *r)
{
    weir_trace *trace;
    weir_status st;

    if (!r->traced)
        return WEIR_OK;
    r->traced = false;
    if (!(st = weir_trace_stop(&trace)))
        weir_trace_free(trace);
    return st;
}

static weir_status run_plan(struct round *r)
{
    for (int i = 0; i < 2; i++) {
        weir_tensor *in = r->t[1 + i], *out = NULL; /* bound anew each time */

        STEP(weir_plan_run(r->plan, r->s[0], &in, 1, &out, 1));
        weir_tensor_release(out);
    }
    return WEIR_OK;
}

static weir_status finish(struct round *r)
{
    double ms;
    int called;

    STEP(weir_tensor_read(r->t[6], r->out, sizeof r->out));
    STEP(weir_event_elapsed(r->start, r->end, &ms));
    CHECK(ms >= 0);
    STEP(weir_device_sync(r->dev));
    called = atomic_load(&r->called);
    CHECK_EQ(called, 1);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(r->out[i], r->in[i % 8 * 8 + i / 8], 0);
    return WEIR_OK;
}

static weir_status go(struct round *r)
{
    STEP(make(r));
    STEP(share(r));
    STEP(compute(r));
    STEP(trace(r));
    STEP(meet(r));
    STEP(build_plan(r));
    STEP(run_plan(r));
    STEP(weir_device_sync(r->dev));
    STEP(stop_trace(r));
    STEP(run_plan(r));
    STEP(call_host(r));
    return finish(r);
}

/* What the caller gets, with all that was made given back. */
static weir_status go_round(weir_device *dev, char *text, size_t size)
{
    struct round r = {.dev = dev};
    weir_status st = go(&r);

    snprintf(text, size, "%s", st ? weir_last_error() : "");
    (void)stop_trace(&r);
    if (st && r.group)
        weir_group_abort(r.group, "a call has failed");
    (void)weir_device_sync(dev);
    while (r.asked && !atomic_load(&r.called)) /* on a lost GPU no wait waits for callbacks */
        sched_yield();
    weir_plan_destroy(r.plan);
    weir_graph_destroy(r.graph);
    for (int i = 0; i < r.nt; i++)
        weir_tensor_release(r.t[i]);
    weir_event_destroy(r.event);
    weir_event_destroy(r.start);
    weir_event_destroy(r.end);
    weir_stream_set_current(weir_stream_default(dev));
    for (int i = 0; i < STREAMS; i++)
        if (r.s[i])
            (void)weir_stream_destroy(r.s[i]);
    while (weir_group_destroy(r.group)) /* on a lost GPU no wait waits for collectives either */
        sched_yield();
    return st;
}

static void check_nothing_lives(const struct fake_control *fake)
{
    char text[400];

    fake->live(text, sizeof text);
    CHECK_STR_EQ(text, "");
}

/* Opens, works and closes while call `n` fails with `code`; the status of the first error. */
static weir_status go_failing(const struct fake_control *fake, uint64_t n, int code)
{
    char text[600];
    weir_device *dev;
    weir_status st;

    fake->fail_call(n, code);
    if ((st = weir_device_open("cuda:0", &dev))) {
        CHECK_GT(strlen(weir_last_error()), 10);
        CHECK_STR(weir_last_error(), "cuda");
        fake->heal();
        check_nothing_lives(fake);
        return st;
    }
    if ((st = go_round(dev, text, sizeof text)))
        CHECK_GT(strlen(text), 10);
    if (code == 700 && st) {
        CHECK_STR(text, "unusable");
        CHECK_STATUS(go_round(dev, text, sizeof text), WEIR_EDRIVER);
        CHECK_STR(text, "unusable");
    } else if (code != 700) {
        fake->fail_call(0, 0);
        test_note("after call %llu failed with %d: %s", (unsigned long long)n, code, text);
        CHECK_OK(go_round(dev, text, sizeof text)); /* the device is as good as before */
    }
    (void)weir_device_close(dev);
    fake->heal();
    check_nothing_lives(fake);
    return st;
}

/* Of a run of calls to one function the first two and the last stand for all. */
static bool is_worth_it(const struct fake_control *fake, uint64_t n)
{
    const char *here = fake->watched(n), *before = fake->watched(n - 1);

    return !before || strcmp(here, before) || n < 3 || strcmp(before, fake->watched(n - 2)) ||
           !fake->watched(n + 1) || strcmp(here, fake->watched(n + 1));
}

static bool is_drivers(const char *symbol)
{
    return !strncmp(symbol, "cu", 2) && strncmp(symbol, "cublas", 6);
}

/* Every `step`-th call from `first` on; sanitized builds take their time and try fewer. */
static void fail_each(int code, uint64_t first, uint64_t step)
{
    const struct fake_control *fake = use_fake();
    static bool worth[1 << 16];
    static const char *names[1 << 16];
    uint64_t calls = 0, errors = 0, tried = 0;

    go_failing(fake, 0, 0); /* the libraries are open from here on */
    fake->watch();
    CHECK_OK(go_failing(fake, 0, 0));
    for (; fake->watched(calls + 1); calls++) {
        names[calls] = fake->watched(calls + 1);
        worth[calls] = is_worth_it(fake, calls + 1);
    }
    CHECK_GT(calls, 200);
    for (uint64_t n = first; n <= calls; n += step * (TEST_THREADS_WATCHED ? 8 : TEST_SLOWDOWN)) {
        if (!worth[n - 1] || (code == 700 && !is_drivers(names[n - 1])))
            continue;
        test_note("call %llu of %llu, %s, fails with %d", (unsigned long long)n,
                  (unsigned long long)calls, names[n - 1], code);
        tried++;
        errors += go_failing(fake, n, code) != WEIR_OK;
    }
    CHECK_GT(errors, tried / 8); /* a slow machine polls more, and polls may fail */
}

TEST_TIMEOUT(every_call, a_driver_call_without_memory_is_an_error_and_nothing_more, 120)
{
    fail_each(CU_ERROR_OUT_OF_MEMORY, 1, 3);
}

TEST_TIMEOUT(every_call, a_refused_driver_call_is_an_error_and_nothing_more, 120)
{
    fail_each(1, 2, 3);
}

TEST_TIMEOUT(every_call, a_driver_call_on_a_lost_gpu_makes_the_device_say_so, 120)
{
    fail_each(700, 3, 3);
}
