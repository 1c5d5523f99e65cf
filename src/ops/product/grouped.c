/* GroupedMatMul: a matrix product per group; only the device knows where the groups end. */
#include "ops/host/product/grouped.h"

#include <math.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/tile.h"

static const struct weir__view *bias_of(const struct weir__call *call)
{
    return call->nin > 3 ? call->in[3] : NULL;
}

static enum weir__grouped_along along_of(const struct weir__call *call)
{
    return call->in[0]->ndim == 3   ? WEIR__GROUPED_COLUMNS
           : call->in[1]->ndim == 3 ? WEIR__GROUPED_ROWS
                                    : WEIR__GROUPED_DEPTH;
}

static weir_status check_types(const struct weir__call *call)
{
    const struct weir__view *a = call->in[0], *b = call->in[1], *ends = call->in[2];
    const struct weir__view *bias = bias_of(call);

    if (!weir_dtype_is_float(a->dtype))
        return weir__fail(WEIR_EDTYPE, "GroupedMatMul: a is %s, not of a float type",
                          weir__view_text(a).text);
    if (b->dtype != a->dtype || (bias && bias->dtype != a->dtype))
        return weir__fail(WEIR_EDTYPE, "GroupedMatMul: operands differ in type: %s and %s",
                          weir__view_text(a).text,
                          weir__view_text(b->dtype != a->dtype ? b : bias).text);
    if (ends->dtype != WEIR_I64 && ends->dtype != WEIR_I32)
        return weir__fail(WEIR_EDTYPE, "GroupedMatMul: the ends are %s, they must be i64 or i32",
                          weir__view_text(ends).text);
    return WEIR_OK;
}

static weir_status infer(struct weir__call *call)
{
    const struct weir__view *a = call->in[0], *b = call->in[1], *ends = call->in[2];
    const struct weir__view *bias = bias_of(call), *stack;
    struct weir__view *out = &call->out[0];
    weir_status st;

    if ((st = check_types(call)))
        return st;
    if (a->ndim + b->ndim < 4 || a->ndim + b->ndim > 5 || a->ndim < 2 || b->ndim < 2 ||
        ends->ndim != 1)
        return weir__fail(WEIR_ESHAPE,
                          "GroupedMatMul: one of a and b may have three dims, the other has two, "
                          "and the ends one: they are %s, %s and %s",
                          weir__view_text(a).text, weir__view_text(b).text,
                          weir__view_text(ends).text);
    if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
        return weir__fail(WEIR_ESHAPE,
                          "GroupedMatMul: inner sizes differ: a is %s, b is %s, so %lld against "
                          "%lld",
                          weir__view_text(a).text, weir__view_text(b).text,
                          (long long)a->shape[a->ndim - 1], (long long)b->shape[b->ndim - 2]);
    stack = a->ndim == 3 ? a : b;
    if (stack->ndim == 3 && stack->shape[0] != ends->shape[0])
        return weir__fail(WEIR_ESHAPE, "GroupedMatMul: %lld ends do not match the groups of %s",
                          (long long)ends->shape[0], weir__view_text(stack).text);
    *out = (struct weir__view){.dtype = a->dtype, .ndim = 2};
    if (along_of(call) == WEIR__GROUPED_DEPTH) {
        out->ndim = 3;
        out->shape[0] = ends->shape[0];
    }
    out->shape[out->ndim - 2] = a->shape[a->ndim - 2];
    out->shape[out->ndim - 1] = b->shape[b->ndim - 1];
    if (bias && (along_of(call) != WEIR__GROUPED_ROWS || bias->ndim != 2 ||
                 bias->shape[0] != b->shape[0] || bias->shape[1] != b->shape[2]))
        return weir__fail(WEIR_ESHAPE,
                          "GroupedMatMul: a bias is for groups of rows and has one row for each: "
                          "b is %s, the bias %s",
                          weir__view_text(b).text, weir__view_text(bias).text);
    return WEIR_OK;
}

/* The number of nonempty groups, at most: bounded by the size that is divided. */
static double groups_in_use(const struct weir__call *call)
{
    const struct weir__view *a = call->in[0], *b = call->in[1];
    enum weir__grouped_along along = along_of(call);
    int64_t length = along == WEIR__GROUPED_ROWS      ? a->shape[0]
                     : along == WEIR__GROUPED_COLUMNS ? b->shape[1]
                                                      : a->shape[1];

    return (double)weir__max(1, weir__min(call->in[2]->shape[0], length));
}

/* The cost for groups of equal size. */
static void cost(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *a = call->in[0], *b = call->in[1], *out = &call->out[0];
    enum weir__grouped_along along = along_of(call);
    double groups = groups_in_use(call), elements = (double)weir__view_numel(out), stack;

    cost->m = (double)a->shape[a->ndim - 2] / (along == WEIR__GROUPED_ROWS ? groups : 1);
    cost->n = (double)b->shape[b->ndim - 1] / (along == WEIR__GROUPED_COLUMNS ? groups : 1);
    cost->k = (double)a->shape[a->ndim - 1] / (along == WEIR__GROUPED_DEPTH ? groups : 1);
    cost->flops = 2 * groups * cost->m * cost->n * cost->k;
    for (int i = 0; i < 2; i++) {
        stack = (double)weir__view_numel(call->in[i]);
        if (call->in[i]->ndim == 3)
            stack *= groups / (double)weir__max(1, call->in[2]->shape[0]);
        elements += stack;
    }
    cost->bytes =
        elements * (double)weir_dtype_size(a->dtype) +
        (double)weir__view_numel(call->in[2]) * (double)weir_dtype_size(call->in[2]->dtype);
}

static bool overlap(const struct weir__view *a, const struct weir__view *b)
{
    struct weir__footprint f[2];

    weir__view_footprint(a, &f[0]);
    weir__view_footprint(b, &f[1]);
    return weir__footprint_overlaps(&f[0], &f[1]);
}

static weir_status prepare(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__view *a = call->in[0], *b = call->in[1], *ends = call->in[2];
    const struct weir__view *bias = bias_of(call), *c = &call->out[0];
    struct weir__grouped *g = (struct weir__grouped *)work->args;
    double ns, m, n, k, groups = groups_in_use(call);

    for (int i = 0; i < call->nin; i++)
        if (call->in[i] && overlap(call->in[i], c))
            return weir__fail(WEIR_EINVAL,
                              "GroupedMatMul: the output must not share memory with input %d", i);
    *g = (struct weir__grouped){
        .gemm = {.m = a->shape[a->ndim - 2],
                 .n = b->shape[b->ndim - 1],
                 .k = a->shape[a->ndim - 1],
                 .a = a->data,
                 .b = b->data,
                 .bias = bias ? bias->data : NULL,
                 .c = c->data,
                 .dtype = a->dtype,
                 .a_row = a->stride[a->ndim - 2],
                 .a_col = a->stride[a->ndim - 1],
                 .b_row = b->stride[b->ndim - 2],
                 .b_col = b->stride[b->ndim - 1],
                 .c_row = c->stride[c->ndim - 2],
                 .c_col = c->stride[c->ndim - 1],
                 .bias_col = bias ? bias->stride[1] : 0},
        .ends = ends->data,
        .end_type = ends->dtype,
        .along = along_of(call),
        .end_step = ends->stride[0],
        .groups = ends->shape[0],
        .a_group = a->ndim == 3 ? a->stride[0] : 0,
        .b_group = b->ndim == 3 ? b->stride[0] : 0,
        .c_group = c->ndim == 3 ? c->stride[0] : 0,
        .bias_group = bias ? bias->stride[0] : 0,
    };
    /* Time on one core, roughly: 50 multiply-adds per ns, and 4 elements packed or read per ns. */
    m = (double)g->gemm.m;
    n = (double)g->gemm.n;
    k = (double)g->gemm.k;
    ns = m * n * k / 50 +
         (m * k + n * k * (g->along == WEIR__GROUPED_ROWS ? groups : 1) + m * n) / 4;
    work->fn = WEIR__ISA_PICK(weir__grouped_kernel);
    work->code = weir__gpu_grouped(g);
    work->blocks = weir__tile_blocks(
        (int64_t)fmin(ns, 1e15),
        weir__max(1, weir__max(g->gemm.n, g->gemm.m) / 48) * weir__max(1, g->groups), call->cores);
    work->phases = 1;
    work->args_size = sizeof *g;
    return WEIR_OK;
}

const struct weir__op weir__op_grouped_matmul = {
    .name = "GroupedMatMul",
    .summary = "products of groups whose sizes are data, plus an optional bias for each",
    .engine = WEIR_ENGINE_CUBE,
    .nin_min = 3,
    .nin_max = 4,
    .nout = 1,
    .infer = infer,
    .cost = cost,
    .prepare = prepare,
};

weir_status weir_grouped_matmul(weir_tensor *a, weir_tensor *b, weir_tensor *ends,
                                weir_tensor *bias, weir_tensor **out)
{
    return weir__op_run(&weir__op_grouped_matmul, NULL, (weir_tensor *const[]){a, b, ends, bias}, 4,
                        out);
}
