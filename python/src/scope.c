/* Scopes, tokens and tagged events. */
#include "weirpy.h"

static PyObject *push_stream(PyObject *self, PyObject *args)
{
    const char *tag;
    int priority = 0;

    (void)self;
    if (!PyArg_ParseTuple(args, "s|i:push_stream", &tag, &priority))
        return NULL;
    return none_or(weir_scope_push_stream(tag, priority));
}

static PyObject *push_cores(PyObject *self, PyObject *args)
{
    weir_cores limit;

    (void)self;
    if (!PyArg_ParseTuple(args, "ii:push_cores", &limit.cube, &limit.vector))
        return NULL;
    return none_or(weir_scope_push_cores(limit));
}

static PyObject *push_super_kernel(PyObject *self, PyObject *args)
{
    const char *name, *options = "";

    (void)self;
    if (!PyArg_ParseTuple(args, "z|s:push_super_kernel", &name, &options))
        return NULL;
    return none_or(weir_scope_push_super_kernel(name, options));
}

static PyObject *push_never_timeout(PyObject *self, PyObject *args)
{
    int enable = 1;

    (void)self;
    if (!PyArg_ParseTuple(args, "|p:push_never_timeout", &enable))
        return NULL;
    return none_or(weir_scope_push_never_timeout(enable));
}

#define POP(name, kind)                                         \
    static PyObject *pop_##name(PyObject *self, PyObject *none) \
    {                                                           \
        (void)self, (void)none;                                 \
        return none_or(weir_scope_pop(WEIR_SCOPE_##kind));      \
    }
POP(stream, STREAM)
POP(cores, CORES)
POP(super_kernel, SUPER_KERNEL)
POP(never_timeout, NEVER_TIMEOUT)

static PyObject *depth(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return PyLong_FromLong(weir_scope_depth());
}

/* ---- tokens ---- */

static PyObject *token_record(PyObject *self, PyObject *device)
{
    DeviceObject *d = to_device(device);
    PyObject *made;
    weir_tensor *t;
    weir_status st;

    (void)self;
    if (!d)
        return NULL;
    st = weir_token_record(d->dev, &t);
    made = st ? raise_status(st) : wrap_tensor(d, t);
    DROP(d);
    return made;
}

enum { MAX_TOKENS = 64 };

static PyObject *token_wait(PyObject *self, PyObject *list)
{
    Py_ssize_t n = PySequence_Size(list), got = 0;
    weir_tensor *tokens[MAX_TOKENS];
    weir_status st = WEIR_OK;

    (void)self;
    if (n < 0)
        return NULL;
    if (n > MAX_TOKENS) {
        PyErr_Format(PyExc_ValueError, "wait takes at most %d tokens, not %zd", MAX_TOKENS, n);
        return NULL;
    }
    for (; got < n; got++) {
        PyObject *item = PySequence_GetItem(list, got);
        bool good = item && to_tensor(item, "a token", &tokens[got]);

        if (good)
            weir_tensor_retain(tokens[got]);
        Py_XDECREF(item);
        if (!good)
            break;
    }
    if (got == n)
        st = weir_token_wait(tokens, (int)n);
    for (Py_ssize_t i = 0; i < got; i++)
        weir_tensor_release(tokens[i]);
    return got < n ? NULL : none_or(st);
}

#define TAGGED(name)                                                            \
    static PyObject *tagged_##name(PyObject *self, PyObject *args)              \
    {                                                                           \
        PyObject *device, *done;                                                \
        const char *tag;                                                        \
        DeviceObject *d;                                                        \
                                                                                \
        (void)self;                                                             \
        if (!PyArg_ParseTuple(args, "Os:tagged_event_" #name, &device, &tag) || \
            !(d = to_device(device)))                                           \
            return NULL;                                                        \
        done = none_or(weir_tagged_event_##name(d->dev, tag));                  \
        DROP(d);                                                                \
        return done;                                                            \
    }
TAGGED(create)
TAGGED(record)
TAGGED(wait)
TAGGED(destroy)

static PyObject *record_tagged_stream(PyObject *self, PyObject *args)
{
    PyObject *tensor;
    const char *tag;
    weir_tensor *t;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os:record_tagged_stream", &tensor, &tag) ||
        !to_tensor(tensor, "input", &t))
        return NULL;
    return none_or(weir_tensor_record_tagged_stream(t, tag));
}

PyMethodDef scope_functions[] = {
    {"push_stream", push_stream, METH_VARARGS, "push_stream(tag, priority=0)"},
    {"push_cores", push_cores, METH_VARARGS, "push_cores(cube, vector)"},
    {"push_super_kernel", push_super_kernel, METH_VARARGS, "push_super_kernel(name, options='')"},
    {"push_never_timeout", push_never_timeout, METH_VARARGS, "push_never_timeout(enable=True)"},
    {"pop_stream", pop_stream, METH_NOARGS, "pop_stream()"},
    {"pop_cores", pop_cores, METH_NOARGS, "pop_cores()"},
    {"pop_super_kernel", pop_super_kernel, METH_NOARGS, "pop_super_kernel()"},
    {"pop_never_timeout", pop_never_timeout, METH_NOARGS, "pop_never_timeout()"},
    {"scope_depth", depth, METH_NOARGS, "scope_depth() -> int"},
    {"token_record", token_record, METH_O, "token_record(device) -> Tensor"},
    {"token_wait", token_wait, METH_O, "token_wait(tokens)"},
    {"tagged_event_create", tagged_create, METH_VARARGS, "tagged_event_create(device, tag)"},
    {"tagged_event_record", tagged_record, METH_VARARGS, "tagged_event_record(device, tag)"},
    {"tagged_event_wait", tagged_wait, METH_VARARGS, "tagged_event_wait(device, tag)"},
    {"tagged_event_destroy", tagged_destroy, METH_VARARGS, "tagged_event_destroy(device, tag)"},
    {"record_tagged_stream", record_tagged_stream, METH_VARARGS,
     "record_tagged_stream(tensor, tag)"},
    {NULL, NULL, 0, NULL},
};
