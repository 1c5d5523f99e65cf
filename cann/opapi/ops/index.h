/* Common code of reading and writing by index. */
#ifndef WEIR_OPAPI_INDEX_H
#define WEIR_OPAPI_INDEX_H

#include "run.h"

/* A list of indices, as one index into a tensor whose indexed dims come first, merged into one. */
struct picked {
    tensor *place;       /* index in the merged dim; it has the indices' shape */
    int order[MAX_DIMS]; /* self's dims: those indexed, then the rest */
    int indexed;         /* number of indexed dims */
    int64_t rest_shape[MAX_DIMS];
    int rest;
    bool adjacent; /* the indexed dims are adjacent: the indices' dims replace them */
    int first;
};

struct picked pick(struct call *c, tensor *x, int list);
tensor *rows_of(struct call *c, tensor *x, const struct picked *p);
int result_order(const struct picked *p, int *dims);

#endif
