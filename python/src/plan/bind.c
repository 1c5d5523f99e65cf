/* Parses and checks the arguments of Plan.bind() once, before any call. */
#include "plan/ways.h"

#include <stdlib.h>

void binding_set_bytes(struct binding *b)
{
    b->bytes = weir_dtype_size(b->dtype);
    for (int i = 0; i < b->ndim; i++)
        b->bytes *= (size_t)b->shape[i];
}

static bool parse_binding(PyObject *item, struct binding *b)
{
    PyObject *dtype, *shape;

    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "bind takes tuples (dtype, shape)");
        return false;
    }
    if (!PyArg_ParseTuple(item, "OO", &dtype, &shape) || !to_dtype(dtype, &b->dtype) ||
        !to_dims(shape, "a shape", b->shape, WEIR_MAX_DIMS, &b->ndim))
        return false;
    binding_set_bytes(b);
    return true;
}

static bool parse_bindings(struct plan_ways *p, PyObject *const *lists)
{
    Py_ssize_t counts[2] = {PySequence_Size(lists[0]), PySequence_Size(lists[1])};

    if (counts[0] < 0 || counts[1] < 0)
        return false;
    p->nin = counts[0];
    p->nout = counts[1];
    if (!(p->bindings = calloc((size_t)(p->nin + p->nout) + 1, sizeof *p->bindings))) {
        PyErr_NoMemory();
        return false;
    }
    for (int l = 0; l < 2; l++)
        for (Py_ssize_t i = 0; i < counts[l]; i++) {
            PyObject *item = PySequence_GetItem(lists[l], i);
            bool good = item && parse_binding(item, &p->bindings[l * p->nin + i]);

            Py_XDECREF(item);
            if (!good)
                return false;
        }
    return true;
}

static bool parse_arguments(struct plan_ways *p, PyObject *arguments)
{
    if (PySequence_Size(arguments) != p->nin) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "bind needs an argument for each of %zd inputs", p->nin);
        return false;
    }
    if (!(p->arguments = calloc((size_t)p->nin + 1, sizeof *p->arguments))) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < p->nin; i++) {
        PyObject *item = PySequence_GetItem(arguments, i);

        p->arguments[i] = item ? PyNumber_AsSsize_t(item, PyExc_OverflowError) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

/* Checks that each maker is a tuple of a function and its arguments. */
static bool check_makers(const struct plan_ways *p)
{
    bool good = PyTuple_Size(p->makers) == p->nout;

    for (Py_ssize_t i = 0; good && i < p->nout; i++) {
        PyObject *maker = PyTuple_GetItem(p->makers, i);

        good = PyTuple_Check(maker) && PyTuple_Size(maker) == 2 &&
               PyTuple_Check(PyTuple_GetItem(maker, 1));
    }
    if (!good)
        PyErr_Format(PyExc_ValueError,
                     "bind needs a tuple (function, arguments) for each of %zd outputs", p->nout);
    return good;
}

static bool check_results(const struct plan_ways *p)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(p->results); i++) {
        PyObject *item = PyTuple_GetItem(p->results, i);
        Py_ssize_t slot;

        if (PyTuple_Check(item) && PyTuple_Size(item) == 1)
            continue;
        slot = PyNumber_AsSsize_t(item, PyExc_OverflowError);
        if (PyErr_Occurred())
            return false;
        if (slot >= p->nout) {
            PyErr_Format(PyExc_ValueError, "result %zd is output %zd of %zd", i, slot, p->nout);
            return false;
        }
    }
    return true;
}

void plan_ways_free(struct plan_ways *p, bool alive)
{
    if (!p)
        return;
    for (Py_ssize_t i = 0; alive && p->bindings && i < p->nin + p->nout; i++) {
        weir_tensor_release(p->bindings[i].tensor);
        weir_tensor_release(p->bindings[i].staged);
    }
    free(p->bindings);
    free(p->arguments);
    Py_XDECREF(p->makers);
    Py_XDECREF(p->results);
    free(p);
}

struct plan_ways *plan_ways_parse(const weir_plan *plan, PyObject *args)
{
    PyObject *specs[2], *arguments, *makers, *results;
    struct plan_ways *p;

    if (!PyArg_ParseTuple(args, "OOOOO:bind", &specs[0], &specs[1], &arguments, &makers, &results))
        return NULL;
    if (!(p = calloc(1, sizeof *p))) {
        PyErr_NoMemory();
        return NULL;
    }
    if (parse_bindings(p, specs) && parse_arguments(p, arguments) &&
        (p->makers = PySequence_Tuple(makers)) && (p->results = PySequence_Tuple(results)) &&
        check_makers(p) && check_results(p)) {
        for (Py_ssize_t i = 0; i < p->nin; i++)
            p->bindings[i].written = weir_plan_writes_input(plan, (size_t)i);
        return p;
    }
    plan_ways_free(p, true);
    return NULL;
}
