/* Creating, moving and viewing tensors. */
#include "ops.h"

OP(cast, 2, "x", "dtype")
{
    weir_tensor *x, *out;
    weir_dtype dtype;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_dtype(a[1], &dtype))
        return NULL;
    if (weir_tensor_dtype(x) == dtype)
        return Py_NewRef(a[0]);
    QUEUE(st, weir_cast(x, dtype, &out));
    return result(st, a[0], out);
}

OP(fill_, 2, "x", "value")
{
    weir_tensor *x;
    weir_status st;
    double value;

    if (!to_tensor(a[0], "x", &x) || !to_value(a[1], "value", weir_tensor_dtype(x), &value))
        return NULL;
    QUEUE(st, weir_fill(x, value));
    return same(st, a[0]);
}

OP(clone, 1, "x")
{
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x))
        return NULL;
    QUEUE(st, weir_copy(x, &out));
    return result(st, a[0], out);
}

OP(contiguous, 1, "x")
{
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x))
        return NULL;
    QUEUE(st, weir_contiguous(x, &out));
    return result(st, a[0], out);
}

OP(copy_, 2, "x", "source")
{
    weir_tensor *x, *source;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_tensor(a[1], "source", &source))
        return NULL;
    if (DEVICE(a[0]) == DEVICE(a[1]))
        QUEUE(st, weir_copy_into(source, x));
    else
        BLOCKING(st, weir_tensor_copy(x, source));
    return same(st, a[0]);
}

enum { MAX_PARTS = 64 };

OP(concat, 1, "tensors", "dim")
{
    weir_tensor *parts[MAX_PARTS], *out;
    PyObject *like = NULL;
    weir_status st = WEIR_OK;
    int dim = 0, got = 0;
    Py_ssize_t n;

    if (is_tensor(a[0]) || !PySequence_Check(a[0])) {
        PyErr_Format(PyExc_TypeError, "concat takes a sequence of tensors, not %R",
                     (PyObject *)Py_TYPE(a[0]));
        return NULL;
    }
    if ((n = PySequence_Size(a[0])) < 0 || !optional_int(a[1], "dim", &dim))
        return NULL;
    if (n < 1 || n > MAX_PARTS) {
        PyErr_Format(PyExc_ValueError, "concat takes 1..%d tensors, not %zd", MAX_PARTS, n);
        return NULL;
    }
    for (; got < n; got++) {
        PyObject *item = PySequence_GetItem(a[0], got);
        bool good = item && to_tensor(item, "each of tensors", &parts[got]);

        if (good)
            weir_tensor_retain(parts[got]);
        if (good && !like)
            like = Py_NewRef(item);
        Py_XDECREF(item);
        if (!good)
            break;
    }
    if (got == n)
        QUEUE(st, weir_concat(parts, got, dim, &out));
    for (int i = 0; i < got; i++)
        weir_tensor_release(parts[i]);
    PyObject *made = got < n ? NULL : result(st, like, out);

    Py_XDECREF(like);
    return made;
}

/* ---- random ---- */

static PyObject *random_fill(PyObject **a, const char *const *names, double first, double second,
                             weir_status (*fn)(weir_tensor *, uint64_t, double, double))
{
    int64_t seed;
    weir_tensor *x;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_int64(a[1], "seed", &seed) ||
        !optional_double(a[2], names[2], &first) || !optional_double(a[3], names[3], &second))
        return NULL;
    QUEUE(st, fn(x, (uint64_t)seed, first, second));
    return same(st, a[0]);
}

OP(uniform_, 2, "x", "seed", "low", "high")
{
    return random_fill(a, uniform__names, 0, 1, weir_random_uniform);
}

OP(normal_, 2, "x", "seed", "mean", "stddev")
{
    return random_fill(a, normal__names, 0, 1, weir_random_normal);
}

/* ---- views ---- */

OP(transpose, 3, "x", "dim0", "dim1")
{
    weir_tensor *x, *out;
    weir_status st;
    int dim0, dim1;

    if (!to_tensor(a[0], "x", &x) || !to_int(a[1], "dim0", &dim0) || !to_int(a[2], "dim1", &dim1))
        return NULL;
    st = weir_tensor_transpose(x, dim0, dim1, &out);
    return result(st, a[0], out);
}

OP(permute, 2, "x", "dims")
{
    int64_t given[WEIR_MAX_DIMS];
    int dims[WEIR_MAX_DIMS], n;
    weir_tensor *x, *out;
    weir_status st;

    if (!to_tensor(a[0], "x", &x) || !to_dims(a[1], "dims", given, WEIR_MAX_DIMS, &n))
        return NULL;
    if (n != weir_tensor_ndim(x)) {
        PyErr_Format(PyExc_ValueError, "permute: %d dims for a tensor of %d", n,
                     weir_tensor_ndim(x));
        return NULL;
    }
    for (int i = 0; i < n; i++)
        dims[i] = (int)given[i];
    st = weir_tensor_permute(x, dims, &out);
    return result(st, a[0], out);
}

OP(reshape, 2, "x", "shape")
{
    int64_t shape[WEIR_MAX_DIMS];
    weir_tensor *x, *packed = NULL, *out;
    weir_status st;
    int n;

    if (!to_tensor(a[0], "x", &x) || !to_dims(a[1], "shape", shape, WEIR_MAX_DIMS, &n))
        return NULL;
    st = weir_tensor_reshape(x, n, shape, &out);
    if (st == WEIR_ESHAPE && !weir_tensor_is_contiguous(x)) {
        QUEUE(st, weir_contiguous(x, &packed));
        if (!st)
            st = weir_tensor_reshape(packed, n, shape, &out);
        weir_tensor_release(packed);
    }
    return result(st, a[0], out);
}

OP(expand, 2, "x", "shape")
{
    int64_t shape[WEIR_MAX_DIMS];
    weir_tensor *x, *out;
    weir_status st;
    int n;

    if (!to_tensor(a[0], "x", &x) || !to_dims(a[1], "shape", shape, WEIR_MAX_DIMS, &n))
        return NULL;
    st = weir_tensor_expand(x, n, shape, &out);
    return result(st, a[0], out);
}

OP(slice_dim, 4, "x", "dim", "start", "stop", "step")
{
    int64_t start, stop = INT64_MAX, step = 1;
    weir_tensor *x, *out;
    weir_status st;
    int dim;

    if (!to_tensor(a[0], "x", &x) || !to_int(a[1], "dim", &dim) ||
        !to_int64(a[2], "start", &start) || (!is_absent(a[3]) && !to_int64(a[3], "stop", &stop)) ||
        (!is_absent(a[4]) && !to_int64(a[4], "step", &step)))
        return NULL;
    st = weir_tensor_slice(x, dim, start, stop, step, &out);
    return result(st, a[0], out);
}

/* ---- order ---- */

OP(wait_tensor, 2, "self", "dependency")
{
    weir_tensor *self, *dependency;

    if (!to_tensor(a[0], "self", &self) || !to_tensor(a[1], "dependency", &dependency))
        return NULL;
    return same(weir_wait_tensor(self, dependency), a[0]);
}
