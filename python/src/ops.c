/* Operators: each is defined once, and is both a function of the module and a method of Tensor. */
#include "ops.h"

#include "ops_docs.h"
#include "ops_docs_elementwise.h"

PyObject *op_call_function(const struct op *op, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    PyObject *slots[MAX_SLOTS];

    return parse_args(op->name, op->names, op->required, args, nargs, kwnames, slots)
               ? op->body(slots)
               : NULL;
}

/* The method's object is the first argument. */
PyObject *op_call_method(const struct op *op, PyObject *self, PyObject *const *args,
                         Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *slots[MAX_SLOTS];

    if (!parse_args(op->name, op->names + 1, op->required - 1, args, nargs, kwnames, slots + 1))
        return NULL;
    slots[0] = self;
    return op->body(slots);
}

/* ---- functions without a tensor argument ---- */

static PyObject *empty(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"shape", "dtype", "device", NULL};
    PyObject *a[MAX_SLOTS], *made;
    int64_t shape[WEIR_MAX_DIMS];
    weir_dtype dtype = WEIR_F32;
    weir_tensor *t;
    DeviceObject *d;
    weir_status st;
    int n;

    (void)self;
    if (!parse_args("empty", names, 1, args, nargs, kwnames, a) ||
        !to_dims(a[0], "shape", shape, WEIR_MAX_DIMS, &n) ||
        (!is_absent(a[1]) && !to_dtype(a[1], &dtype)) || !(d = to_device(a[2])))
        return NULL;
    QUEUE(st, weir_tensor_empty(weir_stream_current(d->dev), dtype, n, shape, &t));
    made = st ? raise_status(st) : wrap_tensor(d, t);
    DROP(d);
    return made;
}

static PyObject *arange(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"n", "start", "step", "dtype", "device", NULL};
    PyObject *a[MAX_SLOTS], *made;
    weir_dtype dtype = WEIR_I64;
    double start = 0, step = 1;
    weir_tensor *t;
    DeviceObject *d;
    weir_status st;
    int64_t n;

    (void)self;
    if (!parse_args("arange", names, 1, args, nargs, kwnames, a) || !to_int64(a[0], "n", &n) ||
        (!is_absent(a[3]) && !to_dtype(a[3], &dtype)) ||
        !optional_value(a[1], "start", dtype, &start) ||
        !optional_value(a[2], "step", dtype, &step) || !(d = to_device(a[4])))
        return NULL;
    QUEUE(st, weir_arange(weir_stream_current(d->dev), dtype, n, start, step, &t));
    made = st ? raise_status(st) : wrap_tensor(d, t);
    DROP(d);
    return made;
}

/* ---- the tables ---- */

#define FAST(f) ((PyCFunction)(void (*)(void))(f)), METH_FASTCALL | METH_KEYWORDS
#define FUNCTION(name) {#name, FAST(op_##name##_function), DOC_##name},
#define METHOD(name) {#name, FAST(op_##name##_method), DOC_##name},

PyMethodDef op_functions[] = {
    NAMED_OPS(FUNCTION) FUNCTIONS_ONLY(FUNCTION){
        "empty", FAST(empty),
        "empty(shape, dtype=float32, device=None) -> Tensor\n\nUninitialised.\n\n"
        ">>> weir.empty((2, 3)).shape\n(2, 3)\n"},
    {"arange", FAST(arange),
     "arange(n, start=0, step=1, dtype=int64, device=None) -> Tensor\n\nstart, start+step, ...\n\n"
     ">>> weir.arange(3).tolist()\n[0, 1, 2]\n"},
    {NULL, NULL, 0, NULL},
};

PyMethodDef op_methods[] = {
    NAMED_OPS(METHOD){NULL, NULL, 0, NULL},
};
