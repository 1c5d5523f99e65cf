/* The race checker, and the Python line of each call. */
#include "weirpy.h"

#include <stdlib.h>
#include <string.h>

bool weirpy_checking;

/* File names by their Python string. They are never freed: reports may use them while work is
 * queued, and programs have few files. */
static PyObject *names; /* {filename: address} */

static const char *kept_name(PyObject *filename)
{
    PyObject *address, *bytes;
    char *text = NULL;

    if (!names && !(names = PyDict_New()))
        return NULL;
    if ((address = PyDict_GetItemWithError(names, filename)))
        return PyLong_AsVoidPtr(address);
    if ((bytes = PyUnicode_AsUTF8String(filename)) && (text = strdup(PyBytes_AsString(bytes))) &&
        (!(address = PyLong_FromVoidPtr(text)) || PyDict_SetItem(names, filename, address))) {
        free(text);
        text = NULL;
    }
    Py_XDECREF(address);
    Py_XDECREF(bytes);
    return text;
}

/* True if the frame is weir's own code; the caller's frame is wanted then. */
static bool is_ours(PyObject *frame)
{
    PyObject *globals = PyObject_GetAttrString(frame, "f_globals");
    PyObject *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    PyObject *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8String(name) : NULL;
    const char *module = text ? PyBytes_AsString(text) : "";
    bool ours = !strncmp(module, "weir.", 5);

    Py_XDECREF(text);
    Py_XDECREF(globals);
    return ours;
}

void note_source(void)
{
    PyObject *frame = Py_XNewRef((PyObject *)PyEval_GetFrame()), *code, *filename;

    while (frame && frame != Py_None && is_ours(frame)) {
        PyObject *back = PyObject_GetAttrString(frame, "f_back");

        Py_DECREF(frame);
        frame = back;
    }
    if (frame && frame != Py_None) {
        code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        if ((filename = PyObject_GetAttrString(code, "co_filename")))
            weir_source_set(kept_name(filename), PyFrame_GetLineNumber((PyFrameObject *)frame));
        Py_XDECREF(filename);
        Py_DECREF(code);
    }
    Py_XDECREF(frame);
    PyErr_Clear();
}

static const char *const modes[] = {"off", "report", "error", "autosync"};

static PyObject *set_mode(PyObject *self, PyObject *args)
{
    const char *text;
    weir_status st;

    (void)self;
    if (!PyArg_ParseTuple(args, "s:race_set_mode", &text))
        return NULL;
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++)
        if (!strcmp(text, modes[i])) {
            if ((st = weir_race_set_mode((weir_race_mode)i)))
                return raise_status(st);
            weirpy_checking = i != WEIR_RACE_OFF;
            Py_RETURN_NONE;
        }
    PyErr_Format(PyExc_ValueError,
                 "'%s' is not a mode of the race checker: off, report, error, "
                 "autosync",
                 text);
    return NULL;
}

static PyObject *access_dict(const weir_race_access *a)
{
    return Py_BuildValue("{sssssssssOsssi}", "op", a->op, "stream", a->stream, "device", a->device,
                         "tensor", a->tensor, "writes", a->writes ? Py_True : Py_False, "file",
                         a->file, "line", a->line);
}

static PyObject *list_races(PyObject *self, PyObject *none)
{
    size_t n = weir_race_list(NULL, 0, 0);
    weir_race *rows = calloc(n + 1, sizeof *rows);
    PyObject *list = rows ? PyList_New(0) : PyErr_NoMemory();

    (void)self, (void)none;
    if (rows && n)
        n = weir_race_list(rows, sizeof *rows, n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *first = access_dict(&rows[i].first), *second = access_dict(&rows[i].second);
        PyObject *row = first && second
                            ? Py_BuildValue("{sOsOsOsK}", "first", first, "second", second, "fixed",
                                            rows[i].fixed ? Py_True : Py_False, "times",
                                            (unsigned long long)rows[i].times)
                            : NULL;

        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
        Py_XDECREF(first);
        Py_XDECREF(second);
    }
    free(rows);
    return list;
}

static PyObject *report(PyObject *self, PyObject *none)
{
    char *text = weir_race_report();
    PyObject *o = text ? PyUnicode_FromString(text) : PyErr_NoMemory();

    (void)self, (void)none;
    free(text);
    return o;
}

PyMethodDef race_functions[] = {
    {"race_set_mode", set_mode, METH_VARARGS, "race_set_mode(mode)"},
    {"race_list", list_races, METH_NOARGS, "race_list() -> list[dict]"},
    {"race_report", report, METH_NOARGS, "race_report() -> str"},
    {NULL, NULL, 0, NULL},
};
