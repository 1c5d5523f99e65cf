/* Copies between a GPU and devices of another kind: in order on both, with errors, without
 * waits of the host. */
#include "gpu.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { N = 5 << 19 }; /* floats: some more than twice what a stream's stage holds */

/* A kernel of the host that lasts until it is let go. */
struct gate {
    atomic_int arrived, open;
};

static void nap(void)
{
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

static weir_status gate_kernel(const void *args, const weir_block *block)
{
    struct gate *g = *(struct gate *const *)args;

    (void)block;
    atomic_store(&g->arrived, 1);
    while (!atomic_load(&g->open))
        nap();
    return WEIR_OK;
}

static void put_gate(weir_stream *s, struct gate *g)
{
    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.name = "gate", .fn = gate_kernel, .args = &g, .args_size = sizeof g}));
    while (!atomic_load(&g->arrived))
        nap();
}

/* One that takes a moment. */
static weir_status slow_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    for (int i = 0; i < 10; i++)
        nap();
    return WEIR_OK;
}

static weir_status failing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_ERANGE;
}

static void fail_on_host(weir_stream *s)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "stumble", .fn = failing_kernel}));
}

/* IndexSelect fails on the stream. */
static void fail_on_gpu(weir_stream *s)
{
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *index = gpu_tensor(s, WEIR_I64, 3, 12);
    weir_tensor *out;

    CHECK_OK(weir_index_select(table, 0, index, &out));
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
}

struct pair {
    weir_device *gpu, *cpu;
    weir_stream *g, *h;
};

static struct pair open_pair(void)
{
    struct pair p = {.gpu = open_gpu("cuda:0")};

    CHECK_OK(weir_device_open("cpu:threads=1", &p.cpu));
    p.g = weir_stream_default(p.gpu);
    p.h = weir_stream_default(p.cpu);
    return p;
}

static void close_pair(const struct pair *p)
{
    CHECK_OK(weir_device_close(p->gpu));
    CHECK_OK(weir_device_close(p->cpu));
}

static bool is_done(weir_stream *s)
{
    bool done = true;

    CHECK_OK(weir_stream_query(s, &done));
    return done;
}

static void expect_all(weir_tensor *t, float value)
{
    size_t bytes = (size_t)weir_tensor_numel(t) * sizeof value;
    float *got = malloc(bytes);

    CHECK(got != NULL);
    CHECK_OK(weir_tensor_read(t, got, bytes));
    for (int64_t i = 0; i < weir_tensor_numel(t); i++)
        if (got[i] != value)
            FAIL("element %lld is %g, not %g", (long long)i, (double)got[i], (double)value);
    free(got);
}

TEST(cuda_across, a_copy_to_the_gpu_waits_for_the_host_and_is_waited_for)
{
    struct pair p = open_pair();
    struct gate gate = {0, 0};
    weir_tensor *x = gpu_tensor(p.h, WEIR_F32, N, 0), *y = gpu_tensor(p.g, WEIR_F32, N, 0), *later;

    CHECK_OK(weir_add_scalar_into(y, 1, y)); /* its code is there: loading it would wait */
    put_gate(p.h, &gate);
    CHECK_OK(weir_fill(x, 3));
    CHECK_OK(weir_tensor_copy(y, x));
    weir_tensor_release(x); /* its memory goes to the next one, which must not come early */
    later = gpu_tensor(p.h, WEIR_F32, N, 9);
    CHECK_OK(weir_add_scalar_into(y, 1, y));
    CHECK(!is_done(p.g));
    CHECK(!is_done(p.h));
    atomic_store(&gate.open, 1);
    expect_all(y, 4);
    expect_all(later, 9);
    weir_tensor_release(y);
    weir_tensor_release(later);
    close_pair(&p);
}

TEST(cuda_across, a_copy_from_the_gpu_waits_for_the_host_and_is_waited_for)
{
    struct pair p = open_pair();
    struct gate gate = {0, 0};
    weir_tensor *x = gpu_tensor(p.g, WEIR_F32, N, 5), *y = gpu_tensor(p.h, WEIR_F32, N, 0), *later;

    put_gate(p.h, &gate);
    CHECK_OK(weir_tensor_copy(y, x));
    weir_tensor_release(x);
    later = gpu_tensor(p.g, WEIR_F32, N, 9);
    CHECK_OK(weir_add_scalar_into(y, 1, y));
    CHECK(!is_done(p.g)); /* y may still be read until the gate opens */
    atomic_store(&gate.open, 1);
    expect_all(y, 6);
    expect_all(later, 9);
    weir_tensor_release(y);
    weir_tensor_release(later);
    close_pair(&p);
}

/* What wait_tensor said of a tensor counts on whatever stream its device copies. */
TEST(cuda_across, a_copy_waits_for_what_wait_tensor_named)
{
    struct pair p = open_pair();
    struct gate gate = {0, 0};
    weir_tensor *x = gpu_tensor(p.h, WEIR_F32, 100, 3), *y = gpu_tensor(p.g, WEIR_F32, 100, 0);
    weir_tensor *other = gpu_tensor(p.h, WEIR_F32, 100, 0);
    weir_stream *maker, *idle;

    CHECK_OK(weir_stream_create(p.cpu, NULL, &maker));
    CHECK_OK(weir_stream_create(p.cpu, NULL, &idle));
    CHECK_OK(weir_device_sync(p.cpu));
    put_gate(maker, &gate);
    CHECK_OK(weir_stream_set_current(maker));
    CHECK_OK(weir_fill(other, 1));
    CHECK_OK(weir_stream_set_current(p.h));
    CHECK_OK(weir_wait_tensor(x, other));
    CHECK_OK(weir_stream_set_current(idle));
    CHECK_OK(weir_tensor_copy(y, x));
    for (int i = 0; i < 40; i++)
        nap();
    CHECK(!is_done(p.g));
    atomic_store(&gate.open, 1);
    expect_all(y, 3);
    CHECK_OK(weir_stream_set_current(p.h));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(other);
    CHECK_OK(weir_stream_destroy(maker));
    CHECK_OK(weir_stream_destroy(idle));
    close_pair(&p);
}

/* Back and forth, in one thread of the host's and with one thread of the device's: each step waits
 * for the one before, and a stream that waits takes no thread. */
TEST(cuda_across, copies_go_back_and_forth_in_order)
{
    struct pair p = open_pair();
    enum { STEPS = 200 };
    weir_tensor *x = gpu_tensor(p.g, WEIR_F32, 1000, 0), *y = gpu_tensor(p.h, WEIR_F32, 1000, 0);
    weir_stream *other;

    CHECK_OK(weir_stream_create(p.cpu, NULL, &other));
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(weir_add_scalar_into(x, 1, x));
        CHECK_OK(weir_tensor_copy(y, x));
        CHECK_OK(weir_launch_submit(other, &(weir_launch){.name = "beside"}));
        CHECK_OK(weir_add_scalar_into(y, 1, y));
        CHECK_OK(weir_tensor_copy(x, y));
    }
    CHECK_OK(weir_stream_sync(other));
    expect_all(x, 2 * STEPS);
    expect_all(y, 2 * STEPS);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_destroy(other));
    close_pair(&p);
}

static void *copy_often(void *user)
{
    weir_tensor *const *t = user;

    for (int i = 0; i < 200; i++)
        CHECK_OK(weir_tensor_copy(t[0], t[1]));
    return NULL;
}

/* Two threads on the same two streams: whatever a stream waits for was queued before the wait. */
TEST(cuda_across, threads_that_copy_both_ways_do_not_stop_each_other)
{
    struct pair p = open_pair();
    weir_tensor *there[] = {gpu_tensor(p.g, WEIR_F32, 100, 1), gpu_tensor(p.h, WEIR_F32, 100, 1)};
    weir_tensor *back[] = {there[1], there[0]};
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, copy_often, there), 0);
    copy_often(back);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    expect_all(there[0], 1);
    expect_all(there[1], 1);
    weir_tensor_release(there[0]);
    weir_tensor_release(there[1]);
    close_pair(&p);
}

static weir_tensor *turned(weir_stream *s, int64_t rows, int64_t columns, const int32_t *values)
{
    weir_tensor *flat, *view;

    CHECK_OK(weir_tensor_from(s, WEIR_I32, 2, (int64_t[]){columns, rows}, values, &flat));
    CHECK_OK(weir_tensor_transpose(flat, 0, 1, &view));
    weir_tensor_release(flat);
    return view;
}

/* Between all pairs of packed and turned views, longer than the stage, with rows that its end
 * cuts. */
TEST(cuda_across, views_of_any_strides_are_copied_between_devices)
{
    enum { ROWS = 1201, COLUMNS = 1103, ALL = ROWS * COLUMNS };
    struct pair p = open_pair();
    int32_t *in = malloc(ALL * sizeof *in), *out = malloc(ALL * sizeof *out);

    CHECK(in && out);
    for (int i = 0; i < ALL; i++)
        in[i] = i;
    for (int k = 0; k < 8; k++) {
        weir_stream *from = k & 1 ? p.g : p.h, *to = k & 1 ? p.h : p.g;
        weir_tensor *src, *dst;
        bool whole = k & 4;

        test_note("%s, source %s, destination %s", k & 1 ? "to the host" : "to the GPU",
                  k & 2 ? "turned" : "packed", whole ? "packed" : "turned");
        if (k & 2)
            src = turned(from, ROWS, COLUMNS, in);
        else
            CHECK_OK(weir_tensor_from(from, WEIR_I32, 2, (int64_t[]){ROWS, COLUMNS}, in, &src));
        memset(out, 0xff, ALL * sizeof *out);
        if (whole)
            CHECK_OK(weir_tensor_from(to, WEIR_I32, 2, (int64_t[]){ROWS, COLUMNS}, out, &dst));
        else
            dst = turned(to, ROWS, COLUMNS, out);
        CHECK_OK(weir_tensor_copy(dst, src));
        weir_tensor_release(src);
        CHECK_OK(weir_tensor_read(dst, out, ALL * sizeof *out));
        for (int i = 0; i < ALL; i++)
            if (out[i] != (k & 2 ? i % COLUMNS * ROWS + i / COLUMNS : i))
                FAIL("element %d is %d", i, out[i]);
        weir_tensor_release(dst);
    }
    free(in);
    free(out);
    close_pair(&p);
}

TEST(cuda_across, errors_cross_both_ways)
{
    for (int k = 0; k < 4; k++) {
        struct pair p = open_pair();
        bool to_gpu = k & 1, on_host = k & 2;
        weir_tensor *x = gpu_tensor(p.g, WEIR_F32, 100, 1), *y = gpu_tensor(p.h, WEIR_F32, 100, 2);
        weir_stream *apart[2];

        test_note("a copy to the %s, after an error on the %s", to_gpu ? "GPU" : "host",
                  on_host ? "host" : "GPU");
        CHECK_OK(weir_stream_create(p.gpu, NULL, &apart[0]));
        CHECK_OK(weir_stream_create(p.cpu, NULL, &apart[1]));
        (on_host ? fail_on_host : fail_on_gpu)(on_host ? p.h : p.g);
        CHECK_OK(to_gpu ? weir_tensor_copy(x, y) : weir_tensor_copy(y, x));
        for (int i = 0; i < 2; i++) {
            CHECK_STATUS(weir_stream_sync(i ? p.h : p.g), WEIR_ERANGE);
            CHECK_STR(weir_last_error(), on_host ? "'stumble'" : "'IndexSelect'");
            CHECK_OK(weir_stream_sync(apart[i]));
            CHECK_OK(weir_stream_destroy(apart[i]));
        }
        weir_tensor_release(x);
        weir_tensor_release(y);
        close_pair(&p);
    }
}

/* Each device may be the first to go; what it owes the other is done by then. */
TEST(cuda_across, either_device_closes_first)
{
    for (int k = 0; k < 4; k++) {
        struct pair p = open_pair();
        weir_tensor *x = gpu_tensor(p.g, WEIR_F32, 100, 1), *y = gpu_tensor(p.h, WEIR_F32, 100, 2);

        CHECK_OK(k & 1 ? weir_tensor_copy(x, y) : weir_tensor_copy(y, x));
        weir_tensor_release(x);
        weir_tensor_release(y);
        CHECK_OK(weir_device_close(k & 2 ? p.gpu : p.cpu));
        CHECK_OK(weir_device_close(k & 2 ? p.cpu : p.gpu));
    }
}

TEST(cuda_across, a_stream_that_waits_for_the_other_device_says_so)
{
    const struct fake_control *fake = use_fake();
    struct pair p = open_pair();
    weir_tensor *x = gpu_tensor(p.g, WEIR_F32, 100, 1), *y = gpu_tensor(p.h, WEIR_F32, 100, 2);

    CHECK_OK(weir_device_sync(p.gpu));
    fake->hold(true);
    CHECK_OK(weir_tensor_copy(y, x));
    CHECK_STATUS(weir_stream_sync_for(p.h, 50 * 1000 * 1000), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "waits for a stream of device");
    fake->hold(false);
    expect_all(y, 1);
    weir_tensor_release(x);
    weir_tensor_release(y);
    close_pair(&p);
}

/* Calls of CUDA that fail while a copy is queued: an error or none, no hang, and the next copy
 * works. */
TEST(cuda_across, any_driver_call_of_a_copy_between_devices_may_fail)
{
    const struct fake_control *fake = use_fake();
    struct pair p = open_pair();
    weir_tensor *x = gpu_tensor(p.g, WEIR_F32, 100, 1), *y = gpu_tensor(p.h, WEIR_F32, 100, 2);
    int failed = 0;

    CHECK_OK(weir_tensor_copy(y, x));
    CHECK_OK(weir_tensor_copy(x, y));
    for (int k = 0; k < 2; k++)
        for (uint64_t n = 1;; n++) {
            uint64_t before;
            weir_status st;

            CHECK_OK(weir_device_sync(p.gpu));
            CHECK_OK(weir_launch_submit(/* or the copy has nothing to wait for */
                                        p.h, &(weir_launch){.name = "slow", .fn = slow_kernel}));
            before = fake->calls();
            fake->fail_call(n, 1);
            st = k ? weir_tensor_copy(x, y) : weir_tensor_copy(y, x);
            fake->fail_call(0, 0);
            failed += st != WEIR_OK;
            weir_stream_sync(p.g);
            CHECK_OK(weir_stream_sync(p.h));
            if (n > fake->calls() - before)
                break;
        }
    CHECK_GT(failed, 4);
    CHECK_OK(weir_fill(x, 7));
    CHECK_OK(weir_tensor_copy(y, x));
    expect_all(y, 7);
    weir_tensor_release(x);
    weir_tensor_release(y);
    close_pair(&p);
}

/* A model of an NPU runs only while somebody waits for it, so the copy does. */
TEST(cuda_across, a_device_in_virtual_time_is_waited_for)
{
    weir_device *gpu = open_gpu("cuda:0"), *npu;
    weir_tensor *x = gpu_tensor(weir_stream_default(gpu), WEIR_F32, 1000, 3), *y;

    CHECK_OK(weir_device_open("npu:a3", &npu));
    y = gpu_tensor(weir_stream_default(npu), WEIR_F32, 1000, 0);
    CHECK_OK(weir_tensor_copy(y, x));
    CHECK_OK(weir_add_scalar_into(y, 1, y));
    CHECK_OK(weir_tensor_copy(x, y));
    expect_all(x, 4);
    expect_all(y, 4);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(gpu));
    CHECK_OK(weir_device_close(npu));
}
