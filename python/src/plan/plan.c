/* weir.Plan: a compiled graph. */
#include "weirpy.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *PlanType;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_plan *plan;
    PyObject *calls; /* the functions that its nodes call */
    Py_ssize_t nout;
    struct plan_ways *ways; /* NULL before bind() */
    PyObject *owner;        /* the Plan that owns the C plan; NULL: this one */
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

static void plan_dealloc(PyObject *self)
{
    PlanObject *p = (PlanObject *)self;

    plan_ways_free(p->ways, device_alive(p->device));
    if (p->owner) {
        Py_DECREF(p->owner);
    } else if (device_alive(p->device)) {
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

/* Returns one result as a tensor, several as a list. */
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

/* ---- running on memory of other libraries ---- */

static PyObject *plan_bind(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;

    if (!device_check(p->device))
        return NULL;
    if (p->ways) {
        PyErr_SetString(PyExc_RuntimeError, "the plan is bound already");
        return NULL;
    }
    if (!(p->ways = plan_ways_parse(p->plan, args)))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *plan_share(PyObject *self, PyObject *none)
{
    PlanObject *from = (PlanObject *)self, *p;

    (void)none;
    if (!device_check(from->device) || !(p = (PlanObject *)object_new(PlanType)))
        return NULL;
    p->device = (DeviceObject *)Py_NewRef((PyObject *)from->device);
    p->plan = from->plan;
    p->calls = Py_NewRef(from->calls);
    p->nout = from->nout;
    p->owner = Py_NewRef(from->owner ? from->owner : self);
    return (PyObject *)p;
}

/* Returns the stream for calls on memory of other libraries. These calls complete, and report their
 * errors, before they return. A failed default stream cannot be recreated, so after a failure
 * another stream takes its place. */
static weir_stream *stream_of_calls(const DeviceObject *d)
{
    weir_stream *s = weir_stream_current(d->dev);

    return d->stand_in && s == weir_stream_default(d->dev) ? d->stand_in : s;
}

static void replace_failed(DeviceObject *d, weir_stream *s)
{
    weir_stream *other = NULL;

    if ((s != weir_stream_default(d->dev) && s != d->stand_in) ||
        weir_stream_create(d->dev, NULL, &other))
        return;
    (void)weir_stream_set_limit(other, weir_stream_get_limit(weir_stream_default(d->dev)));
    weir_stream_destroy(d->before);
    d->before = d->stand_in;
    d->stand_in = other;
}

static PyObject *plan_call_on(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;
    PyObject *results;
    weir_stream *s;
    bool failed;

    if (!device_check(p->device))
        return NULL;
    if (!p->ways) {
        PyErr_SetString(PyExc_TypeError, "call_on needs bind first");
        return NULL;
    }
    s = stream_of_calls(p->device);
    results = plan_ways_call(p->ways, p->plan, s, args, &failed);
    if (failed)
        replace_failed(p->device, s);
    return results;
}

static PyObject *plan_call_at(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;
    PyObject *results;
    weir_stream *s;
    bool failed;

    if (!device_check(p->device))
        return NULL;
    if (!p->ways) {
        PyErr_SetString(PyExc_TypeError, "call_at needs bind first");
        return NULL;
    }
    s = stream_of_calls(p->device);
    results = plan_ways_call_at(p->ways, p->plan, s, args, &failed);
    if (failed)
        replace_failed(p->device, s);
    return results;
}

static PyObject *plan_issue_on(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;
    unsigned long long native;
    PyObject *list;

    if (!device_check(p->device) || !PyArg_ParseTuple(args, "OK:issue_on", &list, &native))
        return NULL;
    if (!p->ways) {
        PyErr_SetString(PyExc_TypeError, "issue_on needs bind first");
        return NULL;
    }
    return plan_ways_issue(p->ways, p->plan, weir_stream_current(p->device->dev), list,
                           (void *)(uintptr_t)native);
}

static PyObject *plan_issue_at(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;

    if (!device_check(p->device))
        return NULL;
    if (!p->ways) {
        PyErr_SetString(PyExc_TypeError, "issue_at needs bind first");
        return NULL;
    }
    return plan_ways_issue_at(p->ways, p->plan, weir_stream_current(p->device->dev), args);
}

static PyObject *plan_record_on(PyObject *self, PyObject *args)
{
    PlanObject *p = (PlanObject *)self;
    unsigned long long native;
    TapeObject *tape;
    PyObject *list;

    if (!device_check(p->device) ||
        !PyArg_ParseTuple(args, "OKO!:record_on", &list, &native, TapeType, &tape))
        return NULL;
    if (!p->ways) {
        PyErr_SetString(PyExc_TypeError, "record_on needs bind first");
        return NULL;
    }
    if (PyList_Append(tape->plans, self))
        return NULL;
    return plan_ways_record(p->ways, p->plan, weir_stream_current(p->device->dev), list,
                            (void *)(uintptr_t)native, tape->tape);
}

/* ---- about it ---- */

static PyObject *plan_launches(PyObject *self, PyObject *none)
{
    PlanObject *p = (PlanObject *)self;
    weir_launch_info *all;
    PyObject *list;
    size_t n;

    (void)none;
    if (!device_check(p->device))
        return NULL;
    n = weir_plan_list_launches(p->plan, NULL, 0, 0);
    all = PyMem_Calloc(n + 1, sizeof *all);
    list = all ? PyList_New((Py_ssize_t)n) : PyErr_NoMemory();
    if (list)
        weir_plan_list_launches(p->plan, all, sizeof *all, n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *one = Py_BuildValue("{s:s,s:s,s:n,s:K,s:K}", "name", all[i].name, "op", all[i].op,
                                      "nodes", (Py_ssize_t)all[i].nodes, "bytes_read",
                                      (unsigned long long)all[i].bytes_read, "bytes_written",
                                      (unsigned long long)all[i].bytes_written);

        if (!one || PyList_SetItem(list, (Py_ssize_t)i, one))
            Py_CLEAR(list);
    }
    PyMem_Free(all);
    return list;
}

static PyObject *plan_stats(PyObject *self, PyObject *none)
{
    PlanObject *p = (PlanObject *)self;
    weir_plan_stats s;

    (void)none;
    if (!device_check(p->device))
        return NULL;
    weir_plan_get_stats(p->plan, &s, sizeof s);
#define SIZE(name) #name, (unsigned long long)s.name
    return Py_BuildValue("{sKsKsKsKsKsKsK}", SIZE(nodes), SIZE(launches), SIZE(streams),
                         SIZE(syncs), SIZE(arena_bytes), SIZE(lower_bound), SIZE(instances));
#undef SIZE
}

static PyObject *plan_writes(PyObject *self, PyObject *number)
{
    PlanObject *p = (PlanObject *)self;
    Py_ssize_t input = PyNumber_AsSsize_t(number, PyExc_OverflowError);

    if (PyErr_Occurred() || !device_check(p->device))
        return NULL;
    return PyBool_FromLong(input >= 0 && weir_plan_writes_input(p->plan, (size_t)input));
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

static PyObject *plan_repr(PyObject *self)
{
    PlanObject *p = (PlanObject *)self;
    weir_plan_stats s;

    if (!device_alive(p->device))
        return PyUnicode_FromString("weir.Plan(of a closed device)");
    weir_plan_get_stats(p->plan, &s, sizeof s);
    return PyUnicode_FromFormat("weir.Plan(%llu launches on %llu streams of '%s')",
                                (unsigned long long)s.launches, (unsigned long long)s.streams,
                                weir_device_name(p->device->dev));
}

static PyMethodDef plan_methods[] = {
    {"run", (PyCFunction)(void (*)(void))plan_run, METH_FASTCALL,
     "run(*inputs)\n\nQueues a run on the current stream; gives its result, or a list of them."},
    {"bind", plan_bind, METH_VARARGS,
     "bind(inputs, outputs, arguments, makers, results)\n\n"
     "How call_on runs the plan on memory of others: lists of (dtype, shape) for inputs and "
     "outputs, the argument that each input is, (function, arguments) that makes memory for each "
     "output, and the results: numbers of outputs, -1 - i for argument i, (object,) as it is."},
    {"share", plan_share, METH_NOARGS,
     "share() -> Plan\n\nThe same plan with a binding of its own: one of open sizes, for other "
     "sizes."},
    {"call_on", plan_call_on, METH_O,
     "call_on(arguments) -> list\n\nRuns as bind says, on contiguous memory of objects with "
     "data_ptr(), and waits."},
    {"call_at", plan_call_at, METH_VARARGS,
     "call_at(arguments, shapes, makers) -> list\n\nAs call_on, with other sizes than were bound: "
     "a "
     "shape for each input and output, and arguments for what makes each output; None for what "
     "stays."},
    {"issue_on", plan_issue_on, METH_VARARGS,
     "issue_on(arguments, native) -> list\n\nAs call_on, on memory of the device, without waiting: "
     "the run comes after what the native stream has, and that goes on after the run."},
    {"issue_at", plan_issue_at, METH_VARARGS,
     "issue_at(arguments, shapes, makers, native) -> list\n\nAs issue_on, with other sizes than "
     "were bound, as call_at."},
    {"record_on", plan_record_on, METH_VARARGS,
     "record_on(arguments, native, tape) -> list\n\nAs issue_on, as a part of the graph that the "
     "native stream is captured for."},
    {"stats", plan_stats, METH_NOARGS, "stats() -> dict"},
    {"launches", plan_launches, METH_NOARGS,
     "launches() -> list\n\nWhat a run launches, in order: name and op of the first node, nodes, "
     "bytes_read, bytes_written."},
    {"writes", plan_writes, METH_O,
     "writes(input) -> bool\n\nWhether a run writes to the memory of the input, which is counted "
     "from 0."},
    {"list", plan_list, METH_NOARGS, "list() -> str\n\nStreams as columns, for people."},
    {NULL, NULL, 0, NULL},
};

bool add_plan_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_doc,
         "A graph compiled for its device. Call it with the graph's inputs; see weir.Graph.\n\n"
         ">>> f = weir.compile(lambda x: x + 1)\n"
         ">>> y = f(weir.ones((2,)))\n"
         ">>> (plan, *_), = f.plans.values()\n"
         ">>> plan.stats()['nodes']\n1\n"},
        {Py_tp_dealloc, plan_dealloc},
        {Py_tp_call, plan_call},
        {Py_tp_repr, plan_repr},
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
