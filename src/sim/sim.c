/* The clock and the event heap. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

const char *const weir__pool_names[WEIR__POOLS] = {"cube", "vector", "sdma", "host"};

weir_status weir__sim_init(struct weir__sim *sim, const struct weir__sim_limits *limits,
                           uint32_t nranks, uint32_t nrendezvous)
{
    *sim = (struct weir__sim){.limits = *limits, .nranks = nranks, .nrendezvous = nrendezvous};
    sim->random = limits->seed;
    for (int p = 0; p < WEIR__POOLS; p++)
        if (sim->max_cores < limits->cores[p])
            sim->max_cores = limits->cores[p];
    sim->ranks = weir__calloc(nranks, sizeof *sim->ranks);
    sim->dirty = weir__calloc(nranks, sizeof *sim->dirty);
    sim->rendezvous = weir__calloc((size_t)nrendezvous + 1, sizeof *sim->rendezvous);
    if (!sim->ranks || !sim->dirty || !sim->rendezvous) {
        weir__sim_fini(sim);
        return weir__fail_nomem("allocating a machine of %u ranks", nranks);
    }
    for (uint32_t r = 0; r < nranks; r++) {
        sim->ranks[r].freed_by = WEIR__SIM_NOBODY;
        for (int p = 0; p < WEIR__POOLS; p++)
            sim->ranks[r].nfree[p] = limits->isolated ? INT32_MAX : limits->cores[p];
    }
    return WEIR_OK;
}

void weir__sim_fini(struct weir__sim *sim)
{
    for (uint32_t r = 0; sim->ranks && r < sim->nranks; r++)
        weir__free(sim->ranks[r].drawing);
    weir__free(sim->ranks);
    weir__free(sim->dirty);
    weir__free(sim->rendezvous);
    weir__free(sim->heap);
    *sim = (struct weir__sim){0};
}

/* Grows an array of lane pointers to at least `n` entries. */
static weir_status reserve(struct weir__sim_lane ***array, uint32_t n, uint32_t *cap)
{
    struct weir__sim_lane **bigger;

    if (n <= *cap)
        return WEIR_OK;
    if (!(bigger = weir__calloc((size_t)n * 2, sizeof *bigger)))
        return weir__fail_nomem("allocating a machine of %u lanes", n);
    if (*cap)
        memcpy(bigger, *array, *cap * sizeof *bigger);
    weir__free(*array);
    *array = bigger;
    *cap = n * 2;
    return WEIR_OK;
}

weir_status weir__sim_lane_init(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t rank,
                                int priority)
{
    struct weir__sim_rank *r = &sim->ranks[rank];
    weir_status st;

    *lane = (struct weir__sim_lane){.id = sim->nlanes, .rank = rank, .priority = priority};
    if ((st = reserve(&sim->heap, sim->nlanes + 1, &sim->cap_heap)) ||
        (st = reserve(&r->drawing, r->nlanes + 1, &r->cap_drawing)))
        return st;
    if (!(lane->groups = weir__calloc(sim->max_cores + 1, sizeof *lane->groups)))
        return weir__fail_nomem("allocating a lane of the machine");
    sim->nlanes++;
    r->nlanes++;
    return WEIR_OK;
}

void weir__sim_lane_fini(struct weir__sim_lane *lane)
{
    weir__free(lane->groups);
    lane->groups = NULL;
}

/* ---- the heap: lanes by the time at which they are woken, then by id ---- */

static bool before(const struct weir__sim_lane *a, const struct weir__sim_lane *b)
{
    return a->at != b->at ? a->at < b->at : a->id < b->id;
}

static void place(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t i)
{
    sim->heap[i] = lane;
    lane->heap = i + 1;
}

static void sift_up(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t i)
{
    for (; i && before(lane, sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        place(sim, sim->heap[(i - 1) / 2], i);
    place(sim, lane, i);
}

static void sift_down(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t i)
{
    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= sim->nheap)
            break;
        if (child + 1 < sim->nheap && before(sim->heap[child + 1], sim->heap[child]))
            child++;
        if (!before(sim->heap[child], lane))
            break;
        place(sim, sim->heap[child], i);
        i = child;
    }
    place(sim, lane, i);
}

static void heap_set(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t at)
{
    uint64_t was = lane->at;

    lane->at = at;
    if (!lane->heap)
        sift_up(sim, lane, sim->nheap++);
    else if (at < was)
        sift_up(sim, lane, lane->heap - 1);
    else if (at > was)
        sift_down(sim, lane, lane->heap - 1);
}

static void heap_remove(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_lane *last;
    uint32_t i = lane->heap - 1;

    if (!lane->heap)
        return;
    lane->heap = 0;
    last = sim->heap[--sim->nheap];
    if (last == lane)
        return;
    if (i && before(last, sim->heap[(i - 1) / 2]))
        sift_up(sim, last, i);
    else
        sift_down(sim, last, i);
}

/* ---- progress ---- */

__extension__ typedef unsigned __int128 wide;

void weir__sim_progress(const struct weir__sim *sim, struct weir__sim_lane *lane)
{
    uint64_t elapsed = sim->now - lane->since;

    lane->work +=
        lane->rate == WEIR__SIM_FULL ? elapsed : (uint64_t)((wide)elapsed * lane->rate >> 32);
    lane->since = sim->now;
}

void weir__sim_schedule(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    uint64_t left;

    if (!lane->ngroups || !lane->rate) {
        heap_remove(sim, lane);
        return;
    }
    left = lane->groups[lane->first].end - lane->work;
    if (lane->rate != WEIR__SIM_FULL) /* round up, so that the work is done at that time */
        left = (uint64_t)((((wide)left << 32) + lane->rate - 1) / lane->rate);
    heap_set(sim, lane, sim->now + left);
}

void weir__sim_dirty(struct weir__sim *sim, uint32_t rank)
{
    if (!sim->ranks[rank].dirty)
        sim->dirty[sim->ndirty++] = rank;
    sim->ranks[rank].dirty = true;
}

void weir__sim_count(struct weir__sim *sim, struct weir__sim_rank *rank)
{
    uint64_t elapsed = sim->now - rank->counted;

    rank->counted = sim->now;
    rank->compute_ps += rank->ncompute ? elapsed : 0;
    rank->comm_ps += rank->ncomm ? elapsed : 0;
    rank->exposed_ps += rank->ncomm && !rank->ncompute ? elapsed : 0;
}

/* ---- lanes ---- */

/* A random number (splitmix64). */
static uint64_t lot(struct weir__sim *sim)
{
    uint64_t z = sim->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void weir__sim_ask(struct weir__sim *sim, struct weir__sim_lane *lane,
                   const struct weir__sim_op *op, uint64_t order, uint64_t tag)
{
    lane->op = op;
    lane->order = order;
    lane->tag = tag;
    lane->ready = sim->now;
    lane->started = UINT64_MAX;
    lane->freed_by = lane->met_by = WEIR__SIM_NOBODY;
    lane->unstarted = op->blocks;
    lane->running = 0;
    lane->work = 0;
    lane->since = sim->now;
    lane->met = 0;
    lane->stalled = op->rendezvous;
    lane->draws =
        op->draws[WEIR__FLOW_HBM] || op->draws[WEIR__FLOW_L2] || op->draws[WEIR__FLOW_LINK];
    lane->rate = lane->stalled ? 0 : WEIR__SIM_FULL;
    lane->lot = sim->limits.seed ? lot(sim) : 0;
    weir__sim_want(sim, lane);
}

void weir__sim_sleep(struct weir__sim *sim, struct weir__sim_lane *lane, uint64_t ps)
{
    lane->asleep = true;
    heap_set(sim, lane, sim->now + ps);
}

/* Removes the lane from those that run. */
static void leave(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];

    weir__sim_count(sim, rank);
    --*(lane->op->comm ? &rank->ncomm : &rank->ncompute);
    if (!lane->draws)
        return;
    for (uint32_t i = 0; i < rank->ndrawing; i++)
        if (rank->drawing[i] == lane) {
            memmove(&rank->drawing[i], &rank->drawing[i + 1],
                    (--rank->ndrawing - i) * sizeof(struct weir__sim_lane *));
            break;
        }
    rank->flows_dirty = true;
}

static void free_cores(struct weir__sim *sim, struct weir__sim_lane *lane, uint32_t blocks)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];

    for (int p = 0; p < WEIR__POOLS; p++) {
        rank->nfree[p] += blocks * lane->op->per_block[p];
        lane->held[p] -= blocks * lane->op->per_block[p];
    }
    rank->freed_by = lane->tag;
    rank->flows_dirty |= lane->draws;
    weir__sim_dirty(sim, lane->rank);
}

/* Ends the oldest group of blocks of the lane. */
static void end_group(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_group *g = &lane->groups[lane->first];
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];
    uint64_t began = g->from < lane->met ? lane->met : g->from;

    lane->first = lane->first == sim->max_cores ? 0 : lane->first + 1;
    lane->ngroups--;
    lane->running -= g->n;
    for (int p = 0; p < WEIR__POOLS; p++) {
        uint64_t cores = (uint64_t)g->n * lane->op->per_block[p];

        rank->busy[p] += cores * (sim->now - began);
        rank->idle_held[p] += cores * (began - g->from);
    }
    if (sim->ended)
        sim->ended(sim->user, lane, g->n, g->from);
    free_cores(sim, lane, g->n);
}

static void wake(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    if (lane->asleep) {
        lane->asleep = false;
        heap_remove(sim, lane);
        sim->awake(sim->user, lane);
        return;
    }
    weir__sim_progress(sim, lane);
    while (lane->ngroups && lane->groups[lane->first].end <= lane->work)
        end_group(sim, lane);
    if (lane->unstarted || lane->running) {
        if (lane->unstarted && !lane->wants)
            weir__sim_want(sim, lane);
        weir__sim_schedule(sim, lane);
        return;
    }
    heap_remove(sim, lane);
    leave(sim, lane);
    lane->op = NULL;
    sim->over(sim->user, lane);
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Grants cores and shares bandwidths on the ranks that have changed. That may complete a rendezvous
 * and so change more ranks. */
void weir__sim_share_out(struct weir__sim *sim)
{
    uint32_t ndirty = sim->ndirty;

    if (ndirty > 1)
        qsort(sim->dirty, ndirty, sizeof *sim->dirty, compare_ranks);
    for (uint32_t i = 0; i < sim->ndirty; i++)
        weir__sim_pick(sim, sim->dirty[i]);
    for (uint32_t i = 0; i < sim->ndirty; i++) {
        struct weir__sim_rank *rank = &sim->ranks[sim->dirty[i]];

        rank->dirty = false;
        if (rank->flows_dirty)
            weir__sim_share_flows(sim, sim->dirty[i]);
        rank->flows_dirty = false;
    }
    sim->ndirty = 0;
}

bool weir__sim_step(struct weir__sim *sim)
{
    uint64_t at;

    weir__sim_share_out(sim);
    if (!sim->nheap)
        return false;
    at = sim->heap[0]->at;
    sim->now = at;
    while (sim->nheap && sim->heap[0]->at == at)
        wake(sim, sim->heap[0]);
    weir__sim_share_out(sim);
    return true;
}

void weir__sim_drop(struct weir__sim *sim, struct weir__sim_lane *lane)
{
    struct weir__sim_rank *rank = &sim->ranks[lane->rank];

    heap_remove(sim, lane);
    lane->asleep = false;
    if (!lane->op)
        return;
    if (lane->wants)
        weir__sim_unwant(sim, lane);
    if (lane->started != UINT64_MAX) {
        if (lane->op->rendezvous && lane->op->rendezvous != WEIR__SIM_OUTSIDE) {
            struct weir__sim_rendezvous *m = &sim->rendezvous[lane->op->rendezvous - 1];
            struct weir__sim_lane **link = &m->waiting;

            while (*link && *link != lane)
                link = &(*link)->met_next;
            if (*link)
                *link = lane->met_next;
        }
        leave(sim, lane);
    }
    for (int p = 0; p < WEIR__POOLS; p++) {
        rank->nfree[p] += lane->held[p];
        lane->held[p] = 0;
    }
    lane->ngroups = 0;
    lane->op = NULL;
    rank->freed_by = lane->tag;
    weir__sim_dirty(sim, lane->rank);
}
