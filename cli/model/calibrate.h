/* `weir calibrate`: measures a real device and derives a profile from the measurements.
 *
 *   calibrate_graphs.c    builds the graphs to run
 *   calibrate_measure.c   measures their times
 *   calibrate_sweep.c     measures operators from small to large, and makes curves of them
 *   calibrate_fit.c       fits the figures of the profile to the measurements
 *   cmd_calibrate.c       the command and its report
 */
#ifndef WEIR_CLI_CALIBRATE_H
#define WEIR_CLI_CALIBRATE_H

#include <weir/weir.h>

#include "sim/profile.h"

struct progress;

/* ---- graphs ---- */

/* A graph that is the same on every device: `nodes` operators on n x n matrices, or a file. */
struct calibration_graph {
    const char *name;
    enum calibration_body {
        BODY_TINY,    /* one after the other on one stream */
        BODY_HOPS,    /* the same, alternating between two streams */
        BODY_MATMUL,  /* chains of matmul, one for each stream */
        BODY_GELU,    /* chains of gelu */
        BODY_LAYERS,  /* matmul, gelu, matmul, add; a quarter of `nodes` each */
        BODY_MIXED,   /* a chain of matmul beside one of gelu */
        BODY_EXPERTS, /* a gate and `nodes` experts; with two streams also a shared expert, which
                       * runs beside the others */
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

/* The number of runs, and of those in which the system preempted a thread. */
struct calibration_runs {
    int all, disturbed;
};

/* Measures a graph: microseconds from its submission to its end, the shortest of a few runs. Uses
 * only undisturbed runs, if there are any. */
weir_status calibration_time(const struct calibration_graph *what, weir_device *dev,
                             struct calibration_runs *runs, double *us);
/* Measures `n` small operators issued one by one; sets *us to the time of each. */
weir_status calibration_time_eager(weir_device *dev, int n, double *us);
/* Measures the GB/s of reading and writing matrices larger than the caches, with that many cores
 * (0: all). */
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

/* Measurements of one operator at ascending sizes. */
struct calibration_sweep {
    int n;
    double amount[WEIR__CURVE_POINTS];    /* bytes or flops of one operator */
    double waste[WEIR__CURVE_POINTS];     /* work of the busiest core divided by the mean */
    int nodes[WEIR__CURVE_POINTS];        /* operators on each stream */
    double us[WEIR__CURVE_POINTS];        /* time of the graph with one stream */
    double beside_us[WEIR__CURVE_POINTS]; /* the same with that many operators on several streams */
};

enum { CALIBRATION_TYPES = 3, CALIBRATION_MANY_CORES = 32 };
extern const weir_dtype calibration_types[CALIBRATION_TYPES];

/* The measured figures of a profile. */
struct calibration {
    char device[64]; /* its name */
    int cores;
    double memory_gib;
    double matrix_gflops[CALIBRATION_TYPES]; /* of one core while all cores work; NaN if the device
                                              * has no such kernel */
    double ratio[CALIBRATION_TYPES]; /* rate of a product divided by that of the sweeps' type: the
                                      * flops done in the same time */
    double vector_gflops;
    double core_gb_s, memory_gb_s; /* one core alone; all of them */
    double launch_us;              /* of an operator that is issued alone */
    double graph_launch_us;        /* of an operator in a graph */
    double dispatch_us;            /* of a graph, on the host */
    double stream_us;              /* of a graph, on the host, for each stream after the first */
    double event_us;               /* from one stream to another */
    struct calibration_sweep sweeps[CALIBRATION_SWEEPS];
    int base; /* index in calibration_types of the type of the sweeps' products */
    /* Errors of held-out graphs, which were not used for the fit; held_out is 0 until measured. */
    int held_out;
    double median_error, worst_error, most_errors; /* most: 9 of 10 graphs are within it */
};

weir_status calibration_measure_sweeps(struct calibration *c, weir_device *dev,
                                       struct calibration_runs *runs, struct progress *progress);
/* Adds inputs, nodes and outputs of a BODY_SWEEP. */
weir_status calibration_build_sweep(const struct calibration_graph *what, weir_graph *g);
/* Returns the cost of each further stream of a graph, derived from the smallest operators: those
 * hardly wait for each other. */
double calibration_stream_us(const struct calibration *c);
/* Returns the highest rate of any size, as amount per microsecond; for memory that of the largest
 * size. */
double calibration_peak(const struct calibration *c, int sweep);
/* Returns the amount that an operator of the kind does alone in that many microseconds. */
double calibration_amount_in(const struct calibration *c, int sweep, double us);
/* Makes the curve of the share of `peak` that each size reaches, alone or beside others. */
void calibration_curve(const struct calibration *c, int sweep, double peak, bool beside,
                       struct weir__curve *out);

/* Writes the profile. returns  -1, or an exit status after printing an error. */
int calibration_write(const struct calibration *c, const char *path);
/* Writes the profile to `scratch` and predicts the time of a graph with it, including dispatch.
 * returns  -1, or an exit status after printing an error. */
int calibration_predict(const struct calibration *c, const char *scratch,
                        const struct calibration_graph *what, double *us);

#endif
