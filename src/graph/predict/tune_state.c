/* The variables of the search: units, streams, and the edges that every order keeps. */
#include "graph/predict/tune_state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/kernel_params.h"

/* ---- graphs ---- */

static weir_status take_graphs(struct weir__tuner *t, weir_graph *const *graphs)
{
    weir_status st;

    t->graphs = weir__calloc(t->nranks, sizeof *t->graphs);
    t->graph_of = weir__calloc(t->nranks, sizeof *t->graph_of);
    t->by_rank = weir__calloc(t->nranks, sizeof *t->by_rank);
    if (!t->graphs || !t->graph_of || !t->by_rank)
        return weir__fail_nomem("tuning %u ranks", t->nranks);
    for (uint32_t r = 0; r < t->nranks; r++) {
        int known = 0;

        while (known < t->ngraphs && t->graphs[known].from != graphs[r])
            known++;
        if (known == t->ngraphs) {
            t->graphs[t->ngraphs++].from = graphs[r];
            if ((st = weir__graph_clone(graphs[r], &t->graphs[known].work)))
                return st;
        }
        t->graph_of[r] = (uint32_t)known;
        t->by_rank[r] = t->graphs[known].work;
    }
    return WEIR_OK;
}

/* ---- streams ---- */

static int find_stream(const struct weir__tuner *t, const char *name)
{
    for (int s = 0; s < t->nstreams; s++)
        if (!strcmp(t->streams[s], name))
            return s;
    return -1;
}

static weir_status add_stream(struct weir__tuner *t, const char *name, int *cap)
{
    if (!weir__grow(&t->streams, t->nstreams, cap, sizeof *t->streams))
        return WEIR_ENOMEM;
    if (!(t->streams[t->nstreams] = weir__strdup(name)))
        return weir__fail_nomem("opening stream '%s'", name);
    t->nstreams++;
    return WEIR_OK;
}

/* Lists the streams of the files, then new ones with unused names. */
static weir_status name_streams(struct weir__tuner *t)
{
    int cap = 0;
    weir_status st = add_stream(t, "default", &cap);

    for (int i = 0; i < t->ngraphs; i++)
        for (int v = 0; v < t->graphs[i].from->nnodes && !st; v++) {
            const weir_graph *g = t->graphs[i].from;
            int label = g->nodes[v].marks.stream;

            if (label && find_stream(t, g->labels[label]) < 0)
                st = add_stream(t, g->labels[label], &cap);
        }
    t->nfiled = t->nstreams;
    for (int k = 1; !st && t->nstreams < t->nfiled + WEIR__TUNE_NEW_STREAMS; k++) {
        char name[32];

        snprintf(name, sizeof name, "%s:%d", t->options->prefix ? t->options->prefix : "tuned", k);
        if (find_stream(t, name) < 0)
            st = add_stream(t, name, &cap);
    }
    return st;
}

static weir_status make_labels(struct weir__tuner *t, struct weir__tune_graph *g)
{
    if (!(g->label = weir__calloc((size_t)t->nstreams, sizeof *g->label)))
        return weir__fail_nomem("allocating the labels of %d streams", t->nstreams);
    for (int s = 1; s < t->nstreams; s++)
        if ((g->label[s] = weir__graph_label(g->work, t->streams[s])) < 0)
            return WEIR_ENOMEM;
    return WEIR_OK;
}

/* ---- units ---- */

static const struct weir__node *node_of(const struct weir__tuner *t,
                                        const struct weir__tune_member *m)
{
    return &t->graphs[m->graph].from->nodes[m->node];
}

/* The key by which nodes form a unit: their super kernel, else their name. */
struct named {
    const char *name;
    bool fused;
    struct weir__tune_member member;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = x->fused != y->fused ? x->fused - y->fused : strcmp(x->name, y->name);

    if (!order)
        order = x->member.graph - y->member.graph;
    return order ? order : x->member.node - y->member.node;
}

static int by_place(const void *a, const void *b)
{
    const struct weir__tune_unit *x = a, *y = b;

    /* nmembers and first are still those of the sorted list: class holds the place */
    return (x->class > y->class) - (x->class < y->class);
}

static char *pattern_of(const char *name)
{
    char *pattern = weir__strdup(name), *to = pattern;

    for (; pattern && *name; name++)
        if (!isdigit((unsigned char)*name))
            *to++ = *name;
        else if (to == pattern || to[-1] != '#')
            *to++ = '#';
    if (pattern)
        *to = 0;
    return pattern;
}

static void describe(const struct weir__tuner *t, struct weir__tune_unit *u)
{
    const struct weir__node *first = node_of(t, &t->members[u->first]);
    const weir_device *dev = t->graphs[0].from->dev;
    bool relabel = t->options->relabel, alike = true;

    u->engine = weir__node_engine(first);
    u->stream =
        find_stream(t, t->graphs[t->members[u->first].graph].from->labels[first->marks.stream]);
    u->moves = relabel || !u->stream;
    u->limits = true;
    for (int i = u->first; i < u->first + u->nmembers; i++) {
        const struct weir__node *n = node_of(t, &t->members[i]);
        const char *label = t->graphs[t->members[i].graph].from->labels[n->marks.stream];

        alike &= find_stream(t, label) == u->stream;
        u->limits &= weir__node_obeys_limit(n) && weir__node_engine(n) == u->engine &&
                     (relabel || (n->marks.limit.cube <= 0 && n->marks.limit.vector <= 0));
    }
    u->moves &= alike;
    if (u->limits && (u->engine == WEIR_ENGINE_CUBE || u->engine == WEIR_ENGINE_VECTOR ||
                      u->engine == WEIR_ENGINE_MIX))
        u->most = (int)weir__cores_of(dev, u->engine, dev->props.cores, (weir_cores){0, 0});
    u->limits = u->most > 1 && !t->options->keep_limits;
}

static int by_pattern(const void *a, const void *b)
{
    const struct weir__tune_unit *x = *(struct weir__tune_unit *const *)a;
    const struct weir__tune_unit *y = *(struct weir__tune_unit *const *)b;
    int order = strcmp(x->pattern, y->pattern);

    if (!order)
        order = (int)x->engine - (int)y->engine;
    return order ? order : x->stream - y->stream;
}

/* Puts units of one pattern, engine and stream into one class. */
static weir_status classify(struct weir__tuner *t)
{
    struct weir__tune_unit **sorted = weir__calloc((size_t)t->nunits + 1, sizeof *sorted);
    bool failed = !sorted;

    for (int u = 0; u < t->nunits && !failed; u++) {
        sorted[u] = &t->units[u];
        failed = !(t->units[u].pattern = pattern_of(t->units[u].name));
    }
    if (!failed) {
        qsort(sorted, (size_t)t->nunits, sizeof *sorted, by_pattern);
        for (int i = 0; i < t->nunits; i++) {
            t->nclasses += !i || by_pattern(&sorted[i - 1], &sorted[i]);
            sorted[i]->class = t->nclasses - 1;
        }
    }
    weir__free(sorted);
    return failed ? weir__fail_nomem("allocating the units of a tuning") : WEIR_OK;
}

static void cut_units(struct weir__tuner *t, const struct named *names)
{
    for (int i = 0; i < t->nmembers; i++) {
        const struct named *n = &names[i];
        int place = n->member.node;

        t->members[i] = n->member;
        if (i && n->fused == n[-1].fused && !strcmp(n->name, n[-1].name)) {
            t->units[t->nunits - 1].nmembers++;
            continue;
        }
        for (int g = 0; g < n->member.graph; g++)
            place += t->graphs[g].from->nnodes;
        t->units[t->nunits++] =
            (struct weir__tune_unit){.name = n->name, .first = i, .nmembers = 1, .class = place};
    }
    qsort(t->units, (size_t)t->nunits, sizeof *t->units, by_place);
}

static weir_status make_units(struct weir__tuner *t)
{
    struct named *names;

    for (int i = 0; i < t->ngraphs; i++)
        t->nmembers += t->graphs[i].from->nnodes;
    names = weir__calloc((size_t)t->nmembers + 1, sizeof *names);
    t->members = weir__calloc((size_t)t->nmembers + 1, sizeof *t->members);
    t->units = weir__calloc((size_t)t->nmembers + 1, sizeof *t->units);
    if (!names || !t->members || !t->units) {
        weir__free(names);
        return weir__fail_nomem("allocating the units of %d nodes", t->nmembers);
    }
    for (int i = 0, at = 0; i < t->ngraphs; i++)
        for (int v = 0; v < t->graphs[i].from->nnodes; v++) {
            const weir_graph *g = t->graphs[i].from;
            const struct weir__node *n = &g->nodes[v];
            bool fused = n->marks.super_kernel >= 0;

            names[at++] = (struct named){
                .name = fused ? g->super_kernels[n->marks.super_kernel].name : n->name,
                .fused = fused,
                .member = {i, v},
            };
        }
    qsort(names, (size_t)t->nmembers, sizeof *names, by_name);
    cut_units(t, names);
    weir__free(names);
    for (int u = 0; u < t->nunits; u++)
        describe(t, &t->units[u]);
    return classify(t);
}

/* ---- order ---- */

static const char *collective_of(const struct weir__node *n)
{
    const struct weir__kernel_params *p = strcmp(n->op->name, "Kernel") ? NULL : n->params;
    struct weir__member member;

    if (!(n->op->flags & WEIR__OP_COLLECTIVE))
        return p && p->collective[0] ? p->collective : NULL;
    n->op->member(n->params, &member);
    return member.group;
}

/* The last node before v that v must stay behind although no edge says so: because of its
 * collective, or (`chain`) because its stream's order is fixed by a label. -1: none. */
static int stays_behind(const struct weir__tuner *t, const weir_graph *g, int v, bool chain)
{
    const char *meets = collective_of(&g->nodes[v]);
    int label = g->nodes[v].marks.stream;

    if (chain ? t->options->relabel || !label : !meets)
        return -1;
    for (int u = v - 1; u >= 0; u--) {
        const char *other = collective_of(&g->nodes[u]);

        if (chain ? g->nodes[u].marks.stream == label : other && !strcmp(other, meets))
            return u;
    }
    return -1;
}

static weir_status make_order(struct weir__tuner *t, struct weir__tune_graph *tg)
{
    const weir_graph *g = tg->from;
    size_t n = (size_t)g->nnodes + 1;
    struct weir__edges e;
    weir_status st = weir__graph_edges(g, &e);
    int *more = NULL;

    if (st)
        return st;
    tg->unit = weir__calloc(n, sizeof *tg->unit);
    tg->at = weir__calloc(n, sizeof *tg->at);
    tg->nbefore = weir__calloc(n, sizeof *tg->nbefore);
    tg->first = weir__calloc(n + 1, sizeof *tg->first);
    tg->next = weir__calloc((size_t)e.first[g->nnodes] + 2 * n, sizeof *tg->next);
    more = weir__malloc(2 * n * sizeof *more);
    if (!tg->unit || !tg->at || !tg->nbefore || !tg->first || !tg->next || !more) {
        st = weir__fail_nomem("allocating the edges of %d nodes", g->nnodes);
        goto done;
    }
    for (int v = 0; v < g->nnodes; v++) {
        tg->at[v] = v;
        for (int k = 0; k < 2; k++) {
            int u = stays_behind(t, g, v, k);

            more[2 * v + k] = u;
            if (u >= 0) {
                tg->first[u + 2]++;
                tg->nbefore[v]++;
            }
        }
        for (int i = e.first[v]; i < e.first[v + 1]; i++)
            tg->first[e.preds[i] + 2]++;
        tg->nbefore[v] += e.first[v + 1] - e.first[v];
    }
    /* Counts are stored two places ahead: first[] is right once the lists are filled. */
    for (int v = 0; v < g->nnodes; v++)
        tg->first[v + 2] += tg->first[v + 1];
    for (int v = 0; v < g->nnodes; v++) {
        for (int k = 0; k < 2; k++)
            if (more[2 * v + k] >= 0)
                tg->next[tg->first[more[2 * v + k] + 1]++] = v;
        for (int i = e.first[v]; i < e.first[v + 1]; i++)
            tg->next[tg->first[e.preds[i] + 1]++] = v;
    }
done:
    weir__free(more);
    weir__edges_fini(&e);
    return st;
}

/* ---- settings ---- */

static weir_status make_settings(struct weir__tuner *t)
{
    size_t most = 1;

    t->nsettings = 3 * (size_t)t->nunits + (size_t)t->nstreams;
    t->input = weir__calloc(t->nsettings, sizeof *t->input);
    t->best = weir__calloc(t->nsettings, sizeof *t->best);
    t->now = weir__calloc(t->nsettings, sizeof *t->now);
    t->priority_open = weir__calloc((size_t)t->nstreams, sizeof *t->priority_open);
    for (int i = 0; i < t->ngraphs; i++)
        most += (size_t)t->graphs[i].from->nnodes;
    t->degree = weir__calloc(most, sizeof *t->degree);
    t->heap = weir__calloc(most, sizeof *t->heap);
    t->order = weir__calloc(most, sizeof *t->order);
    t->key = weir__calloc(most, sizeof *t->key);
    if (!t->input || !t->best || !t->now || !t->priority_open || !t->degree || !t->heap ||
        !t->order || !t->key)
        return weir__fail_nomem("allocating the settings of %d nodes", t->nmembers);
    for (int s = 1; s < t->nstreams; s++)
        t->priority_open[s] = true;
    for (int u = 0; u < t->nunits; u++) {
        const struct weir__tune_unit *unit = &t->units[u];

        t->input[weir__at_stream(t, u)] = unit->stream;
        t->input[weir__at_limit(t, u)] = WEIR__TUNE_KEEP;
        for (int i = unit->first; i < unit->first + unit->nmembers; i++) {
            const struct weir__node *n = node_of(t, &t->members[i]);

            t->graphs[t->members[i].graph].unit[t->members[i].node] = u;
            t->risky |= weir__node_is_gang(n) || collective_of(n);
        }
    }
    for (int i = t->ngraphs - 1; i >= 0; i--) { /* backwards: the first node of a stream decides */
        const weir_graph *g = t->graphs[i].from;

        for (int v = g->nnodes - 1; v >= 0; v--) {
            int s = find_stream(t, g->labels[g->nodes[v].marks.stream]);

            if (s)
                t->input[weir__at_priority(t, s)] = g->nodes[v].marks.priority;
            if (s && g->nodes[v].marks.priority && !t->options->relabel)
                t->priority_open[s] = false;
        }
    }
    weir__tune_copy(t, t->best, t->input);
    return WEIR_OK;
}

weir_status weir__tuner_init(struct weir__tuner *t, weir_graph *const *graphs, uint32_t nranks,
                             const struct weir__tune_options *options)
{
    weir_status st;

    *t = (struct weir__tuner){.options = options, .nranks = nranks};
    if (!nranks)
        return weir__fail(WEIR_EINVAL, "tuning needs at least one graph");
    if ((st = take_graphs(t, graphs)) || (st = name_streams(t)) || (st = make_units(t)))
        return st;
    for (int i = 0; i < t->ngraphs && !st; i++)
        if (!(st = make_labels(t, &t->graphs[i])))
            st = make_order(t, &t->graphs[i]);
    return st ? st : make_settings(t);
}

void weir__tuner_fini(struct weir__tuner *t)
{
    for (int i = 0; i < t->ngraphs; i++) {
        struct weir__tune_graph *g = &t->graphs[i];

        if (g->work)
            weir_graph_destroy(g->work);
        weir__free(g->unit);
        weir__free(g->label);
        weir__free(g->at);
        weir__free(g->nbefore);
        weir__free(g->first);
        weir__free(g->next);
    }
    for (int s = 0; s < t->nstreams; s++)
        weir__free(t->streams[s]);
    for (int u = 0; u < t->nunits; u++)
        weir__free(t->units[u].pattern);
    weir__free(t->graphs);
    weir__free(t->graph_of);
    weir__free(t->by_rank);
    weir__free(t->streams);
    weir__free(t->units);
    weir__free(t->members);
    weir__free(t->priority_open);
    weir__free(t->input);
    weir__free(t->best);
    weir__free(t->now);
    weir__free(t->degree);
    weir__free(t->heap);
    weir__free(t->order);
    weir__free(t->key);
}
