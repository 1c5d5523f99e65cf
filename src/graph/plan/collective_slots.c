/* Collectives in plans: each gets a rank, a channel, and a number among the plan's calls on
 * it. A run takes as many numbers of the channel as the plan has calls, so the commands of a
 * program never change. */
#include "graph/plan/plan.h"
#include "tensor/member.h"

static weir_status find_channel(weir_plan *plan, const struct weir__member *member,
                                const char *what, weir_rank *rank, int *place)
{
    struct weir__plan_channel *made;
    struct weir__channel *channel;
    weir_status st = weir__member_channel(member, what, rank, &channel);

    for (*place = 0; !st && *place < plan->nchannels; ++*place)
        if (plan->channels[*place].channel == channel && plan->channels[*place].rank == rank)
            break;
    if (st || *place < plan->nchannels) {
        weir__group_drop(rank->group); /* the plan holds one already, or needs none after an
                                        * error */
        return st;
    }
    if (plan->nchannels == WEIR__MAX_CHANNELS)
        st = weir__fail(WEIR_ERANGE,
                        "%s: a plan has collectives of at most %d groups, pairs and names", what,
                        WEIR__MAX_CHANNELS);
    else if (!weir__grow(&plan->channels, plan->nchannels, &plan->cap_channels,
                         sizeof *plan->channels))
        st = WEIR_ENOMEM;
    if (st) {
        weir__group_drop(rank->group);
        return st;
    }
    made = &plan->channels[plan->nchannels++];
    *made = (struct weir__plan_channel){.channel = channel, .rank = rank};
    return WEIR_OK;
}

static weir_status find_slot(weir_plan *plan, int v, weir_rank *const *ranks, size_t nranks)
{
    const struct weir__node *n = &plan->graph->nodes[v];
    struct weir__collective_slot *slot = &plan->slots[v];
    struct weir__member member;
    weir_rank *rank;
    weir_status st;

    if (!n->op->member || !plan->c.live[v])
        return WEIR_OK;
    n->op->member(n->params, &member);
    if (!member.is_collective || (!(n->op->flags & WEIR__OP_COLLECTIVE) && !nranks))
        return WEIR_OK;
    if ((st = weir__member_rank(&member, n->name, ranks, nranks, &rank)))
        return st;
    if (rank->dev != plan->dev) {
        st = weir__fail(WEIR_EDEVICE, "node '%s': the plan is on %s, rank %d of group '%s' on %s",
                        n->name, plan->dev->label, rank->index, rank->group->name, rank->device);
        weir__group_drop(rank->group);
        return st;
    }
    if ((st = find_channel(plan, &member, n->name, rank, &slot->place))) {
        slot->place = -1;
        return st;
    }
    slot->call = plan->channels[slot->place].calls++;
    return WEIR_OK;
}

weir_status weir__plan_find_slots(weir_plan *plan, weir_rank *const *ranks, size_t nranks)
{
    weir_status st = WEIR_OK;

    plan->slots = weir__malloc(((size_t)plan->graph->nnodes + 1) * sizeof *plan->slots);
    if (!plan->slots)
        return weir__fail_nomem("making a plan of %d nodes", plan->graph->nnodes);
    for (int v = 0; v < plan->graph->nnodes; v++)
        plan->slots[v].place = -1;
    for (int v = 0; v < plan->graph->nnodes && !st; v++)
        st = find_slot(plan, v, ranks, nranks);
    return st;
}

void weir__plan_drop_slots(weir_plan *plan)
{
    for (int i = 0; i < plan->nchannels; i++)
        weir__group_drop(plan->channels[i].rank->group);
    weir__free(plan->channels);
    weir__free(plan->slots);
}

weir_status weir__plan_tickets(const weir_plan *plan, uint64_t *tickets)
{
    for (int i = 0; i < plan->nchannels; i++) {
        const struct weir__plan_channel *c = &plan->channels[i];
        weir_status st = weir__group_check(c->rank->group);

        if (st)
            return st;
        tickets[i] =
            atomic_load_explicit(&c->channel->callers[c->rank->index].calls, memory_order_relaxed);
    }
    return WEIR_OK;
}

void weir__plan_take_tickets(weir_plan *plan)
{
    for (int i = 0; i < plan->nchannels; i++)
        weir__channel_count(plan->channels[i].channel, plan->channels[i].rank->index,
                            plan->channels[i].calls, NULL);
}

void weir__plan_fill_meet(const weir_plan *plan, int node, struct weir__meet *meet)
{
    const struct weir__collective_slot *slot = &plan->slots[node];

    meet->channel = plan->channels[slot->place].channel;
    meet->rank = plan->channels[slot->place].rank->index;
    meet->pulls = meet->channel->group->pulls;
    meet->call = slot->call;
    meet->place = (uint32_t)slot->place;
    meet->timed = !plan->graph->nodes[node].marks.never_timeout;
}
