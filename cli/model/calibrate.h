/* `weir calibrate`: a real device measured, and the profile that follows.
 *
 *   calibrate_graphs.c    what is run
 *   calibrate_measure.c   what it takes
 *   calibrate_sweep.c     operators from small to large, and curves of them
 *   calibrate_fit.c       the figures of a profile that make the model take the same
 *   cmd_calibrate.c       the command and its report
 */
#ifndef WEIR_CLI_CALIBRATE_H
#define WEIR_CLI_CALIBRATE_H

#include <weir/weir.h>

#include "sim/profile.h"

struct progress;

/* ---- graphs ---- */

/* A graph that is made alike on every device: `nodes` operators on n x n matrices, or a file. */
struct calibration_graph {
    const char *name;
    enum calibration_body {
        BODY_TINY,    /* one after the other on one stream */
        BODY_HOPS,    /* the same, each on the other of two streams */
        BODY_MATMUL,  /* chains of matmul, one for each stream */
        BODY_GELU,    /* chains of gelu */
        BODY_LAYERS,  /* matmul, gelu, matmul, add; a quarter of `nodes` each */
        BODY_MIXED,   /* a chain of matmul beside one of gelu */
        BODY_EXPERTS, /* a gate and `nodes` experts; with two streams one more is shared, beside
                       * the others */
        BODY_SEED,    /* add, matmul, matmul and add on three streams that wait for each other */
        BODY_SWEEP,   /* chains of one operator, one for each stream: calibrate_sweep.c */
        BODY_FILE,    /* `name` is its path */
    } body;
    int nodes, streams;
    int64_t n;
    weir_dtype dtype;
    bool compute_bound;
    int sweep; /* of BODY_SWEEP */
};

weir_status calibration_build(const struct calibration_graph *what, weir_device *dev,
                              weir_graph **out);

/* ---- measuring ---- */

/* How many runs there were, and in how many of them the system took a core away. */
struct calibration_runs {
    int all, disturbed;
};

/* Microseconds from submitting it to its end: the shortest of a few runs, of those that
 * nothing disturbed if there are any. */
weir_status calibration_time(const struct calibration_graph *what, weir_device *dev,
                             struct calibration_runs *runs, double *us);
/* The same for `n` small operators issued one by one, of each. */
weir_status calibration_time_eager(weir_device *dev, int n, double *us);
/* GB/s of reading and writing matrices that no cache holds, with so many cores (0: all). */
weir_status calibration_bandwidth(weir_device *dev, int cores, double *gb_s);

/* ---- fitting ---- */

enum {
    SWEEP_MEMORY,
    SWEEP_ROWS,
    SWEEP_WEIGHTS,
    SWEEP_PRODUCTS,
    SWEEP_DEPTH,
    SWEEP_ATTENTION,
    SWEEP_VECTOR,
    CALIBRATION_SWEEPS
};

/* Graphs of one operator that take longer and longer. */
struct calibration_sweep {
    int n;
    double amount[WEIR__CURVE_POINTS];    /* bytes or flops of one operator */
    double waste[WEIR__CURVE_POINTS];     /* what the fullest core has of it, of the mean */
    int nodes[WEIR__CURVE_POINTS];        /* of each stream */
    double us[WEIR__CURVE_POINTS];        /* of the graph on one stream */
    double beside_us[WEIR__CURVE_POINTS]; /* of as many nodes on each of several */
};

enum { CALIBRATION_TYPES = 3, CALIBRATION_MANY_CORES = 32 };
extern const weir_dtype calibration_types[CALIBRATION_TYPES];

/* What a profile says of the device, as measured. */
struct calibration {
    char device[64]; /* its name */
    int cores;
    double memory_gib;
    double matrix_gflops[CALIBRATION_TYPES]; /* of one core, while all of them work; NaN where
                                              * there is no such kernel */
    double ratio[CALIBRATION_TYPES]; /* of that of the sweeps: flops of a product that takes as
                                      * long, of theirs */
    double vector_gflops;
    double core_gb_s, memory_gb_s; /* one core alone; all of them */
    double launch_us;              /* of an operator issued by itself */
    double graph_launch_us;        /* of an operator of a graph */
    double dispatch_us;            /* of a graph, for the host */
    double stream_us;              /* of a graph, for the host, for each stream but one */
    double event_us;               /* from one stream to another */
    struct calibration_sweep sweeps[CALIBRATION_SWEEPS];
    int base; /* the type of their products, of calibration_types */
    /* Of graphs that no figure comes from, once they are known; 0 graphs before. */
    int held_out;
    double median_error, worst_error, most_errors; /* most: what 9 of 10 are within */
};

weir_status calibration_measure_sweeps(struct calibration *c, weir_device *dev,
                                       struct calibration_runs *runs, struct progress *progress);
/* Adds inputs, nodes and outputs of a BODY_SWEEP. */
weir_status calibration_build_sweep(const struct calibration_graph *what, weir_graph *g);
/* What each stream of a graph but one costs it, as the smallest operators tell: theirs do nothing
 * that others could wait for. */
double calibration_stream_us(const struct calibration *c);
/* The most of any size, an amount a microsecond; of memory what the largest reaches. */
double calibration_peak(const struct calibration *c, int sweep);
/* What an operator of the kind does in so many microseconds, by itself. */
double calibration_amount_in(const struct calibration *c, int sweep, double us);
/* The share of `peak` that each size reaches, by itself or beside others. */
void calibration_curve(const struct calibration *c, int sweep, double peak, bool beside,
                       struct weir__curve *out);

/* Writes the profile. returns  -1, or an exit status after a complaint. */
int calibration_write(const struct calibration *c, const char *path);
/* What the model of that profile, written to `scratch`, takes for a graph, dispatch and all.
 * returns  as above. */
int calibration_predict(const struct calibration *c, const char *scratch,
                        const struct calibration_graph *what, double *us);

#endif
