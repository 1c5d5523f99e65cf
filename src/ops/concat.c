/* concat: joins tensors along one dim. */
#include <string.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/concat.h"
#include "ops/host/row.h"
#include "ops/tile.h"

struct concat_params {
    int64_t dim;
};

static const struct weir__op_field concat_fields[] = {
    {"dim", WEIR__FIELD_INT, offsetof(struct concat_params, dim), 1},
};

/* Bytes of the kernel's arguments. */
static size_t args_size(int n, int ndim, bool strided)
{
    return sizeof(struct weir__concat) + (size_t)n * (size_t)(strided ? 2 + ndim : 2) * 8;
}

static weir_status infer_concat(struct weir__call *call)
{
    const struct concat_params *p = call->params;
    const struct weir__view *first = call->in[0];
    struct weir__view *out = &call->out[0];
    weir_status st;
    int dim;

    if ((st = weir__check_dim("Concat", p->dim, first, &dim)))
        return st;
    out->dtype = first->dtype;
    out->ndim = first->ndim;
    memcpy(out->shape, first->shape, sizeof first->shape);
    for (int i = 1; i < call->nin; i++) {
        const struct weir__view *x = call->in[i];
        bool fits = x->ndim == first->ndim;

        if ((st = weir__check_same_type("Concat", first, x)))
            return st;
        for (int d = 0; fits && d < x->ndim; d++)
            fits = d == dim || x->shape[d] == first->shape[d];
        if (!fits)
            return weir__fail(
                WEIR_ESHAPE, "Concat along dim %d: input %d is %s, which differs from %s elsewhere",
                dim, i, weir__view_text(x).text, weir__view_text(first).text);
        if (__builtin_add_overflow(out->shape[dim], x->shape[dim], &out->shape[dim]))
            return weir__fail(WEIR_ESHAPE,
                              "Concat along dim %d: the sizes of %d inputs add up to "
                              "more than fits in 63 bits",
                              dim, call->nin);
    }
    return WEIR_OK;
}

static void cost_concat(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 0, cost);
}

static int64_t parts_concat(const struct weir__call *call)
{
    const struct concat_params *p = call->params;

    return weir__parts_before(&call->out[0], weir__dim_wrap((int)p->dim, call->out[0].ndim));
}

static void place_concat(void *args, int operand, char *data)
{
    struct weir__concat *c = args;

    if (operand < 0)
        c->out = data;
    else
        c->pieces[operand * (c->strided ? 2 + c->ndim : 2)] = (int64_t)(intptr_t)data;
}

bool weir__is_concat(const struct weir__op *op, const void *params, int ndim, int dim)
{
    const struct concat_params *p = params;

    return op == &weir__op_concat && weir__dim_wrap((int)p->dim, ndim) == dim;
}

static weir_status prepare_concat(const struct weir__call *call, struct weir__work *work)
{
    const struct concat_params *p = call->params;
    const struct weir__view *out = &call->out[0];
    struct weir__concat *c = (void *)work->args;
    int64_t *piece = c->pieces,
            bytes = weir__view_numel(out) * (int64_t)weir__elem_size(out->dtype);

    c->strided = false;
    for (int i = 0; i < call->nin; i++)
        c->strided = c->strided || !weir__view_is_contiguous(call->in[i]);
    work->args_size = args_size(call->nin, out->ndim, c->strided);
    if (work->args_size > sizeof work->args)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "Concat: %d strided inputs of %d dims are too many; make them contiguous",
                          call->nin, out->ndim);
    c->out = out->data;
    c->dtype = out->dtype;
    c->ndim = out->ndim;
    c->dim = weir__dim_wrap((int)p->dim, out->ndim);
    c->npieces = call->nin;
    memcpy(c->shape, out->shape, sizeof c->shape);
    memcpy(c->stride, out->stride, sizeof c->stride);
    for (int i = 0; i < call->nin; i++) {
        *piece++ = (int64_t)(intptr_t)call->in[i]->data;
        *piece++ = call->in[i]->shape[c->dim];
        if (c->strided) {
            memcpy(piece, call->in[i]->stride, (size_t)out->ndim * sizeof *piece);
            piece += out->ndim;
        }
    }
    work->fn = WEIR__ISA_PICK(weir__concat_kernel);
    work->code = &weir__gpu_concat;
    work->phases = 1;
    work->blocks = weir__tile_blocks(2 * bytes / WEIR__TILE_BYTES_PER_NS, weir__div_up(bytes, 4096),
                                     call->cores);
    return WEIR_OK;
}

const struct weir__op weir__op_concat = {
    .name = "Concat",
    .summary = "tensors joined along one dim",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = WEIR__OP_MAX_IN,
    .nout = 1,
    .params_size = sizeof(struct concat_params),
    .fields = concat_fields,
    .nfields = weir__countof(concat_fields),
    .infer = infer_concat,
    .cost = cost_concat,
    .prepare = prepare_concat,
    .place = place_concat,
    .parts = parts_concat,
    .by_parts = ~0u,
};

weir_status weir_concat(weir_tensor *const *xs, int n, int dim, weir_tensor **out)
{
    WEIR__NEED(xs, "xs");
    WEIR__NEED(out, "out");

    struct concat_params p = {dim};
    weir_tensor *in[WEIR__OP_MAX_IN];
    weir_status st = WEIR_OK;
    int held = 0;

    *out = NULL;
    if (n < 1 || n > WEIR__OP_MAX_IN)
        return weir__fail(WEIR_ERANGE, "Concat takes 1 to %d tensors, not %d", WEIR__OP_MAX_IN, n);
    for (int i = 0; i < n; i++)
        if (!xs[i])
            return weir__fail(WEIR_EINVAL, "Concat: input %d is NULL", i);
    /* Operands whose views do not fit into the kernel's arguments are copied. */
    if (args_size(n, weir_tensor_ndim(xs[0]), true) <= WEIR_ARGS_MAX)
        return weir__op_run(&weir__op_concat, &p, xs, n, out);
    while (!st && held < n) {
        st = weir_contiguous(xs[held], &in[held]);
        held += !st;
    }
    if (!st)
        st = weir__op_run(&weir__op_concat, &p, in, n, out);
    while (held > 0)
        weir_tensor_release(in[--held]);
    return st;
}
