/* Shapes and strides without memory: the arguments of kernels and shape rules. */
#ifndef WEIR_TENSOR_VIEW_H
#define WEIR_TENSOR_VIEW_H

#include "base/base.h"
#include "device/view.h"

extern const uint8_t weir__dtype_bytes[WEIR_DTYPE_COUNT];
/* As weir_dtype_size. */
static inline size_t weir__dtype_size(weir_dtype dtype)
{
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? weir__dtype_bytes[dtype] : 0;
}

static inline int64_t weir__view_numel(const struct weir__view *v)
{
    int64_t n = 1;

    for (int d = 0; d < v->ndim; d++)
        n *= v->shape[d];
    return n;
}

static inline bool weir__view_is_contiguous(const struct weir__view *v)
{
    int64_t expect = 1;

    for (int d = v->ndim - 1; d >= 0; d--) {
        /* The stride of a dim of size 1 is never used, so it may be anything. */
        if (v->shape[d] != 1 && v->stride[d] != expect)
            return weir__view_numel(v) == 0;
        expect *= v->shape[d];
    }
    return true;
}

/* Row-major strides for v's shape. */
void weir__view_set_contiguous(struct weir__view *v);
/* v broadcast to shape[ndim] (strides 0); v's shape must fit. */
struct weir__view weir__view_broadcast(const struct weir__view *v, int ndim, const int64_t *shape);
/* The NumPy broadcast of two shapes into out->ndim/shape.
 * returns  WEIR_ESHAPE naming `what` and both shapes. */
weir_status weir__shape_broadcast(const char *what, const struct weir__view *a,
                                  const struct weir__view *b, struct weir__view *out);
/* Drops dims of size 1 and merges neighbours that are contiguous in *every* one
 * of the n views at once; all must have the same shape. Afterwards ndim >= 1. */
void weir__view_collapse(struct weir__view *const *views, int n);
/* The dim in 0..ndim-1 for a possibly negative one; -1 if out of range. */
int weir__dim_wrap(int dim, int ndim);

/* "f32[2, 3]" or "[2, 3]", usable inside a call. */
struct weir__shape_text {
    char text[200];
};
struct weir__shape_text weir__view_text(const struct weir__view *v);
struct weir__shape_text weir__dims_text(int ndim, const int64_t *shape);

#endif
