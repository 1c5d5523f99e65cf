/* Evaluates a setting: changes the copies and runs the model. */
#include "graph/predict/tune_state.h"

#include <time.h>

#include "weir/check.h"

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- order ---- */

static void heap_push(struct weir__tuner *t, int n, int v)
{
    int i = n;

    for (; i && t->key[t->heap[(i - 1) / 2]] > t->key[v]; i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = v;
}

/* Removes the smallest of n entries. */
static int heap_pop(struct weir__tuner *t, int n)
{
    int least = t->heap[0], v = t->heap[n - 1], i = 0, child;

    for (; (child = 2 * i + 1) < n - 1; i = child) {
        if (child + 1 < n - 1 && t->key[t->heap[child + 1]] < t->key[t->heap[child]])
            child++;
        if (t->key[t->heap[child]] >= t->key[v])
            break;
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = v;
    return least;
}

/* Finds the topological order closest to the shifted places; in nodes of the input. */
static void sort_nodes(struct weir__tuner *t, const struct weir__tune_graph *g, const int *setting)
{
    int n = g->from->nnodes, waiting = 0;

    for (int v = 0; v < n; v++) {
        int shift = setting[weir__at_shift(t, g->unit[v])];

        /* A shifted node goes before or behind the node at its new place, depending on its
         * direction. */
        t->key[v] = 4 * ((int64_t)v + shift) + 2 * (shift > 0) - 2 * (shift < 0);
        t->degree[v] = g->nbefore[v];
        if (!t->degree[v])
            heap_push(t, waiting++, v);
    }
    for (int i = 0; i < n; i++) {
        int v = heap_pop(t, waiting--);

        t->order[i] = v;
        for (int k = g->first[v]; k < g->first[v + 1]; k++)
            if (!--t->degree[g->next[k]])
                heap_push(t, waiting++, g->next[k]);
    }
}

static weir_status apply_order(struct weir__tuner *t, struct weir__tune_graph *g,
                               const int *setting)
{
    int n = g->from->nnodes;
    bool same = true;
    weir_status st;

    sort_nodes(t, g, setting);
    for (int i = 0; i < n; i++) {
        same &= g->at[t->order[i]] == i;
        t->degree[i] = g->at[t->order[i]]; /* the same order in present indices */
    }
    if (same)
        return WEIR_OK;
    if ((st = weir__graph_reorder(g->work, t->degree)))
        return st;
    for (int i = 0; i < n; i++)
        g->at[t->order[i]] = i;
    return WEIR_OK;
}

/* ---- marks ---- */

static weir_cores limit_of(const struct weir__tune_unit *u, int count)
{
    switch (u->engine) {
    case WEIR_ENGINE_CUBE:
        return (weir_cores){count, 0};
    case WEIR_ENGINE_VECTOR:
        return (weir_cores){0, count};
    default:
        return (weir_cores){count, 2 * count};
    }
}

static void apply_unit(struct weir__tuner *t, int u, const int *setting)
{
    const struct weir__tune_unit *unit = &t->units[u];
    int stream = setting[weir__at_stream(t, u)];
    int priority = setting[weir__at_priority(t, stream)];
    int limit = setting[weir__at_limit(t, u)];
    bool moved = stream != unit->stream, urged;

    urged = priority != t->input[weir__at_priority(t, stream)];
    for (int i = unit->first; i < unit->first + unit->nmembers; i++) {
        struct weir__tune_graph *g = &t->graphs[t->members[i].graph];
        const struct weir__marks *from = &g->from->nodes[t->members[i].node].marks;
        struct weir__marks *to = &g->work->nodes[g->at[t->members[i].node]].marks;

        to->stream = moved ? g->label[stream] : from->stream;
        to->priority = moved || urged ? priority : from->priority;
        to->limit = limit == WEIR__TUNE_KEEP ? from->limit
                    : limit                  ? limit_of(unit, limit)
                                             : (weir_cores){0, 0};
    }
}

weir_status weir__tune_apply(struct weir__tuner *t, const int *setting)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < t->ngraphs && !st; i++)
        st = apply_order(t, &t->graphs[i], setting);
    for (int u = 0; u < t->nunits && !st; u++)
        apply_unit(t, u, setting);
    return st;
}

/* ---- trials ---- */

uint64_t weir__tune_try(struct weir__tuner *t, const int *setting)
{
    struct weir__predict_options how = {
        .compile = &(weir_compile_options){.cores = t->options->cores},
        .makespan_only = true,
        .fused = t->options->fused,
    };
    struct weir__prediction p;
    uint64_t ps = WEIR__TUNE_NEVER;

    if (t->status)
        return ps;
    if (!t->began)
        t->began = seconds();
    t->tried++;
    if ((t->status = weir__tune_apply(t, setting)) ||
        (t->status = weir__predict(t->by_rank, t->nranks, &how, &p)))
        return ps;
    if (!p.run.deadlock)
        ps = p.makespan + p.streams; /* a stream must gain more than it costs */
    weir__prediction_fini(&p);
    return ps;
}

bool weir__tune_goes_on(struct weir__tuner *t, double share)
{
    struct weir__tune_progress p = {.elapsed_s = seconds() - t->began,
                                    .share = t->share,
                                    .before = t->before,
                                    .best = t->best_ps,
                                    .tried = t->tried};

    if (t->status || t->ended == WEIR__TUNE_STOPPED)
        return false;
    if (t->options->poll && !t->options->poll(t->options->user, &p)) {
        t->ended = WEIR__TUNE_STOPPED;
        return false;
    }
    if ((t->options->budget_s > 0 && p.elapsed_s >= share * t->options->budget_s) ||
        (t->options->trials && (double)t->tried >= share * (double)t->options->trials)) {
        t->ended = WEIR__TUNE_BUDGET;
        return false;
    }
    return true;
}

weir_status weir__tune_check(struct weir__tuner *t, size_t max_states, size_t *errors,
                             const char **method)
{
    weir_check_report *report;
    weir_status st = weir_check_graphs(t->by_rank, t->nranks,
                                       &(weir_check_options){.max_states = max_states}, &report);

    if (st)
        return st;
    *errors = report->nerrors;
    *method = report->exhaustive ? "exhaustive" : "rule";
    weir_check_free(report);
    return WEIR_OK;
}
