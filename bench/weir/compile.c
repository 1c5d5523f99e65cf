/* The time of compiling random graphs of elementwise operators. Each reads two earlier values. */
#include "bench/weir/works.h"

#include <stdio.h>
#include <stdlib.h>

struct build {
    const struct bench *b;
    weir_graph *graph;
    weir_tensor **values;
    bool *read; /* by value */
    int n;
};

struct compile {
    const struct bench *b;
    weir_graph *graph;
};

static weir_tensor *add_node(const struct build *m, int streams, weir_tensor *a, weir_tensor *b)
{
    weir_tensor *in[2] = {a, b}, *out;
    char tag[16] = "default";
    int stream = rand() % streams;

    if (stream)
        snprintf(tag, sizeof tag, "%d", stream);
    weir__bench_must(m->b, weir_scope_push_stream(tag, 0));
    weir__bench_must(m->b, weir_graph_add(m->graph, "Add", NULL, NULL, 0, in, 2, &out, 1));
    weir__bench_must(m->b, weir_scope_pop(WEIR_SCOPE_STREAM));
    return out;
}

/* A graph of that many nodes: random ones, and additions of all values that no other node reads. */
static weir_graph *make_graph(const struct bench *b, weir_device *dev, int nodes, int streams)
{
    struct build m = {.b = b};
    weir_tensor *sum;
    int unread = 1;

    m.values = calloc((size_t)nodes + 1, sizeof *m.values);
    m.read = calloc((size_t)nodes + 1, sizeof *m.read);
    if (!m.values || !m.read)
        exit(1);
    srand(1);
    weir__bench_must(b, weir_graph_create(dev, &m.graph));
    weir__bench_must(
        b, weir_graph_input(m.graph, "x", WEIR_F32, 2, (int64_t[]){8, 16}, &m.values[m.n++]));
    while (m.n + unread - 1 <= nodes) {
        int from[2] = {rand() % m.n, rand() % m.n};

        for (int k = 0; k < 2; k++) {
            unread -= !m.read[from[k]];
            m.read[from[k]] = true;
        }
        m.values[m.n++] = add_node(&m, streams, m.values[from[0]], m.values[from[1]]);
        unread++;
    }
    sum = weir_tensor_retain(m.values[m.n - 1]);
    for (int i = m.n - 2; i >= 0; i--) {
        weir_tensor *next;

        if (m.read[i])
            continue;
        next = add_node(&m, streams, sum, m.values[i]);
        weir_tensor_release(sum);
        sum = next;
    }
    weir__bench_must(b, weir_graph_output(m.graph, "y", sum));
    weir_tensor_release(sum);
    for (int i = 0; i < m.n; i++)
        weir_tensor_release(m.values[i]);
    free(m.values);
    free(m.read);
    return m.graph;
}

static double compile_once(void *ctx)
{
    const struct compile *c = ctx;
    double start = bench_now_ns(), took;
    weir_plan *plan;

    weir__bench_must(c->b, weir_graph_compile(c->graph, NULL, &plan));
    took = bench_now_ns() - start;
    weir_plan_destroy(plan);
    return took / 1e6;
}

static void sample(struct bench *b, int nodes)
{
    weir_device *dev = weir__bench_open(b, 1);
    struct compile one = {b, make_graph(b, dev, nodes, 1)};
    struct compile eight = {b, make_graph(b, dev, nodes, 8)};

    bench_sample(b, "weir: 1 stream", "ms", 1, compile_once, &one);
    bench_sample(b, "weir: 8 streams", "ms", 1, compile_once, &eight);
}

void weir__bench_compile_1k(struct bench *b)
{
    sample(b, 1000);
}

void weir__bench_compile_10k(struct bench *b)
{
    sample(b, 10000);
}

void weir__bench_compile_100k(struct bench *b)
{
    sample(b, 100000);
}
