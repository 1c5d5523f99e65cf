/* One run of a plan: shared by run.c and what chooses its instance. */
#ifndef WEIR_GRAPH_PLAN_RUN_H
#define WEIR_GRAPH_PLAN_RUN_H

#include "graph/plan/plan.h"

enum { WEIR__RUN_FEW = 64, WEIR__RUN_LANES = 128 };

/* The state of one run. It is on the stack, except for the bindings of a plan with very many inputs
 * and outputs. */
struct weir__run {
    weir_plan *plan;
    weir_stream *caller;
    bool help;                             /* the caller's thread may work on it */
    bool held;                             /* the caller's thread must work on it */
    weir_stream *streams[WEIR__RUN_LANES]; /* by lane */
    weir_cores limits[WEIR__RUN_LANES];
    struct weir__mark busy; /* the last run of the instance that acquiring would use */
    char **bound;           /* inputs, then outputs */
    bool *fresh;            /* by output: made for this run */
    char *few_bound[WEIR__RUN_FEW];
    bool few_fresh[WEIR__RUN_FEW];
};

/* Finds or makes an instance with the bindings of the run; waits for one that runs if it must.
 * Under the device lock, which it releases while it waits. An error of that instance's last run is
 * not this run's error. */
weir_status weir__run_acquire(struct weir__run *r, struct weir__instance **out);

/* After queueing `inst` failed with `st`. If memory is short for an instance that the run can do
 * without, because another is idle: frees it, and the plan makes no more.
 * returns  whether to try again. */
bool weir__run_give_up(weir_plan *plan, struct weir__instance *inst, weir_status st);

#endif
