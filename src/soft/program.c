/* Plans on the soft devices. Each lane is packed once, as the commands that eager calls would
 * queue. A run queues one command per lane, which stands for all of them. */
#include "soft/soft.h"

#include <string.h>

struct weir__program {
    int nlanes;
    struct {
        struct weir__soft_lane lane;
        uint32_t *at; /* the offset of each item in bytes */
    } lanes[];
};

static weir_status pack(struct weir__soft_lane *lane, uint32_t *at, const struct weir__lane *from)
{
    size_t size = 0;

    for (int i = 0; i < from->nitems; i++)
        size += weir__soft_command_size(from->items[i].kernel.args_size);
    if (size > UINT32_MAX)
        return weir__fail(WEIR_ERANGE,
                          "a lane of a plan has %zu bytes of commands, at most 4294967295 fit",
                          size);
    if (!(lane->commands = weir__alloc_aligned(size, WEIR__LINE)))
        return weir__fail_nomem("making a lane of %d commands", from->nitems);
    memset(lane->commands, 0, size);
    lane->nitems = (uint32_t)from->nitems;
    for (int i = 0; i < from->nitems; i++) {
        const struct weir__item *item = &from->items[i];
        struct weir__cmd *cmd = (struct weir__cmd *)(lane->commands + lane->size);

        at[i] = (uint32_t)lane->size;
        cmd->size = weir__soft_command_size(item->kernel.args_size);
        lane->size += cmd->size;
        if (item->is_wait) {
            cmd->kind = WEIR__CMD_LANE_WAIT;
            cmd->engine = WEIR_ENGINE_HOST;
            cmd->blocks = (uint32_t)item->lane;
            cmd->v.seq = (uint64_t)item->item + 1;
        } else {
            cmd->kind = WEIR__CMD_KERNEL;
            weir__soft_fill(cmd, &item->kernel);
        }
    }
    return WEIR_OK;
}

static void note_recorded(struct weir__program *p, const struct weir__lane *lanes)
{
    for (int i = 0; i < p->nlanes; i++)
        for (int k = 0; k < lanes[i].nitems; k++) {
            const struct weir__item *item = &lanes[i].items[k];
            struct weir__cmd *source;

            if (!item->is_wait)
                continue;
            source = (struct weir__cmd *)(p->lanes[item->lane].lane.commands +
                                          p->lanes[item->lane].at[item->item]);
            source->recorded = true;
        }
}

static void free_program(struct weir__program *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->nlanes; i++) {
        weir__free(p->lanes[i].lane.commands);
        weir__free(p->lanes[i].at);
    }
    weir__free(p);
}

static weir_status make(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                        struct weir__program **out)
{
    struct weir__program *p;
    weir_status st = WEIR_OK;

    *out = NULL;
    if ((size_t)nlanes * sizeof(struct weir__lane_base) > WEIR_ARGS_MAX)
        return weir__fail(WEIR_ERANGE, "a plan on %s has at most %zu streams, not %d",
                          dev->props.name, WEIR_ARGS_MAX / sizeof(struct weir__lane_base), nlanes);
    if (!(p = weir__calloc(1, sizeof *p + (size_t)nlanes * sizeof *p->lanes)))
        return weir__fail_nomem("making a plan of %d lanes", nlanes);
    p->nlanes = nlanes;
    for (int i = 0; i < nlanes && !st; i++) {
        if (!(p->lanes[i].at = weir__malloc((size_t)lanes[i].nitems * sizeof(uint32_t))))
            st = weir__fail_nomem("making a lane of %d commands", lanes[i].nitems);
        else
            st = pack(&p->lanes[i].lane, p->lanes[i].at, &lanes[i]);
    }
    if (st) {
        free_program(p);
        return st;
    }
    note_recorded(p, lanes);
    *out = p;
    return WEIR_OK;
}

static weir_status update(struct weir__program *p, int lane, int item,
                          const struct weir__kernel *kernel)
{
    struct weir__soft_lane *l = &p->lanes[lane].lane;
    struct weir__cmd *cmd = (struct weir__cmd *)(l->commands + p->lanes[lane].at[item]);

    if (weir__soft_command_size(kernel->args_size) > cmd->size)
        return weir__fail(WEIR_ERANGE,
                          "'%s' has %u bytes of arguments, more than when the plan was made",
                          kernel->name, (unsigned)kernel->args_size);
    weir__soft_fill(cmd, kernel);
    return WEIR_OK;
}

static weir_status run(struct weir__program *p, weir_stream *const *streams,
                       const uint64_t *tickets, int ntickets)
{
    struct weir__lane_base bases[WEIR_ARGS_MAX / sizeof(struct weir__lane_base)];
    size_t args = (size_t)p->nlanes * sizeof *bases + (size_t)ntickets * sizeof *tickets;
    uint32_t size = weir__soft_command_size(args);
    weir_status st;

    if (args > WEIR_ARGS_MAX)
        return weir__fail(WEIR_ERANGE,
                          "a plan with %d streams and %d channels of collectives has too many "
                          "arguments for one command",
                          p->nlanes, ntickets);
    /* Reserve room in all queues first: lanes wait for each other, so all or none must be
     * queued. */
    for (int i = 0; i < p->nlanes; i++) {
        bases[i] =
            (struct weir__lane_base){weir__soft(streams[i]), weir__stream_submitted(streams[i])};
        if ((st = weir__soft_make_room(bases[i].stream, size)))
            return st;
    }
    for (int i = 0; i < p->nlanes; i++) {
        const struct weir__soft_lane *lane = &p->lanes[i].lane;

        if (!lane->nitems)
            continue;
        weir__soft_add_lane(bases[i].stream, lane, bases, p->nlanes, tickets, ntickets);
        streams[i]->clock.seq[streams[i]->slot] += lane->nitems;
    }
    return WEIR_OK;
}

const struct weir__driver_plans weir__soft_plans = {
    .make = make,
    .free = free_program,
    .run = run,
    .update = update,
};
