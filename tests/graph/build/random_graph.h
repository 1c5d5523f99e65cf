/* Random graphs: DAGs of several operators over f32 matrices, on several streams, with
 * views, in-place updates, outputs written into other values, control edges and marks.
 * The same options give the same graph. */
#ifndef TESTS_GRAPH_BUILD_RANDOM_GRAPH_H
#define TESTS_GRAPH_BUILD_RANDOM_GRAPH_H

#include "graph/build/graph.h"

/* A small generator of numbers, so that a seed means the same everywhere. */
struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n-1 */
static inline int rng_below(struct rng *r, int n)
{
    return (int)(rng_next(r) % (uint64_t)n);
}
static inline bool rng_percent(struct rng *r, int percent)
{
    return rng_below(r, 100) < percent;
}

struct random_graph_options {
    uint64_t seed;
    int nodes;
    int streams;       /* 1: everything on "default"; else labels "1", "2", ... beside it */
    int side;          /* sizes of dims are powers of two up to this; 0 means 16 */
    int in_place;      /* percent of nodes that overwrite a value made before */
    int views;         /* percent of operands that are slices or transposes */
    int control;       /* percent of nodes with a control edge */
    int marks;         /* percent of nodes with core limits, super kernels, never-timeout */
    bool write_inputs; /* in-place nodes may write graph inputs */
};

/* What suits most tests, for a seed and a size. */
struct random_graph_options random_graph_defaults(uint64_t seed, int nodes, int streams);

/* The graph, with 1..4 inputs "x0", "x1", ..., 0..2 constants, and as outputs every value
 * that no node reads and some of the others. Ends the test case on any error. */
weir_graph *random_graph(weir_device *dev, const struct random_graph_options *options);

#endif
