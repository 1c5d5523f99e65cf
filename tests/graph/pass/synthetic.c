/* Synthetic graphs, and their order by brute force. */
#include "graph/pass/synthetic.h"

#include <stdlib.h>

#include "harness/test.h"

struct params {
    int64_t scratch;
    double us;
};

static size_t op_scratch(const struct weir__call *call)
{
    return (size_t)((const struct params *)call->params)->scratch;
}

/* As weir__cost_ns takes it back. */
static void op_cost(const struct weir__call *call, struct weir__cost *cost)
{
    cost->flops = 32e3 * ((const struct params *)call->params)->us;
}

static const struct weir__op op_new = {
    .name = "New", .engine = WEIR_ENGINE_VECTOR, .nout = 1, .cost = op_cost, .scratch = op_scratch};
static const struct weir__op op_update = {.name = "Update",
                                          .engine = WEIR_ENGINE_VECTOR,
                                          .flags = WEIR__OP_IN_PLACE,

                                          .cost = op_cost,
                                          .scratch = op_scratch};

static int64_t random_bytes(struct rng *r, int sizes)
{
    return sizes ? 64 * (int64_t)(1 + rng_below(r, sizes)) - rng_below(r, 64) : 64;
}

static struct weir__view bytes_view(int64_t bytes)
{
    return (struct weir__view){.dtype = WEIR_U8, .ndim = 1, .shape = {bytes}, .stride = {1}};
}

/* Node v reads some values and makes or updates one. values[i] is of node made[i]. */
static void make_node(struct synthetic *s, int v, struct rng *r, const struct synthetic_options *o)
{
    weir_graph *g = &s->g;
    struct weir__node *n = &g->nodes[v];
    struct params *params = calloc(1, sizeof *params);
    int from = o->window && o->window < g->nvalues ? g->nvalues - o->window : 0;
    bool update = g->nvalues && rng_percent(r, o->in_place);

    n->nin = g->nvalues ? rng_below(r, o->reads + 1) : 0;
    if (update && !n->nin)
        n->nin = 1;
    n->in = calloc((size_t)n->nin + 1, sizeof *n->in);
    for (int i = 0; i < n->nin; i++) {
        n->in[i].value = from + rng_below(r, g->nvalues - from);
        n->in[i].view = g->values[n->in[i].value].view;
    }
    n->op = update ? &op_update : &op_new;
    n->params = params;
    params->us = o->us ? 1 + rng_below(r, o->us) : 1;
    if (rng_percent(r, o->scratch))
        params->scratch = random_bytes(r, o->sizes);
    if (update)
        return;
    n->nout = 1;
    n->out = calloc(1, sizeof *n->out);
    n->out->value = g->nvalues;
    n->out->view = bytes_view(random_bytes(r, o->sizes));
    g->values[g->nvalues++] =
        (struct weir__value){.kind = WEIR__VALUE_NODE, .node = v, .view = n->out->view};
}

/* The last node that wrote each value, and who read it since. */
struct hazards {
    bool *edge; /* into the node at hand, from each node */
    int *writer;
    bool **readers;
};

static void order_use(struct hazards *h, int value, int v, bool write)
{
    if (h->writer[value] >= 0 && h->writer[value] != v)
        h->edge[h->writer[value]] = true;
    if (!write) {
        h->readers[value][v] = true;
        return;
    }
    for (int u = 0; u < v; u++)
        if (h->readers[value][u])
            h->edge[u] = true;
    memset(h->readers[value], 0, (size_t)v + 1);
    h->writer[value] = v;
}

static void node_edges(struct synthetic *s, struct hazards *h, int v)
{
    const struct weir__node *n = &s->g.nodes[v];
    const struct weir__operand *writes;
    int nwrites;

    for (int i = 0; i < n->nin; i++)
        order_use(h, n->in[i].value, v, false);
    writes = weir__node_writes(n, &nwrites);
    for (int i = 0; i < nwrites; i++)
        order_use(h, writes[i].value, v, true);
}

static void make_edges(struct synthetic *s, struct rng *r, const struct synthetic_options *o)
{
    int n = s->g.nnodes, count = 0, cap = 16;
    struct hazards h = {calloc((size_t)n, 1), calloc((size_t)n, sizeof(int)),
                        calloc((size_t)n, sizeof(bool *))};
    struct weir__edges *e = &s->c.edges;

    e->first = weir__calloc((size_t)n + 1, sizeof *e->first);
    e->preds = weir__calloc((size_t)cap, sizeof *e->preds);
    for (int v = 0; v < s->g.nvalues; v++) {
        h.writer[v] = -1;
        h.readers[v] = calloc((size_t)n, 1);
    }
    for (int v = 0; v < n; v++) {
        memset(h.edge, 0, (size_t)n);
        node_edges(s, &h, v);
        if (v && rng_percent(r, o->control))
            h.edge[rng_below(r, v)] = true;
        e->first[v] = count;
        for (int u = 0; u < v; u++) {
            if (!h.edge[u])
                continue;
            if (count == cap) {
                int *bigger = weir__calloc((size_t)cap * 2, sizeof *bigger);

                memcpy(bigger, e->preds, (size_t)cap * sizeof *bigger);
                weir__free(e->preds);
                e->preds = bigger;
                cap *= 2;
            }
            e->preds[count++] = u;
        }
    }
    e->first[n] = count;
    for (int v = 0; v < s->g.nvalues; v++)
        free(h.readers[v]);
    free(h.readers);
    free(h.writer);
    free(h.edge);
}

/* Large graphs are without hazards, so that they are made in linear time. */
static void make_edges_fast(struct synthetic *s)
{
    struct weir__edges *e = &s->c.edges;
    int count = 0;

    for (int v = 0; v < s->g.nnodes; v++)
        count += s->g.nodes[v].nin;
    e->first = weir__calloc((size_t)s->g.nnodes + 1, sizeof *e->first);
    e->preds = weir__calloc((size_t)count, sizeof *e->preds);
    count = 0;
    for (int v = 0; v < s->g.nnodes; v++) {
        const struct weir__node *n = &s->g.nodes[v];

        for (int i = 0; i < n->nin; i++)
            e->preds[count++] = s->g.values[n->in[i].value].node;
        e->first[v + 1] = count;
    }
}

/* Dead nodes are those that nobody needs, chosen among nodes whose value is not read. */
static void mark_dead(struct synthetic *s, struct rng *r, int percent)
{
    for (int v = s->g.nnodes - 1; v >= 0; v--)
        s->c.live[v] = !(percent && rng_percent(r, percent));
    for (int v = s->g.nnodes - 1; v >= 0; v--)
        for (int i = s->c.edges.first[v]; i < s->c.edges.first[v + 1]; i++)
            if (s->c.live[v])
                s->c.live[s->c.edges.preds[i]] = true;
}

void synthetic_init(struct synthetic *s, const struct synthetic_options *o)
{
    struct rng r = {o->seed};
    int label = 0;
    char name[16];

    memset(s, 0, sizeof *s);
    s->g.nodes = calloc((size_t)o->nodes, sizeof *s->g.nodes);
    s->g.values = calloc((size_t)o->nodes, sizeof *s->g.values);
    s->g.labels = calloc((size_t)o->streams, sizeof *s->g.labels);
    s->g.outputs = calloc((size_t)o->nodes, sizeof *s->g.outputs);
    s->g.nnodes = o->nodes;
    for (int i = 0; i < o->streams; i++) {
        snprintf(name, sizeof name, i ? "%d" : "default", i);
        s->g.labels[s->g.nlabels++] = strdup(name);
    }
    for (int v = 0; v < o->nodes; v++) {
        make_node(s, v, &r, o);
        if (!o->runs || !rng_below(&r, o->runs))
            label = rng_below(&r, o->streams);
        s->g.nodes[v].marks.stream = label;
        s->g.nodes[v].marks.super_kernel = -1;
    }
    for (int i = 0; i < 3 && i < s->g.nvalues; i++)
        s->g.outputs[s->g.noutputs++].operand.value = s->g.nvalues - 1 - i;
    s->c.g = &s->g;
    s->c.live = weir__calloc((size_t)o->nodes, sizeof *s->c.live);
    s->c.limit = weir__calloc((size_t)o->nodes, sizeof *s->c.limit);
    s->dev.props.cores = (weir_cores){4, 4};
    s->dev.driver = &weir__cpu_driver; /* asked what it is, never called */
    s->g.dev = &s->dev;
    if (o->in_place || o->control || o->nodes < 1000)
        make_edges(s, &r, o);
    else
        make_edges_fast(s);
    mark_dead(s, &r, o->dead);
}

void synthetic_set_us(struct synthetic *s, int node, double us)
{
    ((struct params *)s->g.nodes[node].params)->us = us;
}

void synthetic_set_edges(struct synthetic *s, const int (*edges)[2], int n)
{
    struct weir__edges *e = &s->c.edges;
    int count = 0;

    weir__free(e->preds);
    e->preds = weir__calloc((size_t)n, sizeof *e->preds);
    for (int v = 0; v < s->g.nnodes; v++) {
        for (int i = 0; i < n; i++)
            if (edges[i][1] == v)
                e->preds[count++] = edges[i][0];
        e->first[v + 1] = count;
    }
}

void synthetic_streams(struct synthetic *s)
{
    CHECK_OK(weir__pass_streams(&s->c));
}

void synthetic_syncs(struct synthetic *s)
{
    synthetic_streams(s);
    CHECK_OK(weir__pass_sync(&s->c));
}

void synthetic_fini(struct synthetic *s)
{
    for (int v = 0; v < s->g.nnodes; v++) {
        free(s->g.nodes[v].params);
        free(s->g.nodes[v].in);
        free(s->g.nodes[v].out);
    }
    for (int i = 0; i < s->g.nlabels; i++)
        free(s->g.labels[i]);
    free(s->g.labels);
    free(s->g.nodes);
    free(s->g.values);
    free(s->g.outputs);
    weir__compile_fini(&s->c);
}

bool *synthetic_closure(const struct synthetic *s, int skip)
{
    const struct weir__compile *c = &s->c;
    int n = s->g.nnodes;
    bool *before = calloc((size_t)n * (size_t)n, 1);

    for (int v = 0; v < n; v++) {
        if (!c->live[v])
            continue;
        for (int u = 0; u < v; u++)
            before[u * n + v] = c->live[u] && c->stream[u] == c->stream[v];
        for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++)
            if (i != skip)
                before[weir__node_at(c, c->syncs[i].stream, c->syncs[i].position) * n + v] = true;
    }
    for (int k = 0; k < n; k++)
        for (int a = 0; a < k; a++)
            for (int b = k + 1; before[a * n + k] && b < n; b++)
                before[a * n + b] |= before[k * n + b];
    return before;
}
