/* Which instance of a plan a run takes, on a driver that says what real ones say rarely. */
#include <pthread.h>

#include "graph/plan/plan.h"
#include "harness/gate.h"
#include "plan_helpers.h"

static const struct weir__driver *real;
static struct weir__driver driver;
static struct weir__driver_plans plans;
static bool fails, refuses; /* the next run fails, the next update does not fit */
static atomic_bool has_refused, is_asked;

static weir_status run_or_fail(struct weir__program *program, weir_stream *const *streams,
                               const uint64_t *tickets, int ntickets)
{
    if (!fails)
        return real->plans->run(program, streams, tickets, ntickets);
    fails = false;
    return weir__fail(WEIR_EINTERNAL, "the device is not in the mood");
}

static weir_status update_or_refuse(struct weir__program *program, int lane, int item,
                                    const struct weir__kernel *kernel)
{
    if (!refuses)
        return real->plans->update(program, lane, item, kernel);
    refuses = false;
    atomic_store(&has_refused, true);
    return WEIR_ERANGE;
}

static bool may_always(const struct weir__program *program)
{
    (void)program;
    return true;
}

/* After an update was refused, a run asks whether its instance is over. */
static uint64_t done(weir_stream *s)
{
    uint64_t seq = real->done(s);

    if (atomic_load(&has_refused))
        atomic_store(&is_asked, true);
    return seq;
}

static void *open_when_asked(void *gate)
{
    while (!atomic_load(&is_asked))
        pause_us(100);
    open_gate(gate);
    return NULL;
}

/* y = -x */
static weir_plan *make_plan(weir_device *dev)
{
    const int64_t n = 4;
    weir_tensor *x, *y;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_neg(x, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir__plan_make_elastic(plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

/* Runs: one that is held by a gate; on another stream, one that fails before anything is queued, so
 * that its new instance has never run; and one that would change the first instance, but needs a
 * new program, so that it waits for that instance. */
TEST(plan, a_run_waits_for_the_instance_whose_program_it_replaces)
{
    const int64_t n = 4;
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *other;
    weir_plan *plan = make_plan(dev);
    weir_tensor *x[3], *y[3] = {0};
    struct gate gate = {0}, *at = &gate;
    float values[4];
    pthread_t opener;

    for (int i = 0; i < 3; i++) {
        float from[4] = {(float)i, 1, 2, 3};

        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, &n, from, &x[i]));
    }
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_device_sync(dev));
    real = dev->driver;
    driver = *real;
    plans = *real->plans;
    plans.run = run_or_fail;
    plans.update = update_or_refuse;
    plans.may_update = may_always;
    driver.plans = &plans;
    driver.done = done;
    dev->driver = &driver;
    CHECK_OK(
        weir_launch_submit(weir_stream_default(dev),
                           &(weir_launch){.fn = gate_kernel, .args = &at, .args_size = sizeof at}));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x[0], 1, &y[0], 1));
    fails = true;
    CHECK_EQ(weir_plan_run(plan, other, &x[1], 1, &y[1], 1), WEIR_EINTERNAL);
    refuses = true;
    CHECK(!pthread_create(&opener, NULL, open_when_asked, &gate));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x[2], 1, &y[2], 1));
    CHECK(!pthread_join(opener, NULL));
    CHECK_OK(weir_tensor_read(y[0], values, sizeof values));
    CHECK(values[0] == 0);
    CHECK_OK(weir_tensor_read(y[2], values, sizeof values));
    CHECK(values[0] == -2);
    CHECK(values[3] == -3);
    CHECK_OK(weir_device_sync(dev));
    dev->driver = real;
    for (int i = 0; i < 3; i++) {
        weir_tensor_release(x[i]);
        weir_tensor_release(y[i]);
    }
    weir_plan_destroy(plan);
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}
