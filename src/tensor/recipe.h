/* How a view was made: the calls that made it, so that they can be repeated with other sizes. Only
 * tensors of graphs with dynamic inputs have a recipe. */
#ifndef WEIR_TENSOR_RECIPE_H
#define WEIR_TENSOR_RECIPE_H

#include <stdatomic.h>

#include "tensor/view.h"

/* One call, with its arguments as the user gave them, including -1 and negative values. */
struct weir__view_step {
    enum weir__view_kind {
        WEIR__VIEW_SLICE, /* dim, start, stop, step */
        WEIR__VIEW_PERMUTE,
        WEIR__VIEW_RESHAPE,
        WEIR__VIEW_EXPAND,
    } kind;
    int n; /* number of arguments, at most WEIR_MAX_DIMS */
    int64_t args[WEIR_MAX_DIMS];
};

/* Limit on the steps of one view; real views have a few. */
#define WEIR__RECIPE_MAX 256

/* Reference-counted; immutable after its creation. */
struct weir__recipe {
    _Atomic int refs;
    int length;                  /* steps, this one included */
    bool is_named;               /* some step has named sizes (tensor/size.h) */
    struct weir__recipe *before; /* NULL: the first step, on a whole value */
    struct weir__view_step step;
};

/* Changes *v as the call does; does not dereference data. On an error *v is invalid. `sizes` holds
 * the values of named sizes; NULL: their examples.
 * returns  the errors of the public call. */
weir_status weir__view_apply_step(struct weir__view *v, const struct weir__view_step *step,
                                  const int64_t *sizes);

/* A recipe with one more step, which retains `before`. */
weir_status weir__recipe_make(struct weir__recipe *before, const struct weir__view_step *step,
                              struct weir__recipe **out);
struct weir__recipe *weir__recipe_retain(struct weir__recipe *recipe);
void weir__recipe_release(struct weir__recipe *recipe);
/* Applies all steps to a view of the whole value. NULL has no steps. */
weir_status weir__recipe_apply(const struct weir__recipe *recipe, struct weir__view *v,
                               const int64_t *sizes);

#endif
