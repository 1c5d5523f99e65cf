/* Recordings of executed operators (traces). */
#include "weirpy.h"

#include <string.h>

static const char capsule_name[] = "weir.trace";

static void free_trace(PyObject *capsule)
{
    weir_trace_free(PyCapsule_GetPointer(capsule, capsule_name));
}

static PyObject *trace_start(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return none_or(weir_trace_start(NULL));
}

static PyObject *op_dict(const weir_trace_data *d, const weir_trace_op *op)
{
    const weir_trace_stream *s = &d->streams[op->stream];

    return Py_BuildValue("{sssssssssssKsIsIsdsdsdsO}", "name", op->name, "scope", op->scope,
                         "source", op->source, "stream", s->name, "engine",
                         weir_engine_name(op->engine), "seq", (unsigned long long)op->seq, "blocks",
                         op->blocks, "cores", op->cores, "queued_us", (double)op->queued_ns / 1e3,
                         "start_us", (double)op->started_ns / 1e3, "end_us",
                         (double)op->ended_ns / 1e3, "failed", op->failed ? Py_True : Py_False);
}

/* Makes a tuple (stream, source stream, index of the first op after the wait or None, index of the
 * last op before it or None). */
static PyObject *wait_tuple(const weir_trace_data *d, const weir_trace_wait *w)
{
    PyObject *ends[2];
    const uint32_t ops[2] = {w->op, w->source_op};
    PyObject *tuple;

    for (int i = 0; i < 2; i++)
        ends[i] = ops[i] == WEIR_TRACE_NONE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(ops[i]);
    tuple = ends[0] && ends[1] ? Py_BuildValue("(ssOO)", d->streams[w->stream].name,
                                               d->streams[w->source_stream].name, ends[0], ends[1])
                               : NULL;
    Py_XDECREF(ends[0]);
    Py_XDECREF(ends[1]);
    return tuple;
}

static bool append(PyObject *list, PyObject *item)
{
    bool good = list && item && !PyList_Append(list, item);

    Py_XDECREF(item);
    return good;
}

/* Takes ownership of the trace. */
static PyObject *describe(weir_trace *trace)
{
    PyObject *ops = PyList_New(0), *waits = PyList_New(0), *all = NULL;
    PyObject *handle = PyCapsule_New(trace, capsule_name, free_trace);
    bool good = ops && waits && handle;
    weir_trace_data d;

    weir_trace_get(trace, &d, sizeof d);
    for (size_t i = 0; good && i < d.nops; i++)
        good = append(ops, op_dict(&d, &d.ops[i]));
    for (size_t i = 0; good && i < d.nwaits; i++)
        good = append(waits, wait_tuple(&d, &d.waits[i]));
    if (good)
        all = Py_BuildValue("(OOKO)", ops, waits, (unsigned long long)d.dropped, handle);
    if (!handle)
        weir_trace_free(trace);
    Py_XDECREF(ops);
    Py_XDECREF(waits);
    Py_XDECREF(handle);
    return all;
}

static PyObject *trace_stop(PyObject *self, PyObject *none)
{
    weir_trace *trace;
    weir_status st;

    (void)self, (void)none;
    BLOCKING(st, weir_trace_stop(&trace));
    return st ? raise_status(st) : describe(trace);
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);

    return n >= m && !strcmp(path + n - m, end);
}

static PyObject *trace_write(PyObject *self, PyObject *args)
{
    const weir_trace *trace;
    PyObject *handle;
    const char *path;
    weir_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os:trace_write", &handle, &path) ||
        !(trace = PyCapsule_GetPointer(handle, capsule_name)))
        return NULL;
    if (!ends_with(path, ".html") && !ends_with(path, ".json")) {
        PyErr_Format(PyExc_ValueError, "a trace is written to .html or .json, not to '%s'", path);
        return NULL;
    }
    if (ends_with(path, ".html"))
        BLOCKING(st, weir_trace_write_html(&trace, NULL, 1, path));
    else
        BLOCKING(st, weir_trace_write_chrome(trace, path));
    return none_or(st);
}

static PyObject *trace_running(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return PyBool_FromLong(weir_trace_running());
}

PyMethodDef trace_functions[] = {
    {"trace_running", trace_running, METH_NOARGS, "trace_running() -> bool"},
    {"trace_start", trace_start, METH_NOARGS, "trace_start()"},
    {"trace_stop", trace_stop, METH_NOARGS, "trace_stop() -> (ops, waits, dropped, handle)"},
    {"trace_write", trace_write, METH_VARARGS, "trace_write(handle, path)"},
    {NULL, NULL, 0, NULL},
};
