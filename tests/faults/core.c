/* Fails every allocation of calls on devices, streams, events, memory and tensors. */
#include "inject.h"

#include <stdlib.h>

#include "memory/dlpack_abi.h"

/* A small device, so that thousands of them are quick to make. */
static const char spec[] = "cpu:cores=2,threads=1";

/* ---- devices ---- */

TEST(faults, opening_a_device_survives_any_failed_allocation)
{
    char old[] = "";
    int failures = 0;

    inject_install();
    for (long n = 1;; n++) {
        weir_device *dev = (weir_device *)old;
        weir_status st;
        bool failed;

        test_note("allocation %ld", n);
        inject_arm(n);
        st = weir_device_open(spec, &dev);
        failed = inject_disarm();
        if (!failed) {
            CHECK_OK(st);
            CHECK_OK(weir_device_close(dev));
            break;
        }
        CHECK_EQ(st, WEIR_ENOMEM);
        CHECK(!dev);
        CHECK(*weir_last_error());
        CHECK_EQ(inject_live(), 0);
        CHECK_OK(weir_allocator_set(NULL)); /* no device pins it */
        inject_install();
        failures++;
    }
    CHECK_EQ(inject_live(), 0);
    CHECK_GT(failures, 4);
}

/* ---- streams ---- */

/* From 12 streams to 40: the tables grow twice. */
static weir_status create_streams(struct world *w)
{
    enum { N = 28 };
    weir_stream *made[N];
    weir_status st = WEIR_OK;
    int n = 0;

    for (; n < N && !st; n++) {
        made[n] = w->s;
        if ((st = weir_stream_create(w->dev, &(weir_stream_options){.name = "one"}, &made[n])))
            CHECK(!made[n]);
    }
    for (int i = 0; i < n; i++)
        CHECK_OK(weir_stream_destroy(made[i]));
    return st;
}

static weir_status tag_streams(struct world *w)
{
    for (; w->done < 20; w->done++) {
        weir_stream *s = w->s;
        char tag[16];
        weir_status st;

        snprintf(tag, sizeof tag, "tag %d", w->done);
        if ((st = weir_stream_tagged(w->dev, tag, 0, &s))) {
            CHECK(!s);
            return st;
        }
        CHECK_STR_EQ(weir_stream_name(s), tag);
    }
    return WEIR_OK;
}

static weir_status communication_stream(struct world *w)
{
    weir_stream *s = w->s;
    weir_status st = weir_stream_communication(w->dev, &s);

    CHECK(!st == !!s);
    return st;
}

TEST(faults, making_streams_survives_any_failed_allocation)
{
    inject_install();
    CHECK_GT(inject_each("create", spec, create_streams), 20);
    CHECK_GT(inject_each("tagged", spec, tag_streams), 20);
    CHECK_GT(inject_each("communication", spec, communication_stream), 2);
}

/* ---- events ---- */

static weir_status create_event(struct world *w)
{
    weir_event *e = w->event;
    weir_status st = weir_event_create(w->dev, NULL, &e);

    CHECK(!st == !!e);
    weir_event_destroy(e);
    return st;
}

static weir_status record_event(struct world *w)
{
    return weir_event_record(w->event, w->s);
}

/* More than the device keeps in reserve, and enough to need another piece of queue. */
static weir_status record_timed(struct world *w)
{
    weir_status st;

    for (; w->done < 1500; w->done++)
        if ((st = weir_event_record(w->timed, w->other)))
            return st;
    return WEIR_OK;
}

/* The last stream's clock reaches further than that of the first. */
static weir_status wait_for_event(struct world *w)
{
    weir_stream *last = w->streams[WORLD_STREAMS - 1];
    weir_status st;

    if ((st = weir_launch_submit(last, &(weir_launch){.name = "step"})) ||
        (st = weir_event_record(w->event, last)))
        return st;
    return weir_stream_wait(w->s, w->event);
}

static weir_status wait_for_stream(struct world *w)
{
    weir_status st;

    for (; w->done < 1500; w->done++)
        if ((st = weir_launch_submit(w->other, &(weir_launch){.name = "step"})) ||
            (st = weir_stream_wait_stream(w->s, w->other)))
            return st;
    return WEIR_OK;
}

TEST(faults, recording_and_waiting_survive_any_failed_allocation)
{
    inject_install();
    CHECK_EQ(inject_each("create", spec, create_event), 1);
    CHECK_GT(inject_each("record", spec, record_event), 0);
    CHECK_GT(inject_each("record timed", spec, record_timed), 1);
    inject_each("wait", spec, wait_for_event);
    inject_each("wait_stream", spec, wait_for_stream);
}

/* ---- launches ---- */

static int launch_tensors, launch_buffers;

static weir_status launch(struct world *w)
{
    return weir_launch_submit(w->other, &(weir_launch){.name = "uses",
                                                       .tensors = w->tensors,
                                                       .ntensors = (size_t)launch_tensors,
                                                       .buffers = w->buffers,
                                                       .nbuffers = (size_t)launch_buffers});
}

/* On every stream, so that a buffer has more users than fit in its record. */
static weir_status launch_everywhere(struct world *w)
{
    weir_status st;

    for (; w->done < WORLD_STREAMS; w->done++)
        if ((st = weir_launch_submit(w->streams[w->done],
                                     &(weir_launch){.buffers = w->buffers, .nbuffers = 2})))
            return st;
    return WEIR_OK;
}

static weir_status fill_queue(struct world *w)
{
    static const char args[WEIR_ARGS_MAX];
    weir_status st;

    for (; w->done < 100; w->done++)
        if ((st = weir_launch_submit(
                 w->s, &(weir_launch){.name = "big", .args = args, .args_size = sizeof args})))
            return st;
    return WEIR_OK;
}

TEST_TIMEOUT(faults, launching_survives_any_failed_allocation, 120)
{
    inject_install();
    for (launch_tensors = 0; launch_tensors <= WORLD_TENSORS; launch_tensors += 5)
        for (launch_buffers = 0; launch_buffers <= WORLD_TENSORS; launch_buffers += 5)
            inject_each("launch", spec, launch);
    CHECK_GT(inject_each("launch everywhere", spec, launch_everywhere), 2);
    CHECK_GT(inject_each("fill queue", spec, fill_queue), 0);
}

static atomic_int calls;

static void count_call(void *user, weir_status status)
{
    (void)user;
    CHECK_EQ(status, WEIR_OK);
    atomic_fetch_add(&calls, 1);
}

/* One that was refused is not called. */
static weir_status queue_callbacks(struct world *w)
{
    int before = w->done;
    weir_status st = WEIR_OK;

    atomic_store(&calls, 0);
    for (; w->done < 1500 && !st; w->done += !st)
        st = weir_stream_callback(w->s, count_call, NULL);
    CHECK_OK(weir_stream_sync(w->s));
    CHECK_EQ(atomic_load(&calls), w->done - before);
    return st;
}

TEST(faults, callbacks_survive_any_failed_allocation)
{
    inject_install();
    inject_each("callbacks", spec, queue_callbacks);
}

/* ---- buffers ---- */

static weir_status alloc_buffers(struct world *w)
{
    enum { N = 200 }; /* more than a slab of records */
    weir_buffer *b[N];
    weir_status st = WEIR_OK;
    int n = 0;

    for (; n < N && !st; n++) {
        b[n] = w->buffers[0];
        if ((st = weir_buffer_alloc(w->streams[n % 3], (size_t)n << 14, &b[n])))
            CHECK(!b[n]);
    }
    for (int i = 0; i < n; i++)
        weir_buffer_free(b[i]);
    return st;
}

static weir_status use_buffer(struct world *w)
{
    weir_status st;

    for (; w->done < WORLD_STREAMS; w->done++)
        if ((st = weir_buffer_used_on(w->buffers[1], w->streams[w->done])) ||
            (st = weir_tensor_used_on(w->tensors[1], w->streams[w->done])))
            return st;
    return WEIR_OK;
}

TEST(faults, buffers_survive_any_failed_allocation)
{
    static const char *const specs[] = {spec, "cpu:cores=2,threads=1,poison=1",
                                        "cpu:cores=2,threads=1,deterministic=1"};

    inject_install();
    for (size_t i = 0; i < (TEST_THREADS_WATCHED ? 1 : sizeof specs / sizeof *specs); i++) {
        inject_each("alloc", specs[i], alloc_buffers);
        CHECK_GT(inject_each("used_on", specs[i], use_buffer), 2);
    }
}

/* ---- tensors ---- */

static weir_status empty_tensor(struct world *w)
{
    weir_tensor *t = w->tensors[0];
    weir_status st = weir_tensor_empty(w->s, WEIR_F64, 2, (int64_t[]){3, 5}, &t);

    CHECK(!st == !!t);
    weir_tensor_release(t);
    return st;
}

static weir_status tensor_from(struct world *w)
{
    enum { N = 200 };
    static const float values[5000];
    weir_tensor *t[N];
    weir_status st = WEIR_OK;
    int n = 0;

    for (; n < N && !st; n++) {
        t[n] = w->tensors[0];
        st = weir_tensor_from(w->s, WEIR_F32, 1, (int64_t[]){n % 2 ? 200 : 5000}, values, &t[n]);
        CHECK(!st == !!t[n]);
    }
    for (int i = 0; i < n; i++)
        weir_tensor_release(t[i]);
    CHECK_PTR_EQ(weir_stream_current(w->dev), w->s);
    return st;
}

static int released;

static void count_release(void *user)
{
    (void)user;
    released++;
}

static void count_delete(DLManagedTensor *self)
{
    (void)self;
    released++;
}

static weir_status wrap_tensor(struct world *w)
{
    static float values[4];
    weir_tensor *t = w->tensors[0];
    weir_status st;

    released = 0;
    st = weir_tensor_wrap(w->s, WEIR_F32, 1, (int64_t[]){4}, NULL, values, count_release, NULL, &t);
    CHECK(!st == !!t);
    CHECK_EQ(released, 0);
    weir_tensor_release(t);
    CHECK_EQ(released, !st);
    return st;
}

static weir_status import_tensor(struct world *w)
{
    static float value;
    DLManagedTensor m = {.deleter = count_delete};
    weir_tensor *t = w->tensors[0];
    weir_status st;

    released = 0;
    m.dl_tensor.data = &value;
    m.dl_tensor.device.type = kDLCPU;
    m.dl_tensor.dtype.code = kDLFloat;
    m.dl_tensor.dtype.bits = 32;
    m.dl_tensor.dtype.lanes = 1;
    st = weir_tensor_from_dlpack(w->s, &m, &t);
    CHECK(!st == !!t);
    weir_tensor_release(t);
    CHECK_EQ(released, !st);
    return st;
}

static weir_status export_tensor(struct world *w)
{
    void *managed = w, *versioned = w;
    weir_status st = weir_tensor_to_dlpack(w->tensors[0], &managed);

    CHECK(!st == !!managed);
    if (st)
        return st;
    st = weir_tensor_to_dlpack_versioned(w->tensors[0], &versioned);
    CHECK(!st == !!versioned);
    ((DLManagedTensor *)managed)->deleter(managed);
    if (!st)
        ((DLManagedTensorVersioned *)versioned)->deleter(versioned);
    return st;
}

static weir_status view_tensor(struct world *w)
{
    weir_tensor *views[6] = {NULL};
    weir_tensor *t = w->tensors[0];
    weir_status st;

    (void)((st = weir_tensor_slice(t, 1, 0, 6, 2, &views[0])) ||
           (st = weir_tensor_transpose(t, 0, 1, &views[1])) ||
           (st = weir_tensor_permute(t, (int[]){1, 0}, &views[2])) ||
           (st = weir_tensor_reshape(t, 1, (int64_t[]){-1}, &views[3])) ||
           (st = weir_tensor_expand(t, 3, (int64_t[]){2, 4, 6}, &views[4])) ||
           (st = weir_tensor_slice(views[4], 0, 1, 2, 1, &views[5])));
    for (int i = 0; i < 6; i++)
        weir_tensor_release(views[i]);
    return st;
}

static weir_status transfer(struct world *w)
{
    static float values[24];
    weir_status st;

    for (; w->done < 300; w->done++)
        if ((st = weir_tensor_write(w->tensors[0], values, sizeof values)) ||
            (st = weir_tensor_write_async(w->tensors[1], values, sizeof values)) ||
            (st = weir_tensor_copy(w->tensors[2], w->tensors[0])) ||
            (st = weir_tensor_read_async(w->tensors[1], values, sizeof values)) ||
            (st = weir_tensor_read(w->tensors[0], values, sizeof values)))
            return st;
    return WEIR_OK;
}

static weir_status format_tensor(struct world *w)
{
    char *text = weir_tensor_format(w->tensors[0]);

    free(text);
    return text ? WEIR_OK : WEIR_ENOMEM;
}

TEST_TIMEOUT(faults, tensors_survive_any_failed_allocation, 120)
{
    static const struct {
        const char *name;
        inject_call call;
    } rows[] = {
        {"empty", empty_tensor},        {"from", tensor_from},        {"wrap", wrap_tensor},
        {"from_dlpack", import_tensor}, {"to_dlpack", export_tensor}, {"views", view_tensor},
        {"transfer", transfer},         {"format", format_tensor},
    };

    inject_install();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        inject_each(rows[i].name, spec, rows[i].call);
}
