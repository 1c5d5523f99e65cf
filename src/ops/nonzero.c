/* nonzero: coordinates of the elements that are not zero, in row-major order. */
#include "ops/host/move/nonzero.h"

#include <string.h>

#include "graph/build/graph.h"
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/row.h"
#include "ops/tile.h"

struct nonzero_params {
    bool pad; /* rows past the count become -1; else they stay uninitialised */
};

static const struct weir__op_field nonzero_fields[] = {
    {"pad", WEIR__FIELD_BOOL, offsetof(struct nonzero_params, pad), 1},
};

/* The largest possible shape, and the count, which is known only after the run. */
static weir_status infer_nonzero(struct weir__call *call)
{
    call->out[0].dtype = call->out[1].dtype = WEIR_I64;
    call->out[0].ndim = 2;
    call->out[0].shape[0] = weir__view_numel(call->in[0]);
    call->out[0].shape[1] = call->in[0]->ndim;
    call->out[1].ndim = 1;
    call->out[1].shape[0] = 1;
    return WEIR_OK;
}

static unsigned blocks_of(const struct weir__call *call)
{
    int64_t numel = weir__view_numel(call->in[0]);

    return weir__tile_blocks(2 * numel, weir__div_up(numel, WEIR__ROW_CHUNK), call->cores);
}

static size_t scratch_nonzero(const struct weir__call *call)
{
    return (call->for_gpu ? WEIR__GPU_NONZERO_BLOCKS : blocks_of(call)) * sizeof(int64_t);
}

static weir_status prepare_nonzero(const struct weir__call *call, struct weir__work *work)
{
    struct weir__nonzero *a = (void *)work->args;
    struct weir__view x = *call->in[0];

    a->pad = ((const struct nonzero_params *)call->params)->pad;
    a->coords = x.ndim;
    memcpy(a->coord_shape, x.shape, sizeof a->coord_shape);
    weir__view_collapse((struct weir__view *[]){&x}, 1);
    a->in = x.data;
    a->dtype = x.dtype;
    a->out = (void *)call->out[0].data;
    a->out_row = call->out[0].stride[0];
    a->out_step = call->out[0].stride[1];
    a->count = (void *)call->out[1].data;
    a->counts = call->scratch;
    a->numel = weir__view_numel(&x);
    a->ndim = x.ndim;
    memcpy(a->shape, x.shape, sizeof a->shape);
    memcpy(a->stride, x.stride, sizeof a->stride);
    work->fn = WEIR__ISA_PICK(weir__nonzero_kernel);
    work->code = &weir__gpu_nonzero;
    work->args_size = sizeof *a;
    work->phases = 2;
    work->blocks = blocks_of(call);
    return WEIR_OK;
}

static void cost_nonzero(const struct weir__call *call, struct weir__cost *cost)
{
    double n = (double)weir__view_numel(call->in[0]);

    cost->flops = n;
    /* Reads the input twice; assumes that half of the elements are nonzero. */
    cost->bytes = n * (2 * (double)weir_dtype_size(call->in[0]->dtype) + 4.0 * call->in[0]->ndim);
}

const struct weir__op weir__op_nonzero = {
    .name = "NonZero",
    .summary = "coordinates of the nonzero elements, and their number",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_GANG | WEIR__OP_DATA_DEPENDENT,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 2,
    .params_size = sizeof(struct nonzero_params),
    .fields = nonzero_fields,
    .nfields = weir__countof(nonzero_fields),
    .infer = infer_nonzero,
    .cost = cost_nonzero,
    .scratch = scratch_nonzero,
    .prepare = prepare_nonzero,
};

weir_status weir_nonzero_padded(weir_tensor *x, weir_tensor **out, weir_tensor **count)
{
    WEIR__NEED(out, "out");

    static const struct nonzero_params padded = {.pad = true};
    weir_tensor *found[2];
    weir_status st = weir__op_run(&weir__op_nonzero, &padded, &x, 1, found);

    *out = found[0];
    if (count)
        *count = found[1];
    else
        weir_tensor_release(found[1]);
    return st;
}

weir_status weir_nonzero(weir_tensor *x, weir_tensor **out)
{
    WEIR__NEED(out, "out");

    static const struct nonzero_params exact = {.pad = false};
    weir_tensor *found[2];
    int64_t count;
    weir_status st;

    *out = NULL;
    if (x && (x->graph || weir__capture_on(x->dev)))
        return weir_nonzero_padded(x, out, NULL);
    if ((st = weir__op_run(&weir__op_nonzero, &exact, &x, 1, found)))
        return st;
    if (!(st = weir_tensor_read(found[1], &count, sizeof count)))
        st = weir_tensor_slice(found[0], 0, 0, count, 1, out);
    weir_tensor_release(found[0]);
    weir_tensor_release(found[1]);
    return st;
}
