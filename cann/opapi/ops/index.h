/* What reading and writing by index share. */
#ifndef WEIR_OPAPI_INDEX_H
#define WEIR_OPAPI_INDEX_H

#include "run.h"

/* What a list of indices means: the dims they are for come first, as one dim. */
struct picked {
    tensor *place;       /* in that dim, of the indices' shape */
    int order[MAX_DIMS]; /* self's dims: those indexed, then the rest */
    int indexed;         /* how many are */
    int64_t rest_shape[MAX_DIMS];
    int rest;
    bool adjacent; /* so the indices' dims go where the first was */
    int first;
};

struct picked pick(struct call *c, tensor *x, int list);
tensor *rows_of(struct call *c, tensor *x, const struct picked *p);
int result_order(const struct picked *p, int *dims);

#endif
