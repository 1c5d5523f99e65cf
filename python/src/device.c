/* weir.Device. */
#include "weirpy.h"

#include <string.h>

PyTypeObject *DeviceType;
static DeviceObject *default_object;
static DeviceObject *open_devices;

bool device_alive(const DeviceObject *d)
{
    return d->dev && d->forks == weirpy_forks;
}

bool device_check(const DeviceObject *d)
{
    if (device_alive(d))
        return true;
    PyErr_SetString(PyExc_RuntimeError,
                    d->dev ? "the device was opened before this process was forked, and its "
                             "threads are the parent's: open a device of your own here"
                           : "the device is closed");
    return false;
}

static DeviceObject *open_device(const char *spec)
{
    weir_device *dev;
    weir_status st;
    DeviceObject *d;

    BLOCKING(st, weir_device_open(spec, &dev));
    if (st)
        return (DeviceObject *)raise_status(st);
    if (!(d = (DeviceObject *)object_new(DeviceType))) {
        weir_device_close(dev);
        return NULL;
    }
    d->dev = dev;
    d->forks = weirpy_forks;
    d->link = &open_devices;
    if ((d->next = open_devices))
        open_devices->link = &d->next;
    open_devices = d;
    return d;
}

static void forget_device(DeviceObject *d)
{
    if (!d->link)
        return;
    if (d->next)
        d->next->link = d->link;
    *d->link = d->next;
    d->link = NULL;
}

DeviceObject *default_device(void)
{
    if (default_object && default_object->dev && default_object->forks != weirpy_forks)
        default_object = NULL; /* it belongs to the parent process: open a new one */
    if (!default_object || !default_object->dev) {
        DROP(default_object);
        default_object = open_device(NULL);
    }
    return (DeviceObject *)Py_XNewRef((PyObject *)default_object);
}

DeviceObject *to_device(PyObject *o)
{
    if (is_absent(o))
        return default_device();
    if (Py_IS_TYPE(o, DeviceType))
        return device_check((DeviceObject *)o) ? (DeviceObject *)Py_NewRef(o) : NULL;
    if (PyUnicode_Check(o)) {
        PyObject *spec = PyUnicode_AsUTF8String(o);
        DeviceObject *d = spec ? open_device(PyBytes_AsString(spec)) : NULL;

        Py_XDECREF(spec);
        return d;
    }
    PyErr_Format(PyExc_TypeError,
                 "a device is a weir.Device, a spec such as 'cpu', or None, not %R",
                 (PyObject *)Py_TYPE(o));
    return NULL;
}

/* ---- the type ---- */

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"spec", NULL};
    const char *spec = NULL;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z:Device", names, &spec))
        return NULL;
    return (PyObject *)open_device(spec);
}

static weir_status close_device(DeviceObject *d)
{
    weir_status st;

    BLOCKING(st, weir_device_close(d->dev));
    if (!st) {
        d->dev = NULL;
        forget_device(d);
    }
    return st;
}

static void device_dealloc(PyObject *self)
{
    DeviceObject *d = (DeviceObject *)self;

    if (device_alive(d)) {
        PyObject *kind, *value, *trace;

        /* If a DLPack consumer or a NumPy view holds memory, the device stays open. */
        PyErr_Fetch(&kind, &value, &trace);
        close_device(d);
        PyErr_Restore(kind, value, trace);
    }
    forget_device(d);
    object_free(self);
}

static PyObject *device_close(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;

    (void)none;
    if (!d->dev)
        Py_RETURN_NONE;
    if (!device_check(d))
        return NULL;
    return none_or(close_device(d));
}

static PyObject *device_enter(PyObject *self, PyObject *none)
{
    (void)none;
    return Py_NewRef(self);
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return device_close(self, NULL);
}

static PyObject *device_sync(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;
    weir_status st;

    (void)none;
    if (!device_check(d))
        return NULL;
    BLOCKING(st, weir_device_sync(d->dev));
    return none_or(st);
}

static PyObject *device_now(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;

    (void)none;
    return device_check(d) ? PyLong_FromUnsignedLongLong(weir_device_now(d->dev)) : NULL;
}

static PyObject *device_set_limit(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cube", "vector", NULL};
    DeviceObject *d = (DeviceObject *)self;
    weir_cores limit = {-1, -1};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ii:set_limit", names, &limit.cube,
                                     &limit.vector) ||
        !device_check(d))
        return NULL;
    return none_or(weir_device_set_limit(d->dev, limit));
}

static PyObject *device_get_limit(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;
    weir_cores limit;

    (void)none;
    if (!device_check(d))
        return NULL;
    limit = weir_device_get_limit(d->dev);
    return Py_BuildValue("(ii)", limit.cube, limit.vector);
}

static PyObject *device_props(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;
    weir_device_props p;

    (void)none;
    if (!device_check(d))
        return NULL;
    weir_device_get_props(d->dev, &p, sizeof p);
#define FLAG(bit) (p.features & WEIR_FEATURE_##bit ? Py_True : Py_False)
    return Py_BuildValue("{sssssisisisnsOsOsOsO}", "name", p.name, "model", p.model, "cube_cores",
                         p.cores.cube, "vector_cores", p.cores.vector, "threads", p.threads,
                         "memory_bytes", (Py_ssize_t)p.memory_bytes, "real_time", FLAG(REAL_TIME),
                         "split_cores", FLAG(SPLIT_CORES), "host_memory", FLAG(HOST_MEMORY),
                         "timing", FLAG(TIMING));
#undef FLAG
}

PyObject *device_dlpack(const DeviceObject *d)
{
    int32_t type, id;

    if (!device_check(d))
        return NULL;
    weir_device_dlpack(d->dev, &type, &id);
    return Py_BuildValue("(ii)", (int)type, (int)id);
}

static PyObject *device_get_dlpack(PyObject *self, void *unused)
{
    (void)unused;
    return device_dlpack((DeviceObject *)self);
}

static PyObject *device_stream(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tag", "priority", NULL};
    DeviceObject *d = (DeviceObject *)self;
    const char *tag;
    int priority = 0;
    weir_stream *s;
    weir_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|i:tagged_stream", names, &tag, &priority) ||
        !device_check(d))
        return NULL;
    if ((st = weir_stream_tagged(d->dev, tag, priority, &s)))
        return raise_status(st);
    return wrap_stream(d, s, false);
}

static PyObject *device_default_stream(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;

    (void)none;
    return device_check(d) ? wrap_stream(d, weir_stream_default(d->dev), false) : NULL;
}

static PyObject *device_communication_stream(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;
    weir_stream *s;
    weir_status st;

    (void)none;
    if (!device_check(d))
        return NULL;
    if ((st = weir_stream_communication(d->dev, &s)))
        return raise_status(st);
    return wrap_stream(d, s, false);
}

static PyObject *device_current_stream(PyObject *self, PyObject *none)
{
    DeviceObject *d = (DeviceObject *)self;

    (void)none;
    return device_check(d) ? current_stream(d) : NULL;
}

static PyObject *device_repr(PyObject *self)
{
    DeviceObject *d = (DeviceObject *)self;

    return d->dev ? PyUnicode_FromFormat("weir.Device('%s')", weir_device_name(d->dev))
                  : PyUnicode_FromString("weir.Device(closed)");
}

static PyObject *device_name(PyObject *self, void *unused)
{
    DeviceObject *d = (DeviceObject *)self;

    (void)unused;
    return device_check(d) ? PyUnicode_FromString(weir_device_name(d->dev)) : NULL;
}

static PyGetSetDef device_getset[] = {
    {"name", device_name, NULL, "The spec it was opened with.", NULL},
    {"dlpack_device", device_get_dlpack, NULL,
     "Where its tensors are, as DLPack numbers devices: (1, 0) the host, (2, i) GPU i.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define KEYWORDS(f) ((PyCFunction)(void (*)(void))(f)), METH_VARARGS | METH_KEYWORDS

static PyMethodDef device_methods[] = {
    {"close", device_close, METH_NOARGS,
     "close()\n\nWaits for all work and frees the device. Raises weir.BusyError if tensors or "
     "events are still held."},
    {"__enter__", device_enter, METH_NOARGS, NULL},
    {"__exit__", device_exit, METH_VARARGS, NULL},
    {"synchronize", device_sync, METH_NOARGS,
     "synchronize()\n\nWaits for everything queued on every stream."},
    {"now", device_now, METH_NOARGS,
     "now() -> int\n\nThe device's clock in nanoseconds; virtual time on modelled devices."},
    {"set_limit", KEYWORDS(device_set_limit),
     "set_limit(cube=-1, vector=-1)\n\nCore limits of streams without limits of their own; -1 "
     "keeps the present value."},
    {"get_limit", device_get_limit, METH_NOARGS, "get_limit() -> (cube, vector)"},
    {"properties", device_props, METH_NOARGS, "properties() -> dict"},
    {"tagged_stream", KEYWORDS(device_stream),
     "tagged_stream(tag, priority=0) -> Stream\n\nThe stream of that tag, made on first use."},
    {"default_stream", device_default_stream, METH_NOARGS, "default_stream() -> Stream"},
    {"communication_stream", device_communication_stream, METH_NOARGS,
     "communication_stream() -> Stream"},
    {"current_stream", device_current_stream, METH_NOARGS,
     "current_stream() -> Stream\n\nWhere operators of this thread go."},
    {NULL, NULL, 0, NULL},
};

static PyObject *get_device(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return (PyObject *)default_device();
}

static PyObject *set_device(PyObject *self, PyObject *o)
{
    DeviceObject *d = to_device(o), *old = default_object;

    (void)self;
    if (!d)
        return NULL;
    default_object = d;
    DROP(old);
    Py_RETURN_NONE;
}

/* Waits for work in flight, which may use memory that Python is about to free, and functions of
 * Python. */
static PyObject *finish(PyObject *self, PyObject *none)
{
    bool interrupted = false; /* Ctrl-C: stop waiting */

    (void)self, (void)none;
    for (DeviceObject *d = open_devices, *next; d && !interrupted; d = next) {
        weir_status st;

        Py_INCREF((PyObject *)d);
        if (device_alive(d))
            BLOCKING(st, weir_device_sync(d->dev));
        next = d->link ? d->next : NULL; /* NULL link: another thread has closed it */
        interrupted = PyErr_Occurred() != NULL;
        DROP(d);
    }
    weirpy_ending = true;
    if (interrupted)
        return NULL;
    log_deliver(NULL);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"finish", finish, METH_NOARGS,
     "finish()\n\nWaits for all devices when Python ends; ignores errors of work."},
    {"get_device", get_device, METH_NOARGS,
     "get_device() -> Device\n\nThe default device; opened on first use as $WEIR_DEVICE says.\n\n"
     ">>> weir.ones((1,)).device is weir.get_device()\nTrue\n"},
    {"set_device", set_device, METH_O,
     "set_device(device)\n\nMakes a Device, or the one a spec names, the default.\n\n"
     ">>> before = weir.get_device()\n"
     ">>> weir.set_device('npu:a3')\n"
     ">>> weir.get_device().properties()['cube_cores']\n24\n"
     ">>> weir.set_device(before)\n"},
    {NULL, NULL, 0, NULL},
};

bool add_device_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_doc, "Device(spec=None)\n\nA device of its own: 'cpu', 'cpu:cores=4', "
                    "'cpu:cube=24,vector=48', 'npu:a3', ...\n\n"
                    ">>> with weir.Device('cpu:cores=2') as dev:\n"
                    "...     x = weir.tensor([1.0, 2.0], device=dev)\n"
                    "...     print((x + 1).tolist())\n"
                    "...     del x\n[2.0, 3.0]\n"},
        {Py_tp_new, device_new},
        {Py_tp_dealloc, device_dealloc},
        {Py_tp_repr, device_repr},
        {Py_tp_methods, device_methods},
        {Py_tp_getset, device_getset},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.Device",
        .basicsize = sizeof(DeviceObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };

    DeviceType = (PyTypeObject *)PyType_FromSpec(&spec);
    return DeviceType && !PyModule_AddObjectRef(module, "Device", (PyObject *)DeviceType) &&
           !PyModule_AddFunctions(module, functions) &&
           !PyModule_AddFunctions(module, memory_methods);
}
