/* Describes rows along a dim of views. */
#include "ops/rows.h"

#include <string.h>

void weir__rows_init(struct weir__rows *rows, const struct weir__view *in,
                     const struct weir__view *out, int dim)
{
    struct weir__view a = {.ndim = 0}, b = {.ndim = 0};

    for (int d = 0; d < in->ndim; d++) {
        if (d == dim)
            continue;
        a.shape[a.ndim] = b.shape[a.ndim] = in->shape[d];
        a.stride[a.ndim] = in->stride[d];
        b.stride[a.ndim] = out->stride[d];
        a.ndim++;
    }
    b.ndim = a.ndim;
    weir__view_collapse((struct weir__view *[]){&a, &b}, 2);
    rows->count = weir__view_numel(&a);
    rows->n = in->shape[dim];
    rows->in_step = in->stride[dim];
    rows->out_step = out->stride[dim];
    rows->ndim = a.ndim;
    memcpy(rows->shape, a.shape, sizeof rows->shape);
    memcpy(rows->in_stride, a.stride, sizeof rows->in_stride);
    memcpy(rows->out_stride, b.stride, sizeof rows->out_stride);
}

weir_status weir__rows_run_two(const struct weir__op *op, const void *params, weir_tensor *x,
                               weir_tensor **values, weir_tensor **indices)
{
    weir_tensor *out[2] = {NULL, NULL};
    weir_status st = weir__op_run(op, params, &x, 1, out);

    if (values)
        *values = out[0];
    else
        weir_tensor_release(out[0]);
    if (indices)
        *indices = out[1];
    else
        weir_tensor_release(out[1]);
    return st;
}
