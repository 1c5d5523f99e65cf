/* Runs plans on memory of other libraries: maps arguments to inputs, allocates memory for outputs,
 * and builds the results. A whole call is done in C, since its time is the overhead of a compiled
 * function. */
#include "plan/ways.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 32 };

/* A plan keeps its kernels prepared for the addresses of the last call, and preparing them again
 * takes longer than a small run. So small memory whose address changes at every call is copied to
 * or from memory with a fixed address (staged), unless it is an argument that the run writes to. */
enum { SMALL = 1024, OFTEN = 2 };

bool address_of(PyObject *object, void **address)
{
    static PyObject *data_ptr;
    PyObject *number;

    if (!data_ptr && !(data_ptr = PyUnicode_InternFromString("data_ptr")))
        return false;
    if (!(number = PyObject_CallMethodObjArgs(object, data_ptr, NULL)))
        return false;
    *address = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return !PyErr_Occurred();
}

/* Wraps memory of another library in a tensor; NULL with an exception. */
static weir_tensor *wrap(struct plan_ways *p, weir_stream *s, weir_dtype dtype, int ndim,
                         const int64_t *shape, void *address)
{
    weir_tensor *made = NULL;
    /* Tensors without elements have no address, but a plan requires one. */
    weir_status st = weir_tensor_wrap(s, dtype, ndim, shape, NULL, address ? address : (void *)p,
                                      NULL, NULL, &made);

    if (st)
        raise_status(st);
    return made;
}

/* Binds the memory at the address. */
static bool rebind(struct plan_ways *p, weir_stream *s, struct binding *b, void *address)
{
    if (b->tensor && b->address == address)
        return true;
    if (b->tensor && b->moves < OFTEN)
        b->moves++;
    weir_tensor_release(b->tensor);
    b->tensor = NULL;
    b->address = address;
    return (b->tensor = wrap(p, s, b->dtype, b->ndim, b->shape, address));
}

static bool is_worth_staging(const struct binding *b)
{
    return b->moves == OFTEN && b->bytes && b->bytes <= SMALL && !b->written;
}

/* Stages the memory at the address: copies an input now; an output is copied after the run. */
static bool stage(weir_stream *s, struct binding *b, void *address, bool is_input)
{
    weir_tensor *made = NULL;
    weir_status st = WEIR_OK;

    /* Queued work of the stream may still use the new memory. The run, which writes an output, is
     * ordered after that work; the host's copy of an input must wait for it. No other call stages
     * meanwhile. */
    if (!b->staged && is_input)
        BLOCKING(st, weir_tensor_from(s, b->dtype, b->ndim, b->shape, address, &made));
    else if (!b->staged)
        st = weir_tensor_empty(s, b->dtype, b->ndim, b->shape, &made);
    else if (is_input)
        memcpy(weir_tensor_data(b->staged), address, b->bytes);
    if (st) {
        weir_tensor_release(made);
        raise_status(st);
        return false;
    }
    if (made)
        b->staged = made;
    if (!is_input)
        b->to = address;
    return true;
}

static void copy_staged(struct plan_ways *p)
{
    for (struct binding *b = p->bindings + p->nin; b < p->bindings + p->nin + p->nout; b++)
        if (b->to)
            memcpy(b->to, weir_tensor_data(b->staged), b->bytes);
}

static void memory_is_over(void *user, weir_status status)
{
    (void)status;
    drop_later(user);
}

/* Work may continue after a failed wait: keeps its memory alive until it has completed. */
static void keep_memory(weir_stream *s, PyObject *const *objects, size_t n)
{
    PyObject *kind, *value, *trace, *kept;

    PyErr_Fetch(&kind, &value, &trace);
    kept = PyList_New(0);
    for (size_t i = 0; kept && i < n; i++)
        if (PyList_Append(kept, objects[i]))
            Py_CLEAR(kept);
    /* If this fails, the objects are never freed, which is safe. */
    for (size_t i = 0; !kept && i < n; i++)
        Py_INCREF(objects[i]);
    if (kept)
        (void)weir_stream_callback(s, memory_is_over, kept);
    PyErr_Clear();
    PyErr_Restore(kind, value, trace);
}

/* Values of a call that replace bound ones: tuples, with None for an unchanged entry; or NULL. */
struct layouts {
    PyObject *shapes; /* by input and output */
    PyObject *makers; /* by output: arguments of its maker */
};

/* Returns the object for operand i: the argument for an input, new memory for an output. */
static PyObject *operand(const struct plan_ways *p, PyObject *args, const struct layouts *now,
                         Py_ssize_t i)
{
    PyObject *maker, *how;

    if (i < p->nin)
        return PySequence_GetItem(args, p->arguments[i]);
    maker = PyTuple_GetItem(p->makers, i - p->nin);
    how = now ? PyTuple_GetItem(now->makers, i - p->nin) : Py_None;
    return PyObject_Call(PyTuple_GetItem(maker, 0),
                         how == Py_None ? PyTuple_GetItem(maker, 1) : how, NULL);
}

/* Changes the binding's shape. */
static void reshape(struct binding *b, const int64_t *dims, int ndim)
{
    if (ndim == b->ndim && !memcmp(dims, b->shape, (size_t)ndim * sizeof *dims))
        return;
    weir_tensor_release(b->tensor);
    weir_tensor_release(b->staged);
    b->tensor = b->staged = NULL;
    b->ndim = ndim;
    memcpy(b->shape, dims, (size_t)ndim * sizeof *dims);
    binding_set_bytes(b);
}

static PyObject *make_result(PyObject *what, PyObject *args, PyObject *const *outputs)
{
    Py_ssize_t slot;

    if (PyTuple_Check(what))
        return Py_NewRef(PyTuple_GetItem(what, 0));
    slot = PyLong_AsSsize_t(what);
    return slot < 0 ? PySequence_GetItem(args, -1 - slot) : Py_NewRef(outputs[slot]);
}

static PyObject *make_results(const struct plan_ways *p, PyObject *args, PyObject *const *outputs)
{
    Py_ssize_t n = PyTuple_Size(p->results);
    PyObject *list = PyList_New(n);

    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *item = make_result(PyTuple_GetItem(p->results, i), args, outputs);

        if (!item || PyList_SetItem(list, i, item))
            Py_CLEAR(list);
    }
    return list;
}

/* The memory of a call: objects with data_ptr(), which are kept alive, and tensors that wrap
 * them. */
struct operands {
    PyObject **objects;
    weir_tensor **tensors;
    size_t n;
    PyObject *few_objects[FEW];
    weir_tensor *few_tensors[FEW];
};

static bool has_elements(const int64_t *shape, int ndim)
{
    for (int i = 0; i < ndim; i++)
        if (!shape[i])
            return false;
    return true;
}

/* Replaces a tensor with elements but without memory by a copy with memory. Such tensors are
 * PyTorch's zero gradients of constants. */
static bool give_memory(PyObject **object, bool is_written, void **address)
{
    PyObject *copy;

    if (is_written || !PyObject_HasAttrString(*object, "_is_zerotensor")) {
        PyErr_Format(PyExc_ValueError, "a tensor that a plan %s has no memory",
                     is_written ? "writes to" : "reads");
        return false;
    }
    if (!(copy = PyObject_CallMethod(*object, "clone", NULL)))
        return false;
    Py_DECREF(*object);
    *object = copy;
    if (address_of(copy, address) && !*address)
        PyErr_SetString(PyExc_ValueError, "a tensor that a plan reads has no memory");
    return !PyErr_Occurred();
}

/* Returns the tensor for operand i in the object's memory. Between setting the binding's shape and
 * using it nothing may release the GIL. */
static weir_tensor *handle(struct plan_ways *p, weir_stream *s, Py_ssize_t i, PyObject **object,
                           const struct layouts *now, bool may_stage)
{
    struct binding *b = &p->bindings[i];
    PyObject *shape = now ? PyTuple_GetItem(now->shapes, i) : Py_None;
    int64_t dims[WEIR_MAX_DIMS];
    void *address;
    int ndim;

    if (!address_of(*object, &address) ||
        (shape != Py_None && !to_dims(shape, "a shape", dims, WEIR_MAX_DIMS, &ndim)))
        return NULL;
    if (!address &&
        (shape != Py_None ? has_elements(dims, ndim) : has_elements(b->shape, b->ndim)) &&
        !give_memory(object, b->written || i >= p->nin, &address))
        return NULL;
    /* While another call runs, the bindings have its shapes: do not change them. */
    if (shape != Py_None && !may_stage)
        return wrap(p, s, b->dtype, ndim, dims, address);
    if (shape != Py_None)
        reshape(b, dims, ndim);
    if (may_stage)
        b->to = NULL;
    if (may_stage && is_worth_staging(b))
        return stage(s, b, address, i < p->nin) ? weir_tensor_retain(b->staged) : NULL;
    /* Retain it, because another thread may rebind while this one runs. */
    return rebind(p, s, b, address) ? weir_tensor_retain(b->tensor) : NULL;
}

static bool gather(struct plan_ways *p, weir_stream *s, PyObject *args, const struct layouts *now,
                   struct operands *o, bool may_stage)
{
    size_t all = (size_t)(p->nin + p->nout);

    o->objects = o->few_objects;
    o->tensors = o->few_tensors;
    o->n = 0;
    if (all > FEW) {
        if (!(o->objects = malloc(all * (sizeof *o->objects + sizeof *o->tensors)))) {
            PyErr_NoMemory();
            return false;
        }
        o->tensors = (weir_tensor **)(o->objects + all);
    }
    for (; o->n < all; o->n++) {
        if (!(o->objects[o->n] = operand(p, args, now, (Py_ssize_t)o->n)))
            return false;
        o->tensors[o->n] = handle(p, s, (Py_ssize_t)o->n, &o->objects[o->n], now, may_stage);
        if (!o->tensors[o->n]) {
            Py_DECREF(o->objects[o->n]);
            return false;
        }
    }
    return true;
}

static void drop(struct operands *o)
{
    for (size_t i = 0; i < o->n; i++) {
        weir_tensor_release(o->tensors[i]);
        Py_DECREF(o->objects[i]);
    }
    if (o->objects != o->few_objects)
        free(o->objects);
}

static PyObject *call(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                      const struct layouts *now, bool *failed)
{
    bool may_stage = !p->staging, staging = may_stage, done;
    PyObject *results = NULL;
    struct operands o;
    weir_status st;

    p->staging = true;
    *failed = false;
    if (gather(p, s, args, now, &o, may_stage)) {
        BLOCKING(st, weir_plan_call(plan, s, o.tensors, (size_t)p->nin, o.tensors + p->nin,
                                    (size_t)p->nout));
        if (st) {
            raise_status(st);
            *failed = weir_stream_query(s, &done) != WEIR_OK;
            keep_memory(s, o.objects, o.n);
            staging = false; /* the run may continue: leave the staged memory to it */
        } else {
            if (may_stage)
                copy_staged(p);
            results = make_results(p, args, o.objects + p->nin);
        }
    }
    if (staging)
        p->staging = false;
    drop(&o);
    return results;
}

PyObject *plan_ways_call(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                         bool *failed)
{
    return call(p, plan, s, args, NULL, failed);
}

static bool are_for_all(const struct plan_ways *p, const struct layouts *now)
{
    if (PyTuple_Size(now->shapes) == p->nin + p->nout && PyTuple_Size(now->makers) == p->nout)
        return true;
    PyErr_Format(PyExc_ValueError,
                 "a call of other sizes needs %zd shapes and arguments for %zd outputs, or None",
                 p->nin + p->nout, p->nout);
    return false;
}

PyObject *plan_ways_call_at(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                            bool *failed)
{
    struct layouts now;
    PyObject *list;

    *failed = false;
    if (!PyArg_ParseTuple(args, "OO!O!:call_at", &list, &PyTuple_Type, &now.shapes, &PyTuple_Type,
                          &now.makers) ||
        !are_for_all(p, &now))
        return NULL;
    return call(p, plan, s, list, &now, failed);
}

static weir_status issue(weir_plan *plan, weir_stream *s, const struct plan_ways *p,
                         struct operands *o, void *native)
{
    weir_status st = weir_stream_wait_native(s, native), signalled;

    if (st)
        return st;
    st = weir_plan_run(plan, s, o->tensors, (size_t)p->nin, o->tensors + p->nin, (size_t)p->nout);
    /* Always signal: the native stream will reuse memory that the run may access. */
    signalled = weir_stream_signal_native(s, native);
    return st ? st : signalled;
}

static PyObject *issue_call(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                            const struct layouts *now, void *native)
{
    PyObject *results = NULL;
    struct operands o;
    weir_status st;

    if (gather(p, s, args, now, &o, false)) {
        BLOCKING(st, issue(plan, s, p, &o, native));
        results = st ? raise_status(st) : make_results(p, args, o.objects + p->nin);
    }
    drop(&o);
    return results;
}

PyObject *plan_ways_issue(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                          void *native)
{
    return issue_call(p, plan, s, args, NULL, native);
}

PyObject *plan_ways_issue_at(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args)
{
    unsigned long long native;
    struct layouts now;
    PyObject *list;

    if (!PyArg_ParseTuple(args, "OO!O!K:issue_at", &list, &PyTuple_Type, &now.shapes, &PyTuple_Type,
                          &now.makers, &native) ||
        !are_for_all(p, &now))
        return NULL;
    return issue_call(p, plan, s, list, &now, (void *)(uintptr_t)native);
}

PyObject *plan_ways_record(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                           void *native, weir_tape *tape)
{
    PyObject *results = NULL;
    struct operands o;
    weir_status st;

    if (gather(p, s, args, NULL, &o, false)) {
        BLOCKING(st, weir_tape_add(tape, plan, s, o.tensors, (size_t)p->nin, o.tensors + p->nin,
                                   (size_t)p->nout, native));
        results = st ? raise_status(st) : make_results(p, args, o.objects + p->nin);
    }
    drop(&o);
    return results;
}
