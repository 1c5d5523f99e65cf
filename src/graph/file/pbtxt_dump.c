/* A graph as a graph file: inputs, constants, nodes in program order, results. Operands
 * that are not a whole value get a View node of their own, just before their user. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "graph/file/pbtxt_names.h"
#include "graph/file/pbtxt_write.h"

struct dumper {
    const weir_graph *g;
    struct weir__text text;
    struct weir__pb_names names;
};

static void add_marks(struct dumper *d, const struct weir__marks *m)
{
    if (m->stream)
        weir__pb_write_string(&d->text, "_user_stream_label", d->g->labels[m->stream]);
    if (m->priority)
        weir__pb_write_int(&d->text, "_user_stream_priority", m->priority);
    if (m->limit.cube > 0)
        weir__pb_write_int(&d->text, "_op_aicore_num", m->limit.cube);
    if (m->limit.vector > 0)
        weir__pb_write_int(&d->text, "_op_vectorcore_num", m->limit.vector);
    if (m->super_kernel >= 0) {
        const struct weir__super_kernel *s = &d->g->super_kernels[m->super_kernel];

        weir__pb_write_string(&d->text, "_super_kernel_scope", s->name);
        if (s->options && *s->options)
            weir__pb_write_string(&d->text, "_super_kernel_options", s->options);
    }
    if (m->never_timeout) {
        weir__pb_write_begin(&d->text, "_op_exec_never_timeout");
        weir__text_add(&d->text, "b: true");
        weir__pb_write_end(&d->text);
    }
}

/* ---- nodes ---- */

static void begin_node(struct dumper *d, const char *name, const char *op)
{
    weir__text_add(&d->text, "node {\n  name: ");
    weir__pb_write_quoted(&d->text, name);
    weir__text_add(&d->text, "\n  op: \"%s\"\n", op);
}

static void end_node(struct dumper *d)
{
    weir__text_add(&d->text, "}\n");
}

/* A name that ends in ":12" would read as an output's. */
static bool ends_in_index(const char *name)
{
    const char *colon = strrchr(name, ':');

    return colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

/* The text of a reference to output `index` of a node. */
static void add_ref(struct dumper *d, const char *name, int index)
{
    struct weir__text ref = {0};

    weir__text_add(&ref, "%s", name);
    if (index || ends_in_index(name))
        weir__text_add(&ref, ":%d", index);
    d->text.failed |= ref.failed;
    if (!ref.failed)
        weir__pb_write_quoted(&d->text, ref.data);
    weir__text_free(&ref);
}

static void add_value_ref(struct dumper *d, int value)
{
    const struct weir__value *v = &d->g->values[value];

    if (v->kind == WEIR__VALUE_NODE)
        add_ref(d, d->names.nodes[v->node], d->names.index[value]);
    else
        add_ref(d, d->names.values[value], 0);
}

static bool is_whole(const struct dumper *d, const struct weir__operand *o)
{
    const struct weir__view *a = &o->view, *b = &d->g->values[o->value].view;
    size_t bytes = (size_t)a->ndim * sizeof *a->shape;

    return !a->data && a->ndim == b->ndim && !memcmp(a->shape, b->shape, bytes) &&
           (!memcmp(a->stride, b->stride, bytes) || weir__view_is_contiguous(a));
}

/* Once sizes are decided the view itself says all. */
static bool has_recipe(const struct dumper *d, const struct weir__operand *o)
{
    return d->g->dynamic && o->recipe;
}

/* Begins a View of `input`, or of the whole value; gives its name, NULL with text.failed. */
static char *begin_view(struct dumper *d, const char *name, const char *input, int value)
{
    char *own = weir__pb_names_add(&d->names, name);

    if (!own) {
        d->text.failed = true;
        return NULL;
    }
    begin_node(d, own, "View");
    weir__text_add(&d->text, "  input: ");
    if (input)
        add_ref(d, input, 0);
    else
        add_value_ref(d, value);
    weir__text_add(&d->text, "\n");
    return own;
}

/* A View node for each step; gives the last one's name. */
static char *add_steps(struct dumper *d, const char *name, const struct weir__recipe *r, int value)
{
    char *input = r->before ? add_steps(d, name, r->before, value) : NULL;
    char *own = d->text.failed ? NULL : begin_view(d, name, input, value);

    if (!own)
        return NULL;
    weir__pb_write_ints(&d->text, weir__pb_view_key(r->step.kind), r->step.args, r->step.n);
    end_node(d);
    return own;
}

static char *add_strided(struct dumper *d, const char *name, const struct weir__operand *o)
{
    char *own = begin_view(d, name, NULL, o->value);

    if (!own)
        return NULL;
    if (o->view.data)
        weir__pb_write_int(&d->text, "offset",
                           (intptr_t)o->view.data / (intptr_t)weir_dtype_size(o->view.dtype));
    weir__pb_write_ints(&d->text, "shape", o->view.shape, o->view.ndim);
    if (!weir__view_is_contiguous(&o->view))
        weir__pb_write_ints(&d->text, "strides", o->view.stride, o->view.ndim);
    end_node(d);
    return own;
}

/* Writes View nodes for those of the operands that need one and keeps their names. */
static void add_views(struct dumper *d, const char *user, const char *role,
                      const struct weir__operand *operands, int n, char **views)
{
    for (int i = 0; i < n; i++) {
        const struct weir__operand *o = &operands[i];
        struct weir__text name = {0};

        views[i] = NULL;
        if (o->value == WEIR__NO_VALUE || (!has_recipe(d, o) && is_whole(d, o)))
            continue;
        weir__text_add(&name, "%s/%s%d", user, role, i);
        if (name.failed)
            d->text.failed = true;
        else if (has_recipe(d, o))
            views[i] = add_steps(d, name.data, o->recipe, o->value);
        else
            views[i] = add_strided(d, name.data, o);
        weir__text_free(&name);
        if (d->text.failed)
            return;
    }
}

static void add_operand(struct dumper *d, const struct weir__operand *o, const char *view)
{
    if (o->value == WEIR__NO_VALUE)
        weir__text_add(&d->text, "\"\"");
    else if (view)
        add_ref(d, view, 0);
    else
        add_value_ref(d, o->value);
}

static void add_node(struct dumper *d, int index)
{
    const struct weir__node *n = &d->g->nodes[index];
    char *views[WEIR__OP_MAX_IN], *targets[WEIR__OP_MAX_OUT];
    bool into = n->nout && d->g->values[n->out[0].value].node != index;

    add_views(d, d->names.nodes[index], "in", n->in, n->nin, views);
    if (into)
        add_views(d, d->names.nodes[index], "out", n->out, n->nout, targets);
    if (d->text.failed)
        return;
    begin_node(d, d->names.nodes[index], n->op->name);
    for (int i = 0; i < n->nin; i++) {
        weir__text_add(&d->text, "  input: ");
        add_operand(d, &n->in[i], views[i]);
        weir__text_add(&d->text, "\n");
    }
    for (int i = 0; i < (int)n->ntokens; i++) {
        weir__text_add(&d->text, "  input: ");
        add_ref(d, d->names.nodes[n->control[i]], 0);
        weir__text_add(&d->text, "\n");
    }
    for (int i = (int)n->ntokens; i < n->ncontrol; i++) {
        struct weir__text ref = {0};

        weir__text_add(&ref, "^%s", d->names.nodes[n->control[i]]);
        weir__text_add(&d->text, "  input: ");
        if ((d->text.failed |= ref.failed) == false)
            weir__pb_write_quoted(&d->text, ref.data);
        weir__text_add(&d->text, "\n");
        weir__text_free(&ref);
    }
    weir__pb_write_params(&d->text, n);
    if (into) {
        weir__pb_write_begin(&d->text, "_into");
        weir__text_add(&d->text, "list {");
        for (int i = 0; i < n->nout; i++) {
            weir__text_add(&d->text, " s: ");
            add_operand(d, &n->out[i], targets[i]);
        }
        weir__text_add(&d->text, " }");
        weir__pb_write_end(&d->text);
    }
    add_marks(d, &n->marks);
    weir__text_add(&d->text, "%s", n->foreign ? n->foreign : "");
    end_node(d);
}

/* ---- the ends ---- */

static void begin_end(struct dumper *d, int value, const char *op)
{
    struct weir__view v = weir__input_view(&d->g->values[value]);

    begin_node(d, d->names.values[value], op);
    weir__pb_write_string(&d->text, "dtype", weir_dtype_name(v.dtype));
    weir__pb_write_ints(&d->text, "shape", v.shape, v.ndim);
}

static void add_input(struct dumper *d, int value)
{
    begin_end(d, value, "Placeholder");
    if (strcmp(d->names.values[value], d->g->values[value].name))
        weir__pb_write_string(&d->text, "name", d->g->values[value].name);
    end_node(d);
}

static bool uses(const struct weir__node *n, int value)
{
    bool found = false;

    for (int i = 0; i < n->nin + n->nout; i++)
        found |= (i < n->nin ? n->in[i] : n->out[i - n->nin]).value == value;
    return found;
}

/* Whether each run makes the constant anew before anything reads it, as arange does: until then its
 * bytes are whatever memory held. */
static bool is_made_by_runs(const weir_graph *g, int value)
{
    const struct weir__value *v = &g->values[value];
    const struct weir__node *n = g->nodes, *end = g->nodes + g->nnodes;

    if (!v->literal || v->last_writer < 0)
        return false;
    while (n < end && !uses(n, value))
        n++;
    return n < end && n->op->flags & WEIR__OP_OVERWRITES && n->nin == 1 && !n->in[0].view.data &&
           weir__view_numel(&n->in[0].view) == weir__view_numel(&v->view);
}

static weir_status add_constant(struct dumper *d, int value)
{
    weir_tensor *t = d->g->values[value].constant;
    size_t bytes = (size_t)weir_tensor_numel(t) * weir_dtype_size(weir_tensor_dtype(t));
    unsigned char *data = weir__calloc(1, bytes + 1);
    char hex[4097];
    weir_status st = WEIR_OK;

    if (!data)
        return weir__fail_nomem("allocating a constant of %s", weir__size(bytes).text);
    if (is_made_by_runs(d->g, value) || !(st = weir_tensor_read(t, data, bytes))) {
        begin_end(d, value, "Const");
        weir__pb_write_begin(&d->text, "data");
        weir__text_add(&d->text, "s: \"");
        for (size_t i = 0; i < bytes; i += sizeof hex / 2) {
            size_t n = 0;

            for (; n < sizeof hex / 2 && i + n < bytes; n++) {
                hex[2 * n] = "0123456789abcdef"[data[i + n] >> 4];
                hex[2 * n + 1] = "0123456789abcdef"[data[i + n] & 15];
            }
            weir__text_add(&d->text, "%.*s", (int)(2 * n), hex);
        }
        weir__text_add(&d->text, "\"");
        weir__pb_write_end(&d->text);
        end_node(d);
    }
    weir__free(data);
    return st;
}

static void add_outputs(struct dumper *d)
{
    const weir_graph *g = d->g;
    char **views = weir__calloc((size_t)g->noutputs + 1, sizeof *views);

    d->text.failed |= !views;
    for (int i = 0; i < g->noutputs && !d->text.failed; i++) {
        char role[24];

        snprintf(role, sizeof role, "%d/in", i);
        add_views(d, d->names.outputs, role, &g->outputs[i].operand, 1, &views[i]);
    }
    if (!d->text.failed) {
        begin_node(d, d->names.outputs, "NetOutput");
        for (int i = 0; i < g->noutputs; i++) {
            weir__text_add(&d->text, "  input: ");
            add_operand(d, &g->outputs[i].operand, views[i]);
            weir__text_add(&d->text, "\n");
        }
        weir__pb_write_begin(&d->text, "names");
        weir__text_add(&d->text, "list {");
        for (int i = 0; i < g->noutputs; i++) {
            weir__text_add(&d->text, " s: ");
            weir__pb_write_quoted(&d->text, g->outputs[i].name);
        }
        weir__text_add(&d->text, " }");
        weir__pb_write_end(&d->text);
        end_node(d);
    }
    weir__free(views);
}

static weir_status dump(struct dumper *d)
{
    const weir_graph *g = d->g;
    weir_status st = WEIR_OK;

    weir__text_add(&d->text, "# weir graph: %d nodes\n", g->nnodes);
    for (int i = 0; i < g->ninputs; i++)
        add_input(d, g->inputs[i]);
    for (int i = 0; i < g->nconstants && !st; i++)
        st = add_constant(d, g->constants[i]);
    for (int i = 0; i < g->nnodes && !d->text.failed; i++)
        add_node(d, i);
    if (g->noutputs)
        add_outputs(d);
    if (!st && d->text.failed)
        st = weir__fail_nomem("writing the text of a graph of %d nodes", g->nnodes);
    return st;
}

/* Names of sizes are numbers of this process: the file has the examples. */
static char *dump_examples(const weir_graph *g)
{
    weir_graph *examples;
    char *text;

    if (weir__graph_of_examples(g, &examples))
        return NULL;
    examples->nsizes = 0;
    text = weir_graph_dump(examples);
    weir_graph_destroy(examples);
    return text;
}

char *weir_graph_dump(const weir_graph *g)
{
    if (!g)
        return NULL;
    if (g->nsizes && g->dynamic)
        return dump_examples(g);
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), before;
    struct dumper d = {.g = g};
    weir_status st;

    if (!plain) {
        weir__fail_nomem("creating the locale to write a graph");
        return NULL;
    }
    before = uselocale(plain); /* numbers have a point, whatever the program's locale says */
    weir__pb_names_init(&d.names, g);
    st = d.names.failed ? weir__fail_nomem("allocating the names of a graph of %d nodes", g->nnodes)
                        : dump(&d);
    weir__pb_names_fini(&d.names);
    if (st)
        weir__text_free(&d.text);
    uselocale(before);
    freelocale(plain);
    return d.text.data;
}
