#include "graph/predict/advise.h"

#include <stdlib.h>

#define LOOKED_AT 48 /* the longest operators of a graph, from which pairs are made */
#define MOST_PAIRS 20
#define MOST_LIMITS 8

const char *const weir__apart_names[WEIR__APARTS] = {"data", "stream", "engine", "order"};

/* One graph as the first of its ranks ran it. */
struct view {
    struct weir__advice *a;
    uint32_t rank;
    const struct weir__predict_graph *pg;
    const struct weir__sim_span *spans;
    int *stream;            /* by node */
    bool *reached;          /* by node: depends on the node under examination */
    int longest[LOOKED_AT]; /* nodes */
    int nlongest;
};

static uint64_t length(const struct view *v, int node)
{
    return v->spans[node].end - v->spans[node].start;
}

static bool ran(const struct view *v, int node)
{
    return v->pg->c.live[node] && v->spans[node].end != UINT64_MAX;
}

static void find_longest(struct view *v)
{
    for (int n = 0; n < v->pg->g->nnodes; n++) {
        int at = v->nlongest;

        if (!ran(v, n) || !length(v, n))
            continue;
        if (at == LOOKED_AT && length(v, v->longest[at - 1]) >= length(v, n))
            continue;
        if (at == LOOKED_AT)
            at--;
        else
            v->nlongest++;
        for (; at && length(v, v->longest[at - 1]) < length(v, n); at--)
            v->longest[at] = v->longest[at - 1];
        v->longest[at] = n;
    }
}

/* Marks the nodes that depend on `from`, over any number of edges. */
static void reach(struct view *v, int from)
{
    const struct weir__edges *e = &v->pg->c.edges;

    for (int n = 0; n < v->pg->g->nnodes; n++) {
        v->reached[n] = n == from;
        for (int i = e->first[n]; i < e->first[n + 1] && n > from && !v->reached[n]; i++)
            v->reached[n] = v->reached[e->preds[i]];
    }
}

static bool is_edge(const struct view *v, int from, int to)
{
    const struct weir__edges *e = &v->pg->c.edges;

    for (int i = e->first[to]; i < e->first[to + 1]; i++)
        if (e->preds[i] == from)
            return true;
    return false;
}

/* ---- pairs ---- */

static int by_most(const void *a, const void *b)
{
    const struct weir__advice_pair *x = a, *y = b;

    if ((x->why == WEIR__APART_DATA) != (y->why == WEIR__APART_DATA))
        return x->why == WEIR__APART_DATA ? 1 : -1;
    if (x->most != y->most)
        return x->most < y->most ? 1 : -1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->second > y->second) - (x->second < y->second);
}

static bool overlap(const struct view *v, int a, int b)
{
    return v->spans[a].start < v->spans[b].end && v->spans[b].start < v->spans[a].end;
}

/* Adds a pair; first is before second in the graph. Data edges between engines are reported too,
 * because smaller pieces could overlap; those within one engine are not. */
static weir_status add_pair(struct view *v, int first, int second, int *cap)
{
    struct weir__advice *a = v->a;
    const struct weir__sim_span *late = &v->spans[second];
    int n = (int)a->npairs;
    enum weir__apart why = WEIR__APART_ORDER;

    if (v->spans[first].start > late->start)
        late = &v->spans[first];
    if (v->reached[second]) {
        if (!is_edge(v, first, second) || v->pg->engine[first] == v->pg->engine[second])
            return WEIR_OK;
        why = WEIR__APART_DATA;
    } else if (v->stream[first] == v->stream[second]) {
        why = WEIR__APART_STREAM;
    } else if (late->cause == WEIR__CAUSE_CORES &&
               late->cause_node == (uint32_t)(late == &v->spans[second] ? first : second)) {
        why = WEIR__APART_ENGINE;
    }
    if (!weir__grow(&a->pairs, n, cap, sizeof *a->pairs))
        return WEIR_ENOMEM;
    a->pairs[a->npairs++] = (struct weir__advice_pair){
        .rank = v->rank,
        .first = (uint32_t)first,
        .second = (uint32_t)second,
        .why = why,
        .most = (uint64_t)weir__min((int64_t)length(v, first), (int64_t)length(v, second)),
    };
    return WEIR_OK;
}

static weir_status add_pairs(struct view *v, int *cap)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < v->nlongest; i++) {
        reach(v, v->longest[i]);
        for (int k = 0; k < v->nlongest && !st; k++)
            if (v->longest[k] > v->longest[i] && !overlap(v, v->longest[i], v->longest[k]))
                st = add_pair(v, v->longest[i], v->longest[k], cap);
    }
    return st;
}

/* ---- competition for cores ---- */

static weir_status add_fights(struct view *v, int *cap)
{
    struct weir__advice *a = v->a;

    for (int n = 0; n < v->pg->g->nnodes; n++) {
        const struct weir__sim_span *s = &v->spans[n];
        const struct weir__sim_op *op = weir__predict_op(v->pg, n);
        size_t at = 0;
        struct weir__advice_fight f = {.rank = v->rank, .pool = WEIR__POOL_VECTOR};

        if (!ran(v, n) || s->cause != WEIR__CAUSE_CORES || s->start == s->ready ||
            v->stream[n] == v->stream[s->cause_node])
            continue;
        f.loser = (uint32_t)v->stream[n];
        f.winner = (uint32_t)v->stream[s->cause_node];
        for (int p = WEIR__POOLS - 1; p >= 0; p--)
            if (op->per_block[p] && weir__predict_op(v->pg, (int)s->cause_node)->per_block[p])
                f.pool = p;
        while (at < a->nfights &&
               (a->fights[at].rank != f.rank || a->fights[at].loser != f.loser ||
                a->fights[at].winner != f.winner || a->fights[at].pool != f.pool))
            at++;
        if (at == a->nfights) {
            if (!weir__grow(&a->fights, (int)a->nfights, cap, sizeof *a->fights))
                return WEIR_ENOMEM;
            a->fights[a->nfights++] = f;
        }
        a->fights[at].waited += s->start - s->ready;
        a->fights[at].times++;
    }
    return WEIR_OK;
}

static int by_waited(const void *a, const void *b)
{
    const struct weir__advice_fight *x = a, *y = b;

    if (x->waited != y->waited)
        return x->waited < y->waited ? 1 : -1;
    return x->loser != y->loser ? (x->loser > y->loser) - (x->loser < y->loser)
                                : (x->winner > y->winner) - (x->winner < y->winner);
}

/* ---- communication ---- */

static weir_status add_comms(struct view *v, int *cap)
{
    struct weir__advice *a = v->a;
    int n = v->pg->g->nnodes;

    for (int c = 0; c < n; c++) {
        struct weir__advice_comm comm = {.rank = v->rank, .node = (uint32_t)c};
        uint64_t at, next;

        if (!ran(v, c) || !weir__predict_op(v->pg, c)->comm)
            continue;
        comm.took = length(v, c);
        /* Adds the time from each moment at which nothing computes to the next start of a
         * computation. */
        for (at = v->spans[c].start; at < v->spans[c].end; at = next) {
            uint64_t busy = at;

            next = v->spans[c].end;
            for (int o = 0; o < n; o++) {
                if (!ran(v, o) || weir__predict_op(v->pg, o)->comm)
                    continue;
                if (v->spans[o].start <= at && v->spans[o].end > busy)
                    busy = v->spans[o].end;
                if (v->spans[o].start > at && v->spans[o].start < next)
                    next = v->spans[o].start;
            }
            if (busy > at)
                next = busy;
            else
                comm.exposed += next - at;
        }
        if (!weir__grow(&a->comms, (int)a->ncomms, cap, sizeof *a->comms))
            return WEIR_ENOMEM;
        a->comms[a->ncomms++] = comm;
    }
    return WEIR_OK;
}

static int by_exposed(const void *a, const void *b)
{
    const struct weir__advice_comm *x = a, *y = b;

    if (x->exposed != y->exposed)
        return x->exposed < y->exposed ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

/* ---- what if ---- */

/* The makespan if one node had other marks. */
static weir_status ask(const struct view *v, weir_graph *const *graphs, int node,
                       const struct weir__marks *marks, uint64_t *alone, uint64_t *makespan)
{
    weir_graph *g = graphs[v->rank];
    struct weir__marks kept = g->nodes[node].marks;
    struct weir__sim_limits limits;
    struct weir__prediction p;
    weir_status st;

    g->nodes[node].marks = *marks;
    st = weir__predict(graphs, v->a->prediction.nranks,
                       &(struct weir__predict_options){.makespan_only = true}, &p);
    g->nodes[node].marks = kept;
    if (st)
        return st;
    weir__model_limits(g->dev->model, &limits);
    *makespan = p.run.deadlock ? UINT64_MAX : p.makespan;
    *alone = weir__sim_alone(&limits, weir__predict_op(&p.graphs[p.graph_of[v->rank]], node));
    weir__prediction_fini(&p);
    return WEIR_OK;
}

static weir_status add_limits(struct view *v, weir_graph *const *graphs, int *cap)
{
    struct weir__advice *a = v->a;
    const weir_graph *g = v->pg->g;
    weir_status st = WEIR_OK;

    for (int i = 0, done = 0; i < v->nlongest && done < MOST_LIMITS && !st; i++) {
        int node = v->longest[i];
        weir_engine engine = v->pg->engine[node];
        struct weir__advice_limit l = {.rank = v->rank, .node = (uint32_t)node};
        struct weir__marks marks = g->nodes[node].marks;
        struct weir__sim_limits limits;

        if (!weir__node_obeys_limit(&g->nodes[node]) || marks.limit.cube > 0 ||
            marks.limit.vector > 0 || engine > WEIR_ENGINE_MIX)
            continue;
        l.cores = (int)weir__cores_of(g->dev, engine, g->dev->props.cores, (weir_cores){0, 0}) / 2;
        if (l.cores < 1)
            continue;
        marks.limit = engine == WEIR_ENGINE_CUBE     ? (weir_cores){l.cores, 0}
                      : engine == WEIR_ENGINE_VECTOR ? (weir_cores){0, l.cores}
                                                     : (weir_cores){l.cores, 2 * l.cores};
        weir__model_limits(g->dev->model, &limits);
        l.alone = weir__sim_alone(&limits, weir__predict_op(v->pg, node));
        if ((st = ask(v, graphs, node, &marks, &l.limited, &l.makespan)))
            break;
        if (!weir__grow(&a->limits, (int)a->nlimits, cap, sizeof *a->limits))
            return WEIR_ENOMEM;
        a->limits[a->nlimits++] = l;
        done++;
    }
    return st;
}

/* The gain of putting pairs of one stream on different streams. `label` is a new stream label. */
static weir_status ask_pairs(struct view *v, weir_graph *const *graphs, int label)
{
    struct weir__advice *a = v->a;
    weir_status st = WEIR_OK;

    for (size_t i = 0; i < a->npairs && !st; i++) {
        struct weir__advice_pair *p = &a->pairs[i];
        struct weir__marks marks = v->pg->g->nodes[p->second].marks;
        uint64_t alone, makespan;

        if (p->rank != v->rank || p->why != WEIR__APART_STREAM)
            continue;
        marks.stream = label;
        if (!(st = ask(v, graphs, (int)p->second, &marks, &alone, &makespan)) &&
            makespan != UINT64_MAX)
            p->gain = (int64_t)a->prediction.makespan - (int64_t)makespan;
    }
    return st;
}

/* ---- all advice ---- */

static weir_status look_at(struct view *v, weir_graph *const *graphs)
{
    const struct weir__replay_program *program = &v->pg->program;
    int caps[4] = {0};
    size_t n = (size_t)v->pg->g->nnodes + 1;
    int label = weir__graph_label(graphs[v->rank], "advised:1");
    weir_status st;

    v->stream = weir__calloc(n, sizeof *v->stream);
    v->reached = weir__calloc(n, sizeof *v->reached);
    if (label < 0 || !v->stream || !v->reached)
        return weir__fail_nomem("advising on %zu nodes", n);
    for (uint32_t s = 0; s < program->nstreams; s++)
        for (uint32_t i = 0; i < program->streams[s].nnodes; i++)
            v->stream[program->streams[s].nodes[i]] = (int)s;
    find_longest(v);
    caps[0] = (int)v->a->npairs;
    caps[1] = (int)v->a->nfights;
    caps[2] = (int)v->a->ncomms;
    caps[3] = (int)v->a->nlimits;
    if ((st = add_pairs(v, &caps[0])) || (st = add_fights(v, &caps[1])) ||
        (st = add_comms(v, &caps[2])))
        return st;
    if (v->a->npairs)
        qsort(v->a->pairs, v->a->npairs, sizeof *v->a->pairs, by_most);
    if (v->a->npairs > MOST_PAIRS)
        v->a->npairs = MOST_PAIRS;
    if (v->a->prediction.run.deadlock)
        return WEIR_OK;
    return (st = ask_pairs(v, graphs, label)) ? st : add_limits(v, graphs, &caps[3]);
}

static weir_status advise(weir_graph **graphs, uint32_t nranks, struct weir__advice *a)
{
    uint32_t known = 0;
    weir_status st = weir__predict(graphs, nranks, &(struct weir__predict_options){.memory = false},
                                   &a->prediction);

    for (uint32_t r = 0; r < nranks && !st && known < a->prediction.ngraphs; r++) {
        struct view v = {.a = a, .rank = r};

        if (a->prediction.graph_of[r] != known)
            continue;
        v.pg = &a->prediction.graphs[known++];
        v.spans = a->prediction.run.spans[r];
        st = look_at(&v, graphs);
        weir__free(v.stream);
        weir__free(v.reached);
    }
    if (a->nfights)
        qsort(a->fights, a->nfights, sizeof *a->fights, by_waited);
    if (a->ncomms)
        qsort(a->comms, a->ncomms, sizeof *a->comms, by_exposed);
    return st;
}

weir_status weir__advise(weir_graph *const *graphs, uint32_t nranks, struct weir__advice *out)
{
    weir_graph **copies = weir__calloc((size_t)nranks + 1, sizeof *copies);
    weir_status st = WEIR_OK;

    *out = (struct weir__advice){0};
    if (!copies)
        return weir__fail_nomem("advising on %u ranks", nranks);
    /* What-if questions run on copies of the graphs, which the prediction uses as well. */
    for (uint32_t r = 0; r < nranks && !st; r++) {
        uint32_t known = 0;

        while (graphs[known] != graphs[r])
            known++;
        if (known < r)
            copies[r] = copies[known];
        else
            st = weir__graph_clone(graphs[r], &copies[r]);
    }
    out->copies = copies;
    out->nranks = nranks;
    if (!st)
        st = advise(copies, nranks, out);
    if (st)
        weir__advice_fini(out);
    return st;
}

void weir__advice_fini(struct weir__advice *a)
{
    weir__prediction_fini(&a->prediction);
    for (uint32_t r = 0; r < a->nranks; r++) {
        bool again = false;

        for (uint32_t o = 0; o < r && !again; o++)
            again = a->copies[o] == a->copies[r];
        if (!again && a->copies[r])
            weir_graph_destroy(a->copies[r]);
    }
    weir__free(a->copies);
    weir__free(a->pairs);
    weir__free(a->fights);
    weir__free(a->limits);
    weir__free(a->comms);
    *a = (struct weir__advice){0};
}
