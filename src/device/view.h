/* A tensor as kernels and drivers see it. */
#ifndef WEIR_DEVICE_VIEW_H
#define WEIR_DEVICE_VIEW_H

#include "weir/tensor.h"

struct weir__view {
    char *data; /* first element; NULL while only shapes are known */
    weir_dtype dtype;
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
    int64_t stride[WEIR_MAX_DIMS]; /* in elements; 0 where broadcast */
};

#endif
