/* Loads operator nodes: the row, its parameters, and the marks of scopes. */
#include <string.h>

#include "graph/file/pbtxt_load.h"

static weir_status find_op(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                           const struct weir__op **op)
{
    static const char *const aliases[][2] = {
        {"AddV2", "Add"},          {"MatMulV2", "MatMul"},      {"MatMulV3", "MatMul"},
        {"BatchMatMul", "MatMul"}, {"BatchMatMulV2", "MatMul"}, {"BatchMatMulV3", "MatMul"},
        {"RealDiv", "Div"},        {"Swish", "Silu"},           {"SwiGlu", "Swiglu"},
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

/* Other tools transpose operands of matrix products by attribute, weir by strides. */
static const char *const transposes[2][4] = {
    {"transpose_a", "transpose_x1", "adj_x", "adj_x1"},
    {"transpose_b", "transpose_x2", "adj_y", "adj_x2"},
};

bool weir__pb_is_transpose(const struct weir__op *op, const char *key)
{
    for (int i = 0; i < 2 && !strcmp(op->name, "MatMul"); i++)
        for (size_t k = 0; k < weir__countof(transposes[i]); k++)
            if (!strcmp(key, transposes[i][k]))
                return true;
    return false;
}

static weir_status transpose_inputs(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                    struct weir__operand *in, int nin)
{
    for (int i = 0; i < 2 && i < nin; i++)
        for (size_t k = 0; k < weir__countof(transposes[i]); k++) {
            struct weir__view_step swap = {.kind = WEIR__VIEW_PERMUTE, .n = in[i].view.ndim};
            bool transposed = false;
            weir_status st = weir__pb_attr_bool(&l->file, n, transposes[i][k], &transposed);

            if (st)
                return st;
            if (!transposed || swap.n < 2)
                continue;
            for (int d = 0; d < swap.n; d++)
                swap.args[d] = d < swap.n - 2 ? d : 2 * swap.n - 3 - d;
            if ((st = weir__pb_step(l, &in[i], &swap)))
                return weir__pb_at_node(&l->file, n, st);
        }
    return WEIR_OK;
}

static weir_status in_range(struct weir__pb_loader *l, const struct weir__pb_node *n,
                            const char *key, int64_t low, int64_t high, int *out)
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

/* Loads a core limit. Compiling checks it against the device's cores. */
static weir_status load_limit(struct weir__pb_loader *l, const struct weir__pb_node *n,
                              const char *key, int *out)
{
    int64_t value = -1;
    weir_status st = weir__pb_attr_int(&l->file, n, key, &value);

    if (st)
        return st;
    if (value != -1 && (value < 1 || value > 1 << 20))
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                  "%s %lld is out of range: 1 up to the device's cores, or -1 to "
                                  "keep the limit in force",
                                  key, (long long)value);
    *out = value < 0 ? 0 : (int)value;
    return WEIR_OK;
}

static weir_status load_names(struct weir__pb_loader *l, const struct weir__pb_node *n,
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
    if ((st = weir__super_options_check(options)))
        return weir__pb_fail_node(&l->file, st, n, "%s", weir_last_error());
    if (super && *super &&
        (marks->super_kernel = weir__graph_super_kernel(l->g, super, options)) < 0)
        return WEIR_ENOMEM;
    if (l->g->nlabels > WEIR__PB_MAX_LABELS || l->g->nsuper_kernels > WEIR__PB_MAX_LABELS)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                  "a graph has at most %d stream labels and super kernels",
                                  WEIR__PB_MAX_LABELS);
    return WEIR_OK;
}

static weir_status load_marks(struct weir__pb_loader *l, const struct weir__pb_node *n,
                              struct weir__marks *marks)
{
    weir_status st;

    *marks = (struct weir__marks){.super_kernel = -1};
    if ((st = load_names(l, n, marks)) ||
        (st = in_range(l, n, "_user_stream_priority", -8, 7, &marks->priority)) ||
        (st = load_limit(l, n, "_op_aicore_num", &marks->limit.cube)) ||
        (st = load_limit(l, n, "_op_vectorcore_num", &marks->limit.vector)))
        return st;
    return weir__pb_attr_bool(&l->file, n, "_op_exec_never_timeout", &marks->never_timeout);
}

static bool is_expanded(const struct weir__view *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (!v->stride[d] && v->shape[d] > 1)
            return true;
    return false;
}

static weir_status check_written(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                                 const struct weir__operand *written, int count)
{
    for (int i = 0; i < count; i++)
        if (is_expanded(&written[i].view))
            return weir__pb_fail_node(
                &l->file, WEIR_EINVAL, n,
                "it writes %s, an expanded view in which several elements share memory",
                weir__view_text(&written[i].view).text);
    return WEIR_OK;
}

weir_status weir__pb_load_operator(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                   struct weir__pb_made *m)
{
    struct weir__operand in[WEIR__OP_MAX_IN], into[WEIR__OP_MAX_OUT];
    int nin = WEIR__OP_MAX_IN, ninto = WEIR__OP_MAX_OUT, waits = l->nwaits, ntokens = 0;
    _Alignas(max_align_t) unsigned char params[2048];
    const struct weir__op *op;
    struct weir__marks marks;
    int *control = NULL;
    weir_status st;

    if ((st = find_op(l, n, &op)) || (st = weir__pb_operands(l, n, false, in, &nin)) ||
        (st = weir__pb_operands(l, n, true, into, &ninto)) || (st = load_marks(l, n, &marks)))
        return st;
    if (ninto && ninto != op->nout)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "_into names %d outputs, %s has %d",
                                  ninto, op->name, op->nout);
    if (op->params_size > sizeof params)
        return weir__fail(WEIR_EINTERNAL,
                          "%s has %zu bytes of parameters, more than a graph file holds", op->name,
                          op->params_size);
    if ((st = check_written(l, n, into, ninto)) ||
        (nin && (op->flags & WEIR__OP_IN_PLACE) && (st = check_written(l, n, in, 1))) ||
        (!strcmp(op->name, "MatMul") && (st = transpose_inputs(l, n, in, nin))) ||
        (st = weir__pb_params(&l->file, n, op, params)) ||
        (st = weir__pb_collect_waits(l, n, &ntokens)))
        return st;
    if (l->nwaits > waits &&
        !(control = weir__pb_file_ints(&l->file, l->waits + waits, l->nwaits - waits)))
        return weir__fail_nomem("%s: allocating node '%.80s'", l->file.text.where, n->name);
    l->g->adopts = true; /* the graph takes over the file's strings */
    st = weir__graph_add_node(l->g, op, n->name, params, in, nin, ninto ? into : NULL, &marks,
                              control, l->nwaits - waits, &m->node);
    l->g->adopts = false;
    l->nwaits = waits;
    m->kind = WEIR__PB_MADE_NODE;
    if (st)
        return weir__pb_at_node(&l->file, n, st);
    l->g->nodes[m->node].ntokens = (unsigned)ntokens;
    if (!strcmp(op->name, "Kernel") && !l->read[n - l->file.nodes])
        weir__graph_drop_outputs(l->g, m->node);
    return weir__pb_load_foreign(l, n, op, &l->g->nodes[m->node].foreign);
}
