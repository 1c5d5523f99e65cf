/* Granting cores, by the rules in sim/sim.h. */
#include "sim/sim.h"

/* ---- the list of lanes that want cores ---- */

static bool goes_before(const struct weir__sim_lane *a, const struct weir__sim_lane *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->ready != b->ready)
        return a->ready < b->ready;
    return a->lot != b->lot ? a->lot < b->lot : a->order < b->order;
}

void weir__sim_want(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];
    struct weir__sim_lane *after = rank->last; /* most lanes go to the end of the queue */

    while (after && goes_before(lane, after))
        after = after->prev;
    lane->prev = after;
    lane->next = after ? after->next : rank->first;
    *(lane->next ? &lane->next->prev : &rank->last) = lane;
    *(after ? &after->next : &rank->first) = lane;
    lane->wants = true;
    weir__sim_dirty(sim, lane->rank);
}

void weir__sim_unwant(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];

    *(lane->prev ? &lane->prev->next : &rank->first) = lane->next;
    *(lane->next ? &lane->next->prev : &rank->last) = lane->prev;
    lane->wants = false;
}

/* ---- rendezvous ---- */

void weir__sim_set_off(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t met_by)
{
    lane->stalled = false;
    lane->met = sim->now;
    lane->met_by = met_by;
    lane->since = sim->now;
    lane->rate = WEIR__SIM_FULL;
    if (lane->draws) {
        sim->ranks[lane->rank].flows_dirty = true;
        weir__sim_dirty(sim, lane->rank);
    }
    weir__sim_schedule(sim, lane);
}

static void arrive(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rendezvous *m;
    struct weir__sim_lane *next;

    if (lane->op->rendezvous == WEIR__SIM_OUTSIDE) {
        sim->arrived(sim->user, lane);
        return;
    }
    m = &sim->rendezvous[lane->op->rendezvous - 1];
    lane->met_next = m->waiting;
    m->waiting = lane;
    if (++m->arrived < m->expected)
        return;
    for (struct weir__sim_lane *l = m->waiting; l; l = next) {
        next = l->met_next;
        weir__sim_set_off(sim, l, lane->tag);
    }
    m->waiting = NULL;
}

/* ---- granting ---- */

static void take(struct weir__sim_rank *rank, struct weir__sim_lane *lane, int pool, uint32_t n)
{
    rank->nfree[pool] -= n;
    lane->held[pool] += n;
}

/* Called when the first blocks of the operator start. */
static void begin(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];

    weir__sim_count(sim, rank);
    ++*(lane->op->comm ? &rank->ncomm : &rank->ncompute);
    lane->started = sim->now;
    lane->since = sim->now;
    if (lane->started > lane->ready)
        lane->freed_by = rank->freed_by;
    if (lane->draws)
        rank->drawing[rank->ndrawing++] = lane;
}

/* Starts n more blocks, whose cores the lane has. */
static void start(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t n)
{
    bool first = lane->started == UINT64_MAX;
    uint32_t at;

    if (first)
        begin(sim, lane);
    else
        weir__sim_progress(sim, lane);
    at = lane->first + lane->ngroups++;
    lane->groups[at > sim->max_cores ? at - sim->max_cores - 1 : at] =
        (struct weir__sim_group){n, sim->now, lane->work + lane->op->block_ps};
    lane->running += n;
    lane->unstarted -= n;
    sim->ranks[lane->rank].flows_dirty |= lane->draws;
    if (first && lane->stalled)
        arrive(sim, lane);
    else if (!lane->heap)
        weir__sim_schedule(sim, lane);
}

/* Returns how many blocks, at most `most`, the free cores suffice for. */
static uint32_t fitting(const struct weir__sim_rank *rank, const struct weir__sim_op *op,
                        uint32_t most)
{
    for (int p = 0; p < WEIR__POOLS; p++)
        if (op->per_block[p] && rank->nfree[p] / op->per_block[p] < most)
            most = rank->nfree[p] / op->per_block[p];
    return most;
}

static void grant_blocks(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t n)
{
    for (int p = 0; p < WEIR__POOLS; p++)
        take(&sim->ranks[lane->rank], lane, p, n * lane->op->per_block[p]);
    start(sim, lane, n);
}

/* Takes the free cores that the gang still needs; starts it once it has all. */
static void grant_piecemeal(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];
    bool all = true;

    for (int p = 0; p < WEIR__POOLS; p++) {
        uint32_t missing = lane->op->blocks * lane->op->per_block[p] - lane->held[p];
        uint32_t n = rank->nfree[p] < missing ? rank->nfree[p] : missing;

        take(rank, lane, p, n);
        all &= n == missing;
    }
    if (all)
        start(sim, lane, lane->op->blocks);
}

static void try_lane(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    const struct weir__sim_rank *rank = &sim->ranks[lane->rank];
    const struct weir__sim_op *op = lane->op;
    uint32_t n = op->grant == WEIR__GRANT_ANY ? op->cores - lane->running : op->blocks;

    if (n > lane->unstarted)
        n = lane->unstarted;
    if (op->grant == WEIR__GRANT_GANG && sim->limits.hold) {
        grant_piecemeal(sim, lane);
    } else {
        uint32_t fits = fitting(rank, op, n);

        if (fits && (fits == n || op->grant == WEIR__GRANT_ANY))
            grant_blocks(sim, lane, fits);
    }
    if (!lane->unstarted || (op->grant == WEIR__GRANT_ANY && lane->running == op->cores))
        weir__sim_unwant(sim, lane);
}

void weir__sim_pick(struct weir__sim *sim, uint32_t rank)
{
    struct weir__sim_lane *next;

    for (struct weir__sim_lane *l = sim->ranks[rank].first; l; l = next) {
        next = l->next;
        try_lane(sim, l);
    }
}
