/* Common code of the tests of plans. */
#ifndef TESTS_GRAPH_PLAN_PLAN_HELPERS_H
#define TESTS_GRAPH_PLAN_PLAN_HELPERS_H

#include <stdlib.h>

#include "graph/build/graph.h"
#include "harness/test.h"

static inline weir_device *open_device(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

static inline void check_same(const char *what, weir_tensor *a, weir_tensor *b)
{
    size_t bytes = (size_t)weir_tensor_numel(a) * weir_dtype_size(weir_tensor_dtype(a));
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);

    CHECK_OK(weir_tensor_read(a, x, bytes));
    CHECK_OK(weir_tensor_read(b, y, bytes));
    if (memcmp(x, y, bytes))
        FAIL("%s differs from the eager run", what);
    free(x);
    free(y);
}

#endif
