/* A graph for Graphviz: streams by colour; data edges solid, control edges dashed, the order of
 * in-place writes dotted; bold where an edge crosses streams and so needs a sync. */
#include <string.h>

#include "graph/build/graph.h"

/* From ColorBrewer's Set3, in turn by label. */
static const char *const colours[] = {"#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3",
                                      "#fdb462", "#b3de69", "#fccde5", "#d9d9d9", "#bc80bd"};

static void add_escaped(struct weir__text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            weir__text_add(t, "\\");
        weir__text_add(t, "%c", *s >= 0 && *s < ' ' ? ' ' : *s);
    }
}

static void add_value(struct weir__text *t, const weir_graph *g, int value, const char *what)
{
    const struct weir__value *v = &g->values[value];

    weir__text_add(t, "  v%d [shape=%s, label=\"", value,
                   v->kind == WEIR__VALUE_INPUT ? "ellipse" : "note");
    add_escaped(t, v->name ? v->name : what);
    weir__text_add(t, "\\n%s\"];\n", weir__view_text(&v->view).text);
}

static void add_node(struct weir__text *t, const weir_graph *g, int node)
{
    const struct weir__node *n = &g->nodes[node];

    weir__text_add(t, "  n%d [fillcolor=\"%s\", label=\"", node,
                   colours[(size_t)n->marks.stream % weir__countof(colours)]);
    add_escaped(t, n->name);
    weir__text_add(t, "\\n%s", n->op->name);
    if (n->marks.stream) {
        weir__text_add(t, " on ");
        add_escaped(t, g->labels[n->marks.stream]);
    }
    if (n->marks.limit.cube > 0 || n->marks.limit.vector > 0)
        weir__text_add(t, "\\ncores %s", weir__cores_to_text(n->marks.limit).text);
    if (n->marks.super_kernel >= 0) {
        weir__text_add(t, "\\nsuper kernel ");
        add_escaped(t, g->super_kernels[n->marks.super_kernel].name);
    }
    weir__text_add(t, "\"];\n");
}

static bool reads_from(const weir_graph *g, const struct weir__node *n, int pred)
{
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value != WEIR__NO_VALUE && g->values[n->in[i].value].node == pred)
            return true;
    for (int i = 0; i < (int)n->ntokens; i++)
        if (n->control[i] == pred)
            return true;
    return false;
}

static bool waits_for(const struct weir__node *n, int pred)
{
    for (int i = 0; i < n->ncontrol; i++)
        if (n->control[i] == pred)
            return true;
    return false;
}

static void add_edges(struct weir__text *t, const weir_graph *g, const struct weir__edges *e,
                      int node)
{
    const struct weir__node *n = &g->nodes[node];

    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value != WEIR__NO_VALUE && g->values[n->in[i].value].kind != WEIR__VALUE_NODE)
            weir__text_add(t, "  v%d -> n%d;\n", n->in[i].value, node);
    for (int i = e->first[node]; i < e->first[node + 1]; i++) {
        int pred = e->preds[i];
        bool crosses = g->nodes[pred].marks.stream != n->marks.stream;
        const char *style = reads_from(g, n, pred) ? "solid"
                            : waits_for(n, pred)   ? "dashed"
                                                   : "dotted";

        weir__text_add(t, "  n%d -> n%d [style=\"%s%s\"];\n", pred, node, style,
                       crosses ? ",bold" : "");
    }
}

static void add_outputs(struct weir__text *t, const weir_graph *g)
{
    for (int i = 0; i < g->noutputs; i++) {
        const struct weir__output *o = &g->outputs[i];
        const struct weir__value *v = &g->values[o->operand.value];

        weir__text_add(t, "  y%d [shape=ellipse, label=\"", i);
        add_escaped(t, o->name);
        weir__text_add(t, "\\n%s\"];\n", weir__view_text(&o->operand.view).text);
        if (v->kind == WEIR__VALUE_NODE)
            weir__text_add(t, "  n%d -> y%d;\n", v->node, i);
        else
            weir__text_add(t, "  v%d -> y%d;\n", o->operand.value, i);
    }
}

char *weir_graph_dot(const weir_graph *g)
{
    struct weir__text t = {0};
    struct weir__edges edges;

    if (!g)
        return NULL;
    if (weir__graph_edges(g, &edges))
        return NULL;
    weir__text_add(&t, "digraph weir {\n"
                       "  node [shape=box, style=\"filled,rounded\", fillcolor=white, "
                       "fontname=\"sans-serif\"];\n");
    for (int i = 0; i < g->ninputs; i++)
        add_value(&t, g, g->inputs[i], "input");
    for (int i = 0; i < g->nconstants; i++)
        add_value(&t, g, g->constants[i], "constant");
    for (int i = 0; i < g->nnodes; i++)
        add_node(&t, g, i);
    for (int i = 0; i < g->nnodes; i++)
        add_edges(&t, g, &edges, i);
    add_outputs(&t, g);
    weir__text_add(&t, "}\n");
    weir__edges_fini(&edges);
    if (t.failed) {
        weir__text_free(&t);
        weir__fail_nomem("drawing a graph of %d nodes", g->nnodes);
    }
    return t.data;
}
