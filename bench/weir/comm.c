/* Collectives between two devices of one process; each device has one core. */
#include "bench/collective_sizes.h"
#include "bench/weir/works.h"

#include <string.h>

enum { RANKS = 2 };

struct comm {
    const struct bench *b;
    weir_device *dev[RANKS];
    weir_rank *rank[RANKS];
    weir_tensor *x[RANKS], *out[RANKS];
    bool scatter;
    double bytes; /* read and written by both ranks together */
    int calls;
};

static void queue_call(const struct comm *c)
{
    for (int r = 0; r < RANKS; r++)
        weir__bench_must(
            c->b, c->scatter
                      ? weir_reduce_scatter_into(c->rank[r], c->x[r], WEIR_REDUCE_SUM, c->out[r])
                      : weir_all_reduce_into(c->rank[r], c->x[r], WEIR_REDUCE_SUM, c->out[r]));
}

static void await_call(const struct comm *c)
{
    for (int r = 0; r < RANKS; r++)
        weir__bench_must(c->b, weir_stream_sync(weir_stream_default(c->dev[r])));
}

/* Calls in a row without a wait, as MPI's ranks make them; at the end it waits for both ranks. One
 * host thread queues the calls of both. */
static double time_call(void *ctx)
{
    const struct comm *c = ctx;
    double start = bench_now_ns();

    for (int i = 0; i < c->calls; i++)
        queue_call(c);
    await_call(c);
    return c->bytes * c->calls / (bench_now_ns() - start);
}

/* The host waits for each call before it queues the next. */
static double await_once(void *ctx)
{
    const struct comm *c = ctx;
    double start = bench_now_ns();

    for (int i = 0; i < c->calls; i++) {
        queue_call(c);
        await_call(c);
    }
    return c->bytes * c->calls / (bench_now_ns() - start);
}

void weir__bench_collective(struct bench *b)
{
    struct comm c = {.b = b, .scatter = !strncmp(b->work, "reduce_scatter", 14)};
    int64_t n = (int64_t)bench_collective_bytes(b->work) / (int64_t)sizeof(float);
    int64_t part = c.scatter ? n / RANKS : n;
    weir_group *group;

    for (int r = 0; r < RANKS; r++)
        c.dev[r] = weir__bench_open(b, 1);
    weir__bench_must(b, weir_group_create(c.dev, RANKS, NULL, &group));
    for (int r = 0; r < RANKS; r++) {
        c.rank[r] = weir_group_rank(group, r);
        weir__bench_must(
            b, weir_tensor_empty(weir_stream_default(c.dev[r]), WEIR_F32, 1, &n, &c.x[r]));
        weir__bench_must(
            b, weir_tensor_empty(weir_stream_default(c.dev[r]), WEIR_F32, 1, &part, &c.out[r]));
        weir__bench_must(b, weir_fill(c.x[r], r));
        weir__bench_must(b, weir_fill(c.out[r], 0));
    }
    c.bytes = bench_collective_moved(b->work);
    c.calls = bench_collective_calls(b->work);
    bench_sample(b, "weir", "GB/s", 3, time_call, &c);
    bench_sample(b, "weir: each awaited", "GB/s", 3, await_once, &c);
}
