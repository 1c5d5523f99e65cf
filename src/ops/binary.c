/* add, sub, mul, div, pow, maximum, minimum, the bitwise operators and the comparisons, between two
 * tensors or a tensor and a number.
 *
 * Integers wrap; their division truncates and x / 0 is 0; a negative power is the integer part of
 * the quotient. maximum and minimum return NaN if an operand is NaN. bool has maximum (or), minimum
 * (and), the bitwise operators except shifts, and comparisons (false < true). A shift by a negative
 * number, or by the type's width or more, shifts out all bits. */
#include <string.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"

static const struct weir__op_field value_fields[] = {
    {"value", WEIR__FIELD_FLOAT, offsetof(struct weir__value_params, value), 1},
};

static const struct weir__view *second(const struct weir__call *call)
{
    return call->nin > 1 ? call->in[1] : NULL;
}

static weir_status infer(struct weir__call *call, enum weir__types types, bool gives_bool)
{
    const struct weir__view *a = call->in[0], *b = second(call);
    struct weir__view *out = &call->out[0];
    const char *name = call->op->name;
    weir_status st;

    if (call->nin > 1 && !b)
        return weir__fail(WEIR_EINVAL, "%s: input 1 is NULL", name);
    if ((st = weir__check_type(name, a, types)))
        return st;
    if (!b) {
        const struct weir__value_params *p = call->params;
        double constant;

        if ((st = weir__constant(name, p->value, a->dtype, &constant)))
            return st;
    } else if ((st = weir__check_same_type(name, a, b))) {
        return st;
    }
    out->dtype = gives_bool ? WEIR_BOOL : a->dtype;
    if (b && !weir__same_shape(a, b))
        return weir__shape_broadcast(name, a, b, out);
    out->ndim = a->ndim;
    memcpy(out->shape, a->shape, sizeof a->shape);
    return WEIR_OK;
}

static weir_status infer_number(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_NUMBER, false);
}

static weir_status infer_all(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_ALL, false);
}

static weir_status infer_integer(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_INTEGER, false);
}

static weir_status infer_bits(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_BITS, false);
}

static weir_status infer_compare(struct weir__call *call)
{
    return infer(call, WEIR__TYPES_ALL, true);
}

static weir_status prepare(const struct weir__call *call, enum weir__binary_code code,
                           int ns_per_kilo, struct weir__work *work)
{
    const struct weir__view *a = call->in[0], *b = second(call);
    struct weir__ew_call c = {
        .out = &call->out[0],
        .in = {a, b},
        .nin = 2,
        .ns_per_kilo = ns_per_kilo,
    };

    if (!b) {
        const struct weir__value_params *p = call->params;
        double value = p->value;
        weir_status st;

        /* Rounds the number as its tensor was: 0.1 equals an f16 made from 0.1. */
        if (code >= WEIR__BINARY_EQ && weir_dtype_is_float(a->dtype))
            value = weir__rounded(value, a->dtype);
        if ((st = weir__constant(call->op->name, value, a->dtype, &c.constant[0])))
            return st;
        /* Squares are the most common powers; the product gives the same bits. */
        if (code == WEIR__BINARY_POW && p->value == 2) {
            code = WEIR__BINARY_MUL;
            c.in[1] = a;
            c.ns_per_kilo = 0;
        } else if (code == WEIR__BINARY_POW && p->value == 3) {
            c.ns_per_kilo = 1000; /* now a product */
        }
    }
    c.fn = WEIR__ISA_PICK(weir__binary)->fn[code][a->dtype];
    c.code = (int)code;
    return weir__ew_prepare(&c, call->cores, work);
}

/* name, row name, code, types, flops, ns per 1024 elements, summary */
#define BINARY_ROWS(X)                                                                        \
    X(add, "Add", ADD, number, 1, 0, "a + b")                                                 \
    X(sub, "Sub", SUB, number, 1, 0, "a - b")                                                 \
    X(mul, "Mul", MUL, number, 1, 0, "a * b")                                                 \
    X(div, "Div", DIV, number, 1, 100, "a / b")                                               \
    X(pow, "Pow", POW, number, 30, 10000, "a^b")                                              \
    X(maximum, "Maximum", MAXIMUM, all, 1, 0, "the larger of a and b")                        \
    X(minimum, "Minimum", MINIMUM, all, 1, 0, "the smaller of a and b")                       \
    X(bitwise_and, "BitwiseAnd", BITWISE_AND, bits, 1, 0, "bits set in a and b")              \
    X(bitwise_or, "BitwiseOr", BITWISE_OR, bits, 1, 0, "bits set in a or b")                  \
    X(bitwise_xor, "BitwiseXor", BITWISE_XOR, bits, 1, 0, "bits set in one of a and b")       \
    X(bitwise_left_shift, "BitwiseLeftShift", LEFT_SHIFT, integer, 1, 0, "a * 2^b, wrapping") \
    X(bitwise_right_shift, "BitwiseRightShift", RIGHT_SHIFT, integer, 1, 0, "a / 2^b, down")  \
    X(eq, "Equal", EQ, compare, 1, 0, "a == b, as bool")                                      \
    X(ne, "NotEqual", NE, compare, 1, 0, "a != b, as bool")                                   \
    X(lt, "Less", LT, compare, 1, 0, "a < b, as bool")                                        \
    X(le, "LessEqual", LE, compare, 1, 0, "a <= b, as bool")                                  \
    X(gt, "Greater", GT, compare, 1, 0, "a > b, as bool")                                     \
    X(ge, "GreaterEqual", GE, compare, 1, 0, "a >= b, as bool")

#define DEFINE_BINARY(fn_name, row_name, CODE, types, flop, ns, text)                            \
    static weir_status prepare_##fn_name(const struct weir__call *call, struct weir__work *work) \
    {                                                                                            \
        return prepare(call, WEIR__BINARY_##CODE, ns, work);                                     \
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
        .nin_max = 2,                                                                            \
        .nout = 1,                                                                               \
        .params_size = sizeof(struct weir__value_params),                                        \
        .fields = value_fields,                                                                  \
        .nfields = weir__countof(value_fields),                                                  \
        .infer = infer_##types,                                                                  \
        .cost = cost_##fn_name,                                                                  \
        .prepare = prepare_##fn_name,                                                            \
        .place = weir__ew_place,                                                                 \
    };
BINARY_ROWS(DEFINE_BINARY)
