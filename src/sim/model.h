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
    bool overhead; /* launches, heads, events and dispatch take time */
    bool compute;  /* values are computed */
    bool hf32;     /* f32 products run with fewer bits */
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
    double flops, bytes; /* of all blocks; flops as weir__model_flops counts them */
    bool rows;           /* of a vector operator: it reduces rows */
    double depth;        /* of a product that is not split along it: k; else 0 */
    double waste;        /* of attention: what the fullest core has over the mean, if more than 1 */
    bool comm;
    bool in_graph;
};

/* What an operator computes. */
struct weir__flops {
    double count;
    const char *type; /* it computes in: "f16", "i8", "f8", ...; others count as f16 */
    double m, n, k;   /* of a product, 0 for anything else */
};

/* The same in flops of half precision: what the type's rate, the tiles of the cube (16 each way)
 * and filling its pipeline along k make of it. */
double weir__model_flops(const struct weir__model *m, weir_engine engine,
                         const struct weir__flops *flops);

void weir__model_limits(const struct weir__model *m, struct weir__sim_limits *out);
void weir__model_op(const struct weir__model *m, const struct weir__load *load,
                    struct weir__sim_op *out);

/* Time in whole picoseconds. */
uint64_t weir__model_ps(double us);
/* The same, 0 where the device has no overhead. */
uint64_t weir__model_overhead(const struct weir__model *m, double us);

/* What kind of collective a name stands for: its beginning, whatever the case and the
 * signs between letters (all_reduce, ar, reduceScatter, rs, allGather, ag, broadcast, send,
 * recv, dispatch, combine, all_to_all, a2a, ep, barrier). Others count as all_gather. */
enum weir__comm_pattern {
    WEIR__ALL_REDUCE,
    WEIR__REDUCE_SCATTER,
    WEIR__ALL_GATHER,
    WEIR__BROADCAST,
    WEIR__SEND, /* to one peer */
    WEIR__ALL_TO_ALL,
    WEIR__DISPATCH, /* an all-to-all that routes, quantises and writes to its peers */
    WEIR__COMBINE,  /* its way back, with a sum */
    WEIR__BARRIER,
};
enum weir__comm_pattern weir__collective_kind(const char *name);

/* What one rank has of a collective. `bytes` is the larger of what it gives and gets. */
struct weir__collective {
    enum weir__comm_pattern kind;
    uint32_t nranks; /* the first of the system, neighbours first */
    uint32_t span;   /* of a send: dies that a level of links must reach; 0: nranks */
    double bytes;
    double net_bytes; /* of an exchange: what leaves the super node, and is forwarded to all dies
                       * there that want it; 0: each gets its own */
    double uneven;    /* of an exchange: what the fullest rank gets, of the mean; 0: the same */
    double cores;     /* vector cores that it has; 0: all */
};

struct weir__collective_cost {
    double us;        /* from the last arrival to the end */
    double link_us;   /* of that, the die's links are busy */
    double hbm_bytes; /* read and written meanwhile */
};

void weir__collective_find_cost(const struct weir__model *m, const struct weir__collective *c,
                                struct weir__collective_cost *out);

/* Dies that the level of links between ranks a and b reaches. */
uint32_t weir__span_between(const struct weir__model *m, uint32_t a, uint32_t b);

/* Makes `op`, as weir__model_op left it, take what the collective takes from the last arrival
 * on, and draw on links and memory meanwhile. */
void weir__model_collective(const struct weir__model *m, const struct weir__collective *c,
                            struct weir__sim_op *op);
/* For one that the copy engine runs: it holds nothing. */
void weir__model_take_no_cores(struct weir__sim_op *op);
/* An operator of a group, as its row tells it: load->bytes is what a rank reads and writes in
 * all, c->bytes follows from it, and its vector cores are a gang's. */
void weir__model_group_op(const struct weir__model *m, struct weir__load *load,
                          struct weir__collective *c, struct weir__sim_op *out);

#endif
