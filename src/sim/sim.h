/* A machine in virtual time: ranks that have cores and bandwidths, and lanes that ask for
 * them, one operator at a time. It knows neither devices nor graphs; a front end says what
 * each lane asks for next.
 *
 * Time is in whole picoseconds. At one instant everything that ends there ends, then the
 * cores are shared out, so the same questions give the same timeline, bit for bit.
 *
 * Who gets cores: lanes that want some compete on their rank by priority (less is more
 * urgent), then by when their operator became ready, then by its order; with a seed, by lot
 * instead of order. One that does not fit holds up nobody behind it.
 *   ANY       starts with any free core and takes more as they come, up to op->cores; a
 *             core that ends a block is free again
 *   TOGETHER  starts when all its cores are free at once
 *   GANG      the same under policy=batch; under policy=hold it keeps what it gets while
 *             it waits for the rest
 * An operator with a rendezvous holds its cores and makes no progress until its counterpart
 * on every rank has started.
 *
 * How fast: blocks progress at full speed, or as fast as their rank's bandwidths allow.
 * Each bandwidth is a fluid, shared max-min fairly by the cores that draw on it, anew
 * whenever anything starts or ends.
 *
 * threads  one at a time per machine.
 */
#ifndef WEIR_SIM_SIM_H
#define WEIR_SIM_SIM_H

#include "base/base.h"
#include "weir/device.h"

#define WEIR__PS_PER_US UINT64_C(1000000)
#define WEIR__SIM_FULL (UINT64_C(1) << 32) /* the rate of a block that nothing slows down */
#define WEIR__SIM_NOBODY UINT64_MAX
/* A rendezvous that the front end knows of, not the machine. */
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

/* What an operator asks for. Of TOGETHER and GANG `blocks` is `cores`. */
struct weir__sim_op {
    uint8_t per_block[WEIR__POOLS]; /* cores of one block */
    uint8_t grant;                  /* enum weir__sim_grant */
    bool comm;                      /* communication rather than computing, for statistics */
    uint32_t blocks, cores;         /* cores: blocks that may run at once */
    uint32_t rendezvous;            /* 1 + its index, 0 for none; WEIR__SIM_OUTSIDE */
    uint64_t block_ps;              /* of one block at full speed */
    uint64_t draws[WEIR__FLOWS];    /* bytes a second of one block at full speed */
    uint64_t launch_ps;             /* for the front end: slept before it is asked for */
};

/* Blocks that started together. */
struct weir__sim_group {
    uint32_t n;
    uint64_t from; /* when */
    uint64_t end;  /* of the lane's work */
};

struct weir__sim_lane {
    uint32_t id, rank;
    int priority;
    uint64_t tag; /* the front end's name for the operator, for statistics */
    const struct weir__sim_op *op;
    uint64_t ready, started; /* started: UINT64_MAX before */
    uint64_t order;
    uint64_t freed_by; /* tag of who freed the cores it waited for; WEIR__SIM_NOBODY */
    uint64_t met_by;   /* tag of the last to arrive where it met others; WEIR__SIM_NOBODY */
    /* The rest is the machine's own. */
    uint32_t unstarted, running; /* blocks */
    uint32_t held[WEIR__POOLS];  /* cores */
    bool stalled, draws, asleep;
    uint64_t met;         /* when a rendezvous was complete */
    uint64_t work, since; /* picoseconds of full speed since it started, up to when */
    uint64_t rate;        /* of WEIR__SIM_FULL */
    uint32_t first, ngroups;
    struct weir__sim_group *groups; /* a ring of sim->max_cores */
    uint64_t at;                    /* when it is woken */
    uint32_t heap;                  /* 1 + its place there, 0 if it is not */
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
    struct weir__sim_lane *first, *last; /* that want cores, in the order of competition */
    struct weir__sim_lane **drawing;     /* that draw on a bandwidth */
    uint32_t ndrawing, cap_drawing, nlanes;
    bool dirty, flows_dirty;
    uint64_t freed_by;
    /* statistics */
    uint32_t ncompute, ncomm; /* operators that hold cores or run */
    uint64_t counted;
    uint64_t busy[WEIR__POOLS], idle_held[WEIR__POOLS]; /* core-picoseconds */
    uint64_t compute_ps, comm_ps, exposed_ps;           /* any of the kind; comm alone */
};

struct weir__sim_limits {
    uint32_t cores[WEIR__POOLS];
    uint64_t flow[WEIR__FLOWS]; /* bytes a second; 0: without limit */
    bool hold;                  /* policy */
    bool isolated;              /* every operator as if it were alone: cores without limit, and
                                 * the bandwidths to itself */
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
    /* The front end: the lane's operator is over; the lane has slept enough. Both may ask
     * and sleep. */
    void (*over)(void *user, struct weir__sim_lane *lane);
    void (*awake)(void *user, struct weir__sim_lane *lane);
    /* Its first blocks have their cores, and its rendezvous is outside: it goes on when
     * weir__sim_set_off says so. Neither asks nor drops. NULL where there are none. */
    void (*arrived)(void *user, struct weir__sim_lane *lane);
    /* May be NULL: blocks of the lane that started at `from` are over. */
    void (*ended)(void *user, struct weir__sim_lane *lane, uint32_t blocks, uint64_t from);
    void *user;
};

/* returns  WEIR_ENOMEM. `nrendezvous` rendezvous expect nobody yet. */
weir_status weir__sim_init(struct weir__sim *sim, const struct weir__sim_limits *limits,
                           uint32_t nranks, uint32_t nrendezvous);
void weir__sim_fini(struct weir__sim *sim);

/* The lane's struct is the caller's. Room for everything it will need is made here.
 * returns  WEIR_ENOMEM. */
weir_status weir__sim_lane_init(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t rank,
                                int priority);
void weir__sim_lane_fini(struct weir__sim_lane *lane);

/* The lane's next operator is ready. `op` stays until it is over. */
void weir__sim_ask(struct weir__sim *sim, struct weir__sim_lane *lane,
                   const struct weir__sim_op *op, uint64_t order, uint64_t tag);
/* Wakes the lane after that time. */
void weir__sim_sleep(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t ps);

/* The rendezvous the lane waits in, holding its cores, is complete: it goes on from now at full
 * speed. `met_by` is the tag of the last to arrive. */
void weir__sim_set_off(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t met_by);

/* Shares out what is free now. A step does that first. */
void weir__sim_share_out(struct weir__sim *sim);
/* Goes to the next instant at which anything happens. False if nothing will. */
bool weir__sim_step(struct weir__sim *sim);

/* The lane's operator never was: what it holds is free again. */
void weir__sim_drop(struct weir__sim *sim, struct weir__sim_lane *lane);

/* What the operator takes with the machine to itself, from ready to over. */
uint64_t weir__sim_alone(const struct weir__sim_limits *limits, const struct weir__sim_op *op);

/* ---- between the files of sim/ ---- */

void weir__sim_want(struct weir__sim *sim, struct weir__sim_lane *lane);
void weir__sim_unwant(struct weir__sim *sim, struct weir__sim_lane *lane);
void weir__sim_pick(struct weir__sim *sim, uint32_t rank);        /* grant.c */
void weir__sim_share_flows(struct weir__sim *sim, uint32_t rank); /* flow.c */
/* Brings lane->work up to now. */
void weir__sim_progress(const struct weir__sim *sim, struct weir__sim_lane *lane);
/* Puts the lane's next event into the heap, or takes it out. */
void weir__sim_schedule(struct weir__sim *sim, struct weir__sim_lane *lane);
void weir__sim_dirty(struct weir__sim *sim, uint32_t rank);
/* Brings the rank's statistics up to now. */
void weir__sim_count(struct weir__sim *sim, struct weir__sim_rank *rank);

#endif
