/* The costs of operators and collectives on a modelled device: from a profile and a load to an
 * operator of the machine in sim/sim.h. */
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

/* The model of a device, from its spec. */
struct weir__model {
    struct weir__profile profile;
    bool hold;     /* policy=hold */
    bool overhead; /* launches, heads, events and dispatch take time */
    bool compute;  /* values are computed, not only times */
    bool hf32;     /* f32 products use fewer bits */
    uint64_t seed; /* of random tie-breaking; 0: ties are broken by order */
    enum weir__algorithm algorithm;
};

/* What the model needs to know about an operator. */
struct weir__load {
    weir_engine engine;
    uint32_t blocks;
    uint32_t cores;      /* blocks that may run at once */
    bool gang, together; /* barrier over all blocks; cores granted at once */
    double block_us;     /* time of a block alone; 0: computed from flops and bytes */
    double flops, bytes; /* of all blocks; flops as weir__model_flops counts them */
    bool rows;           /* of a vector operator: it reduces rows */
    double depth;        /* of a product that is not split along k: k; else 0 */
    double waste;        /* of attention: the fullest core's work over the mean, if more than 1 */
    bool comm;
    bool in_graph;
};

/* The work of an operator. */
struct weir__flops {
    double count;
    const char *type; /* in which it computes: "f16", "i8", "f8", ...; others count as f16 */
    double m, n, k;   /* of a product, 0 for anything else */
};

/* Converts the work to half-precision flops that take the same time. It accounts for the rate of
 * the type, padding to the cube's tiles of 16 x 16 and filling its pipeline along k. */
double weir__model_flops(const struct weir__model *m, weir_engine engine,
                         const struct weir__flops *flops);

void weir__model_limits(const struct weir__model *m, struct weir__sim_limits *out);
void weir__model_op(const struct weir__model *m, const struct weir__load *load,
                    struct weir__sim_op *out);

/* Converts microseconds to whole picoseconds. */
uint64_t weir__model_ps(double us);
/* The same; 0 if the model has no overhead. */
uint64_t weir__model_overhead(const struct weir__model *m, double us);

/* Kinds of collectives. weir__collective_kind finds the kind from the beginning of a name, ignoring
 * case and all characters but letters and digits (all_reduce, ar, reduceScatter, rs, allGather, ag,
 * broadcast, send, recv, dispatch, combine, all_to_all, a2a, ep, barrier). Other names count as
 * all_gather. */
enum weir__comm_pattern {
    WEIR__ALL_REDUCE,
    WEIR__REDUCE_SCATTER,
    WEIR__ALL_GATHER,
    WEIR__BROADCAST,
    WEIR__SEND, /* to one peer */
    WEIR__ALL_TO_ALL,
    WEIR__DISPATCH, /* an all-to-all that routes, quantises and writes to its peers */
    WEIR__COMBINE,  /* the reverse of a dispatch, with a sum */
    WEIR__BARRIER,
};
enum weir__comm_pattern weir__collective_kind(const char *name);

/* One rank's part of a collective. `bytes` is the larger of the bytes sent and received. */
struct weir__collective {
    enum weir__comm_pattern kind;
    uint32_t nranks; /* on the first dies of the system, neighbours first */
    uint32_t span;   /* of a send: the number of dies that the link level must connect; 0: nranks */
    double bytes;
    double net_bytes; /* of an exchange: bytes that leave the super node, each sent once and
                       * forwarded to the dies there that need it; 0: sent to each die */
    double uneven;    /* of an exchange: received bytes of the fullest rank over the mean; 0: 1 */
    double cores;     /* vector cores that it has; 0: all */
};

struct weir__collective_cost {
    double us;        /* from the last arrival to the end */
    double link_us;   /* the part of `us` in which the die's links are busy */
    double hbm_bytes; /* read and written in that time */
};

void weir__collective_find_cost(const struct weir__model *m, const struct weir__collective *c,
                                struct weir__collective_cost *out);

/* Returns how many dies are connected by the lowest link level that connects ranks a and b. */
uint32_t weir__span_between(const struct weir__model *m, uint32_t a, uint32_t b);

/* Sets the time of `op`, which weir__model_op has filled, to the collective's time from the last
 * arrival on, and its draws to the use of links and memory in that time. */
void weir__model_collective(const struct weir__model *m, const struct weir__collective *c,
                            struct weir__sim_op *op);
/* For collectives that the copy engine runs: the operator holds no cores. */
void weir__model_take_no_cores(struct weir__sim_op *op);
/* Fills *out for a collective operator of a group. load->bytes are all bytes that a rank reads and
 * writes; sets c->bytes from them. Its vector cores are those of a gang. */
void weir__model_group_op(const struct weir__model *m, struct weir__load *load,
                          struct weir__collective *c, struct weir__sim_op *out);

#endif
