/* Random programs of all kinds of operators and views, as lists of steps that can be run again:
 * one by one, captured, on one stream or several, with other sizes. */
#ifndef TESTS_CONFORMANCE_GRAPH_PROGRAMS_H
#define TESTS_CONFORMANCE_GRAPH_PROGRAMS_H

#include "conformance/conformance.h"

enum { MAX_STEPS = 64, MAX_INPUTS = 6, MAX_VALUES = MAX_INPUTS + 2 * MAX_STEPS, MAX_RESULTS = 8 };
/* How many operators the lists of weir/ops.h have. */
enum { UNARIES = 13, BINARIES = 7, COMPARES = 6, REDUCES = 4, BITWISES = 5, SCANS = 4 };

/* Kinds of steps. */
enum kind {
    UNARY,
    BINARY,
    SCALAR,
    INTO,
    COMPARE,
    CLAMP,
    WHERE,
    SWIGLU,
    CAST,
    FILL,
    ARANGE,
    COPY,
    COPY_INTO,
    CONCAT,
    MATMUL,
    LINEAR,
    ATTENTION,
    REDUCE,
    ARGMAX,
    SOFTMAX,
    NORM,
    EMBEDDING,
    GATHER,
    SCATTER,
    SORT,
    NONZERO,
    GATING,
    ROTARY,
    RANDOM,
    SLICE,
    PERMUTE,
    RESHAPE,
    EXPAND,
    SQUEEZE,
    INDICES,
    WAIT,
    EXPERTS,
    CONV,
    GROUPED,
    BITWISE,
    TRUTH_INTO,
    SCAN,
    CHOICE,
    EXPERT_SUM,
    KINDS
};

struct step {
    int kind, which;  /* what it does, and which operator of that kind */
    int in[4], nin;   /* values */
    int out[2], nout; /* values that it makes */
    int64_t size[5];  /* its numbers */
    double real[2];
    int stream;       /* 0: the caller's */
    int super_kernel; /* 0: none */
    weir_cores limit; /* 0: none */
    int named[5];     /* for each size: how it follows the open one, 0 for not */
    bool off;         /* left out, and with it what uses its results */
};

struct program {
    uint64_t seed;
    int nstreams;
    bool super_kernels;
    bool has_index;          /* an operator needs elements to read */
    bool open, anonymous;    /* some sizes are open, and have no name */
    bool writes_constants;   /* steps may */
    bool extreme;            /* numbers at the ends of types, infinite ones, NaN */
    int ninputs, nconstants; /* constants are the last of the inputs */
    weir_dtype type[MAX_INPUTS];
    int ndim[MAX_INPUTS];
    int64_t shape[MAX_INPUTS][4]; /* 0: sizes that are open have the example's value here */
    bool follows[MAX_INPUTS][4];  /* the size is the open one */
    int64_t example;              /* of the open size */
    struct step steps[MAX_STEPS];
    int nsteps, nvalues;
    int base[MAX_VALUES]; /* whose bytes a value is a view of */
    int results[MAX_RESULTS], nresults;
    int nouts; /* of the graph */
};

/* Sizes that follow the open one: itself and three made from it. */
struct sizes {
    int64_t at[5]; /* [0] is not used */
};
struct sizes sizes_of(int64_t open);

/* A program for the device, made by trying its steps on it. */
void program_make(struct program *p, weir_device *dev, uint64_t seed, bool open);
/* The same without open sizes, where steps may write to constants. */
void program_make_writing(struct program *p, weir_device *dev, uint64_t seed);
/* An input of the program filled with numbers, where the open size is `open`. */
weir_tensor *program_input(const struct program *p, weir_device *dev, int i, int64_t open,
                           uint64_t round);
/* Whether indices read from a dim that has become empty, which is an error when it runs. */
bool step_reads_nothing(const struct step *s, weir_tensor *const *values);
/* One step, with the scopes of the step where `scopes`. What it makes goes to values[]. */
weir_status step_run(const struct step *s, weir_device *dev, const struct sizes *sizes,
                     weir_tensor **values, bool scopes);
/* Whether all values that it uses are there. */
bool step_can_run(const struct step *s, weir_tensor *const *values);
const char *step_text(const struct step *s);

#endif
