/* The public functions of two tensors, or a tensor and a number. Each is written out so that a
 * search for its name finds it. binary.c has the operators. */
#include "ops/call/registry.h"
#include "ops/elementwise.h"

static weir_status run(const struct weir__op *op, weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    static const struct weir__value_params none;
    weir_tensor *in[] = {a, b};

    return weir__op_run(op, &none, in, 2, out);
}

static weir_status run_into(const struct weir__op *op, weir_tensor *a, weir_tensor *b,
                            weir_tensor *out)
{
    static const struct weir__value_params none;
    weir_tensor *in[] = {a, b};

    return weir__op_run_into(op, &none, in, 2, &out);
}

static weir_status run_scalar(const struct weir__op *op, weir_tensor *a, double b,
                              weir_tensor **out)
{
    struct weir__value_params p = {b};

    return weir__op_run(op, &p, &a, 1, out);
}

static weir_status run_scalar_into(const struct weir__op *op, weir_tensor *a, double b,
                                   weir_tensor *out)
{
    struct weir__value_params p = {b};

    return weir__op_run_into(op, &p, &a, 1, &out);
}

weir_status weir_add(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_add, a, b, out);
}
weir_status weir_add_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_add, a, b, out);
}
weir_status weir_add_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_add, a, b, out);
}
weir_status weir_add_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_add, a, b, out);
}

weir_status weir_sub(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_sub, a, b, out);
}
weir_status weir_sub_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_sub, a, b, out);
}
weir_status weir_sub_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_sub, a, b, out);
}
weir_status weir_sub_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_sub, a, b, out);
}

weir_status weir_mul(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_mul, a, b, out);
}
weir_status weir_mul_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_mul, a, b, out);
}
weir_status weir_mul_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_mul, a, b, out);
}
weir_status weir_mul_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_mul, a, b, out);
}

weir_status weir_div(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_div, a, b, out);
}
weir_status weir_div_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_div, a, b, out);
}
weir_status weir_div_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_div, a, b, out);
}
weir_status weir_div_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_div, a, b, out);
}

weir_status weir_pow(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_pow, a, b, out);
}
weir_status weir_pow_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_pow, a, b, out);
}
weir_status weir_pow_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_pow, a, b, out);
}
weir_status weir_pow_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_pow, a, b, out);
}

weir_status weir_maximum(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_maximum, a, b, out);
}
weir_status weir_maximum_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_maximum, a, b, out);
}
weir_status weir_maximum_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_maximum, a, b, out);
}
weir_status weir_maximum_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_maximum, a, b, out);
}

weir_status weir_minimum(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_minimum, a, b, out);
}
weir_status weir_minimum_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_minimum, a, b, out);
}
weir_status weir_minimum_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_minimum, a, b, out);
}
weir_status weir_minimum_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_minimum, a, b, out);
}

weir_status weir_eq(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_eq, a, b, out);
}
weir_status weir_eq_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_eq, a, b, out);
}
weir_status weir_eq_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_eq, a, b, out);
}
weir_status weir_eq_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_eq, a, b, out);
}

weir_status weir_ne(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_ne, a, b, out);
}
weir_status weir_ne_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_ne, a, b, out);
}
weir_status weir_ne_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_ne, a, b, out);
}
weir_status weir_ne_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_ne, a, b, out);
}

weir_status weir_lt(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_lt, a, b, out);
}
weir_status weir_lt_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_lt, a, b, out);
}
weir_status weir_lt_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_lt, a, b, out);
}
weir_status weir_lt_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_lt, a, b, out);
}

weir_status weir_le(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_le, a, b, out);
}
weir_status weir_le_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_le, a, b, out);
}
weir_status weir_le_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_le, a, b, out);
}
weir_status weir_le_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_le, a, b, out);
}

weir_status weir_gt(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_gt, a, b, out);
}
weir_status weir_gt_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_gt, a, b, out);
}
weir_status weir_gt_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_gt, a, b, out);
}
weir_status weir_gt_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_gt, a, b, out);
}

weir_status weir_ge(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_ge, a, b, out);
}
weir_status weir_ge_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_ge, a, b, out);
}
weir_status weir_ge_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_ge, a, b, out);
}
weir_status weir_ge_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_ge, a, b, out);
}

weir_status weir_bitwise_and(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_bitwise_and, a, b, out);
}
weir_status weir_bitwise_and_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_bitwise_and, a, b, out);
}
weir_status weir_bitwise_and_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_bitwise_and, a, b, out);
}
weir_status weir_bitwise_and_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_bitwise_and, a, b, out);
}

weir_status weir_bitwise_or(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_bitwise_or, a, b, out);
}
weir_status weir_bitwise_or_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_bitwise_or, a, b, out);
}
weir_status weir_bitwise_or_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_bitwise_or, a, b, out);
}
weir_status weir_bitwise_or_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_bitwise_or, a, b, out);
}

weir_status weir_bitwise_xor(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_bitwise_xor, a, b, out);
}
weir_status weir_bitwise_xor_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_bitwise_xor, a, b, out);
}
weir_status weir_bitwise_xor_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_bitwise_xor, a, b, out);
}
weir_status weir_bitwise_xor_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_bitwise_xor, a, b, out);
}

weir_status weir_bitwise_left_shift(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_bitwise_left_shift, a, b, out);
}
weir_status weir_bitwise_left_shift_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_bitwise_left_shift, a, b, out);
}
weir_status weir_bitwise_left_shift_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_bitwise_left_shift, a, b, out);
}
weir_status weir_bitwise_left_shift_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_bitwise_left_shift, a, b, out);
}

weir_status weir_bitwise_right_shift(weir_tensor *a, weir_tensor *b, weir_tensor **out)
{
    return run(&weir__op_bitwise_right_shift, a, b, out);
}
weir_status weir_bitwise_right_shift_into(weir_tensor *a, weir_tensor *b, weir_tensor *out)
{
    return run_into(&weir__op_bitwise_right_shift, a, b, out);
}
weir_status weir_bitwise_right_shift_scalar(weir_tensor *a, double b, weir_tensor **out)
{
    return run_scalar(&weir__op_bitwise_right_shift, a, b, out);
}
weir_status weir_bitwise_right_shift_scalar_into(weir_tensor *a, double b, weir_tensor *out)
{
    return run_scalar_into(&weir__op_bitwise_right_shift, a, b, out);
}
