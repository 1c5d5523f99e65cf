/* Constant folding: computes once, at compile time, what depends on literals alone.
 *
 * Literals are constants that nobody outside the graph can write: constants of files, and tensors
 * generated while a graph is captured. Weights are not literals: they may change between runs. The
 * foldable part of the graph runs as a plan of its own, with the same kernels and limits as without
 * folding, so that every bit is the same.
 */
#include <string.h>

#include "graph/plan/plan.h"

/* Limit on folded results: larger ones would occupy more memory permanently than computing them is
 * worth. */
#define MOST_BYTES ((int64_t)4 << 20)

struct fold {
    weir_graph *g;
    bool *folded;  /* by node */
    bool *known;   /* by value: the same in every run */
    bool *named;   /* by node: another node has a control edge from it */
    int *writers;  /* by value: nodes that write it */
    int *frontier; /* known values that remaining nodes use */
    int nfrontier;
};

/* ---- what can be folded ---- */

static bool is_small(const struct weir__view *v)
{
    return weir__view_numel(v) <= MOST_BYTES / (int64_t)weir_dtype_size(v->dtype);
}

/* Arange and similar: writes all of a literal that no other node writes. */
static bool generates(const struct fold *f, const struct weir__node *n)
{
    const struct weir__value *v;

    if (!(n->op->flags & WEIR__OP_OVERWRITES) || n->nin != 1)
        return false;
    v = &f->g->values[n->in[0].value];
    return v->literal && f->writers[n->in[0].value] == 1 && !n->in[0].view.data &&
           weir__view_numel(&n->in[0].view) == weir__view_numel(&v->view) && is_small(&v->view);
}

static bool computes(const struct fold *f, int v)
{
    const struct weir__node *n = &f->g->nodes[v];

    if (!n->nin || !n->nout || (n->op->flags & (WEIR__OP_IN_PLACE | WEIR__OP_DATA_DEPENDENT)))
        return false;
    for (int i = 0; i < n->nin; i++) {
        if (n->in[i].value != WEIR__NO_VALUE && !f->known[n->in[i].value])
            return false;
        if (f->g->specialised && n->in[i].recipe) /* it may depend on a size that changes */
            return false;
    }
    for (int i = 0; i < n->nout; i++) {
        const struct weir__value *out = &f->g->values[n->out[i].value];

        if (out->node != v || out->is_output || f->writers[n->out[i].value] > 1 ||
            !is_small(&out->view))
            return false;
    }
    return true;
}

/* Matrix products are not folded: the core limit of the run, unknown here, decides how they are
 * cut. Nodes with control edges stay, because those order effects outside the graph. */
static bool can_fold(const struct fold *f, int v)
{
    const struct weir__node *n = &f->g->nodes[v];

    return n->op->engine == WEIR_ENGINE_VECTOR && !n->ncontrol && !f->named[v] &&
           !(n->op->flags & WEIR__OP_ALWAYS_RUNS) && strcmp(n->op->name, "Kernel") &&
           (generates(f, n) || computes(f, v));
}

/* A generated literal is known from its writer on. A node that reads it earlier sees other bytes,
 * and keeps it from being folded. */
static void find_folded(struct fold *f)
{
    const weir_graph *g = f->g;

    for (int v = 0; v < g->nnodes; v++) {
        const struct weir__operand *writes;
        int nwrites;

        for (int i = 0; i < g->nodes[v].ncontrol; i++)
            f->named[g->nodes[v].control[i]] = true;
        writes = weir__node_writes(&g->nodes[v], &nwrites);
        for (int i = 0; i < nwrites; i++)
            f->writers[writes[i].value]++;
    }
    for (int i = 0; i < g->nvalues; i++)
        f->known[i] = g->values[i].literal && !f->writers[i];
    for (int v = 0; v < g->nnodes; v++) {
        const struct weir__node *n = &g->nodes[v];
        const struct weir__operand *writes;
        int nwrites;

        if ((f->folded[v] = can_fold(f, v))) {
            writes = weir__node_writes(n, &nwrites);
            for (int i = 0; i < nwrites; i++)
                f->known[writes[i].value] = true;
            continue;
        }
        for (int i = 0; i < n->nin; i++) /* reads a value before it is generated: that value cannot
                                          * be folded */
            if (n->in[i].value != WEIR__NO_VALUE && !f->known[n->in[i].value])
                f->writers[n->in[i].value] = 2;
    }
}

/* Collects the folded values that remaining nodes use. */
static void find_frontier(struct fold *f)
{
    const weir_graph *g = f->g;

    for (int v = 0; v < g->nnodes; v++)
        for (int i = 0; !f->folded[v] && i < g->nodes[v].nin; i++) {
            int value = g->nodes[v].in[i].value;

            if (value == WEIR__NO_VALUE || !f->known[value] || !f->writers[value])
                continue;
            f->writers[value] = 0; /* add each value only once */
            f->frontier[f->nfrontier++] = value;
        }
}

/* ---- computing it ---- */

/* Removes the nodes whose folded[] is not `which`. Values that only they make stay in the table,
 * unused. */
static void keep_nodes(weir_graph *g, const bool *folded, bool which, int *number)
{
    int n = 0;

    for (int v = 0; v < g->nnodes; v++) {
        struct weir__node *node = &g->nodes[v];
        bool kept = folded[v] == which;

        number[v] = kept ? n : -1;
        for (int i = 0; i < node->nout; i++) {
            struct weir__value *out = &g->values[node->out[i].value];

            if (out->node != v)
                continue;
            out->node = number[v];
            if (!kept)
                out->kind = WEIR__VALUE_CONSTANT;
        }
        for (int i = 0; i < node->ncontrol; i++) /* no control edge comes from a folded node */
            node->control[i] = number[node->control[i]];
        if (kept)
            g->nodes[n++] = *node;
        else
            weir__node_fini(node);
    }
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i].last_writer >= 0)
            g->values[i].last_writer = number[g->values[i].last_writer];
    g->nnodes = n;
}

static bool is_generated(const struct fold *f, int value)
{
    return f->g->values[value].kind == WEIR__VALUE_CONSTANT;
}

/* Gives generated literals new bytes, which are kept: the graph's own bytes are shared with other
 * plans. The bytes are allocated on stream `s`, where the part runs. */
static weir_status renew_literals(struct fold *f, weir_graph *part, weir_stream *s)
{
    for (int v = 0; v < part->nnodes; v++) {
        struct weir__value *value =
            &part->values[part->nodes[v].nin ? part->nodes[v].in[0].value : 0];
        weir_tensor *fresh;
        weir_status st;

        if (!f->folded[v] || part->nodes[v].nout)
            continue;
        if ((st = weir_tensor_empty(s, value->view.dtype, value->view.ndim, value->view.shape,
                                    &fresh)))
            return st;
        weir_tensor_release(value->constant);
        value->constant = fresh;
        value->literal = false;
    }
    return WEIR_OK;
}

/* Makes the frontier the outputs of the part. */
static weir_status set_outputs(const struct fold *f, weir_graph *part)
{
    while (part->noutputs)
        weir__free(part->outputs[--part->noutputs].name);
    part->ninputs = 0;
    for (int i = 0; i < f->nfrontier; i++) {
        struct weir__value *v = &part->values[f->frontier[i]];
        char *name;

        if (is_generated(f, f->frontier[i]))
            continue;
        if (!weir__grow(&part->outputs, part->noutputs, &part->cap_outputs,
                        sizeof *part->outputs) ||
            !(name = weir__strdup("folded")))
            return weir__fail_nomem("allocating the results of folding");
        v->is_output = true;
        part->outputs[part->noutputs++] =
            (struct weir__output){name, {.value = f->frontier[i], .view = v->view}};
    }
    return WEIR_OK;
}

static weir_status make_part(struct fold *f, int *number, weir_stream *s, weir_plan **out)
{
    static const weir_compile_options as_issued = {.mode = WEIR_COMPILE_EAGER};
    struct weir__stages nowhere = {.dir = NULL};
    weir_graph *part;
    weir_status st;

    *out = NULL;
    if ((st = weir__graph_clone(f->g, &part)))
        return st;
    if ((st = renew_literals(f, part, s)) || (st = set_outputs(f, part))) {
        weir_graph_destroy(part);
        return st;
    }
    keep_nodes(part, f->folded, true, number);
    for (int v = 0; v < part->nnodes; v++) { /* core limits stay: they decide the tiling */
        part->nodes[v].marks.stream = 0;
        part->nodes[v].marks.super_kernel = -1;
    }
    return weir__plan_build(part, &as_issued, &nowhere, out);
}

/* Runs the part; results[] is in the order of the frontier. *computed is false if an operator
 * failed: then nothing is folded, and it fails in every run instead, where the caller expects
 * errors. */
static weir_status compute(const struct fold *f, weir_plan *plan, weir_stream *s,
                           weir_tensor **results, bool *computed)
{
    weir_status st = weir_plan_run(plan, s, NULL, 0, results, (size_t)plan->graph->noutputs);
    int n;

    *computed = !st && !weir_stream_sync(s);
    if (st)
        return st;
    n = plan->graph->noutputs; /* outputs are the frontier without generated literals */
    for (int i = f->nfrontier - 1; i >= 0; i--)
        results[i] = is_generated(f, f->frontier[i])
                         ? weir_tensor_retain(plan->graph->values[f->frontier[i]].constant)
                         : results[--n];
    return WEIR_OK;
}

/* ---- the graph without the folded nodes ---- */

/* Allocates everything that replace() needs, so that it cannot fail half way. */
static weir_status reserve(struct fold *f, char **names)
{
    weir_graph *g = f->g;

    for (int i = 0; i < f->nfrontier; i++) {
        int node = g->values[f->frontier[i]].node;

        if (node >= 0 && !(names[i] = weir__strdup(g->nodes[node].name)))
            return weir__fail_nomem("allocating the name of a folded constant");
        if (!weir__grow(&g->constants, g->nconstants + i, &g->cap_constants, sizeof *g->constants))
            return WEIR_ENOMEM;
    }
    return WEIR_OK;
}

static void replace(struct fold *f, int *number, weir_tensor **results, char **names)
{
    weir_graph *g = f->g;

    for (int i = 0; i < f->nfrontier; i++) {
        struct weir__value *v = &g->values[f->frontier[i]];

        if (!is_generated(f, f->frontier[i]))
            g->constants[g->nconstants++] = f->frontier[i];
        weir_tensor_release(v->constant);
        v->constant = results[i];
        v->literal = true;
        if (names[i])
            v->name = names[i];
        results[i] = NULL;
        names[i] = NULL;
    }
    keep_nodes(g, f->folded, false, number);
}

static weir_status fold_part(struct fold *f, int *number, weir_tensor **results, char **names)
{
    weir_plan *plan = NULL;
    weir_stream *s;
    bool computed;
    weir_status st;

    find_folded(f);
    find_frontier(f);
    if (!f->nfrontier)
        return WEIR_OK;
    if ((st = reserve(f, names)) || (st = weir_stream_create(f->g->dev, NULL, &s)))
        return st;
    if (!(st = make_part(f, number, s, &plan)) && !(st = compute(f, plan, s, results, &computed)) &&
        computed)
        replace(f, number, results, names);
    weir_plan_destroy(plan);
    weir_stream_destroy(s);
    return st;
}

weir_status weir__graph_fold(weir_graph *g)
{
    size_t nnodes = (size_t)g->nnodes + 1, nvalues = (size_t)g->nvalues + 1;
    struct fold f = {
        .g = g,
        .folded = weir__calloc(nnodes, sizeof *f.folded),
        .known = weir__calloc(nvalues, sizeof *f.known),
        .named = weir__calloc(nnodes, sizeof *f.named),
        .writers = weir__calloc(nvalues, sizeof *f.writers),
        .frontier = weir__calloc(nvalues, sizeof *f.frontier),
    };
    weir_tensor **results = weir__calloc(nvalues, sizeof *results);
    char **names = weir__calloc(nvalues, sizeof *names);
    int *number = weir__calloc(nnodes, sizeof *number);
    weir_status st;

    if (f.folded && f.known && f.named && f.writers && f.frontier && results && names && number)
        st = fold_part(&f, number, results, names);
    else
        st = weir__fail_nomem("folding a graph of %d nodes", g->nnodes);
    for (int i = 0; results && i < f.nfrontier; i++)
        weir_tensor_release(results[i]);
    for (int i = 0; names && i < f.nfrontier; i++)
        weir__free(names[i]);
    weir__free(f.folded);
    weir__free(f.known);
    weir__free(f.named);
    weir__free(f.writers);
    weir__free(f.frontier);
    weir__free(results);
    weir__free(names);
    weir__free(number);
    return st;
}
