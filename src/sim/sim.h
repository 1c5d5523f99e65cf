/* A machine in virtual time: ranks that have cores and bandwidths, and lanes that ask for them, one
 * operator at a time. It does not depend on devices or graphs; a front end decides which operator
 * each lane asks for next.
 *
 * Time is in whole picoseconds. At each instant, first everything that ends then ends, and then the
 * cores are granted. So the same input gives the same timeline, bit for bit.
 *
 * Granting cores. Lanes that want cores compete on their rank by priority (a smaller number is more
 * urgent), then by the time at which their operator became ready, then by its order; with a seed,
 * randomly instead of by order. A lane that does not fit does not block the lanes behind it.
 *   ANY       starts with any free core and takes more as they become free, up to op->cores; a
 *             core is free again when its block ends
 *   TOGETHER  starts when all its cores are free at once
 *   GANG      the same under policy=batch; under policy=hold it keeps the cores that it gets
 *             while it waits for the rest
 * An operator with a rendezvous holds its cores and makes no progress until its counterparts on all
 * ranks have started.
 *
 * Speed. Blocks progress at full speed, or as fast as their rank's bandwidths allow. Each bandwidth
 * is modelled as a fluid that is shared max-min fairly by the cores that draw on it. It is shared
 * again whenever an operator or block starts or ends.
 *
 * threads  one at a time per machine.
 */
#ifndef WEIR_SIM_SIM_H
#define WEIR_SIM_SIM_H

#include "base/base.h"
#include "weir/device.h"

#define WEIR__PS_PER_US UINT64_C(1000000)
#define WEIR__SIM_FULL (UINT64_C(1) << 32) /* the rate of a block at full speed */
#define WEIR__SIM_NOBODY UINT64_MAX
/* A rendezvous that the front end handles, not the machine. */
#define WEIR__SIM_OUTSIDE UINT32_MAX

enum weir__sim_pool {
    WEIR__POOL_CUBE,
    WEIR__POOL_VECTOR,
    WEIR__POOL_SDMA,
    WEIR__POOL_HOST,
    WEIR__POOLS
};
extern const char *const weir__pool_names[WEIR__POOLS];

enum weir__sim_flow { WEIR__FLOW_HBM, WEIR__FLOW_L2, WEIR__FLOW_LINK, WEIR__FLOWS };

enum weir__sim_grant { WEIR__GRANT_ANY, WEIR__GRANT_TOGETHER, WEIR__GRANT_GANG };

/* What an operator asks for. For TOGETHER and GANG, `blocks` equals `cores`. */
struct weir__sim_op {
    uint8_t per_block[WEIR__POOLS]; /* cores of one block */
    uint8_t grant;                  /* enum weir__sim_grant */
    bool comm;                      /* communication rather than computing, for statistics */
    uint32_t blocks, cores;         /* cores: blocks that may run at once */
    uint32_t rendezvous;            /* 1 + its index, 0 for none; WEIR__SIM_OUTSIDE */
    uint64_t block_ps;              /* time of one block at full speed */
    uint64_t draws[WEIR__FLOWS];    /* bytes a second of one block at full speed */
    uint64_t launch_ps;             /* for the front end: time to sleep before asking */
};

/* Blocks that started together. */
struct weir__sim_group {
    uint32_t n;
    uint64_t from; /* the time of the start */
    uint64_t end;  /* the value of lane->work at which they end */
};

struct weir__sim_lane {
    uint32_t id, rank;
    int priority;
    uint64_t tag; /* the front end's name for the operator, for statistics */
    const struct weir__sim_op *op;
    uint64_t ready, started; /* started: UINT64_MAX before */
    uint64_t order;
    uint64_t freed_by; /* tag of the operator that freed the cores it waited for, or NOBODY */
    uint64_t met_by;   /* tag of the last operator to arrive at its rendezvous, or NOBODY */
    /* The rest is private to the machine. */
    uint32_t unstarted, running; /* blocks */
    uint32_t held[WEIR__POOLS];  /* cores */
    bool stalled, draws, asleep;
    uint64_t met;         /* the time at which its rendezvous was complete */
    uint64_t work, since; /* progress in full-speed picoseconds; the time up to which it counts */
    uint64_t rate;        /* its speed; WEIR__SIM_FULL is full speed */
    uint32_t first, ngroups;
    struct weir__sim_group *groups; /* a ring of sim->max_cores + 1 entries */
    uint64_t at;                    /* the time at which it is woken */
    uint32_t heap;                  /* 1 + its index in the heap, 0 if it is not there */
    uint64_t lot;
    bool wants;
    struct weir__sim_lane *prev, *next, *met_next;
};

struct weir__sim_rendezvous {
    uint32_t expected, arrived;
    struct weir__sim_lane *waiting;
};

struct weir__sim_rank {
    uint32_t nfree[WEIR__POOLS];
    struct weir__sim_lane *first, *last; /* lanes that want cores, in the order of granting */
    struct weir__sim_lane **drawing;     /* lanes that draw on a bandwidth */
    uint32_t ndrawing, cap_drawing, nlanes;
    bool dirty, flows_dirty;
    uint64_t freed_by;
    /* statistics */
    uint32_t ncompute, ncomm; /* operators that hold cores or run */
    uint64_t counted;
    uint64_t busy[WEIR__POOLS], idle_held[WEIR__POOLS]; /* core-picoseconds */
    /* Time with any operator of the kind; time with communication but no computing. */
    uint64_t compute_ps, comm_ps, exposed_ps;
};

struct weir__sim_limits {
    uint32_t cores[WEIR__POOLS];
    uint64_t flow[WEIR__FLOWS]; /* bytes a second; 0: no limit */
    bool hold;                  /* policy=hold */
    bool isolated;              /* every operator runs as if alone: with unlimited cores and the
                                 * whole bandwidths */
    unsigned whole_flows;       /* a bit for each flow that every operator has to itself */
    uint64_t seed;
};

struct weir__sim {
    struct weir__sim_limits limits;
    uint64_t now;
    uint32_t max_cores;
    uint32_t nranks, nlanes;
    struct weir__sim_rank *ranks;
    struct weir__sim_lane **heap;
    uint32_t nheap, cap_heap;
    uint32_t *dirty;
    uint32_t ndirty;
    struct weir__sim_rendezvous *rendezvous;
    uint32_t nrendezvous;
    uint64_t random;
    /* Callbacks of the front end. `over`: the lane's operator has completed. `awake`: the lane's
     * sleep has ended. Both may call weir__sim_ask and weir__sim_sleep. */
    void (*over)(void *user, struct weir__sim_lane *lane);
    void (*awake)(void *user, struct weir__sim_lane *lane);
    /* The first blocks of an operator whose rendezvous is WEIR__SIM_OUTSIDE have their cores. It
     * continues when the front end calls weir__sim_set_off. Must not call weir__sim_ask or
     * weir__sim_drop. May be NULL if there are no such operators. */
    void (*arrived)(void *user, struct weir__sim_lane *lane);
    /* Blocks of the lane that started at `from` have completed. May be NULL. */
    void (*ended)(void *user, struct weir__sim_lane *lane, uint32_t blocks, uint64_t from);
    void *user;
};

/* Makes a machine with `nrendezvous` rendezvous; the caller sets how many ranks each expects.
 * returns  WEIR_ENOMEM. */
weir_status weir__sim_init(struct weir__sim *sim, const struct weir__sim_limits *limits,
                           uint32_t nranks, uint32_t nrendezvous);
void weir__sim_fini(struct weir__sim *sim);

/* The caller owns the struct. Allocates everything that the lane will need.
 * returns  WEIR_ENOMEM. */
weir_status weir__sim_lane_init(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t rank,
                                int priority);
void weir__sim_lane_fini(struct weir__sim_lane *lane);

/* Makes the lane's next operator ready. `op` must stay valid until the operator has completed. */
void weir__sim_ask(struct weir__sim *sim, struct weir__sim_lane *lane,
                   const struct weir__sim_op *op, uint64_t order, uint64_t tag);
/* Wakes the lane after that time. */
void weir__sim_sleep(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t ps);

/* The rendezvous in which the lane waits, holding its cores, is complete: the lane continues from
 * now on. `met_by` is the tag of the last operator to arrive. */
void weir__sim_set_off(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t met_by);

/* Grants free cores and shares bandwidths. weir__sim_step does that first. */
void weir__sim_share_out(struct weir__sim *sim);
/* Advances to the next event. False if there is none. */
bool weir__sim_step(struct weir__sim *sim);

/* Removes the lane's operator without completing it, and frees its cores. */
void weir__sim_drop(struct weir__sim *sim, struct weir__sim_lane *lane);

/* Returns the operator's time, from ready to its end, if it has the machine to itself. */
uint64_t weir__sim_alone(const struct weir__sim_limits *limits, const struct weir__sim_op *op);

/* ---- between the files of sim/ ---- */

void weir__sim_want(struct weir__sim *sim, struct weir__sim_lane *lane);
void weir__sim_unwant(struct weir__sim *sim, struct weir__sim_lane *lane);
void weir__sim_pick(struct weir__sim *sim, uint32_t rank);        /* grant.c */
void weir__sim_share_flows(struct weir__sim *sim, uint32_t rank); /* flow.c */
/* Updates lane->work to the current time. */
void weir__sim_progress(const struct weir__sim *sim, struct weir__sim_lane *lane);
/* Puts the lane's next event into the heap, or removes it if there is none. */
void weir__sim_schedule(struct weir__sim *sim, struct weir__sim_lane *lane);
void weir__sim_dirty(struct weir__sim *sim, uint32_t rank);
/* Updates the rank's statistics to the current time. */
void weir__sim_count(struct weir__sim *sim, struct weir__sim_rank *rank);

#endif
