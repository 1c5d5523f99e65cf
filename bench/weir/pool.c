/* The stream-ordered pool on the trace that the malloc peers replay. */
#include "bench/weir/works.h"

#include "bench/trace_gen.h"

/* Work is queued on the second stream at every N-th block. All blocks are used on
 * it, so blocks freed since then stay unavailable until that work has completed. */
enum { SECOND_STREAM_EVERY = 8 };

struct replay {
    const struct bench *b;
    struct trace trace;
    weir_buffer **live;
    weir_device *dev;
    weir_stream *stream, *second;
};

static struct replay make_replay(const struct bench *b, struct trace trace)
{
    struct replay r = {.b = b, .trace = trace, .dev = weir__bench_open(b, 2)};

    r.stream = weir__bench_stream(b, r.dev);
    r.second = weir__bench_stream(b, r.dev);
    r.live = calloc(trace.slots, sizeof(weir_buffer *));
    if (!r.live)
        abort();
    for (size_t i = 0; i < trace.slots; i++)
        weir__bench_must(b, weir_buffer_alloc(r.stream, trace.first_size[i], &r.live[i]));
    return r;
}

static double replay_once(void *ctx)
{
    struct replay *r = ctx;
    double start = bench_now_ns();
    weir_status st = WEIR_OK;

    for (size_t i = 0; i < TRACE_STEPS && !st; i++) {
        weir_buffer **block = &r->live[r->trace.slot[i]];

        weir_buffer_free(*block);
        st = weir_buffer_alloc(r->stream, r->trace.size[i], block);
    }
    weir__bench_must(r->b, st);
    return (bench_now_ns() - start) / TRACE_STEPS;
}

static double replay_second_once(void *ctx)
{
    const weir_launch empty = {.name = "use", .work_ns = 1};
    struct replay *r = ctx;
    double start = bench_now_ns();
    weir_status st = WEIR_OK;

    for (size_t i = 0; i < TRACE_STEPS && !st; i++) {
        weir_buffer **block = &r->live[r->trace.slot[i]];

        weir_buffer_free(*block);
        st = weir_buffer_alloc(r->stream, r->trace.size[i], block);
        if (!st && i % SECOND_STREAM_EVERY == 0)
            st = weir_launch_submit(r->second, &empty);
        if (!st)
            st = weir_buffer_used_on(*block, r->second);
    }
    weir__bench_must(r->b, st);
    return (bench_now_ns() - start) / TRACE_STEPS;
}

void weir__bench_pool_mixed(struct bench *b)
{
    struct replay r = make_replay(b, trace_make_mixed());

    bench_sample(b, "weir", "ns", 3, replay_once, &r);
}

void weir__bench_pool_small(struct bench *b)
{
    struct replay r = make_replay(b, trace_make_small());

    bench_sample(b, "weir", "ns", 3, replay_once, &r);
}

void weir__bench_pool_second(struct bench *b)
{
    struct replay r = make_replay(b, trace_make_mixed());
    weir_memory_stats stats;
    double syncs;

    bench_sample(b, "weir", "ns", 3, replay_second_once, &r);
    weir_memory_get_stats(r.dev, &stats, sizeof stats);
    syncs = (double)stats.host_syncs;
    bench_emit(b, "weir: host syncs", "syncs", &syncs, 1);
}
