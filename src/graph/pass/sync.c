/* Chooses the waits between streams: the fewest that order every edge.
 *
 * Given stream order, the needed waits are the edges of the transitive reduction, which is unique:
 * an edge that crosses streams is needed unless another path joins its ends. Clocks answer that in
 * constant time. Of several edges into a node from one stream only the last counts. It is needed
 * unless the previous node on the same stream, or another wait of the node, is already ordered
 * after it.
 */
#include "graph/pass/compile.h"

#include <string.h>

struct pass {
    struct weir__compile *c;
    int *clock;   /* by node, then stream, as in struct weir__reach */
    int *latest;  /* by stream: the last position waited for, or -1 */
    int *reached; /* by stream: positions that have completed once all waits so far have ended */
    int *streams; /* streams with latest >= 0 */
    int nstreams; /* the number of `streams` */
    int cap_syncs;
};

static int *clock_of(const struct pass *p, int v)
{
    return p->clock + (size_t)v * (size_t)p->c->nstreams;
}

static void want(struct pass *p, int stream, int position)
{
    if (p->latest[stream] < 0)
        p->streams[p->nstreams++] = stream;
    if (p->latest[stream] < position)
        p->latest[stream] = position;
}

static weir_status add_sync(struct pass *p, int stream, int position)
{
    struct weir__compile *c = p->c;

    if (c->nsyncs == p->cap_syncs) {
        int cap = p->cap_syncs ? 2 * p->cap_syncs : 64;
        struct weir__sync *bigger = weir__calloc((size_t)cap, sizeof *bigger);

        if (!bigger)
            return weir__fail_nomem("allocating %d syncs", cap);
        if (c->nsyncs)
            memcpy(bigger, c->syncs, (size_t)c->nsyncs * sizeof *bigger);
        weir__free(c->syncs);
        c->syncs = bigger;
        p->cap_syncs = cap;
    }
    c->syncs[c->nsyncs++] = (struct weir__sync){stream, position};
    return WEIR_OK;
}

/* Adds the needed waits beyond `clock`, the positions that complete without any wait, and updates
 * the clock. Empties the set of wanted waits. */
static weir_status add_needed(struct pass *p, int *clock)
{
    struct weir__compile *c = p->c;
    weir_status st = WEIR_OK;

    if (!p->nstreams)
        return WEIR_OK;
    memcpy(p->reached, clock, (size_t)c->nstreams * sizeof *clock);
    for (int i = 0; i < p->nstreams; i++) {
        int s = p->streams[i];

        if (p->latest[s] >= clock[s])
            weir__reach_max(p->reached, clock_of(p, weir__node_at(c, s, p->latest[s])),
                            c->nstreams);
    }
    for (int i = 0; i < p->nstreams && !st; i++) {
        int s = p->streams[i];

        /* The clock of a node does not count that node itself, so only another wait can make this
         * one redundant. */
        if (p->latest[s] >= p->reached[s]) {
            st = add_sync(p, s, p->latest[s]);
            p->reached[s] = p->latest[s] + 1;
        }
    }
    memcpy(clock, p->reached, (size_t)c->nstreams * sizeof *clock);
    for (int i = 0; i < p->nstreams; i++)
        p->latest[p->streams[i]] = -1;
    p->nstreams = 0;
    return st;
}

static void want_preds(struct pass *p, int v)
{
    struct weir__compile *c = p->c;

    for (int i = c->edges.first[v]; i < c->edges.first[v + 1]; i++) {
        int pred = c->edges.preds[i];

        if (c->live[pred] && c->stream[pred] != c->stream[v])
            want(p, c->stream[pred], c->position[pred]);
    }
}

/* Whether w is likely to be in one launch with v, provided that it has no waits and all its
 * predecessors come before v in the program. */
static bool can_wait_at(const struct weir__compile *c, int v, int w)
{
    const struct weir__node *a = &c->g->nodes[v], *b = &c->g->nodes[w];
    bool follows = false;

    if (weir__node_engine(a) != WEIR_ENGINE_VECTOR || weir__node_engine(b) != WEIR_ENGINE_VECTOR ||
        !a->nout || !b->nout ||
        weir__view_numel(&a->out[0].view) != weir__view_numel(&b->out[0].view))
        return false;
    for (int i = c->edges.first[w]; i < c->edges.first[w + 1]; i++) {
        follows |= c->edges.preds[i] == v;
        if (c->live[c->edges.preds[i]] && c->edges.preds[i] > v)
            return false;
    }
    return follows;
}

static weir_status sync_node(struct pass *p, int v)
{
    struct weir__compile *c = p->c;
    int stream = c->stream[v], position = c->position[v];
    int *clock = clock_of(p, v);

    if (position) {
        int before = weir__node_at(c, stream, position - 1);

        memcpy(clock, clock_of(p, before), (size_t)c->nstreams * sizeof *clock);
        clock[stream] = position;
    }
    want_preds(p, v);
    /* If siblings are multiplied with each other, this node also waits for what the next one needs:
     * then silu(gate) * up stays one launch. */
    if (c->options.streams == WEIR_STREAMS_SIBLINGS && position + 1 < c->streams[stream].nnodes &&
        can_wait_at(c, v, weir__node_at(c, stream, position + 1)))
        want_preds(p, weir__node_at(c, stream, position + 1));
    return add_needed(p, clock);
}

/* The waits of the caller's stream at the end, so that everything has completed. Computed as for a
 * node, then moved from the end of the list to joins. */
static weir_status sync_end(struct pass *p)
{
    struct weir__compile *c = p->c;
    int nnodes = c->streams[0].nnodes, before = c->nsyncs;
    int *clock = weir__calloc((size_t)c->nstreams, sizeof *clock);
    weir_status st;

    if (!clock)
        return weir__fail_nomem("allocating joins of %d streams", c->nstreams);
    if (nnodes) {
        memcpy(clock, clock_of(p, weir__node_at(c, 0, nnodes - 1)),
               (size_t)c->nstreams * sizeof *clock);
        clock[0] = nnodes;
    }
    for (int s = 1; s < c->nstreams; s++)
        if (c->streams[s].nnodes)
            want(p, s, c->streams[s].nnodes - 1);
    st = add_needed(p, clock);
    weir__free(clock);
    if (st)
        return st;
    c->njoins = c->nsyncs - before;
    c->nsyncs = before;
    if (!(c->joins = weir__calloc((size_t)c->njoins, sizeof *c->joins)))
        return weir__fail_nomem("allocating %d joins", c->njoins);
    if (c->njoins)
        memcpy(c->joins, c->syncs + before, (size_t)c->njoins * sizeof *c->joins);
    return WEIR_OK;
}

static weir_status sync_all(struct pass *p)
{
    struct weir__compile *c = p->c;
    weir_status st = WEIR_OK;

    for (int v = 0; v < c->g->nnodes && !st; v++) {
        c->sync_first[v] = c->nsyncs;
        if (c->live[v])
            st = sync_node(p, v);
    }
    c->sync_first[c->g->nnodes] = c->nsyncs;
    return st ? st : sync_end(p);
}

weir_status weir__pass_sync(struct weir__compile *c)
{
    size_t nnodes = (size_t)c->g->nnodes, n = (size_t)c->nstreams;
    struct pass p = {.c = c};
    weir_status st;

    c->sync_first = weir__calloc(nnodes + 1, sizeof *c->sync_first);
    if (c->nstreams == 1)
        return c->sync_first ? WEIR_OK : weir__fail_nomem("placing the syncs of %zu nodes", nnodes);
    p.clock = weir__calloc(nnodes, n * sizeof *p.clock);
    p.latest = weir__calloc(3 * n, sizeof *p.latest);
    if (c->sync_first && p.clock && p.latest) {
        p.reached = p.latest + n;
        p.streams = p.reached + n;
        memset(p.latest, -1, n * sizeof *p.latest);
        st = sync_all(&p);
    } else {
        st = weir__fail_nomem("placing the syncs of %zu nodes on %zu streams", nnodes, n);
    }
    weir__free(p.latest);
    weir__free(p.clock);
    return st;
}
