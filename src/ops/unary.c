/* neg, abs, exp, log, sqrt, rsqrt, sigmoid, tanh, relu, gelu, silu, sin, cos, bitwise_not and
 * clamp.
 *
 * Integers have neg, abs, relu, bitwise_not and clamp, and wrap; bool has bitwise_not. All others
 * take only floats. */
#include <math.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"

static weir_status infer(struct weir__call *call, enum weir__types types)
{
    weir_status st = weir__check_type(call->op->name, call->in[0], types);

    if (st)
        return st;
    weir__infer_like(call);
    return WEIR_OK;
}

static weir_status infer_float(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_FLOAT);
}

static weir_status infer_number(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_NUMBER);
}

static weir_status infer_bits(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_BITS);
}

static weir_status prepare(const struct weir__call *call, enum weir__unary_code code,
                           int ns_per_kilo, const double constant[2], struct weir__work *work)
{
    weir_dtype dtype = call->in[0]->dtype;
    struct weir__ew_call c = {
        .fn = WEIR__ISA_PICK(weir__unary)->fn[code][dtype],
        .code = WEIR__EW_UNARY + (int)code,
        .out = &call->out[0],
        .in = {call->in[0]},
        .nin = 1,
        /* Functions of f64 call the C library for each element. */
        .ns_per_kilo = dtype == WEIR_F64 ? 16 * ns_per_kilo : ns_per_kilo,
        .constant = {constant[0], constant[1]},
    };

    return weir__ew_prepare(&c, call->cores, work);
}

/* name, row name, code, types, flops, ns per 1024 elements, summary */
#define UNARY_ROWS(X)                                                \
    X(neg, "Neg", NEG, number, 1, 0, "-x")                           \
    X(abs, "Abs", ABS, number, 1, 0, "|x|")                          \
    X(exp, "Exp", EXP, float, 12, 300, "e^x")                        \
    X(log, "Log", LOG, float, 16, 300, "natural logarithm")          \
    X(sqrt, "Sqrt", SQRT, float, 1, 100, "square root")              \
    X(rsqrt, "Rsqrt", RSQRT, float, 2, 200, "1 / sqrt(x)")           \
    X(sigmoid, "Sigmoid", SIGMOID, float, 14, 400, "1 / (1 + e^-x)") \
    X(tanh, "Tanh", TANH, float, 24, 500, "hyperbolic tangent")      \
    X(relu, "Relu", RELU, number, 1, 0, "max(x, 0)")                 \
    X(gelu, "Gelu", GELU, float, 40, 600, "x * Phi(x), by erf")      \
    X(silu, "Silu", SILU, float, 15, 400, "x * sigmoid(x)")          \
    X(sin, "Sin", SIN, float, 20, 8000, "sine")                      \
    X(cos, "Cos", COS, float, 20, 8000, "cosine")                    \
    X(bitwise_not, "BitwiseNot", BITWISE_NOT, bits, 1, 0, "complement of every bit")

#define DEFINE_UNARY(fn_name, row_name, CODE, types, flop, ns, text)                             \
    static weir_status prepare_##fn_name(const struct weir__call *call, struct weir__work *work) \
    {                                                                                            \
        return prepare(call, WEIR__UNARY_##CODE, ns, (const double[2]){0, 0}, work);             \
    }                                                                                            \
    static void cost_##fn_name(const struct weir__call *call, struct weir__cost *cost)           \
    {                                                                                            \
        weir__ew_cost(call, flop, cost);                                                         \
    }                                                                                            \
    const struct weir__op weir__op_##fn_name = {                                                 \
        .name = row_name,                                                                        \
        .summary = text,                                                                         \
        .engine = WEIR_ENGINE_VECTOR,                                                            \
        .flags = WEIR__OP_ELEMENTWISE,                                                           \
        .nin_min = 1,                                                                            \
        .nin_max = 1,                                                                            \
        .nout = 1,                                                                               \
        .infer = infer_##types,                                                                  \
        .cost = cost_##fn_name,                                                                  \
        .prepare = prepare_##fn_name,                                                            \
        .place = weir__ew_place,                                                                 \
    };
UNARY_ROWS(DEFINE_UNARY)

struct clamp_params {
    double low, high;
};

static const struct weir__op_field clamp_fields[] = {
    {"low", WEIR__FIELD_FLOAT, offsetof(struct clamp_params, low), 1},
    {"high", WEIR__FIELD_FLOAT, offsetof(struct clamp_params, high), 1},
};

static weir_status infer_clamp(struct weir__call *call)
{
    const struct clamp_params *p = call->params;

    if (isnan(p->low) || isnan(p->high))
        return weir__fail(WEIR_EINVAL, "Clamp: the bounds %g and %g must be numbers", p->low,
                          p->high);
    return infer_number(call);
}

/* Rounds fractional bounds inwards for integers; bounds outside the type's range have no effect. */
static weir_status prepare_clamp(const struct weir__call *call, struct weir__work *work)
{
    const struct clamp_params *p = call->params;
    weir_dtype dtype = call->in[0]->dtype;
    double low = p->low, high = p->high, constant[2] = {0, 0};

    if (!weir_dtype_is_float(dtype)) {
        low = ceil(low);
        high = floor(high);
    }
    weir__constant_saturated(low, dtype, &constant[0]);
    weir__constant_saturated(high, dtype, &constant[1]);
    return prepare(call, WEIR__UNARY_CLAMP, 0, constant, work);
}

static void cost_clamp(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 2, cost);
}

const struct weir__op weir__op_clamp = {
    .name = "Clamp",
    .summary = "min(max(x, low), high)",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_ELEMENTWISE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .params_size = sizeof(struct clamp_params),
    .fields = clamp_fields,
    .nfields = weir__countof(clamp_fields),
    .infer = infer_clamp,
    .cost = cost_clamp,
    .prepare = prepare_clamp,
    .place = weir__ew_place,
};

weir_status weir_clamp(weir_tensor *x, double low, double high, weir_tensor **out)
{
    struct clamp_params p = {low, high};

    return weir__op_run(&weir__op_clamp, &p, &x, 1, out);
}
