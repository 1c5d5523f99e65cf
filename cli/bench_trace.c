/* What recording a trace costs: queueing and running empty operators with and without one. */
#include "bench_weir.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { OPS = 4000 };

struct cost {
    double queue, run; /* ns an operator */
};

struct setup {
    const struct bench *b;
    weir_device *dev;
    weir_stream *stream;
    atomic_bool open;
};

static weir_status wait_at_gate(const void *args, const weir_block *block)
{
    atomic_bool *open = *(atomic_bool *const *)args;

    (void)block;
    while (!atomic_load_explicit(open, memory_order_acquire))
        continue;
    return WEIR_OK;
}

/* Of this thread alone: what others do meanwhile is no cost of ours. */
static double thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Queues behind a gate, then lets it run, so that the two do not hide each other. */
static struct cost measure(struct setup *s)
{
    const weir_launch empty = {.name = "empty", .work_ns = 1};
    atomic_bool *open = &s->open;
    const weir_launch gate = {
        .name = "gate", .fn = wait_at_gate, .args = &open, .args_size = sizeof open};
    weir_status st = WEIR_OK;
    struct cost cost;
    double start;

    atomic_store(open, false);
    weir__bench_must(s->b, weir_launch_submit(s->stream, &gate));
    start = thread_ns();
    for (int i = 0; i < OPS && !st; i++)
        st = weir_launch_submit(s->stream, &empty);
    cost.queue = (thread_ns() - start) / OPS;
    weir__bench_must(s->b, st);
    start = bench_now_ns();
    atomic_store_explicit(open, true, memory_order_release);
    weir__bench_must(s->b, weir_stream_sync(s->stream));
    cost.run = (bench_now_ns() - start) / OPS;
    return cost;
}

/* The difference, of both sides together. */
static double recorded_once(void *ctx)
{
    struct setup *s = ctx;
    struct cost off = measure(s), on;
    weir_trace *trace;

    weir__bench_must(s->b, weir_trace_start(NULL));
    on = measure(s);
    weir__bench_must(s->b, weir_trace_stop(&trace));
    weir_trace_free(trace);
    return on.queue - off.queue + on.run - off.run;
}

void weir__bench_trace(struct bench *b)
{
    struct setup s = {.b = b, .dev = weir__bench_open(b, 1)};

    s.stream = weir__bench_stream(b, s.dev);
    bench_sample(b, "weir", "ns", 9, recorded_once, &s);
}
