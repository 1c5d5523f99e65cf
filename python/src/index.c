/* t[...] and t[...] = values: views by ints, slices, None and Ellipsis. */
#include "ops.h"

/* A view under construction. */
struct cursor {
    weir_tensor *t; /* a reference of its own */
    int dim;        /* the dim to which the next index applies */
    int dropped;    /* number of dims that ints have removed */
    int ndim;       /* of the indexed tensor */
};

/* Replaces the view by the result of a step. False with an exception if the step failed. */
static bool advance(struct cursor *c, weir_status st, weir_tensor *next)
{
    if (st) {
        raise_status(st);
        return false;
    }
    weir_tensor_release(c->t);
    c->t = next;
    return true;
}

static bool by_int(struct cursor *c, PyObject *key)
{
    int64_t at, size = weir_tensor_shape(c->t)[c->dim];
    weir_tensor *next;
    weir_status st;

    if (!to_int64(key, "an index", &at))
        return false;
    if (at < -size || at >= size) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of range for dim %d of size %lld",
                     (long long)at, c->dim + c->dropped, (long long)size);
        return false;
    }
    c->dropped++;
    /* A negative index stays negative: in a graph with open sizes its position varies. */
    st = weir_tensor_slice(c->t, c->dim, at, at == -1 ? INT64_MAX : at + 1, 1, &next);
    if (!advance(c, st, next))
        return false;
    st = weir_tensor_squeeze(c->t, c->dim, &next);
    return advance(c, st, next);
}

static bool by_slice(struct cursor *c, PyObject *key)
{
    Py_ssize_t start, stop, step;
    weir_tensor *next;
    weir_status st;

    if (PySlice_Unpack(key, &start, &stop, &step))
        return false;
    if (step < 1) {
        PyErr_Format(PyExc_ValueError, "a slice's step must be positive, not %zd", step);
        return false;
    }
    st = weir_tensor_slice(c->t, c->dim, start, stop, step, &next);
    c->dim++;
    return advance(c, st, next);
}

static bool apply(struct cursor *c, PyObject *key, int taken)
{
    if (key == Py_Ellipsis) {
        c->dim = weir_tensor_ndim(c->t) - taken;
        return true;
    }
    if (key == Py_None) {
        weir_tensor *next;
        weir_status st = weir_tensor_unsqueeze(c->t, c->dim++, &next);

        return advance(c, st, next);
    }
    if (c->dim >= weir_tensor_ndim(c->t)) {
        PyErr_Format(PyExc_IndexError, "too many indices for a tensor of %d dims", c->ndim);
        return false;
    }
    if (PySlice_Check(key))
        return by_slice(c, key);
    if (is_tensor(key) ? weir_tensor_numel(((TensorObject *)key)->tensor) == 1
                       : PyIndex_Check(key) && !PyBool_Check(key))
        return by_int(c, key);
    PyErr_Format(PyExc_TypeError,
                 "a tensor is indexed by ints, slices, None and ..., not %R; weir.index_select and "
                 "weir.gather take tensors, weir.where and weir.nonzero conditions",
                 (PyObject *)Py_TYPE(key));
    return false;
}

/* Counts the dims that the keys from `i` on index. */
static int count_taken(PyObject *keys, Py_ssize_t i)
{
    int n = 0;

    for (; i < PyTuple_Size(keys); i++)
        n += PyTuple_GetItem(keys, i) != Py_None && PyTuple_GetItem(keys, i) != Py_Ellipsis;
    return n;
}

/* Returns a new reference to the view, or NULL with an exception. */
static weir_tensor *view(PyObject *self, PyObject *key)
{
    weir_tensor *t = ((TensorObject *)self)->tensor;
    struct cursor c = {weir_tensor_retain(t), 0, 0, weir_tensor_ndim(t)};
    bool good = true;

    if (!PyTuple_Check(key))
        good = apply(&c, key, 0);
    else
        for (Py_ssize_t i = 0; good && i < PyTuple_Size(key); i++)
            good = apply(&c, PyTuple_GetItem(key, i), count_taken(key, i + 1));
    if (good)
        return c.t;
    weir_tensor_release(c.t);
    return NULL;
}

PyObject *tensor_subscript(PyObject *self, PyObject *key)
{
    TensorObject *t = (TensorObject *)self;
    weir_tensor *made = device_check(t->device) ? view(self, key) : NULL;

    return made ? wrap_tensor(t->device, made) : NULL;
}

int tensor_assign(PyObject *self, PyObject *key, PyObject *value)
{
    TensorObject *t = (TensorObject *)self;
    weir_tensor *target, *source;
    weir_status st = WEIR_OK;
    double number;

    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
        return -1;
    }
    if (!device_check(t->device) || !(target = view(self, key)))
        return -1;
    if (Py_IS_TYPE(value, TensorType)) {
        if (to_tensor(value, "the value", &source))
            QUEUE(st, weir_copy_into(source, target));
    } else if (to_value(value, "the value", weir_tensor_dtype(target), &number)) {
        QUEUE(st, weir_fill(target, number));
    }
    if (st)
        raise_status(st);
    weir_tensor_release(target);
    return PyErr_Occurred() ? -1 : 0;
}
