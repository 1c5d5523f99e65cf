/* Collectives between the devices of this process. */
#ifndef WEIR_CUDA_COLLECTIVE_MEET_H
#define WEIR_CUDA_COLLECTIVE_MEET_H

#include "cuda/stream/jobs.h"

/* The run of a plan that a collective is part of. The plan holds a reference to the group. */
struct weir__cuda_run {
    struct weir__mark blamed; /* the command that fails with it */
    uint64_t ticket;          /* added to the call number in the arguments */
};

/* Queues a collective at `tail`. `run` is NULL outside plans; `traced` is NULL unless a trace is
 * recorded. (L) */
weir_status weir__cuda_queue_meet(struct weir__cuda_stream *s, weir__cu_stream tail,
                                  const struct weir__kernel *kernel,
                                  const struct weir__cuda_run *run,
                                  struct weir__cuda_traced *traced);
extern const struct weir__cuda_collectives weir__cuda_collectives;
/* The driver's explain. */
void weir__cuda_explain(weir_device *const *devs, int ndevs, struct weir__text *report,
                        struct weir__text *cycle);

#endif
