/* The public functions of one tensor. Each is written out so that a search for its name finds it.
 * unary.c has the operators. */
#include "ops/call/registry.h"
#include "ops/elementwise.h"

weir_status weir_neg(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_neg, NULL, &x, 1, out);
}
weir_status weir_neg_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_neg, NULL, &x, 1, &out);
}

weir_status weir_abs(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_abs, NULL, &x, 1, out);
}
weir_status weir_abs_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_abs, NULL, &x, 1, &out);
}

weir_status weir_exp(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_exp, NULL, &x, 1, out);
}
weir_status weir_exp_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_exp, NULL, &x, 1, &out);
}

weir_status weir_log(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_log, NULL, &x, 1, out);
}
weir_status weir_log_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_log, NULL, &x, 1, &out);
}

weir_status weir_sqrt(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_sqrt, NULL, &x, 1, out);
}
weir_status weir_sqrt_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_sqrt, NULL, &x, 1, &out);
}

weir_status weir_rsqrt(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_rsqrt, NULL, &x, 1, out);
}
weir_status weir_rsqrt_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_rsqrt, NULL, &x, 1, &out);
}

weir_status weir_sin(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_sin, NULL, &x, 1, out);
}
weir_status weir_sin_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_sin, NULL, &x, 1, &out);
}

weir_status weir_cos(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_cos, NULL, &x, 1, out);
}
weir_status weir_cos_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_cos, NULL, &x, 1, &out);
}

weir_status weir_sigmoid(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_sigmoid, NULL, &x, 1, out);
}
weir_status weir_sigmoid_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_sigmoid, NULL, &x, 1, &out);
}

weir_status weir_tanh(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_tanh, NULL, &x, 1, out);
}
weir_status weir_tanh_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_tanh, NULL, &x, 1, &out);
}

weir_status weir_relu(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_relu, NULL, &x, 1, out);
}
weir_status weir_relu_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_relu, NULL, &x, 1, &out);
}

weir_status weir_gelu(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_gelu, NULL, &x, 1, out);
}
weir_status weir_gelu_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_gelu, NULL, &x, 1, &out);
}

weir_status weir_silu(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_silu, NULL, &x, 1, out);
}
weir_status weir_silu_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_silu, NULL, &x, 1, &out);
}

weir_status weir_bitwise_not(weir_tensor *x, weir_tensor **out)
{
    return weir__op_run(&weir__op_bitwise_not, NULL, &x, 1, out);
}
weir_status weir_bitwise_not_into(weir_tensor *x, weir_tensor *out)
{
    return weir__op_run_into(&weir__op_bitwise_not, NULL, &x, 1, &out);
}
