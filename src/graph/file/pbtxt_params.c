/* Operator parameters from attributes, using the row's table of fields. */
#include <stdio.h>
#include <string.h>

#include "graph/file/pbtxt_attr.h"

const struct weir__op_field *weir__pb_count_field(const struct weir__op *op,
                                                  const struct weir__op_field *of)
{
    for (size_t i = 0; i < op->nfields && of->count > 1 && of->kind != WEIR__FIELD_STRING; i++)
        if (op->fields[i].name[0] == 'n' && !strcmp(op->fields[i].name + 1, of->name))
            return &op->fields[i];
    return NULL;
}

bool weir__pb_is_count(const struct weir__op *op, const struct weir__op_field *field)
{
    for (size_t i = 0; i < op->nfields; i++)
        if (weir__pb_count_field(op, &op->fields[i]) == field)
            return true;
    return false;
}

static weir_status store_string(const struct weir__pb_value *v, const struct weir__pb_event *e,
                                const struct weir__op_field *field, char *at)
{
    const char *text;
    weir_status st = weir__pb_to_string(v, e, &text);

    if (st)
        return st;
    if (strlen(text) >= field->count)
        return weir__pb_value_fail(v, WEIR_EINVAL, "is '%.40s...', longer than %zu bytes", text,
                                   field->count - 1);
    strcpy(at, text);
    return WEIR_OK;
}

/* Stores entry i of the field. */
static weir_status store(const struct weir__pb_value *v, const struct weir__pb_event *e,
                         const struct weir__op_field *field, size_t i, char *params)
{
    char *at = params + field->offset;

    switch (field->kind) {
    case WEIR__FIELD_INT:
        return weir__pb_to_int(v, e, (int64_t *)at + i);
    case WEIR__FIELD_FLOAT:
        return weir__pb_to_float(v, e, (double *)at + i);
    case WEIR__FIELD_BOOL:
        return weir__pb_to_bool(v, e, (bool *)at + i);
    case WEIR__FIELD_DTYPE:
        return weir__pb_to_dtype(v, e, (weir_dtype *)at + i);
    case WEIR__FIELD_STRING:
        return store_string(v, e, field, at);
    }
    return WEIR_EINTERNAL;
}

static weir_status store_field(struct weir__pb_value *v, const struct weir__op *op,
                               const struct weir__op_field *field, char *params)
{
    const struct weir__op_field *counter = weir__pb_count_field(op, field);
    size_t max = field->kind == WEIR__FIELD_STRING ? 1 : field->count, n = 0;
    struct weir__pb_event e;
    weir_status st;

    while (!(st = weir__pb_value_next(v, &e)) && e.kind != WEIR__PB_END) {
        if (n == max)
            return weir__pb_value_fail(v, WEIR_EINVAL, "has more than %zu entries", max);
        if ((st = store(v, &e, field, n++, params)))
            return st;
    }
    if (st)
        return st;
    if (counter)
        *(int64_t *)(params + counter->offset) = (int64_t)n;
    else if (n < max)
        return weir__pb_value_fail(v, WEIR_EINVAL, "has %zu entries, not %zu", n, max);
    return WEIR_OK;
}

weir_status weir__pb_params(struct weir__pb_file *f, const struct weir__pb_node *n,
                            const struct weir__op *op, void *params)
{
    weir_status st = WEIR_OK;

    if (op->params_size)
        memset(params, 0, op->params_size);
    for (size_t i = 0; i < op->nfields && !st; i++) {
        const struct weir__pb_attr *a = weir__pb_attr_find(f, n, op->fields[i].name);
        struct weir__pb_value v;

        if (!a || weir__pb_is_count(op, &op->fields[i]))
            continue;
        if ((st = weir__pb_value_open(&v, f, n, a)))
            return st;
        st = store_field(&v, op, &op->fields[i], params);
        weir__pb_value_close(&v);
    }
    return st;
}
