/* Native streams (CUDA streams) of other libraries on the same GPU. Handles are numbers here. */
#include "weirpy.h"

static weir_stream *to_stream(PyObject *o)
{
    if (!Py_IS_TYPE(o, StreamType)) {
        PyErr_Format(PyExc_TypeError, "a stream is a weir.Stream, not %R", (PyObject *)Py_TYPE(o));
        return NULL;
    }
    return device_check(((StreamObject *)o)->device) ? ((StreamObject *)o)->stream : NULL;
}

static PyObject *stream_native(PyObject *self, PyObject *o)
{
    weir_stream *s = to_stream(o);
    weir_status st;
    void *native;

    (void)self;
    if (!s)
        return NULL;
    st = weir_stream_native(s, &native);
    return st ? raise_status(st) : PyLong_FromVoidPtr(native);
}

typedef weir_status (*order_fn)(weir_stream *stream, void *native);

static PyObject *order(PyObject *args, order_fn fn)
{
    unsigned long long native;
    weir_stream *s;
    PyObject *o;

    if (!PyArg_ParseTuple(args, "OK", &o, &native) || !(s = to_stream(o)))
        return NULL;
    return none_or(fn(s, (void *)(uintptr_t)native));
}

static PyObject *stream_wait_native(PyObject *self, PyObject *args)
{
    (void)self;
    return order(args, weir_stream_wait_native);
}

static PyObject *stream_signal_native(PyObject *self, PyObject *args)
{
    (void)self;
    return order(args, weir_stream_signal_native);
}

/* ---- work of other libraries on the current stream ---- */

static PyObject *native_begin(PyObject *self, PyObject *args)
{
    unsigned long long native;
    const char *name;
    DeviceObject *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O!Ks:native_begin", DeviceType, &d, &native, &name) ||
        !device_check(d))
        return NULL;
    return none_or(
        weir_stream_begin_native(weir_stream_current(d->dev), (void *)(uintptr_t)native, name));
}

static PyObject *native_end(PyObject *self, PyObject *args)
{
    unsigned long long native;
    DeviceObject *d;

    (void)self;
    if (!PyArg_ParseTuple(args, "O!K:native_end", DeviceType, &d, &native) || !device_check(d))
        return NULL;
    return none_or(weir_stream_end_native(weir_stream_current(d->dev), (void *)(uintptr_t)native));
}

/* True if a core limit may apply to operators; open scopes are not considered. */
static PyObject *is_limited(PyObject *self, PyObject *o)
{
    DeviceObject *d = (DeviceObject *)o;
    weir_device_props props;
    weir_cores limit;

    (void)self;
    if (!Py_IS_TYPE(o, DeviceType)) {
        PyErr_Format(PyExc_TypeError, "is_limited takes a weir.Device, not %R",
                     (PyObject *)Py_TYPE(o));
        return NULL;
    }
    if (!device_check(d))
        return NULL;
    weir_device_get_props(d->dev, &props, sizeof props);
    limit = weir_stream_get_limit(weir_stream_current(d->dev));
    return PyBool_FromLong(weir_scope_depth() > 0 || limit.cube < props.cores.cube ||
                           limit.vector < props.cores.vector);
}

PyMethodDef native_functions[] = {
    {"native_begin", native_begin, METH_VARARGS, "native_begin(device, native, name)"},
    {"native_end", native_end, METH_VARARGS, "native_end(device, native)"},
    {"is_limited", is_limited, METH_O, "is_limited(device) -> bool"},
    {"stream_native", stream_native, METH_O, "stream_native(stream) -> int"},
    {"stream_wait_native", stream_wait_native, METH_VARARGS, "stream_wait_native(stream, native)"},
    {"stream_signal_native", stream_signal_native, METH_VARARGS,
     "stream_signal_native(stream, native)"},
    {NULL, NULL, 0, NULL},
};
