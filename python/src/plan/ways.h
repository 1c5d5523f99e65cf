/* A plan on memory of others, between bind() and its calls. */
#ifndef WEIRPY_PLAN_WAYS_H
#define WEIRPY_PLAN_WAYS_H

#include "weirpy.h"

/* Memory of others that stands for an input or output, kept while its address stays. */
struct binding {
    weir_tensor *tensor;
    void *address;
    weir_dtype dtype;
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
    size_t bytes;
    bool written;        /* an input that runs write to */
    int moves;           /* how often the address was another one, up to some number */
    weir_tensor *staged; /* NULL before it is needed */
    void *to;            /* while a call runs: where to copy it, or NULL */
};

struct plan_ways {
    Py_ssize_t nin, nout;
    struct binding *bindings; /* inputs, then outputs */
    Py_ssize_t *arguments;    /* by input: which argument of the call it is */
    PyObject *makers;         /* by output: (function, arguments) that makes memory for it */
    PyObject *results;        /* outputs by number, argument i as -1 - i, (object,) as it is */
    bool staging;             /* a call uses what is staged; under the GIL */
};

/* From its type and shape. */
void binding_set_bytes(struct binding *b);

#endif
