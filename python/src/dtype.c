/* Element types. */
#include "weirpy.h"

#include <string.h>

PyTypeObject *DTypeType;
static PyObject *dtypes[WEIR_DTYPE_COUNT];

/* The names in NumPy, PyTorch and MindSpore; the first one is printed. */
static const char *const names[WEIR_DTYPE_COUNT][3] = {
    [WEIR_F32] = {"float32", "float", "f32"}, [WEIR_F16] = {"float16", "half", "f16"},
    [WEIR_BF16] = {"bfloat16", "", "bf16"},   [WEIR_F64] = {"float64", "double", "f64"},
    [WEIR_I64] = {"int64", "long", "i64"},    [WEIR_I32] = {"int32", "int", "i32"},
    [WEIR_I8] = {"int8", "", "i8"},           [WEIR_U8] = {"uint8", "", "u8"},
    [WEIR_BOOL] = {"bool", "bool_", "bool"},
};

PyObject *dtype_object(weir_dtype dtype)
{
    Py_INCREF(dtypes[dtype]);
    return dtypes[dtype];
}

static bool find(const char *text, weir_dtype *out)
{
    const char *dot = strrchr(text, '.'); /* "torch.float32" */

    text = dot ? dot + 1 : text;
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        for (int i = 0; i < 3; i++)
            if (*text && !strcmp(names[t][i], text)) {
                *out = (weir_dtype)t;
                return true;
            }
    return false;
}

/* Accepts a type of this module, a name, or an object that has a name: NumPy's types have .name or
 * __name__, PyTorch's have str(). */
bool to_dtype(PyObject *o, weir_dtype *out)
{
    PyObject *name;
    bool found = false;

    if ((PyObject *)Py_TYPE(o) == (PyObject *)DTypeType) {
        *out = ((DTypeObject *)o)->code;
        return true;
    }
    if (PyUnicode_Check(o))
        name = Py_NewRef(o);
    else if (!(name = PyObject_GetAttrString(o, "name"))) {
        PyErr_Clear();
        if (!(name = PyObject_GetAttrString(o, "__name__"))) {
            PyErr_Clear();
            name = PyObject_Str(o);
        }
    }
    if (name && PyUnicode_Check(name)) {
        PyObject *bytes = PyUnicode_AsUTF8String(name);

        found = bytes && find(PyBytes_AsString(bytes), out);
        Py_XDECREF(bytes);
    }
    Py_XDECREF(name);
    if (!found && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "%R is not a data type of weir: float32, float16, bfloat16, float64, int64, "
                     "int32, int8, uint8, bool",
                     o);
    return found;
}

static PyObject *repr(PyObject *self)
{
    return PyUnicode_FromFormat("weir.%s", names[((DTypeObject *)self)->code][0]);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(names[((DTypeObject *)self)->code][0]);
}

static PyObject *get_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(weir_dtype_size(((DTypeObject *)self)->code));
}

static PyObject *get_is_floating(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(weir_dtype_is_float(((DTypeObject *)self)->code));
}

static PyObject *reduce(PyObject *self, PyObject *none)
{
    (void)none;
    return PyUnicode_FromFormat("%s%s", names[((DTypeObject *)self)->code][0],
                                ((DTypeObject *)self)->code == WEIR_BOOL ? "_" : "");
}

static PyGetSetDef getset[] = {
    {"name", get_name, NULL, "NumPy's name, such as 'float32'.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"is_floating_point", get_is_floating, NULL, "Whether it is a float.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

bool add_types(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_doc, "The type of a tensor's elements: weir.float32 and so on.\n\n"
                    ">>> weir.bfloat16.itemsize, weir.ones((1,), 'int64').dtype is weir.int64\n"
                    "(2, True)\n"},
        {Py_tp_repr, repr},
        {Py_tp_getset, getset},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.dtype",
        .basicsize = sizeof(DTypeObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    DTypeType = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!DTypeType || PyModule_AddObjectRef(module, "dtype", (PyObject *)DTypeType))
        return false;
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        const char *name = t == WEIR_BOOL ? "bool_" : names[t][0];
        if (!(dtypes[t] = object_new(DTypeType)))
            return false;
        ((DTypeObject *)dtypes[t])->code = (weir_dtype)t;
        if (PyModule_AddObjectRef(module, name, dtypes[t]))
            return false;
    }
    return true;
}
