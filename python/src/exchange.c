/* Shares memory with other libraries: the buffer protocol (NumPy), and DLPack (PyTorch and
 * others). */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

/* The buffer protocol has no letter for bfloat16. */
static const char *const formats[WEIR_DTYPE_COUNT] = {
    [WEIR_F32] = "f", [WEIR_F16] = "e", [WEIR_F64] = "d", [WEIR_I64] = "q",
    [WEIR_I32] = "i", [WEIR_I8] = "b",  [WEIR_U8] = "B",  [WEIR_BOOL] = "?",
};

static bool has_host_memory(weir_device *dev)
{
    weir_device_props p;

    weir_device_get_props(dev, &p, sizeof p);
    return p.features & WEIR_FEATURE_HOST_MEMORY;
}

/* ---- out, as a buffer ---- */

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    TensorObject *t = (TensorObject *)self;
    weir_dtype dtype = weir_tensor_dtype(t->tensor);
    Py_ssize_t size = (Py_ssize_t)weir_dtype_size(dtype), *dims;
    int ndim = weir_tensor_ndim(t->tensor);
    weir_status st;

    view->obj = NULL;
    if (!device_check(t->device))
        return -1;
    if (!formats[dtype] || !has_host_memory(t->device->dev)) {
        PyErr_SetString(PyExc_BufferError,
                        formats[dtype] ? "the device has no host memory; use tolist() or numpy()"
                                       : "a buffer cannot hold bfloat16; convert with "
                                         ".to(weir.float32) first");
        return -1;
    }
    if (!weir_tensor_is_contiguous(t->tensor) && !(flags & PyBUF_STRIDES)) {
        PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
        return -1;
    }
    BLOCKING(st, weir_tensor_sync(t->tensor));
    if (st) {
        raise_status(st);
        return -1;
    }
    if (!(dims = malloc((2 * (size_t)ndim + 1) * sizeof *dims))) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < ndim; i++) {
        dims[i] = (Py_ssize_t)weir_tensor_shape(t->tensor)[i];
        dims[ndim + i] = (Py_ssize_t)weir_tensor_strides(t->tensor)[i] * size;
    }
    *view = (Py_buffer){
        .buf = weir_tensor_data(t->tensor),
        .obj = Py_NewRef(self),
        .len = (Py_ssize_t)weir_tensor_numel(t->tensor) * size,
        .itemsize = size,
        .ndim = ndim,
        .format = flags & PyBUF_FORMAT ? (char *)formats[dtype] : NULL,
        .shape = flags & PyBUF_ND ? dims : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims + ndim : NULL,
        .internal = dims,
    };
    return 0;
}

void tensor_releasebuffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    free(view->internal);
}

/* ---- in, from a buffer ---- */

static bool dtype_of_format(const char *format, Py_ssize_t itemsize, weir_dtype *out)
{
    const char *f =
        format && (*format == '@' || *format == '=' || *format == '<') ? format + 1 : format;

    if (f && *f == 'l' && !f[1]) {
        *out = itemsize == 8 ? WEIR_I64 : WEIR_I32;
        return true;
    }
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        if (formats[t] && f && !strcmp(formats[t], f) &&
            (Py_ssize_t)weir_dtype_size((weir_dtype)t) == itemsize) {
            *out = (weir_dtype)t;
            return true;
        }
    PyErr_Format(PyExc_TypeError, "a buffer of format '%s' is not one of weir's data types",
                 format ? format : "B");
    return false;
}

static void release_buffer_capsule(PyObject *capsule)
{
    Py_buffer *view = PyCapsule_GetPointer(capsule, NULL);

    PyBuffer_Release(view);
    free(view);
}

static void drop_owner(void *user)
{
    drop_later(user);
}

/* Wraps the buffer's memory in a tensor; the capsule `owner` releases the buffer. */
static PyObject *wrap_buffer(DeviceObject *d, const Py_buffer *view, weir_dtype dtype,
                             PyObject *owner)
{
    int64_t shape[WEIR_MAX_DIMS], strides[WEIR_MAX_DIMS];
    weir_tensor *t;
    weir_status st;

    for (int i = 0; i < view->ndim; i++) {
        shape[i] = view->shape[i];
        strides[i] = view->strides ? view->strides[i] / view->itemsize : 0;
        if (view->strides && (view->strides[i] % view->itemsize || view->strides[i] < 0)) {
            PyErr_Format(PyExc_ValueError,
                         "a buffer with strides of %zd bytes cannot be shared; copy it first",
                         view->strides[i]);
            return NULL;
        }
    }
    st = weir_tensor_wrap(weir_stream_current(d->dev), dtype, view->ndim, shape,
                          view->strides ? strides : NULL, view->buf, drop_owner, owner, &t);
    if (st)
        return raise_status(st);
    Py_INCREF(owner); /* the tensor holds this reference until drop_owner */
    return wrap_tensor(d, t);
}

static PyObject *copy_buffer(DeviceObject *d, const Py_buffer *view, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    char *packed = NULL;
    weir_tensor *t;
    weir_status st;

    for (int i = 0; i < view->ndim; i++)
        shape[i] = view->shape[i];
    if (!PyBuffer_IsContiguous(view, 'C')) {
        if (!(packed = malloc((size_t)view->len + 1)))
            return PyErr_NoMemory();
        if (PyBuffer_ToContiguous(packed, view, view->len, 'C')) {
            free(packed);
            return NULL;
        }
    }
    BLOCKING(st, weir_tensor_from(weir_stream_current(d->dev), dtype, view->ndim, shape,
                                  packed ? packed : view->buf, &t));
    free(packed);
    return st ? raise_status(st) : wrap_tensor(d, t);
}

/* from_buffer(object, device, copy) */
static PyObject *from_buffer(PyObject *self, PyObject *args)
{
    PyObject *object, *device, *capsule, *made = NULL;
    DeviceObject *d = NULL;
    weir_dtype dtype;
    Py_buffer *view;
    int copy;

    (void)self;
    if (!PyArg_ParseTuple(args, "OOp:from_buffer", &object, &device, &copy))
        return NULL;
    if (!(view = malloc(sizeof *view)))
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, view, copy ? PyBUF_FULL_RO : PyBUF_RECORDS)) {
        free(view);
        return NULL;
    }
    if (!(capsule = PyCapsule_New(view, NULL, release_buffer_capsule))) {
        PyBuffer_Release(view);
        free(view);
        return NULL;
    }
    if (view->ndim > WEIR_MAX_DIMS)
        PyErr_Format(PyExc_ValueError, "a tensor has at most %d dims, the buffer %d", WEIR_MAX_DIMS,
                     view->ndim);
    else if (dtype_of_format(view->format, view->itemsize, &dtype) && (d = to_device(device)))
        made = copy ? copy_buffer(d, view, dtype) : wrap_buffer(d, view, dtype, capsule);
    DROP(d);
    Py_DECREF(capsule);
    return made;
}

/* ---- DLPack ---- */

static const char legacy_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* from_dlpack(capsule, device): takes ownership of the capsule's tensor. */
static PyObject *from_dlpack(PyObject *self, PyObject *args)
{
    PyObject *capsule, *device;
    bool versioned;
    weir_tensor *t;
    weir_stream *s;
    DeviceObject *d;
    weir_status st;
    void *managed;

    (void)self;
    if (!PyArg_ParseTuple(args, "OO:from_dlpack", &capsule, &device))
        return NULL;
    versioned = PyCapsule_IsValid(capsule, versioned_name);
    if (!versioned && !PyCapsule_IsValid(capsule, legacy_name)) {
        PyErr_SetString(PyExc_TypeError, "not a DLPack capsule, or one that was used before");
        return NULL;
    }
    managed = PyCapsule_GetPointer(capsule, versioned ? versioned_name : legacy_name);
    if (!managed || !(d = to_device(device)))
        return NULL;
    s = weir_stream_current(d->dev);
    st = versioned ? weir_tensor_from_dlpack_versioned(s, managed, &t)
                   : weir_tensor_from_dlpack(s, managed, &t);
    if (st)
        raise_status(st);
    else
        PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    PyObject *made = st ? NULL : wrap_tensor(d, t);

    DROP(d);
    return made;
}

/* The two managed structs have different layouts; only their deleters are used here. */
struct legacy {
    char tensor[48]; /* DLTensor */
    void *context;
    void (*deleter)(struct legacy *);
};
struct versioned {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct versioned *);
};

static void free_legacy(PyObject *capsule)
{
    struct legacy *m;

    if (!PyCapsule_IsValid(capsule, legacy_name))
        return; /* a consumer owns it now */
    m = PyCapsule_GetPointer(capsule, legacy_name);
    m->deleter(m);
}

static void free_versioned(PyObject *capsule)
{
    struct versioned *m;

    if (!PyCapsule_IsValid(capsule, versioned_name))
        return;
    m = PyCapsule_GetPointer(capsule, versioned_name);
    m->deleter(m);
}

/* True if the consumer asked for DLPack 1.0 or later: max_version=(major, minor). */
static bool wants_versioned(PyObject *o)
{
    PyObject *first = is_absent(o) ? NULL : PySequence_GetItem(o, 0);
    long major = first ? PyLong_AsLong(first) : 0;

    Py_XDECREF(first);
    PyErr_Clear();
    return major >= 1;
}

/* Makes the values visible to the consumer: waits for them on the host, or orders the device's
 * stream that the consumer named after them. None means the default stream, -1 no ordering. */
static weir_status publish(DeviceObject *d, weir_tensor *t, PyObject *stream)
{
    int64_t native = 0;
    weir_status st;

    if (has_host_memory(d->dev)) {
        BLOCKING(st, weir_tensor_sync(t));
        return st;
    }
    if (!is_absent(stream) && !to_int64(stream, "stream", &native))
        return WEIR_EINVAL;
    return native == -1 ? WEIR_OK : weir_tensor_signal_native(t, (void *)(uintptr_t)native);
}

/* Checks dl_device=(type, id): if given, it must be the tensor's own device. */
static bool check_dl_device(const weir_device *dev, PyObject *o)
{
    int wanted[2];
    int32_t own[2];

    if (is_absent(o))
        return true;
    weir_device_dlpack(dev, &own[0], &own[1]);
    if (!PyTuple_Check(o) || !PyArg_ParseTuple(o, "ii", &wanted[0], &wanted[1]))
        return false;
    if (wanted[0] == own[0] && wanted[1] == own[1])
        return true;
    PyErr_Format(PyExc_BufferError,
                 "the tensor is on DLPack device (%d, %d), not (%d, %d): copy it there first",
                 (int)own[0], (int)own[1], wanted[0], wanted[1]);
    return false;
}

static PyObject *to_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    static const char *const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    TensorObject *t = (TensorObject *)self;
    PyObject *slots[MAX_SLOTS], *capsule;
    weir_tensor *source;
    bool versioned, copy = false;
    void *managed;
    weir_status st;

    if (!parse_args("__dlpack__", names, 0, args, nargs, kwnames, slots) ||
        !device_check(t->device) || !check_dl_device(t->device->dev, slots[2]))
        return NULL;
    versioned = wants_versioned(slots[1]);
    if (!is_absent(slots[3]) && !optional_bool(slots[3], &copy))
        return NULL;
    source = weir_tensor_retain(t->tensor);
    if (copy) {
        weir_tensor_release(source);
        QUEUE(st, weir_copy(t->tensor, &source));
        if (st)
            return raise_status(st);
    }
    st = publish(t->device, source, slots[0]);
    if (!st)
        st = versioned ? weir_tensor_to_dlpack_versioned(source, &managed)
                       : weir_tensor_to_dlpack(source, &managed);
    weir_tensor_release(source);
    if (st)
        return raise_status(st);
    capsule = PyCapsule_New(managed, versioned ? versioned_name : legacy_name,
                            versioned ? free_versioned : free_legacy);
    if (!capsule && versioned)
        ((struct versioned *)managed)->deleter(managed);
    else if (!capsule)
        ((struct legacy *)managed)->deleter(managed);
    return capsule;
}

static PyObject *dlpack_device(PyObject *self, PyObject *none)
{
    DeviceObject *d = ((TensorObject *)self)->device;

    (void)none;
    return device_dlpack(d);
}

/* ---- values to and from the host ---- */

static PyObject *read_into(PyObject *self, PyObject *target)
{
    TensorObject *t = (TensorObject *)self;
    Py_buffer view;
    weir_status st;

    if (!device_check(t->device) || PyObject_GetBuffer(target, &view, PyBUF_WRITABLE))
        return NULL;
    BLOCKING(st, weir_tensor_read(t->tensor, view.buf, (size_t)view.len));
    if (st != WEIR_ETIMEDOUT) /* after a timeout the copy is still pending and needs the memory */
        PyBuffer_Release(&view);
    return none_or(st);
}

static PyObject *write_from(PyObject *self, PyObject *source)
{
    TensorObject *t = (TensorObject *)self;
    Py_buffer view;
    weir_status st;

    if (!device_check(t->device) || PyObject_GetBuffer(source, &view, PyBUF_SIMPLE))
        return NULL;
    BLOCKING(st, weir_tensor_write(t->tensor, view.buf, (size_t)view.len));
    PyBuffer_Release(&view);
    return st ? raise_status(st) : Py_NewRef(self);
}

PyMethodDef exchange_functions[] = {
    {"from_buffer", from_buffer, METH_VARARGS, "from_buffer(object, device, copy) -> Tensor"},
    {"from_capsule", from_dlpack, METH_VARARGS, "from_capsule(capsule, device) -> Tensor"},
    {NULL, NULL, 0, NULL},
};

PyMethodDef exchange_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n\nThe tensor as a "
     "DLPack capsule, sharing its memory. Waits for its values; on cuda the stream waits."},
    {"read_into", read_into, METH_O,
     "read_into(buffer)\n\nCopies the values to contiguous writable memory of the same size, such "
     "as "
     "a bytearray; waits for them."},
    {"write_from", write_from, METH_O,
     "write_from(buffer) -> Tensor\n\nCopies contiguous memory of the same size, such as bytes, to "
     "the tensor, in order with the current stream; the buffer may change afterwards."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "__dlpack_device__() -> (type, id)"},
    {NULL, NULL, 0, NULL},
};
