/* Starting points of the search: placements that are often good. */
#include "graph/predict/tune_state.h"

#define ALL_PLACEMENTS 6000 /* up to this many placements, all are tried */

/* ---- engines on separate streams ---- */

static void try_apart(struct weir__tuner *t, bool (*apart)(const struct weir__tune_unit *u))
{
    weir__tune_copy(t, t->now, t->input);
    for (int u = 0; u < t->nunits; u++)
        if (t->units[u].moves && apart(&t->units[u]))
            t->now[weir__at_stream(t, u)] = t->nfiled;
    weir__tune_offer(t, t->now, false, NULL);
}

static bool is_comm(const struct weir__tune_unit *u)
{
    return u->comm;
}
static bool is_vector(const struct weir__tune_unit *u)
{
    return u->pool == WEIR__POOL_VECTOR;
}
static bool is_vector_compute(const struct weir__tune_unit *u)
{
    return u->pool == WEIR__POOL_VECTOR && !u->comm;
}
static bool is_other(const struct weir__tune_unit *u)
{
    return u->pool == WEIR__POOL_SDMA || u->pool == WEIR__POOL_HOST;
}

/* ---- list scheduling ---- */

/* List scheduling of one graph: of the ready nodes, the one with the longest path behind it goes
 * first, to the stream where it ends first. Times are rough; the model judges the result. */
struct list {
    struct weir__tuner *t;
    const struct weir__tune_graph *g;
    uint64_t *urgency, *ready, *start;
    uint64_t free_at[64], pool_free[WEIR__POOLS];
    int nstreams;
};

static uint64_t alone(const struct list *l, int v)
{
    const struct weir__tune_unit *u = &l->t->units[l->g->unit[v]];

    return u->alone / (uint64_t)u->nmembers + 1;
}

static void place(struct list *l, int v, int *setting)
{
    struct weir__tuner *t = l->t;
    int unit = l->g->unit[v], best = -1;
    const struct weir__tune_unit *u = &t->units[unit];
    uint64_t from = l->ready[v], end = 0;

    if (u->wide && from < l->pool_free[u->pool])
        from = l->pool_free[u->pool];
    for (int s = 0; s < l->nstreams; s++) {
        uint64_t at = from > l->free_at[s] ? from : l->free_at[s];

        if (!u->moves && s != u->stream)
            continue;
        if (best < 0 || at + alone(l, v) < end) {
            best = s;
            end = at + alone(l, v);
        }
    }
    if (best < 0) /* a stream beyond the counted ones */
        return;
    setting[weir__at_stream(t, unit)] = best;
    l->free_at[best] = end;
    l->start[v] = end - alone(l, v);
    if (u->wide)
        l->pool_free[u->pool] = end;
    for (int k = l->g->first[v]; k < l->g->first[v + 1]; k++)
        if (l->ready[l->g->next[k]] < end)
            l->ready[l->g->next[k]] = end;
}

/* Takes nodes whose predecessors are placed, the most urgent first. */
static void run_list(struct list *l, int *setting, bool reorder)
{
    struct weir__tuner *t = l->t;
    int n = l->g->from->nnodes, nopen = 0;

    for (int v = 0; v < n; v++)
        if (!(t->degree[v] = l->g->nbefore[v]))
            t->heap[nopen++] = v;
    for (int i = 0; i < n; i++) {
        int pick = 0, v;

        for (int k = 1; k < nopen; k++)
            if (l->urgency[t->heap[k]] > l->urgency[t->heap[pick]] ||
                (l->urgency[t->heap[k]] == l->urgency[t->heap[pick]] && t->heap[k] < t->heap[pick]))
                pick = k;
        v = t->heap[pick];
        t->heap[pick] = t->heap[--nopen];
        place(l, v, setting);
        if (reorder)
            setting[weir__at_shift(t, l->g->unit[v])] = i - v;
        for (int k = l->g->first[v]; k < l->g->first[v + 1]; k++)
            if (!--t->degree[l->g->next[k]])
                t->heap[nopen++] = l->g->next[k];
    }
}

static void try_list(struct weir__tuner *t, int added, bool reorder)
{
    int n = t->graphs[0].from->nnodes;
    struct list l = {.t = t, .g = &t->graphs[0], .nstreams = t->nfiled + added};

    if (l.nstreams > (int)weir__countof(l.free_at))
        return;
    l.urgency = weir__calloc(3 * (size_t)n + 1, sizeof *l.urgency);
    if (!l.urgency) {
        t->status = weir__fail_nomem("allocating a list of %d nodes", n);
        return;
    }
    l.ready = l.urgency + n;
    l.start = l.ready + n;
    for (int v = n - 1; v >= 0; v--) {
        for (int k = l.g->first[v]; k < l.g->first[v + 1]; k++)
            if (l.urgency[v] < l.urgency[l.g->next[k]])
                l.urgency[v] = l.urgency[l.g->next[k]];
        l.urgency[v] += alone(&l, v);
    }
    weir__tune_copy(t, t->now, t->input);
    run_list(&l, t->now, reorder);
    weir__free(l.urgency);
    weir__tune_offer(t, t->now, false, NULL);
}

/* ---- all placements ---- */

/* The number of streams for the k-th moving unit if `used` new ones are in use: one more than
 * those, since unused streams are interchangeable. */
static int choices(const struct weir__tuner *t, int used)
{
    int n = t->nfiled + used + 1;

    return n < t->nstreams ? n : t->nstreams;
}

static double count_all(const struct weir__tuner *t, int nmoving, int used)
{
    if (!nmoving)
        return 1;
    return (t->nfiled + used) * count_all(t, nmoving - 1, used) +
           (choices(t, used) > t->nfiled + used ? count_all(t, nmoving - 1, used + 1) : 0);
}

static void try_all(struct weir__tuner *t, const int *moving, int nmoving, int at, int used)
{
    for (int s = 0; s < choices(t, used) && weir__tune_goes_on(t, 0.5); s++) {
        int more = s >= t->nfiled + used ? used + 1 : used;

        t->now[weir__at_stream(t, moving[at])] = s;
        if (at + 1 < nmoving)
            try_all(t, moving, nmoving, at + 1, more);
        else
            weir__tune_offer(t, t->now, false, NULL);
    }
}

void weir__tune_seeds(struct weir__tuner *t)
{
    bool (*const kinds[])(const struct weir__tune_unit *) = {is_comm, is_vector, is_vector_compute,
                                                             is_other};
    int moving[16], nmoving = 0;

    for (size_t i = 0; i < weir__countof(kinds) && weir__tune_goes_on(t, 0.5); i++)
        try_apart(t, kinds[i]);
    for (int added = 0; added <= WEIR__TUNE_NEW_STREAMS && weir__tune_goes_on(t, 0.5); added++) {
        try_list(t, added, false);
        if (!t->options->keep_order)
            try_list(t, added, true);
    }
    for (int u = 0; u < t->nunits && nmoving < (int)weir__countof(moving); u++)
        if (t->units[u].moves)
            moving[nmoving++] = u;
    if (nmoving && nmoving < (int)weir__countof(moving) &&
        count_all(t, nmoving, 0) <= ALL_PLACEMENTS) {
        weir__tune_copy(t, t->now, t->input);
        try_all(t, moving, nmoving, 0, 0);
    }
}
