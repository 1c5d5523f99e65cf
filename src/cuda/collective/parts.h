/* A queued collective, and its part after all ranks have arrived; used by the files of this folder.
 * meet.c explains the protocol. */
#ifndef WEIR_CUDA_COLLECTIVE_PARTS_H
#define WEIR_CUDA_COLLECTIVE_PARTS_H

#include "comm/procs/engine.h"
#include "cuda/collective/meet.h"

enum { WEIR__CUDA_PHASES = 3 };

/* A collective of one rank, from queueing to its end. */
struct weir__cuda_meet {
    struct weir__participant participant;
    struct weir__cuda_stream *stream;
    uint64_t seq, call;
    struct weir__mark blamed; /* the command that fails with it: its own, or its run's */
    bool in_plan;
    struct weir__cuda_launch *launch; /* the launch whose graph contains it; NULL: not in a graph */
    struct weir__cuda_traced *traced; /* or NULL */
    bool started;                     /* work of it is on the side stream. In a launch, under its
                                       * lock: it departs when the graph has completed */
    const char *name;
    const struct weir__code *code; /* NULL: this rank has no kernel to run */
    unsigned cores, phases;
    weir__cu_stream side;
    struct {
        weir__cu_function function;
        struct weir__code_launch launch;
    } steps[WEIR__CUDA_PHASES];
    struct weir__cuda_meet *next, **at; /* the device's list of arrived collectives */
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

/* Returns the engine whose library runs the part in place of kernels; NULL if kernels run it. */
static inline const struct weir__engine *weir__cuda_part_engine(const struct weir__cuda_meet *m)
{
    const struct weir__procs_group *p = weir__cuda_group_of(m)->procs;

    return p && p->world->engine->run ? p->world->engine : NULL;
}

/* meet.c: add to and remove from the device's list of arrived collectives. */
void weir__cuda_meet_list(struct weir__cuda_meet *m);
void weir__cuda_meet_unlist(struct weir__cuda_meet *m);
/* Ends the collective after its rendezvous is closed: puts the stream in error if it failed, and
 * opens the gate. With `opener`, the side stream of `opener` opens the gate, otherwise this
 * function does. Frees `m`; the group may be destroyed afterwards. */
void weir__cuda_meet_finish(struct weir__cuda_meet *m, const struct weir__cuda_meet *opener);
/* parts.c: the first runs the parts of all ranks after the arrival of `last`, the last rank. The
 * second runs the own part in a group of processes after all ranks have arrived. */
void weir__cuda_run_parts(struct weir__cuda_meet *last);
void weir__cuda_run_own_part(struct weir__cuda_meet *m);

#endif
