/* Which run of a plan failed. Its kernels say which item they are, and are the same in every run:
 * so it is said of the first one that is not known to have gone well. What comes after that one is
 * in error as well, whichever it was: runs that are under way have the same caller. */
#include "cuda/faults.h"
#include "cuda/program.h"

#include <limits.h>

void weir__cuda_run_begin(struct weir__program *p, weir_stream *const *streams)
{
    const struct weir__cuda_stream *caller = weir__cuda_stream(streams[0]);
    bool alone = p->caller_id != caller->base.id || caller->sure >= p->upto;
    bool onward = alone || caller->sure >= p->lanes[0].later;

    for (int i = 0; i < p->nlanes; i++) {
        struct weir__cuda_lane *l = &p->lanes[i];

        p->stale |= l->priority != streams[i]->priority;
        l->priority = streams[i]->priority;
        l->stream = streams[i];
        l->base = weir__stream_submitted(streams[i]);
        if (onward) {
            l->first = alone ? l->base : l->later;
            l->later = l->base;
        }
    }
    /* A lane without commands is over when what comes after it is. */
    p->upto = p->lanes[0].base + (p->lanes[0].nitems ? (uint64_t)p->lanes[0].nitems : 1);
    p->caller_id = caller->base.id;
}

/* The item that each lane is in error from, as one waits for another; INT_MAX for none. */
static void spread(const struct weir__program *p, struct weir__cuda_place failed, int *from)
{
    for (int i = 0; i < p->nlanes; i++)
        from[i] = i == failed.lane ? failed.item : INT_MAX;
    for (int i = 0; i < p->norder; i++) {
        struct weir__cuda_place at = p->order[i];
        const struct weir__cuda_item *item = weir__cuda_item(p, at);

        if (item->is_wait && from[item->lane] <= item->item && at.item < from[at.lane])
            from[at.lane] = at.item;
    }
}

void weir__cuda_program_blame(struct weir__cuda *dev, uint32_t id, int lane, int item,
                              const struct weir__code_failure *f)
{
    const struct weir__program *p = dev->programs;
    char text[WEIR__CUDA_FAILURE_TEXT];
    int from[WEIR__CUDA_LANES];

    while (p && p->id != id)
        p = p->next;
    if (!p)
        return;
    weir__cuda_failure_text(weir__cuda_stream(p->lanes[lane].stream), f, text);
    spread(p, (struct weir__cuda_place){lane, item}, from);
    for (int i = 0; i < p->nlanes; i++)
        if (from[i] < INT_MAX)
            weir__cuda_add_failure(weir__cuda_stream(p->lanes[i].stream),
                                   p->lanes[i].first + (uint64_t)from[i] + 1, WEIR_ERANGE, text);
}
