/* Collectives in the graph of a plan: a library's calls, captured with the plan's kernels. */
#ifndef WEIR_CUDA_COLLECTIVE_LAUNCH_H
#define WEIR_CUDA_COLLECTIVE_LAUNCH_H

#include "cuda/collective/meet.h"

/* True if the group's engine can record the collective in a graph. */
bool weir__cuda_may_record(const struct weir__kernel *kernel);
/* Adds the collective to the capture that `queue` is in. (L) */
weir_status weir__cuda_record_meet(const struct weir__kernel *kernel, weir__cu_stream queue);

/* Call it before a collective is queued. If it is the first of its kind, captures it and discards
 * the graph, so that the library loads its kernels before any rank waits. Errors are ignored; the
 * collective itself will report them. (L) */
void weir__cuda_warm_call(struct weir__cuda *dev, const struct weir__kernel *kernel);

/* A graph that contains collectives of one group, sorted by number. */
struct weir__cuda_recorded {
    weir__cu_exec exec;
    const struct weir__kernel *const *calls;
    int ncalls;
    _Atomic int *pending;             /* counts launches that have not completed */
    struct weir__cuda_traced *traced; /* its run, while a trace is recorded; else NULL */
};
/* Queues a launch of the graph at `tail`, as one command. It is launched when all ranks have
 * arrived at its first collective; the stream continues when the graph has completed. (L) */
weir_status weir__cuda_queue_launch(struct weir__cuda_stream *s, weir__cu_stream tail,
                                    const struct weir__cuda_recorded *graph,
                                    const struct weir__cuda_run *run);

/* ---- inside the folder ---- */

struct weir__cuda_meet;
/* launch.c: called when the participant of a launch's collective has a new state. */
void weir__cuda_launch_goes_on(struct weir__cuda_meet *m);

#endif
