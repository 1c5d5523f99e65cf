/* Empty operators: chains, hops, forks.
 *
 * Two forms. "weir" is the time from submission to completion: the host queues while the device
 * runs. "weir: queued beforehand" holds the device at a gate until everything is queued
 * and measures the time after that, as prebuilt graphs of other runtimes do. */
#include "bench/weir/works.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CHAIN = 100000,
    HOPS = 20000,
    FORKS = 1000,
    FORK_WIDTH = 8,
    WAITS = 2000,
    /* The number queued behind a gate; small enough for any queue. */
    QUEUED_CHAIN = 2000,
    QUEUED_HOPS = 2000,
    QUEUED_FORKS = 100,
};

#define QUEUED "weir: queued beforehand"

void weir__bench_must(const struct bench *b, weir_status status)
{
    if (status == WEIR_OK)
        return;
    bench_skip(b, weir_last_error());
    _Exit(0);
}

weir_device *weir__bench_open(const struct bench *b, int cores)
{
    char spec[32];
    weir_device *dev;

    snprintf(spec, sizeof spec, "cpu:cores=%d", cores);
    weir__bench_must(b, weir_device_open(spec, &dev));
    return dev;
}

weir_stream *weir__bench_stream(const struct bench *b, weir_device *dev)
{
    weir_stream *stream;

    weir__bench_must(b, weir_stream_create(dev, NULL, &stream));
    return stream;
}

struct setup {
    const struct bench *b;
    weir_device *dev;
    weir_stream *main;
    weir_stream *branch[FORK_WIDTH];
    weir_event *event[2];
    atomic_bool *gate; /* NULL when not queued beforehand */
};

static struct setup make_setup(const struct bench *b)
{
    struct setup s = {.b = b, .dev = weir__bench_open(b, 2)};

    s.main = weir__bench_stream(b, s.dev);
    for (int i = 0; i < FORK_WIDTH; i++)
        s.branch[i] = weir__bench_stream(b, s.dev);
    for (int i = 0; i < 2; i++)
        weir__bench_must(b, weir_event_create(s.dev, NULL, &s.event[i]));
    return s;
}

static weir_status wait_at_gate(const void *args, const weir_block *block)
{
    atomic_bool *gate = *(atomic_bool *const *)args;

    (void)block;
    while (!atomic_load_explicit(gate, memory_order_acquire))
        continue;
    return WEIR_OK;
}

static void queue_gate(const struct setup *s)
{
    const weir_launch gate = {
        .name = "gate",
        .fn = wait_at_gate,
        .args = &s->gate,
        .args_size = sizeof s->gate,
    };

    atomic_store(s->gate, false);
    weir__bench_must(s->b, weir_launch_submit(s->main, &gate));
}

static const weir_launch empty = {.name = "empty", .work_ns = 1};

/* The calls in the timed loops keep the first error instead of testing each. */
static weir_status queue_chain(const struct setup *s, int count)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < count && !st; i++)
        st = weir_launch_submit(s->main, &empty);
    return st;
}

static weir_status queue_hops(const struct setup *s, int count)
{
    weir_stream *const side[2] = {s->main, s->branch[0]};
    weir_status st = WEIR_OK;

    for (int i = 0; i < count && !st; i++) {
        weir_stream *from = side[i & 1], *to = side[1 - (i & 1)];

        st = weir_launch_submit(from, &empty);
        if (!st)
            st = weir_event_record(s->event[i & 1], from);
        if (!st)
            st = weir_stream_wait(to, s->event[i & 1]);
    }
    return st;
}

/* One fork of 8 and its join, ten operators in all. */
static weir_status queue_fork(const struct setup *s)
{
    weir_status st;

    if ((st = weir_launch_submit(s->main, &empty)) ||
        (st = weir_event_record(s->event[0], s->main)))
        return st;
    for (int i = 0; i < FORK_WIDTH; i++) {
        if ((st = weir_stream_wait(s->branch[i], s->event[0])) ||
            (st = weir_launch_submit(s->branch[i], &empty)) ||
            (st = weir_stream_wait_stream(s->main, s->branch[i])))
            return st;
    }
    return weir_launch_submit(s->main, &empty);
}

static weir_status queue_forks(const struct setup *s, int count)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < count && !st; i++)
        st = queue_fork(s);
    return st;
}

/* Time from submission to completion, per item. */
static double time_all(const struct setup *s, weir_status (*queue)(const struct setup *, int),
                       int count)
{
    double start = bench_now_ns();

    weir__bench_must(s->b, queue(s, count));
    weir__bench_must(s->b, weir_device_sync(s->dev));
    return (bench_now_ns() - start) / count;
}

/* Time from the opening of the gate to the end, per item. */
static double time_queued(const struct setup *s, weir_status (*queue)(const struct setup *, int),
                          int count)
{
    double start;

    queue_gate(s);
    weir__bench_must(s->b, queue(s, count));
    start = bench_now_ns();
    atomic_store_explicit(s->gate, true, memory_order_release);
    weir__bench_must(s->b, weir_device_sync(s->dev));
    return (bench_now_ns() - start) / count;
}

static double chain_once(void *ctx)
{
    return time_all(ctx, queue_chain, CHAIN);
}
static double chain_queued_once(void *ctx)
{
    return time_queued(ctx, queue_chain, QUEUED_CHAIN);
}
static double hops_once(void *ctx)
{
    return time_all(ctx, queue_hops, HOPS);
}
static double hops_queued_once(void *ctx)
{
    return time_queued(ctx, queue_hops, QUEUED_HOPS);
}
static double forks_queued_once(void *ctx)
{
    return time_queued(ctx, queue_forks, QUEUED_FORKS);
}

/* One graph at a time, the host waiting for each, as the peers do. */
static double forks_once(void *ctx)
{
    const struct setup *s = ctx;
    double start = bench_now_ns();
    weir_status st = WEIR_OK;

    for (int i = 0; i < FORKS && !st; i++)
        if (!(st = queue_fork(s)))
            st = weir_stream_sync(s->main);
    weir__bench_must(s->b, st);
    return (bench_now_ns() - start) / FORKS;
}

static double waits_once(void *ctx)
{
    const struct setup *s = ctx;
    double start = bench_now_ns();
    weir_status st = WEIR_OK;

    for (int i = 0; i < WAITS && !st; i++)
        if (!(st = weir_launch_submit(s->main, &empty)))
            st = weir_stream_sync(s->main);
    weir__bench_must(s->b, st);
    return (bench_now_ns() - start) / WAITS;
}

void weir__bench_chain(struct bench *b)
{
    struct setup s = make_setup(b);

    bench_sample(b, "weir", "ns", 3, chain_once, &s);
}

void weir__bench_chain_prebuilt(struct bench *b)
{
    struct setup s = make_setup(b);
    atomic_bool gate;

    s.gate = &gate;
    bench_sample(b, QUEUED, "ns", 9, chain_queued_once, &s);
    weir__bench_plan_chain(b);
}

void weir__bench_pingpong(struct bench *b)
{
    struct setup s = make_setup(b);
    atomic_bool gate;

    bench_sample(b, "weir", "ns", 3, hops_once, &s);
    s.gate = &gate;
    bench_sample(b, QUEUED, "ns", 9, hops_queued_once, &s);
    weir__bench_plan_hops(b);
}

void weir__bench_fork_join(struct bench *b)
{
    struct setup s = make_setup(b);
    atomic_bool gate;

    bench_sample(b, "weir", "ns", 3, forks_once, &s);
    s.gate = &gate;
    bench_sample(b, QUEUED, "ns", 9, forks_queued_once, &s);
    weir__bench_plan_forks(b);
}

void weir__bench_submit_wait(struct bench *b)
{
    struct setup s = make_setup(b);

    bench_sample(b, "weir", "ns", 3, waits_once, &s);
}

void weir__bench_idle(struct bench *b)
{
    struct setup s = make_setup(b);

    time_all(&s, queue_hops, HOPS);
    bench_idle_share(b, "weir");
}
