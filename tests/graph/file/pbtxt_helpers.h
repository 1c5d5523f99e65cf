/* Common code of the tests of graph files. */
#ifndef TESTS_GRAPH_FILE_PBTXT_HELPERS_H
#define TESTS_GRAPH_FILE_PBTXT_HELPERS_H

#include "graph/build/graph.h"
#include "harness/test.h"

static inline weir_device *open_cpu(void)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    return dev;
}

static inline void close_cpu(weir_device *dev)
{
    CHECK_OK(weir_device_close(dev));
}

static inline weir_graph *load(weir_device *dev, const char *text)
{
    weir_graph *g;

    CHECK_OK(weir_graph_load(dev, text, strlen(text), "test", &g));
    return g;
}

#endif
