/* NCCL loads kernels and connects ranks at the first call that needs them. That may wait for all
 * pending work of the device, including a stream that waits for its peers, and then it deadlocks.
 * So the first calls of a communicator are made when the communicator is made, before any stream
 * can wait: each kind of call, with few and with many bytes, between all pairs. */
#include <string.h>

#include "comm/procs/nccl/comm.h"

enum { FEW = 64, MANY = 1 << 18 }; /* elements */

static weir_status call_each(struct weir__procs_group *p, const struct weir__nccl_api *api,
                             void *comm, uint64_t deadline_ns, char *in, char *out, void *stream)
{
    int64_t part = FEW * (int64_t)sizeof(float), all = part * p->ranks;
    const struct weir__verb verbs[] = {
        {.kind = WEIR__VERB_ALL_REDUCE, .numel = FEW},
        {.kind = WEIR__VERB_ALL_REDUCE, .numel = MANY},
        {.kind = WEIR__VERB_REDUCE_SCATTER, .numel = (int64_t)FEW * p->ranks},
        {.kind = WEIR__VERB_ALL_GATHER, .bytes = part},
        {.kind = WEIR__VERB_BROADCAST, .bytes = part},
        {.kind = WEIR__VERB_EXCHANGE, .bytes = all},
    };
    weir_status st = WEIR_OK;

    for (size_t i = 0; i < weir__countof(verbs) && !st; i++) {
        struct weir__verb v = verbs[i];

        v.in = in;
        v.out = out;
        v.dtype = WEIR_F32;
        v.reduce = WEIR_REDUCE_SUM;
        st = weir__nccl_await(p, api, comm, "its first calls",
                              weir__nccl_issue(api, comm, p->ranks, &v, stream), WEIR__NCCL_ANYBODY,
                              deadline_ns);
    }
    return st;
}

weir_status weir__nccl_warm_up(struct weir__procs_group *p, const struct weir__nccl_api *api,
                               struct weir__nccl_line *line, uint64_t deadline_ns,
                               struct weir__nccl_warm *warm)
{
    const struct weir__world *w = p->world;
    size_t one = sizeof(float) * weir__max((size_t)MANY, (size_t)FEW * (size_t)p->ranks);
    void *zeros = weir__calloc(2, one), *stream;
    weir_status st;
    bool entered;

    if (!zeros)
        return weir__fail_nomem("allocating the first calls of %d ranks", p->ranks);
    warm->bytes = 2 * one;
    warm->memory = w->sharing->place(w->device, zeros, 2 * one);
    weir__free(zeros);
    if (!warm->memory || !(stream = w->sharing->queue(w->device)))
        return weir__last_status();
    entered = w->sharing->enter(w->device);
    st = call_each(p, api, line->comm, deadline_ns, warm->memory, (char *)warm->memory + one,
                   stream);
    w->sharing->exit(w->device, entered);
    return st ? st : w->sharing->mark(w->device, &line->order, stream);
}
