/* copy, copy_into, contiguous and cast: copies values and converts them.
 *
 * Casts from float to integer truncate and saturate, and NaN becomes 0; casts to narrower integers
 * wrap; a cast to bool is true for anything but 0. */
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/transpose.h"
#include "ops/host/row.h"
#include "ops/tile.h"

/* The dim along which `in` is packed, if out is packed along another one and both are long enough
 * for tiles to pay; else -1. */
static int find_turned_dim(const struct weir__view *out, const struct weir__view *in)
{
    int last = out->ndim - 1;

    if (out->stride[last] != 1 || in->stride[last] <= 1 || out->shape[last] < 8)
        return -1;
    for (int d = 0; d < last; d++)
        if (in->stride[d] == 1 && in->shape[d] >= 8)
            return d;
    return -1;
}

static void prepare_transpose(const struct weir__view *out, const struct weir__view *in, int turned,
                              unsigned cores, struct weir__work *work)
{
    struct weir__transpose *t = (void *)work->args;
    int last = out->ndim - 1;
    int64_t bytes = (int64_t)(weir__elem_size(out->dtype) + weir__elem_size(in->dtype));

    *t = (struct weir__transpose){
        .out = out->data,
        .in = in->data,
        .out_type = out->dtype,
        .in_type = in->dtype,
        .rows = out->shape[turned],
        .cols = out->shape[last],
        .out_row = out->stride[turned],
        .in_col = in->stride[last],
        .outer = 1,
    };
    for (int d = 0; d < last; d++) {
        if (d == turned)
            continue;
        t->shape[t->nouter] = out->shape[d];
        t->out_stride[t->nouter] = out->stride[d];
        t->in_stride[t->nouter] = in->stride[d];
        t->outer *= out->shape[d];
        t->nouter++;
    }
    work->fn = WEIR__ISA_PICK(weir__transpose_kernel);
    work->code = &weir__gpu_transpose;
    work->args_size = sizeof *t;
    work->phases = 1;
    work->blocks = weir__tile_blocks(weir__view_numel(out) * bytes / (WEIR__TILE_BYTES_PER_NS / 2),
                                     weir__transpose_tiles(t), cores);
}

static weir_status prepare_move(const struct weir__view *to, const struct weir__view *from,
                                unsigned cores, struct weir__work *work)
{
    struct weir__view out = *to, in = weir__view_broadcast(from, to->ndim, to->shape);
    struct weir__ew_call c = {.out = to, .in = {from}, .nin = 1, .raw = true};
    int turned;

    if (weir__view_numel(to) && !(weir__view_is_contiguous(to) && weir__view_is_contiguous(from))) {
        weir__views_order((struct weir__view *[]){&out, &in}, 2);
        if ((turned = find_turned_dim(&out, &in)) >= 0) {
            prepare_transpose(&out, &in, turned, cores, work);
            return WEIR_OK;
        }
    }
    return weir__ew_prepare(&c, cores, work);
}

static weir_status prepare_out(const struct weir__call *call, struct weir__work *work)
{
    return prepare_move(&call->out[0], call->in[0], call->cores, work);
}

/* Not by parts if the copy goes in tiles, which follow the input's order. */
static int64_t parts_move(const struct weir__call *call)
{
    struct weir__work work = {0};

    if (prepare_out(call, &work) || work.fn != WEIR__ISA_PICK(weir__ew_kernel))
        return 0;
    return weir__view_numel(&call->out[0]);
}

static void cost_move(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 0, cost);
}

static weir_status infer_copy(struct weir__call *call)
{
    weir__infer_like(call);
    return WEIR_OK;
}

const struct weir__op weir__op_copy = {
    .name = "Copy",
    .summary = "a contiguous copy",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_JOINS,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = infer_copy,
    .cost = cost_move,
    .prepare = prepare_out,
    .place = weir__ew_place,
    .parts = parts_move,
    .by_parts = 1,
};

weir_status weir_copy(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_copy, NULL, &x, 1, out);
}

weir_status weir_contiguous(weir_tensor *x, weir_tensor **out)
{
    WEIR__NEED(x, "x");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (!x)
        return weir__fail(WEIR_EINVAL, "Contiguous: the input is NULL");
    if (!weir_tensor_is_contiguous(x))
        return weir_copy(x, out);
    *out = weir_tensor_retain(x);
    return WEIR_OK;
}

struct cast_params {
    weir_dtype dtype;
};

static const struct weir__op_field cast_fields[] = {
    {"dtype", WEIR__FIELD_DTYPE, offsetof(struct cast_params, dtype), 1},
};

static weir_status infer_cast(struct weir__call *call)
{
    const struct cast_params *p = call->params;

    if ((unsigned)p->dtype >= WEIR_DTYPE_COUNT)
        return weir__fail(WEIR_EDTYPE, "Cast: %d is not a data type", (int)p->dtype);
    weir__infer_like(call);
    call->out[0].dtype = p->dtype;
    return WEIR_OK;
}

const struct weir__op weir__op_cast = {
    .name = "Cast",
    .summary = "the same values in another type",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_JOINS,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .params_size = sizeof(struct cast_params),
    .fields = cast_fields,
    .nfields = weir__countof(cast_fields),
    .infer = infer_cast,
    .cost = cost_move,
    .prepare = prepare_out,
    .place = weir__ew_place,
    .parts = parts_move,
    .by_parts = 1,
};

weir_status weir_cast(weir_tensor *x, weir_dtype dtype, weir_tensor **out)
{
    struct cast_params p = {dtype};

    return weir__op_run(&weir__op_cast, &p, &x, 1, out);
}

/* inputs: the destination, the source */
static weir_status infer_copy_into(struct weir__call *call)
{
    const struct weir__view *dst = call->in[0], *src = call->in[1];
    struct weir__view both;
    weir_status st;

    if ((st = weir__check_same_type("CopyInto", dst, src)) ||
        (st = weir__shape_broadcast("CopyInto", dst, src, &both)))
        return st;
    if (!weir__same_shape(&both, dst))
        return weir__fail(WEIR_ESHAPE, "CopyInto: %s does not broadcast to %s",
                          weir__view_text(src).text, weir__view_text(dst).text);
    return WEIR_OK;
}

static weir_status prepare_copy_into(const struct weir__call *call, struct weir__work *work)
{
    return prepare_move(call->in[0], call->in[1], call->cores, work);
}

const struct weir__op weir__op_copy_into = {
    .name = "CopyInto",
    .summary = "copies the second input, broadcast, to the first",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_IN_PLACE | WEIR__OP_JOINS,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 0,
    .infer = infer_copy_into,
    .cost = cost_move,
    .prepare = prepare_copy_into,
};

weir_status weir_copy_into(weir_tensor *src, weir_tensor *dst)
{
    weir_tensor *in[] = {dst, src};

    return weir__op_run(&weir__op_copy_into, NULL, in, 2, NULL);
}
