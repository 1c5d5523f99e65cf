/* where and swiglu: elementwise operators with more than two operands, or on halves of one. */
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/host/row.h"

static weir_status infer_where(struct weir__call *call)
{
    const struct weir__view *condition = call->in[0], *a = call->in[1], *b = call->in[2];
    struct weir__view values;
    weir_status st;

    if (condition->dtype != WEIR_BOOL)
        return weir__fail(WEIR_EDTYPE, "Where: the condition is %s, it must be bool",
                          weir__view_text(condition).text);
    if ((st = weir__check_same_type("Where", a, b)) ||
        (st = weir__shape_broadcast("Where", a, b, &values)))
        return st;
    values.dtype = call->out[0].dtype = a->dtype;
    return weir__shape_broadcast("Where", condition, &values, &call->out[0]);
}

static weir_status prepare_where(const struct weir__call *call, struct weir__work *work)
{
    struct weir__ew_call c = {
        .fn = WEIR__ISA_PICK(weir__where)(weir__elem_size(call->out[0].dtype)),
        .code = WEIR__EW_WHERE,
        .out = &call->out[0],
        .in = {call->in[0], call->in[1], call->in[2]},
        .nin = 3,
        .raw = true,
    };

    return weir__ew_prepare(&c, call->cores, work);
}

static void cost_where(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 1, cost);
}

const struct weir__op weir__op_where = {
    .name = "Where",
    .summary = "a where the condition is true, else b",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_ELEMENTWISE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 1,
    .infer = infer_where,
    .cost = cost_where,
    .prepare = prepare_where,
    .place = weir__ew_place,
};

weir_status weir_where(weir_tensor *condition, weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    weir_tensor *in[] = {condition, a, b};

    return weir__op_run(&weir__op_where, NULL, in, 3, out);
}

struct dim_params {
    int64_t dim;
};

static const struct weir__op_field dim_fields[] = {
    {"dim", WEIR__FIELD_INT, offsetof(struct dim_params, dim), 1},
};

static weir_status infer_swiglu(struct weir__call *call)
{
    const struct dim_params *p = call->params;
    const struct weir__view *x = call->in[0];
    weir_status st;
    int dim;

    if ((st = weir__check_type("Swiglu", x, WEIR__TYPES_FLOAT)) ||
        (st = weir__check_dim("Swiglu", p->dim, x, &dim)))
        return st;
    if (x->shape[dim] % 2)
        return weir__fail(WEIR_ESHAPE, "Swiglu: dim %d of %s must be even: it holds two halves",
                          dim, weir__view_text(x).text);
    weir__infer_like(call);
    call->out[0].shape[dim] /= 2;
    return WEIR_OK;
}

static weir_status prepare_swiglu(const struct weir__call *call, struct weir__work *work)
{
    const struct dim_params *p = call->params;
    struct weir__view gate = *call->in[0], value;
    bool wide = gate.dtype == WEIR_F64;
    struct weir__ew_call c = {
        .fn = wide ? WEIR__ISA_PICK(weir__swiglu_f64) : WEIR__ISA_PICK(weir__swiglu_f32),
        .code = WEIR__EW_SWIGLU,
        .out = &call->out[0],
        .in = {&gate, &value},
        .nin = 2,
        .ns_per_kilo = wide ? 8000 : 400,
    };
    int dim = weir__dim_wrap((int)p->dim, gate.ndim);

    gate.shape[dim] /= 2;
    value = gate;
    value.data += gate.shape[dim] * gate.stride[dim] * (int64_t)weir__elem_size(gate.dtype);
    return weir__ew_prepare(&c, call->cores, work);
}

static int64_t parts_swiglu(const struct weir__call *call)
{
    const struct dim_params *p = call->params;

    return weir__parts_before(call->in[0], weir__dim_wrap((int)p->dim, call->in[0]->ndim));
}

/* Places operand and result; the input is two halves. */
static void place_swiglu(void *args, int operand, char *data)
{
    struct weir__ew *e = args;

    if (operand < 0) {
        weir__ew_place(args, operand, data);
    } else {
        e->in[1] = data + (e->in[1] - e->in[0]);
        e->in[0] = data;
    }
}

static void cost_swiglu(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 16, cost);
}

const struct weir__op weir__op_swiglu = {
    .name = "Swiglu",
    .summary = "silu of the first half times the second",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_JOINS,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .params_size = sizeof(struct dim_params),
    .fields = dim_fields,
    .nfields = weir__countof(dim_fields),
    .infer = infer_swiglu,
    .cost = cost_swiglu,
    .prepare = prepare_swiglu,
    .place = place_swiglu,
    .parts = parts_swiglu,
    .by_parts = 1,
};

weir_status weir_swiglu(weir_tensor *x, int dim, weir_tensor **out)
{
    struct dim_params p = {dim};

    return weir__op_run(&weir__op_swiglu, &p, &x, 1, out);
}
