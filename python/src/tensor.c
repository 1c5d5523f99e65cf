/* weir.Tensor: its properties, and reading its values. */
#include "ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *TensorType;
static allocfunc tensor_alloc;
static freefunc tensor_free;

PyObject *wrap_tensor(DeviceObject *device, weir_tensor *tensor)
{
    TensorObject *t = (TensorObject *)tensor_alloc(TensorType, 0);

    if (!t) {
        weir_tensor_release(tensor);
        return NULL;
    }
    Py_INCREF((PyObject *)device);
    t->device = device;
    t->tensor = tensor;
    return (PyObject *)t;
}

bool to_tensor(PyObject *o, const char *what, weir_tensor **out)
{
    if (!Py_IS_TYPE(o, TensorType)) {
        PyErr_Format(PyExc_TypeError, "%s must be a weir.Tensor, not %R", what,
                     (PyObject *)Py_TYPE(o));
        return false;
    }
    *out = ((TensorObject *)o)->tensor;
    return device_check(((TensorObject *)o)->device);
}

weir_tensor *scalar_tensor(weir_device *dev, weir_dtype dtype, double value)
{
    weir_tensor *t;
    weir_status st;

    QUEUE(st, weir_tensor_empty(weir_stream_current(dev), dtype, 0, NULL, &t));
    if (!st) {
        QUEUE(st, weir_fill(t, value));
        if (st)
            weir_tensor_release(t);
    }
    if (!st)
        return t;
    raise_status(st);
    return NULL;
}

static void tensor_dealloc(PyObject *self)
{
    TensorObject *t = (TensorObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    DeviceObject *device = t->device;

    if (device_alive(device))
        weir_tensor_release(t->tensor);
    tensor_free(self);
    Py_DECREF((PyObject *)device);
    Py_DECREF((PyObject *)type);
}

/* ---- properties ---- */

#define HANDLE(self) (((TensorObject *)(self))->tensor)

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    return dims_tuple(weir_tensor_shape(HANDLE(self)), weir_tensor_ndim(HANDLE(self)));
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    (void)unused;
    return dims_tuple(weir_tensor_strides(HANDLE(self)), weir_tensor_ndim(HANDLE(self)));
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(weir_tensor_ndim(HANDLE(self)));
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(weir_tensor_numel(HANDLE(self)));
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(weir_tensor_numel(HANDLE(self)) *
                               (int64_t)weir_dtype_size(weir_tensor_dtype(HANDLE(self))));
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return dtype_object(weir_tensor_dtype(HANDLE(self)));
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((TensorObject *)self)->device);
}

static PyObject *get_is_contiguous(PyObject *self, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(weir_tensor_is_contiguous(HANDLE(self)));
}

static PyObject *get_data_ptr(PyObject *self, PyObject *none)
{
    (void)none;
    return PyLong_FromVoidPtr(weir_tensor_data(HANDLE(self)));
}

/* ---- reading ---- */

static PyObject *tensor_sync(PyObject *self, PyObject *none)
{
    weir_status st;

    (void)none;
    if (!device_check(((TensorObject *)self)->device))
        return NULL;
    BLOCKING(st, weir_tensor_sync(HANDLE(self)));
    return none_or(st);
}

static PyObject *graph_value_repr(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL), *text;

    text = shape ? PyUnicode_FromFormat("weir.Tensor(%s %S, of a graph)",
                                        weir_dtype_name(weir_tensor_dtype(HANDLE(self))), shape)
                 : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyObject *tensor_repr(PyObject *self)
{
    weir_status st;
    PyObject *repr;
    char *text;

    if (!device_check(((TensorObject *)self)->device))
        return NULL;
    /* A tensor of a graph has no values to show. */
    if (!weir_tensor_data(HANDLE(self)) || weir_graph_current())
        return graph_value_repr(self);
    BLOCKING(st, weir_tensor_sync(HANDLE(self)));
    if (st)
        return raise_status(st);
    Py_BEGIN_ALLOW_THREADS text = weir_tensor_format(HANDLE(self));
    Py_END_ALLOW_THREADS if (!text) return raise_status(WEIR_EINTERNAL);
    repr = PyUnicode_FromFormat("weir.Tensor(%s)", text);
    free(text);
    return repr;
}

/* Reads the only element, which has at most 8 bytes. */
static bool read_element(PyObject *self, const char *what, void *out)
{
    weir_tensor *t = HANDLE(self);
    weir_status st;

    if (!device_check(((TensorObject *)self)->device))
        return false;
    if (weir_tensor_numel(t) != 1) {
        PyErr_Format(PyExc_ValueError, "%s: a tensor of %lld elements is not one value", what,
                     (long long)weir_tensor_numel(t));
        return false;
    }
    BLOCKING(st, weir_tensor_sync(t));
    if (!st)
        BLOCKING(st, weir_tensor_read(t, out, weir_dtype_size(weir_tensor_dtype(t))));
    if (st)
        raise_status(st);
    return !st;
}

/* Converts a float of 16 bits, of which the last `digits` are the fraction. */
static double half_value(uint16_t bits, int digits)
{
    int top = (1 << (15 - digits)) - 1; /* the exponent of infinities and NaN */
    int exponent = bits >> digits & top;
    double fraction = ldexp(bits & ((1 << digits) - 1), -digits), value;

    if (exponent == top)
        value = fraction ? NAN : INFINITY;
    else
        value = exponent ? ldexp(1 + fraction, exponent - top / 2) : ldexp(fraction, 1 - top / 2);
    return bits & 0x8000 ? -value : value;
}

static PyObject *tensor_item(PyObject *self, PyObject *none)
{
    weir_dtype dtype = weir_tensor_dtype(HANDLE(self));
    union {
        float f;
        double d;
        int64_t l;
        int32_t i;
        uint16_t h;
        int8_t b;
        uint8_t u;
    } v;

    (void)none;
    if (!read_element(self, "item", &v))
        return NULL;
    switch (dtype) {
    case WEIR_F16:
        return PyFloat_FromDouble(half_value(v.h, 10));
    case WEIR_BF16:
        return PyFloat_FromDouble(half_value(v.h, 7));
    case WEIR_F32:
        return PyFloat_FromDouble((double)v.f);
    case WEIR_F64:
        return PyFloat_FromDouble(v.d);
    case WEIR_I64:
        return PyLong_FromLongLong(v.l);
    case WEIR_I32:
        return PyLong_FromLong(v.i);
    case WEIR_I8:
        return PyLong_FromLong(v.b);
    case WEIR_BOOL:
        return PyBool_FromLong(v.u);
    default:
        return PyLong_FromLong(v.u);
    }
}

static PyObject *number_float(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL), *f = item ? PyNumber_Float(item) : NULL;

    Py_XDECREF(item);
    return f;
}

static PyObject *number_int(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL), *i = item ? PyNumber_Long(item) : NULL;

    Py_XDECREF(item);
    return i;
}

/* Fails for floats: an index must be an integer, so that a[0.5] is an error. */
static PyObject *number_index(PyObject *self)
{
    if (weir_dtype_is_float(weir_tensor_dtype(HANDLE(self)))) {
        PyErr_SetString(PyExc_TypeError, "only an integer tensor of one element is an index");
        return NULL;
    }
    return number_int(self);
}

static int number_bool(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL);
    int truth = item ? PyObject_IsTrue(item) : -1;

    Py_XDECREF(item);
    return truth;
}

static Py_ssize_t tensor_length(PyObject *self)
{
    if (weir_tensor_ndim(HANDLE(self)))
        return (Py_ssize_t)weir_tensor_shape(HANDLE(self))[0];
    PyErr_SetString(PyExc_TypeError, "a 0-d tensor has no len()");
    return -1;
}

static Py_hash_t tensor_hash(PyObject *self)
{
    Py_hash_t h = (Py_hash_t)((uintptr_t)self >> 4);

    return h == -1 ? -2 : h;
}

/* ---- order ---- */

static PyObject *used_on(PyObject *self, PyObject *o)
{
    if (!Py_IS_TYPE(o, StreamType)) {
        PyErr_Format(PyExc_TypeError, "record_stream takes a weir.Stream, not %R",
                     (PyObject *)Py_TYPE(o));
        return NULL;
    }
    if (!device_check(((TensorObject *)self)->device) || !device_check(((StreamObject *)o)->device))
        return NULL;
    return none_or(weir_tensor_used_on(HANDLE(self), ((StreamObject *)o)->stream));
}

/* ---- the type ---- */

#define NUMBER(name, which)                                  \
    static PyObject *number_##name(PyObject *a, PyObject *b) \
    {                                                        \
        return op_number(which, a, b);                       \
    }
NUMBER(add, NUMBER_ADD)
NUMBER(sub, NUMBER_SUB)
NUMBER(mul, NUMBER_MUL)
NUMBER(div, NUMBER_DIV)
NUMBER(and, NUMBER_AND)
NUMBER(or, NUMBER_OR)
NUMBER(xor, NUMBER_XOR)
NUMBER(left, NUMBER_LEFT)
NUMBER(right, NUMBER_RIGHT)
NUMBER(matmul, NUMBER_MATMUL)

static PyObject *number_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) {
        PyErr_SetString(PyExc_TypeError, "a tensor's power takes no modulus");
        return NULL;
    }
    return op_number(NUMBER_POW, a, b);
}

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "Sizes, as a tuple.", NULL},
    {"strides", get_strides, NULL, "Steps between elements of each dim, in elements.", NULL},
    {"ndim", get_ndim, NULL, "How many dims.", NULL},
    {"size", get_size, NULL, "How many elements.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"dtype", get_dtype, NULL, "The type of its elements.", NULL},
    {"device", get_device, NULL, "Its Device.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef tensor_methods[] = {
    {"is_contiguous", get_is_contiguous, METH_NOARGS, "is_contiguous() -> bool"},
    {"data_ptr", get_data_ptr, METH_NOARGS,
     "data_ptr() -> int\n\nThe first element's address on the device."},
    {"synchronize", tensor_sync, METH_NOARGS,
     "synchronize()\n\nWaits until every queued use of its bytes, on any stream, has completed."},
    {"item", tensor_item, METH_NOARGS,
     "item() -> int | float | bool\n\nThe value of a tensor of one element; waits for it.\n\n"
     ">>> weir.tensor([2.5]).item()\n2.5\n"},
    {"record_stream", used_on, METH_O,
     "record_stream(stream)\n\nDeclares that work outside of weir uses the bytes on that stream."},
    {NULL, NULL, 0, NULL},
};

bool add_tensor_type(PyObject *module)
{
    static PyMethodDef all[160];
    PyMethodDef *const tables[] = {tensor_methods, exchange_methods, op_methods, NULL};
    PyMethodDef *methods = join_methods(all, sizeof all / sizeof *all, tables);
    PyType_Slot slots[] = {
        {Py_tp_doc, "A typed, strided view of device memory. Make one with weir.tensor, "
                    "weir.asarray, weir.empty, weir.zeros, ...\n\nOperators queue work and return "
                    "at once; reading values (item, tolist, numpy, printing) waits.\n\n"
                    ">>> a = weir.tensor([[1.0, 2.0], [3.0, 4.0]])\n"
                    ">>> (a @ a + 1).tolist()\n[[8.0, 11.0], [16.0, 23.0]]\n"},
        {Py_tp_dealloc, tensor_dealloc},
        {Py_tp_repr, tensor_repr},
        {Py_tp_hash, tensor_hash},
        {Py_tp_richcompare, op_compare},
        {Py_tp_methods, methods},
        {Py_tp_getset, tensor_getset},
        {Py_nb_add, number_add},
        {Py_nb_subtract, number_sub},
        {Py_nb_multiply, number_mul},
        {Py_nb_true_divide, number_div},
        {Py_nb_power, number_pow},
        {Py_nb_matrix_multiply, number_matmul},
        {Py_nb_and, number_and},
        {Py_nb_or, number_or},
        {Py_nb_xor, number_xor},
        {Py_nb_lshift, number_left},
        {Py_nb_rshift, number_right},
        {Py_nb_invert, op_invert},
        {Py_nb_negative, op_neg},
        {Py_nb_absolute, op_abs},
        {Py_nb_bool, number_bool},
        {Py_nb_float, number_float},
        {Py_nb_int, number_int},
        {Py_nb_index, number_index},
        {Py_mp_length, tensor_length},
        {Py_mp_subscript, tensor_subscript},
        {Py_mp_ass_subscript, tensor_assign},
        {Py_bf_getbuffer, tensor_getbuffer},
        {Py_bf_releasebuffer, tensor_releasebuffer},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.Tensor",
        .basicsize = sizeof(TensorObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    if (!methods || !(TensorType = (PyTypeObject *)PyType_FromSpec(&spec)))
        return false;
    tensor_alloc = (allocfunc)PyType_GetSlot(TensorType, Py_tp_alloc);
    tensor_free = (freefunc)PyType_GetSlot(TensorType, Py_tp_free);
    return !PyModule_AddObjectRef(module, "Tensor", (PyObject *)TensorType);
}
