/* How a view was made: the calls that made it, so that it can be made again over other
 * sizes. Only tensors of graphs with dynamic inputs have one. */
#ifndef WEIR_TENSOR_RECIPE_H
#define WEIR_TENSOR_RECIPE_H

#include <stdatomic.h>

#include "tensor/view.h"

/* One call, with its arguments as the user gave them: -1 and negative ones too. */
struct weir__view_step {
    enum weir__view_kind {
        WEIR__VIEW_SLICE, /* dim, start, stop, step */
        WEIR__VIEW_PERMUTE,
        WEIR__VIEW_RESHAPE,
        WEIR__VIEW_EXPAND,
    } kind;
    int n; /* of the arguments, at most WEIR_MAX_DIMS */
    int64_t args[WEIR_MAX_DIMS];
};

/* Steps that one view may be made of; real ones take a few. */
#define WEIR__RECIPE_MAX 256

/* Counted, and never changed once made. */
struct weir__recipe {
    _Atomic int refs;
    int length;                  /* steps, this one included */
    bool is_named;               /* one of them has named sizes (tensor/size.h) */
    struct weir__recipe *before; /* NULL: the first step, on a whole value */
    struct weir__view_step step;
};

/* Changes *v as the call does; data is not followed. On an error *v is of no use. `sizes` has the
 * values of named sizes; NULL: their examples.
 * returns  what the public call does. */
weir_status weir__view_apply_step(struct weir__view *v, const struct weir__view_step *step,
                                  const int64_t *sizes);

/* A recipe of one more step, which has its own hold on `before`.
 * returns  WEIR_ERANGE for more than WEIR__RECIPE_MAX steps. */
weir_status weir__recipe_make(struct weir__recipe *before, const struct weir__view_step *step,
                              struct weir__recipe **out);
struct weir__recipe *weir__recipe_retain(struct weir__recipe *recipe);
void weir__recipe_release(struct weir__recipe *recipe);
/* All steps, from a whole value. NULL has none. */
weir_status weir__recipe_apply(const struct weir__recipe *recipe, struct weir__view *v,
                               const int64_t *sizes);

#endif
