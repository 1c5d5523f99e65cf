/* Runs other allocators on the pool's trace. Built once as it is for the C library's
 * malloc, and once with PEER_MIMALLOC for mimalloc, called by its own names so
 * that it is certain which allocator runs. Blocks are not touched: only the allocator
 * is measured. weir's pool does not touch them either; it keeps its records elsewhere. */
#include "../harness.h"
#include "../trace_gen.h"

#include <stdio.h>

#ifdef PEER_MIMALLOC
#include <mimalloc.h>
#define SUBJECT "mimalloc"
#define ALLOC mi_malloc
#define FREE mi_free
#else
#define SUBJECT "glibc malloc"
#define ALLOC malloc
#define FREE free
#endif

struct replay {
    struct trace trace;
    void **live;
};

static double replay_once(void *ctx)
{
    struct replay *r = ctx;
    double start = bench_now_ns();

    for (size_t i = 0; i < TRACE_STEPS; i++) {
        void **block = &r->live[r->trace.slot[i]];

        FREE(*block);
        *block = ALLOC(r->trace.size[i]);
    }
    return (bench_now_ns() - start) / TRACE_STEPS;
}

static void run_replay(struct bench *b, struct trace trace)
{
    struct replay r = {.trace = trace, .live = malloc(trace.slots * sizeof(void *))};

    if (!r.live)
        abort();
    for (size_t i = 0; i < trace.slots; i++)
        r.live[i] = ALLOC(trace.first_size[i]);
#ifdef PEER_MIMALLOC
    if (!mi_is_in_heap_region(r.live[0])) {
        bench_skip(b, "mimalloc did not serve the block");
        return;
    }
#endif
    bench_sample(b, SUBJECT, "ns", 3, replay_once, &r);
}

static void mixed(struct bench *b)
{
    run_replay(b, trace_make_mixed());
}
static void small(struct bench *b)
{
    run_replay(b, trace_make_small());
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        {"pool_mixed", 1, mixed},
        {"pool_small", 1, small},
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
