/* Plans on memory of others: which argument an input is, who makes memory for an output, and
 * what a call gives. All of a call is done here, since what it takes is what users pay for a
 * compiled function beside its work. */
#include "plan/ways.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 32 };

/* A plan has its kernels prepared for the addresses of the last call, and preparing them anew
 * takes longer than a small run. So small memory that is elsewhere at every call is copied to or
 * from a place that stays, unless it is an argument that the run writes to. */
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

/* A handle on memory of others; NULL with an exception. */
static weir_tensor *wrap(struct plan_ways *p, weir_stream *s, weir_dtype dtype, int ndim,
                         const int64_t *shape, void *address)
{
    weir_tensor *made = NULL;
    /* Tensors without elements have no address, but a plan wants one. */
    weir_status st = weir_tensor_wrap(s, dtype, ndim, shape, NULL, address ? address : (void *)p,
                                      NULL, NULL, &made);

    if (st)
        raise_status(st);
    return made;
}

/* The binding stands for the memory at the address. */
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

/* A copy stands for the memory at the address; that of an output is filled after the run. */
static bool stage(weir_stream *s, struct binding *b, void *address, bool is_input)
{
    weir_tensor *made = NULL;
    weir_status st = WEIR_OK;

    /* New memory may be what queued work of the stream still uses: the run of an output comes after
     * that, the host's copy of an input has to wait. Only this call stages meanwhile. */
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

/* Work may go on after a failed wait: what it touches must stay until it is over. */
static void keep_memory(weir_stream *s, PyObject *const *objects, size_t n)
{
    PyObject *kind, *value, *trace, *kept;

    PyErr_Fetch(&kind, &value, &trace);
    kept = PyList_New(0);
    for (size_t i = 0; kept && i < n; i++)
        if (PyList_Append(kept, objects[i]))
            Py_CLEAR(kept);
    /* Without memory or a callback they stay for ever, which is safe. */
    for (size_t i = 0; !kept && i < n; i++)
        Py_INCREF(objects[i]);
    if (kept)
        (void)weir_stream_callback(s, memory_is_over, kept);
    PyErr_Clear();
    PyErr_Restore(kind, value, trace);
}

/* What a call has instead of what was bound: tuples with None for what stays, or NULL. */
struct layouts {
    PyObject *shapes; /* by input and output */
    PyObject *makers; /* by output: arguments of its maker */
};

/* What the run works on: arguments for inputs, new memory for outputs. */
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

/* The binding is of this shape from now on. */
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

/* Memory that a call works on: objects with data_ptr(), kept alive, and handles on them. */
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

/* A tensor of elements without memory is all zeros (PyTorch's gradients of what is constant): a
 * copy has memory. */
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

/* The handle for operand `i`, which is the memory of the object. Nothing that could let another
 * thread in stands between its shape and the handle. */
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
    /* While another call runs, the shapes are its own. */
    if (shape != Py_None && !may_stage)
        return wrap(p, s, b->dtype, ndim, dims, address);
    if (shape != Py_None)
        reshape(b, dims, ndim);
    if (may_stage)
        b->to = NULL;
    if (may_stage && is_worth_staging(b))
        return stage(s, b, address, i < p->nin) ? weir_tensor_retain(b->staged) : NULL;
    /* Retained, because another thread may rebind while this one runs. */
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
            staging = false; /* the run may go on: what is staged stays its own */
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

PyObject *plan_ways_call_at(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                            bool *failed)
{
    struct layouts now;
    PyObject *list;

    *failed = false;
    if (!PyArg_ParseTuple(args, "OO!O!:call_at", &list, &PyTuple_Type, &now.shapes, &PyTuple_Type,
                          &now.makers))
        return NULL;
    if (PyTuple_Size(now.shapes) != p->nin + p->nout || PyTuple_Size(now.makers) != p->nout)
        return PyErr_Format(PyExc_ValueError,
                            "call_at needs %zd shapes and arguments for %zd outputs, or None",
                            p->nin + p->nout, p->nout);
    return call(p, plan, s, list, &now, failed);
}

static weir_status issue(weir_plan *plan, weir_stream *s, const struct plan_ways *p,
                         struct operands *o, void *native)
{
    weir_status st = weir_stream_wait_native(s, native), signalled;

    if (st)
        return st;
    st = weir_plan_run(plan, s, o->tensors, (size_t)p->nin, o->tensors + p->nin, (size_t)p->nout);
    /* In any case: memory that the run may touch is used again on the native stream. */
    signalled = weir_stream_signal_native(s, native);
    return st ? st : signalled;
}

PyObject *plan_ways_issue(struct plan_ways *p, weir_plan *plan, weir_stream *s, PyObject *args,
                          void *native)
{
    PyObject *results = NULL;
    struct operands o;
    weir_status st;

    if (gather(p, s, args, NULL, &o, false)) {
        BLOCKING(st, issue(plan, s, p, &o, native));
        results = st ? raise_status(st) : make_results(p, args, o.objects + p->nin);
    }
    drop(&o);
    return results;
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
