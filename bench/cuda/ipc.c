/* Measures messages between two processes on one GPU, and a copy within one process:
 *
 *     weir launch -n 2 build/release/bench_ipc [DEVICE [LOG2 OF THE MOST BYTES]]
 *
 * Rank 1 prints medians. The receiver of a message copies it out of the sender's memory.
 * There are two rows: in one the sender waits for its stream meanwhile, in the other it does not.
 * Without MPS, processes take turns on a GPU. The same message between two ranks of one process
 * shows the time of the copy kernel alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "weir/weir.h"

enum { SAMPLES = 30 };

#define OK(call)                                                   \
    do {                                                           \
        if (call) {                                                \
            fprintf(stderr, "%s: %s\n", #call, weir_last_error()); \
            exit(1);                                               \
        }                                                          \
    } while (0)

struct run {
    weir_device *dev;
    weir_group *group;
    weir_rank *self;
    int me, ranks;
    weir_stream *stream;
    weir_tensor *x, *y, *sum;
    int64_t numel;
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, SAMPLES, sizeof *samples, compare);
    return samples[SAMPLES / 2];
}

static void meet(struct run *r)
{
    OK(weir_barrier(r->self));
    OK(weir_stream_sync(r->stream));
}

/* Runs one rank at a time. */
static double time_copy(struct run *r)
{
    double samples[SAMPLES] = {0};

    for (int turn = 0; turn < r->ranks; turn++) {
        for (int i = 0; i < SAMPLES && turn == r->me; i++) {
            double begin = now_us();

            OK(weir_copy_into(r->x, r->y));
            OK(weir_stream_sync(r->stream));
            samples[i] = now_us() - begin;
        }
        meet(r);
    }
    return median(samples);
}

static double time_message(struct run *r, bool sender_waits)
{
    double samples[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        double begin;

        meet(r);
        if (r->me == 0)
            OK(weir_send(r->self, r->x, 1));
        if (!sender_waits)
            usleep(r->me ? 1500 : 3000 + (useconds_t)(r->numel / 100000));
        begin = now_us();
        if (r->me == 1)
            OK(weir_recv(r->self, r->y, 0));
        OK(weir_stream_sync(r->stream));
        samples[i] = now_us() - begin;
    }
    return median(samples);
}

/* Two ranks of this process; one process at a time measures. */
static double time_local(struct run *r)
{
    double samples[SAMPLES] = {0};
    weir_device *devices[2] = {r->dev, r->dev};
    weir_stream *other;
    weir_group *group;

    OK(weir_group_create(devices, 2, NULL, &group));
    OK(weir_stream_create(r->dev, NULL, &other));
    for (int turn = 0; turn < r->ranks; turn++) {
        for (int i = 0; i < SAMPLES && turn == r->me; i++) {
            double begin = now_us();

            OK(weir_stream_set_current(other));
            OK(weir_send(weir_group_rank(group, 0), r->x, 1));
            OK(weir_stream_set_current(r->stream));
            OK(weir_recv(weir_group_rank(group, 1), r->y, 0));
            OK(weir_stream_sync(r->stream));
            samples[i] = now_us() - begin;
        }
        meet(r);
    }
    OK(weir_device_sync(r->dev));
    OK(weir_group_destroy(group));
    OK(weir_stream_destroy(other));
    return median(samples);
}

static double time_all_reduce(struct run *r)
{
    double samples[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        double begin;

        meet(r);
        begin = now_us();
        OK(weir_all_reduce_into(r->self, r->x, WEIR_REDUCE_SUM, r->sum));
        OK(weir_stream_sync(r->stream));
        samples[i] = now_us() - begin;
    }
    return median(samples);
}

static void measure(struct run *r, int log)
{
    double copy, waiting, apart, local, reduce;

    r->numel = (INT64_C(1) << log) / 4;
    OK(weir_tensor_empty(r->stream, WEIR_F32, 1, &r->numel, &r->x));
    OK(weir_tensor_empty(r->stream, WEIR_F32, 1, &r->numel, &r->y));
    OK(weir_tensor_empty(r->stream, WEIR_F32, 1, &r->numel, &r->sum));
    OK(weir_fill(r->x, r->me + 1));
    meet(r);
    copy = time_copy(r);
    waiting = time_message(r, true);
    apart = time_message(r, false);
    local = time_local(r);
    reduce = time_all_reduce(r);
    if (r->me == 1)
        printf(
            "2^%d B: copy %.1f us; message %.1f us, %.2f of the copy's bandwidth (%.1f us, %.2f, "
            "with a sender that does not wait; %.1f us, %.2f, in one process); all-reduce %.1f "
            "us\n",
            log, copy, waiting, copy / waiting, apart, copy / apart, local, copy / local, reduce);
    fflush(stdout);
    weir_tensor_release(r->x);
    weir_tensor_release(r->y);
    weir_tensor_release(r->sum);
}

int main(int argc, char **argv)
{
    struct run r = {0};
    int most = argc > 2 ? atoi(argv[2]) : 32;

    OK(weir_device_open(argc > 1 ? argv[1] : "cuda:0", &r.dev));
    OK(weir_group_join(r.dev, NULL, &r.group));
    r.self = weir_group_self(r.group);
    r.me = weir_rank_index(r.self);
    r.ranks = weir_group_size(r.group);
    r.stream = weir_stream_default(r.dev);
    for (int log = 2; log <= most; log += log < 20 ? 9 : 3)
        measure(&r, log);
    OK(weir_device_sync(r.dev));
    OK(weir_group_destroy(r.group));
    OK(weir_device_close(r.dev));
    return 0;
}
