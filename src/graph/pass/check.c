/* Proves the plan again, from the plan alone and by another method than the passes that made it.
 *
 * The passes compute for each node what completes before it. The check goes backwards from the last
 * node and computes what comes after each node: for every stream, the first position that cannot
 * start before the node has completed. Of the values that share a byte of the arena, only
 * neighbours in program order are compared: if each completes before the next begins, all are in
 * order.
 */
#include "graph/pass/compile.h"

#include <stdlib.h>
#include <string.h>

#define NEVER INT32_MAX

struct check {
    const struct weir__compile *c;
    int *after; /* by node, then stream: the first position ordered after the node */
};

static int *after_of(const struct check *k, int v)
{
    return k->after + (size_t)v * (size_t)k->c->nstreams;
}

static bool is_before(const struct check *k, int a, int b)
{
    return k->c->position[b] >= after_of(k, a)[k->c->stream[b]];
}

static const char *name_of(const struct check *k, int v)
{
    const char *name = k->c->g->nodes[v].name;

    return name ? name : "?";
}

/* ---- order ---- */

/* Checks that streams hold each live node once, in program order. Then going backwards through the
 * program reaches the successors of a node before the node. */
static weir_status check_streams(const struct weir__compile *c)
{
    int total = 0, live = 0;

    for (int v = 0; v < c->g->nnodes; v++)
        live += c->live[v];
    for (int s = 0; s < c->nstreams; s++) {
        total += c->streams[s].nnodes;
        for (int p = 0; p < c->streams[s].nnodes; p++) {
            int v = weir__node_at(c, s, p);

            if (!c->live[v] || c->stream[v] != s || c->position[v] != p ||
                (p && weir__node_at(c, s, p - 1) >= v))
                return weir__fail(WEIR_EINTERNAL, "plan: position %d of stream %d is wrong", p, s);
        }
    }
    if (total != live)
        return weir__fail(WEIR_EINTERNAL, "plan: %d of %d nodes are on a stream", total, live);
    return WEIR_OK;
}

static weir_status check_sync(const struct weir__compile *c, const struct weir__sync *sync, int v)
{
    if (sync->stream < 0 || sync->stream >= c->nstreams || sync->position < 0 ||
        sync->position >= c->streams[sync->stream].nnodes ||
        weir__node_at(c, sync->stream, sync->position) >= v)
        return weir__fail(WEIR_EINTERNAL, "plan: node %d waits for position %d of stream %d", v,
                          sync->position, sync->stream);
    return WEIR_OK;
}

static void take_min(int *clock, const int *other, int n)
{
    for (int s = 0; s < n; s++)
        if (clock[s] > other[s])
            clock[s] = other[s];
}

/* All that comes after v is known: merges it into the nodes that directly precede v. */
static void hand_back(const struct check *k, int v)
{
    const struct weir__compile *c = k->c;
    int *after = after_of(k, v), own = after[c->stream[v]];

    after[c->stream[v]] = c->position[v]; /* seen from a predecessor of v, v itself comes after
                                           * it */
    if (c->position[v])
        take_min(after_of(k, weir__node_at(c, c->stream[v], c->position[v] - 1)), after,
                 c->nstreams);
    for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++)
        take_min(after_of(k, weir__node_at(c, c->syncs[i].stream, c->syncs[i].position)), after,
                 c->nstreams);
    after[c->stream[v]] = own;
}

static weir_status find_after(struct check *k)
{
    const struct weir__compile *c = k->c;
    size_t n = (size_t)c->g->nnodes * (size_t)c->nstreams;
    weir_status st;

    if (!(k->after = weir__malloc(n * sizeof *k->after)))
        return weir__fail_nomem("checking %d nodes", c->g->nnodes);
    for (size_t i = 0; i < n; i++)
        k->after[i] = NEVER;
    for (int v = c->g->nnodes - 1; v >= 0; v--) {
        for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++)
            if ((st = check_sync(c, &c->syncs[i], v)))
                return st;
        if (c->live[v])
            hand_back(k, v);
    }
    return WEIR_OK;
}

static weir_status check_edges(const struct check *k)
{
    const struct weir__compile *c = k->c;

    for (int v = 0; v < c->g->nnodes; v++)
        for (int i = c->edges.first[v]; c->live[v] && i < c->edges.first[v + 1]; i++) {
            int pred = c->edges.preds[i];

            if (c->live[pred] && !is_before(k, pred, v))
                return weir__fail(WEIR_EINTERNAL, "plan: %s is not ordered before %s",
                                  name_of(k, pred), name_of(k, v));
        }
    return WEIR_OK;
}

/* The last node of each stream must be on the caller's stream, be waited for at the end, or be
 * before such a node. */
static weir_status check_joins(const struct check *k)
{
    const struct weir__compile *c = k->c;
    int end = c->streams[0].nnodes;

    for (int i = 0; i < c->njoins; i++) {
        weir_status st = check_sync(c, &c->joins[i], c->g->nnodes);

        if (st)
            return st;
    }
    for (int s = 1; s < c->nstreams; s++) {
        if (!c->streams[s].nnodes)
            continue;
        int last = weir__node_at(c, s, c->streams[s].nnodes - 1);
        bool joined = after_of(k, last)[0] < end;

        for (int i = 0; i < c->njoins && !joined; i++) {
            int other = weir__node_at(c, c->joins[i].stream, c->joins[i].position);

            joined = other == last || is_before(k, last, other);
        }
        if (!joined)
            return weir__fail(WEIR_EINTERNAL, "plan: the end does not wait for %s",
                              name_of(k, last));
    }
    return WEIR_OK;
}

/* ---- memory ---- */

/* The values and scratch in the arena, in order of definition. */
struct held {
    int64_t from, to;
    int def;
};

struct arena {
    struct held *held;
    int n;
    int *by_value;
    int *over; /* by held, then stream: the first position after all its uses */
};

/* A set of the numbers 0..n-1 that finds neighbours in a few steps: bit i of a level
 * says that word i of the level below is not empty. */
#define LEVELS 6

struct number_set {
    uint64_t *level[LEVELS];
};

static void set_add(struct number_set *set, int i)
{
    for (int l = 0; l < LEVELS; l++, i /= 64)
        set->level[l][i / 64] |= UINT64_C(1) << i % 64;
}

static void set_remove(struct number_set *set, int i)
{
    for (int l = 0; l < LEVELS; l++, i /= 64)
        if (set->level[l][i / 64] &= ~(UINT64_C(1) << i % 64))
            return;
}

/* The nearest number in the set above or below i, or -1: goes up to a level whose word has a bit on
 * that side, then down along the nearest bits. */
static int set_near(const struct number_set *set, int i, bool above)
{
    int l = 0;
    uint64_t word;

    for (;; l++, i /= 64) {
        uint64_t below = (UINT64_C(1) << i % 64) - 1;

        if (l == LEVELS)
            return -1;
        word = set->level[l][i / 64] & (above ? ~below << 1 : below);
        if (i % 64 == 63 && above)
            word = 0;
        if (word)
            break;
    }
    i = i / 64 * 64 + (above ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
    while (l-- > 0) {
        word = set->level[l][i];
        i = i * 64 + (above ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
    }
    return i;
}

static bool set_init(struct number_set *set, int n)
{
    size_t words = (size_t)n;

    for (int l = 0; l < LEVELS; l++) {
        words = words / 64 + 1;
        if (!(set->level[l] = weir__calloc(words, sizeof *set->level[l])))
            return false;
    }
    return true;
}

static void set_fini(struct number_set *set)
{
    for (int l = 0; l < LEVELS; l++)
        weir__free(set->level[l]);
}

static weir_status hold(const struct check *k, struct arena *a, int64_t from, int64_t size, int def)
{
    if (from < 0 || from % 64 || from + size > (int64_t)k->c->arena_bytes)
        return weir__fail(WEIR_EINTERNAL, "plan: bytes %lld..%lld of %s are not in the arena",
                          (long long)from, (long long)(from + size), name_of(k, def));
    memset(a->over + (size_t)a->n * (size_t)k->c->nstreams, 0,
           (size_t)k->c->nstreams * sizeof *a->over);
    a->held[a->n++] = (struct held){from, from + size, def};
    return WEIR_OK;
}

static void take_over(const struct check *k, struct arena *a, int held, int node)
{
    const int *after = after_of(k, node);
    int *over = a->over + (size_t)held * (size_t)k->c->nstreams;

    for (int s = 0; s < k->c->nstreams; s++)
        if (over[s] < after[s])
            over[s] = after[s];
}

static weir_status hold_node(const struct check *k, struct arena *a, int v)
{
    const struct weir__compile *c = k->c;
    const struct weir__node *n = &c->g->nodes[v];
    weir_status st = WEIR_OK;

    for (int i = 0; i < n->nout && !st; i++) {
        const struct weir__value *value = &c->g->values[n->out[i].value];
        int64_t size = weir__view_numel(&value->view) * (int64_t)weir_dtype_size(value->view.dtype);

        if (value->node != v || c->offset[n->out[i].value] < 0 || !size)
            continue;
        a->by_value[n->out[i].value] = a->n;
        st = hold(k, a, c->offset[n->out[i].value], size, v);
    }
    if (!st && c->scratch_size[v]) {
        st = hold(k, a, c->scratch_offset[v], c->scratch_size[v], v);
        take_over(k, a, a->n - 1, v);
    }
    return st;
}

static weir_status use_operand(const struct check *k, struct arena *a, int v,
                               const struct weir__operand *o)
{
    int held = o->value == WEIR__NO_VALUE ? -1 : a->by_value[o->value];

    if (held < 0 || !weir__view_numel(&o->view))
        return WEIR_OK;
    if (v != a->held[held].def && !is_before(k, a->held[held].def, v))
        return weir__fail(WEIR_EINTERNAL, "plan: %s may use a value before %s makes it",
                          name_of(k, v), name_of(k, a->held[held].def));
    take_over(k, a, held, v);
    return WEIR_OK;
}

static weir_status fill_arena(const struct check *k, struct arena *a)
{
    const weir_graph *g = k->c->g;
    weir_status st = WEIR_OK;

    for (int i = 0; i < g->nvalues; i++)
        a->by_value[i] = -1;
    for (int v = 0; v < g->nnodes && !st; v++)
        if (k->c->live[v])
            st = hold_node(k, a, v);
    for (int v = 0; v < g->nnodes && !st; v++) {
        const struct weir__node *n = &g->nodes[v];

        for (int i = 0; k->c->live[v] && i < n->nin && !st; i++)
            st = use_operand(k, a, v, &n->in[i]);
        for (int i = 0; k->c->live[v] && i < n->nout && !st; i++)
            st = use_operand(k, a, v, &n->out[i]);
    }
    return st;
}

struct edge {
    int64_t at;
    int held;
    bool start;
};

static int by_address(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->start - y->start; /* at one address, ends come before starts: the older one is dead by
                                 * then */
}

/* Checks two neighbours on the same bytes; `low` was defined first in program order. Either may be
 * -1. */
static weir_status check_pair(const struct check *k, const struct arena *a, int low, int high)
{
    const struct weir__compile *c = k->c;

    if (low < 0 || high < 0)
        return WEIR_OK;
    int def = a->held[high].def;

    if (c->position[def] >= a->over[(size_t)low * (size_t)c->nstreams + (size_t)c->stream[def]])
        return WEIR_OK;
    return weir__fail(WEIR_EINTERNAL,
                      "plan: the results of %s and %s may be alive at once in bytes %lld..%lld and "
                      "%lld..%lld of the arena",
                      name_of(k, a->held[low].def), name_of(k, def), (long long)a->held[low].from,
                      (long long)a->held[low].to, (long long)a->held[high].from,
                      (long long)a->held[high].to);
}

static weir_status sweep_arena(const struct check *k, const struct arena *a, struct edge *edges,
                               struct number_set *set)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < a->n; i++) {
        edges[2 * i] = (struct edge){a->held[i].from, i, true};
        edges[2 * i + 1] = (struct edge){a->held[i].to, i, false};
    }
    qsort(edges, 2 * (size_t)a->n, sizeof *edges, by_address);
    for (int i = 0; i < 2 * a->n && !st; i++) {
        int held = edges[i].held;

        if (!edges[i].start) {
            set_remove(set, held);
            continue;
        }
        if (!(st = check_pair(k, a, set_near(set, held, false), held)))
            st = check_pair(k, a, held, set_near(set, held, true));
        set_add(set, held);
    }
    return st;
}

static weir_status check_memory(const struct check *k)
{
    size_t nvalues = (size_t)k->c->g->nvalues, most = nvalues + (size_t)k->c->g->nnodes;
    struct arena a = {.held = weir__calloc(most, sizeof *a.held),
                      .by_value = weir__calloc(nvalues, sizeof *a.by_value),
                      .over = weir__malloc(most * (size_t)k->c->nstreams * sizeof *a.over)};
    struct edge *edges = weir__calloc(2 * most, sizeof *edges);
    struct number_set set = {0};
    weir_status st;

    if (!a.held || !a.by_value || !a.over || !edges || !set_init(&set, (int)most))
        st = weir__fail_nomem("checking %zu values", nvalues);
    else if (!(st = fill_arena(k, &a)))
        st = sweep_arena(k, &a, edges, &set);
    set_fini(&set);
    weir__free(edges);
    weir__free(a.over);
    weir__free(a.by_value);
    weir__free(a.held);
    return st;
}

weir_status weir__pass_check(const struct weir__compile *c)
{
    struct check k = {.c = c};
    weir_status st;

    if (!(st = check_streams(c)) && !(st = find_after(&k)) && !(st = check_edges(&k)) &&
        !(st = check_joins(&k)))
        st = check_memory(&k);
    weir__free(k.after);
    return st;
}
