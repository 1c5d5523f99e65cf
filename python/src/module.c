/* The module: errors, signals, forks, and deferred drops of references. */
#include "weirpy.h"

#include "results/memory.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

unsigned weirpy_forks;
_Atomic bool weirpy_ending;

/* ---- errors ---- */

PyObject *raise_status(weir_status status)
{
    PyObject *errors, *error;

    /* A pending signal takes precedence: it may have caused the error. */
    if (PyErr_Occurred() || PyErr_CheckSignals())
        return NULL;
    if (!(errors = PyImport_ImportModule("weir.errors")))
        return NULL;
    error = PyObject_CallMethod(errors, "from_status", "ss", weir_status_name(status),
                                weir_last_error());
    Py_DECREF(errors);
    if (!error)
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

PyObject *none_or(weir_status status)
{
    if (status)
        return raise_status(status);
    Py_RETURN_NONE;
}

PyMethodDef *join_methods(PyMethodDef *all, size_t room, PyMethodDef *const *tables)
{
    size_t n = 0;

    for (; *tables; tables++)
        for (PyMethodDef *m = *tables; m->ml_name; m++) {
            if (n + 1 == room) {
                PyErr_SetString(PyExc_SystemError, "a table of methods is full");
                return NULL;
            }
            all[n++] = *m;
        }
    return all;
}

/* ---- objects ---- */

void *object_new(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    DROP(type);
}

/* ---- signals ---- */

static int look_for_signals(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int raised = PyErr_CheckSignals();

    (void)user;
    PyGILState_Release(state);
    return raised;
}

void before_wait(void)
{
    weir_wait_hook_set(look_for_signals, NULL);
}

/* ---- deferred drops of references ---- */

struct dropped {
    struct dropped *next;
    PyObject *object;
};

static _Atomic(struct dropped *) to_drop;
static atomic_bool drop_is_pending; /* a call of drop_all is pending */

static int drop_all(void *user)
{
    struct dropped *d;

    (void)user;
    /* Clear the flag before taking the list: an object added later then requests another call. */
    atomic_store(&drop_is_pending, false);
    d = atomic_exchange(&to_drop, NULL);
    while (d) {
        struct dropped *next = d->next;

        Py_DECREF(d->object);
        free(d);
        d = next;
    }
    return 0;
}

void drop_later(PyObject *object)
{
    struct dropped *d = malloc(sizeof *d), *head = atomic_load(&to_drop);

    if (!d)
        return; /* leak the object: this thread must not fail */
    d->object = object;
    do
        d->next = head;
    while (!atomic_compare_exchange_weak(&to_drop, &head, d));
    if (weirpy_ending || atomic_exchange(&drop_is_pending, true))
        return;
    if (Py_AddPendingCall(drop_all, NULL)) /* the queue is full: the next drop retries */
        atomic_store(&drop_is_pending, false);
}

/* ---- arguments ---- */

bool parse_args(const char *function, const char *const *names, int required, PyObject *const *args,
                Py_ssize_t nargs, PyObject *kwnames, PyObject **slots)
{
    Py_ssize_t nkw = kwnames ? PyTuple_Size(kwnames) : 0;
    int n = 0;

    while (names[n])
        slots[n++] = NULL;
    if (nargs > n) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments, not %zd", function, n,
                     nargs);
        return false;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        slots[i] = args[i];
    for (Py_ssize_t i = 0; i < nkw; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int at = 0;

        while (names[at] && PyUnicode_CompareWithASCIIString(name, names[at]))
            at++;
        if (!names[at]) {
            PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", function, name);
            return false;
        }
        if (slots[at]) {
            PyErr_Format(PyExc_TypeError, "%s() got '%U' twice", function, name);
            return false;
        }
        slots[at] = args[nargs + i];
    }
    for (int i = 0; i < required; i++)
        if (!slots[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", function, names[i]);
            return false;
        }
    return true;
}

bool is_absent(PyObject *o)
{
    return !o || o == Py_None;
}

bool to_int64(PyObject *o, const char *what, int64_t *out)
{
    PyObject *index = PyNumber_Index(o);
    long long v;

    if (!index) {
        PyErr_Format(PyExc_TypeError, "%s must be an int, not %R", what, (PyObject *)Py_TYPE(o));
        return false;
    }
    v = PyLong_AsLongLong(index);
    Py_DECREF(index);
    if (v == -1 && PyErr_Occurred())
        return false;
    *out = v;
    return true;
}

bool to_int(PyObject *o, const char *what, int *out)
{
    int64_t v;

    if (!to_int64(o, what, &v))
        return false;
    if (v < INT32_MIN || v > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s %lld is out of range", what, (long long)v);
        return false;
    }
    *out = (int)v;
    return true;
}

bool to_double(PyObject *o, const char *what, double *out)
{
    *out = PyFloat_AsDouble(o);
    if (*out != -1 || !PyErr_Occurred())
        return true;
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s must be a number, not %R", what, (PyObject *)Py_TYPE(o));
    return false;
}

bool to_value(PyObject *o, const char *what, weir_dtype dtype, double *out)
{
    PyObject *back;
    int same = 1;

    if (!to_double(o, what, out))
        return false;
    if (weir_dtype_is_float(dtype) || !PyLong_Check(o) || fabs(*out) < (double)(1LL << 53))
        return true;
    if (!(back = PyLong_FromDouble(*out)))
        return false;
    same = PyObject_RichCompareBool(back, o, Py_EQ);
    Py_DECREF(back);
    if (!same)
        PyErr_Format(PyExc_ValueError,
                     "%s: %R needs more than the 53 bits that a number has here: "
                     "use a tensor",
                     what, o);
    return same == 1;
}

bool to_dims(PyObject *o, const char *what, int64_t *out, int max, int *n)
{
    Py_ssize_t size;

    if (PyIndex_Check(o)) {
        *n = 1;
        return to_int64(o, what, out);
    }
    if (!PySequence_Check(o) || (size = PySequence_Size(o)) < 0) {
        PyErr_Format(PyExc_TypeError, "%s must be an int or a sequence of ints, not %R", what,
                     (PyObject *)Py_TYPE(o));
        return false;
    }
    if (size > max) {
        PyErr_Format(PyExc_ValueError, "%s has %zd entries, at most %d fit", what, size, max);
        return false;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        bool good = item && to_int64(item, what, &out[i]);

        Py_XDECREF(item);
        if (!good)
            return false;
    }
    *n = (int)size;
    return true;
}

PyObject *dims_tuple(const int64_t *dims, int n)
{
    PyObject *tuple = PyTuple_New(n);

    for (int i = 0; tuple && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(dims[i]);

        if (!item || PyTuple_SetItem(tuple, i, item)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* ---- the module ---- */

static void after_fork(void)
{
    weirpy_forks++;
}

static PyObject *version(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return PyUnicode_FromString(weir_version());
}

static PyObject *list_ops(PyObject *self, PyObject *none)
{
    size_t n = weir_op_list(NULL, 0, 0);
    weir_op_info *rows = calloc(n + 1, sizeof *rows);
    PyObject *list = rows ? PyList_New(0) : PyErr_NoMemory();

    (void)self, (void)none;
    if (rows)
        n = weir_op_list(rows, sizeof *rows, n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = Py_BuildValue(
            "{sssssOsOsOss}", "name", rows[i].name, "engine", weir_engine_name(rows[i].engine),
            "gang", rows[i].gang ? Py_True : Py_False, "data_dependent",
            rows[i].data_dependent ? Py_True : Py_False, "obeys_limit",
            rows[i].obeys_limit ? Py_True : Py_False, "summary", rows[i].summary);

        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(rows);
    return list;
}

static PyObject *list_drivers(PyObject *self, PyObject *none)
{
    weir_driver_info rows[16];
    size_t n = weir_driver_list(rows, sizeof *rows, 16);
    PyObject *list = PyList_New(0);

    (void)self, (void)none;
    for (size_t i = 0; list && i < n && i < 16; i++) {
        PyObject *row = Py_BuildValue("{sssssz}", "name", rows[i].name, "summary", rows[i].summary,
                                      "reason", rows[i].reason);

        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef module_functions[] = {
    {"version", version, METH_NOARGS,
     "version() -> str\n\nThe library's version.\n\n"
     ">>> weir.version() == weir.__version__\nTrue\n"},
    {"list_ops", list_ops, METH_NOARGS,
     "list_ops() -> list[dict]\n\nEvery operator weir has.\n\n"
     ">>> next(op['engine'] for op in weir.list_ops() if op['name'] == 'MatMul')\n'cube'\n"},
    {"list_drivers", list_drivers, METH_NOARGS,
     "list_drivers() -> list[dict]\n\nEvery driver of this build; `reason` says why one cannot be "
     "opened here.\n\n"
     ">>> [d['name'] for d in weir.list_drivers() if d['reason'] is None][:2]\n['cpu', 'npu']\n"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "weir._C",
    .m_doc = "The C library, as weir's Python modules use it.",
    .m_size = -1,
    .m_methods = module_functions,
};

PyMODINIT_FUNC PyInit__C(void);

PyMODINIT_FUNC PyInit__C(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    pthread_atfork(NULL, NULL, after_fork);
    result_memory_init();
    if (!add_types(module) || !add_device_type(module) || !add_stream_types(module) ||
        !add_tensor_type(module) || !add_graph_types(module) || !add_group_type(module) ||
        PyModule_AddFunctions(module, op_functions) ||
        PyModule_AddFunctions(module, exchange_functions) ||
        PyModule_AddFunctions(module, native_functions) ||
        PyModule_AddFunctions(module, tape_functions) ||
        PyModule_AddFunctions(module, result_functions) ||
        PyModule_AddFunctions(module, scope_functions) ||
        PyModule_AddFunctions(module, host_call_functions) ||
        PyModule_AddFunctions(module, log_functions) ||
        PyModule_AddFunctions(module, trace_functions) ||
        PyModule_AddFunctions(module, race_functions)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
