/* Collectives of a plan that are calls of a library are captured with its kernels. All ranks must
 * make a communicator's calls in the same order, so the graph has them one after another, in order
 * of their numbers. */
#include "comm/comm.h"
#include "cuda/collective/launch.h"
#include "cuda/program/program.h"

static const struct weir__meet *meet_of(const struct weir__kernel *k)
{
    return k->args;
}

static bool may_be_in_graph(const struct weir__program *p)
{
    for (int i = 0; i < p->ncalls; i++)
        if (!weir__cuda_may_record(p->calls[i]) ||
            meet_of(p->calls[i])->channel != meet_of(p->calls[0])->channel)
            return false;
    /* The launch counts as the first command of the caller's stream. */
    return p->ncalls && !p->on_host && p->lanes[0].nitems;
}

weir_status weir__cuda_find_calls(struct weir__program *p)
{
    int n = 0;

    if (!p->has_collectives)
        return WEIR_OK;
    for (int i = 0; i < p->norder; i++)
        n += weir__cuda_item_at(p, p->order[i])->kernel.is_collective;
    if (!(p->calls = weir__calloc((size_t)n + 1, sizeof *p->calls)))
        return weir__fail_nomem("allocating a plan with %d collectives", n);
    for (int i = 0; i < p->norder; i++) {
        const struct weir__kernel *k = &weir__cuda_item_at(p, p->order[i])->kernel;
        int at = p->ncalls;

        if (!k->is_collective)
            continue;
        for (; at && meet_of(p->calls[at - 1])->call > meet_of(k)->call; at--)
            p->calls[at] = p->calls[at - 1];
        p->calls[at] = k;
        p->ncalls++;
    }
    p->records = may_be_in_graph(p);
    return WEIR_OK;
}

bool weir__cuda_calls_in_order(const struct weir__program *p)
{
    int n = 0;

    for (int i = 0; i < p->norder; i++) {
        const struct weir__kernel *k = &weir__cuda_item_at(p, p->order[i])->kernel;

        if (k->is_collective && p->calls[n++] != k)
            return false;
    }
    return true;
}

weir_status weir__cuda_launch_calls(struct weir__program *p, weir__cu_stream tail,
                                    struct weir__cuda_traced *traced, const uint64_t *tickets)
{
    const struct weir__cuda_recorded graph = {
        .exec = traced ? p->traced.exec : p->plain.exec,
        .calls = p->calls,
        .ncalls = p->ncalls,
        .pending = &p->pending,
        .traced = traced,
    };
    const struct weir__cuda_run run = {weir__cuda_blamed(p), tickets[meet_of(p->calls[0])->place]};

    return weir__cuda_queue_launch(weir__cuda_stream_of(p->lanes[0].stream), tail, &graph, &run);
}
