/* Worlds and their groups: how members meet, and the progress thread, which continues calls. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/procs/engine.h"

/* The data that ranks of a world exchange when they join. */
struct blob {
    uint32_t pid, uid;
    uint64_t host;
    struct weir__shared_place home;
    struct weir__address standby;
    char kind[8]; /* of device */
};
_Static_assert(sizeof(struct blob) <= WEIR__WIRE_BLOB, "a blob has room");
_Static_assert((int)WEIR__ENGINE_BLOB <= (int)WEIR__WIRE_BLOB, "engines' blobs have room");

struct weir__split {
    struct weir__split *next;
    uint64_t count;
    char key[WEIR__WIRE_KEY];
};

weir_status weir__engine_gather(struct weir__world *w, const char *key,
                                const struct weir__ranks *members, int64_t timeout_ns,
                                const void *mine, size_t bytes, struct weir__wire_gathered *all)
{
    unsigned char room[WEIR__WIRE_BLOB] = {0};

    if (bytes)
        memcpy(room, mine, bytes);
    return weir__world_gather(w, key, members, timeout_ns, room, all);
}

/* ---- worlds ---- */

static void *progress_main(void *user)
{
    struct weir__world *w = user;

    while (!atomic_load(&w->stop)) {
        struct weir__participant *woken = NULL;
        bool waits = false;
        uint32_t bell = atomic_load(&w->home->bell);
        int64_t pause = INT64_C(1000000000);
        uint64_t now = weir__clock_ns();

        weir__mutex_lock(&w->lock);
        for (struct weir__procs_group *p = w->groups; p; p = p->next)
            if (p->group) {
                weir__procs_look(p, now, &woken);
                waits |= p->group->rendezvous != NULL;
                if (p->group->rendezvous && p->group->timeout_ns >= 0)
                    pause = weir__min(pause, p->group->timeout_ns / 8 + 1);
            }
        if (w->engine->pause)
            pause = weir__min(pause, w->engine->pause(w, waits, &woken));
        weir__mutex_unlock(&w->lock);
        if (woken)
            weir__procs_wake(woken, NULL);
        else
            weir__futex_wait_shared(&w->home->bell, bell, pause);
    }
    return NULL;
}

static weir_status check_kinds(const struct weir__world *w)
{
    for (int i = 1; i < w->ranks; i++)
        if (memcmp(w->peers[i].kind, w->peers[0].kind, sizeof w->peers[i].kind))
            return weir__fail(WEIR_EUNSUPPORTED,
                              "rank 0 is on %.7s, rank %d on %.7s: ranks of a group are on devices "
                              "of one kind",
                              w->peers[0].kind, i, w->peers[i].kind);
    return WEIR_OK;
}

/* Exchanges blobs with all ranks and fills `peers`. */
static weir_status meet_ranks(struct weir__world *w, int64_t timeout_ns)
{
    struct weir__wire_gathered *all = weir__malloc(sizeof *all);
    struct blob b = {.pid = (uint32_t)getpid(),
                     .uid = geteuid(),
                     .host = weir__host_id(),
                     .standby = w->standby};
    unsigned char room[WEIR__WIRE_BLOB] = {0};
    struct weir__ranks everybody = weir__ranks_all(w->ranks);
    weir_status st;

    if (!all)
        return weir__fail_nomem("joining %d ranks", w->ranks);
    weir__share_find(w->home, sizeof *w->home, &b.home);
    snprintf(b.kind, sizeof b.kind, "%s", w->sharing ? w->sharing->kind : "cpu");
    memcpy(room, &b, sizeof b);
    st = weir__world_gather(w, "world", &everybody, timeout_ns, room, all);
    for (int i = 0; i < w->ranks && !st; i++) {
        memcpy(&b, all->blobs[i], sizeof b);
        w->peers[i].pid = b.pid;
        w->peers[i].uid = b.uid;
        w->peers[i].host = b.host;
        w->peers[i].home_place = b.home;
        w->peers[i].standby = b.standby;
        memcpy(w->peers[i].kind, b.kind, sizeof b.kind);
    }
    weir__free(all);
    if (st)
        return st;
    atomic_store(&w->met, true);
    return check_kinds(w);
}

/* Chooses shm if all ranks are on one host and of one user, else mpi. Every rank makes the same
 * choice. */
static const struct weir__engine *choose_engine(const struct weir__world *w)
{
    for (int i = 1; i < w->ranks; i++)
        if (w->peers[i].host != w->peers[0].host || w->peers[i].uid != w->peers[0].uid)
            return &weir__mpi_engine;
    return &weir__shm_engine;
}

weir_status weir__world_begin(struct weir__world *w, int64_t timeout_ns)
{
    weir_status st;

    if (!(w->home = weir__share_map(sizeof *w->home)))
        return weir__fail(WEIR_EUNAVAILABLE, "cannot create shared memory (memfd)");
    if ((st = meet_ranks(w, timeout_ns)))
        return st;
    if (!w->engine)
        w->engine = choose_engine(w);
    if ((st = w->engine->join(w, timeout_ns)))
        return st;
    if (!weir__thread_start(&w->progress, progress_main, w))
        return weir__fail(WEIR_EUNAVAILABLE, "cannot start a thread to join the ranks");
    w->progresses = true;
    return WEIR_OK;
}

void weir__world_end(struct weir__world *w)
{
    atomic_store(&w->stop, true);
    if (w->progresses) {
        weir__procs_poke(w);
        pthread_join(w->progress, NULL);
    }
    if (w->engine)
        w->engine->leave_world(w);
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

/* Makes the group's key from its name, its ranks and a counter of such groups. */
static weir_status name_key(struct weir__world *w, const int *ranks, int nranks, const char *name,
                            char *key)
{
    uint64_t members = UINT64_C(14695981039346656037), order = members, count;
    struct weir__ranks set = {{0}};
    struct weir__split *s;
    char base[WEIR__WIRE_KEY];

    for (int i = 0; i < nranks; i++) {
        weir__ranks_add(&set, ranks[i]);
        order = (order ^ (uint64_t)ranks[i]) * UINT64_C(1099511628211);
    }
    WEIR__EACH_RANK(rank, &set)
    members = (members ^ (uint64_t)rank) * UINT64_C(1099511628211);
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

static weir_status check_self(const struct weir__world *w, const int *ranks, int nranks, int *self)
{
    struct weir__ranks seen = {{0}};

    *self = -1;
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= w->ranks)
            return weir__fail(WEIR_ERANGE, "rank %d is out of range: 0..%d", ranks[i],
                              w->ranks - 1);
        if (weir__ranks_has(&seen, ranks[i]))
            return weir__fail(WEIR_EINVAL, "rank %d is listed twice", ranks[i]);
        weir__ranks_add(&seen, ranks[i]);
        if (ranks[i] == w->rank)
            *self = i;
    }
    if (*self < 0)
        return weir__fail(WEIR_EINVAL, "this process, rank %d, is not among the %d ranks", w->rank,
                          nranks);
    return WEIR_OK;
}

weir_status weir__procs_check_most(const struct weir__engine *engine,
                                   const struct weir__sharing *sharing, int ranks)
{
    if ((engine && engine->run) || !sharing || ranks <= sharing->most_ranks)
        return WEIR_OK;
    return weir__fail(
        WEIR_ERANGE,
        "a group of %d ranks is too large: engines shm and mpi on %s have at most %d, "
        "nccl %d",
        ranks, sharing->kind, sharing->most_ranks, WEIR_MAX_RANKS);
}

weir_status weir__procs_group_make(struct weir__world *w, const int *ranks, int nranks,
                                   const char *name, int64_t timeout_ns,
                                   struct weir__procs_group **out)
{
    struct weir__procs_group *p;
    struct weir__ranks members = {{0}};
    weir_status st;
    int self;

    *out = NULL;
    if ((st = check_self(w, ranks, nranks, &self)))
        return st;
    if (!(p = weir__calloc(1, sizeof *p + (size_t)nranks * sizeof *p->world_rank)))
        return weir__fail_nomem("making a group of %d ranks", nranks);
    p->world = w;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->self = self;
    p->ranks = nranks;
    memcpy(p->world_rank, ranks, (size_t)nranks * sizeof *ranks);
    for (int i = 0; i < nranks; i++)
        weir__ranks_add(&members, ranks[i]);
    st = name_key(w, ranks, nranks, p->name, p->key);
    /* Add it to the list now: from `open` on, other ranks can break it. */
    weir__mutex_lock(&w->lock);
    w->uses++;
    p->next = w->groups;
    w->groups = p;
    weir__mutex_unlock(&w->lock);
    if (!st)
        st = weir__procs_check_most(w->engine, w->sharing, p->ranks);
    if (!st)
        st = w->engine->open(p, &members, timeout_ns);
    if (st) {
        weir__procs_group_free(p);
        return st;
    }
    *out = p;
    return WEIR_OK;
}

void weir__procs_see_close(struct weir__world *w, const struct weir__wire_close *message,
                           bool closes)
{
    struct weir__participant *woken = NULL;

    weir__mutex_lock(&w->lock);
    for (struct weir__procs_group *p = w->groups; p; p = p->next)
        for (int i = 0; i < p->ranks && w->engine && w->engine->see_close; i++)
            if (p->world_rank[i] == (int)message->from && !strcmp(p->key, message->key))
                w->engine->see_close(p, i, closes, message->messages, &woken);
    weir__mutex_unlock(&w->lock);
    weir__procs_wake(woken, NULL);
}

void weir__procs_tell_again(struct weir__world *w)
{
    weir__mutex_lock(&w->lock);
    for (struct weir__procs_group *p = w->groups; p; p = p->next) {
        if (p->group && w->engine->tell_again && !atomic_load(&p->group->broken))
            w->engine->tell_again(p);
    }
    weir__mutex_unlock(&w->lock);
}

void weir__procs_group_free(struct weir__procs_group *p)
{
    struct weir__world *w = p->world;
    struct weir__procs_group **at;

    if (w->engine->quit && p->group)
        w->engine->quit(p);
    weir__mutex_lock(&w->lock);
    for (at = &w->groups; *at != p; at = &(*at)->next)
        ;
    *at = p->next;
    weir__mutex_unlock(&w->lock);
    w->engine->close(p);
    while (p->idle) {
        struct weir__visit *v = p->idle;

        p->idle = v->next;
        weir__free(v);
    }
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

weir_status weir__procs_has_arrived(const struct weir__procs_group *p,
                                    const struct weir__channel *channel, uint64_t call, int rank,
                                    bool *out)
{
    const struct weir__engine *engine = p->world->engine;

    if (!engine->has_arrived)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "engine %s does not tell who has sent something: receive from a rank",
                          engine->name);
    *out = engine->has_arrived(p, channel, call, rank);
    return WEIR_OK;
}
