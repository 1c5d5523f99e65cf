/* A collective while it is queued, and its part once all ranks are there: for the files of this
 * folder. meet.c says how the two go together. */
#ifndef WEIR_CUDA_COLLECTIVE_PARTS_H
#define WEIR_CUDA_COLLECTIVE_PARTS_H

#include "comm/procs/engine.h"
#include "cuda/collective/meet.h"

enum { WEIR__CUDA_PHASES = 3 };

/* A collective of one rank, from when it is queued until it is over. */
struct weir__cuda_meet {
    struct weir__participant participant;
    struct weir__cuda_stream *stream;
    uint64_t seq, call;
    struct weir__mark blamed; /* the command that fails with it: its own, or its run's */
    bool in_plan;
    struct weir__cuda_launch *launch; /* it is in that graph; NULL: it is started by itself */
    struct weir__cuda_traced *traced; /* or NULL */
    bool started;                     /* something of it is on the side stream; of a launch, under
                                       * its lock: it may depart when the graph is over */
    const char *name;
    const struct weir__code *code; /* NULL: the others' parts do what is to be done */
    unsigned cores, phases;
    weir__cu_stream side;
    struct {
        weir__cu_function function;
        struct weir__code_launch launch;
    } steps[WEIR__CUDA_PHASES];
    struct weir__cuda_meet *next, **at; /* of the device's that have arrived */
    _Alignas(64) unsigned char args[WEIR_ARGS_MAX];
};

static inline const struct weir__meet *weir__cuda_meet_of(const struct weir__cuda_meet *m)
{
    return (const struct weir__meet *)(const void *)m->args;
}

static inline weir_group *weir__cuda_group_of(const struct weir__cuda_meet *m)
{
    return weir__cuda_meet_of(m)->channel->group;
}

static inline struct weir__cuda *weir__cuda_device_of(const struct weir__cuda_meet *m)
{
    return weir__cuda_of(m->stream->base.dev);
}

/* The engine between processes whose library runs the part, in the place of kernels; NULL for none.
 */
static inline const struct weir__engine *weir__cuda_part_engine(const struct weir__cuda_meet *m)
{
    const struct weir__procs_group *p = weir__cuda_group_of(m)->procs;

    return p && p->world->engine->run ? p->world->engine : NULL;
}

/* meet.c: the device's list of those that have arrived. */
void weir__cuda_meet_list(struct weir__cuda_meet *m);
void weir__cuda_meet_unlist(struct weir__cuda_meet *m);
/* Nobody is in its rendezvous any more. The stream fails if it did, and goes on: by the
 * host, or by the device of `opener`. The group may be gone afterwards, and `m` is. */
void weir__cuda_meet_finish(struct weir__cuda_meet *m, const struct weir__cuda_meet *opener);
/* parts.c: `last` was the last to arrive; in a group of processes, all have. */
void weir__cuda_run_parts(struct weir__cuda_meet *last);
void weir__cuda_run_own_part(struct weir__cuda_meet *m);

#endif
