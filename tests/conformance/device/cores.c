/* Core limits, blocks and gangs. */
#include "conformance/device/gates.h"

static weir_cores all_cores(weir_device *dev)
{
    weir_device_props props;

    weir_device_get_props(dev, &props, sizeof props);
    return props.cores;
}

CONFORMANCE(cores, limits_hold_within_their_range_and_fall_back)
{
    weir_cores all = all_cores(dev), got;
    weir_stream *s = new_stream(dev);

    got = weir_device_get_limit(dev);
    CHECK_EQ(got.cube, all.cube);
    CHECK_EQ(got.vector, all.vector);
    CHECK_OK(weir_device_set_limit(dev, (weir_cores){1, -1}));
    CHECK_EQ(weir_stream_get_limit(s).cube, 1);
    CHECK_OK(weir_stream_set_limit(s, (weir_cores){all.cube, 1}));
    got = weir_stream_get_limit(s);
    CHECK_EQ(got.cube, all.cube);
    CHECK_EQ(got.vector, 1);
    for (int i = 0; i < 4; i++) {
        weir_cores bad = i == 0   ? (weir_cores){0, -1}
                         : i == 1 ? (weir_cores){-1, all.vector + 1}
                         : i == 2 ? (weir_cores){all.cube + 1, 1}
                                  : (weir_cores){-2, 1};

        test_note("limit %d, %d", bad.cube, bad.vector);
        CHECK_STATUS(weir_stream_set_limit(s, bad), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), "1..");
        CHECK_EQ(weir_stream_get_limit(s).cube, all.cube);
        CHECK_EQ(weir_stream_get_limit(s).vector, 1);
        CHECK_STATUS(weir_device_set_limit(dev, bad), WEIR_ERANGE);
        CHECK_EQ(weir_device_get_limit(dev).cube, 1);
        CHECK_EQ(weir_device_get_limit(dev).vector, all.vector);
    }
    weir_stream_reset_limit(s);
    CHECK_EQ(weir_stream_get_limit(s).cube, 1);
    CHECK_OK(weir_device_set_limit(dev, all));
    CHECK_EQ(weir_stream_get_limit(s).cube, all.cube);
    CHECK_OK(weir_stream_destroy(s));
}

/* How many blocks run at once, and whether each phase waited for the last. */
struct meter {
    atomic_int running, most, ended[3], early, runs;
};

static weir_status meter_kernel(const void *args, const weir_block *block)
{
    struct meter *m = *(struct meter *const *)args;
    int now = atomic_fetch_add(&m->running, 1) + 1, most = atomic_load(&m->most);

    while (now > most && !atomic_compare_exchange_weak(&m->most, &most, now))
        ;
    if (block->phase && atomic_load(&m->ended[block->phase - 1]) != (int)block->count)
        atomic_fetch_add(&m->early, 1);
    pause_us(200);
    atomic_fetch_add(&m->runs, 1);
    atomic_fetch_add(&m->ended[block->phase], 1);
    atomic_fetch_sub(&m->running, 1);
    return WEIR_OK;
}

static void run_meter(weir_stream *s, struct meter *m, weir_launch launch)
{
    memset(m, 0, sizeof *m);
    launch.name = "meter";
    launch.fn = meter_kernel;
    launch.args = &m;
    launch.args_size = sizeof m;
    CHECK_OK(weir_launch_submit(s, &launch));
    CHECK_OK(weir_stream_sync(s));
}

CONFORMANCE(cores, a_limit_bounds_the_blocks_that_run_at_once)
{
    weir_cores all = all_cores(dev);
    weir_stream *s = new_stream(dev);
    struct meter m;

    need_gates(dev);
    for (int limit = 1; limit <= all.vector && limit <= 4; limit++) {
        test_note("limit %d", limit);
        CHECK_OK(weir_stream_set_limit(s, (weir_cores){-1, limit}));
        run_meter(s, &m, (weir_launch){.engine = WEIR_ENGINE_VECTOR, .blocks = 20, .phases = 2});
        CHECK_LE(atomic_load(&m.most), limit);
        CHECK_EQ(atomic_load(&m.runs), 40);
        CHECK_EQ(atomic_load(&m.early), 0);
    }
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(cores, gangs_fit_or_are_refused)
{
    weir_cores all = all_cores(dev);
    weir_stream *s = new_stream(dev);
    unsigned cores = (unsigned)all.vector;
    struct meter m;

    need_gates(dev);
    run_meter(
        s, &m,
        (weir_launch){.engine = WEIR_ENGINE_VECTOR, .blocks = cores, .phases = 3, .gang = true});
    CHECK_EQ(atomic_load(&m.runs), 3 * cores);
    CHECK_EQ(atomic_load(&m.early), 0);
    CHECK_STATUS(
        weir_launch_submit(
            s, &(weir_launch){.engine = WEIR_ENGINE_VECTOR, .blocks = cores + 1, .gang = true}),
        WEIR_EINVAL);
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(cores, gangs_on_many_streams_never_deadlock)
{
    weir_stream *s[6];
    unsigned cores = (unsigned)all_cores(dev).vector;
    struct meter m[6];

    need_gates(dev);
    memset(m, 0, sizeof m);
    for (int i = 0; i < 6; i++)
        s[i] = new_stream(dev);
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < 6; i++) {
            struct meter *at = &m[i];

            CHECK_OK(
                weir_launch_submit(s[i], &(weir_launch){.name = "gang",
                                                        .fn = meter_kernel,
                                                        .args = &at,
                                                        .args_size = sizeof at,
                                                        .engine = WEIR_ENGINE_VECTOR,
                                                        .blocks = 1 + (unsigned)(i + round) % cores,
                                                        .gang = true}));
        }
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 6; i++)
        CHECK_OK(weir_stream_destroy(s[i]));
}

/* nonzero is a gang: its blocks must fit under any limit. */
CONFORMANCE(cores, operators_obey_limits_down_to_one_core)
{
    weir_stream *s = new_stream(dev);
    int64_t n = 300000;
    weir_tensor *t, *where;

    CHECK_OK(weir_stream_set_current(s));
    for (int limit = 1; limit <= 3 && limit <= all_cores(dev).vector; limit++) {
        CHECK_OK(weir_stream_set_limit(s, (weir_cores){-1, limit}));
        CHECK_OK(weir_arange(s, WEIR_I32, n, 0, 1, &t));
        CHECK_OK(weir_nonzero(t, &where));
        CHECK_EQ(weir_tensor_shape(where)[0], n - 1);
        weir_tensor_release(t);
        weir_tensor_release(where);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(cores, launches_refuse_what_does_not_fit)
{
    char args[WEIR_ARGS_MAX + 1] = {0};
    weir_device *second = open_another();
    int64_t n = 4;
    weir_tensor *t;

    CHECK_STATUS(weir_launch_submit(weir_stream_default(dev),
                                    &(weir_launch){.args = args, .args_size = sizeof args}),
                 WEIR_EINVAL);
    CHECK_OK(weir_tensor_empty(weir_stream_default(second), WEIR_F32, 1, &n, &t));
    CHECK_STATUS(
        weir_launch_submit(weir_stream_default(dev), &(weir_launch){.tensors = &t, .ntensors = 1}),
        WEIR_EDEVICE);
    CHECK_OK(weir_launch_submit(weir_stream_default(dev), &(weir_launch){.name = "nothing"}));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(second));
}
