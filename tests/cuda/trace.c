/* Traces of a GPU: its operators with times of the host's clock. */
#include "weir/trace.h"
#include "gpu.h"

static const weir_trace_op *find_op(const weir_trace_data *d, const char *name, const char *stream)
{
    for (size_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].name, name) && !strcmp(d->streams[d->ops[i].stream].name, stream))
            return &d->ops[i];
    return NULL;
}

static weir_stream *new_stream(weir_device *dev, const char *name)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = name}, &s));
    return s;
}

TEST(cuda_trace, operators_have_their_stream_time_and_cores)
{
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *one = new_stream(dev, "one"), *two = new_stream(dev, "two");
    weir_tensor *x = gpu_tensor(one, WEIR_F32, fake ? 1 << 16 : 1 << 26, 1), *y, *z;
    const weir_trace_op *add, *mul;
    weir_trace_data d;
    weir_trace *trace;
    uint64_t before, took;

    CHECK_OK(weir_stream_set_limit(two, (weir_cores){16, 16}));
    CHECK_OK(weir_device_sync(dev));
    before = weir_device_now(dev);
    CHECK_OK(weir_trace_start(NULL));
    if (fake)
        fake->hold(true); /* a wait for what is over would be none */
    CHECK_OK(weir_stream_set_current(one));
    CHECK_OK(weir_add(x, x, &y));
    CHECK_OK(weir_stream_wait_stream(two, one));
    CHECK_OK(weir_stream_set_current(two));
    CHECK_OK(weir_mul(y, y, &z));
    if (fake)
        fake->hold(false);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    took = weir_device_now(dev) - before;
    weir_trace_get(trace, &d, sizeof d);
    CHECK(d.ndevices == 1 && d.devices[0].real_time);
    CHECK((add = find_op(&d, "Add", "one")) != NULL);
    CHECK((mul = find_op(&d, "Mul", "two")) != NULL);
    CHECK_EQ(mul->cores, 16);
    CHECK_EQ(mul->nparts, 16);
    CHECK_GT(add->nparts, 16);
    CHECK_LE(0, add->queued_ns);
    CHECK_LE(add->queued_ns, add->started_ns);
    CHECK_LE(add->started_ns, add->ended_ns);
    CHECK_LE(add->ended_ns, mul->started_ns);
    /* Counted from when the recording began. The two clocks differ by as much as a call takes,
     * which on a busy machine may be long. */
    CHECK_LE(mul->ended_ns, took + UINT64_C(10000000000));
    CHECK_EQ(mul->nwaits, 1);
    CHECK_EQ(d.waits[mul->first_wait].source_op, add - d.ops);
    CHECK_GT(d.nmemory, 0);
    weir_trace_free(trace);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(one));
    CHECK_OK(weir_stream_destroy(two));
    CHECK_OK(weir_device_close(dev));
}

/* More than are kept in reserve, over two recordings: each has its own, and none is lost. */
TEST(cuda_trace, every_operator_of_a_long_recording_is_recorded)
{
    enum { OPERATORS = 1000 };
    weir_device *dev = open_gpu("cuda:0");
    weir_tensor *x = gpu_tensor(weir_stream_default(dev), WEIR_F32, 64, 1);

    for (int round = 0; round < 2; round++) {
        weir_trace_data d;
        weir_trace *trace;

        CHECK_OK(weir_trace_start(NULL));
        for (int i = 0; i < OPERATORS; i++)
            CHECK_OK(weir_add_into(x, x, x));
        CHECK_OK(weir_device_sync(dev));
        CHECK_OK(weir_trace_stop(&trace));
        weir_trace_get(trace, &d, sizeof d);
        CHECK_EQ(d.nops, OPERATORS);
        for (size_t i = 1; i < d.nops; i++)
            CHECK_LE(d.ops[i - 1].ended_ns, d.ops[i].started_ns);
        weir_trace_free(trace);
        CHECK_OK(weir_add_into(x, x, x)); /* not recorded */
    }
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* ---- work of others ---- */

static void copy_outside(weir_device *dev, void *native, weir_tensor *to, weir_tensor *from)
{
    bool pushed = weir__cuda_enter(weir__cuda_of(dev));

    CHECK_EQ(weir__cuda_of(dev)->api->cu.copy_async(
                 (weir__cu_address)(uintptr_t)weir_tensor_data(to),
                 (weir__cu_address)(uintptr_t)weir_tensor_data(from), sizeof(float) << 16, native),
             0);
    weir__cuda_leave(weir__cuda_of(dev), pushed);
}

TEST(cuda_trace, named_work_of_other_libraries_is_among_the_operators)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = new_stream(dev, "shared");
    weir_tensor *x = gpu_tensor(s, WEIR_F32, 1 << 16, 1), *y = gpu_tensor(s, WEIR_F32, 1 << 16, 0);
    const weir_trace_op *add, *copy, *mul;
    char name[] = "a copy of others";
    weir_trace_data d;
    weir_trace *trace;
    void *native;

    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_stream_native(s, &native));
    CHECK_OK(weir_stream_begin_native(s, native, "before")); /* nobody records */
    CHECK_OK(weir_stream_end_native(s, native));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_stream_end_native(s, native)); /* of nothing */
    CHECK_OK(weir_add_into(x, x, x));
    CHECK_OK(weir_stream_begin_native(s, native, "never ended"));
    CHECK_OK(weir_stream_begin_native(s, native, name));
    memset(name, '?', sizeof name - 1);
    copy_outside(dev, native, y, x);
    CHECK_OK(weir_stream_end_native(s, native));
    CHECK_OK(weir_mul_into(y, y, y));
    CHECK_OK(weir_stream_begin_native(s, native, "over the end"));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    CHECK_OK(weir_stream_end_native(s, native));
    weir_trace_get(trace, &d, sizeof d);
    CHECK_EQ(d.nops, 3);
    CHECK((add = find_op(&d, "Add", "shared")) != NULL);
    CHECK((copy = find_op(&d, "a copy of others", "shared")) != NULL);
    CHECK((mul = find_op(&d, "Mul", "shared")) != NULL);
    CHECK_LE(add->ended_ns, copy->started_ns);
    CHECK_LE(copy->queued_ns, copy->started_ns);
    CHECK_LE(copy->started_ns, copy->ended_ns);
    CHECK_LE(copy->ended_ns, mul->started_ns);
    CHECK_LT(add->seq, copy->seq);
    CHECK_LT(copy->seq, mul->seq);
    weir_trace_free(trace);
    /* A device may close while something has begun. */
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_stream_begin_native(s, native, "for ever"));
    CHECK_OK(weir_trace_stop(&trace));
    weir_trace_free(trace);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_trace, devices_without_native_streams_say_so)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    CHECK_STATUS(weir_stream_begin_native(weir_stream_default(dev), NULL, "x"), WEIR_EUNSUPPORTED);
    CHECK_STATUS(weir_stream_end_native(weir_stream_default(dev), NULL), WEIR_EUNSUPPORTED);
    CHECK_OK(weir_device_close(dev));
}
