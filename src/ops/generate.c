/* fill, arange and random numbers: tensors made from parameters.
 *
 * Random integers are uniform in low..high-1. Element i of a random tensor
 * depends on the seed, i and whether it is computed in f32 (f32, f16, bf16) or f64. */
#include <math.h>
#include <string.h>

#include "graph/build/graph.h"
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/generate.h"
#include "ops/host/row.h"
#include "ops/tile.h"
#include "weir/scope.h"

struct fill_params {
    double value;
};

static const struct weir__op_field fill_fields[] = {
    {"value", WEIR__FIELD_FLOAT, offsetof(struct fill_params, value), 1},
};

static weir_status infer_fill(struct weir__call *call)
{
    const struct fill_params *p = call->params;
    double constant;

    return weir__constant("Fill", p->value, call->in[0]->dtype, &constant);
}

static weir_status prepare_fill(const struct weir__call *call, struct weir__work *work)
{
    const struct fill_params *p = call->params;
    struct weir__ew_call c = {.out = call->in[0], .nin = 1, .raw = true};

    WEIR__ISA_PICK(weir__row_convert)(c.constant, c.out->dtype, &p->value, WEIR_F64, 1);
    return weir__ew_prepare(&c, call->cores, work);
}

static void cost_fill(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 0, cost);
}

const struct weir__op weir__op_fill = {
    .name = "Fill",
    .summary = "every element becomes a value",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_IN_PLACE | WEIR__OP_OVERWRITES,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .params_size = sizeof(struct fill_params),
    .fields = fill_fields,
    .nfields = weir__countof(fill_fields),
    .infer = infer_fill,
    .cost = cost_fill,
    .prepare = prepare_fill,
};

weir_status weir_fill(weir_tensor *x, double value)
{
    struct fill_params p = {value};

    return weir__op_run(&weir__op_fill, &p, &x, 1, NULL);
}

static weir_status prepare_generate(const struct weir__call *call, enum weir__gen_kind kind,
                                    double a, double b, uint64_t seed, int64_t ns_per_kilo,
                                    struct weir__work *work)
{
    struct weir__gen *g = (void *)work->args;
    struct weir__view x = *call->in[0];

    weir__view_collapse((struct weir__view *[]){&x}, 1);
    *g = (struct weir__gen){
        .kind = kind,
        .dtype = x.dtype,
        .a = a,
        .b = b,
        .seed = seed,
        .numel = weir__view_numel(&x),
        .data = x.data,
        .ndim = x.ndim,
    };
    memcpy(g->shape, x.shape, sizeof g->shape);
    memcpy(g->stride, x.stride, sizeof g->stride);
    work->fn = WEIR__ISA_PICK(weir__gen_kernel);
    work->code = &weir__gpu_gen;
    work->args_size = sizeof *g;
    work->phases = 1;
    work->blocks = weir__tile_blocks(g->numel * ns_per_kilo / 1024,
                                     weir__div_up(g->numel, WEIR__ROW_CHUNK), call->cores);
    return WEIR_OK;
}

struct arange_params {
    double start, step;
};

static const struct weir__op_field arange_fields[] = {
    {"start", WEIR__FIELD_FLOAT, offsetof(struct arange_params, start), 1},
    {"step", WEIR__FIELD_FLOAT, offsetof(struct arange_params, step), 1},
};

static weir_status check_arange(const struct weir__view *x, const struct arange_params *p)
{
    double constant;
    weir_status st;

    if (x->dtype == WEIR_BOOL)
        return weir__check_type("Arange", x, WEIR__TYPES_NUMBER);
    if (weir_dtype_is_float(x->dtype))
        return WEIR_OK;
    /* Steps may be negative in an unsigned type: only their sums must fit, and wrap. */
    if ((st = weir__constant("Arange", p->start, WEIR_I64, &constant)) ||
        (st = weir__constant("Arange", p->step, WEIR_I64, &constant)))
        return st;
    return WEIR_OK;
}

static weir_status infer_arange(struct weir__call *call)
{
    return check_arange(call->in[0], call->params);
}

static weir_status prepare_arange(const struct weir__call *call, struct weir__work *work)
{
    const struct arange_params *p = call->params;
    bool real = weir_dtype_is_float(call->in[0]->dtype);

    return prepare_generate(call, real ? WEIR__GEN_ARANGE_F64 : WEIR__GEN_ARANGE_I64, p->start,
                            p->step, 0, 500, work);
}

static void cost_arange(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 2, cost);
}

const struct weir__op weir__op_arange = {
    .name = "Arange",
    .summary = "element i becomes start + i * step",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_IN_PLACE | WEIR__OP_OVERWRITES,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 0,
    .params_size = sizeof(struct arange_params),
    .fields = arange_fields,
    .nfields = weir__countof(arange_fields),
    .infer = infer_arange,
    .cost = cost_arange,
    .prepare = prepare_arange,
};

weir_status weir_arange(weir_stream *stream, weir_dtype dtype, int64_t n, double start, double step,
                        weir_tensor **out)
{
    WEIR__NEED(out, "out");

    struct arange_params p = {start, step};
    weir_stream *current = NULL;
    struct weir__view view;
    weir_graph *graph;
    weir_status st;

    *out = NULL;
    if ((st = weir__view_init(&view, dtype, 1, &n)) || (st = check_arange(&view, &p)) ||
        (st = weir_tensor_empty(stream, dtype, 1, &n, out)))
        return st;
    if ((graph = weir__capture_on(weir_tensor_device(*out))) &&
        (st = weir__graph_literal(graph, out))) {
        weir_tensor_release(*out);
        *out = NULL;
        return st;
    }
    /* The work goes to the stream that was named, which need not be the current one. */
    if (!st && stream) {
        current = weir_stream_current(weir_tensor_device(*out));
        st = weir_stream_set_current(stream);
    }
    if (!st)
        st = weir__op_run(&weir__op_arange, &p, out, 1, NULL);
    if (st && graph)
        weir__graph_drop_literal(graph);
    if (!st && !graph)
        st = weir_wait_tensor(*out, *out); /* made of no tensor: there for every stream */
    if (current)
        (void)weir_stream_set_current(current);
    if (st) {
        weir_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

struct random_params {
    int64_t seed;
    double a, b; /* low and high, or mean and deviation */
};

static const struct weir__op_field uniform_fields[] = {
    {"seed", WEIR__FIELD_INT, offsetof(struct random_params, seed), 1},
    {"low", WEIR__FIELD_FLOAT, offsetof(struct random_params, a), 1},
    {"high", WEIR__FIELD_FLOAT, offsetof(struct random_params, b), 1},
};

static const struct weir__op_field normal_fields[] = {
    {"seed", WEIR__FIELD_INT, offsetof(struct random_params, seed), 1},
    {"mean", WEIR__FIELD_FLOAT, offsetof(struct random_params, a), 1},
    {"stddev", WEIR__FIELD_FLOAT, offsetof(struct random_params, b), 1},
};

static weir_status infer_uniform(struct weir__call *call)
{
    const struct random_params *p = call->params;
    const struct weir__view *x = call->in[0];
    bool whole = !weir_dtype_is_float(x->dtype);
    double constant;
    weir_status st;

    if ((st = weir__check_type("RandomUniform", x, WEIR__TYPES_NUMBER)))
        return st;
    if (!isfinite(p->a) || !isfinite(p->b) || p->a > p->b || (whole && ceil(p->a) >= ceil(p->b)))
        return weir__fail(WEIR_ERANGE, "RandomUniform: no %s lies from %g to below %g",
                          weir_dtype_name(x->dtype), p->a, p->b);
    if (whole && ((st = weir__constant("RandomUniform", ceil(p->a), x->dtype, &constant)) ||
                  (st = weir__constant("RandomUniform", ceil(p->b) - 1, x->dtype, &constant))))
        return st;
    return WEIR_OK;
}

static weir_status prepare_uniform(const struct weir__call *call, struct weir__work *work)
{
    const struct random_params *p = call->params;
    weir_dtype dtype = call->in[0]->dtype;
    enum weir__gen_kind kind = weir__compute_type(dtype) == WEIR_F32 ? WEIR__GEN_UNIFORM_F32
                               : dtype == WEIR_F64                   ? WEIR__GEN_UNIFORM_F64
                                                                     : WEIR__GEN_UNIFORM_I64;

    return prepare_generate(call, kind, p->a, p->b, (uint64_t)p->seed, 1500, work);
}

static weir_status infer_normal(struct weir__call *call)
{
    const struct random_params *p = call->params;

    if (!isfinite(p->a) || !isfinite(p->b) || p->b < 0)
        return weir__fail(WEIR_ERANGE,
                          "RandomNormal: mean %g and deviation %g must be finite, "
                          "the deviation not negative",
                          p->a, p->b);
    return weir__check_type("RandomNormal", call->in[0], WEIR__TYPES_FLOAT);
}

static weir_status prepare_normal(const struct weir__call *call, struct weir__work *work)
{
    const struct random_params *p = call->params;
    bool wide = call->in[0]->dtype == WEIR_F64;

    return prepare_generate(call, wide ? WEIR__GEN_NORMAL_F64 : WEIR__GEN_NORMAL_F32, p->a, p->b,
                            (uint64_t)p->seed, wide ? 20000 : 3000, work);
}

static void cost_random(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 40, cost);
}

#define DEFINE_RANDOM(fn_name, row_name, kind, text)      \
    const struct weir__op weir__op_##fn_name = {          \
        .name = row_name,                                 \
        .summary = text,                                  \
        .engine = WEIR_ENGINE_VECTOR,                     \
        .flags = WEIR__OP_IN_PLACE | WEIR__OP_OVERWRITES, \
        .nin_min = 1,                                     \
        .nin_max = 1,                                     \
        .nout = 0,                                        \
        .params_size = sizeof(struct random_params),      \
        .fields = kind##_fields,                          \
        .nfields = weir__countof(kind##_fields),          \
        .infer = infer_##kind,                            \
        .cost = cost_random,                              \
        .prepare = prepare_##kind,                        \
    };
DEFINE_RANDOM(random_uniform, "RandomUniform", uniform, "independent numbers from low to high")
DEFINE_RANDOM(random_normal, "RandomNormal", normal, "independent normal numbers")

weir_status weir_random_uniform(weir_tensor *x, uint64_t seed, double low, double high)
{
    struct random_params p = {(int64_t)seed, low, high};

    return weir__op_run(&weir__op_random_uniform, &p, &x, 1, NULL);
}

weir_status weir_random_normal(weir_tensor *x, uint64_t seed, double mean, double deviation)
{
    struct random_params p = {(int64_t)seed, mean, deviation};

    return weir__op_run(&weir__op_random_normal, &p, &x, 1, NULL);
}
