/* Collectives in plans: each gets a rank, a channel, and a number among the plan's calls on
 * it. A run takes as many numbers of the channel as the plan has calls, so the commands of a
 * program never change. */
#include "graph/plan/plan.h"
#include "tensor/party.h"

static weir_status find_channel(weir_plan *plan, const struct weir__party *party, const char *what,
                                weir_rank *rank, int *place)
{
    struct weir__plan_channel *made;
    struct weir__channel *channel;
    weir_status st = weir__party_channel(party, what, rank, &channel);

    for (*place = 0; !st && *place < plan->nchannels; ++*place)
        if (plan->channels[*place].channel == channel && plan->channels[*place].rank == rank)
            break;
    if (st || *place < plan->nchannels) {
        weir__group_drop(rank->group); /* the plan has a use already, or gets none */
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

static weir_status find_seat(weir_plan *plan, int v, weir_rank *const *ranks, size_t nranks)
{
    const struct weir__node *n = &plan->graph->nodes[v];
    struct weir__seat *seat = &plan->seats[v];
    struct weir__party party;
    weir_rank *rank;
    weir_status st;

    if (!n->op->party || !plan->c.live[v])
        return WEIR_OK;
    n->op->party(n->params, &party);
    if (!party.meets || (!(n->op->flags & WEIR__OP_COLLECTIVE) && !nranks))
        return WEIR_OK;
    if ((st = weir__party_rank(&party, n->name, ranks, nranks, &rank)))
        return st;
    if (rank->dev != plan->dev) {
        st = weir__fail(WEIR_EDEVICE, "node '%s': the plan is on %s, rank %d of group '%s' on %s",
                        n->name, plan->dev->label, rank->index, rank->group->name, rank->device);
        weir__group_drop(rank->group);
        return st;
    }
    if ((st = find_channel(plan, &party, n->name, rank, &seat->place))) {
        seat->place = -1;
        return st;
    }
    seat->call = plan->channels[seat->place].calls++;
    return WEIR_OK;
}

weir_status weir__plan_find_seats(weir_plan *plan, weir_rank *const *ranks, size_t nranks)
{
    weir_status st = WEIR_OK;

    plan->seats = weir__malloc(((size_t)plan->graph->nnodes + 1) * sizeof *plan->seats);
    if (!plan->seats)
        return weir__fail(WEIR_ENOMEM, "a plan of %d nodes", plan->graph->nnodes);
    for (int v = 0; v < plan->graph->nnodes; v++)
        plan->seats[v].place = -1;
    for (int v = 0; v < plan->graph->nnodes && !st; v++)
        st = find_seat(plan, v, ranks, nranks);
    return st;
}

void weir__plan_drop_seats(weir_plan *plan)
{
    for (int i = 0; i < plan->nchannels; i++)
        weir__group_drop(plan->channels[i].rank->group);
    weir__free(plan->channels);
    weir__free(plan->seats);
}

weir_status weir__plan_tickets(const weir_plan *plan, uint64_t *tickets)
{
    for (int i = 0; i < plan->nchannels; i++) {
        const struct weir__plan_channel *c = &plan->channels[i];
        weir_status st = weir__group_check(c->rank->group);

        if (st)
            return st;
        tickets[i] = atomic_load_explicit(&c->channel->calls[c->rank->index], memory_order_relaxed);
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
    const struct weir__seat *seat = &plan->seats[node];

    meet->channel = plan->channels[seat->place].channel;
    meet->rank = plan->channels[seat->place].rank->index;
    meet->call = seat->call;
    meet->place = (uint32_t)seat->place;
    meet->timed = !plan->graph->nodes[node].marks.never_timeout;
}
