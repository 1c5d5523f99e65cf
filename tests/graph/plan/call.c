/* weir_plan_call: short runs by the calling thread, the rest by the device's. */
#include <pthread.h>

#include "device/helpers.h"

static weir_plan *make_plan(weir_device *dev, int64_t n, int steps, bool labels)
{
    weir_compile_options options = {.mode = WEIR_COMPILE_REDUCE_OVERHEAD};
    weir_tensor *x, *next;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    for (int i = 0; i < steps; i++) {
        if (labels)
            CHECK_OK(weir_scope_push_stream(i % 2 ? "odd" : "even", 0));
        CHECK_OK(weir_add_scalar(x, 1, &next));
        if (labels)
            CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
        weir_tensor_release(x);
        x = next;
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", x));
    weir_tensor_release(x);
    CHECK_OK(weir_graph_compile(g, &options, &plan));
    weir_graph_destroy(g);
    return plan;
}

/* One call on `from`, which is filled with `value`; all elements must be value + steps. */
static void call_and_check(weir_plan *plan, weir_stream *s, weir_tensor *from, float value,
                           int steps)
{
    weir_tensor *y = NULL;
    const float *got;

    CHECK_OK(weir_plan_call(plan, s, &from, 1, &y, 1));
    got = weir_tensor_data(y); /* no wait: the call has waited */
    for (int64_t i = 0; i < weir_tensor_numel(y); i++)
        CHECK_NEAR(got[i], value + (float)steps, 0);
    weir_tensor_release(y);
}

/* On a busy machine a second, the timeout of some devices here, is not always enough. */
static void finish(weir_device *dev)
{
    weir_status st;

    while ((st = weir_device_sync(dev)) == WEIR_ETIMEDOUT)
        ;
    CHECK_OK(st);
}

static weir_tensor *filled(weir_device *dev, int64_t n, float value)
{
    weir_tensor *x;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_fill(x, value));
    finish(dev);
    return x;
}

/* Waits for the streams again and again while the device's only worker is held up: a machine
 * that is busy takes this thread away for longer than it lends itself. */
static void finish_alone(weir_device *dev)
{
    weir_stream *streams[3] = {weir_stream_default(dev)};
    int over = 0;

    CHECK_OK(weir_stream_tagged(dev, "even", 0, &streams[1]));
    CHECK_OK(weir_stream_tagged(dev, "odd", 0, &streams[2]));
    while (over < 3) {
        over = 0;
        for (int i = 0; i < 3; i++)
            over += weir_stream_sync_for(streams[i], 10000000) == WEIR_OK;
    }
}

static weir_stream *hold_worker(weir_device *dev, struct gate *gate)
{
    weir_stream *busy = new_stream(dev, 0);

    submit_gate(busy, gate);
    while (!atomic_load(&gate->arrived))
        pause_us(50);
    return busy;
}

TEST(call, a_short_plan_needs_no_worker)
{
    weir_device *dev = open_device("cpu:cores=2,threads=1,op_timeout=1");
    weir_tensor *x = filled(dev, 16, 1);
    weir_plan *plans[] = {make_plan(dev, 16, 20, false), make_plan(dev, 16, 20, true)};
    struct gate gate = {0};
    weir_stream *busy = hold_worker(dev, &gate);

    for (int i = 0; i < 2; i++) {
        weir_tensor *y = NULL;
        weir_status st = weir_plan_call(plans[i], weir_stream_default(dev), &x, 1, &y, 1);

        if (st != WEIR_ETIMEDOUT)
            CHECK_OK(st);
        finish_alone(dev);
        CHECK_NEAR(((const float *)weir_tensor_data(y))[15], 21, 0);
        weir_tensor_release(y);
    }
    open_gate(&gate);
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 2; i++)
        weir_plan_destroy(plans[i]);
    weir_tensor_release(x);
    CHECK_OK(weir_stream_destroy(busy));
    CHECK_OK(weir_device_close(dev));
}

/* A wait for an operator that no worker has begun: the same. */
TEST(call, a_wait_for_a_short_operator_needs_no_worker)
{
    weir_device *dev = open_device("cpu:cores=2,threads=1");
    weir_tensor *x = filled(dev, 16, 1), *y;
    struct gate gate = {0};
    weir_stream *busy = hold_worker(dev, &gate);

    CHECK_OK(weir_add(x, x, &y));
    finish_alone(dev);
    CHECK_NEAR(((const float *)weir_tensor_data(y))[15], 2, 0);
    open_gate(&gate);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_destroy(busy));
    CHECK_OK(weir_device_close(dev));
}

/* What takes long is left to the workers: a timeout is heard while they are busy. */
TEST(call, the_calling_thread_does_not_run_long_plans_itself)
{
    weir_device *dev = open_device("cpu:cores=2,threads=1,op_timeout=1");
    int64_t n = (int64_t)1 << 22;
    weir_tensor *x = filled(dev, n, 1), *y = NULL;
    weir_plan *plan = make_plan(dev, n, 2, false);
    struct gate gate = {0};
    weir_stream *busy = hold_worker(dev, &gate);

    CHECK_STATUS(weir_plan_call(plan, weir_stream_default(dev), &x, 1, &y, 1), WEIR_ETIMEDOUT);
    open_gate(&gate);
    finish(dev);
    CHECK_NEAR(((const float *)weir_tensor_data(y))[n - 1], 3, 0);
    weir_plan_destroy(plan);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_destroy(busy));
    CHECK_OK(weir_device_close(dev));
}

static weir_status on_which_thread(void *user, void *const *in, void *const *out)
{
    (void)in;
    (void)out;
    *(pthread_t *)user = pthread_self();
    return WEIR_OK;
}

/* Functions of the user's may take any time and lock anything: they stay off the caller. */
TEST(call, host_functions_run_on_the_devices_threads)
{
    pthread_t ran = pthread_self();
    weir_host_call call = {.name = "where",
                           .fn = on_which_thread,
                           .user = &ran,
                           .nout = 1,
                           .out = {{WEIR_F32, 1, {4}}}};
    weir_device *dev = open_device("cpu");
    weir_tensor *x, *y, *out = NULL;
    const int64_t four = 4;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &four, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_host_run(&call, &x, 1, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    x = filled(dev, four, 1);
    CHECK_OK(weir_plan_call(plan, weir_stream_default(dev), &x, 1, &out, 1));
    CHECK(!pthread_equal(ran, pthread_self()));
    weir_plan_destroy(plan);
    weir_tensor_release(x);
    weir_tensor_release(out);
    CHECK_OK(weir_device_close(dev));
}

struct caller {
    weir_device *dev;
    weir_plan *plan;
    int number;
};

static void *call_many(void *arg)
{
    const struct caller *c = arg;
    weir_stream *s = new_stream(c->dev, c->number % 3 - 1);
    weir_tensor *x = filled(c->dev, 256, (float)c->number);

    for (int i = 0; i < 500 / TEST_SLOWDOWN; i++)
        call_and_check(c->plan, s, x, (float)c->number, 12);
    weir_tensor_release(x);
    CHECK_OK(weir_stream_destroy(s));
    return NULL;
}

TEST(call, threads_that_call_at_once_get_their_own_results)
{
    enum { CALLERS = 4 };
    weir_device *dev = open_device("cpu:cube=4,vector=8,threads=2");
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];

    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){dev, make_plan(dev, 256, 12, i % 2), i};
        CHECK_EQ(pthread_create(&threads[i], NULL, call_many, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        weir_plan_destroy(callers[i].plan);
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(call, a_call_refuses_and_fails_as_a_run_does)
{
    weir_device *dev = open_device("cpu");
    weir_plan *plan = make_plan(dev, 16, 2, false);
    weir_tensor *wrong = filled(dev, 17, 1), *y = NULL;

    CHECK_STATUS(weir_plan_call(plan, weir_stream_default(dev), &wrong, 1, &y, 1), WEIR_ESHAPE);
    CHECK(!y);
    weir_plan_destroy(plan);
    weir_tensor_release(wrong);
    CHECK_OK(weir_device_close(dev));
}
