#include "soft/soft.h"

enum { PICKS_PER_AGED_PICK = 64 };

static void coreset_init(struct weir__coreset *set, unsigned total)
{
    set->total = set->nfree = total;
    for (unsigned i = 0; i < total; i++)
        set->free[i / 64] |= UINT64_C(1) << (i % 64);
}

static unsigned coreset_take(struct weir__coreset *set)
{
    unsigned word = 0, bit;

    while (!set->free[word])
        word++;
    bit = (unsigned)__builtin_ctzll(set->free[word]);
    set->free[word] &= set->free[word] - 1;
    set->nfree--;
    return word * 64 + bit;
}

static void coreset_give(struct weir__coreset *set, unsigned core)
{
    set->free[core / 64] |= UINT64_C(1) << (core % 64);
    set->nfree++;
}

void weir__sched_init(struct weir__sched *sched, int cube, int vector, bool split)
{
    sched->split = split;
    coreset_init(&sched->cube, (unsigned)cube);
    if (split)
        coreset_init(&sched->vector, (unsigned)vector);
}

enum weir__core_kind weir__sched_kind(const struct weir__sched *sched, weir_engine engine)
{
    if (engine > WEIR_ENGINE_MIX)
        return WEIR__CORE_NONE;
    if (!sched->split || engine == WEIR_ENGINE_CUBE)
        return WEIR__CORE_CUBE;
    return engine == WEIR_ENGINE_VECTOR ? WEIR__CORE_VECTOR : WEIR__CORE_MIX;
}

/* ---- queues ---- */

void weir__sched_add(struct weir__sched *sched, struct weir__soft_stream *s, enum weir__want want,
                     enum weir__core_kind kind)
{
    unsigned p = weir__soft_priority(s);
    struct weir__queue *q = &sched->queues[p];

    s->entry = (struct weir__entry){q->last, NULL, sched->arrivals++, (uint8_t)want, (uint8_t)kind};
    *(q->last ? &q->last->entry.next : &q->first) = s;
    q->last = s;
    if (want == WEIR__WANTS_GANG)
        atomic_fetch_add_explicit(&sched->gangs, 1, memory_order_relaxed);
    atomic_store(&sched->ready,
                 atomic_load_explicit(&sched->ready, memory_order_relaxed) | 1u << p);
}

void weir__sched_remove(struct weir__sched *sched, struct weir__soft_stream *s)
{
    unsigned p = weir__soft_priority(s);
    struct weir__queue *q = &sched->queues[p];
    struct weir__entry *e = &s->entry;

    *(e->prev ? &e->prev->entry.next : &q->first) = e->next;
    *(e->next ? &e->next->entry.prev : &q->last) = e->prev;
    if (e->want == WEIR__WANTS_GANG)
        atomic_fetch_sub_explicit(&sched->gangs, 1, memory_order_relaxed);
    if (sched->elder == s)
        sched->elder = NULL;
    e->want = WEIR__WANTS_NOTHING;
    if (!q->first)
        atomic_store_explicit(
            &sched->ready, atomic_load_explicit(&sched->ready, memory_order_relaxed) & ~(1u << p),
            memory_order_relaxed);
}

/* ---- cores ---- */

struct demand {
    unsigned cube, vector;
};

/* Returns the cores that `blocks` blocks of that kind take at once. A mix block takes two vector
 * cores, or one if the device has only one. */
static struct demand demand_of(const struct weir__sched *sched, enum weir__core_kind kind,
                               unsigned blocks)
{
    unsigned two = sched->vector.total < 2 ? 1 : 2;
    struct demand d = {kind == WEIR__CORE_CUBE || kind == WEIR__CORE_MIX ? blocks : 0,
                       kind == WEIR__CORE_VECTOR ? blocks
                       : kind == WEIR__CORE_MIX  ? two * blocks
                                                 : 0};

    return d;
}

struct doors {
    bool cube, vector; /* closed by a gang that waits */
};

static bool fits(const struct weir__sched *sched, struct demand d, struct doors closed)
{
    return (!d.cube || (!closed.cube && sched->cube.nfree >= d.cube)) &&
           (!d.vector || (!closed.vector && sched->vector.nfree >= d.vector));
}

static struct weir__grant take_cores(struct weir__sched *sched, enum weir__core_kind kind)
{
    struct demand d = demand_of(sched, kind, 1);
    struct weir__grant g = {.kind = (uint8_t)kind};

    for (; g.ncube < d.cube; g.ncube++)
        g.cube = (uint16_t)coreset_take(&sched->cube);
    for (; g.nvector < d.vector; g.nvector++)
        g.vector[g.nvector] = (uint16_t)coreset_take(&sched->vector);
    return g;
}

void weir__sched_release(struct weir__sched *sched, struct weir__grant *grant)
{
    if (grant->ncube)
        coreset_give(&sched->cube, grant->cube);
    while (grant->nvector)
        coreset_give(&sched->vector, grant->vector[--grant->nvector]);
    *grant = (struct weir__grant){.kind = WEIR__CORE_NONE};
}

static void take_gang(struct weir__sched *sched, struct weir__soft_stream *s)
{
    struct demand d = demand_of(sched, s->entry.kind, s->run.cores);

    for (unsigned i = 0; i < d.cube; i++) {
        unsigned core = coreset_take(&sched->cube);

        s->run.gang_cube[core / 64] |= UINT64_C(1) << (core % 64);
    }
    for (unsigned i = 0; i < d.vector; i++) {
        unsigned core = coreset_take(&sched->vector);

        s->run.gang_vector[core / 64] |= UINT64_C(1) << (core % 64);
    }
}

static void give_back(struct weir__coreset *set, uint64_t *held)
{
    for (unsigned i = 0; i < WEIR__MAX_CORES / 64; i++) {
        set->free[i] |= held[i];
        set->nfree += (unsigned)__builtin_popcountll(held[i]);
        held[i] = 0;
    }
}

void weir__sched_release_gang(struct weir__sched *sched, struct weir__soft_stream *s)
{
    give_back(&sched->cube, s->run.gang_cube);
    give_back(&sched->vector, s->run.gang_vector);
}

/* ---- picking ---- */

/* A stream that waits for several cores closes their doors behind itself. */
static void close_doors(struct doors *closed, struct demand d)
{
    closed->cube |= d.cube > 0;
    closed->vector |= d.vector > 0;
}

/* Tries to start or help one stream. A gang that must wait closes its doors, and so does the
 * elder. */
static bool try_stream(struct weir__sched *sched, struct weir__soft_stream *s,
                       struct weir__grant *grant, struct doors *closed)
{
    enum weir__core_kind kind = s->entry.kind;
    struct demand d = demand_of(sched, kind, 1);

    switch ((enum weir__want)s->entry.want) {
    case WEIR__WANTS_CORE:
        if (!fits(sched, d, *closed))
            break;
        *grant = take_cores(sched, kind);
        weir__sched_remove(sched, s);
        return true;
    case WEIR__WANTS_HELP:
        if (s->run.cmd->gang)
            *grant = (struct weir__grant){.kind = WEIR__CORE_NONE}; /* the gang has its cores */
        else if (fits(sched, d, *closed))
            *grant = take_cores(sched, kind);
        else
            break;
        if (sched->elder == s)
            sched->elder = NULL;
        if (++s->run.running == s->run.cores)
            weir__sched_remove(sched, s);
        return true;
    case WEIR__WANTS_GANG:
        d = demand_of(sched, kind, s->run.cores);
        if (!fits(sched, d, *closed)) {
            close_doors(closed, d);
            return false;
        }
        take_gang(sched, s);
        s->run.running = 1;
        *grant = (struct weir__grant){.kind = WEIR__CORE_NONE};
        weir__sched_remove(sched, s);
        if (s->run.cores > 1)
            weir__sched_add(sched, s, WEIR__WANTS_HELP, kind);
        return true;
    case WEIR__WANTS_NOTHING:
        return false;
    }
    if (sched->elder == s)
        close_doors(closed, d);
    return false;
}

/* True if the stream takes several cores at once. Without a closed door, streams that need one core
 * each could take free cores one by one and starve it. */
static bool needs_several(const struct weir__soft_stream *s)
{
    return s->entry.want == WEIR__WANTS_GANG || s->entry.kind == WEIR__CORE_MIX;
}

static struct weir__soft_stream *oldest(const struct weir__sched *sched)
{
    struct weir__soft_stream *found = NULL;

    for (unsigned p = 0; p < WEIR__PRIORITIES; p++) {
        struct weir__soft_stream *s = sched->queues[p].first;

        if (s && (!found || s->entry.arrival < found->entry.arrival))
            found = s;
    }
    return found;
}

struct weir__soft_stream *weir__sched_take(struct weir__sched *sched)
{
    struct weir__soft_stream *s = oldest(sched);

    if (s)
        weir__sched_remove(sched, s);
    return s;
}

struct weir__soft_stream *weir__sched_pick(struct weir__sched *sched, struct weir__grant *grant,
                                           enum weir__want *was, bool aged)
{
    uint32_t ready = atomic_load_explicit(&sched->ready, memory_order_relaxed);
    struct doors closed = {false, false};

    if (ready && (sched->elder || ++sched->picks % PICKS_PER_AGED_PICK == 0 || aged)) {
        struct weir__soft_stream *s = sched->elder ? sched->elder : oldest(sched);

        *was = s->entry.want;
        if (needs_several(s))
            sched->elder = s;
        if (try_stream(sched, s, grant, &closed))
            return s;
    }
    for (; ready; ready &= ready - 1) {
        struct weir__soft_stream *s = sched->queues[__builtin_ctz(ready)].first;

        for (; s; s = s->entry.next) {
            *was = s->entry.want;
            if (try_stream(sched, s, grant, &closed))
                return s;
        }
    }
    return NULL;
}

bool weir__sched_try(struct weir__sched *sched, enum weir__core_kind kind,
                     struct weir__grant *grant)
{
    bool closed = atomic_load_explicit(&sched->gangs, memory_order_relaxed) || sched->elder;

    if (!fits(sched, demand_of(sched, kind, 1), (struct doors){closed, closed}))
        return false;
    *grant = take_cores(sched, kind);
    return true;
}
