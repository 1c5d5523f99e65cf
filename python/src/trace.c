/* Recordings of what ran where and when. */
#include "weirpy.h"

static PyObject *trace_start(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return none_or(weir_trace_start(NULL));
}

static PyObject *op_dict(const weir_trace_data *d, const weir_trace_op *op)
{
    const weir_trace_stream *s = &d->streams[op->stream];

    return Py_BuildValue("{sssssssssKsIsIsdsdsdsO}", "name", op->name, "scope", op->scope, "stream",
                         s->name, "engine", weir_engine_name(op->engine), "seq",
                         (unsigned long long)op->seq, "blocks", op->blocks, "cores", op->cores,
                         "queued_us", (double)op->queued_ns / 1e3, "start_us",
                         (double)op->started_ns / 1e3, "end_us", (double)op->ended_ns / 1e3,
                         "failed", op->failed ? Py_True : Py_False);
}

/* [(stream, source stream, index of the first op behind it or None, of the last before)] */
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

static PyObject *trace_stop(PyObject *self, PyObject *none)
{
    PyObject *ops = PyList_New(0), *waits = PyList_New(0), *both = NULL;
    bool good = ops && waits;
    weir_trace *trace;
    weir_trace_data d;
    weir_status st;

    (void)self, (void)none;
    BLOCKING(st, weir_trace_stop(&trace));
    if (st) {
        Py_XDECREF(ops);
        Py_XDECREF(waits);
        return raise_status(st);
    }
    weir_trace_get(trace, &d);
    for (size_t i = 0; good && i < d.nops; i++)
        good = append(ops, op_dict(&d, &d.ops[i]));
    for (size_t i = 0; good && i < d.nwaits; i++)
        good = append(waits, wait_tuple(&d, &d.waits[i]));
    if (good)
        both = Py_BuildValue("(OOK)", ops, waits, (unsigned long long)d.dropped);
    Py_XDECREF(ops);
    Py_XDECREF(waits);
    weir_trace_free(trace);
    return both;
}

PyMethodDef trace_functions[] = {
    {"trace_start", trace_start, METH_NOARGS, "trace_start()"},
    {"trace_stop", trace_stop, METH_NOARGS, "trace_stop() -> (ops, waits, dropped)"},
    {NULL, NULL, 0, NULL},
};
