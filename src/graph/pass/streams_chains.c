/* The placements that streams=auto chooses from. */
#include "graph/pass/streams.h"

#include <string.h>

/* ---- earliest start ---- */

struct earliest {
    const struct weir__compile *c;
    const struct weir__estimates *e;
    double sync_ns;
    int *stream;
    double *finish;                     /* by node */
    double *available;                  /* by stream */
    double full_until[WEIR__SIM_POOLS]; /* when the last node that fills the pool ends */
};

static double start_on(const struct earliest *p, int v, int s, int latest)
{
    const struct weir__edges *edges = &p->c->edges;
    double start = p->available[s];

    for (int i = edges->first[v]; i < edges->first[v + 1]; i++) {
        int u = edges->preds[i];
        double ready = p->finish[u] + (p->stream[u] == s ? 0 : p->sync_ns);

        if (p->c->live[u] && start < ready)
            start = ready;
    }
    /* Among equal streams, takes the one of the last node that it waits for: then no sync is
     * needed. */
    return latest == s ? start - 1e-3 : start;
}

/* The stream of the predecessor that ends last, or -1. */
static int latest_stream(const struct earliest *p, int v)
{
    const struct weir__edges *edges = &p->c->edges;
    int latest = -1;

    for (int i = edges->first[v]; i < edges->first[v + 1]; i++) {
        int u = edges->preds[i];

        if (p->c->live[u] && (latest < 0 || p->finish[u] > p->finish[latest]))
            latest = u;
    }
    return latest < 0 ? -1 : p->stream[latest];
}

static void set_finish(struct earliest *p, int v)
{
    const struct weir__placement_cost *e = &p->e->node[v];
    int s = p->stream[v];
    double start = start_on(p, v, s, -1);
    bool fills = e->width >= p->e->capacity[e->pool];

    if (fills && start < p->full_until[e->pool])
        start = p->full_until[e->pool];
    p->finish[v] = p->available[s] = start + e->ns / e->width;
    if (fills)
        p->full_until[e->pool] = p->finish[v];
}

weir_status weir__place_earliest(const struct weir__compile *c, const struct weir__estimates *e,
                                 const bool *movable, int first, int n, double sync_ns, int *stream)
{
    struct earliest p = {.c = c, .e = e, .sync_ns = sync_ns, .stream = stream};

    p.finish = weir__calloc((size_t)c->g->nnodes, sizeof *p.finish);
    p.available = weir__calloc((size_t)(first + n), sizeof *p.available);
    if (!p.finish || !p.available) {
        weir__free(p.available);
        weir__free(p.finish);
        return weir__fail_nomem("placing %d nodes", c->g->nnodes);
    }
    for (int v = 0; v < c->g->nnodes; v++) {
        stream[v] = c->stream[v];
        if (!c->live[v])
            continue;
        if (movable[v]) {
            int latest = latest_stream(&p, v);
            double best = start_on(&p, v, 0, latest);

            stream[v] = 0;
            for (int s = first; s < first + n; s++) {
                double start = start_on(&p, v, s, latest);

                if (start < best) {
                    best = start;
                    stream[v] = s;
                }
            }
        }
        set_finish(&p, v);
    }
    weir__free(p.available);
    weir__free(p.finish);
    return WEIR_OK;
}

/* ---- chains ---- */

struct chains {
    const struct weir__compile *c;
    const bool *movable;
    size_t words;
    uint64_t *before;   /* by node: a bit for each node that comes before it */
    int *next, *prev;   /* the match of each node on either side, or -1 */
    int *first, *succs; /* edges of the minimum equivalent graph between movable nodes */
    int *seen;          /* by node: the round that tried it */
};

static uint64_t *before_of(const struct chains *h, int v)
{
    return h->before + (size_t)v * h->words;
}

static void close_order(struct chains *h)
{
    const struct weir__compile *c = h->c;

    for (int v = 0; v < c->g->nnodes; v++) {
        uint64_t *before = before_of(h, v);

        for (int i = c->edges.first[v]; c->live[v] && i < c->edges.first[v + 1]; i++) {
            int u = c->edges.preds[i];
            const uint64_t *earlier = before_of(h, u);

            if (!c->live[u])
                continue;
            for (size_t w = 0; w < h->words; w++)
                before[w] |= earlier[w];
            before[u / 64] |= UINT64_C(1) << u % 64;
        }
    }
}

/* Whether the edge is needed: it is redundant if another predecessor of v comes after u. */
static bool is_needed(const struct chains *h, int u, int v)
{
    const struct weir__edges *edges = &h->c->edges;

    for (int i = edges->first[v]; i < edges->first[v + 1]; i++) {
        int other = edges->preds[i];

        if (h->c->live[other] && before_of(h, other)[u / 64] >> u % 64 & 1)
            return false;
    }
    return true;
}

static void list_succs(struct chains *h)
{
    const struct weir__compile *c = h->c;

    /* Counts are stored two places ahead, so that filling leaves each `first` at its final
     * value. */
    for (int fill = 0; fill <= 1; fill++) {
        for (int v = 0; v < c->g->nnodes; v++)
            for (int i = c->edges.first[v]; h->movable[v] && i < c->edges.first[v + 1]; i++) {
                int u = c->edges.preds[i];

                if (!h->movable[u] || !is_needed(h, u, v))
                    continue;
                if (fill)
                    h->succs[h->first[u + 1]++] = v;
                else
                    h->first[u + 2]++;
            }
        for (int u = 0; !fill && u < c->g->nnodes; u++)
            h->first[u + 2] += h->first[u + 1];
    }
}

/* Finds a successor for u. If necessary, rematches other nodes to other successors. */
static bool match(struct chains *h, int u, int round)
{
    for (int i = h->first[u]; i < h->first[u + 1]; i++) {
        int v = h->succs[i];

        if (h->seen[v] == round)
            continue;
        h->seen[v] = round;
        if (h->prev[v] < 0 || match(h, h->prev[v], round)) {
            h->prev[v] = u;
            h->next[u] = v;
            return true;
        }
    }
    return false;
}

/* Chains beyond the n-th share streams: each is appended to a stream whose last chain ends before
 * it in the program, or else to the stream with the fewest nodes. */
static void fold_chains(const struct chains *h, int first, int n, int *last, int *load, int *stream,
                        int *nchains)
{
    for (int k = 0; k <= n; k++) {
        last[k] = -1;
        load[k] = 0;
    }
    *nchains = 0;
    for (int head = 0; head < h->c->g->nnodes; head++) {
        int k = 0;

        if (!h->movable[head] || h->prev[head] >= 0)
            continue;
        if (*nchains <= n) {
            k = *nchains;
        } else {
            for (int other = 0; other <= n; other++)
                if ((last[other] < head) > (last[k] < head) ||
                    ((last[other] < head) == (last[k] < head) && load[other] < load[k]))
                    k = other;
        }
        ++*nchains;
        for (int v = head; v >= 0; v = h->next[v]) {
            stream[v] = k ? first + k - 1 : 0;
            last[k] = (int)weir__max(last[k], v);
            load[k]++;
        }
    }
}

weir_status weir__place_chains(const struct weir__compile *c, const bool *movable, int first, int n,
                               int *stream, int *nchains)
{
    size_t nnodes = (size_t)c->g->nnodes;
    struct chains h = {.c = c, .movable = movable, .words = nnodes / 64 + 1};
    weir_status st = WEIR_OK;
    int *folds;

    h.before = weir__calloc(nnodes, h.words * sizeof *h.before);
    h.next = weir__calloc(3 * nnodes, sizeof *h.next);
    h.first = weir__calloc(nnodes + 2, sizeof *h.first);
    h.succs = weir__calloc((size_t)c->edges.first[nnodes], sizeof *h.succs);
    folds = weir__calloc(2 * ((size_t)n + 1), sizeof *folds);
    if (h.before && h.next && h.first && h.succs && folds) {
        h.prev = h.next + nnodes;
        h.seen = h.prev + nnodes;
        memset(h.next, -1, 3 * nnodes * sizeof *h.next);
        close_order(&h);
        list_succs(&h);
        for (int u = 0; u < c->g->nnodes; u++)
            if (movable[u])
                match(&h, u, u);
        memcpy(stream, c->stream, nnodes * sizeof *stream);
        fold_chains(&h, first, n, folds, folds + n + 1, stream, nchains);
    } else {
        st = weir__fail_nomem("allocating chains of %zu nodes", nnodes);
    }
    weir__free(folds);
    weir__free(h.succs);
    weir__free(h.first);
    weir__free(h.next);
    weir__free(h.before);
    return st;
}

/* ---- siblings ---- */

struct siblings {
    const struct weir__compile *c;
    int first;
    int *stream;
    int *fork;  /* by node on an added stream: the node whose result the stream's first node read */
    int *taken; /* by node: products that read its result */
};

/* The last node that v waits for, or -1. */
static int last_pred(const struct weir__compile *c, int v)
{
    int last = -1;

    for (int i = c->edges.first[v]; i < c->edges.first[v + 1]; i++)
        if (c->live[c->edges.preds[i]])
            last = (int)weir__max(last, c->edges.preds[i]);
    return last;
}

/* Puts v on the first added stream that it waits for. Puts it on the caller's stream if there is
 * none, or if v also waits for a node of other streams that comes after the stream's fork. */
static void follow(const struct siblings *p, int v)
{
    const struct weir__edges *edges = &p->c->edges;
    int s = 0, fork = 0;

    for (int i = edges->first[v]; i < edges->first[v + 1]; i++) {
        int u = edges->preds[i];

        if (p->c->live[u] && p->stream[u] >= p->first && (!s || p->stream[u] < s)) {
            s = p->stream[u];
            fork = p->fork[u];
        }
    }
    for (int i = edges->first[v]; s && i < edges->first[v + 1]; i++) {
        int u = edges->preds[i];

        if (p->c->live[u] && p->stream[u] < p->first && u > fork)
            s = 0;
    }
    p->stream[v] = s;
    p->fork[v] = fork;
}

weir_status weir__place_siblings(const struct weir__compile *c, const bool *movable, int first,
                                 int n, int *stream)
{
    size_t nnodes = (size_t)c->g->nnodes;
    struct siblings p = {.c = c, .first = first, .stream = stream};

    if (!(p.fork = weir__calloc(2 * nnodes, sizeof *p.fork)))
        return weir__fail_nomem("placing %zu nodes", nnodes);
    p.taken = p.fork + nnodes;
    for (int v = 0; v < c->g->nnodes; v++) {
        int u = last_pred(c, v);

        stream[v] = c->stream[v];
        if (!c->live[v] || !movable[v])
            continue;
        if (n > 0 && u >= 0 && weir__node_engine(&c->g->nodes[v]) == WEIR_ENGINE_CUBE &&
            p.taken[u]++) {
            stream[v] = first + (p.taken[u] - 2) % n;
            p.fork[v] = u;
        } else {
            follow(&p, v);
        }
    }
    weir__free(p.fork);
    return WEIR_OK;
}
