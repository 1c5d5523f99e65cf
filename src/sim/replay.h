/* Replaying a program: ranks of in-order streams whose nodes wait for each other, on one
 * machine, without a host that submits. */
#ifndef WEIR_SIM_REPLAY_H
#define WEIR_SIM_REPLAY_H

#include "sim/sim.h"

/* Until node `position` of `stream` is over. */
struct weir__replay_wait {
    uint32_t stream, position;
};

struct weir__replay_node {
    uint32_t op;       /* index into ops */
    uint32_t nwaits;   /* before it, */
    uint32_t waits;    /* from here in waits[] */
    bool recorded;     /* another stream waits for it */
    bool measured;     /* its times have the cost of events in them */
    const char *name;  /* may be NULL */
    const char *meets; /* the collective's name; NULL for none */
};

struct weir__replay_stream {
    const char *name;
    int priority;
    const uint32_t *nodes; /* in the order they run; an index is a node's place in the file */
    uint32_t nnodes;
};

/* One rank's part. Ranks may share it. */
struct weir__replay_program {
    const struct weir__replay_node *nodes;
    uint32_t nnodes;
    const struct weir__replay_wait *waits;
    const struct weir__sim_op *ops; /* rendezvous count over all ranks */
    const struct weir__replay_stream *streams;
    uint32_t nstreams;
};

struct weir__replay_options {
    uint64_t record_ps, wait_ps; /* of events */
    bool spans;                  /* keep what each node did */
    bool parts;                  /* and when its blocks ran */
};

/* Why a node started when it did. */
enum weir__cause {
    WEIR__CAUSE_NONE,   /* the beginning */
    WEIR__CAUSE_STREAM, /* the node before it on its stream */
    WEIR__CAUSE_EVENT,  /* a node of another stream it depends on */
    WEIR__CAUSE_CORES,  /* who freed the cores it waited for */
    WEIR__CAUSE_PEER,   /* the last rank to arrive at its rendezvous */
};

/* What a node did, in picoseconds. */
struct weir__sim_span {
    uint64_t ready, start, end; /* end: UINT64_MAX if it never was over; start likewise */
    uint32_t cause_node;
    uint32_t cause_rank : 24, cause : 8; /* enum weir__cause */
};

/* Blocks of a node that ran together. */
struct weir__replay_part {
    uint64_t from, to;
    uint32_t rank, node, blocks;
};

struct weir__replay_stats {
    uint64_t over;                /* nodes */
    uint64_t busy_ps, waiting_ps; /* running; ready but without cores */
    uint64_t first, last;         /* start and end; 0 if nothing ran */
};

/* One stream of one rank that cannot go on. */
struct weir__stuck {
    uint32_t rank, stream, node;
    uint32_t held[WEIR__POOLS], missing[WEIR__POOLS]; /* cores; missing: beyond those free */
    enum { WEIR__STUCK_CORES, WEIR__STUCK_PEERS, WEIR__STUCK_EVENT } why;
    uint32_t of_rank, of_stream, of_node; /* the one it waits for */
    uint32_t nwaiting;                    /* of peers: ranks that have not arrived */
    uint32_t next; /* the stuck one it waits for, as an index; its own if there is none */
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
    struct weir__stuck *stuck; /* one per stream that is */
    uint32_t nstuck;
};

/* Runs the program of each rank to its end, or to where nothing can move.
 * returns  WEIR_OK also for a deadlock, which the result tells; WEIR_ENOMEM. */
weir_status weir__replay(const struct weir__sim_limits *limits,
                         const struct weir__replay_program *const *programs, uint32_t nranks,
                         const uint32_t *rendezvous_sizes, uint32_t nrendezvous,
                         const struct weir__replay_options *options,
                         struct weir__replay_result *out);
void weir__replay_fini(struct weir__replay_result *result);

#endif
