/* Runs the static checks on graphs and returns the findings. */
#include "weirpy.h"

static PyObject *text_list(const char *const *texts, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *text = PyUnicode_FromString(texts[i]);

        if (!text || PyList_SetItem(list, (Py_ssize_t)i, text))
            Py_CLEAR(list);
    }
    return list;
}

static const char *policy_name(const weir_finding *f)
{
    return !f->policy ? NULL : f->policy == WEIR_POLICY_HOLD ? "hold" : "batch";
}

static PyObject *finding_dict(const weir_finding *f)
{
    PyObject *steps = text_list(f->steps, f->nsteps);
    PyObject *cycle = text_list(f->cycle, f->ncycle);
    PyObject *nodes = text_list(f->nodes, f->nnodes), *row = NULL;

    if (steps && cycle && nodes)
        row = Py_BuildValue("{sssOszsssOsOsOsz}", "kind", weir_finding_name(f->kind), "is_error",
                            f->is_error ? Py_True : Py_False, "policy", policy_name(f), "text",
                            f->text, "steps", steps, "cycle", cycle, "nodes", nodes, "remedy",
                            f->remedy.text);
    Py_XDECREF(steps);
    Py_XDECREF(cycle);
    Py_XDECREF(nodes);
    return row;
}

enum { MAX_RANKS = 64 };

/* Collects the graphs of all ranks: `first`, then those in the tuple `others`, as borrowed
 * references. */
static Py_ssize_t gather_ranks(GraphObject *first, PyObject *others, weir_graph **graphs)
{
    Py_ssize_t n = PyTuple_Size(others);

    if (n + 1 > MAX_RANKS) {
        PyErr_Format(PyExc_ValueError, "check takes at most %d ranks, not %zd", MAX_RANKS, n + 1);
        return -1;
    }
    graphs[0] = first->graph;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyTuple_GetItem(others, i);

        if (!Py_IS_TYPE(o, GraphType)) {
            PyErr_Format(PyExc_TypeError, "each of others must be a weir.Graph, not %R",
                         (PyObject *)Py_TYPE(o));
            return -1;
        }
        if (!device_check(((GraphObject *)o)->device))
            return -1;
        graphs[i + 1] = ((GraphObject *)o)->graph;
    }
    return n + 1;
}

static PyObject *list_findings(const weir_check_report *report)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < report->nfindings; i++) {
        PyObject *row = finding_dict(&report->findings[i]);

        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyObject *graph_check(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"others", "single_stream", NULL};
    weir_graph *graphs[MAX_RANKS];
    GraphObject *g = (GraphObject *)self;
    weir_check_options options = {0};
    PyObject *others = NULL, *kept, *list = NULL;
    weir_check_report *report;
    Py_ssize_t nranks;
    int single = 0;
    weir_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Op:check", names, &others, &single) ||
        !device_check(g->device) || !(kept = others ? PySequence_Tuple(others) : PyTuple_New(0)))
        return NULL;
    if ((nranks = gather_ranks(g, kept, graphs)) > 0) {
        options.single_stream = single;
        BLOCKING(st, weir_check_graphs(graphs, (size_t)nranks, &options, &report));
        list = st ? raise_status(st) : list_findings(report);
        if (!st)
            weir_check_free(report);
    }
    Py_DECREF(kept);
    return list;
}
