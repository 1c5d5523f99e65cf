/* Groups of a world: how members meet, and the thread that lets their calls go on. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/procs/shm.h"

/* What members tell each other. */
struct blob {
    uint32_t pid, uid;
    uint64_t host;
    struct weir__shared_place memory; /* the home, or the cells of the first member */
};
_Static_assert(sizeof(struct blob) <= WEIR__WIRE_BLOB, "a blob has room");

struct weir__split {
    struct weir__split *next;
    uint64_t count;
    char key[WEIR__WIRE_KEY];
};

static weir_status meet(struct weir__world *w, const char *key, uint64_t members,
                        int64_t timeout_ns, const void *memory, size_t bytes,
                        struct weir__wire_gathered *all)
{
    unsigned char room[WEIR__WIRE_BLOB] = {0};
    struct blob b = {.pid = (uint32_t)getpid(), .uid = geteuid(), .host = weir__host_id()};

    if (memory && !weir__share_find(memory, bytes, &b.memory))
        return weir__fail(WEIR_EINTERNAL, "memory of group '%s' is not shared", key);
    memcpy(room, &b, sizeof b);
    return weir__world_gather(w, key, members, timeout_ns, room, all);
}

static struct blob blob_of(const struct weir__wire_gathered *all, int rank)
{
    struct blob b;

    memcpy(&b, all->blobs[rank], sizeof b);
    return b;
}

/* ---- the world's own ---- */

static void *progress_main(void *user)
{
    struct weir__world *w = user;

    while (!atomic_load(&w->stop)) {
        struct weir__participant *woken = NULL;
        uint32_t bell = atomic_load(&w->home->bell);
        int64_t pause = INT64_C(1000000000);
        uint64_t now = weir__clock_ns();

        weir__mutex_lock(&w->lock);
        for (struct weir__procs_group *p = w->groups; p; p = p->next)
            if (p->group) {
                weir__shm_look(p, now, &woken);
                if (p->group->rendezvous && p->group->timeout_ns >= 0)
                    pause = weir__min(pause, p->group->timeout_ns / 8 + 1);
            }
        weir__mutex_unlock(&w->lock);
        if (woken)
            weir__shm_wake(woken, NULL);
        else
            weir__futex_wait_shared(&w->home->bell, bell, pause);
    }
    return NULL;
}

static uint64_t all_of(int ranks)
{
    return ranks == 64 ? UINT64_MAX : (UINT64_C(1) << ranks) - 1;
}

weir_status weir__shm_begin(struct weir__world *w, int64_t timeout_ns)
{
    struct weir__wire_gathered *all;
    weir_status st;

    if (!(w->home = weir__share_map(sizeof *w->home)))
        return weir__fail(WEIR_EUNAVAILABLE, "the system gave no memory to share (memfd)");
    if (!(all = weir__malloc(sizeof *all)))
        return weir__fail_nomem("joining %d ranks", w->ranks);
    st = meet(w, "world", all_of(w->ranks), timeout_ns, w->home, sizeof *w->home, all);
    for (int i = 0; i < w->ranks && !st; i++) {
        struct blob b = blob_of(all, i);
        struct weir__peer *peer = &w->peers[i];

        peer->pid = b.pid;
        if (b.host != weir__host_id())
            st = weir__fail(WEIR_EUNAVAILABLE,
                            "rank %d is on another host, or in another container, than rank %d: "
                            "engine shm joins processes of one",
                            i, w->rank);
        else if (b.uid != geteuid())
            st = weir__fail(WEIR_EUNAVAILABLE,
                            "rank %d is of user %u, rank %d of user %u: engine shm joins processes "
                            "of one",
                            i, b.uid, w->rank, (unsigned)geteuid());
        else if (i == w->rank)
            peer->home = w->home;
        else if (!(peer->home = weir__share_reach(&peer->reached, b.pid, &b.memory, true)))
            st = weir__last_status();
    }
    weir__free(all);
    if (!st && !weir__thread_start(&w->progress, progress_main, w))
        st = weir__fail(WEIR_EUNAVAILABLE, "the system gave no thread for joining ranks");
    else if (!st)
        w->progresses = true;
    return st;
}

void weir__shm_end(struct weir__world *w)
{
    atomic_store(&w->stop, true);
    if (w->progresses) {
        atomic_fetch_add(&w->home->bell, 1);
        weir__futex_wake_shared(&w->home->bell);
        pthread_join(w->progress, NULL);
    }
    for (int i = 0; i < w->ranks; i++)
        weir__share_leave(&w->peers[i].reached);
    if (w->home)
        weir__share_unmap(w->home, sizeof *w->home);
    while (w->splits) {
        struct weir__split *s = w->splits;

        w->splits = s->next;
        weir__free(s);
    }
    weir__stage_trim();
}

/* ---- groups ---- */

/* The k-th group of these ranks and this name. */
static weir_status name_key(struct weir__world *w, const int *ranks, int nranks, const char *name,
                            char *key)
{
    uint64_t members = 0, order = UINT64_C(14695981039346656037), count;
    struct weir__split *s;
    char base[WEIR__WIRE_KEY];

    for (int i = 0; i < nranks; i++) {
        members |= UINT64_C(1) << ranks[i];
        order = (order ^ (uint64_t)ranks[i]) * UINT64_C(1099511628211);
    }
    snprintf(base, sizeof base, "%.30s:%llx:%08x", name, (unsigned long long)members,
             (unsigned)(order >> 32 ^ order));
    weir__mutex_lock(&w->lock);
    for (s = w->splits; s && strcmp(s->key, base); s = s->next)
        ;
    if (!s && (s = weir__calloc(1, sizeof *s))) {
        memcpy(s->key, base, sizeof base);
        s->next = w->splits;
        w->splits = s;
    }
    count = s ? s->count++ : 0;
    weir__mutex_unlock(&w->lock);
    if (!s)
        return weir__fail_nomem("making a group of %d ranks", nranks);
    snprintf(key, WEIR__WIRE_KEY, "%.60s:%llu", base, (unsigned long long)count);
    return WEIR_OK;
}

static weir_status open_cells(struct weir__procs_group *p, const struct weir__wire_gathered *all)
{
    struct blob b = blob_of(all, p->world_rank[0]);

    if (p->owns_cells)
        return WEIR_OK;
    if (b.memory.bytes != weir__cells_size(p->ranks))
        return weir__fail(WEIR_EINVAL, "the members of group '%s' are in another order", p->key);
    if (!(p->cells = weir__share_reach(&p->reached, b.pid, &b.memory, true)))
        return weir__last_status();
    return WEIR_OK;
}

/* The members tell each other where the cells are, and that they have them: whoever is quick may be
 * gone again before another has opened its memory. */
static weir_status meet_members(struct weir__procs_group *p, uint64_t members, int64_t timeout_ns,
                                struct weir__wire_gathered *all)
{
    char ready[WEIR__WIRE_KEY];
    weir_status st;

    if ((st = meet(p->world, p->key, members, timeout_ns, p->cells, weir__cells_size(p->ranks),
                   all)) ||
        (st = open_cells(p, all)))
        return st;
    snprintf(ready, sizeof ready, "%.80s ready", p->key);
    return meet(p->world, ready, members, timeout_ns, NULL, 0, all);
}

static weir_status check_self(const struct weir__world *w, const int *ranks, int nranks, int *self)
{
    uint64_t seen = 0;

    *self = -1;
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= w->ranks)
            return weir__fail(WEIR_ERANGE, "rank %d is out of range: 0..%d", ranks[i],
                              w->ranks - 1);
        if (seen >> ranks[i] & 1)
            return weir__fail(WEIR_EINVAL, "rank %d is there twice", ranks[i]);
        seen |= UINT64_C(1) << ranks[i];
        if (ranks[i] == w->rank)
            *self = i;
    }
    if (*self < 0)
        return weir__fail(WEIR_EINVAL, "rank %d, this process, is none of the %d ranks", w->rank,
                          nranks);
    return WEIR_OK;
}

weir_status weir__procs_group_make(struct weir__world *w, const int *ranks, int nranks,
                                   const char *name, int64_t timeout_ns,
                                   struct weir__procs_group **out)
{
    struct weir__wire_gathered *all = NULL;
    struct weir__procs_group *p;
    uint64_t members = 0;
    weir_status st;
    int self;

    *out = NULL;
    if ((st = check_self(w, ranks, nranks, &self)))
        return st;
    if (!(p = weir__calloc(1, sizeof *p)) || !(all = weir__malloc(sizeof *all))) {
        weir__free(p);
        return weir__fail_nomem("making a group of %d ranks", nranks);
    }
    p->world = w;
    p->self = self;
    p->ranks = nranks;
    memcpy(p->world_rank, ranks, (size_t)nranks * sizeof *ranks);
    for (int i = 0; i < nranks; i++)
        members |= UINT64_C(1) << ranks[i];
    st = name_key(w, ranks, nranks, name, p->key);
    /* Known before the others can break it. */
    weir__mutex_lock(&w->lock);
    w->uses++;
    p->next = w->groups;
    w->groups = p;
    weir__mutex_unlock(&w->lock);
    if (!st && !self) {
        p->cells = weir__share_map(weir__cells_size(nranks));
        p->owns_cells = p->cells;
        if (!p->cells)
            st = weir__fail(WEIR_EUNAVAILABLE, "the system gave no memory to share (memfd)");
    }
    if (!st)
        st = meet_members(p, members, timeout_ns, all);
    weir__free(all);
    if (st) {
        weir__procs_group_free(p);
        return st;
    }
    *out = p;
    return WEIR_OK;
}

void weir__procs_group_free(struct weir__procs_group *p)
{
    struct weir__world *w = p->world;
    struct weir__procs_group **at;

    weir__mutex_lock(&w->lock);
    for (at = &w->groups; *at != p; at = &(*at)->next)
        ;
    *at = p->next;
    weir__mutex_unlock(&w->lock);
    /* Others get the reason of a broken group; that somebody leaves it is none. */
    if (p->cells && !(p->group && atomic_load(&p->group->broken))) {
        atomic_fetch_or(&p->cells->closed, UINT64_C(1) << p->self);
        weir__shm_ring(p, all_of(p->ranks));
    }
    while (p->idle) {
        struct weir__visit *v = p->idle;

        p->idle = v->next;
        weir__free(v);
    }
    if (p->owns_cells)
        weir__share_unmap(p->cells, 0);
    weir__share_leave(&p->reached);
    weir__free(p);
    weir__world_drop(w);
}

int weir__procs_group_self(const struct weir__procs_group *p)
{
    return p->self;
}
struct weir__world *weir__procs_group_world(const struct weir__procs_group *p)
{
    return p->world;
}
int weir__procs_group_world_rank(const struct weir__procs_group *p, int rank)
{
    return p->world_rank[rank];
}
