/* weir.Stream and weir.Event. */
#include "weirpy.h"

PyTypeObject *StreamType, *EventType;

PyObject *wrap_stream(DeviceObject *device, weir_stream *stream, bool owned)
{
    StreamObject *s = (StreamObject *)object_new(StreamType);

    if (!s) {
        if (owned)
            weir_stream_destroy(stream);
        return NULL;
    }
    s->device = (DeviceObject *)Py_NewRef((PyObject *)device);
    s->stream = stream;
    s->owned = owned;
    return (PyObject *)s;
}

/* Returns the dict {Device id: Stream} that keeps this thread's current streams alive. */
static PyObject *kept_streams(void)
{
    PyObject *thread = PyThreadState_GetDict(), *kept;

    if (!thread)
        return NULL;
    if (!(kept = PyDict_GetItemString(thread, "weir.streams"))) {
        if (!(kept = PyDict_New()))
            return NULL;
        if (PyDict_SetItemString(thread, "weir.streams", kept)) {
            Py_DECREF(kept);
            return NULL;
        }
        Py_DECREF(kept); /* the thread's dict holds a reference */
    }
    return kept;
}

PyObject *current_stream(DeviceObject *device)
{
    weir_stream *now = weir_stream_current(device->dev);
    PyObject *kept = kept_streams(), *key = PyLong_FromVoidPtr(device), *s = NULL;

    if (kept && key)
        s = PyDict_GetItemWithError(kept, key);
    Py_XDECREF(key);
    if (PyErr_Occurred())
        return NULL;
    if (s && ((StreamObject *)s)->stream == now)
        return Py_NewRef(s);
    return wrap_stream(device, now, false);
}

static PyObject *set_current(PyObject *self, PyObject *none)
{
    StreamObject *s = (StreamObject *)self;
    PyObject *kept, *key;
    int failed;

    (void)none;
    if (!device_check(s->device) || !(kept = kept_streams()) ||
        !(key = PyLong_FromVoidPtr(s->device)))
        return NULL;
    /* The default stream lives as long as the device; a reference to it would keep that open. */
    if (s->stream != weir_stream_default(s->device->dev))
        failed = PyDict_SetItem(kept, key, self);
    else
        failed = PyDict_GetItemWithError(kept, key) ? PyDict_DelItem(kept, key) : 0;
    Py_DECREF(key);
    return failed ? NULL : none_or(weir_stream_set_current(s->stream));
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"priority", "name", "device", NULL};
    weir_stream_options options = {.size = sizeof options};
    PyObject *device = NULL, *made;
    weir_stream *stream;
    weir_status st;
    DeviceObject *d;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|izO:Stream", names, &options.priority,
                                     &options.name, &device) ||
        !(d = to_device(device)))
        return NULL;
    if ((st = weir_stream_create(d->dev, &options, &stream)))
        made = raise_status(st);
    else
        made = wrap_stream(d, stream, true);
    DROP(d);
    return made;
}

static void stream_dealloc(PyObject *self)
{
    StreamObject *s = (StreamObject *)self;

    if (s->owned && device_alive(s->device))
        weir_stream_destroy(s->stream);
    DROP(s->device);
    object_free(self);
}

static PyObject *stream_sync(PyObject *self, PyObject *none)
{
    StreamObject *s = (StreamObject *)self;
    weir_status st;

    (void)none;
    if (!device_check(s->device))
        return NULL;
    BLOCKING(st, weir_stream_sync(s->stream));
    return none_or(st);
}

static PyObject *stream_query(PyObject *self, PyObject *none)
{
    StreamObject *s = (StreamObject *)self;
    weir_status st;
    bool done;

    (void)none;
    if (!device_check(s->device))
        return NULL;
    if ((st = weir_stream_query(s->stream, &done)))
        return raise_status(st);
    return PyBool_FromLong(done);
}

static PyObject *stream_wait_event(PyObject *self, PyObject *o)
{
    StreamObject *s = (StreamObject *)self;

    if (!Py_IS_TYPE(o, EventType)) {
        PyErr_Format(PyExc_TypeError, "wait_event takes a weir.Event, not %R",
                     (PyObject *)Py_TYPE(o));
        return NULL;
    }
    if (!device_check(s->device) || !device_check(((EventObject *)o)->device))
        return NULL;
    return none_or(weir_stream_wait(s->stream, ((EventObject *)o)->event));
}

static PyObject *stream_wait_stream(PyObject *self, PyObject *o)
{
    StreamObject *s = (StreamObject *)self;

    if (!Py_IS_TYPE(o, StreamType)) {
        PyErr_Format(PyExc_TypeError, "wait_stream takes a weir.Stream, not %R",
                     (PyObject *)Py_TYPE(o));
        return NULL;
    }
    if (!device_check(s->device) || !device_check(((StreamObject *)o)->device))
        return NULL;
    return none_or(weir_stream_wait_stream(s->stream, ((StreamObject *)o)->stream));
}

static PyObject *stream_set_limit(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cube", "vector", NULL};
    StreamObject *s = (StreamObject *)self;
    weir_cores limit = {-1, -1};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ii:set_limit", names, &limit.cube,
                                     &limit.vector) ||
        !device_check(s->device))
        return NULL;
    return none_or(weir_stream_set_limit(s->stream, limit));
}

static PyObject *stream_get_limit(PyObject *self, PyObject *none)
{
    StreamObject *s = (StreamObject *)self;
    weir_cores limit;

    (void)none;
    if (!device_check(s->device))
        return NULL;
    limit = weir_stream_get_limit(s->stream);
    return Py_BuildValue("(ii)", limit.cube, limit.vector);
}

static PyObject *stream_reset_limit(PyObject *self, PyObject *none)
{
    StreamObject *s = (StreamObject *)self;

    (void)none;
    if (!device_check(s->device))
        return NULL;
    weir_stream_reset_limit(s->stream);
    Py_RETURN_NONE;
}

static PyObject *stream_get_device(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((StreamObject *)self)->device);
}

static PyObject *stream_get_id(PyObject *self, void *unused)
{
    StreamObject *s = (StreamObject *)self;

    (void)unused;
    return device_check(s->device) ? PyLong_FromUnsignedLongLong(weir_stream_id(s->stream)) : NULL;
}

static PyObject *stream_get_name(PyObject *self, void *unused)
{
    StreamObject *s = (StreamObject *)self;

    (void)unused;
    return device_check(s->device) ? PyUnicode_FromString(weir_stream_name(s->stream)) : NULL;
}

static PyObject *stream_get_priority(PyObject *self, void *unused)
{
    StreamObject *s = (StreamObject *)self;

    (void)unused;
    return device_check(s->device) ? PyLong_FromLong(weir_stream_priority(s->stream)) : NULL;
}

static PyObject *stream_compare(PyObject *a, PyObject *b, int op)
{
    bool same;

    if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, StreamType))
        Py_RETURN_NOTIMPLEMENTED;
    same = ((StreamObject *)a)->stream == ((StreamObject *)b)->stream &&
           ((StreamObject *)a)->device == ((StreamObject *)b)->device;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t stream_hash(PyObject *self)
{
    Py_hash_t h = (Py_hash_t)((uintptr_t)((StreamObject *)self)->stream >> 4);

    return h == -1 ? -2 : h;
}

static PyObject *stream_repr(PyObject *self)
{
    StreamObject *s = (StreamObject *)self;

    if (!device_alive(s->device))
        return PyUnicode_FromString("weir.Stream(of a closed device)");
    return PyUnicode_FromFormat(
        "weir.Stream('%s', id=%llu, device='%s')", weir_stream_name(s->stream),
        (unsigned long long)weir_stream_id(s->stream), weir_device_name(s->device->dev));
}

#define KEYWORDS(f) ((PyCFunction)(void (*)(void))(f)), METH_VARARGS | METH_KEYWORDS

static PyMethodDef stream_methods[] = {
    {"set_current", set_current, METH_NOARGS,
     "set_current()\n\nOperators of this thread go here from now on."},
    {"synchronize", stream_sync, METH_NOARGS, "synchronize()\n\nWaits for what is queued so far."},
    {"query", stream_query, METH_NOARGS, "query() -> bool\n\nWhether what is queued is done."},
    {"wait_event", stream_wait_event, METH_O,
     "wait_event(event)\n\nWork queued from now on runs after the event's mark."},
    {"wait_stream", stream_wait_stream, METH_O,
     "wait_stream(stream)\n\nWork queued from now on runs after the other stream's present work."},
    {"set_limit", KEYWORDS(stream_set_limit),
     "set_limit(cube=-1, vector=-1)\n\nCore limits of operators queued afterwards."},
    {"get_limit", stream_get_limit, METH_NOARGS, "get_limit() -> (cube, vector)"},
    {"reset_limit", stream_reset_limit, METH_NOARGS,
     "reset_limit()\n\nFalls back to the device's limits."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef stream_getset[] = {
    {"device", stream_get_device, NULL, "Its Device.", NULL},
    {"id", stream_get_id, NULL, "A number no other stream of the device has.", NULL},
    {"name", stream_get_name, NULL, "Its tag or name.", NULL},
    {"priority", stream_get_priority, NULL, "-8 (most urgent) to 7.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- events ---- */

static PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timing", "blocking", "device", NULL};
    weir_event_options options;
    int timing = 0, blocking = 0;
    PyObject *device = NULL;
    weir_status st;
    DeviceObject *d;
    EventObject *e;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ppO:Event", names, &timing, &blocking,
                                     &device) ||
        !(d = to_device(device)))
        return NULL;
    if (!(e = (EventObject *)object_new(type))) {
        DROP(d);
        return NULL;
    }
    e->device = d;
    options = (weir_event_options){.timing = timing, .blocking = blocking};
    if ((st = weir_event_create(d->dev, &options, &e->event))) {
        raise_status(st);
        DROP(e);
        return NULL;
    }
    return (PyObject *)e;
}

static void event_dealloc(PyObject *self)
{
    EventObject *e = (EventObject *)self;

    if (e->event && device_alive(e->device))
        weir_event_destroy(e->event);
    DROP(e->device);
    object_free(self);
}

/* Returns the stream of an optional argument, or the current stream. */
static weir_stream *stream_of(EventObject *e, PyObject *args, const char *format)
{
    PyObject *o = NULL;

    if (!PyArg_ParseTuple(args, format, &o) || !device_check(e->device))
        return NULL;
    if (is_absent(o))
        return weir_stream_current(e->device->dev);
    if (!Py_IS_TYPE(o, StreamType)) {
        PyErr_Format(PyExc_TypeError, "a stream is a weir.Stream or None, not %R",
                     (PyObject *)Py_TYPE(o));
        return NULL;
    }
    return device_check(((StreamObject *)o)->device) ? ((StreamObject *)o)->stream : NULL;
}

static PyObject *event_record(PyObject *self, PyObject *args)
{
    EventObject *e = (EventObject *)self;
    weir_stream *s = stream_of(e, args, "|O:record");

    return s ? none_or(weir_event_record(e->event, s)) : NULL;
}

static PyObject *event_wait(PyObject *self, PyObject *args)
{
    EventObject *e = (EventObject *)self;
    weir_stream *s = stream_of(e, args, "|O:wait");

    return s ? none_or(weir_stream_wait(s, e->event)) : NULL;
}

static PyObject *event_query(PyObject *self, PyObject *none)
{
    EventObject *e = (EventObject *)self;
    weir_status st;
    bool done;

    (void)none;
    if (!device_check(e->device))
        return NULL;
    if ((st = weir_event_query(e->event, &done)))
        return raise_status(st);
    return PyBool_FromLong(done);
}

static PyObject *event_sync(PyObject *self, PyObject *none)
{
    EventObject *e = (EventObject *)self;
    weir_status st;

    (void)none;
    if (!device_check(e->device))
        return NULL;
    BLOCKING(st, weir_event_sync(e->event));
    return none_or(st);
}

static PyObject *event_elapsed(PyObject *self, PyObject *end)
{
    EventObject *e = (EventObject *)self;
    weir_status st;
    double ms;

    if (!Py_IS_TYPE(end, EventType)) {
        PyErr_Format(PyExc_TypeError, "elapsed_time takes a weir.Event, not %R",
                     (PyObject *)Py_TYPE(end));
        return NULL;
    }
    if (!device_check(e->device) || !device_check(((EventObject *)end)->device))
        return NULL;
    BLOCKING(st, weir_event_elapsed(e->event, ((EventObject *)end)->event, &ms));
    return st ? raise_status(st) : PyFloat_FromDouble(ms);
}

static PyObject *event_get_device(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((EventObject *)self)->device);
}

static PyMethodDef event_methods[] = {
    {"record", event_record, METH_VARARGS,
     "record(stream=None)\n\nMarks the point after what is queued so far."},
    {"wait", event_wait, METH_VARARGS,
     "wait(stream=None)\n\nThe stream waits for the mark; does nothing before the first record."},
    {"query", event_query, METH_NOARGS, "query() -> bool\n\nWhether the mark has been passed."},
    {"synchronize", event_sync, METH_NOARGS, "synchronize()\n\nThe host waits for the mark."},
    {"elapsed_time", event_elapsed, METH_O,
     "elapsed_time(end) -> float\n\nMilliseconds of device time between two marks of events made "
     "with timing=True."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef event_getset[] = {
    {"device", event_get_device, NULL, "Its Device.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

bool add_stream_types(PyObject *module)
{
    PyType_Slot stream_slots[] = {
        {Py_tp_doc, "Stream(priority=0, name=None, device=None)\n\nAn in-order queue of work.\n\n"
                    ">>> s = weir.Stream()\n"
                    ">>> x = weir.tensor([1.0])\n"
                    ">>> s.wait_stream(weir.current_stream())\n"
                    ">>> with weir.stream(s):\n"
                    "...     y = x + 1\n"
                    ">>> y.item()\n2.0\n"},
        {Py_tp_new, stream_new},
        {Py_tp_dealloc, stream_dealloc},
        {Py_tp_repr, stream_repr},
        {Py_tp_richcompare, stream_compare},
        {Py_tp_hash, stream_hash},
        {Py_tp_methods, stream_methods},
        {Py_tp_getset, stream_getset},
        {0, NULL},
    };
    PyType_Spec stream_spec = {
        .name = "weir.Stream",
        .basicsize = sizeof(StreamObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = stream_slots,
    };
    PyType_Slot event_slots[] = {
        {Py_tp_doc, "Event(timing=False, blocking=False, device=None)\n\nA mark in a stream.\n\n"
                    ">>> start, end = weir.Event(timing=True), weir.Event(timing=True)\n"
                    ">>> start.record()\n"
                    ">>> y = weir.ones((64, 64)) @ weir.ones((64, 64))\n"
                    ">>> end.record()\n"
                    ">>> end.synchronize()\n"
                    ">>> start.elapsed_time(end) > 0\nTrue\n"},
        {Py_tp_new, event_new},
        {Py_tp_dealloc, event_dealloc},
        {Py_tp_methods, event_methods},
        {Py_tp_getset, event_getset},
        {0, NULL},
    };
    PyType_Spec event_spec = {
        .name = "weir.Event",
        .basicsize = sizeof(EventObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = event_slots,
    };

    StreamType = (PyTypeObject *)PyType_FromSpec(&stream_spec);
    EventType = (PyTypeObject *)PyType_FromSpec(&event_spec);
    return StreamType && EventType &&
           !PyModule_AddObjectRef(module, "Stream", (PyObject *)StreamType) &&
           !PyModule_AddObjectRef(module, "Event", (PyObject *)EventType);
}
