/* Python functions as operators: queued in order with a stream, or nodes of a graph. */
#include "weirpy.h"

#include <stdio.h>

/* Turns a raised exception into the reason of the stream's error, and shows it as an unraisable
 * exception. A KeyboardInterrupt, which may arrive here if this thread also waits, is raised again
 * after the wait. */
static weir_status fail_like_python(PyObject *function)
{
    PyObject *type, *value, *traceback, *name, *text;
    const char *kind = NULL, *said = NULL;
    char reason[512];

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    name = type ? PyObject_GetAttrString(type, "__name__") : NULL;
    text = value ? PyObject_Str(value) : NULL;
    if (name)
        kind = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text)
        said = PyUnicode_AsUTF8AndSize(text, NULL);
    PyErr_Clear();
    snprintf(reason, sizeof reason, said && *said ? "%s: %s" : "%s", kind ? kind : "an exception",
             said ? said : "");
    Py_XDECREF(name);
    Py_XDECREF(text);
    if (PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt)) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        PyErr_SetInterrupt();
    } else {
        PyErr_Restore(type, value, traceback);
        PyErr_WriteUnraisable(function);
    }
    return weir_kernel_fail(WEIR_EKERNEL, reason);
}

/* Runs on a thread of the library, or on the waiting thread. `user` is the function. */
static weir_status call_python(void *user, void *const *in, void *const *out)
{
    PyObject *call = user, *ins, *outs, *result;
    PyGILState_STATE state;
    Py_ssize_t nin, nout;
    weir_status st;

    if (weirpy_ending)
        return WEIR_ESTATE;
    state = PyGILState_Ensure();
    nin = PyLong_AsSsize_t(PyTuple_GetItem(call, 1));
    nout = PyLong_AsSsize_t(PyTuple_GetItem(call, 2));
    ins = PyTuple_New(nin);
    outs = PyTuple_New(nout);
    for (Py_ssize_t i = 0; ins && i < nin; i++)
        PyTuple_SetItem(ins, i, PyLong_FromVoidPtr(in[i]));
    for (Py_ssize_t i = 0; outs && i < nout; i++)
        PyTuple_SetItem(outs, i, PyLong_FromVoidPtr(out[i]));
    result = ins && outs ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(call, 0), ins, outs, NULL)
                         : NULL;
    Py_XDECREF(ins);
    Py_XDECREF(outs);
    st = result ? WEIR_OK : fail_like_python(PyTuple_GetItem(call, 0));
    Py_XDECREF(result);
    PyGILState_Release(state);
    return st;
}

static void call_is_over(void *user, weir_status status)
{
    (void)status;
    drop_later(user);
}

/* [(dtype, shape), ...] */
static bool parse_outputs(PyObject *list, weir_host_call *call)
{
    Py_ssize_t n = PySequence_Size(list);

    if (n < 1 || n > WEIR_HOST_MAX_OUT) {
        if (n >= 0)
            PyErr_Format(PyExc_ValueError, "a host call has 1..%d outputs, not %zd",
                         WEIR_HOST_MAX_OUT, n);
        return false;
    }
    call->nout = (int)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i), *dtype, *shape;
        bool good = item && PyTuple_Check(item) && PyArg_ParseTuple(item, "OO", &dtype, &shape) &&
                    to_dtype(dtype, &call->out[i].dtype) &&
                    to_dims(shape, "an output's shape", call->out[i].shape, WEIR_MAX_DIMS,
                            &call->out[i].ndim);

        if (item && !good && !PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "outputs are tuples (dtype, shape)");
        Py_XDECREF(item);
        if (!good)
            return false;
    }
    return true;
}

enum { MAX_IN = 64 };

/* Keeps the function alive as long as the graph, or until the stream has run it. If that is not
 * possible it is never freed, because it is queued already. */
static weir_status keep(PyObject *held, weir_device *dev)
{
    PyObject *calls = graph_current_calls();

    Py_INCREF(held);
    if (!calls)
        return weir_stream_callback(weir_stream_current(dev), call_is_over, held);
    if (PyList_Append(calls, held))
        return WEIR_ENOMEM;
    Py_DECREF(held);
    return WEIR_OK;
}

static PyObject *wrap_all(DeviceObject *device, weir_tensor **out, int n)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; i < n; i++) {
        PyObject *t = wrap_tensor(device, out[i]);

        if (!list || !t || PyList_Append(list, t))
            Py_CLEAR(list);
        Py_XDECREF(t);
    }
    return list;
}

static PyObject *host_call(PyObject *self, PyObject *args)
{
    PyObject *function, *inputs, *outputs, *held = NULL, *first = NULL, *made = NULL;
    weir_tensor *in[MAX_IN], *out[WEIR_HOST_MAX_OUT];
    weir_host_call call = {.fn = call_python};
    Py_ssize_t n, got = 0;
    weir_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "sOOO:host_call", &call.name, &function, &inputs, &outputs) ||
        (n = PySequence_Size(inputs)) < 0 || !parse_outputs(outputs, &call))
        return NULL;
    if (n < 1 || n > MAX_IN) {
        PyErr_Format(PyExc_ValueError, "a host call has 1..%d inputs, not %zd", MAX_IN, n);
        return NULL;
    }
    for (; got < n; got++) {
        PyObject *item = PySequence_GetItem(inputs, got);
        bool good = item && to_tensor(item, "each input", &in[got]);

        if (good)
            weir_tensor_retain(in[got]);
        if (!first)
            first = Py_XNewRef(item);
        Py_XDECREF(item);
        if (!good)
            goto release;
    }
    if (!(held = Py_BuildValue("(Oni)", function, n, call.nout)))
        goto release;
    call.user = held;
    if (weirpy_checking)
        note_source();
    BLOCKING(st, weir_host_run(&call, in, (int)n, out));
    if (st) {
        raise_status(st);
        goto release;
    }
    made = wrap_all(((TensorObject *)first)->device, out, call.nout);
    if ((st = keep(held, ((TensorObject *)first)->device->dev))) {
        raise_status(st);
        Py_CLEAR(made);
    }
release:
    for (Py_ssize_t i = 0; i < got; i++)
        weir_tensor_release(in[i]);
    Py_XDECREF(held);
    Py_XDECREF(first);
    return made;
}

PyMethodDef host_call_functions[] = {
    {"host_call", host_call, METH_VARARGS,
     "host_call(name, function, inputs, outputs) -> list[Tensor]\n\nRuns function(in_addresses, "
     "out_addresses) on the host, in order with the current stream, or makes it a node of the "
     "graph being captured. outputs is [(dtype, shape), ...]; the function writes them. An "
     "exception puts the stream in error.\n\n"
     ">>> import ctypes\n"
     ">>> def twice(inputs, outputs):\n"
     "...     x, y = (ctypes.c_float.from_address(a[0]) for a in (inputs, outputs))\n"
     "...     y.value = 2 * x.value\n"
     ">>> (y,) = weir.host_call('twice', twice, [weir.tensor([4.0])], [(weir.float32, (1,))])\n"
     ">>> y.item()\n8.0\n"},
    {NULL, NULL, 0, NULL},
};
