/* What operators and collectives cost on a modelled device: from a profile and a load to
 * what the machine of sim/sim.h is asked for. */
#ifndef WEIR_SIM_MODEL_H
#define WEIR_SIM_MODEL_H

#include "sim/profile.h"
#include "sim/sim.h"
#include "weir/tensor.h"

enum weir__algorithm {
    WEIR__ALGORITHM_AUTO, /* the fastest */
    WEIR__ALGORITHM_RING,
    WEIR__ALGORITHM_MESH,
    WEIR__ALGORITHM_HIERARCHICAL,
    WEIR__ALGORITHMS
};
extern const char *const weir__algorithm_names[WEIR__ALGORITHMS];

/* A device spec, read. */
struct weir__model {
    struct weir__profile profile;
    bool hold;     /* policy=hold */
    bool overhead; /* launches, events and dispatch take time */
    bool compute;  /* values are computed */
    uint64_t seed; /* 0: ties go by time and order */
    enum weir__algorithm algorithm;
};

/* What is known of an operator. */
struct weir__load {
    weir_engine engine;
    uint32_t blocks;
    uint32_t cores;      /* blocks that may run at once */
    bool gang, together; /* barrier over all blocks; cores granted at once */
    double block_us;     /* what a block takes alone; 0: by flops and bytes */
    double flops, bytes; /* of all blocks; flops as weir__model_flop counts them */
    bool comm;
    bool in_graph;
};

/* What a flop of that type counts, in flops of half precision. */
double weir__model_flop(const struct weir__model *m, weir_engine engine, weir_dtype dtype);

void weir__model_limits(const struct weir__model *m, struct weir__sim_limits *out);
void weir__model_op(const struct weir__model *m, const struct weir__load *load,
                    struct weir__sim_op *out);

/* Time in whole picoseconds. */
uint64_t weir__model_ps(double us);
/* The same, 0 where the device has no overhead. */
uint64_t weir__model_overhead(const struct weir__model *m, double us);

/* What kind of collective a name stands for: its beginning, whatever the case and the
 * signs between letters (all_reduce, ar, reduceScatter, rs, allGather, ag, broadcast, send,
 * dispatch, combine, all_to_all, a2a, barrier). Others count as all_gather. */
enum weir__comm_pattern {
    WEIR__ALL_REDUCE,
    WEIR__REDUCE_SCATTER,
    WEIR__ALL_GATHER,
    WEIR__BROADCAST,
    WEIR__ALL_TO_ALL,
    WEIR__DISPATCH, /* an all-to-all that writes to its peers */
    WEIR__BARRIER,
};
enum weir__comm_pattern weir__collective_kind(const char *name);

/* Microseconds from the last arrival to the end, among the first `nranks` dies, where each
 * rank's part (the larger of what it gives and gets) has `bytes`. */
double weir__collective_us(const struct weir__model *m, enum weir__comm_pattern kind,
                           uint32_t nranks, double bytes);

/* Makes `op`, as weir__model_op left it, take what the collective takes from the last arrival
 * on, and draw on the whole link meanwhile. */
void weir__model_collective(const struct weir__model *m, enum weir__comm_pattern kind,
                            uint32_t nranks, double bytes, struct weir__sim_op *op);
/* For one that the copy engine runs: it holds nothing. */
void weir__model_take_no_cores(struct weir__sim_op *op);
/* An operator of a group, as its row tells it: load->bytes is what a rank reads and writes in
 * all, and its vector cores are a gang's. */
void weir__model_group_op(const struct weir__model *m, struct weir__load *load,
                          enum weir__comm_pattern kind, uint32_t nranks, struct weir__sim_op *out);

#endif
