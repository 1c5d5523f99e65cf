/* Graph files: from records to a graph. */
#include "graph/pbtxt_load.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

/* What a node of the file became. */
struct made {
    enum { MADE_NODE, MADE_OPERAND, MADE_NOTHING } kind;
    int node;                     /* of the graph, for MADE_NODE */
    struct weir__operand operand; /* for MADE_OPERAND */
    int waits, nwaits;            /* what its users run after beside their operands: Identity */
};

struct loader {
    struct weir__pb_file file;
    weir_graph *g;
    int *order;
    struct made *made; /* by node of the file */
    int *waits;        /* nodes of the graph, of all that hand them on */
    int nwaits, cap_waits;
    int *stamp; /* by node of the graph: the last list it was put into */
    int list;
    int64_t zeros;
};

/* ---- operands ---- */

static weir_status operand_of(const struct loader *l, const struct weir__pb_ref *ref,
                              struct weir__operand *out)
{
    const struct weir__pb_node *to = &l->file.nodes[ref->node];
    const struct made *m = &l->made[ref->node];
    const struct weir__operand *writes = &m->operand;
    int nwrites = m->kind == MADE_OPERAND;

    if (m->kind == MADE_NODE)
        writes = weir__node_writes(&l->g->nodes[m->node], &nwrites);
    if (ref->index >= nwrites)
        return weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at,
                             "'%.80s' has no output %d: %s has %d", to->name, ref->index, to->op,
                             nwrites);
    *out = writes[ref->index];
    return WEIR_OK;
}

/* The operands of one kind, in order. *n is how many there are room for, and are. */
static weir_status operands_of(const struct loader *l, const struct weir__pb_node *n, bool into,
                               struct weir__operand *out, int *count)
{
    int max = *count;
    weir_status st;

    *count = 0;
    for (int i = n->refs; i < n->refs + n->nrefs; i++) {
        const struct weir__pb_ref *ref = &l->file.refs[i];

        if (ref->kind == WEIR__PB_CONTROL || (ref->kind == WEIR__PB_INTO) != into)
            continue;
        if (*count == max)
            return weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at,
                                 "node '%.80s' has more than %d %s", n->name, max,
                                 into ? "outputs" : "inputs");
        if (ref->kind == WEIR__PB_ABSENT)
            out[*count] = (struct weir__operand){.value = WEIR__NO_VALUE};
        else if ((st = operand_of(l, ref, &out[*count])))
            return st;
        ++*count;
    }
    return WEIR_OK;
}

/* ---- what runs after what ---- */

static weir_status add_wait(struct loader *l, int node)
{
    if (node < 0 || l->stamp[node] == l->list)
        return WEIR_OK;
    l->stamp[node] = l->list;
    if (l->nwaits == l->cap_waits) {
        int cap = l->cap_waits ? 2 * l->cap_waits : 256;
        int *fresh = cap > 1 << 24 ? NULL : weir__malloc((size_t)cap * sizeof *fresh);

        if (!fresh)
            return weir__fail(WEIR_ENOMEM, "%s: %d control edges", l->file.text.where, cap);
        if (l->nwaits)
            memcpy(fresh, l->waits, (size_t)l->nwaits * sizeof *fresh);
        weir__free(l->waits);
        l->waits = fresh;
        l->cap_waits = cap;
    }
    l->waits[l->nwaits++] = node;
    return WEIR_OK;
}

/* Appends to l->waits, each once, what `n` runs after: its control inputs, and what the
 * Identities among its inputs hand on. */
static weir_status collect_waits(struct loader *l, const struct weir__pb_node *n)
{
    weir_status st = WEIR_OK;

    l->list++;
    for (int i = n->refs; i < n->refs + n->nrefs && !st; i++) {
        const struct weir__pb_ref *ref = &l->file.refs[i];
        const struct made *m = ref->node < 0 ? NULL : &l->made[ref->node];

        if (!m)
            continue;
        if (ref->kind == WEIR__PB_CONTROL && m->kind == MADE_NODE)
            st = add_wait(l, m->node);
        else if (ref->kind == WEIR__PB_CONTROL && m->kind == MADE_OPERAND)
            st = add_wait(l, l->g->values[m->operand.value].last_writer);
        for (int j = 0; j < m->nwaits && !st; j++)
            st = add_wait(l, l->waits[m->waits + j]);
    }
    return st;
}

/* ---- nodes that are no operators ---- */

static bool is_expanded(const struct weir__view *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (!v->stride[d] && v->shape[d] > 1)
            return true;
    return false;
}

/* The view's elements, from `offset` elements on, must lie in the whole value. */
static weir_status check_view(const struct loader *l, const struct weir__pb_node *n,
                              const struct weir__view *v, int64_t offset,
                              const struct weir__value *value)
{
    int64_t last = offset, step, numel = weir__view_numel(&value->view);

    for (int d = 0; d < v->ndim; d++) {
        if (v->shape[d] < 0 || v->stride[d] < 0)
            return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                      "size %lld and stride %lld of dim %d must not be negative",
                                      (long long)v->shape[d], (long long)v->stride[d], d);
        if (v->shape[d] && (__builtin_mul_overflow(v->shape[d] - 1, v->stride[d], &step) ||
                            __builtin_add_overflow(last, step, &last)))
            last = numel;
    }
    for (int d = 0; d < v->ndim; d++)
        if (!v->shape[d])
            last = offset - 1; /* no elements: only the offset must fit */
    if (offset < 0 || offset > numel || last >= numel)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                  "the view %s reaches beyond the %lld elements of %s",
                                  weir__view_text(v).text, (long long)numel,
                                  weir__view_text(&value->view).text);
    return WEIR_OK;
}

static weir_status load_view(struct loader *l, const struct weir__pb_node *n,
                             struct weir__operand *o)
{
    int64_t size = (int64_t)weir_dtype_size(o->view.dtype), offset = 0, strides[WEIR_MAX_DIMS];
    int64_t shape[WEIR_MAX_DIMS];
    struct weir__view v = o->view;
    int ndim, nstrides;
    weir_status st;

    if ((st = weir__pb_attr_int(&l->file, n, "offset", &offset)) ||
        (st = weir__pb_attr_ints(&l->file, n, "shape", shape, WEIR_MAX_DIMS, &ndim)) ||
        (st = weir__pb_attr_ints(&l->file, n, "strides", strides, WEIR_MAX_DIMS, &nstrides)))
        return st;
    if (ndim < 0)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s has no attribute 'shape'", n->op);
    if (nstrides >= 0 && nstrides != ndim)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%d sizes but %d strides", ndim,
                                  nstrides);
    if ((st = weir__view_init(&v, v.dtype, ndim, shape)))
        return weir__pb_at_node(&l->file, n, st);
    if (nstrides > 0)
        memcpy(v.stride, strides, (size_t)nstrides * sizeof *strides);
    /* Offsets count from where the input's own view begins. */
    if (__builtin_add_overflow(offset, (int64_t)(intptr_t)o->view.data / size, &offset))
        offset = -1;
    if ((st = check_view(l, n, &v, offset, &l->g->values[o->value])))
        return st;
    v.data = (char *)(intptr_t)(offset * size);
    o->view = v;
    return WEIR_OK;
}

/* Identity and View: their input as another operand, with what its users wait for. */
static weir_status load_alias(struct loader *l, const struct weir__pb_node *n, bool is_view,
                              struct made *m)
{
    int count = 1;
    weir_status st;

    if ((st = operands_of(l, n, false, &m->operand, &count)))
        return st;
    if (!count || m->operand.value == WEIR__NO_VALUE)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s needs an input", n->op);
    if (is_view && (st = load_view(l, n, &m->operand)))
        return st;
    m->waits = l->nwaits;
    if ((st = collect_waits(l, n)))
        return st;
    m->nwaits = l->nwaits - m->waits;
    if (m->nwaits > WEIR__PB_MAX_WAITS)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s hands on more than %d control edges",
                                  n->op, WEIR__PB_MAX_WAITS);
    m->kind = MADE_OPERAND;
    return WEIR_OK;
}

/* ---- operators ---- */

static weir_status find_op(const struct loader *l, const struct weir__pb_node *n,
                           const struct weir__op **op)
{
    static const char *const aliases[][2] = {
        {"AddV2", "Add"},           {"MatMulV2", "MatMul"},      {"MatMulV3", "MatMul"},
        {"BatchMatMul", "MatMul"},  {"BatchMatMulV2", "MatMul"}, {"BatchMatMulV3", "MatMul"},
        {"RealDiv", "Div"},         {"Swish", "Silu"},           {"SwiGlu", "Swiglu"},
    };
    const char *name = n->op;

    for (size_t i = 0; i < weir__countof(aliases); i++)
        if (!strcmp(name, aliases[i][0]))
            name = aliases[i][1];
    if (!(*op = weir__op_find(name)))
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                  "there is no operator '%.80s'; a Kernel node with its cost can "
                                  "stand for it",
                                  n->op);
    return WEIR_OK;
}

/* Matrix products of other tools transpose by attribute, weir's by strides. */
static weir_status transpose_inputs(struct loader *l, const struct weir__pb_node *n,
                                    struct weir__operand *in, int nin)
{
    static const char *const keys[2][4] = {
        {"transpose_a", "transpose_x1", "adj_x", "adj_x1"},
        {"transpose_b", "transpose_x2", "adj_y", "adj_x2"},
    };

    for (int i = 0; i < 2 && i < nin; i++)
        for (size_t k = 0; k < weir__countof(keys[i]); k++) {
            struct weir__view *v = &in[i].view;
            bool transposed = false;
            weir_status st = weir__pb_attr_bool(&l->file, n, keys[i][k], &transposed);

            if (st)
                return st;
            if (!transposed || v->ndim < 2)
                continue;
            int64_t size = v->shape[v->ndim - 1], stride = v->stride[v->ndim - 1];
            v->shape[v->ndim - 1] = v->shape[v->ndim - 2];
            v->stride[v->ndim - 1] = v->stride[v->ndim - 2];
            v->shape[v->ndim - 2] = size;
            v->stride[v->ndim - 2] = stride;
        }
    return WEIR_OK;
}

static weir_status in_range(struct loader *l, const struct weir__pb_node *n, const char *key,
                            int64_t low, int64_t high, int *out)
{
    int64_t value = *out;
    weir_status st = weir__pb_attr_int(&l->file, n, key, &value);

    if (st)
        return st;
    if (value < low || value > high)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s %lld is out of range: %lld..%lld",
                                  key, (long long)value, (long long)low, (long long)high);
    *out = (int)value;
    return WEIR_OK;
}

static weir_status load_names(struct loader *l, const struct weir__pb_node *n,
                              struct weir__marks *marks)
{
    const char *label = NULL, *super = NULL, *options = "";
    weir_status st;

    if ((st = weir__pb_attr_string(&l->file, n, "_user_stream_label", &label)) ||
        (st = weir__pb_attr_string(&l->file, n, "_super_kernel_scope", &super)) ||
        (st = weir__pb_attr_string(&l->file, n, "_super_kernel_options", &options)))
        return st;
    if (label && !*label)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s", "_user_stream_label is empty");
    if (label && (marks->stream = weir__graph_label(l->g, label)) < 0)
        return WEIR_ENOMEM;
    if (super && *super &&
        (marks->super_kernel = weir__graph_super_kernel(l->g, super, options)) < 0)
        return WEIR_ENOMEM;
    if (l->g->nlabels > WEIR__PB_MAX_LABELS || l->g->nsuper_kernels > WEIR__PB_MAX_LABELS)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                  "a graph has at most %d stream labels and super kernels",
                                  WEIR__PB_MAX_LABELS);
    return WEIR_OK;
}

static weir_status load_marks(struct loader *l, const struct weir__pb_node *n,
                              struct weir__marks *marks)
{
    const int most_cores = 1 << 20; /* what the device has is checked when it is compiled */
    weir_status st;

    *marks = (struct weir__marks){.super_kernel = -1};
    if ((st = load_names(l, n, marks)) ||
        (st = in_range(l, n, "_user_stream_priority", -8, 7, &marks->priority)) ||
        (st = in_range(l, n, "_op_aicore_num", -1, most_cores, &marks->limit.cube)) ||
        (st = in_range(l, n, "_op_vectorcore_num", -1, most_cores, &marks->limit.vector)))
        return st;
    marks->limit.cube = marks->limit.cube < 0 ? 0 : marks->limit.cube;
    marks->limit.vector = marks->limit.vector < 0 ? 0 : marks->limit.vector;
    return weir__pb_attr_bool(&l->file, n, "_op_exec_never_timeout", &marks->never_timeout);
}

static weir_status check_written(const struct loader *l, const struct weir__pb_node *n,
                                 const struct weir__operand *written, int count)
{
    for (int i = 0; i < count; i++)
        if (is_expanded(&written[i].view))
            return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                      "it writes %s, which is expanded: several elements are one",
                                      weir__view_text(&written[i].view).text);
    return WEIR_OK;
}

static weir_status load_operator(struct loader *l, const struct weir__pb_node *n, struct made *m)
{
    struct weir__operand in[WEIR__OP_MAX_IN], into[WEIR__OP_MAX_OUT];
    int nin = WEIR__OP_MAX_IN, ninto = WEIR__OP_MAX_OUT, waits = l->nwaits;
    _Alignas(max_align_t) unsigned char params[512];
    const struct weir__op *op;
    struct weir__marks marks;
    weir_status st;

    if ((st = find_op(l, n, &op)) || (st = operands_of(l, n, false, in, &nin)) ||
        (st = operands_of(l, n, true, into, &ninto)) || (st = load_marks(l, n, &marks)))
        return st;
    if (ninto && ninto != op->nout)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "_into names %d outputs, %s has %d",
                                  ninto, op->name, op->nout);
    if (op->params_size > sizeof params)
        return weir__fail(WEIR_EINTERNAL, "parameters of %s: %zu bytes", op->name, op->params_size);
    if ((st = check_written(l, n, into, ninto)) ||
        (nin && (op->flags & WEIR__OP_IN_PLACE) && (st = check_written(l, n, in, 1))) ||
        (!strcmp(op->name, "MatMul") && (st = transpose_inputs(l, n, in, nin))) ||
        (st = weir__pb_params(&l->file, n, op, params)) || (st = collect_waits(l, n)))
        return st;
    st = weir__graph_add_node(l->g, op, n->name, params, in, nin, ninto ? into : NULL, &marks,
                              l->waits + waits, l->nwaits - waits, &m->node);
    l->nwaits = waits;
    m->kind = MADE_NODE;
    return weir__pb_at_node(&l->file, n, st);
}

/* ---- outputs ---- */

/* Output k of NetOutput is called as the k-th of `names` says, or as what it names. */
static weir_status load_output(struct loader *l, const struct weir__pb_ref *ref, const char *name)
{
    struct weir__operand operand;
    weir_tensor *t;
    char generated[128];
    weir_status st;

    if (l->g->noutputs >= WEIR__PB_MAX_ENDS)
        return weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at, "a graph has at most %d outputs",
                             WEIR__PB_MAX_ENDS);
    if ((st = operand_of(l, ref, &operand)))
        return st;
    if (!name && ref->index)
        snprintf(generated, sizeof generated, "%.100s:%d", ref->name, ref->index);
    if ((st = weir__graph_tensor(l->g, &operand, &t)))
        return st;
    st = weir_graph_output(l->g, name ? name : ref->index ? generated : ref->name, t);
    weir_tensor_release(t);
    return st && st != WEIR_ENOMEM
               ? weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at, "%s", weir_last_error())
               : st;
}

static weir_status load_outputs(struct loader *l, const struct weir__pb_node *n)
{
    const struct weir__pb_attr *names = weir__pb_attr_find(&l->file, n, "names");
    struct weir__pb_value v;
    struct weir__pb_event e = {.kind = WEIR__PB_END};
    weir_status st = WEIR_OK;

    if (names && (st = weir__pb_value_open(&v, &l->file, n, names)))
        return st;
    for (int i = n->refs; i < n->refs + n->nrefs && !st; i++) {
        const struct weir__pb_ref *ref = &l->file.refs[i];
        const char *name = NULL;

        if (ref->kind != WEIR__PB_DATA)
            continue;
        if (names && !(st = weir__pb_value_next(&v, &e)) && e.kind != WEIR__PB_END)
            st = weir__pb_to_string(&v, &e, &name);
        if (!st)
            st = load_output(l, ref, name);
    }
    if (names)
        weir__pb_value_close(&v);
    return st;
}

/* ---- the file ---- */

static bool is_op(const struct weir__pb_node *n, const char *a, const char *b, const char *c)
{
    return !strcmp(n->op, a) || !strcmp(n->op, b) || !strcmp(n->op, c);
}

static bool is_outputs(const struct weir__pb_node *n) { return !strcmp(n->op, "NetOutput"); }

static weir_status load_node(struct loader *l, int index)
{
    const struct weir__pb_node *n = &l->file.nodes[index];
    struct made *m = &l->made[index];

    m->kind = MADE_OPERAND;
    if (is_op(n, "Placeholder", "Data", "Arg"))
        return weir__pb_load_input(&l->file, n, l->g, &m->operand);
    if (is_op(n, "Const", "Constant", "ConstPlaceHolder"))
        return weir__pb_load_constant(&l->file, n, l->g, &l->zeros, &m->operand);
    m->kind = MADE_NOTHING;
    if (is_outputs(n))
        return WEIR_OK;
    if (is_op(n, "Identity", "View", "View"))
        return load_alias(l, n, !strcmp(n->op, "View"), m);
    return load_operator(l, n, m);
}

static weir_status load_nodes(struct loader *l)
{
    const struct weir__pb_file *f = &l->file;
    size_t n = (size_t)f->nnodes + 1;
    weir_status st = WEIR_OK;

    if (f->nnodes > WEIR__PB_MAX_NODES)
        return weir__pb_fail(&f->text, WEIR_EINVAL, f->nodes[WEIR__PB_MAX_NODES].at,
                             "a graph file has at most %d nodes", WEIR__PB_MAX_NODES);
    if ((st = weir__pb_resolve(&l->file)) || (st = weir__pb_sort(f, &l->order)))
        return st;
    l->made = weir__calloc(n, sizeof *l->made);
    l->stamp = weir__calloc(n, sizeof *l->stamp);
    if (!l->made || !l->stamp)
        return weir__fail(WEIR_ENOMEM, "%s: %d nodes", f->text.where, f->nnodes);
    for (int i = 0; i < f->nnodes && !st; i++)
        st = load_node(l, l->order[i]);
    /* Results are what values hold in the end, wherever the file names them. */
    for (int i = 0; i < f->nnodes && !st; i++)
        if (is_outputs(&f->nodes[i]))
            st = load_outputs(l, &f->nodes[i]);
    return st;
}

weir_status weir_graph_load(weir_device *dev, const char *text, size_t size, const char *where,
                            weir_graph **out)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), before;
    struct loader l = {.g = NULL};
    weir_status st;

    *out = NULL;
    if (!plain)
        return weir__fail(WEIR_ENOMEM, "the locale to read %s in", where ? where : "a graph");
    before = uselocale(plain); /* numbers have a point, whatever the program's locale says */
    st = weir__pb_file_parse(&l.file, where ? where : "graph", text, size);
    if (!st && !(st = weir_graph_create(dev, &l.g)))
        st = load_nodes(&l);
    if (st)
        weir_graph_destroy(l.g);
    else
        *out = l.g;
    weir__pb_file_fini(&l.file);
    weir__free(l.order);
    weir__free(l.made);
    weir__free(l.waits);
    weir__free(l.stamp);
    uselocale(before);
    freelocale(plain);
    return st;
}
