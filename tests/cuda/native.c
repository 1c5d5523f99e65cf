/* CUDA streams and memory that weir shares with other libraries, which use them unseen by weir. */
#include "gpu.h"

enum { N = 4096, ROUNDS = 40 / TEST_SLOWDOWN + 4 };

static const struct weir__cu *cu(const weir_device *dev)
{
    return &((const struct weir__cuda *)dev)->api->cu;
}

/* The work of others: bytes moved on a native stream. */
static void copy_outside(weir_device *dev, void *native, weir_tensor *to, weir_tensor *from)
{
    bool pushed = weir__cuda_enter(weir__cuda_of(dev));

    CHECK_EQ(cu(dev)->copy_async((weir__cu_address)(uintptr_t)weir_tensor_data(to),
                                 (weir__cu_address)(uintptr_t)weir_tensor_data(from),
                                 N * sizeof(float), native),
             0);
    weir__cuda_leave(weir__cuda_of(dev), pushed);
}

static void check_all(weir_tensor *t, weir_stream *on, float want)
{
    float values[N];

    CHECK_OK(weir_stream_set_current(on));
    CHECK_OK(weir_tensor_read(t, values, sizeof values));
    for (int i = 0; i < N; i++)
        CHECK_NEAR(values[i], want, 0);
}

TEST(cuda_native, work_of_other_libraries_is_in_order_with_commands_on_any_cores)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s;
    void *native, *again;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    CHECK_OK(weir_stream_set_current(s));
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 0), *y = gpu_tensor(s, WEIR_F32, N, 0);
    CHECK_OK(weir_stream_native(s, &native));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weir_add_scalar_into(x, 1, x));
        copy_outside(dev, native, y, x); /* after weir's */
        CHECK_OK(weir_scope_push_cores((weir_cores){8, 8}));
        CHECK_OK(weir_add_scalar_into(y, 1, y)); /* after it, on other cores */
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
        copy_outside(dev, native, x, y); /* and after that */
        CHECK_OK(weir_mul_scalar_into(y, 0, y));
    }
    CHECK_OK(weir_stream_native(s, &again));
    CHECK_PTR_EQ(again, native);
    check_all(x, s, 2 * ROUNDS);
    check_all(y, s, 0);
    /* Another limit is another native stream, after the first. */
    copy_outside(dev, native, y, x);
    CHECK_OK(weir_stream_set_limit(s, (weir_cores){16, 16}));
    CHECK_OK(weir_stream_native(s, &again));
    CHECK_NE((uintptr_t)again, (uintptr_t)native);
    CHECK_OK(weir_mul_scalar_into(x, 0, x));
    copy_outside(dev, again, x, y);
    check_all(x, s, 2 * ROUNDS);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_native, events_waits_and_syncs_include_work_of_other_libraries)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *one, *two;
    weir_event *event;
    void *native;

    CHECK_OK(weir_stream_create(dev, NULL, &one));
    CHECK_OK(weir_stream_create(dev, NULL, &two));
    CHECK_OK(weir_event_create(dev, NULL, &event));
    weir_tensor *x = gpu_tensor(one, WEIR_F32, N, 0), *y = gpu_tensor(one, WEIR_F32, N, 0);
    CHECK_OK(weir_stream_native(one, &native));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weir_stream_set_current(two));
        CHECK_OK(weir_add_scalar_into(x, 1, x));
        CHECK_OK(weir_event_record(event, two));
        CHECK_OK(weir_stream_wait(one, event)); /* others ask for nothing: it holds at once */
        copy_outside(dev, native, y, x);
        if (i % 2) {
            CHECK_OK(weir_event_record(event, one)); /* nothing of weir's is new there */
            CHECK_OK(weir_stream_wait(two, event));
        } else {
            CHECK_OK(weir_stream_wait_stream(two, one));
        }
        CHECK_OK(weir_add_scalar_into(y, 1, x));
        CHECK_OK(weir_event_record(event, two));
        CHECK_OK(weir_stream_wait(one, event));
    }
    copy_outside(dev, native, y, x);
    CHECK_OK(weir_event_record(event, one));
    CHECK_OK(weir_event_sync(event));
    check_all(y, two, 2 * ROUNDS);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_event_destroy(event);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(one));
    CHECK_OK(weir_stream_destroy(two));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_native, a_stream_is_done_only_when_work_of_other_libraries_is)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev;
    weir_stream *s;
    void *native;
    bool done = true;

    CHECK_OK(weir_device_open("cuda:0", &dev));
    s = weir_stream_default(dev);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 1), *y = gpu_tensor(s, WEIR_F32, N, 0);
    CHECK_OK(weir_stream_native(s, &native));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(done);
    fake->hold(true);
    copy_outside(dev, native, y, x);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_stream_query(s, &done));
        CHECK(!done);
    }
    CHECK_STATUS(weir_stream_sync_for(s, 1000000), WEIR_ETIMEDOUT);
    fake->hold(false);
    while (!done)
        CHECK_OK(weir_stream_query(s, &done));
    check_all(y, s, 1);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(dev));
}

/* x + 1 on the caller's stream and x * 2 on a tagged one. */
static weir_plan *two_lanes(weir_device *dev)
{
    weir_compile_options options = {.mode = WEIR_COMPILE_REDUCE_OVERHEAD};
    weir_tensor *x, *a, *b;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){N}, &x));
    CHECK_OK(weir_add_scalar(x, 1, &a));
    CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_mul_scalar(x, 2, &b));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_output(g, "a", a));
    CHECK_OK(weir_graph_output(g, "b", b));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, &options, &plan));
    weir_tensor_release(x);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_graph_destroy(g);
    return plan;
}

TEST(cuda_native, a_plan_is_in_order_with_work_of_other_libraries_on_its_streams)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *caller = weir_stream_default(dev), *side;
    weir_plan *plan = two_lanes(dev);
    void *natives[2];

    CHECK_OK(weir_stream_tagged(dev, "side", 0, &side));
    weir_tensor *x = gpu_tensor(caller, WEIR_F32, N, 1), *keep = gpu_tensor(caller, WEIR_F32, N, 0);
    weir_tensor *outs[2] = {gpu_tensor(caller, WEIR_F32, N, 0), gpu_tensor(caller, WEIR_F32, N, 0)};
    CHECK_OK(weir_stream_wait_stream(side, caller));
    CHECK_OK(weir_stream_native(caller, &natives[0]));
    CHECK_OK(weir_stream_native(side, &natives[1]));
    for (int i = 0; i < ROUNDS; i++) {
        copy_outside(dev, natives[1], keep, outs[1]);
        CHECK_OK(weir_plan_run(plan, caller, &x, 1, outs, 2));
        copy_outside(dev, natives[1], x, outs[0]); /* x + 1, on the tagged one */
        CHECK_OK(weir_stream_wait_stream(caller, side));
    }
    check_all(x, caller, ROUNDS + 1);
    check_all(keep, caller, ROUNDS > 1 ? 2 * (ROUNDS - 1) : 0);
    weir_tensor_release(x);
    weir_tensor_release(keep);
    weir_tensor_release(outs[0]);
    weir_tensor_release(outs[1]);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_native, streams_of_others_take_part_in_the_order)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 0), *y = gpu_tensor(s, WEIR_F32, N, 0);
    bool pushed = weir__cuda_enter(weir__cuda_of(dev));
    void *theirs;

    CHECK_EQ(cu(dev)->stream_create(&theirs, CU_STREAM_NON_BLOCKING, 0), 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weir_add_scalar_into(x, 1, x));
        CHECK_OK(i % 2 ? weir_stream_signal_native(s, theirs)
                       : weir_tensor_signal_native(x, theirs));
        copy_outside(dev, theirs, y, x);
        CHECK_OK(weir_stream_wait_native(s, theirs));
        CHECK_OK(weir_add_scalar_into(y, 1, x));
    }
    check_all(x, s, 2 * ROUNDS);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(cu(dev)->stream_destroy(theirs), 0);
    weir__cuda_leave(weir__cuda_of(dev), pushed);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(dev));
}

/* The parts of DLPack's struct that a consumer needs here. */
struct dl_managed {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

TEST(cuda_native, exported_memory_is_not_reused_before_work_of_other_libraries_ends)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *one = weir_stream_default(dev), *two;
    weir_tensor *from = gpu_tensor(one, WEIR_F32, N, 7);
    void *native;

    CHECK_OK(weir_stream_create(dev, NULL, &two));
    CHECK_OK(weir_stream_native(one, &native));
    for (int i = 0; i < ROUNDS; i++) {
        weir_tensor *t = gpu_tensor(two, WEIR_F32, N, 0), *next;
        struct dl_managed *m;

        CHECK_OK(weir_tensor_to_dlpack(t, (void **)&m));
        CHECK_EQ(m->device_type, 2);
        CHECK_EQ(m->device_id, 0);
        CHECK_PTR_EQ(m->data, weir_tensor_data(t));
        CHECK_OK(weir_stream_wait_stream(one, two));
        copy_outside(dev, native, t, from);
        weir_tensor_release(t);
        m->deleter(m);
        next = gpu_tensor(two, WEIR_F32, N, i);
        check_all(next, two, (float)i);
        weir_tensor_release(next);
    }
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_set_current(one));
    weir_tensor_release(from);
    CHECK_OK(weir_stream_destroy(two));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_native, devices_without_native_streams_say_so)
{
    weir_device *dev;
    weir_tensor *t;
    void *native = &dev;

    CHECK_OK(weir_device_open("cpu:cube=1,vector=1", &dev));
    t = gpu_tensor(weir_stream_default(dev), WEIR_F32, 1, 0);
    CHECK_STATUS(weir_stream_native(weir_stream_default(dev), &native), WEIR_EUNSUPPORTED);
    CHECK_PTR_EQ(native, NULL);
    CHECK_STR(weir_last_error(), "cpu");
    CHECK_STATUS(weir_stream_wait_native(weir_stream_default(dev), NULL), WEIR_EUNSUPPORTED);
    CHECK_STATUS(weir_stream_signal_native(weir_stream_default(dev), NULL), WEIR_EUNSUPPORTED);
    CHECK_STATUS(weir_tensor_signal_native(t, NULL), WEIR_EUNSUPPORTED);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
}
