/* Which run of a plan failed. Its kernels say which item they are, and are the same in every run:
 * so it is said of all that are not known to have gone well. Those are one caller's. */
#include "cuda/fault/faults.h"
#include "cuda/program/program.h"

#include <limits.h>
#include <string.h>

static int count_over(const struct weir__program *p)
{
    uint64_t sure = weir__cuda_stream(p->lanes[0].stream)->sure;
    int n = 0;

    while (n < p->nruns && sure >= p->ends[n])
        n++;
    return n;
}

/* A lane without commands is over when what comes after it is. */
static uint64_t end_of_run(const struct weir__program *p)
{
    return p->lanes[0].base + (p->lanes[0].nitems ? (uint64_t)p->lanes[0].nitems : 1);
}

void weir__cuda_run_begin(struct weir__program *p, weir_stream *const *streams)
{
    int over = p->caller_id == streams[0]->id ? count_over(p) : p->nruns, left = p->nruns - over;

    memmove(p->ends, p->ends + over, (size_t)left * sizeof *p->ends);
    p->caller_id = streams[0]->id;
    p->nruns = left < WEIR__CUDA_RUNS ? left + 1 : left;
    for (int i = 0; i < p->nlanes; i++) {
        struct weir__cuda_lane *l = &p->lanes[i];

        p->stale |= l->priority != streams[i]->priority;
        l->priority = streams[i]->priority;
        l->stream = streams[i];
        l->base_before = l->base;
        l->base = weir__stream_submitted(streams[i]);
        memmove(l->bases, l->bases + over, (size_t)left * sizeof *l->bases);
        if (left < p->nruns) /* else it is not told apart from the one before it */
            l->bases[left] = l->base;
    }
    p->ends[p->nruns - 1] = end_of_run(p);
}

void weir__cuda_run_undo(struct weir__program *p)
{
    bool apart = p->lanes[0].bases[p->nruns - 1] == p->lanes[0].base;

    for (int i = 0; i < p->nlanes; i++)
        p->lanes[i].base = p->lanes[i].base_before;
    if (apart)
        p->nruns--;
    else
        p->ends[p->nruns - 1] = end_of_run(p);
}

/* The item that each lane is in error from, as one waits for another; INT_MAX for none. */
static void spread(const struct weir__program *p, struct weir__cuda_place failed, int *from)
{
    bool more = true;

    for (int i = 0; i < p->nlanes; i++)
        from[i] = i == failed.lane ? failed.item : INT_MAX;
    while (more) {
        more = false;
        for (int i = 0; i < p->nlanes; i++)
            for (int k = 0; k < p->lanes[i].nitems && k < from[i]; k++) {
                const struct weir__cuda_item *item = &p->lanes[i].items[k];

                if (item->is_wait && from[item->lane] <= item->item) {
                    from[i] = k;
                    more = true;
                }
            }
    }
}

/* Of any run from the first that is not known to be over up to the last. */
void weir__cuda_program_blame(struct weir__cuda *dev, uint32_t id, int lane, int item,
                              const struct weir__code_failure *f)
{
    const struct weir__program *p = dev->programs;
    char text[WEIR__CUDA_FAILURE_TEXT];
    int from[WEIR__CUDA_LANES];
    int over;

    while (p && p->id != id)
        p = p->next;
    if (!p || !p->nruns)
        return;
    over = count_over(p);
    over -= over == p->nruns; /* one of them it was */
    weir__cuda_failure_text(weir__cuda_stream(p->lanes[lane].stream), f, text);
    spread(p, (struct weir__cuda_place){lane, item}, from);
    for (int i = 0; i < p->nlanes; i++) {
        const struct weir__cuda_lane *l = &p->lanes[i];
        uint64_t seq[WEIR__CUDA_RUNS];

        if (from[i] == INT_MAX)
            continue;
        for (int k = over; k < p->nruns; k++)
            seq[k - over] = l->bases[k] + (uint64_t)from[i] + 1;
        weir__cuda_add_failure_among(weir__cuda_stream(l->stream), seq, p->nruns - over,
                                     l->base + (uint64_t)from[i] + 1, WEIR_ERANGE, text);
    }
}
