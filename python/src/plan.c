/* weir.Plan: a compiled graph. */
#include "weirpy.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *PlanType;

/* Memory of others that stands for an input or output, kept while its address stays. */
struct binding {
    weir_tensor *tensor;
    void *address;
    weir_dtype dtype;
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
};

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_plan *plan;
    PyObject *calls;          /* the functions that its nodes call */
    struct binding *bindings; /* inputs, then outputs; NULL before bind() */
    Py_ssize_t nin, nout;
} PlanObject;

PyObject *wrap_plan(GraphObject *graph, weir_plan *plan)
{
    PlanObject *p = (PlanObject *)object_new(PlanType);

    if (!p) {
        weir_plan_destroy(plan);
        return NULL;
    }
    p->device = (DeviceObject *)Py_NewRef((PyObject *)graph->device);
    p->plan = plan;
    p->nout = (Py_ssize_t)weir_graph_output_count(graph->graph);
    if (!(p->calls = PySequence_Tuple(graph->calls))) {
        DROP(p);
        return NULL;
    }
    return (PyObject *)p;
}

static void free_bindings(PlanObject *p)
{
    for (Py_ssize_t i = 0; p->bindings && i < p->nin + p->nout; i++)
        weir_tensor_release(p->bindings[i].tensor);
    free(p->bindings);
    p->bindings = NULL;
}

static void plan_dealloc(PyObject *self)
{
    PlanObject *p = (PlanObject *)self;

    if (device_alive(p->device)) {
        free_bindings(p);
        Py_BEGIN_ALLOW_THREADS /* it may wait for a run, which may need the GIL */
            weir_plan_destroy(p->plan);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(p->calls);
    DROP(p->device);
    object_free(self);
}

/* ---- running on weir's tensors ---- */

enum { FEW = 32 };

/* The results: one tensor as it is, several as a list. */
static PyObject *wrap_results(DeviceObject *device, weir_tensor **out, size_t n)
{
    PyObject *list;

    if (n == 1)
        return wrap_tensor(device, out[0]);
    list = PyList_New(0);
    for (size_t i = 0; i < n; i++) {
        PyObject *t = wrap_tensor(device, out[i]);

        if (!list || !t || PyList_Append(list, t))
            Py_CLEAR(list);
        Py_XDECREF(t);
    }
    return list;
}

static PyObject *run(PlanObject *p, PyObject *const *args, Py_ssize_t nargs)
{
    weir_tensor *few[FEW], **tensors = few;
    size_t nin = (size_t)nargs, nout = (size_t)p->nout;
    PyObject *results = NULL;
    weir_status st;

    if (!device_check(p->device))
        return NULL;
    if (nin + nout > FEW && !(tensors = malloc((nin + nout) * sizeof(weir_tensor *))))
        return PyErr_NoMemory();
    memset(tensors, 0, (nin + nout) * sizeof(weir_tensor *));
    for (size_t i = 0; i < nin; i++)
        if (!to_tensor(args[i], "each input of a plan", &tensors[i]))
            goto done;
    if (weirpy_checking)
        note_source();
    BLOCKING(st, weir_plan_run(p->plan, weir_stream_current(p->device->dev), tensors, nin,
                               tensors + nin, nout));
    results = st ? raise_status(st) : wrap_results(p->device, tensors + nin, nout);
done:
    if (tensors != few)
        free(tensors);
    return results;
}

static PyObject *plan_run(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    return run((PlanObject *)self, args, nargs);
}

static PyObject *plan_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *items[FEW] = {0};
    Py_ssize_t n = PyTuple_Size(args);
    PyObject **all = items, *results;

    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "a plan takes its inputs by position");
        return NULL;
    }
    if (n > FEW && !(all = malloc((size_t)n * sizeof *all)))
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        all[i] = PyTuple_GetItem(args, i);
    results = run((PlanObject *)self, all, n);
    if (all != items)
        free(all);
    return results;
}

/* ---- running on memory of others ---- */

static bool parse_binding(PyObject *item, struct binding *b)
{
    PyObject *dtype, *shape;

    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "bind takes tuples (dtype, shape)");
        return false;
    }
    return PyArg_ParseTuple(item, "OO", &dtype, &shape) && to_dtype(dtype, &b->dtype) &&
           to_dims(shape, "a shape", b->shape, WEIR_MAX_DIMS, &b->ndim);
}

static PyObject *plan_bind(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;
    PyObject *lists[2];

    if (!PyArg_ParseTuple(args, "OO:bind", &lists[0], &lists[1]) || !device_check(p->device))
        return NULL;
    Py_ssize_t counts[2] = {PySequence_Size(lists[0]), PySequence_Size(lists[1])};

    if (counts[0] < 0 || counts[1] < 0)
        return NULL;
    free_bindings(p);
    p->nin = counts[0];
    p->nout = counts[1];
    if (!(p->bindings = calloc((size_t)(p->nin + p->nout) + 1, sizeof *p->bindings)))
        return PyErr_NoMemory();
    for (int l = 0; l < 2; l++)
        for (Py_ssize_t i = 0; i < counts[l]; i++) {
            PyObject *item = PySequence_GetItem(lists[l], i);
            bool good = item && parse_binding(item, &p->bindings[l * p->nin + i]);

            Py_XDECREF(item);
            if (!good)
                return NULL;
        }
    Py_RETURN_NONE;
}

/* The binding stands for the memory that object.data_ptr() says. */
static bool rebind(PlanObject *p, weir_stream *s, struct binding *b, PyObject *object)
{
    static PyObject *data_ptr;
    PyObject *number;
    weir_status st;
    void *address;

    if (!data_ptr && !(data_ptr = PyUnicode_InternFromString("data_ptr")))
        return false;
    if (!(number = PyObject_CallMethodObjArgs(object, data_ptr, NULL)))
        return false;
    address = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    if (PyErr_Occurred())
        return false;
    if (b->tensor && b->address == address)
        return true;
    weir_tensor_release(b->tensor);
    b->tensor = NULL;
    b->address = address;
    /* Tensors without elements have no address, but a plan wants one. */
    st = weir_tensor_wrap(s, b->dtype, b->ndim, b->shape, NULL, address ? address : (void *)p, NULL,
                          NULL, &b->tensor);
    if (st)
        raise_status(st);
    return !st;
}

static void memory_is_over(void *user, weir_status status)
{
    (void)status;
    drop_later(user);
}

/* Work may go on after a failed wait: what it touches must stay until it is over. */
static void keep_memory(weir_stream *s, PyObject *args)
{
    PyObject *kind, *value, *trace;

    PyErr_Fetch(&kind, &value, &trace);
    Py_INCREF(args);
    if (weir_stream_callback(s, memory_is_over, args))
        PyErr_Clear(); /* then it stays for ever, which is safe */
    PyErr_Restore(kind, value, trace);
}

static weir_status run_and_wait(weir_plan *plan, weir_stream *s, weir_tensor **tensors, size_t nin,
                                size_t nout, bool *queued)
{
    weir_status st = weir_plan_run(plan, s, tensors, nin, tensors + nin, nout);

    *queued = !st;
    return st ? st : weir_stream_sync(s);
}

/* run_on(inputs, outputs): tuples or lists of objects with data_ptr(), contiguous. */
static PyObject *plan_run_on(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;
    weir_tensor *few[FEW], **tensors = few;
    PyObject *lists[2];
    bool queued = false;
    weir_stream *s;
    weir_status st;
    size_t got = 0, n = (size_t)(p->nin + p->nout);

    if (!PyArg_ParseTuple(args, "OO:run_on", &lists[0], &lists[1]) || !device_check(p->device))
        return NULL;
    if (!p->bindings || PySequence_Size(lists[0]) != p->nin ||
        PySequence_Size(lists[1]) != p->nout) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "the plan is bound to %zd inputs and %zd outputs", p->nin,
                         p->nout);
        return NULL;
    }
    if (n > FEW && !(tensors = malloc(n * sizeof(weir_tensor *))))
        return PyErr_NoMemory();
    s = weir_stream_current(p->device->dev);
    for (; got < n; got++) {
        bool input = got < (size_t)p->nin;
        PyObject *item = PySequence_GetItem(lists[input ? 0 : 1],
                                            (Py_ssize_t)(input ? got : got - (size_t)p->nin));
        bool good = item && rebind(p, s, &p->bindings[got], item);

        Py_XDECREF(item);
        if (!good)
            break;
        /* Another thread may rebind while this one runs. */
        tensors[got] = weir_tensor_retain(p->bindings[got].tensor);
    }
    st = WEIR_EINVAL;
    if (got == n) {
        BLOCKING(st, run_and_wait(p->plan, s, tensors, (size_t)p->nin, (size_t)p->nout, &queued));
        if (st)
            raise_status(st);
        if (st && queued)
            keep_memory(s, args);
    }
    while (got > 0)
        weir_tensor_release(tensors[--got]);
    if (tensors != few)
        free(tensors);
    if (st)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- about it ---- */

static PyObject *plan_stats(PyObject *self, PyObject *none)
{
    PlanObject *p = (PlanObject *)self;
    weir_plan_stats s;

    (void)none;
    if (!device_check(p->device))
        return NULL;
    weir_plan_get_stats(p->plan, &s);
#define SIZE(name) #name, (unsigned long long)s.name
    return Py_BuildValue("{sKsKsKsKsKsKsK}", SIZE(nodes), SIZE(launches), SIZE(streams),
                         SIZE(syncs), SIZE(arena_bytes), SIZE(lower_bound), SIZE(instances));
#undef SIZE
}

static PyObject *plan_list(PyObject *self, PyObject *none)
{
    PlanObject *p = (PlanObject *)self;
    PyObject *o;
    char *text;

    (void)none;
    if (!device_check(p->device))
        return NULL;
    text = weir_plan_list(p->plan);
    o = text ? PyUnicode_FromString(text) : PyErr_NoMemory();
    free(text);
    return o;
}

static PyMethodDef plan_methods[] = {
    {"run", (PyCFunction)(void (*)(void))plan_run, METH_FASTCALL,
     "run(*inputs)\n\nQueues a run on the current stream; gives its result, or a list of them."},
    {"bind", plan_bind, METH_VARARGS,
     "bind(inputs, outputs)\n\nTypes and shapes for run_on: lists of (dtype, shape)."},
    {"run_on", plan_run_on, METH_VARARGS,
     "run_on(inputs, outputs)\n\nRuns on contiguous host memory that others own (data_ptr()) and "
     "waits."},
    {"stats", plan_stats, METH_NOARGS, "stats() -> dict"},
    {"list", plan_list, METH_NOARGS, "list() -> str\n\nStreams as columns, for people."},
    {NULL, NULL, 0, NULL},
};

bool add_plan_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_doc, "A graph compiled for its device. Call it with the graph's inputs."},
        {Py_tp_dealloc, plan_dealloc},
        {Py_tp_call, plan_call},
        {Py_tp_methods, plan_methods},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.Plan",
        .basicsize = sizeof(PlanObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    PlanType = (PyTypeObject *)PyType_FromSpec(&spec);
    return PlanType && !PyModule_AddObjectRef(module, "Plan", (PyObject *)PlanType);
}
