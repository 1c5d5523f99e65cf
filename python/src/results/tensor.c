/* Makes PyTorch tensors of kept memory, for large results of compiled functions. */
#include "results/memory.h"
#include "weirpy.h"

#include <stdlib.h>
#include <string.h>

/* Smaller results are allocated by PyTorch, whose allocator keeps their pages. */
#define LARGE ((int64_t)256 << 10)

/* DLPack's DLManagedTensor, before version 1. */
struct managed {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void *context;
    void (*deleter)(struct managed *);
    struct span *span;
    int64_t dims[2 * WEIR_MAX_DIMS];
};

/* PyTorch's functions and types; set once. */
static PyObject *empty_strided, *from_dlpack;
static struct {
    PyObject *object;
    uint8_t code, bits;
} types[WEIR_DTYPE_COUNT];
static int ntypes;

static void free_managed(struct managed *m)
{
    result_memory_give(m->span);
    free(m);
}

static void free_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) /* else PyTorch owns it */
        free_managed(PyCapsule_GetPointer(capsule, "dltensor"));
}

/* Bytes from the first to the end of the last element; 0 for what this cannot allocate. */
static int64_t bytes_of(const int64_t *shape, const int64_t *strides, int ndim, int bits)
{
    int64_t span = 1;

    for (int i = 0; i < ndim; i++) {
        int64_t reach;

        if (shape[i] <= 0 || strides[i] < 0 ||
            __builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
            __builtin_add_overflow(span, reach, &span))
            return 0;
    }
    return __builtin_mul_overflow(span, (int64_t)bits / 8, &span) ? 0 : span;
}

/* Returns a DLPack capsule with new memory; NULL if out of memory. */
static PyObject *new_capsule(const int64_t *shape, const int64_t *strides, int ndim, int type,
                             int64_t bytes)
{
    struct managed *m = calloc(1, sizeof *m);
    PyObject *capsule;

    if (!m || !(m->span = result_memory_take((size_t)bytes))) {
        free(m);
        return NULL;
    }
    memcpy(m->dims, shape, (size_t)ndim * sizeof *shape);
    memcpy(m->dims + ndim, strides, (size_t)ndim * sizeof *strides);
    m->data = result_memory_address(m->span);
    m->device_type = 1;
    m->ndim = ndim;
    m->code = types[type].code;
    m->bits = types[type].bits;
    m->lanes = 1;
    m->shape = m->dims;
    m->strides = m->dims + ndim;
    m->deleter = free_managed;
    if (!(capsule = PyCapsule_New(m, "dltensor", free_capsule)))
        free_managed(m);
    return capsule;
}

/* make_result(shape, strides, dtype) */
static PyObject *make_result(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t shape[WEIR_MAX_DIMS], strides[WEIR_MAX_DIMS], bytes;
    PyObject *capsule, *made;
    int ndim, nstrides, type = 0;

    (void)self;
    if (nargs != 3 || !empty_strided) {
        PyErr_SetString(PyExc_TypeError, "make_result takes a shape, strides and a type, after "
                                         "set_result_makers");
        return NULL;
    }
    while (type < ntypes && types[type].object != args[2])
        type++;
    if (type < ntypes && PyTuple_Check(args[0]) && PyTuple_Size(args[0]) <= WEIR_MAX_DIMS &&
        to_dims(args[0], "a shape", shape, WEIR_MAX_DIMS, &ndim) &&
        to_dims(args[1], "strides", strides, WEIR_MAX_DIMS, &nstrides) && ndim == nstrides &&
        (bytes = bytes_of(shape, strides, ndim, types[type].bits)) >= LARGE &&
        (capsule = new_capsule(shape, strides, ndim, type, bytes))) {
        made = PyObject_CallFunctionObjArgs(from_dlpack, capsule, NULL);
        Py_DECREF(capsule);
        return made;
    }
    PyErr_Clear(); /* PyTorch reports errors of the arguments */
    return PyObject_CallFunctionObjArgs(empty_strided, args[0], args[1], args[2], NULL);
}

/* set_result_makers(empty_strided, from_dlpack, [(dtype, code, bits)]) */
static PyObject *set_result_makers(PyObject *self, PyObject *args)
{
    PyObject *empty, *from, *rows;

    (void)self;
    if (!PyArg_ParseTuple(args, "OOO!:set_result_makers", &empty, &from, &PyList_Type, &rows))
        return NULL;
    if (empty_strided || PyList_Size(rows) > WEIR_DTYPE_COUNT)
        Py_RETURN_NONE; /* set already */
    for (Py_ssize_t i = 0; i < PyList_Size(rows); i++)
        if (!PyArg_ParseTuple(PyList_GetItem(rows, i), "Obb", &types[i].object, &types[i].code,
                              &types[i].bits))
            return NULL;
    for (; ntypes < PyList_Size(rows); ntypes++)
        Py_INCREF(types[ntypes].object);
    from_dlpack = Py_NewRef(from);
    empty_strided = Py_NewRef(empty);
    Py_RETURN_NONE;
}

static PyObject *get_stats(PyObject *self, PyObject *none)
{
    struct result_memory s;

    (void)self, (void)none;
    result_memory_stats(&s);
    return Py_BuildValue("{sKsKsK}", "used", (unsigned long long)s.used, "kept",
                         (unsigned long long)s.kept, "reserved", (unsigned long long)s.reserved);
}

PyMethodDef result_functions[] = {
    {"make_result", (PyCFunction)(void (*)(void))make_result, METH_FASTCALL,
     "make_result(shape, strides, dtype) -> torch.Tensor\n\nUninitialised; a large tensor is "
     "allocated from memory whose pages are kept."},
    {"set_result_makers", set_result_makers, METH_VARARGS,
     "set_result_makers(empty_strided, from_dlpack, types)\n\nPyTorch's functions, and (type, "
     "DLPack's code, bits) of each type."},
    {"result_memory_stats", get_stats, METH_NOARGS,
     "result_memory_stats() -> dict\n\nBytes of live large results, of free memory whose pages are "
     "kept, and of reserved address space."},
    {NULL, NULL, 0, NULL},
};
