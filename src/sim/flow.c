/* Bandwidths as fluids.
 *
 * Each is shared max-min fairly by the cores that draw on it: no core gets more than it can use,
 * and the rest is shared by the other cores. A lane is as fast as its slowest flow. Bandwidth that
 * it then does not use of its other flows is not given to other lanes.
 */
#include "sim/sim.h"

__extension__ typedef unsigned __int128 wide;

static uint64_t fraction(uint64_t part, uint64_t whole)
{
    return (uint64_t)(((wide)part << 32) / whole);
}

/* Returns the bytes a second for each core that wants more than its fair share. UINT64_MAX if all
 * cores get as much as they want. */
static uint64_t level(const struct weir__sim_rank *rank, int flow, uint64_t capacity)
{
    uint64_t share = 0, satisfied = 0;

    for (;;) {
        wide left = capacity;
        uint64_t wanting = 0, now_satisfied = 0;

        for (uint32_t i = 0; i < rank->ndrawing; i++) {
            const struct weir__sim_lane *l = rank->drawing[i];
            uint64_t draw = l->op->draws[flow];

            if (l->stalled || !draw)
                continue;
            if (draw <= share) {
                left -= (wide)draw * l->running;
                now_satisfied += l->running;
            } else {
                wanting += l->running;
            }
        }
        if (!wanting)
            return UINT64_MAX;
        if (share && now_satisfied == satisfied)
            return share;
        satisfied = now_satisfied;
        share = (uint64_t)(left / wanting);
        if (!share)
            return 1;
    }
}

/* Returns the level for a lane that has the machine to itself. */
static uint64_t lone_level(uint64_t capacity, uint32_t running)
{
    return capacity / (running ? running : 1) ? capacity / (running ? running : 1) : 1;
}

void weir__sim_share_flows(struct weir__sim *sim, uint32_t r)
{
    struct weir__sim_rank *rank = &sim->ranks[r];
    unsigned whole = sim->limits.isolated ? ~0U : sim->limits.whole_flows;
    uint64_t levels[WEIR__FLOWS];

    for (int f = 0; f < WEIR__FLOWS; f++)
        levels[f] = sim->limits.flow[f] && !(whole >> f & 1) ? level(rank, f, sim->limits.flow[f])
                                                             : UINT64_MAX;
    for (uint32_t i = 0; i < rank->ndrawing; i++) {
        struct weir__sim_lane *l = rank->drawing[i];
        uint64_t rate = WEIR__SIM_FULL;

        if (l->stalled)
            continue;
        for (int f = 0; f < WEIR__FLOWS; f++) {
            uint64_t got = (whole >> f & 1) && sim->limits.flow[f]
                               ? lone_level(sim->limits.flow[f], l->running)
                               : levels[f];

            if (l->op->draws[f] > got && fraction(got, l->op->draws[f]) < rate)
                rate = fraction(got, l->op->draws[f]);
        }
        if (!rate)
            rate = 1;
        if (rate == l->rate && l->heap)
            continue;
        weir__sim_progress(sim, l);
        l->rate = rate;
        weir__sim_schedule(sim, l);
    }
}

/* The operator runs in full waves of n blocks and one wave with the rest. */
uint64_t weir__sim_alone(const struct weir__sim_limits *limits, const struct weir__sim_op *op)
{
    uint32_t n = op->cores < op->blocks ? op->cores : op->blocks;
    uint64_t full, rest, ps = 0;

    if (!n) /* an operator without blocks does not run */
        return 0;
    full = op->blocks / n;
    rest = op->blocks % n;
    for (int wave = 0; wave < 2; wave++) {
        uint32_t running = wave ? (uint32_t)rest : n;
        uint64_t rate = WEIR__SIM_FULL;

        for (int f = 0; f < WEIR__FLOWS && running; f++)
            if (limits->flow[f] && op->draws[f] > lone_level(limits->flow[f], running)) {
                uint64_t slow = fraction(lone_level(limits->flow[f], running), op->draws[f]);

                rate = slow < rate ? slow : rate;
            }
        rate = rate ? rate : 1;
        if (running)
            ps += (wave ? 1 : full) * (uint64_t)((((wide)op->block_ps << 32) + rate - 1) / rate);
    }
    return ps;
}
