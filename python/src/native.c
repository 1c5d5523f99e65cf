/* Streams as other libraries on the same GPU know them. Handles are numbers here. */
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

PyMethodDef native_functions[] = {
    {"stream_native", stream_native, METH_O, "stream_native(stream) -> int"},
    {"stream_wait_native", stream_wait_native, METH_VARARGS, "stream_wait_native(stream, native)"},
    {"stream_signal_native", stream_signal_native, METH_VARARGS,
     "stream_signal_native(stream, native)"},
    {NULL, NULL, 0, NULL},
};
