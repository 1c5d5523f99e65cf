/* Report, error and autosync, and plans and copies between devices as operators. */
#include "helpers.h"

#include "device/device.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

TEST(race_modes, error_refuses_and_queues_nothing)
{
    struct fixture f = open_fixture(WEIR_RACE_ERROR);
    weir_tensor *t = new_tensor(f.a, 8);

    CHECK_OK(touch(f.a, "maker", t, true));
    CHECK_STATUS(touch(f.b, "user", t, false), WEIR_ERACE);
    CHECK_STR(weir_last_error(), "'user' on stream 'b' reads f32[8] that 'maker' on stream 'a'");
    order(f.a, f.b);
    CHECK_OK(touch(f.b, "user", t, false));
    CHECK_EQ(races(), 1);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_modes, bad_settings_are_named)
{
    weir_device *dev;

    CHECK_STATUS(weir_race_set_mode((weir_race_mode)9), WEIR_EINVAL);
    setenv("WEIR_CHECK", "rice", 1);
    CHECK_STATUS(weir_device_open(NULL, &dev), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "WEIR_CHECK is 'rice'");
    setenv("WEIR_CHECK", "race=error", 1);
    CHECK_OK(weir_device_open(NULL, &dev));
    CHECK_EQ(weir_race_get_mode(), WEIR_RACE_ERROR);
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
}

/* Chains of in-place work thrown onto streams without any order: autosync makes the values
 * what one stream gives. */
TEST(race_modes, autosync_makes_values_right)
{
    enum { TENSORS = 4, STEPS = 400 };
    const int64_t n = 2000;
    static float want[TENSORS][2000], got[2000];

    for (unsigned seed = 1; seed <= 6; seed++) {
        char spec[64];
        unsigned r = seed;
        struct fixture f;
        weir_stream *streams[3];
        weir_tensor *t[TENSORS];
        weir_race_stats stats;

        snprintf(spec, sizeof spec, "cpu:threads=3,jitter=%u", seed);
        setenv("WEIR_DEVICE", spec, 1);
        f = open_fixture(WEIR_RACE_AUTOSYNC);
        streams[0] = f.a, streams[1] = f.b, streams[2] = f.c;
        for (int i = 0; i < TENSORS; i++) {
            t[i] = new_tensor(f.a, n);
            for (int64_t k = 0; k < n; k++)
                want[i][k] = (float)(i + 1);
            CHECK_OK(weir_stream_set_current(f.a));
            CHECK_OK(weir_fill(t[i], i + 1));
        }
        for (int i = 0; i < STEPS; i++) {
            int x = rand_r(&r) % TENSORS, y = rand_r(&r) % TENSORS;

            CHECK_OK(weir_stream_set_current(streams[rand_r(&r) % 3]));
            if (x == y)
                continue;
            CHECK_OK(i % 2 ? weir_sub_into(t[x], t[y], t[x]) : weir_maximum_into(t[x], t[y], t[x]));
            for (int64_t k = 0; k < n; k++)
                want[x][k] = i % 2                     ? want[x][k] - want[y][k]
                             : want[x][k] > want[y][k] ? want[x][k]
                                                       : want[y][k];
        }
        for (int i = 0; i < TENSORS; i++) {
            CHECK_OK(weir_tensor_read(t[i], got, sizeof got));
            CHECK_MEM_EQ(got, want[i], sizeof got);
            weir_tensor_release(t[i]);
        }
        weir_race_get_stats(&stats, sizeof stats);
        CHECK_GT(stats.waits_inserted, 50);
        CHECK_EQ(stats.lost, 0);
        close_fixture(&f);
    }
}

static weir_status wait_at_gate(const void *args, const weir_block *block)
{
    (void)block;
    while (!atomic_load(*(atomic_int *const *)args))
        nanosleep(&(struct timespec){0, 100000}, NULL);
    return WEIR_OK;
}

/* Each is reported once, and none is left out. */
TEST(race_modes, autosync_waits_for_all_of_many_streams)
{
    enum { READERS = 200 };
    struct fixture f = open_fixture(WEIR_RACE_AUTOSYNC);
    weir_tensor *t = new_tensor(f.a, 64);
    weir_stream *readers[READERS];
    atomic_int gate = 0, *at = &gate;
    weir_race_stats stats;

    CHECK_OK(weir_launch_submit(
        f.a, &(weir_launch){.fn = wait_at_gate, .args = &at, .args_size = sizeof at}));
    CHECK_OK(touch(f.a, "maker", t, true));
    for (int i = 0; i < READERS; i++) {
        CHECK_OK(weir_stream_create(f.dev, NULL, &readers[i]));
        order(f.a, readers[i]);
        CHECK_OK(touch(readers[i], "reader", t, false));
    }
    CHECK_OK(touch(f.b, "writer", t, true));
    for (int i = 0; i < READERS; i++)
        CHECK_GE(weir__clock_get(&f.b->taken, readers[i]->slot),
                 weir__stream_submitted(readers[i]));
    weir_race_get_stats(&stats, sizeof stats);
    CHECK_EQ(stats.races, READERS + 1); /* and with the maker */
    CHECK_EQ(stats.waits_inserted, READERS + 1);
    atomic_store(&gate, 1);
    weir_tensor_release(t);
    close_fixture(&f);
}

/* More than are kept one by one. */
TEST(race_modes, autosync_waits_for_the_last_of_very_many_reads)
{
    enum { READS = (1 << 14) + 500 };
    struct fixture f = open_fixture(WEIR_RACE_AUTOSYNC);
    weir_tensor *t = new_tensor(f.a, READS);
    weir_race_stats stats;

    for (int i = 0; i < READS; i++) {
        weir_tensor *element;

        CHECK_OK(weir_tensor_slice(t, 0, i, i + 1, 1, &element));
        CHECK_OK(touch(f.a, "reader", element, false));
        weir_tensor_release(element);
    }
    CHECK_OK(touch(f.b, "writer", t, true));
    CHECK_GE(weir__clock_get(&f.b->taken, f.a->slot), weir__stream_submitted(f.a));
    weir_race_get_stats(&stats, sizeof stats);
    CHECK_EQ(stats.lost, 0);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_modes, a_plan_is_one_operator_of_its_stream)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_graph *g;
    weir_plan *plan;
    weir_tensor *in, *mid, *out, *x, *result = NULL;
    const int64_t n = 64;

    CHECK_OK(weir_graph_create(f.dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &in));
    CHECK_OK(weir_graph_begin(g));
    WEIR_STREAM_SCOPE("side", 0)
    CHECK_OK(weir_neg(in, &mid));
    CHECK_OK(weir_add(in, mid, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", out));
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = WEIR_COMPILE_REDUCE_OVERHEAD},
                                &plan));
    x = new_tensor(f.a, n);
    CHECK_OK(touch(f.a, "maker", x, true));
    CHECK_OK(weir_plan_run(plan, f.a, &x, 1, &result, 1));
    CHECK_EQ(races(), 0); /* the side stream's read is the plan's business */
    CHECK_OK(touch(f.b, "user", result, false));
    CHECK_EQ(races(), 1);
    order(f.a, f.c);
    CHECK_OK(touch(f.c, "user", result, false));
    CHECK_OK(touch(f.c, "overwriter", x, true));
    CHECK_EQ(races(), 1);
    CHECK_OK(weir_plan_run(plan, f.a, &x, 1, &result, 1));
    CHECK_EQ(races(), 4); /* x overwritten by c; result read by b and c */
    weir_tensor_release(x);
    weir_tensor_release(result);
    weir_tensor_release(in);
    weir_tensor_release(mid);
    weir_tensor_release(out);
    CHECK_OK(weir_device_sync(f.dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    close_fixture(&f);
}

TEST(race_modes, a_plan_uses_the_part_of_a_constant_that_its_nodes_do)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *whole = new_tensor(f.a, 64), *head, *tail, *in, *out, *x = new_tensor(f.a, 32);
    weir_tensor *result = NULL;
    const int64_t n = 32;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(touch(f.a, "maker", whole, true));
    order(f.a, f.b);
    order(f.a, f.c);
    CHECK_OK(weir_tensor_slice(whole, 0, 0, 32, 1, &head));
    CHECK_OK(weir_tensor_slice(whole, 0, 32, 64, 1, &tail));
    CHECK_OK(weir_graph_create(f.dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &in));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(in, head, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", out));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_plan_run(plan, f.b, &x, 1, &result, 1));
    CHECK_OK(touch(f.c, "other part", tail, true));
    CHECK_EQ(races(), 0);
    CHECK_OK(weir_plan_run(plan, f.b, &x, 1, &result, 1));
    CHECK_EQ(races(), 0);
    CHECK_OK(touch(f.c, "the same part", head, true));
    CHECK_EQ(races(), 1);
    CHECK_OK(weir_plan_run(plan, f.b, &x, 1, &result, 1));
    CHECK_EQ(races(), 2);
    for (size_t i = 0; i < 7; i++)
        weir_tensor_release((weir_tensor *[]){whole, head, tail, in, out, x, result}[i]);
    CHECK_OK(weir_device_sync(f.dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    close_fixture(&f);
}

TEST(race_modes, copies_between_devices_order_both)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_device *other;
    weir_tensor *x = new_tensor(f.a, 8), *y;

    CHECK_OK(weir_device_open("cpu:threads=1", &other));
    y = new_tensor(weir_stream_default(other), 8);
    CHECK_OK(touch(f.a, "maker", x, true));
    CHECK_OK(weir_stream_set_current(f.a));
    CHECK_OK(weir_tensor_copy(y, x));
    CHECK_OK(touch(f.a, "overwriter", x, true)); /* after the copy has read it */
    CHECK_EQ(races(), 0);
    CHECK_OK(touch(f.b, "user", x, false));
    CHECK_EQ(races(), 1);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(other));
    close_fixture(&f);
}

/* With the checker off, so that nothing but the plan's own run can keep the promise. */
TEST(race_modes, a_plan_waits_for_what_wait_tensor_says_of_its_input)
{
    struct fixture f = open_fixture(WEIR_RACE_OFF);
    weir_tensor *in, *out, *x = new_tensor(f.a, 4), *y = new_tensor(f.b, 4), *result = NULL;
    const int64_t n = 4;
    atomic_int gate = 0, *at = &gate;
    weir_graph *g;
    weir_plan *plan;
    bool done;

    CHECK_OK(weir_graph_create(f.dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &in));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_neg(in, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", out));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_launch_submit(f.a, &(weir_launch){.fn = wait_at_gate,
                                                    .args = &at,
                                                    .args_size = sizeof at,
                                                    .tensors = &x,
                                                    .ntensors = 1}));
    CHECK_OK(weir_stream_set_current(f.c));
    CHECK_OK(weir_wait_tensor(y, x));
    CHECK_OK(weir_plan_run(plan, f.b, &y, 1, &result, 1));
    for (int i = 0; i < 1000; i++) { /* not before the gate is open, however often threads look */
        CHECK_OK(weir_stream_query(f.b, &done));
        CHECK(!done);
        sched_yield();
    }
    atomic_store(&gate, 1);
    CHECK_OK(weir_stream_sync(f.b));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(in);
    weir_tensor_release(out);
    weir_tensor_release(result);
    CHECK_OK(weir_device_sync(f.dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    close_fixture(&f);
}
