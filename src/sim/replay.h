/* Replaying a program: ranks of in-order streams whose nodes wait for each other, on one
 * machine, without a host that submits. */
#ifndef WEIR_SIM_REPLAY_H
#define WEIR_SIM_REPLAY_H

#include "sim/sim.h"

/* A wait for the end of node `position` of `stream`. */
struct weir__replay_wait {
    uint32_t stream, position;
};

struct weir__replay_node {
    uint32_t op;       /* index into ops */
    uint32_t nwaits;   /* number of waits before it */
    uint32_t waits;    /* index of the first of them in waits[] */
    bool recorded;     /* another stream waits for it */
    bool measured;     /* its times include the cost of events */
    const char *name;  /* may be NULL */
    const char *meets; /* the collective's name; NULL for none */
};

struct weir__replay_stream {
    const char *name;
    int priority;
    const uint32_t *nodes; /* indexes into the program's nodes, in the order in which they run */
    uint32_t nnodes;
};

/* The program of one rank. Ranks may share it. */
struct weir__replay_program {
    const struct weir__replay_node *nodes;
    uint32_t nnodes;
    const struct weir__replay_wait *waits;
    const struct weir__sim_op *ops; /* rendezvous indexes are common to all ranks */
    const struct weir__replay_stream *streams;
    uint32_t nstreams;
};

struct weir__replay_options {
    uint64_t record_ps, wait_ps; /* of events */
    bool spans;                  /* keep the times of each node */
    bool parts;                  /* keep the times of its blocks */
};

/* Why a node started when it did. */
enum weir__cause {
    WEIR__CAUSE_NONE,   /* it is the first */
    WEIR__CAUSE_STREAM, /* the node before it on its stream */
    WEIR__CAUSE_EVENT,  /* a node of another stream it depends on */
    WEIR__CAUSE_CORES,  /* the node that freed the cores it waited for */
    WEIR__CAUSE_PEER,   /* the last rank to arrive at its rendezvous */
};

/* The times of a node in picoseconds. */
struct weir__sim_span {
    uint64_t ready, start, end; /* start and end are UINT64_MAX if it never completed */
    uint32_t cause_node;
    uint32_t cause_rank : 24, cause : 8; /* enum weir__cause */
};

/* Blocks of a node that ran together. */
struct weir__replay_part {
    uint64_t from, to;
    uint32_t rank, node, blocks;
};

struct weir__replay_stats {
    uint64_t over;                /* number of completed nodes */
    uint64_t busy_ps, waiting_ps; /* time running; time ready but without cores */
    uint64_t first, last;         /* start and end; 0 if nothing ran */
};

/* A stream of a rank that cannot continue. */
struct weir__stuck {
    uint32_t rank, stream, node;
    uint32_t held[WEIR__POOLS], missing[WEIR__POOLS]; /* cores it has; cores it needs beyond those
                                                       * and the free ones */
    enum { WEIR__STUCK_CORES, WEIR__STUCK_PEERS, WEIR__STUCK_EVENT } why;
    uint32_t of_rank, of_stream, of_node; /* the node it waits for */
    uint32_t nwaiting;                    /* STUCK_PEERS: ranks that have not arrived */
    uint32_t next; /* index of the stuck stream it waits for; its own index if there is none */
    bool in_cycle;
};

struct weir__replay_result {
    uint64_t makespan;
    struct weir__sim_span **spans;       /* by rank, then node; NULL without options->spans */
    struct weir__replay_stats **streams; /* by rank, then stream */
    struct weir__sim_rank *ranks;        /* their statistics */
    struct weir__replay_part *parts;     /* by end; NULL without options->parts */
    int nparts, cap_parts;
    uint32_t nranks;
    bool deadlock;
    struct weir__stuck *stuck; /* one per stuck stream */
    uint32_t nstuck;
};

/* Runs the program of each rank to its end, or until no stream can continue.
 * returns  WEIR_OK also for a deadlock, which the result describes; WEIR_ENOMEM. */
weir_status weir__replay(const struct weir__sim_limits *limits,
                         const struct weir__replay_program *const *programs, uint32_t nranks,
                         const uint32_t *rendezvous_sizes, uint32_t nrendezvous,
                         const struct weir__replay_options *options,
                         struct weir__replay_result *out);
void weir__replay_fini(struct weir__replay_result *result);

#endif
