/* Derives the order of operators for replaying a trace. On a stream each operator runs after the
 * one before it; between streams the trace's waits order them. If those waits are guesses, more
 * order is assumed: an operator runs after the last operator of every other stream that had ended
 * when it started. Only operators that overlapped are known to be independent.
 *
 * An operator starts `delay_ns` after its last predecessor has ended, which reproduces launches,
 * waits and pauses of the host. So the program takes as long as the trace did.
 *
 * Operators that overlapped shared the device's cores: each gets at most the cores that the others
 * did not use. */
#include "trace/write/graph_order.h"

#include <stdlib.h>
#include <string.h>

/* The resolution of profilers' clocks: an operator that ended at most this long after the start of
 * another counts as ended before it. */
enum { SLACK_NS = 2000 };

static int compare_starts(const void *x, const void *y, void *user)
{
    const weir_trace_op *ops = user;
    const struct weir__graph_op *a = x, *b = y;

    if (ops[a->op].started_ns != ops[b->op].started_ns)
        return ops[a->op].started_ns < ops[b->op].started_ns ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

/* ---- edges ---- */

/* A stream's state while operators are visited in the order of their starts. */
struct stream {
    uint32_t begin, end; /* its operators in the trace */
    uint32_t started;    /* how many of them have started */
    uint32_t ended;      /* how many of them have ended when the current operator starts */
};

static bool add_edge(struct weir__graph_order *o, struct weir__graph_op *to, uint32_t from)
{
    for (uint32_t i = 0; i < to->nedges; i++)
        if (o->edges[to->first_edge + i] == from)
            return true;
    if (!weir__grow(&o->edges, o->nedges, &o->cap_edges, sizeof *o->edges))
        return false;
    o->edges[o->nedges++] = from;
    to->nedges++;
    return true;
}

static bool add_waits(struct weir__graph_order *o, const weir_trace *t, struct weir__graph_op *to)
{
    const weir_trace_op *op = &t->ops[to->op];

    for (uint32_t i = 0; i < op->nwaits; i++) {
        uint32_t source = t->waits[op->first_wait + i].source_op;
        struct weir__graph_op from = {.op = source};

        /* An operator that started later, or ended much later, was not waited for. */
        if (source == WEIR_TRACE_NONE || t->ops[source].device != op->device ||
            compare_starts(&from, to, t->ops) >= 0 ||
            t->ops[source].ended_ns > op->started_ns + SLACK_NS)
            continue;
        if (!add_edge(o, to, source))
            return false;
    }
    return true;
}

/* Adds the assumed order. seen[s] counts the operators of stream s that this stream is already
 * ordered after. */
static bool assume_order(struct weir__graph_order *o, const weir_trace *t,
                         struct weir__graph_op *to, struct stream *streams, uint32_t *seen)
{
    const weir_trace_op *op = &t->ops[to->op];
    int before = o->nedges;

    for (int s = 0; s < t->nstreams; s++) {
        struct stream *other = &streams[s];

        if ((uint32_t)s == op->stream || t->streams[s].device != op->device)
            continue;
        while (other->ended < other->started &&
               t->ops[other->begin + other->ended].ended_ns <= op->started_ns)
            other->ended++;
        if (other->ended > seen[s] && !add_edge(o, to, other->begin + other->ended - 1))
            return false;
        seen[s] = other->ended;
    }
    o->nassumed += o->nedges - before;
    return true;
}

static void find_streams(const weir_trace *t, struct stream *streams)
{
    for (int i = t->nops; i-- > 0;) {
        struct stream *s = &streams[t->ops[i].stream];

        if (!s->end)
            s->end = (uint32_t)i + 1;
        s->begin = (uint32_t)i;
    }
}

/* Returns the start of the trace: the earliest on any device, as all devices start together. */
static int64_t first_start(const weir_trace *t)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < t->nops; i++)
        first = t->ops[i].started_ns < first ? t->ops[i].started_ns : first;
    return first;
}

static bool find_edges(struct weir__graph_order *o, const weir_trace *t)
{
    int64_t begin = first_start(t);
    size_t n = (size_t)t->nstreams;
    struct stream *streams = weir__calloc(n + 1, sizeof *streams);
    uint32_t *seen = weir__calloc(n * n + 1, sizeof *seen); /* by stream, then other stream */
    bool ok = streams && seen;

    if (ok)
        find_streams(t, streams);
    for (int i = 0; i < o->nops && ok; i++) {
        struct weir__graph_op *to = &o->ops[i];
        const weir_trace_op *op = &t->ops[to->op];
        int64_t ready = begin;

        to->first_edge = (uint32_t)o->nedges;
        if (to->op > streams[op->stream].begin)
            ok = add_edge(o, to, to->op - 1);
        ok = ok && add_waits(o, t, to);
        if (ok && t->order_guessed)
            ok = assume_order(o, t, to, streams, seen + n * op->stream);
        streams[op->stream].started = to->op - streams[op->stream].begin + 1;
        for (uint32_t k = 0; k < to->nedges; k++) {
            int64_t ended = t->ops[o->edges[to->first_edge + k]].ended_ns;

            ready = ended > ready ? ended : ready;
        }
        to->delay_ns = op->started_ns > ready ? op->started_ns - ready : 0;
    }
    weir__free(streams);
    weir__free(seen);
    return ok;
}

/* ---- cores ---- */

enum { POOL_CUBE, POOL_VECTOR, POOLS };

/* Returns the cores of a pool that one block of the operator takes. */
static uint32_t per_block(const weir_trace_device *dev, const weir_trace_op *op, int pool)
{
    bool shared = dev->cores.cube > 0 && !dev->split_cores;

    if (op->engine > WEIR_ENGINE_MIX)
        return 0;
    if (shared)
        return pool == POOL_CUBE;
    return op->engine == WEIR_ENGINE_MIX ? (pool == POOL_CUBE ? 1 : 2)
                                         : (op->engine == WEIR_ENGINE_CUBE) == (pool == POOL_CUBE);
}

/* Sets the device's cores; if the trace does not say, the most that any operator used. */
static void count_cores(const weir_trace *t, const struct weir__graph_order *o,
                        const weir_trace_device *dev, uint32_t all[POOLS])
{
    all[POOL_CUBE] = (uint32_t)dev->cores.cube;
    all[POOL_VECTOR] = (uint32_t)dev->cores.vector;
    for (int i = 0; i < o->nops && !dev->cores.cube; i++)
        for (int p = 0; p < POOLS; p++) {
            uint32_t n = per_block(dev, &t->ops[o->ops[i].op], p) * o->ops[i].cores;

            all[p] = n > all[p] ? n : all[p];
        }
}

/* The operators that run when the current one starts. */
struct running {
    struct weir__graph_op **ops;
    int n;
};

/* Takes cores from the running operators, so that the new one gets up to its fair share. */
static void fit_pool(const weir_trace *t, const weir_trace_device *dev, struct running *r,
                     struct weir__graph_op *g, int pool, uint32_t all)
{
    uint32_t each = per_block(dev, &t->ops[g->op], pool);
    uint32_t fair = all / (uint32_t)(r->n + 1), used = 0, left;
    uint32_t most = each * g->cores < fair ? each * g->cores : fair;

    if (!each)
        return;
    most = most > each ? most : each;
    for (int i = 0; i < r->n; i++)
        used += per_block(dev, &t->ops[r->ops[i]->op], pool) * r->ops[i]->cores;
    for (int i = 0; i < r->n && used + most > all; i++) {
        struct weir__graph_op *other = r->ops[i];
        uint32_t theirs = per_block(dev, &t->ops[other->op], pool), has = theirs * other->cores;
        uint32_t take = used + most - all;

        if (has <= fair || !theirs)
            continue;
        take = take < has - fair ? take : has - fair;
        take = (take + theirs - 1) / theirs;
        take = take < other->cores ? take : other->cores - 1;
        other->cores -= take;
        used -= take * theirs;
    }
    left = used < all ? all - used : 0;
    if (g->cores > left / each)
        g->cores = left / each ? left / each : 1;
}

static bool share_cores(struct weir__graph_order *o, const weir_trace *t, uint32_t device)
{
    const weir_trace_device *dev = &t->devices[device];
    struct running r = {weir__malloc((size_t)(o->nops + 1) * sizeof *r.ops), 0};
    uint32_t all[POOLS];

    if (!r.ops)
        return false;
    count_cores(t, o, dev, all);
    for (int i = 0; i < o->nops; i++) {
        struct weir__graph_op *g = &o->ops[i];
        int n = 0;

        for (int k = 0; k < r.n; k++)
            if (t->ops[r.ops[k]->op].ended_ns > t->ops[g->op].started_ns)
                r.ops[n++] = r.ops[k];
        r.n = n;
        for (int p = 0; p < POOLS; p++) {
            uint32_t each = per_block(dev, &t->ops[g->op], p);

            if (all[p])
                fit_pool(t, dev, &r, g, p, all[p]);
            if (each && (!g->of || all[p] / each < g->of))
                g->of = all[p] / each;
        }
        r.ops[r.n++] = g;
    }
    weir__free(r.ops);
    return true;
}

/* ---- entry points ---- */

static uint32_t cores_used(const weir_trace_op *op)
{
    uint32_t most = op->cores < op->blocks ? op->cores : op->blocks;

    /* If blocks were recorded, no more cores than blocks were used. */
    if (op->nparts && op->nparts < most)
        most = op->nparts;
    return most ? most : 1;
}

weir_status weir__graph_order_init(struct weir__graph_order *o, const weir_trace *t,
                                   uint32_t device)
{
    *o = (struct weir__graph_order){0};
    if (!(o->ops = weir__calloc((size_t)t->nops + 1, sizeof *o->ops)))
        return weir__fail_nomem("allocating a graph of %d operators", t->nops);
    for (int i = 0; i < t->nops; i++)
        if (t->ops[i].device == device)
            o->ops[o->nops++] =
                (struct weir__graph_op){.op = (uint32_t)i, .cores = cores_used(&t->ops[i])};
    qsort_r(o->ops, (size_t)o->nops, sizeof *o->ops, compare_starts, t->ops);
    if (!find_edges(o, t) || !share_cores(o, t, device))
        return weir__fail_nomem("allocating a graph of %d operators", t->nops);
    return WEIR_OK;
}

void weir__graph_order_fini(struct weir__graph_order *o)
{
    weir__free(o->ops);
    weir__free(o->edges);
    *o = (struct weir__graph_order){0};
}
