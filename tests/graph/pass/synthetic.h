/* Graphs made up for passes that look at order and sizes alone: nodes with no kernels,
 * on streams, with edges, values and scratch. Needs no device. */
#ifndef TESTS_GRAPH_PASS_SYNTHETIC_H
#define TESTS_GRAPH_PASS_SYNTHETIC_H

#include "graph/build/random_graph.h"
#include "graph/pass/compile.h"

struct synthetic_options {
    uint64_t seed;
    int nodes;
    int streams;  /* labels, "default" among them */
    int window;   /* nodes read values of this many nodes before; 0: of any */
    int reads;    /* at most so many each */
    int in_place; /* percent of nodes that write a value made before */
    int scratch;  /* percent of nodes with scratch */
    int control;  /* percent of nodes with a control edge */
    int dead;     /* percent of nodes that are not live */
    int runs;     /* nodes in a row on one stream, about; 0: each picks its own */
    int us;       /* nodes take 1..us microseconds on one core; 0: 1 */
    int sizes;    /* value sizes are 1..sizes times 64 bytes, less a little; 0: 64 */
};

struct synthetic {
    weir_device dev; /* never opened: its number of cores alone is looked at */
    weir_graph g;
    struct weir__compile c;
};

/* Fills graph, edges and liveness; ends the test on an error. */
void synthetic_init(struct synthetic *s, const struct synthetic_options *options);
void synthetic_fini(struct synthetic *s);

/* For graphs that a test draws itself: edges in place of those there are, in order of
 * their second node, and what a node costs. */
void synthetic_set_edges(struct synthetic *s, const int (*edges)[2], int n);
void synthetic_set_us(struct synthetic *s, int node, double us);

/* How a run of the passes up to one of them is written in a test. */
void synthetic_streams(struct synthetic *s);
void synthetic_syncs(struct synthetic *s);

/* before[a * nnodes + b]: node a is over before b starts, by brute force over stream
 * order and the syncs, without sync number `skip` (-1: with all). Free with free(). */
bool *synthetic_closure(const struct synthetic *s, int skip);

#endif
