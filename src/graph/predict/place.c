#include "graph/predict/place.h"

#include "graph/predict/tune.h"

/* A trial takes time in proportion to the number of nodes; all trials together take about a
 * second. */
#define TRIALS_MOST 6000
#define TRIALS_LEAST 60
#define TRIALS_NODES 1000000

bool weir__place_wanted(const weir_graph *g, const weir_compile_options *options)
{
    return options->streams == WEIR_STREAMS_AUTO && !options->single_stream && g->dev->model &&
           g->nnodes > 1 && g->nnodes <= WEIR__PLACE_NODES;
}

static bool has_collectives(const weir_graph *g)
{
    for (int v = 0; v < g->nnodes; v++)
        if (g->nodes[v].op->flags & WEIR__OP_COLLECTIVE)
            return true;
    return false;
}

/* A limit chosen for a node would override these limits. */
static bool has_limits(const weir_graph *g, const weir_compile_options *options)
{
    weir_cores limit = weir_device_get_limit(g->dev), all = g->dev->props.cores;

    return options->cores || limit.cube < all.cube || limit.vector < all.vector;
}

static bool has_chosen_limit(const weir_graph *before, const weir_graph *after, int v)
{
    const struct weir__marks *m = &after->nodes[v].marks;

    if (m->limit.cube <= 0 && m->limit.vector <= 0)
        return false;
    for (int u = 0; u < before->nnodes; u++)
        if (!strcmp(before->nodes[u].name, after->nodes[v].name))
            return before->nodes[u].marks.limit.cube <= 0 &&
                   before->nodes[u].marks.limit.vector <= 0;
    return false;
}

/* Writes a line for each added stream. */
static void describe(const weir_graph *before, const weir_graph *after, struct weir__text *notes)
{
    for (int label = before->nlabels; label < after->nlabels; label++) {
        int nodes = 0, limited = 0;

        for (int v = 0; v < after->nnodes; v++)
            if (after->nodes[v].marks.stream == label) {
                nodes++;
                limited += has_chosen_limit(before, after, v);
            }
        if (nodes)
            weir__text_add(notes, "stream %s: %d nodes, %d of them with a core limit\n",
                           after->labels[label], nodes, limited);
    }
}

/* Predicts the time of the compiled plan, including its memory order. */
static weir_status predict(weir_graph *g, const weir_compile_options *options, uint64_t *ps)
{
    struct weir__predict_options how = {
        .compile = &(weir_compile_options){.cores = options->cores},
        .makespan_only = true,
        .memory = true,
        .fused = weir__is_autotuned(options),
    };
    struct weir__prediction p;
    weir_status st = weir__predict(&g, 1, &how, &p);

    if (st)
        return st;
    *ps = p.run.deadlock ? WEIR__TUNE_NEVER : p.makespan + p.streams;
    weir__prediction_fini(&p);
    return WEIR_OK;
}

weir_status weir__place(weir_graph **g, const weir_compile_options *options,
                        struct weir__text *notes)
{
    int64_t trials = weir__max(TRIALS_LEAST, weir__min(TRIALS_MOST, TRIALS_NODES / (*g)->nnodes));
    bool collectives = has_collectives(*g);
    struct weir__tuned tuned;
    uint64_t before, after;
    weir_status st = weir__tune(g, 1,
                                &(struct weir__tune_options){
                                    .trials = (size_t)trials,
                                    .fused = weir__is_autotuned(options),
                                    .cores = options->cores,
                                    .placement = true,
                                    .keep_order = collectives,
                                    .keep_limits = collectives || has_limits(*g, options),
                                    .prefix = "auto",
                                },
                                &tuned);

    if (st)
        return st;
    if ((st = predict(*g, options, &before)) || (st = predict(tuned.graphs[0], options, &after))) {
        weir__tuned_fini(&tuned);
        return st;
    }
    if (after < before) {
        describe(*g, tuned.graphs[0], notes);
        weir__text_add(notes, "streams=auto: %.1f us are expected instead of %.1f us\n",
                       (double)after / 1e6, (double)before / 1e6);
        weir_graph_destroy(*g);
        *g = tuned.graphs[0];
        tuned.ngraphs = 0;
    } else {
        weir__text_add(notes, "streams=auto: nothing is split: %.1f us are expected as it is\n",
                       (double)before / 1e6);
    }
    weir__tuned_fini(&tuned);
    return notes->failed ? weir__fail_nomem("allocating notes of the streams") : WEIR_OK;
}
