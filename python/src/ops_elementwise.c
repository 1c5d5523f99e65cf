/* Elementwise operators, and Python's operators (+, -, ...) that call them. */
#include "ops.h"

#include <math.h>

static bool is_number(PyObject *o)
{
    return PyFloat_Check(o) || PyLong_Check(o) ||
           (!is_tensor(o) && PyNumber_Check(o) && !PyObject_CheckBuffer(o));
}

typedef weir_status (*unary_fn)(weir_tensor *, weir_tensor **);
typedef weir_status (*unary_into_fn)(weir_tensor *, weir_tensor *);

static PyObject *unary(PyObject **a, unary_fn fn, unary_into_fn into)
{
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x))
        return NULL;
    if (is_absent(a[1])) {
        QUEUE(st, fn(x, &out));
        return result(st, a[0], out);
    }
    if (!to_tensor(a[1], "out", &out))
        return NULL;
    QUEUE(st, into(x, out));
    return same(st, a[1]);
}

#define UNARY(name)                                       \
    OP(name, 1, "x", "out")                               \
    {                                                     \
        return unary(a, weir_##name, weir_##name##_into); \
    }
WEIR_UNARY_LIST(UNARY)
UNARY(bitwise_not)

struct binary {
    const char *name;
    weir_status (*fn)(weir_tensor *, weir_tensor *, weir_tensor **);
    weir_status (*into)(weir_tensor *, weir_tensor *, weir_tensor *);
    weir_status (*scalar)(weir_tensor *, double, weir_tensor **);
    weir_status (*scalar_into)(weir_tensor *, double, weir_tensor *);
};

static PyObject *tensor_tensor(const struct binary *b, PyObject *x, PyObject *y)
{
    weir_tensor *out;
    weir_status st;

    if (!device_check(DEVICE(x)) || !device_check(DEVICE(y)))
        return NULL;
    QUEUE(st, b->fn(((TensorObject *)x)->tensor, ((TensorObject *)y)->tensor, &out));
    return result(st, x, out);
}

static PyObject *tensor_scalar(const struct binary *b, PyObject *x, PyObject *y)
{
    weir_tensor *out;
    weir_status st;
    double value;

    if (!device_check(DEVICE(x)) ||
        !to_value(y, "b", weir_tensor_dtype(((TensorObject *)x)->tensor), &value))
        return NULL;
    QUEUE(st, b->scalar(((TensorObject *)x)->tensor, value, &out));
    return result(st, x, out);
}

static PyObject *scalar_tensor_op(const struct binary *b, PyObject *x, PyObject *y)
{
    weir_tensor *left, *right = ((TensorObject *)y)->tensor, *out;
    weir_status st;
    double value;

    if (!device_check(DEVICE(y)) || !to_value(x, "a", weir_tensor_dtype(right), &value) ||
        !(left = scalar_tensor(DEVICE(y)->dev, weir_tensor_dtype(right), value)))
        return NULL;
    QUEUE(st, b->fn(left, right, &out));
    weir_tensor_release(left);
    return result(st, y, out);
}

/* Returns NotImplemented if an operand is neither tensor nor number. */
static PyObject *binary_new(const struct binary *b, PyObject *x, PyObject *y)
{
    if (is_tensor(x) && is_tensor(y))
        return tensor_tensor(b, x, y);
    if (is_tensor(x) && is_number(y))
        return tensor_scalar(b, x, y);
    if (is_tensor(y) && is_number(x))
        return scalar_tensor_op(b, x, y);
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *binary_into(const struct binary *b, PyObject *x, PyObject *y, PyObject *o)
{
    weir_tensor *left, *right, *out;
    weir_status st;
    double value;

    if (!to_tensor(x, "a", &left) || !to_tensor(o, "out", &out))
        return NULL;
    if (is_number(y)) {
        if (!to_value(y, "b", weir_tensor_dtype(left), &value))
            return NULL;
        QUEUE(st, b->scalar_into(left, value, out));
    } else {
        if (!to_tensor(y, "b", &right))
            return NULL;
        QUEUE(st, b->into(left, right, out));
    }
    return same(st, o);
}

static PyObject *binary_call(const struct binary *b, PyObject **a)
{
    PyObject *made = is_absent(a[2]) ? binary_new(b, a[0], a[1]) : binary_into(b, a[0], a[1], a[2]);

    if (made != Py_NotImplemented)
        return made;
    Py_DECREF(made);
    PyErr_Format(PyExc_TypeError, "%s takes tensors and numbers, not %R and %R", b->name,
                 (PyObject *)Py_TYPE(a[0]), (PyObject *)Py_TYPE(a[1]));
    return NULL;
}

#define BINARY(name)                                                                             \
    static const struct binary name##_binary = {                                                 \
        #name, weir_##name, weir_##name##_into, weir_##name##_scalar, weir_##name##_scalar_into, \
    };                                                                                           \
    OP(name, 2, "a", "b", "out")                                                                 \
    {                                                                                            \
        return binary_call(&name##_binary, a);                                                   \
    }
WEIR_BINARY_LIST(BINARY)
WEIR_COMPARE_LIST(BINARY)
WEIR_BITWISE_LIST(BINARY)

OP(clamp, 1, "x", "low", "high")
{
    double low = -INFINITY, high = INFINITY;
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !optional_value(a[1], "low", weir_tensor_dtype(x), &low) ||
        !optional_value(a[2], "high", weir_tensor_dtype(x), &high))
        return NULL;
    QUEUE(st, weir_clamp(x, low, high, &out));
    return result(st, a[0], out);
}

/* Returns a new reference to a tensor operand, or to a 0-d tensor of `like`'s type with a
 * number. */
static weir_tensor *operand(PyObject *o, const char *what, PyObject *like)
{
    weir_tensor *t;
    weir_dtype dtype;
    double value;

    if (is_tensor(o))
        return to_tensor(o, what, &t) ? weir_tensor_retain(t) : NULL;
    if (!is_tensor(like)) {
        PyErr_SetString(PyExc_TypeError, "where: one of a and b must be a tensor");
        return NULL;
    }
    dtype = weir_tensor_dtype(((TensorObject *)like)->tensor);
    return to_value(o, what, dtype, &value) ? scalar_tensor(DEVICE(like)->dev, dtype, value) : NULL;
}

OP(where, 3, "condition", "a", "b")
{
    weir_tensor *condition, *x, *y, *out = NULL;
    weir_status st = WEIR_EINVAL;

    if (!to_tensor(a[0], "condition", &condition) || !(x = operand(a[1], "a", a[2])))
        return NULL;
    if ((y = operand(a[2], "b", a[1])))
        QUEUE(st, weir_where(condition, x, y, &out));
    weir_tensor_release(x);
    weir_tensor_release(y);
    return result(st, a[0], out);
}

OP(swiglu, 1, "x", "dim")
{
    weir_tensor *x, *out;
    weir_status st;
    int dim = -1;

    if (!to_tensor(a[0], "x", &x) || !optional_int(a[1], "dim", &dim))
        return NULL;
    QUEUE(st, weir_swiglu(x, dim, &out));
    return result(st, a[0], out);
}

/* ---- Python's own operators ---- */

PyObject *op_number(int which, PyObject *a, PyObject *b)
{
    static const struct binary *const table[] = {
        [NUMBER_ADD] = &add_binary,
        [NUMBER_SUB] = &sub_binary,
        [NUMBER_MUL] = &mul_binary,
        [NUMBER_DIV] = &div_binary,
        [NUMBER_POW] = &pow_binary,
        [NUMBER_AND] = &bitwise_and_binary,
        [NUMBER_OR] = &bitwise_or_binary,
        [NUMBER_XOR] = &bitwise_xor_binary,
        [NUMBER_LEFT] = &bitwise_left_shift_binary,
        [NUMBER_RIGHT] = &bitwise_right_shift_binary,
    };

    if (which == NUMBER_MATMUL) {
        PyObject *both[] = {a, b};

        if (!is_tensor(a) || !is_tensor(b))
            Py_RETURN_NOTIMPLEMENTED;
        return op_matmul_function(NULL, both, 2, NULL);
    }
    return binary_new(table[which], a, b);
}

PyObject *op_compare(PyObject *a, PyObject *b, int op)
{
    static const struct binary *const table[] = {
        [Py_LT] = &lt_binary, [Py_LE] = &le_binary, [Py_EQ] = &eq_binary,
        [Py_NE] = &ne_binary, [Py_GT] = &gt_binary, [Py_GE] = &ge_binary,
    };

    return binary_new(table[op], a, b);
}

PyObject *op_neg(PyObject *a)
{
    PyObject *slots[] = {a, NULL};

    return neg_body(slots);
}

PyObject *op_invert(PyObject *a)
{
    PyObject *slots[] = {a, NULL};

    return bitwise_not_body(slots);
}

PyObject *op_abs(PyObject *a)
{
    PyObject *slots[] = {a, NULL};

    return abs_body(slots);
}
