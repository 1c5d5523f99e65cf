/* Engine `shm`: processes of one host. Rendezvous are cells in shared memory (cells.h). The last
 * rank to arrive runs its part at once and rings the others' bells. Kernels read peers' memory in
 * place, through read-only mappings. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/procs/shm.h"

/* Polling: a round takes about a microsecond. */
enum { PAUSES = 32, LEAST_ROUNDS = 1, MOST_ROUNDS = 128, ROUNDS_PER_YIELD = 8 };
#define SHORT_SLEEP_NS UINT64_C(300000)

void weir__shm_ring(const struct weir__procs_group *p, const struct weir__ranks *ranks)
{
    WEIR__EACH_RANK(rank, ranks)
    {
        struct weir__home *home = p->world->peers[p->world_rank[rank]].home;

        if (rank == p->self)
            continue;
        atomic_fetch_add(&home->bell, 1);
        weir__futex_wake_shared(&home->bell);
    }
}

/* Returns the number of words in a set of this group's ranks. */
static int words_of(const struct weir__procs_group *p)
{
    return (p->ranks + 63) / 64;
}

/* ---- worlds and groups ---- */

static weir_status shm_join(struct weir__world *w, int64_t timeout_ns)
{
    (void)timeout_ns; /* the ranks have met */
    w->crowded = w->ranks > weir__host_threads();
    for (int i = 0; i < w->ranks; i++) {
        struct weir__peer *peer = &w->peers[i];

        if (peer->host != weir__host_id())
            return weir__fail(WEIR_EUNAVAILABLE,
                              "rank %d is on another host, or in another container, than rank %d: "
                              "engine shm needs one host",
                              i, w->rank);
        if (peer->uid != geteuid())
            return weir__fail(
                WEIR_EUNAVAILABLE,
                "rank %d is of user %u, rank %d of user %u: engine shm needs one user", i,
                peer->uid, w->rank, (unsigned)geteuid());
        if (i == w->rank)
            peer->home = w->home;
        else if (!(peer->home = weir__shm_reach(w, NULL, i, &peer->reached, &peer->home_place)))
            return weir__last_status();
    }
    return WEIR_OK;
}

static void shm_leave_world(struct weir__world *w)
{
    for (int i = 0; i < w->ranks; i++) {
        weir__share_leave(&w->peers[i].reached);
        if (w->sharing)
            w->sharing->leave(w->device, &w->peers[i].shown);
    }
}

static weir_status open_cells(struct weir__procs_group *p, const struct weir__wire_gathered *all)
{
    struct weir__shared_place place;

    memcpy(&place, all->blobs[p->world_rank[0]], sizeof place);
    if (p->owns_cells)
        return WEIR_OK;
    if (place.bytes != weir__cells_size(p->ranks))
        return weir__fail(WEIR_EINVAL, "the members of group '%s' are in another order", p->key);
    p->cells = weir__shm_reach(p->world, p, p->world_rank[0], &p->reached, &place);
    return p->cells ? WEIR_OK : weir__last_status();
}

/* The first member tells the others where the cells are. Then all tell each other that they have
 * mapped them: a fast rank could otherwise close the group before another has opened its memory. */
static weir_status meet_members(struct weir__procs_group *p, const struct weir__ranks *members,
                                int64_t timeout_ns, struct weir__wire_gathered *all)
{
    struct weir__shared_place place = {0};
    char ready[WEIR__WIRE_KEY];
    weir_status st;

    if (p->cells && !weir__share_find(p->cells, weir__cells_size(p->ranks), &place))
        return weir__fail(WEIR_EINTERNAL, "memory of group '%s' is not shared", p->key);
    if ((st = weir__engine_gather(p->world, p->key, members, timeout_ns, &place, sizeof place,
                                  all)) ||
        (st = open_cells(p, all)))
        return st;
    snprintf(ready, sizeof ready, "%.80s ready", p->key);
    return weir__engine_gather(p->world, ready, members, timeout_ns, NULL, 0, all);
}

static weir_status shm_open(struct weir__procs_group *p, const struct weir__ranks *members,
                            int64_t timeout_ns)
{
    struct weir__wire_gathered *all;
    weir_status st;

    if (!p->self) {
        p->cells = weir__share_map(weir__cells_size(p->ranks));
        p->owns_cells = p->cells;
        if (!p->cells)
            return weir__fail(WEIR_EUNAVAILABLE, "cannot create shared memory (memfd)");
    }
    if (!(all = weir__malloc(sizeof *all)))
        return weir__fail_nomem("making a group of %d ranks", p->ranks);
    st = meet_members(p, members, timeout_ns, all);
    weir__free(all);
    return st;
}

static void shm_close(struct weir__procs_group *p)
{
    /* A broken group must not look closed: its members must report why it broke. */
    if (p->cells && !(p->group && atomic_load(&p->group->broken))) {
        struct weir__ranks all = weir__ranks_all(p->ranks);

        atomic_fetch_or(&p->cells->closed[p->self >> 6], weir__rank_bit(p->self));
        weir__shm_ring(p, &all);
    }
    if (p->owns_cells)
        weir__share_unmap(p->cells, 0);
    weir__share_leave(&p->reached);
}

static bool shm_closed(const struct weir__procs_group *p, int rank)
{
    bool any = false;

    if (rank < 0) {
        for (int i = 0; i < words_of(p); i++)
            any |= atomic_load(&p->cells->closed[i]) != 0;
        return any;
    }
    return atomic_load(&p->cells->closed[rank >> 6]) & weir__rank_bit(rank);
}

static bool shm_has_arrived(const struct weir__procs_group *p, const struct weir__channel *channel,
                            uint64_t call, int rank)
{
    struct weir__cell *c = weir__cell_of(p->cells, channel, call);

    return c && atomic_load(&c->generation) == call / WEIR__CELLS &&
           atomic_load(&c->arrived[rank >> 6]) & weir__rank_bit(rank);
}

/* ---- a call: showing ---- */

static bool shm_show(struct weir__procs_group *p, struct weir__visit *v,
                     const struct weir__meet *meet, uint64_t call,
                     const struct weir__code_shown *shown, int n)
{
    v->cell = weir__cell_of(p->cells, meet->channel, call);
    v->generation = call / WEIR__CELLS;
    if (!v->cell) {
        weir__fail(WEIR_ERANGE, "%s: a group of processes has collectives of at most %d names",
                   meet->offer.label, WEIR__CELL_NAMES);
        return false;
    }
    return weir__shm_show_bytes(p->world, v, meet, shown, n);
}

/* ---- a call: the rendezvous ---- */

static const struct weir__record *record_of(const struct weir__visit *v,
                                            const struct weir__channel *channel, int rank)
{
    return &v->cell->records[weir__cell_place(channel, rank)];
}

static bool is_gathered(const struct weir__cell *cell, const struct weir__channel *channel)
{
    return atomic_load(&cell->narrived) == (uint32_t)channel->nmembers;
}

static struct weir__ranks who_arrived(const struct weir__procs_group *p,
                                      const struct weir__cell *cell)
{
    struct weir__ranks set = {{0}};

    for (int i = 0; i < words_of(p); i++)
        set.words[i] = atomic_load(&cell->arrived[i]);
    return set;
}

/* Compares the records of the ranks in `arrived` with this rank's. False if the group broke. */
static bool check_fit(struct weir__procs_group *p, struct weir__rendezvous *m,
                      const struct weir__ranks *arrived, struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    char differ[400];

    for (int i = 0; i < words_of(p); i++)
        for (uint64_t word = arrived->words[i] & ~v->fits.words[i]; word; word &= word - 1) {
            int rank = i * 64 + __builtin_ctzll(word);

            const struct weir__record *r = record_of(v, m->channel, rank);

            if (!weir__shm_is_alike(v, r) &&
                !weir__record_fits(r, m->args[p->self], differ, sizeof differ)) {
                weir__procs_break_over(p, m, WEIR_EINVAL, differ, woken);
                return false;
            }
            weir__ranks_add(&v->fits, rank);
        }
    return true;
}

/* Copies only the used part of the record; unused fields are at its end. */
void weir__shm_put_record(struct weir__procs_group *p, const struct weir__channel *channel,
                          const struct weir__visit *v, uint64_t call)
{
    struct weir__record *to = &v->cell->records[weir__cell_place(channel, p->self)];
    const struct weir__record *from = &v->record;

    memcpy(to, from,
           offsetof(struct weir__record, args) + weir__max(from->args_size, from->carried));
    if (p->world->sharing)
        memcpy(to->handles, from->handles, sizeof *to - offsetof(struct weir__record, handles));
    if (!*channel->name)
        p->written[call % WEIR__CELLS] = from->digest;
}

/* Puts the record into its cell if all earlier calls have left it. False if the group broke. */
static bool place(struct weir__procs_group *p, struct weir__rendezvous *m,
                  struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    struct weir__ranks arrived;
    bool last;

    if (v->placed)
        return true;
    if (atomic_load(&v->cell->generation) != v->generation) {
        atomic_store(&v->cell->wanted, 1);
        if (atomic_load(&v->cell->generation) != v->generation)
            return true;
    }
    weir__shm_put_record(p, m->channel, v, m->call);
    v->placed = true;
    /* If this call sleeps, `sleeps` was set for an earlier generation and has been cleared. */
    if (v->slept_ns)
        atomic_store(&v->cell->sleeps, 1);
    atomic_fetch_or(&v->cell->arrived[p->self >> 6], weir__rank_bit(p->self));
    arrived = who_arrived(p, v->cell);
    last = atomic_fetch_add(&v->cell->narrived, 1) + 1 == (uint32_t)m->channel->nmembers;
    if (!check_fit(p, m, &arrived, woken))
        return false;
    if (last && atomic_exchange(&v->cell->sleeps, 0))
        weir__shm_ring(p, &m->channel->members);
    return true;
}

/* Reads the arguments of that rank into visit->args. False with the thread's error set. */
static bool reach_record(struct weir__procs_group *p, struct weir__rendezvous *m, int rank)
{
    struct weir__channel *channel = m->channel;
    struct weir__visit *v = m->more;
    const struct weir__record *r = record_of(v, channel, rank);
    struct weir__peer *peer = &p->world->peers[p->world_rank[rank]];
    void *at[WEIR__CODE_SHOWN] = {NULL};

    if (weir__shm_is_alike(v, r)) {
        weir__shm_read_alike(v, m->args[p->self], rank, r);
        return true;
    }
    if (!weir__shm_reach_bytes(p->world, peer, rank, r, v->args[rank], at))
        return false;
    return weir__record_read(r, channel, rank, at, (void *)v->args[rank]);
}

/* Ends a sleep, if there was one. After a short sleep raises the patience: otherwise two ranks
 * could keep waking each other, each arriving just after the other has gone to sleep. */
static void end_sleep(struct weir__world *w, struct weir__visit *v)
{
    if (v->slept_ns && weir__clock_ns() - v->slept_ns < SHORT_SLEEP_NS)
        atomic_store_explicit(&w->patience, MOST_ROUNDS, memory_order_relaxed);
    v->slept_ns = 0;
}

/* Resets a cell that all ranks have left and starts its next generation. */
static void empty_cell(const struct weir__procs_group *p, const struct weir__channel *channel,
                       struct weir__cell *c)
{
    for (int i = 0; i < words_of(p); i++)
        atomic_store_explicit(&c->arrived[i], 0, memory_order_relaxed);
    atomic_store_explicit(&c->narrived, 0, memory_order_relaxed);
    atomic_store_explicit(&c->nhalf, 0, memory_order_relaxed);
    atomic_store_explicit(&c->nleft, 0, memory_order_relaxed);
    atomic_store_explicit(&c->nacked, 0, memory_order_relaxed);
    atomic_store_explicit(&c->sleeps, 0, memory_order_relaxed);
    atomic_fetch_add(&c->generation, 1);
    if (atomic_load(&c->wanted) && atomic_exchange(&c->wanted, 0)) {
        weir__shm_ring(p, &channel->members);
        weir__procs_poke(p->world); /* a call of this rank may want it too */
    }
}

void weir__shm_leave_quick(const struct weir__procs_group *p, const struct weir__channel *channel,
                           struct weir__cell *c)
{
    if (atomic_fetch_add(&c->nleft, 1) + 1 == (uint32_t)channel->nmembers)
        empty_cell(p, channel, c);
}

static enum weir__step shm_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                                struct weir__ranks *arrived, struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    bool quick = v->record.carried;

    if (!place(p, m, woken))
        return WEIR__STEP_BROKE;
    if (!v->placed || !is_gathered(v->cell, m->channel)) {
        *arrived = v->placed ? who_arrived(p, v->cell) : weir__ranks_one(p->self);
        /* For a call that shm_again.c has placed, this is the first comparison of records. */
        if (v->placed && !check_fit(p, m, arrived, woken))
            return WEIR__STEP_BROKE;
        return WEIR__STEP_WAITS;
    }
    *arrived = m->channel->members;
    end_sleep(p->world, v);
    if (!check_fit(p, m, arrived, woken))
        return WEIR__STEP_BROKE;
    WEIR__EACH_RANK(rank, arrived)
    {
        if (rank == p->self)
            continue;
        if (!reach_record(p, m, rank)) {
            const struct weir__peer *peer = &p->world->peers[p->world_rank[rank]];

            /* The peer has given up the call or has died: the reason comes over the link. */
            if (atomic_load(&v->cell->failed) || weir__process_state(peer->pid) == 'Z')
                return WEIR__STEP_WAITS;
            weir__procs_break_over(p, m, WEIR_EUNAVAILABLE, weir_last_error(), woken);
            return WEIR__STEP_BROKE;
        }
        quick &= record_of(v, m->channel, rank)->carried != 0;
        m->args[rank] = v->args[rank];
    }
    if (quick) { /* all ranks see the same records, so all come to the same result */
        v->quick = true;
        weir__shm_leave_quick(p, m->channel, v->cell);
    }
    return WEIR__STEP_HERE;
}

/* ---- a call: leaving ---- */

/* Returns the counter of ranks that have done the current round. */
static _Atomic uint32_t *done_count(const struct weir__procs_group *p,
                                    const struct weir__rendezvous *m)
{
    struct weir__cell *c = ((const struct weir__visit *)m->more)->cell;

    return weir__procs_round_follows(p, m) ? &c->nhalf : &c->nleft;
}

static void shm_leave(struct weir__procs_group *p, struct weir__rendezvous *m, bool failed)
{
    struct weir__visit *v = m->more;
    bool last;

    if (v->quick)
        return;
    if (failed)
        atomic_store(&v->cell->failed, 1);
    last = atomic_fetch_add(done_count(p, m), 1) + 1 == (uint32_t)m->channel->nmembers;
    if ((last && atomic_exchange(&v->cell->sleeps, 0)) || failed)
        weir__shm_ring(p, &m->channel->members);
}

/* True for the receiver of a message: no peer reads its memory, so it need not wait for the sender.
 * It increments `nleft` before it reads `failed`, so it knows whether the data it read is valid. */
static bool shows_nothing(const struct weir__procs_group *p, const struct weir__rendezvous *m)
{
    const struct weir__visit *v = m->more;

    return !v->record.nshown && weir__is_pair(m->channel) && p->world->engine == &weir__shm_engine;
}

/* If another rank has given up the call, waits for the reason, which comes over the link. */
static enum weir__step shm_left(struct weir__procs_group *p, struct weir__rendezvous *m,
                                struct weir__ranks *left, struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    struct weir__cell *c = v->cell;
    uint32_t members = (uint32_t)m->channel->nmembers;

    if (v->quick)
        return WEIR__STEP_HERE;
    *left = weir__ranks_one(p->self);
    if (atomic_load(&c->failed) && !weir__world_is_linked(p->world)) {
        weir__procs_break_over(p, m, WEIR_EUNAVAILABLE,
                               "another rank has given up the call; the reason is unknown because "
                               "no rank that joins the others can be reached",
                               woken);
        return WEIR__STEP_BROKE;
    }
    if (atomic_load(&c->failed) ||
        (atomic_load(done_count(p, m)) != members && !shows_nothing(p, m)))
        return WEIR__STEP_WAITS;
    end_sleep(p->world, v);
    if (weir__procs_round_follows(p, m))
        return WEIR__STEP_HERE;
    if (atomic_fetch_add(&c->nacked, 1) + 1 == members)
        empty_cell(p, m->channel, c);
    return WEIR__STEP_HERE;
}

/* ---- polling ---- */

/* Polls a little longer than recent waits have taken, and hardly at all if polling has not paid.
 * If there are more ranks than hardware threads, yields every round. Needs no lock: the cell stays
 * mapped as long as the group exists. */
void weir__shm_linger(struct weir__world *w, const struct weir__cell *cell,
                      const _Atomic uint32_t *count, uint32_t members, uint64_t generation,
                      const struct weir__again *again)
{
    int patience = atomic_load_explicit(&w->patience, memory_order_relaxed), more;
    int per_yield = w->crowded ? 1 : ROUNDS_PER_YIELD;

    for (int i = 1; atomic_load_explicit(count, memory_order_acquire) != members; i++) {
        weir__relax();
        if (i % PAUSES)
            continue;
        if (atomic_load_explicit(&cell->failed, memory_order_relaxed) ||
            atomic_load_explicit(&cell->generation, memory_order_relaxed) != generation ||
            (again && weir__again_is_in_the_way(again)))
            return;
        if (i >= PAUSES * patience) {
            atomic_store_explicit(&w->patience, weir__max(patience / 2, (int)LEAST_ROUNDS),
                                  memory_order_relaxed);
            return;
        }
        if (i % (PAUSES * per_yield) == 0)
            weir__yield();
    }
    more = weir__min(2 * patience, (int)MOST_ROUNDS);
    if (more != patience)
        atomic_store_explicit(&w->patience, more, memory_order_relaxed);
}

static void shm_linger(const struct weir__procs_group *p, const struct weir__rendezvous *m,
                       const struct weir__visit *v, bool leaves)
{
    weir__shm_linger(p->world, v->cell, leaves ? done_count(p, m) : &v->cell->narrived,
                     (uint32_t)m->channel->nmembers, v->generation, NULL);
}

static void shm_sleep(const struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;

    v->slept_ns = weir__clock_ns();
    atomic_store(&v->cell->sleeps, 1);
}

/* Sets `failed` before this rank's memory may change. */
static void shm_give_up(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;

    (void)p;
    if (v->placed && !v->quick)
        atomic_store(&v->cell->failed, 1);
}

const struct weir__engine weir__shm_engine = {
    .name = "shm",
    .promise = "processes of one host and user, on cpu or cuda (CUDA IPC); sums in rank order, the "
               "same bits on every rank",
    .rounds = true,
    .join = shm_join,
    .leave_world = shm_leave_world,
    .open = shm_open,
    .close = shm_close,
    .show = shm_show,
    .meet = shm_meet,
    .leave = shm_leave,
    .linger = shm_linger,
    .sleep = shm_sleep,
    .at_once = weir__shm_at_once,
    .left = shm_left,
    .give_up = shm_give_up,
    .closed = shm_closed,
    .has_arrived = shm_has_arrived,
};
