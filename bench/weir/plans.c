/* Plans of empty operators: the cost of a replay, from submission to completion. They are
 * the counterpart of other runtimes' prebuilt graphs. */
#include "bench/weir/works.h"

#include "bench/dag_gen.h"

enum {
    CHAIN_NODES = 1000,
    CHAIN_RUNS = 100,
    DAG_RUNS = 100,
    HOPS = 1000,
    HOP_RUNS = 100,
    FORK_WIDTH = 8,
    FORK_RUNS = 2000
};

struct replay {
    const struct bench *b;
    weir_stream *stream;
    weir_plan *plan;
    int runs, items; /* items of one run */
};

/* An empty operator after `in`, on the stream with that tag. */
static weir_tensor *add_empty(const struct bench *b, weir_graph *g, const char *tag,
                              weir_tensor *const *in, int nin)
{
    weir_tensor *out;

    weir__bench_must(b, weir_scope_push_stream(tag, 0));
    weir__bench_must(b, weir_graph_add(g, "Kernel", NULL, NULL, 0, in, nin, &out, 1));
    weir__bench_must(b, weir_scope_pop(WEIR_SCOPE_STREAM));
    return out;
}

static weir_graph *make_hops(const struct bench *b, weir_device *dev)
{
    weir_tensor *last = NULL;
    weir_graph *g;

    weir__bench_must(b, weir_graph_create(dev, &g));
    for (int i = 0; i < HOPS; i++) {
        weir_tensor *next = add_empty(b, g, i % 2 ? "other" : "default", &last, i > 0);

        weir_tensor_release(last);
        last = next;
    }
    weir_tensor_release(last);
    return g;
}

static weir_graph *make_fork(const struct bench *b, weir_device *dev)
{
    static const char *const tags[FORK_WIDTH] = {"1", "2", "3", "4", "5", "6", "7", "8"};
    weir_tensor *fork, *branch[FORK_WIDTH];
    weir_graph *g;

    weir__bench_must(b, weir_graph_create(dev, &g));
    fork = add_empty(b, g, "default", NULL, 0);
    for (int i = 0; i < FORK_WIDTH; i++)
        branch[i] = add_empty(b, g, tags[i], &fork, 1);
    weir_tensor_release(add_empty(b, g, "default", branch, FORK_WIDTH));
    weir_tensor_release(fork);
    for (int i = 0; i < FORK_WIDTH; i++)
        weir_tensor_release(branch[i]);
    return g;
}

static weir_graph *make_chain(const struct bench *b, weir_device *dev)
{
    weir_tensor *last = NULL;
    weir_graph *g;

    weir__bench_must(b, weir_graph_create(dev, &g));
    for (int i = 0; i < CHAIN_NODES; i++) {
        weir_tensor *next = add_empty(b, g, "default", &last, i > 0);

        weir_tensor_release(last);
        last = next;
    }
    weir_tensor_release(last);
    return g;
}

static weir_graph *make_dag(const struct bench *b, weir_device *dev)
{
    static weir_tensor *nodes[DAG_NODES];
    static int deps[DAG_NODES][2];
    weir_graph *g;

    weir__bench_must(b, weir_graph_create(dev, &g));
    dag_generate(deps);
    for (int i = 0; i < DAG_NODES; i++) {
        weir_tensor *in[2] = {nodes[deps[i][0]], nodes[deps[i][1]]};

        nodes[i] = add_empty(b, g, "default", in, i ? 2 : 0);
    }
    for (int i = 0; i < DAG_NODES; i++)
        weir_tensor_release(nodes[i]);
    return g;
}

static double replay_once(void *ctx)
{
    const struct replay *r = ctx;
    double start = bench_now_ns();
    weir_status st = WEIR_OK;

    for (int i = 0; i < r->runs && !st; i++)
        st = weir_plan_run(r->plan, r->stream, NULL, 0, NULL, 0);
    weir__bench_must(r->b, st);
    weir__bench_must(r->b, weir_stream_sync(r->stream));
    return (bench_now_ns() - start) / r->runs / r->items;
}

static void sample(struct bench *b, weir_graph *(*make)(const struct bench *, weir_device *),
                   int runs, int items)
{
    weir_device *dev = weir__bench_open(b, b->threads);
    struct replay r = {.b = b, .stream = weir__bench_stream(b, dev), .runs = runs, .items = items};
    weir_graph *g = make(b, dev);

    weir__bench_must(b, weir_graph_compile(g, NULL, &r.plan));
    bench_sample(b, "weir: plan", "ns", 9, replay_once, &r);
}

void weir__bench_plan_hops(struct bench *b)
{
    sample(b, make_hops, HOP_RUNS, HOPS);
}

void weir__bench_plan_forks(struct bench *b)
{
    sample(b, make_fork, FORK_RUNS, 1);
}

void weir__bench_plan_chain(struct bench *b)
{
    sample(b, make_chain, CHAIN_RUNS, CHAIN_NODES);
}

void weir__bench_dag(struct bench *b)
{
    sample(b, make_dag, DAG_RUNS, DAG_NODES);
}
