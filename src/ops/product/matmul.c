/* MatMul and Linear: shapes, cutting, and calls of the host's gemm. */
#include <string.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/host/product/gemm_bf16.h"
#include "ops/host/product/gemm_i8.h"
#include "ops/product/gemm_grid.h"
#include "ops/product/gemm_thin_cut.h"

/* Part of the launch's arguments, so it must hold everything that the blocks need. */
struct args {
    struct weir__gemm_stack stack; /* first: a GPU's kernel reads only this */
    void (*run)(const struct weir__gemm *g, void *local);
    struct weir__grid grids[2];
    struct weir__thin_cut thin;
};
_Static_assert(sizeof(struct args) <= WEIR_ARGS_MAX, "a launch's arguments hold them");

/* ---- shapes ---- */

/* Products of i8 are summed in i32: the type of the result and of the bias. */
static weir_dtype sum_type(weir_dtype dtype)
{
    return dtype == WEIR_I8 ? WEIR_I32 : dtype;
}

static weir_status check_types(const struct weir__call *call)
{
    const char *name = call->op->name;
    const struct weir__view *a = call->in[0];

    for (int i = 1; i < call->nin; i++)
        if (call->in[i] && call->in[i]->dtype != (i < 2 ? a->dtype : sum_type(a->dtype)))
            return weir__fail(WEIR_EDTYPE, "%s: operands differ in type: %s and %s%s", name,
                              weir__view_text(a).text, weir__view_text(call->in[i]).text,
                              i == 2 && a->dtype == WEIR_I8 ? "; an i8 product needs an i32 bias"
                                                            : "");
    if (!weir_dtype_is_float(a->dtype) && a->dtype != WEIR_I8 && a->dtype != WEIR_I32 &&
        a->dtype != WEIR_I64)
        return weir__fail(WEIR_EDTYPE, "%s: %s is neither a float nor i8, i32 or i64", name,
                          weir__view_text(a).text);
    return WEIR_OK;
}

static weir_status check_bias(const struct weir__call *call, int64_t n)
{
    const struct weir__view *bias = call->nin > 2 ? call->in[2] : NULL;

    if (bias && (bias->ndim != 1 || bias->shape[0] != n))
        return weir__fail(WEIR_ESHAPE, "%s: the bias must be [%lld], not %s", call->op->name,
                          (long long)n, weir__view_text(bias).text);
    return WEIR_OK;
}

/* The operands as matrices: a 1-d a is a row, a 1-d b a column, as in NumPy. */
static struct weir__view as_matrix(const struct weir__view *v, bool column)
{
    struct weir__view m = *v;

    if (v->ndim == 1) {
        m.ndim = 2;
        m.shape[column ? 0 : 1] = v->shape[0];
        m.stride[column ? 0 : 1] = v->stride[0];
        m.shape[column ? 1 : 0] = 1;
        m.stride[column ? 1 : 0] = 0;
    }
    return m;
}

/* The weight [n, k] of a linear layer as [k, n]. */
static struct weir__view transposed(const struct weir__view *v)
{
    struct weir__view t = *v;

    t.shape[0] = v->shape[1];
    t.shape[1] = v->shape[0];
    t.stride[0] = v->stride[1];
    t.stride[1] = v->stride[0];
    return t;
}

static weir_status infer_matmul(struct weir__call *call)
{
    const struct weir__view *va = call->in[0], *vb = call->in[1];
    struct weir__view *out = &call->out[0];
    struct weir__view a, b;
    weir_status st;

    if ((st = check_types(call)))
        return st;
    if (va->ndim < 1 || vb->ndim < 1)
        return weir__fail(WEIR_ESHAPE, "MatMul: operands need at least one dim: a is %s, b is %s",
                          weir__view_text(va).text, weir__view_text(vb).text);
    a = as_matrix(va, false);
    b = as_matrix(vb, true);
    if (a.shape[a.ndim - 1] != b.shape[b.ndim - 2])
        return weir__fail(WEIR_ESHAPE,
                          "MatMul: inner sizes differ: a is %s, b is %s, so %lld against %lld",
                          weir__view_text(va).text, weir__view_text(vb).text,
                          (long long)a.shape[a.ndim - 1], (long long)b.shape[b.ndim - 2]);
    if ((st = check_bias(call, b.shape[b.ndim - 1])))
        return st;
    out->dtype = sum_type(a.dtype);
    a.ndim -= 2;
    b.ndim -= 2;
    if ((st = weir__shape_broadcast("MatMul", &a, &b, out)))
        return st;
    if (va->ndim > 1)
        out->shape[out->ndim++] = a.shape[a.ndim];
    if (vb->ndim > 1)
        out->shape[out->ndim++] = b.shape[b.ndim + 1];
    return WEIR_OK;
}

static weir_status infer_linear(struct weir__call *call)
{
    const struct weir__view *x = call->in[0], *weight = call->in[1];
    struct weir__view *out = &call->out[0];
    weir_status st;

    if ((st = check_types(call)))
        return st;
    if (x->ndim < 1 || weight->ndim != 2)
        return weir__fail(WEIR_ESHAPE,
                          "Linear: x must be [..., k] and weight [n, k]: they are %s and %s",
                          weir__view_text(x).text, weir__view_text(weight).text);
    if (x->shape[x->ndim - 1] != weight->shape[1])
        return weir__fail(WEIR_ESHAPE,
                          "Linear: inner sizes differ: x is %s, weight is %s, so %lld against %lld",
                          weir__view_text(x).text, weir__view_text(weight).text,
                          (long long)x->shape[x->ndim - 1], (long long)weight->shape[1]);
    if ((st = check_bias(call, weight->shape[0])))
        return st;
    out->dtype = sum_type(x->dtype);
    out->ndim = x->ndim;
    memcpy(out->shape, x->shape, sizeof x->shape);
    out->shape[x->ndim - 1] = weight->shape[0];
    return WEIR_OK;
}

static void cost(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *a = call->in[0], *out = &call->out[0];
    double elements = (double)weir__view_numel(out), inputs = 0;

    cost->k = (double)a->shape[a->ndim - 1];
    cost->flops = 2.0 * elements * cost->k;
    cost->n = out->ndim ? (double)out->shape[out->ndim - 1] : 1;
    cost->m = out->ndim > 1 ? (double)out->shape[out->ndim - 2] : 1;
    for (int i = 0; i < call->nin; i++)
        if (call->in[i])
            inputs += (double)weir__view_numel(call->in[i]);
    cost->bytes =
        elements * (double)weir_dtype_size(out->dtype) + inputs * (double)weir_dtype_size(a->dtype);
}

/* ---- running ---- */

static weir_status run_thin(const void *pointer, const weir_block *block)
{
    const struct args *args = pointer;

    weir__thin_run(&args->thin, &args->stack.gemm, block);
    return WEIR_OK;
}

static weir_status run_block(const void *pointer, const weir_block *block)
{
    const struct args *args = pointer;
    const struct weir__part part = weir__grid_part_of_two(args->grids, block->index);
    const int64_t size = (int64_t)weir_dtype_size(args->stack.gemm.dtype);
    const int64_t sum_size = (int64_t)weir_dtype_size(sum_type(args->stack.gemm.dtype));
    struct weir__gemm g = args->stack.gemm;

    if (part.m.begin >= part.m.end || part.n.begin >= part.n.end)
        return WEIR_OK;
    g.m = part.m.end - part.m.begin;
    g.n = part.n.end - part.n.begin;
    if (g.bias)
        g.bias += part.n.begin * g.bias_col * sum_size;
    for (int64_t i = part.batch.begin; i < part.batch.end; i++) {
        int64_t a = part.m.begin * g.a_row, b = part.n.begin * g.b_col;
        int64_t c = part.m.begin * g.c_row + part.n.begin * g.c_col;
        int64_t rest = i;

        for (int d = args->stack.ndims - 1; d >= 0; d--) {
            const int64_t at = rest % args->stack.shape[d];

            rest /= args->stack.shape[d];
            a += at * args->stack.a_step[d];
            b += at * args->stack.b_step[d];
            c += at * args->stack.c_step[d];
        }
        g.a = args->stack.gemm.a + a * size;
        g.b = args->stack.gemm.b + b * size;
        g.c = args->stack.gemm.c + c * sum_size;
        args->run(&g, block->local);
    }
    return WEIR_OK;
}

/* Merges innermost batch dims into m if their rows of a and of the output continue those of the
 * matrix, with the same b. */
static void fold_batch(struct args *args)
{
    struct weir__gemm *g = &args->stack.gemm;

    while (args->stack.ndims) {
        const int d = args->stack.ndims - 1;
        const int64_t size = args->stack.shape[d];

        if (g->m == 1 && args->stack.b_step[d] == 0) {
            g->a_row = args->stack.a_step[d];
            g->c_row = args->stack.c_step[d];
        } else if (size != 1 &&
                   (args->stack.b_step[d] != 0 || args->stack.a_step[d] != g->m * g->a_row ||
                    args->stack.c_step[d] != g->m * g->c_row)) {
            return;
        }
        g->m *= size;
        args->stack.ndims--;
    }
}

static bool overlap(const struct weir__view *a, const struct weir__view *b)
{
    struct weir__footprint f[2];

    weir__view_footprint(a, &f[0]);
    weir__view_footprint(b, &f[1]);
    return weir__footprint_overlaps(&f[0], &f[1]);
}

static void pick_kernel(struct args *args)
{
    switch (args->stack.gemm.dtype) {
    case WEIR_F64:
        args->run = WEIR__ISA_PICK(weir__gemm_f64);
        break;
    case WEIR_I8:
    case WEIR_I32:
    case WEIR_I64:
        args->run = weir__gemm_takes_bytes(&args->stack.gemm) ? WEIR__ISA_PICK(weir__gemm_i8)
                                                              : WEIR__ISA_PICK(weir__gemm_int);
        break;
    default:
        args->run = weir__gemm_is_thin_pairs(&args->stack.gemm)
                        ? WEIR__ISA_PICK(weir__gemm_bf16_thin)
                    : weir__gemm_takes_pairs(&args->stack.gemm) ? WEIR__ISA_PICK(weir__gemm_bf16)
                                                                : WEIR__ISA_PICK(weir__gemm_f32);
    }
}

static const struct weir__grid_kernel *kernel_of_grid(const struct weir__call *call,
                                                      const struct args *args)
{
    const struct weir__gemm *g = &args->stack.gemm;

    if (call->model || call->for_gpu) /* virtual time must not depend on the host's instruction
                                       * set */
        return &weir__grid_floats;
    if (g->dot)
        return &weir__grid_lines;
    if (args->run == WEIR__ISA_PICK(weir__gemm_bf16))
        return &weir__grid_tiles;
    return g->b_col == 1 && g->m <= WEIR__GEMM_THIN_PAIRS ? &weir__grid_stretches
                                                          : &weir__grid_host;
}

static void cut(const struct weir__call *call, struct args *args)
{
    const struct weir__gemm *g = &args->stack.gemm;
    const struct weir__grid_kernel *kernel = kernel_of_grid(call, args);

    args->grids[1] = (struct weir__grid){0};
    if (args->stack.batch == 1 && (kernel == &weir__grid_lines || kernel == &weir__grid_host))
        weir__grid_make_two(kernel, g->m, g->n, g->k, call->cores, args->grids);
    else /* a GPU's kernel cuts at launch */
        args->grids[0] = weir__grid_make(kernel, args->stack.batch, g->m, g->n, g->k,
                                         call->for_gpu ? 1 : call->cores);
}

/* Describes c = a b + bias for matrices or stacks of them, without the cut. */
static void describe(const struct weir__call *call, const struct weir__view *a,
                     const struct weir__view *b, const struct weir__view *c, struct args *args)
{
    const struct weir__view *bias = call->nin > 2 ? call->in[2] : NULL;
    const int nd = c->ndim - 2;
    struct weir__gemm *g = &args->stack.gemm;
    struct weir__view wide;

    *args = (struct args){
        .stack.gemm = {.m = c->shape[nd],
                       .n = c->shape[nd + 1],
                       .k = a->shape[a->ndim - 1],
                       .a = a->data,
                       .b = b->data,
                       .c = c->data,
                       .dtype = a->dtype,
                       .a_row = a->stride[a->ndim - 2],
                       .a_col = a->stride[a->ndim - 1],
                       .b_row = b->stride[b->ndim - 2],
                       .b_col = b->stride[b->ndim - 1],
                       .c_row = c->stride[nd],
                       .c_col = c->stride[nd + 1]},
        .stack.ndims = nd,
    };
    if (bias) {
        g->bias = bias->data;
        g->bias_col = bias->stride[0];
    }
    memcpy(args->stack.shape, c->shape, (size_t)nd * sizeof *c->shape);
    memcpy(args->stack.c_step, c->stride, (size_t)nd * sizeof *c->stride);
    wide = *a;
    wide.ndim -= 2;
    wide = weir__view_broadcast(&wide, nd, c->shape);
    memcpy(args->stack.a_step, wide.stride, (size_t)nd * sizeof *wide.stride);
    wide = *b;
    wide.ndim -= 2;
    wide = weir__view_broadcast(&wide, nd, c->shape);
    memcpy(args->stack.b_step, wide.stride, (size_t)nd * sizeof *wide.stride);

    fold_batch(args);
    args->stack.batch = 1;
    for (int d = 0; d < args->stack.ndims; d++)
        args->stack.batch *= args->stack.shape[d];
    g->dot = weir__gemm_is_dot(g);
    g->thin = weir__gemm_is_thin(g);
}

static void describe_matmul(const struct weir__call *call, struct args *args)
{
    const struct weir__view *va = call->in[0], *vb = call->in[1];
    struct weir__view a = as_matrix(va, false), b = as_matrix(vb, true), c = call->out[0];

    /* Adds back the dims of size 1 that 1-d operands got as matrices. */
    if (vb->ndim == 1) {
        c.shape[c.ndim] = 1;
        c.stride[c.ndim++] = 1;
    }
    if (va->ndim == 1) {
        c.shape[c.ndim] = c.shape[c.ndim - 1];
        c.stride[c.ndim] = c.stride[c.ndim - 1];
        c.shape[c.ndim - 1] = 1;
        c.ndim++;
    }
    describe(call, &a, &b, &c, args);
}

static void describe_linear(const struct weir__call *call, struct args *args)
{
    struct weir__view a = as_matrix(call->in[0], false), b = transposed(call->in[1]);
    struct weir__view c = as_matrix(&call->out[0], false);

    describe(call, &a, &b, &c, args);
}

static size_t scratch_of(const struct weir__call *call, const struct args *args)
{
    /* virtual time must not depend on the host's instruction set */
    return call->for_gpu || call->model || args->stack.batch != 1
               ? 0
               : weir__thin_scratch(&args->stack.gemm, call->cores);
}

static weir_status prepare(const struct weir__call *call, struct weir__work *work)
{
    struct args *args = (struct args *)work->args;

    for (int i = 0; i < call->nin; i++)
        if (call->in[i] && overlap(call->in[i], &call->out[0]))
            return weir__fail(WEIR_EINVAL, "%s: the output must not share memory with input %d",
                              call->op->name, i);
    pick_kernel(args);
    work->args_size = sizeof *args;
    if (call->scratch && scratch_of(call, args)) {
        weir__thin_make(&args->thin, &args->stack.gemm, call->scratch, call->cores);
        work->fn = run_thin;
        work->blocks = (unsigned)(args->thin.parts * args->thin.pieces);
        work->phases = 2;
        return WEIR_OK;
    }
    cut(call, args);
    work->fn = run_block;
    work->code = &weir__gpu_gemm;
    work->blocks = args->grids[0].blocks + args->grids[1].blocks;
    work->phases = 1;
    return WEIR_OK;
}

static size_t scratch_matmul(const struct weir__call *call)
{
    struct args args;

    describe_matmul(call, &args);
    return scratch_of(call, &args);
}

static size_t scratch_linear(const struct weir__call *call)
{
    struct args args;

    describe_linear(call, &args);
    return scratch_of(call, &args);
}

static weir_status prepare_matmul(const struct weir__call *call, struct weir__work *work)
{
    describe_matmul(call, (struct args *)work->args);
    return prepare(call, work);
}

static weir_status prepare_linear(const struct weir__call *call, struct weir__work *work)
{
    describe_linear(call, (struct args *)work->args);
    return prepare(call, work);
}

const struct weir__op weir__op_matmul = {
    .name = "MatMul",
    .summary = "matrix product, leading dims broadcast, plus an optional bias",
    .engine = WEIR_ENGINE_CUBE,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .infer = infer_matmul,
    .cost = cost,
    .scratch = scratch_matmul,
    .prepare = prepare_matmul,
};

const struct weir__op weir__op_linear = {
    .name = "Linear",
    .summary = "x times a transposed weight, plus an optional bias",
    .engine = WEIR_ENGINE_CUBE,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .infer = infer_linear,
    .cost = cost,
    .scratch = scratch_linear,
    .prepare = prepare_linear,
};

weir_status weir_matmul(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return weir__op_run(&weir__op_matmul, NULL, (weir_tensor *const[]){a, b}, 2, out);
}

weir_status weir_matmul_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_matmul, NULL, (weir_tensor *const[]){a, b}, 2, &out);
}

weir_status weir_matmul_bias(weir_tensor *a, weir_tensor *b, weir_tensor *bias, weir_tensor **out)
{
    return weir__op_run(&weir__op_matmul, NULL, (weir_tensor *const[]){a, b, bias}, 3, out);
}

weir_status weir_linear(weir_tensor *x, weir_tensor *weight, weir_tensor *bias, weir_tensor **out)
{
    return weir__op_run(&weir__op_linear, NULL, (weir_tensor *const[]){x, weight, bias}, 3, out);
}
