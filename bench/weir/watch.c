/* The cost of a trace and of the race checker: queueing and running small operators while a
 * trace is recorded, while the race checker is on, and with neither. */
#include "bench/weir/works.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { OPS = 4000, TRIES = 5, TENSORS = 8 };

struct cost {
    double queue, run; /* ns an operator */
};

struct setup {
    const struct bench *b;
    weir_device *dev;
    weir_stream *stream;
    weir_status (*queue)(struct setup *s, int i); /* the i-th operator */
    weir_tensor *tensors[TENSORS];
    atomic_bool open;
    double began, ended; /* of the worker's own time */
};

/* The processor time of this thread alone, so that other processes do not count. */
static double thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static weir_status wait_at_gate(const void *args, const weir_block *block)
{
    struct setup *s = *(struct setup *const *)args;

    (void)block;
    while (!atomic_load_explicit(&s->open, memory_order_acquire))
        continue;
    s->began = thread_ns();
    return WEIR_OK;
}

static weir_status note_end(const void *args, const weir_block *block)
{
    (void)block;
    (*(struct setup *const *)args)->ended = thread_ns();
    return WEIR_OK;
}

/* Queues behind a gate, then lets it run, so that the two do not hide each other. */
static struct cost measure(struct setup *s)
{
    const weir_launch gate = {
        .name = "gate", .fn = wait_at_gate, .args = &s, .args_size = sizeof s};
    const weir_launch last = {.name = "last", .fn = note_end, .args = &s, .args_size = sizeof s};
    weir_status st = WEIR_OK;
    struct cost cost;
    double start;

    atomic_store(&s->open, false);
    weir__bench_must(s->b, weir_launch_submit(s->stream, &gate));
    start = thread_ns();
    for (int i = 0; i < OPS && !st; i++)
        st = s->queue(s, i);
    cost.queue = (thread_ns() - start) / OPS;
    weir__bench_must(s->b, st);
    weir__bench_must(s->b, weir_launch_submit(s->stream, &last));
    atomic_store_explicit(&s->open, true, memory_order_release);
    weir__bench_must(s->b, weir_stream_sync(s->stream));
    cost.run = (s->ended - s->began) / OPS;
    return cost;
}

/* Queueing and running together: the least of a few, since disturbances only add time. */
static double measure_best(struct setup *s)
{
    struct cost best = measure(s);

    for (int i = 1; i < TRIES; i++) {
        struct cost next = measure(s);

        best.queue = fmin(best.queue, next.queue);
        best.run = fmin(best.run, next.run);
    }
    return best.queue + best.run;
}

/* ---- traces ---- */

static weir_status queue_empty(struct setup *s, int i)
{
    const weir_launch empty = {.name = "empty", .work_ns = 1};

    (void)i;
    return weir_launch_submit(s->stream, &empty);
}

static double recorded_once(void *ctx)
{
    struct setup *s = ctx;
    double off = measure_best(s), on;
    weir_trace *trace;

    weir__bench_must(s->b, weir_trace_start(NULL));
    on = measure_best(s);
    weir__bench_must(s->b, weir_trace_stop(&trace));
    weir_trace_free(trace);
    return on - off;
}

void weir__bench_trace(struct bench *b)
{
    struct setup s = {.b = b, .dev = weir__bench_open(b, 1), .queue = queue_empty};

    s.stream = weir__bench_stream(b, s.dev);
    bench_sample(b, "weir", "ns", 9, recorded_once, &s);
}

/* ---- the race checker ---- */

/* Three operands each, two read and one written; the same ones at every operator. */
static weir_status queue_add(struct setup *s, int i)
{
    return weir_add_into(s->tensors[i % TENSORS], s->tensors[(i + 1) % TENSORS],
                         s->tensors[(i + 2) % TENSORS]);
}

static double checked_once(void *ctx)
{
    struct setup *s = ctx;
    double off = measure_best(s), on;
    weir_race_stats stats;

    weir__bench_must(s->b, weir_race_set_mode(WEIR_RACE_REPORT));
    on = measure_best(s);
    weir_race_get_stats(&stats, sizeof stats);
    weir__bench_must(s->b, weir_race_set_mode(WEIR_RACE_OFF));
    if (stats.operators < (uint64_t)OPS * TRIES || stats.races) {
        fprintf(stderr, "weir bench: %s: the checker saw %llu operators and %llu races\n",
                s->b->work, (unsigned long long)stats.operators, (unsigned long long)stats.races);
        return NAN;
    }
    return on - off;
}

void weir__bench_race(struct bench *b)
{
    const int64_t shape[] = {4, 4};
    struct setup s = {.b = b, .dev = weir__bench_open(b, 1), .queue = queue_add};

    s.stream = weir__bench_stream(b, s.dev);
    for (int i = 0; i < TENSORS; i++) {
        weir__bench_must(b, weir_tensor_empty(s.stream, WEIR_F32, 2, shape, &s.tensors[i]));
        weir__bench_must(b, weir_fill(s.tensors[i], 0));
    }
    bench_sample(b, "weir", "ns", 9, checked_once, &s);
}
