/* Matrix products, attention, convolution; reductions and norms. */
#include "ops.h"

OP(matmul, 2, "a", "b", "out")
{
    weir_tensor *x, *y, *out;
    weir_status st;

    if (!to_tensor(a[0], "a", &x) || !to_tensor(a[1], "b", &y))
        return NULL;
    if (is_absent(a[2])) {
        QUEUE(st, weir_matmul(x, y, &out));
        return result(st, a[0], out);
    }
    if (!to_tensor(a[2], "out", &out))
        return NULL;
    QUEUE(st, weir_matmul_into(x, y, out));
    return same(st, a[2]);
}

OP(matmul_bias, 3, "a", "b", "bias")
{
    weir_tensor *x, *y, *bias, *out;
    weir_status st;

    if (!to_tensor(a[0], "a", &x) || !to_tensor(a[1], "b", &y) ||
        !optional_tensor(a[2], "bias", &bias))
        return NULL;
    QUEUE(st, weir_matmul_bias(x, y, bias, &out));
    return result(st, a[0], out);
}

OP(linear, 2, "x", "weight", "bias")
{
    weir_tensor *x, *weight, *bias, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_tensor(a[1], "weight", &weight) ||
        !optional_tensor(a[2], "bias", &bias))
        return NULL;
    QUEUE(st, weir_linear(x, weight, bias, &out));
    return result(st, a[0], out);
}

OP(grouped_matmul, 3, "a", "b", "ends", "bias")
{
    weir_tensor *x, *y, *ends, *bias, *out;
    weir_status st;

    if (!to_tensor(a[0], "a", &x) || !to_tensor(a[1], "b", &y) || !to_tensor(a[2], "ends", &ends) ||
        !optional_tensor(a[3], "bias", &bias))
        return NULL;
    QUEUE(st, weir_grouped_matmul(x, y, ends, bias, &out));
    return result(st, a[0], out);
}

/* Reads one int for both dims, or two ints. */
static bool two_ints(PyObject *o, const char *what, int64_t *out)
{
    int n;

    if (is_absent(o))
        return true;
    if (!to_dims(o, what, out, 2, &n))
        return false;
    if (n == 1)
        out[1] = out[0];
    if (!n)
        PyErr_Format(PyExc_ValueError, "%s is empty", what);
    return n;
}

OP(conv2d, 2, "x", "weight", "bias", "stride", "padding", "dilation", "groups")
{
    weir_conv2d_options o = {{1, 1}, {0, 0}, {1, 1}, 1};
    weir_tensor *x, *weight, *bias, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_tensor(a[1], "weight", &weight) ||
        !optional_tensor(a[2], "bias", &bias) || !two_ints(a[3], "stride", o.stride) ||
        !two_ints(a[4], "padding", o.padding) || !two_ints(a[5], "dilation", o.dilation) ||
        (a[6] && !to_int64(a[6], "groups", &o.groups)))
        return NULL;
    QUEUE(st, weir_conv2d(x, weight, bias, &o, &out));
    return result(st, a[0], out);
}

OP(attention, 3, "q", "k", "v", "mask", "causal", "scale", "rows_first")
{
    weir_attention_options o = {0, false, false};
    weir_tensor *q, *k, *v, *mask, *out;
    weir_status st;

    if (!to_tensor(a[0], "q", &q) || !to_tensor(a[1], "k", &k) || !to_tensor(a[2], "v", &v) ||
        !optional_tensor(a[3], "mask", &mask) || !optional_bool(a[4], &o.causal) ||
        !optional_double(a[5], "scale", &o.scale) || !optional_bool(a[6], &o.rows_first))
        return NULL;
    QUEUE(st, weir_attention(q, k, v, mask, &o, &out));
    return result(st, a[0], out);
}

/* ---- reductions ---- */

static PyObject *reduce(PyObject **a,
                        weir_status (*fn)(weir_tensor *, const int *, int, bool, weir_tensor **))
{
    int64_t given[WEIR_MAX_DIMS];
    int dims[WEIR_MAX_DIMS], n = 0;
    bool keepdim = false;
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) ||
        (!is_absent(a[1]) && !to_dims(a[1], "dim", given, WEIR_MAX_DIMS, &n)) ||
        !optional_bool(a[2], &keepdim))
        return NULL;
    for (int i = 0; i < n; i++)
        dims[i] = (int)given[i];
    QUEUE(st, fn(x, dims, n, keepdim, &out));
    return result(st, a[0], out);
}

#define REDUCE(name)                   \
    OP(name, 1, "x", "dim", "keepdim") \
    {                                  \
        return reduce(a, weir_##name); \
    }
WEIR_REDUCE_LIST(REDUCE)

OP(argmax, 1, "x", "dim", "keepdim")
{
    weir_tensor *x, *flat = NULL, *out;
    const int64_t all = -1;
    bool keepdim = false;
    weir_status st;
    int dim = 0;

    if (!to_tensor(a[0], "x", &x) || !optional_bool(a[2], &keepdim) ||
        (!is_absent(a[1]) && !to_int(a[1], "dim", &dim)))
        return NULL;
    if (is_absent(a[1])) {
        QUEUE(st, weir_contiguous(x, &out));
        if (st)
            return raise_status(st);
        st = weir_tensor_reshape(out, 1, &all, &flat);
        weir_tensor_release(out);
        if (st)
            return raise_status(st);
        x = flat;
    }
    QUEUE(st, weir_argmax(x, dim, keepdim && !flat, &out));
    weir_tensor_release(flat);
    return result(st, a[0], out);
}

OP(softmax, 1, "x", "dim")
{
    weir_tensor *x, *out;
    weir_status st;
    int dim = -1;

    if (!to_tensor(a[0], "x", &x) || !optional_int(a[1], "dim", &dim))
        return NULL;
    QUEUE(st, weir_softmax(x, dim, &out));
    return result(st, a[0], out);
}

OP(layer_norm, 1, "x", "weight", "bias", "eps")
{
    weir_tensor *x, *weight, *bias, *out;
    double eps = 1e-5;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !optional_tensor(a[1], "weight", &weight) ||
        !optional_tensor(a[2], "bias", &bias) || !optional_double(a[3], "eps", &eps))
        return NULL;
    QUEUE(st, weir_layer_norm(x, weight, bias, eps, &out));
    return result(st, a[0], out);
}

OP(rms_norm, 1, "x", "weight", "eps")
{
    weir_tensor *x, *weight, *out;
    double eps = 1e-6;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !optional_tensor(a[1], "weight", &weight) ||
        !optional_double(a[2], "eps", &eps))
        return NULL;
    QUEUE(st, weir_rms_norm(x, weight, eps, &out));
    return result(st, a[0], out);
}
