/* sum, mean, max, min and argmax.
 *
 * Sums of f16, bf16 and f32 run in f32 over short runs and in f64 above them;
 * sums of integers and bool are i64 and wrap; mean is for floats. max and min keep the type and
 * return NaN if an element is NaN. argmax is i64: the first of equal values; NaN counts as the
 * largest. */
#include "ops/elementwise.h"

#include <math.h>
#include <string.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/host/math/reduce.h"
#include "ops/host/row.h"
#include "ops/tile.h"

/* The least reduced positions in a chunk, and the most chunks per unit. */
#define ROW_CHUNK 8192
#define COLUMN_CHUNK 512
#define COMPILED_COLUMN_CHUNK 64 /* smaller: a GPU's many cores share few columns */
#define MAX_CHUNKS 256
/* Fewer neighbouring columns than this do not pay for a row of accumulators. */
#define MIN_WIDTH 16

struct reduce_params {
    int64_t dims[WEIR_MAX_DIMS];
    int64_t ndims; /* 0: all */
    bool keepdim;
};

static const struct weir__op_field reduce_fields[] = {
    {"dims", WEIR__FIELD_INT, offsetof(struct reduce_params, dims), WEIR_MAX_DIMS},
    {"ndims", WEIR__FIELD_INT, offsetof(struct reduce_params, ndims), 1},
    {"keepdim", WEIR__FIELD_BOOL, offsetof(struct reduce_params, keepdim), 1},
};

/* Sets a bit for each reduced dim. */
static weir_status reduced_dims(const struct weir__call *call, unsigned *mask)
{
    const struct reduce_params *p = call->params;
    const struct weir__view *x = call->in[0];
    weir_status st;
    int dim;

    *mask = p->ndims ? 0 : (1u << x->ndim) - 1;
    for (int i = 0; i < p->ndims; i++) {
        if ((st = weir__check_dim(call->op->name, p->dims[i], x, &dim)))
            return st;
        if (*mask & 1u << dim)
            return weir__fail(WEIR_EINVAL, "%s: dim %d is named twice", call->op->name, dim);
        *mask |= 1u << dim;
    }
    return WEIR_OK;
}

static weir_status infer(struct weir__call *call, enum weir__types types, bool needs_elements)
{
    const struct reduce_params *p = call->params;
    const struct weir__view *x = call->in[0];
    struct weir__view *out = &call->out[0];
    weir_status st;
    unsigned mask;

    if ((st = weir__check_type(call->op->name, x, types)) || (st = reduced_dims(call, &mask)))
        return st;
    out->ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(mask & 1u << d)) {
            out->shape[out->ndim++] = x->shape[d];
            continue;
        }
        if (needs_elements && x->shape[d] == 0)
            return weir__fail(WEIR_ESHAPE,
                              "%s: dim %d of %s is empty, so the result does not exist",
                              call->op->name, d, weir__view_text(x).text);
        if (p->keepdim)
            out->shape[out->ndim++] = 1;
    }
    return WEIR_OK;
}

static weir_status infer_sum(struct weir__call *call)
{
    weir_dtype dtype = call->in[0]->dtype;

    call->out[0].dtype = weir_dtype_is_float(dtype) ? dtype : WEIR_I64;
    return infer(call, WEIR__TYPES_ALL, false);
}

static weir_status infer_mean(struct weir__call *call)
{
    call->out[0].dtype = call->in[0]->dtype;
    return infer(call, WEIR__TYPES_FLOAT, false);
}

static weir_status infer_extreme(struct weir__call *call)
{
    call->out[0].dtype = call->in[0]->dtype;
    return infer(call, WEIR__TYPES_ALL, true);
}

static weir_status infer_argmax(struct weir__call *call)
{
    call->out[0].dtype = WEIR_I64;
    return infer(call, WEIR__TYPES_ALL, true);
}

static void append_dim(struct weir__view *v, int64_t shape, int64_t stride)
{
    v->shape[v->ndim] = shape;
    v->stride[v->ndim++] = stride;
}

/* The kept dims in x and in out, and the reduced dims in x, each collapsed. */
static void split_dims(const struct weir__call *call, unsigned mask, struct weir__view *keep,
                       struct weir__view *keep_out, struct weir__view *red)
{
    const struct reduce_params *p = call->params;
    const struct weir__view *x = call->in[0], *out = &call->out[0];
    int k = 0;

    keep->ndim = keep_out->ndim = red->ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (mask & 1u << d) {
            append_dim(red, x->shape[d], x->stride[d]);
            k += p->keepdim;
        } else {
            append_dim(keep, x->shape[d], x->stride[d]);
            append_dim(keep_out, x->shape[d], out->stride[k]);
            k++;
        }
    }
    weir__view_collapse((struct weir__view *[]){keep, keep_out}, 2);
    weir__view_collapse(&red, 1);
}

/* Fills everything except addresses; out needs its strides. */
static void plan(const struct weir__call *call, enum weir__reduce_code code, struct weir__reduce *r)
{
    const struct weir__view *x = call->in[0];
    struct weir__view keep, keep_out, red;
    int64_t keep_last, red_last, outputs;
    unsigned mask = 0;

    (void)reduced_dims(call, &mask); /* infer has reported errors already */
    split_dims(call, mask, &keep, &keep_out, &red);
    memset(r, 0, sizeof *r);
    r->code = code;
    r->in_type = x->dtype;
    r->out_type = call->out[0].dtype;
    r->divisor = 1;
    r->nkeep = keep.ndim;
    r->nred = red.ndim;
    memcpy(r->keep_shape, keep.shape, sizeof r->keep_shape);
    memcpy(r->keep_in, keep.stride, sizeof r->keep_in);
    memcpy(r->keep_out, keep_out.stride, sizeof r->keep_out);
    memcpy(r->red_shape, red.shape, sizeof r->red_shape);
    memcpy(r->red_in, red.stride, sizeof r->red_in);
    r->reduced = weir__view_numel(&red);
    outputs = weir__view_numel(&keep);
    keep_last = keep.shape[keep.ndim - 1];
    red_last = red.stride[red.ndim - 1];
    r->columns = keep_last >= MIN_WIDTH && keep.stride[keep.ndim - 1] < red_last;
    r->width = r->columns ? weir__min(keep_last, WEIR__REDUCE_WIDTH) : 1;
    r->units = r->columns ? outputs / keep_last * weir__div_up(keep_last, r->width) : outputs;
    r->chunk =
        weir__max(r->columns ? call->for_gpu ? COMPILED_COLUMN_CHUNK : COLUMN_CHUNK : ROW_CHUNK,
                  weir__div_up(r->reduced, MAX_CHUNKS));
    r->chunks = weir__div_up(r->reduced, r->chunk);
}

/* The number of blocks, and whether several share a unit. */
static unsigned blocks_of(const struct weir__call *call, const struct weir__reduce *r, bool *split)
{
    int64_t numel = weir__view_numel(call->in[0]);
    int64_t bytes = numel * (int64_t)weir__elem_size(call->in[0]->dtype);
    int64_t ns = bytes / WEIR__TILE_BYTES_PER_NS + numel / 8 + r->units * 8;
    unsigned most = weir__tile_blocks(ns, weir__max(r->units * r->chunks, 1), call->cores);

    /* Blocks take whole units, unless units are so few that some blocks would have much more
     * work. */
    *split = most > 1 && r->chunks > 1 && r->units < 4 * (int64_t)most;
    return *split ? most : weir__tile_blocks(ns, weir__max(r->units, 1), call->cores);
}

static size_t scratch(const struct weir__call *call, enum weir__reduce_code code)
{
    struct weir__reduce r;
    bool split;

    plan(call, code, &r);
    (void)blocks_of(call, &r, &split);
    return split ? (size_t)(r.units * r.chunks * r.width) * (code == WEIR__REDUCE_ARGMAX ? 2 : 1) *
                       sizeof(union weir__reduce_value)
                 : 0;
}

static weir_status prepare(const struct weir__call *call, enum weir__reduce_code code, bool mean,
                           struct weir__work *work)
{
    struct weir__reduce *r = (void *)work->args;
    bool split;

    plan(call, code, r);
    work->blocks = blocks_of(call, r, &split);
    work->phases = split ? 2 : 1;
    work->fn = WEIR__ISA_PICK(weir__reduce_kernel);
    work->code = &weir__gpu_reduce;
    work->args_size = sizeof *r;
    r->in = call->in[0]->data;
    r->out = call->out[0].data;
    r->partial = split ? call->scratch : NULL;
    if (mean)
        r->divisor = (double)r->reduced;
    return WEIR_OK;
}

/* The number of parts; 0 for outputs that are computed as columns or in chunks. */
static int64_t parts(const struct weir__call *call, enum weir__reduce_code code)
{
    struct weir__reduce r;
    unsigned mask = 0;

    plan(call, code, &r);
    (void)reduced_dims(call, &mask);
    if (r.columns || r.chunks > 1 || weir__reduce_is_short(&r) || !mask)
        return 0;
    return weir__parts_before(call->in[0], __builtin_ctz(mask));
}

static void place(void *args, int operand, char *data)
{
    struct weir__reduce *r = args;

    if (operand < 0)
        r->out = data;
    else
        r->in = data;
}

static void cost(const struct weir__call *call, struct weir__cost *c)
{
    double n = (double)weir__view_numel(call->in[0]);

    c->flops = n;
    c->rows = true;
    c->bytes =
        n * (double)weir_dtype_size(call->in[0]->dtype) +
        (double)weir__view_numel(&call->out[0]) * (double)weir_dtype_size(call->out[0].dtype);
}

#define DEFINE_ROW(fn_name, row_name, CODE, is_mean, shape_rule, text)                           \
    static size_t scratch_##fn_name(const struct weir__call *call)                               \
    {                                                                                            \
        return scratch(call, WEIR__REDUCE_##CODE);                                               \
    }                                                                                            \
    static weir_status prepare_##fn_name(const struct weir__call *call, struct weir__work *work) \
    {                                                                                            \
        return prepare(call, WEIR__REDUCE_##CODE, is_mean, work);                                \
    }                                                                                            \
    static int64_t parts_##fn_name(const struct weir__call *call)                                \
    {                                                                                            \
        return parts(call, WEIR__REDUCE_##CODE);                                                 \
    }                                                                                            \
    const struct weir__op weir__op_##fn_name = {                                                 \
        .name = row_name,                                                                        \
        .summary = text,                                                                         \
        .engine = WEIR_ENGINE_VECTOR,                                                            \
        .nin_min = 1,                                                                            \
        .nin_max = 1,                                                                            \
        .nout = 1,                                                                               \
        .params_size = sizeof(struct reduce_params),                                             \
        .fields = reduce_fields,                                                                 \
        .nfields = weir__countof(reduce_fields),                                                 \
        .infer = infer_##shape_rule,                                                             \
        .cost = cost,                                                                            \
        .scratch = scratch_##fn_name,                                                            \
        .prepare = prepare_##fn_name,                                                            \
        .place = place,                                                                          \
        .parts = parts_##fn_name,                                                                \
        .by_parts = 1,                                                                           \
    };
DEFINE_ROW(sum, "Sum", SUM, false, sum, "sum over dims")
DEFINE_ROW(mean, "Mean", SUM, true, mean, "mean over dims")
DEFINE_ROW(max, "Max", MAX, false, extreme, "largest value over dims")
DEFINE_ROW(min, "Min", MIN, false, extreme, "smallest value over dims")
DEFINE_ROW(argmax, "ArgMax", ARGMAX, false, argmax, "index of the largest value along a dim")

static weir_status run(const struct weir__op *op, weir_tensor *x, const int *dims, int ndims,
                       bool keepdim, weir_tensor **out)
{
    struct reduce_params p = {.ndims = ndims, .keepdim = keepdim};

    if (!out || (ndims > 0 && !dims))
        return weir__fail(WEIR_EINVAL, "%s: %s must not be NULL", op->name, out ? "dims" : "out");
    *out = NULL;
    if (ndims < 0 || ndims > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ERANGE, "%s: %d dims named, at most %d exist", op->name, ndims,
                          WEIR_MAX_DIMS);
    for (int i = 0; i < ndims; i++)
        p.dims[i] = dims[i];
    return weir__op_run(op, &p, &x, 1, out);
}

weir_status weir_sum(weir_tensor *x, const int *dims, int ndims, bool keepdim, weir_tensor **out)
{
    return run(&weir__op_sum, x, dims, ndims, keepdim, out);
}
weir_status weir_mean(weir_tensor *x, const int *dims, int ndims, bool keepdim, weir_tensor **out)
{
    return run(&weir__op_mean, x, dims, ndims, keepdim, out);
}
weir_status weir_max(weir_tensor *x, const int *dims, int ndims, bool keepdim, weir_tensor **out)
{
    return run(&weir__op_max, x, dims, ndims, keepdim, out);
}
weir_status weir_min(weir_tensor *x, const int *dims, int ndims, bool keepdim, weir_tensor **out)
{
    return run(&weir__op_min, x, dims, ndims, keepdim, out);
}

weir_status weir_argmax(weir_tensor *x, int dim, bool keepdim, weir_tensor **out)
{
    WEIR__NEED(out, "out");
    return run(&weir__op_argmax, x, &dim, 1, keepdim, out);
}
