/* 16-bit integers, which weir lacks. An operator computes with them as i32 in a tensor of the call;
 * its results are written back byte by byte at the end. */
#include "narrow.h"

#include <stdlib.h>

struct narrow {
    struct narrow *next;
    const aclTensor *narrow;
    tensor *wide;
    bool written;
};

/* Returns the kind of the operand that contains the tensor. */
static char kind_of(const struct call *c, const aclTensor *t)
{
    for (int i = 0; i < c->row->count; i++) {
        char kind = c->row->operands[i].kind;

        if ((kind == OPERAND_T || kind == OPERAND_O || kind == OPERAND_X) && c->args[i].tensor == t)
            return kind;
        for (int k = 0; (kind == OPERAND_L || kind == OPERAND_M) && k < items(c, i); k++)
            if (c->args[i].tensors->value[k] == t)
                return kind;
    }
    return OPERAND_T;
}

/* Makes a u8 view of the lower or upper bytes of the elements. */
static tensor *bytes_of(struct call *c, const aclTensor *t, bool upper)
{
    int64_t stride[MAX_DIMS];
    tensor *x = NULL;

    for (int i = 0; i < t->ndim; i++)
        stride[i] = 2 * t->stride[i];
    if (!c->err && weir_cann_tensor(t->data + 2 * t->offset + upper,
                                    upper && t->type == ACL_INT16 ? WEIR_I8 : WEIR_U8, t->ndim,
                                    t->shape, stride, &x))
        c->err = ACLNN_ERR_PARAM_INVALID;
    return own(c, x);
}

tensor *narrow_view(struct call *c, const aclTensor *t)
{
    struct narrow *n = c->narrows;
    char kind = kind_of(c, t);
    bool any = true;

    while (n && n->narrow != t)
        n = n->next;
    if (n || c->err)
        return n && !c->err ? n->wide : NULL;
    if (!(n = malloc(sizeof *n)))
        return call_fail(c, "out of host memory");
    *n = (struct narrow){c->narrows, t, NULL,
                         kind == OPERAND_O || kind == OPERAND_X || kind == OPERAND_M};
    c->narrows = n;
    for (int i = 0; i < t->ndim; i++)
        any &= t->shape[i] != 0;
    if (!any) /* an empty tensor has no memory */
        n->wide = empty(c, WEIR_I32, t->ndim, t->shape);
    else if (kind == OPERAND_O || kind == OPERAND_M)
        n->wide = full(c, WEIR_I32, t->ndim, t->shape, 0);
    else
        n->wide = op_add(c, cast(c, bytes_of(c, t, false), WEIR_I32),
                         op_muls(c, cast(c, bytes_of(c, t, true), WEIR_I32), 256));
    return n->wide;
}

void narrow_note_put(struct call *c, const tensor *out)
{
    for (struct narrow *n = c->narrows; n; n = n->next)
        n->written |= n->wide == out;
}

/* Writes the low 16 bits of each value: it wraps, as in PyTorch. */
static void write_back(struct call *c, const struct narrow *n)
{
    tensor *low = cast(c, n->wide, WEIR_U8), *high;

    high = cast(c, op_sub(c, n->wide, cast(c, low, WEIR_I32)), WEIR_F64);
    high = cast(c, cast(c, op_muls(c, high, 1. / 256), WEIR_I32),
                n->narrow->type == ACL_INT16 ? WEIR_I8 : WEIR_U8);
    put_tensor(c, bytes_of(c, n->narrow, false), low);
    put_tensor(c, bytes_of(c, n->narrow, true), high);
}

void narrow_end(struct call *c)
{
    while (c->narrows) {
        struct narrow *n = c->narrows;

        if (n->written && numel(n->wide))
            write_back(c, n);
        c->narrows = n->next;
        free(n);
    }
}
