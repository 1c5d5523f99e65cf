/* Calls an operator's shape rule. Its input and its result are checked for overflow here, so that
 * no row has to. */
#include "tensor/infer.h"

#include <string.h>

/* Fields that may hold any integer; their rows check them. */
static bool is_wide(const struct weir__op_field *f)
{
    static const char *const names[] = {"seed", "bytes", "shapes", "send", "recv"};

    for (size_t i = 0; i < weir__countof(names); i++)
        if (!strcmp(f->name, names[i]))
            return true;
    return false;
}

/* Checks that dims, counts and steps fit in 32 bits, so that rows can add and multiply them once
 * without overflow. The list of wide fields is searched last, because nearly every value fits. */
static weir_status check_ints(const struct weir__op *op, const char *params)
{
    const struct weir__op_field *end = op->fields + op->nfields;

    for (const struct weir__op_field *f = op->fields; f < end; f++) {
        const int64_t *value = (const int64_t *)(const void *)(params + f->offset);

        if (f->kind != WEIR__FIELD_INT)
            continue;
        for (size_t left = f->count; left; left--, value++)
            if (weir__unlikely(*value != (int32_t)*value) && !is_wide(f))
                return weir__fail(WEIR_ERANGE,
                                  "%s: %s %lld is out of range: -2147483648..2147483647", op->name,
                                  f->name, (long long)*value);
    }
    return WEIR_OK;
}

weir_status weir__shape_check(const char *what, weir_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t bytes = (int64_t)weir__dtype_size(dtype);

    if (!bytes)
        return weir__fail(WEIR_EDTYPE, "%s: %d is not a data type", what, (int)dtype);
    if (ndim < 0 || ndim > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "%s: a tensor has 0..%d dims, not %d", what, WEIR_MAX_DIMS,
                          ndim);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return weir__fail(WEIR_ESHAPE, "%s: size %lld of dim %d is negative", what,
                              (long long)shape[i], i);
        /* A size of 0 counts as 1, so that it does not hide an overflow of the strides. */
        if (__builtin_mul_overflow(bytes, shape[i] ? shape[i] : 1, &bytes))
            return weir__fail(WEIR_ESHAPE, "%s: %s%s has more bytes than fit in 63 bits", what,
                              weir_dtype_name(dtype), weir__dims_text(ndim, shape).text);
    }
    return WEIR_OK;
}

weir_status weir__op_infer(struct weir__call *call)
{
    const struct weir__op *op = call->op;
    weir_status st;

    if ((op->nfields && (st = check_ints(op, call->params))) || (st = op->infer(call)))
        return st;
    for (int i = 0; i < op->nout; i++)
        if ((st = weir__shape_check(op->name, call->out[i].dtype, call->out[i].ndim,
                                    call->out[i].shape)))
            return st;
    return WEIR_OK;
}
