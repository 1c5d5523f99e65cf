/* A second opinion: a simulator that goes microsecond by microsecond and core by core, and
 * is slow and plain enough to be believed. It shares nothing with src/sim but the rules. */
#ifndef TESTS_NPU_REFERENCE_H
#define TESTS_NPU_REFERENCE_H

#include <stdbool.h>

enum { MAX_RANKS = 3, MAX_STREAMS = 5, MAX_NODES = 20, MAX_DEPS = 3, MAX_CORES = 64 };

enum kind { CUBE, VECTOR, MIX, KINDS };

/* A Kernel node, as a graph file says it. */
struct ref_node {
    enum kind kind;
    int blocks;
    int us; /* a fixed time, cores granted together; -1 if us_per_block counts */
    int us_per_block;
    bool gang;
    int limit;      /* cores of its engine; 0 for none */
    int collective; /* which name; -1 for none */
    int stream;
    int deps[MAX_DEPS], ndeps; /* nodes before it */
};

struct ref_program {
    int nranks, cube, vector;
    bool hold;
    int launch, record, wait; /* microseconds */
    int priority[MAX_STREAMS];
    struct {
        struct ref_node nodes[MAX_NODES];
        int nnodes;
    } ranks[MAX_RANKS];
};

struct ref_result {
    bool deadlock;
    int start[MAX_RANKS][MAX_NODES], end[MAX_RANKS][MAX_NODES]; /* -1: never */
    int makespan;
};

void reference_run(const struct ref_program *p, struct ref_result *out);

#endif
