/* The extension module weir._C: thin objects over the C library.
 *
 * Every object keeps its Device alive, so a device closes when its last object is freed. The GIL is
 * released around every call that can block. A waiting thread checks for signals
 * (weir_wait_hook_set), so Ctrl-C ends a wait. Python objects that the library's threads no longer
 * need are put on a list, and the next thread that holds the GIL drops them. So a worker never
 * waits for the GIL to free an object.
 */
#ifndef WEIRPY_H
#define WEIRPY_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <weir/weir.h>

/* Python stores functions in void pointers, which ISO C does not allow. */
#pragma GCC diagnostic ignored "-Wpedantic"

typedef struct DeviceObject {
    PyObject ob_base;     /* what PyObject_HEAD stands for */
    weir_device *dev;     /* NULL once closed */
    unsigned forks;       /* weirpy_forks when it was opened */
    size_t kept_reserved; /* a peak from before the other one was reset, or 0 */
    size_t kept_allocated;
    weir_stream *stand_in; /* runs compiled calls after one has failed on the default stream */
    weir_stream *before;   /* the previous stand_in, which another thread may still use */
    struct DeviceObject *next, **link; /* list of the open devices of this process */
} DeviceObject;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_stream *stream;
    bool owned; /* created here; the dealloc destroys it */
} StreamObject;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_event *event;
} EventObject;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_tensor *tensor;
} TensorObject;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_graph *graph;
    PyObject *calls; /* list: the functions that its nodes call */
} GraphObject;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_tape *tape;
    PyObject *plans; /* list of its plans, which must outlive it */
} TapeObject;

typedef struct {
    PyObject ob_base;
    DeviceObject *device;
    weir_group *group; /* NULL once closed */
} GroupObject;

typedef struct {
    PyObject ob_base;
    weir_dtype code;
} DTypeObject;

extern PyTypeObject *DeviceType, *StreamType, *EventType, *TensorType, *GraphType, *PlanType,
    *DTypeType, *TapeType;

/* ---- module.c ---- */

/* Raises the exception for a failed call; keeps one that is set already (Ctrl-C in a wait).
 * Always returns NULL. */
PyObject *raise_status(weir_status status);
/* Returns None, or NULL with the exception. */
PyObject *none_or(weir_status status);
/* Joins tables of methods into one of `room` rows, as a type takes only one; `tables` ends with
 * NULL. NULL with an exception if they do not fit. */
PyMethodDef *join_methods(PyMethodDef *all, size_t room, PyMethodDef *const *tables);
/* Call before releasing the GIL to wait. */
void before_wait(void);

#define BLOCKING(status, call)             \
    do {                                   \
        PyThreadState *saved_;             \
        before_wait();                     \
        saved_ = PyEval_SaveThread();      \
        status = (call);                   \
        PyEval_RestoreThread(saved_);      \
        if (PyErr_Occurred() && !(status)) \
            status = WEIR_EINTERRUPTED;    \
    } while (0)

/* Allocates an object of a type without a constructor; its dealloc must end with object_free. */
void *object_new(PyTypeObject *type);
void object_free(PyObject *self);
#define DROP(object) Py_XDECREF((PyObject *)(object))

/* How often this process has forked since the module was loaded. */
extern unsigned weirpy_forks;
/* Set when Python is about to end: the library's threads must not call it any more. */
extern _Atomic bool weirpy_ending;

/* Drops a reference as soon as some thread holds the GIL. May be called by any thread, with or
 * without the GIL. */
void drop_later(PyObject *object);

/* Parses fastcall arguments into slots, by position or name; absent ones are NULL. `names` ends
 * with NULL and has at most MAX_SLOTS entries; the first `required` arguments must be given. */
#define MAX_SLOTS 12
bool parse_args(const char *function, const char *const *names, int required, PyObject *const *args,
                Py_ssize_t nargs, PyObject *kwnames, PyObject **slots);

/* ---- arguments: false with an exception set ---- */

bool is_absent(PyObject *o); /* not given, or None */
bool to_int(PyObject *o, const char *what, int *out);
bool to_int64(PyObject *o, const char *what, int64_t *out);
bool to_double(PyObject *o, const char *what, double *out);
/* The same for an element of that type: fails if an integer would lose bits. */
bool to_value(PyObject *o, const char *what, weir_dtype dtype, double *out);
/* Reads a sequence of ints, or one int. */
bool to_dims(PyObject *o, const char *what, int64_t *out, int max, int *n);
bool to_dtype(PyObject *o, weir_dtype *out);
bool to_tensor(PyObject *o, const char *what, weir_tensor **out); /* borrowed */
PyObject *dtype_object(weir_dtype dtype);                         /* new reference */
PyObject *dims_tuple(const int64_t *dims, int n);

/* ---- device.c, stream.c ---- */

/* Raises if the device was closed, or opened before a fork. */
bool device_check(const DeviceObject *device);
/* True if its C objects may be released: not in a forked child. */
bool device_alive(const DeviceObject *device);
/* Returns the device of an argument: a Device, a spec, or None for the default. New reference. */
DeviceObject *to_device(PyObject *o);
/* Returns the default device, opened on first use in this process. New reference. */
DeviceObject *default_device(void);
PyObject *device_dlpack(const DeviceObject *device); /* (type, id) */
PyObject *current_stream(DeviceObject *device);
PyObject *wrap_stream(DeviceObject *device, weir_stream *stream, bool owned);

/* ---- tensor.c ---- */

/* Takes ownership of the handle, also on failure. */
PyObject *wrap_tensor(DeviceObject *device, weir_tensor *tensor);
/* Returns a new 0-d tensor of that value; NULL with an exception. */
weir_tensor *scalar_tensor(weir_device *dev, weir_dtype dtype, double value);

/* ---- index.c ---- */
PyObject *tensor_subscript(PyObject *self, PyObject *key);
int tensor_assign(PyObject *self, PyObject *key, PyObject *value);

/* ---- exchange.c ---- */
int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void tensor_releasebuffer(PyObject *self, Py_buffer *view);
extern PyMethodDef exchange_functions[], exchange_methods[];

/* ---- ops.c ---- */
extern PyMethodDef op_functions[], op_methods[];
PyObject *op_number(int which, PyObject *a, PyObject *b);
enum {
    NUMBER_ADD,
    NUMBER_SUB,
    NUMBER_MUL,
    NUMBER_DIV,
    NUMBER_POW,
    NUMBER_AND,
    NUMBER_OR,
    NUMBER_XOR,
    NUMBER_LEFT,
    NUMBER_RIGHT,
    NUMBER_MATMUL
};
PyObject *op_compare(PyObject *a, PyObject *b, int op);
PyObject *op_neg(PyObject *a);
PyObject *op_invert(PyObject *a);
PyObject *op_abs(PyObject *a);

/* ---- log.c ---- */
extern PyMethodDef log_functions[];
/* Delivers the library's messages so far to Python. Call with the GIL; always returns 0. */
int log_deliver(void *unused);

/* ---- race.c ---- */
extern bool weirpy_checking; /* the race checker is on: calls record their Python line */
void note_source(void);
extern PyMethodDef race_functions[];

/* ---- memory.c, scope.c, graph.c, host_call.c, trace.c, native.c ---- */
extern PyMethodDef memory_methods[], scope_functions[], host_call_functions[], trace_functions[],
    native_functions[];
PyObject *graph_current_calls(void); /* borrowed; NULL if this thread captures none */

/* ---- findings.c ---- */
PyObject *graph_check(PyObject *self, PyObject *args, PyObject *kwargs);

bool add_types(PyObject *module);
bool add_device_type(PyObject *module);
bool add_stream_types(PyObject *module);
bool add_tensor_type(PyObject *module);
bool add_graph_types(PyObject *module);

/* ---- group.c, group_calls.c ---- */
/* This process's rank of an open group; NULL with an exception. */
weir_rank *group_rank(PyObject *self);
extern PyMethodDef group_calls[];
bool add_group_type(PyObject *module);

/* ---- plan/plan.c ---- */
/* Takes ownership of the plan. */
PyObject *wrap_plan(GraphObject *graph, weir_plan *plan);
bool add_plan_type(PyObject *module);

/* ---- plan/bind.c, plan/ways.c ---- */
struct plan_ways;
/* Parses the arguments of bind; NULL with an exception. */
struct plan_ways *plan_ways_parse(const weir_plan *plan, PyObject *args);
/* Runs the plan and waits. Sets *failed if the stream is in error now. */
PyObject *plan_ways_call(struct plan_ways *ways, weir_plan *plan, weir_stream *stream,
                         PyObject *args, bool *failed);
/* The same with other sizes than bind's; the arguments are call_at's. */
PyObject *plan_ways_call_at(struct plan_ways *ways, weir_plan *plan, weir_stream *stream,
                            PyObject *args, bool *failed);
/* Queues a run on the stream, ordered after the native stream's present work and before its later
 * work. */
PyObject *plan_ways_issue(struct plan_ways *ways, weir_plan *plan, weir_stream *stream,
                          PyObject *args, void *native);
/* The same with other sizes than bind's; the arguments are issue_at's. */
PyObject *plan_ways_issue_at(struct plan_ways *ways, weir_plan *plan, weir_stream *stream,
                             PyObject *args);
/* Records a run on the tape, as a part of the graph into which the native stream is captured. */
PyObject *plan_ways_record(struct plan_ways *ways, weir_plan *plan, weir_stream *stream,
                           PyObject *args, void *native, weir_tape *tape);
/* Calls object.data_ptr(). */
bool address_of(PyObject *object, void **address);
/* `alive`: the device's objects may be released (device_alive). `ways` may be NULL. */
void plan_ways_free(struct plan_ways *ways, bool alive);

/* ---- plan/tape.c ---- */
bool add_tape_type(PyObject *module);
extern PyMethodDef tape_functions[];

/* ---- results/tensor.c ---- */
extern PyMethodDef result_functions[];

#endif
