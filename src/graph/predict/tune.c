#include "graph/predict/tune_state.h"

#include <string.h>

#include "tensor/kernel_params.h"

/* Moves the copies to the result. */
static weir_status hand_over(struct weir__tuner *t, struct weir__tuned *out)
{
    out->graphs = weir__calloc((size_t)t->ngraphs, sizeof *out->graphs);
    if (!out->graphs)
        return weir__fail_nomem("allocating %d tuned graphs", t->ngraphs);
    for (int i = 0; i < t->ngraphs; i++) {
        out->graphs[out->ngraphs++] = t->graphs[i].work;
        t->graphs[i].work = NULL;
    }
    out->graph_of = t->graph_of;
    t->graph_of = NULL;
    return WEIR_OK;
}

static size_t count_measured(const struct weir__tuner *t)
{
    size_t n = 0;

    for (int i = 0; i < t->ngraphs; i++)
        for (int v = 0; v < t->graphs[i].from->nnodes; v++) {
            const struct weir__node *node = &t->graphs[i].from->nodes[v];

            n += !strcmp(node->op->name, "Kernel") &&
                 ((const struct weir__kernel_params *)node->params)->measured;
        }
    return n;
}

static weir_status tune(struct weir__tuner *t, struct weir__tuned *out)
{
    bool checked = t->risky || !t->options->placement;
    weir_status st;

    t->before = t->best_ps = weir__tune_try(t, t->input);
    if ((st = t->status))
        return st;
    if ((checked && (st = weir__tune_check(t, 0, &t->best_errors, &out->check_method))) ||
        (st = weir__tune_find_bound(t)))
        return st;
    weir__tune_search(t);
    if ((st = t->status) ||
        (st = t->options->placement ? weir__tune_apply(t, t->best) : weir__tune_explain(t, out)) ||
        (checked && (st = weir__tune_check(t, 0, &out->check_errors, &out->check_method))))
        return st;
    out->before = t->before;
    out->after = t->best_ps;
    out->bound = t->bound;
    out->tried = t->tried;
    out->refused = t->refused;
    out->ended = t->ended;
    out->nmeasured = count_measured(t);
    return hand_over(t, out);
}

weir_status weir__tune(weir_graph *const *graphs, uint32_t nranks,
                       const struct weir__tune_options *options, struct weir__tuned *out)
{
    struct weir__tuner t;
    weir_status st;

    *out = (struct weir__tuned){0};
    if (!(st = weir__tuner_init(&t, graphs, nranks, options)))
        st = tune(&t, out);
    weir__tuner_fini(&t);
    if (st)
        weir__tuned_fini(out);
    return st;
}

void weir__tuned_fini(struct weir__tuned *t)
{
    for (uint32_t i = 0; i < t->ngraphs; i++)
        weir_graph_destroy(t->graphs[i]);
    for (int i = 0; i < t->nchanges; i++)
        weir__free(t->changes[i].text);
    weir__free(t->graphs);
    weir__free(t->graph_of);
    weir__free(t->changes);
    weir__free(t->verdict);
    *t = (struct weir__tuned){0};
}
