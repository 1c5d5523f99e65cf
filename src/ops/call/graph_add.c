/* Builds a graph node by node: parameters come from attributes, by the row's fields. */
#include <string.h>

#include "ops/op.h"
#include "scope/scope.h"

enum { MAX_PARAMS = 2048 };

/* The field n<name> of an array of varying length, which holds the list's length. */
static const struct weir__op_field *counter_of(const struct weir__op *op,
                                               const struct weir__op_field *array)
{
    for (size_t i = 0; i < op->nfields && array->count > 1; i++)
        if (op->fields[i].name[0] == 'n' && !strcmp(op->fields[i].name + 1, array->name))
            return &op->fields[i];
    return NULL;
}

static bool is_counter(const struct weir__op *op, const struct weir__op_field *f)
{
    for (size_t i = 0; i < op->nfields; i++)
        if (counter_of(op, &op->fields[i]) == f)
            return true;
    return false;
}

static const struct weir__op_field *find_field(const struct weir__op *op, const char *name)
{
    for (size_t i = 0; i < op->nfields; i++)
        if (!strcmp(op->fields[i].name, name) && !is_counter(op, &op->fields[i]))
            return &op->fields[i];
    return NULL;
}

static weir_status unknown_attribute(const struct weir__op *op, const char *name)
{
    struct weir__text names = {0};
    weir_status st;

    for (size_t i = 0; i < op->nfields; i++)
        if (!is_counter(op, &op->fields[i]))
            weir__text_add(&names, "%s%s", names.size ? ", " : "", op->fields[i].name);
    st = weir__fail(WEIR_EINVAL, "%s has no attribute '%s'; it has %s", op->name, name,
                    names.size ? names.data : "none");
    weir__text_free(&names);
    return st;
}

static weir_status wrong_kind(const struct weir__op *op, const weir_attr *a)
{
    return weir__fail(WEIR_EINVAL, "%s: attribute '%s' is of the wrong kind or length", op->name,
                      a->name);
}

static weir_status parse_dtype(const struct weir__op *op, const weir_attr *a, weir_dtype *out)
{
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        if (!strcmp(weir_dtype_name((weir_dtype)t), a->value.s)) {
            *out = (weir_dtype)t;
            return WEIR_OK;
        }
    return weir__fail(WEIR_EDTYPE, "%s: attribute '%s' is '%s', which is not a data type", op->name,
                      a->name, a->value.s);
}

static bool is_int(const struct weir__op_field *f)
{
    return f->kind == WEIR__FIELD_INT;
}

static weir_status store_ints(const struct weir__op *op, const weir_attr *a,
                              const struct weir__op_field *f, char *params)
{
    const struct weir__op_field *counter = counter_of(op, f);
    size_t n = a->value.ints.count;

    if (!is_int(f) || n > f->count || (!counter && n != f->count))
        return wrong_kind(op, a);
    memcpy(params + f->offset, a->value.ints.data, n * sizeof(int64_t));
    if (counter)
        *(int64_t *)(params + counter->offset) = (int64_t)n;
    return WEIR_OK;
}

static weir_status store(const struct weir__op *op, const weir_attr *a,
                         const struct weir__op_field *f, char *params)
{
    char *at = params + f->offset;

    if (a->kind == WEIR_ATTR_INTS)
        return store_ints(op, a, f, params);
    if (f->kind == WEIR__FIELD_STRING) {
        if (a->kind != WEIR_ATTR_STRING || strlen(a->value.s) >= f->count)
            return wrong_kind(op, a);
        strcpy(at, a->value.s);
        return WEIR_OK;
    }
    if (f->count != 1)
        return wrong_kind(op, a);
    if (is_int(f) && a->kind == WEIR_ATTR_INT)
        *(int64_t *)at = a->value.i;
    else if (f->kind == WEIR__FIELD_FLOAT && a->kind == WEIR_ATTR_FLOAT)
        *(double *)at = a->value.f;
    else if (f->kind == WEIR__FIELD_FLOAT && a->kind == WEIR_ATTR_INT)
        *(double *)at = (double)a->value.i;
    else if (f->kind == WEIR__FIELD_BOOL && a->kind == WEIR_ATTR_BOOL)
        *(bool *)at = a->value.b;
    else if (f->kind == WEIR__FIELD_DTYPE && a->kind == WEIR_ATTR_STRING)
        return parse_dtype(op, a, (weir_dtype *)at);
    else
        return wrong_kind(op, a);
    return WEIR_OK;
}

weir_status weir_graph_add(weir_graph *g, const char *op_name, const char *name,
                           const weir_attr *attrs, size_t nattrs, weir_tensor *const *in, int nin,
                           weir_tensor **out, int nout)
{
    WEIR__NEED(g, "graph");
    WEIR__NEED(op_name, "op");

    _Alignas(max_align_t) char params[MAX_PARAMS] = {0};
    const struct weir__op *op = op_name ? weir__op_find(op_name) : NULL;
    struct weir__marks marks;
    weir_status st;

    for (int i = 0; i < nout; i++)
        out[i] = NULL;
    if (!op)
        return weir__fail(WEIR_EINVAL, "there is no operator '%s'; `weir ops` lists all operators",
                          op_name ? op_name : "");
    if (op->params_size > sizeof params)
        return weir__fail(WEIR_EINTERNAL,
                          "%s has %zu bytes of parameters, more than weir_graph_add holds",
                          op->name, op->params_size);
    if (nout != op->nout)
        return weir__fail(WEIR_EINVAL, "%s has %d outputs, not %d", op->name, op->nout, nout);
    if (name && (!*name || *name == '^'))
        return weir__fail(
            WEIR_EINVAL,
            "'%s' cannot be the name of a node: it is empty or begins with '^', which "
            "marks control inputs in files",
            name);
    for (int i = 0; name && i < g->nnodes; i++)
        if (!strcmp(g->nodes[i].name, name))
            return weir__fail(WEIR_EINVAL, "the graph has a node '%s' already", name);
    for (size_t i = 0; i < nattrs; i++) {
        const struct weir__op_field *f = find_field(op, attrs[i].name);

        if (!f)
            return unknown_attribute(op, attrs[i].name);
        if ((st = store(op, &attrs[i], f, params)))
            return st;
    }
    if ((st = weir__scope_marks(g, &marks)))
        return st;
    return weir__graph_add_call(g, op, name, params, in, nin, NULL, &marks, out);
}
