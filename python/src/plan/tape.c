/* weir._C.Tape: the state that plans share in a CUDA graph that PyTorch captures. */
#include "weirpy.h"

PyTypeObject *TapeType;

static PyObject *tape_new(PyObject *self, PyObject *o)
{
    DeviceObject *d = (DeviceObject *)o;
    TapeObject *t;
    weir_status st;

    (void)self;
    if (!Py_IS_TYPE(o, DeviceType)) {
        PyErr_Format(PyExc_TypeError, "tape takes a weir.Device, not %R", (PyObject *)Py_TYPE(o));
        return NULL;
    }
    if (!device_check(d) || !(t = object_new(TapeType)))
        return NULL;
    t->device = (DeviceObject *)Py_NewRef(o);
    if (!(t->plans = PyList_New(0))) {
        DROP(t);
        return NULL;
    }
    if ((st = weir_tape_create(d->dev, &t->tape))) {
        DROP(t);
        return raise_status(st);
    }
    return (PyObject *)t;
}

static void tape_dealloc(PyObject *self)
{
    TapeObject *t = (TapeObject *)self;

    if (t->tape && device_alive(t->device)) {
        Py_BEGIN_ALLOW_THREADS /* it waits for the last launch */
            weir_tape_destroy(t->tape);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(t->plans);
    DROP(t->device);
    object_free(self);
}

typedef weir_status (*around_fn)(weir_tape *tape, weir_stream *stream, void *native);

static PyObject *around(PyObject *self, PyObject *native, around_fn fn)
{
    TapeObject *t = (TapeObject *)self;
    void *handle = PyLong_AsVoidPtr(native);

    if (PyErr_Occurred() || !device_check(t->device))
        return NULL;
    return none_or(fn(t->tape, weir_stream_current(t->device->dev), handle));
}

static PyObject *tape_begin(PyObject *self, PyObject *native)
{
    return around(self, native, weir_tape_begin);
}

static PyObject *tape_end(PyObject *self, PyObject *native)
{
    return around(self, native, weir_tape_end);
}

/* ---- addresses of arguments ---- */

static PyObject *addresses(PyObject *self, PyObject *args)
{
    PyObject *objects, *indexes, *found;
    Py_ssize_t n;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO!:addresses", &objects, &PyTuple_Type, &indexes))
        return NULL;
    n = PyTuple_Size(indexes);
    if (!(found = PyTuple_New(n)))
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GetItem(indexes, i));
        PyObject *object = PyErr_Occurred() ? NULL : PySequence_GetItem(objects, at), *number;
        void *address;
        bool good = object && address_of(object, &address);

        Py_XDECREF(object);
        if (!good || !(number = PyLong_FromVoidPtr(address)) || PyTuple_SetItem(found, i, number)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

PyMethodDef tape_functions[] = {
    {"tape", tape_new, METH_O, "tape(device) -> Tape"},
    {"addresses", addresses, METH_VARARGS,
     "addresses(objects, indexes) -> tuple\n\nThe data_ptr() of each of them."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef tape_methods[] = {
    {"begin", tape_begin, METH_O, "begin(native)\n\nBefore a launch of the graph there."},
    {"end", tape_end, METH_O, "end(native)\n\nAfter it."},
    {NULL, NULL, 0, NULL},
};

bool add_tape_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_doc, "Runs of plans in a CUDA graph that another library captures."},
        {Py_tp_dealloc, tape_dealloc},
        {Py_tp_methods, tape_methods},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir._C.Tape",
        .basicsize = sizeof(TapeObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    TapeType = (PyTypeObject *)PyType_FromSpec(&spec);
    return TapeType && !PyModule_AddObjectRef(module, "Tape", (PyObject *)TapeType);
}
