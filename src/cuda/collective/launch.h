/* Collectives in the graph of a plan: a library's calls, captured with the plan's kernels. */
#ifndef WEIR_CUDA_COLLECTIVE_LAUNCH_H
#define WEIR_CUDA_COLLECTIVE_LAUNCH_H

#include "cuda/collective/meet.h"

/* Whether the group's engine can put it into a graph. */
bool weir__cuda_may_record(const struct weir__kernel *kernel);
/* Puts it into the capture that `queue` is in. (L) */
weir_status weir__cuda_record_meet(const struct weir__kernel *kernel, weir__cu_stream queue);

/* Before one is queued that is the first of its kind: captures it for nothing, so that the library
 * has loaded what it needs while nobody waits for it. What goes wrong is said when it is made. (L)
 */
void weir__cuda_warm_call(struct weir__cuda *dev, const struct weir__kernel *kernel);

/* A graph that has collectives of one group, by number. */
struct weir__cuda_recorded {
    weir__cu_exec exec;
    const struct weir__kernel *const *calls;
    int ncalls;
    _Atomic int *pending;             /* one more until it has run, or been given up */
    struct weir__cuda_traced *traced; /* its run, while a trace is recorded; else NULL */
};
/* Queues its launch at `tail`, as one command: it is launched when all ranks are at its first
 * collective, and the stream goes on when it is over. (L) */
weir_status weir__cuda_queue_launch(struct weir__cuda_stream *s, weir__cu_stream tail,
                                    const struct weir__cuda_recorded *graph,
                                    const struct weir__cuda_run *run);

/* ---- inside the folder ---- */

struct weir__cuda_meet;
/* launch.c: a collective of a launch goes on, or is over. */
void weir__cuda_launch_goes_on(struct weir__cuda_meet *m);

#endif
