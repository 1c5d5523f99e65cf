/* `weir calibrate`: a real device measured, and the profile that follows. Between
 * cmd_calibrate.c, which fits and tells, and calibrate_measure.c, which builds and runs. */
#ifndef WEIR_CLI_CALIBRATE_H
#define WEIR_CLI_CALIBRATE_H

#include <weir/weir.h>

/* What a profile says of the device, as measured. */
struct calibration {
    int cores;
    double memory_gib;
    double cube_gflops, vector_gflops; /* of one core, while all of them work */
    double core_gb_s, memory_gb_s;     /* one core alone; all of them */
    double launch_us;                  /* of an operator issued by itself */
    double graph_launch_us;            /* of an operator of a graph */
    double dispatch_us;                /* of a graph, for the host */
    double event_us;                   /* from one stream to another */
};

/* A graph that is made alike on every device: `nodes` operators on n x n matrices. */
struct calibration_graph {
    const char *name;
    enum calibration_body {
        BODY_TINY,     /* one after the other on one stream */
        BODY_HOPS,     /* the same, each on the other of two streams */
        BODY_MATMUL,   /* one chain */
        BODY_MATMUL_2, /* two chains on two streams */
        BODY_GELU,
        BODY_LAYERS, /* matmul, gelu, matmul, add; a quarter of `nodes` each */
        BODY_MIXED,  /* a chain of matmul beside one of gelu */
    } body;
    int nodes;
    int64_t n;
    weir_dtype dtype;
    int cores; /* limit; 0 for none */
    bool compute_bound;
};

weir_status calibration_build(const struct calibration_graph *what, weir_device *dev,
                              weir_graph **out);
/* Microseconds from submitting it to its end, the shortest of a few runs. */
weir_status calibration_time(const struct calibration_graph *what, weir_device *dev, double *us);
/* The same for `n` small operators issued one by one, of each. */
weir_status calibration_time_eager(weir_device *dev, int n, double *us);
/* GB/s of reading and writing matrices that no cache holds, with so many cores (0: all). */
weir_status calibration_bandwidth(weir_device *dev, int cores, double *gb_s);

#endif
