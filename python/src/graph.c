/* weir.Graph and weir.Plan. */
#include "weirpy.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *GraphType;

/* The graph that this thread captures; it keeps the functions of its nodes alive. */
static _Thread_local GraphObject *capturing;

PyObject *graph_current_calls(void)
{
    return capturing && weir_graph_current() == capturing->graph ? capturing->calls : NULL;
}

/* ---- graphs ---- */

/* Takes ownership of both. */
static PyObject *wrap_graph(DeviceObject *d, weir_graph *graph)
{
    GraphObject *g = (GraphObject *)object_new(GraphType);

    if (!g) {
        weir_graph_destroy(graph);
        DROP(d);
        return NULL;
    }
    g->device = d;
    g->graph = graph;
    if (!(g->calls = PyList_New(0))) {
        DROP(g);
        return NULL;
    }
    return (PyObject *)g;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    PyObject *device = NULL;
    weir_graph *graph;
    DeviceObject *d;
    weir_status st;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Graph", names, &device) ||
        !(d = to_device(device)))
        return NULL;
    if ((st = weir_graph_create(d->dev, &graph))) {
        raise_status(st); /* before DROP, which may close the device and change the error */
        DROP(d);
        return NULL;
    }
    return wrap_graph(d, graph);
}

static PyObject *graph_load(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "where", "device", NULL};
    const char *text, *where = "text";
    PyObject *device = NULL;
    weir_graph *graph;
    Py_ssize_t size;
    DeviceObject *d;
    weir_status st;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s#|sO:loads", names, &text, &size, &where,
                                     &device) ||
        !(d = to_device(device)))
        return NULL;
    if ((st = weir_graph_load(d->dev, text, (size_t)size, where, &graph))) {
        raise_status(st);
        DROP(d);
        return NULL;
    }
    return wrap_graph(d, graph);
}

static void graph_dealloc(PyObject *self)
{
    GraphObject *g = (GraphObject *)self;

    if (g->graph && device_alive(g->device)) {
        if (weir_graph_current() == g->graph)
            (void)!weir_graph_end(g->graph);
        weir_graph_destroy(g->graph);
    }
    if (capturing == g)
        capturing = NULL;
    Py_XDECREF(g->calls);
    DROP(g->device);
    object_free(self);
}

static PyObject *graph_input(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "shape", "dtype", NULL};
    GraphObject *g = (GraphObject *)self;
    PyObject *shape_object, *dtype_object_ = NULL;
    int64_t shape[WEIR_MAX_DIMS];
    weir_dtype dtype = WEIR_F32;
    const char *name;
    weir_tensor *t;
    weir_status st;
    int n;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|O:input", names, &name, &shape_object,
                                     &dtype_object_) ||
        !device_check(g->device) || !to_dims(shape_object, "shape", shape, WEIR_MAX_DIMS, &n) ||
        (!is_absent(dtype_object_) && !to_dtype(dtype_object_, &dtype)))
        return NULL;
    if ((st = weir_graph_input(g->graph, name, dtype, n, shape, &t)))
        return raise_status(st);
    return wrap_tensor(g->device, t);
}

static PyObject *graph_size(PyObject *self, PyObject *args)
{
    static const char *const names[] = {"add", "mul", "floordiv", "mod", "min", "max"};
    GraphObject *g = (GraphObject *)self;
    const char *op = NULL;
    long long a, b;
    int64_t size;
    weir_status st;

    if (PyTuple_Size(args) == 1) {
        if (!PyArg_ParseTuple(args, "L:size", &a) || !device_check(g->device))
            return NULL;
        st = weir_graph_size(g->graph, a, &size);
        return st ? raise_status(st) : PyLong_FromLongLong(size);
    }
    if (!PyArg_ParseTuple(args, "sLL:size", &op, &a, &b) || !device_check(g->device))
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(op, names[i])) {
            st = weir_graph_size_expr(g->graph, (weir_size_op)i, a, b, &size);
            return st ? raise_status(st) : PyLong_FromLongLong(size);
        }
    PyErr_Format(PyExc_ValueError,
                 "size operation '%s' is not one of add, mul, floordiv, mod, min, max", op);
    return NULL;
}

static PyObject *graph_describe(PyObject *self, PyObject *args)
{
    GraphObject *g = (GraphObject *)self;
    const char *module = NULL, *source = NULL;

    if (!PyArg_ParseTuple(args, "|zz:describe", &module, &source) || !device_check(g->device))
        return NULL;
    return none_or(weir_graph_describe(g->graph, module, source));
}

static PyObject *graph_output(PyObject *self, PyObject *args)
{
    GraphObject *g = (GraphObject *)self;
    const char *name;
    PyObject *tensor;
    weir_tensor *t;

    if (!PyArg_ParseTuple(args, "sO:output", &name, &tensor) || !device_check(g->device) ||
        !to_tensor(tensor, "tensor", &t))
        return NULL;
    return none_or(weir_graph_output(g->graph, name, t));
}

static PyObject *graph_begin(PyObject *self, PyObject *none)
{
    GraphObject *g = (GraphObject *)self;
    weir_status st;

    (void)none;
    if (!device_check(g->device))
        return NULL;
    if ((st = weir_graph_begin(g->graph)))
        return raise_status(st);
    capturing = g;
    return Py_NewRef(self);
}

static PyObject *graph_end(PyObject *self, PyObject *none)
{
    GraphObject *g = (GraphObject *)self;
    weir_status st;

    (void)none;
    if (!device_check(g->device))
        return NULL;
    if ((st = weir_graph_end(g->graph)))
        return raise_status(st);
    capturing = NULL;
    Py_RETURN_NONE;
}

static PyObject *graph_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return graph_end(self, NULL);
}

static PyObject *take_text(char *text)
{
    PyObject *o = text ? PyUnicode_FromString(text) : PyErr_NoMemory();

    free(text);
    return o;
}

static PyObject *graph_dump(PyObject *self, PyObject *none)
{
    GraphObject *g = (GraphObject *)self;

    (void)none;
    return device_check(g->device) ? take_text(weir_graph_dump(g->graph)) : NULL;
}

static PyObject *graph_dot(PyObject *self, PyObject *none)
{
    GraphObject *g = (GraphObject *)self;

    (void)none;
    return device_check(g->device) ? take_text(weir_graph_dot(g->graph)) : NULL;
}

static PyObject *graph_repr(PyObject *self)
{
    GraphObject *g = (GraphObject *)self;

    if (!device_alive(g->device))
        return PyUnicode_FromString("weir.Graph(of a closed device)");
    return PyUnicode_FromFormat("weir.Graph(%zu nodes on '%s')", weir_graph_node_count(g->graph),
                                weir_device_name(g->device->dev));
}

static Py_ssize_t graph_length(PyObject *self)
{
    GraphObject *g = (GraphObject *)self;

    return device_check(g->device) ? (Py_ssize_t)weir_graph_node_count(g->graph) : -1;
}

static PyObject *graph_compile(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mode",     "streams", "single_stream", "static_kernels", "cores",
                            "dump_dir", NULL};
    GraphObject *g = (GraphObject *)self;
    weir_compile_options options = {.size = sizeof options};
    const char *mode = NULL, *streams = NULL;
    int single = 0, frozen = 0;
    weir_plan *plan;
    weir_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zzppzz:compile", names, &mode, &streams,
                                     &single, &frozen, &options.cores, &options.dump_dir) ||
        !device_check(g->device))
        return NULL;
    options.single_stream = single;
    options.static_kernels = frozen;
    if ((st = weir_compile_mode_parse(mode, &options.mode)) ||
        (st = weir_stream_placement_parse(streams, &options.streams)))
        return raise_status(st);
    BLOCKING(st, weir_graph_compile(g->graph, &options, &plan));
    return st ? raise_status(st) : wrap_plan(g, plan);
}

#define KEYWORDS(f) ((PyCFunction)(void (*)(void))(f)), METH_VARARGS | METH_KEYWORDS

static PyMethodDef graph_methods[] = {
    {"input", KEYWORDS(graph_input),
     "input(name, shape, dtype=float32) -> Tensor\n\nA tensor whose values each run provides."},
    {"size", graph_size, METH_VARARGS,
     "size(example) -> int\nsize(op, a, b) -> int\n\nA size that each run decides, or one computed "
     "of two: 'add', 'mul', 'floordiv', 'mod', 'min' or 'max'. The number stands for it in shapes "
     "of "
     "inputs, in reshape, expand and slices of the graph's tensors, and here.\n\n"
     ">>> g = weir.Graph()\n"
     ">>> n = g.size(4)\n"
     ">>> x = g.input('x', (n, 2))\n"
     ">>> with g:\n"
     "...     y = x.reshape((g.size('mul', n, 2),)) + 1\n"
     ">>> g.output('y', y)\n"
     ">>> plan = g.compile()\n"
     ">>> plan(weir.zeros((3, 2))).shape\n(6,)\n"},
    {"describe", graph_describe, METH_VARARGS,
     "describe(module=None, source=None)\n\nWhere nodes that are added from now on come from: "
     "module "
     "begins their names, source is in files."},
    {"output", graph_output, METH_VARARGS, "output(name, tensor)\n\nNames a result."},
    {"begin", graph_begin, METH_NOARGS,
     "begin() -> Graph\n\nOperators of this thread become nodes; `with graph:` does the same."},
    {"end", graph_end, METH_NOARGS, "end()"},
    {"__enter__", graph_begin, METH_NOARGS, NULL},
    {"__exit__", graph_exit, METH_VARARGS, NULL},
    {"dump", graph_dump, METH_NOARGS, "dump() -> str\n\nThe graph as pbtxt."},
    {"dot", graph_dot, METH_NOARGS, "dot() -> str\n\nThe graph for Graphviz."},
    {"loads", (PyCFunction)(void (*)(void))graph_load, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "loads(text, where='text', device=None) -> Graph"},
    {"compile", KEYWORDS(graph_compile),
     "compile(mode=None, streams=None, single_stream=False, static_kernels=False, cores=None, "
     "dump_dir=None) -> Plan\n\nmode is 'max-autotune' (as without) or 'reduce-overhead'; streams "
     "'explicit' or 'auto', which places what has no label; cores '24|48' limits all of it; "
     "dump_dir is a folder for what each pass leaves."},
    {"check", KEYWORDS(graph_check),
     "check(others=(), single_stream=False) -> list[dict]\n\nWhat can go wrong when it runs, "
     "found without running it: operators that wait for each other's cores, labels that conflict "
     "with one stream, limits that cannot be met. others are the graphs of the other ranks. Each "
     "finding is a dict of kind, is_error, policy, text, steps, cycle, nodes and remedy.\n\n"
     ">>> g = weir.Graph()\n"
     ">>> x = g.input('x', (2,))\n"
     ">>> with g, weir.scope.npu_stream_switch('side'):\n"
     "...     y = x + 1\n"
     ">>> g.check()\n[]\n"
     ">>> [f['kind'] for f in g.check(single_stream=True)]\n['conflict']\n"},
    {NULL, NULL, 0, NULL},
};

bool add_graph_types(PyObject *module)
{
    static const char doc[] = "Graph(device=None)\n\nOperators captured once, compiled to a plan, "
                              "and run many times.\n\n"
                              ">>> g = weir.Graph()\n"
                              ">>> x = g.input('x', (2,))\n"
                              ">>> with g:\n"
                              "...     y = x * 2 + 1\n"
                              ">>> g.output('y', y)\n"
                              ">>> plan = g.compile()\n"
                              ">>> plan(weir.tensor([1.0, 2.0])).tolist()\n[3.0, 5.0]\n";

    PyType_Slot slots[] = {
        {Py_tp_doc, (void *)doc},
        {Py_tp_new, graph_new},
        {Py_tp_dealloc, graph_dealloc},
        {Py_tp_methods, graph_methods},
        {Py_mp_length, graph_length},
        {Py_tp_repr, graph_repr},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "weir.Graph",
        .basicsize = sizeof(GraphObject),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };

    GraphType = (PyTypeObject *)PyType_FromSpec(&spec);
    return GraphType && !PyModule_AddObjectRef(module, "Graph", (PyObject *)GraphType) &&
           add_plan_type(module) && add_tape_type(module);
}
