/* The state of a plan that runs on memory of other libraries; made by bind(), used by calls. */
#ifndef WEIRPY_PLAN_WAYS_H
#define WEIRPY_PLAN_WAYS_H

#include "weirpy.h"

/* The memory bound to an input or output. The tensor is reused while the address stays the same. */
struct binding {
    weir_tensor *tensor;
    void *address;
    weir_dtype dtype;
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
    size_t bytes;
    bool written;        /* an input that runs write to */
    int moves;           /* how often the address has changed, up to a bound */
    weir_tensor *staged; /* NULL until it is needed */
    void *to;            /* during a call: where to copy the staged output, or NULL */
};

struct plan_ways {
    Py_ssize_t nin, nout;
    struct binding *bindings; /* inputs, then outputs */
    Py_ssize_t *arguments;    /* by input: index of the argument */
    PyObject *makers;         /* by output: (function, arguments) that allocates its memory */
    PyObject *results;        /* numbers of outputs, -1 - i for argument i, (object,) as it is */
    bool staging;             /* a call uses the staged memory; guarded by the GIL */
};

/* Computes the number of bytes from the type and shape. */
void binding_set_bytes(struct binding *b);

#endif
