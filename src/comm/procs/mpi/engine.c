/* Engine `mpi`: ranks on several hosts. Each rank of a world is a rank of MPI_COMM_WORLD; each
 * group has its own communicator. If the program has called MPI_Init, weir uses that MPI; otherwise
 * weir initializes MPI and finalizes it when the process exits. MPI has no progress thread, so
 * weir's progress thread polls: continuously while calls progress, then less and less often. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "comm/procs/mpi/mpi.h"

static struct weir__mutex start_lock; /* held while MPI is initialized */
static const struct weir__mpi_api *started;
static _Atomic bool a_rank_died; /* do not call MPI_Finalize: it would wait for the dead rank */

/* The data that ranks exchange when they join. */
struct blob {
    int32_t rank, size, standard, reserved;
};

static const char *mpi_unavailable(void)
{
    static struct weir__engine_reason why;

    return weir__mpi_load() ? NULL : weir__engine_keep_reason(&why);
}

static void end_mpi(void)
{
    int over = 0;

    if (!atomic_load(&a_rank_died) && !started->finalized(&over) && !over)
        started->finalize();
}

static weir_status start(const struct weir__mpi_api *api)
{
    char text[300];
    int running = 0, over = 0, level = 0, code;

    if (!api->finalized(&over) && over)
        return weir__fail(WEIR_EUNAVAILABLE, "engine mpi: this process has ended its MPI "
                                             "(MPI_Finalize): it cannot be started again");
    if (!api->initialized(&running) && running) {
        api->query_thread(&level);
        if (level < api->thread_multiple)
            return weir__fail(WEIR_EUNSUPPORTED,
                              "engine mpi: the program has started MPI for too few threads: call "
                              "MPI_Init_thread with MPI_THREAD_MULTIPLE");
        return WEIR_OK;
    }
    if ((code = api->init_thread(NULL, NULL, api->thread_multiple, &level))) {
        weir__mpi_error_text(api, code, text, sizeof text);
        return weir__fail(WEIR_EUNAVAILABLE, "engine mpi: MPI cannot be initialized: %s", text);
    }
    started = api;
    atexit(end_mpi);
    if (level < api->thread_multiple)
        return weir__fail(WEIR_EUNSUPPORTED, "engine mpi: this %s is built without threads",
                          api->family);
    return WEIR_OK;
}

static weir_status start_once(const struct weir__mpi_api *api)
{
    weir_status st;

    weir__mutex_lock(&start_lock);
    st = start(api);
    weir__mutex_unlock(&start_lock);
    return st;
}

/* Fills rank_of: which rank of MPI_COMM_WORLD each rank is. */
static weir_status map_ranks(struct weir__world *w, struct weir__mpi *mpi, const struct blob *mine,
                             const struct weir__wire_gathered *all)
{
    for (int i = 0; i < w->ranks; i++) {
        struct blob b;

        memcpy(&b, all->blobs[i], sizeof b);
        if (b.size < w->ranks)
            return weir__fail(WEIR_EUNAVAILABLE,
                              "engine mpi: rank %d is in an MPI world of %d, not of %d or more: "
                              "start all ranks with the mpirun or mpiexec of the MPI that is used "
                              "(%s here; WEIR_MPI names another)",
                              i, b.size, w->ranks, mpi->api->family);
        if (b.standard != mine->standard)
            return weir__fail(WEIR_EUNAVAILABLE, "engine mpi: ranks %d and %d use different MPIs",
                              i, w->rank);
        mpi->rank_of[i] = b.rank;
        for (int k = 0; k < i; k++)
            if (mpi->rank_of[k] == b.rank)
                return weir__fail(WEIR_EUNAVAILABLE,
                                  "engine mpi: ranks %d and %d are both rank %d of MPI", k, i,
                                  b.rank);
    }
    return WEIR_OK;
}

static weir_status mpi_join(struct weir__world *w, int64_t timeout_ns)
{
    const struct weir__mpi_api *api = weir__mpi_load();
    struct weir__wire_gathered *all;
    struct blob mine = {.size = 1};
    struct weir__ranks everybody;
    weir_status st;

    if (!api)
        return weir__last_status();
    if ((st = start_once(api)))
        return st;
    w->mpi = weir__calloc(1, sizeof *w->mpi + (size_t)w->ranks * sizeof *w->mpi->rank_of);
    all = weir__malloc(sizeof *all);
    if (!w->mpi || !all) {
        weir__free(all);
        return weir__fail_nomem("joining %d ranks", w->ranks);
    }
    w->mpi->api = api;
    api->comm_rank(api->comm_world, &mine.rank);
    api->comm_size(api->comm_world, &mine.size);
    mine.standard = api->thread_multiple != 3;
    everybody = weir__ranks_all(w->ranks);
    st = weir__engine_gather(w, "world of mpi", &everybody, timeout_ns, &mine, sizeof mine, all);
    if (!st)
        st = map_ranks(w, w->mpi, &mine, all);
    weir__free(all);
    return st;
}

/* Memory of requests that MPI has not completed is leaked, because MPI may still access it. */
static void mpi_leave_world(struct weir__world *w)
{
    if (!w->mpi)
        return;
    for (int i = 0; i < w->ranks; i++)
        if (atomic_load(&w->peers[i].gone) > WEIR__GONE_LEFT)
            atomic_store(&a_rank_died, true);
    weir__mpi_free_orphans(w->mpi);
    weir__free(w->mpi);
    w->mpi = NULL;
}

/* After an error of MPI, waits for the link to report a dead rank and copies its text. False if
 * none is reported in time. */
static bool await_dead(const struct weir__procs_group *p, char *text, size_t size)
{
    uint64_t until = weir__clock_ns() + WEIR__MPI_PATIENCE_NS;
    _Atomic uint32_t nobody = 0;

    for (; weir__clock_ns() < until; weir__futex_wait(&nobody, 0, INT64_C(1000000)))
        for (int i = 0; i < p->ranks; i++) {
            const struct weir__peer *peer = &p->world->peers[p->world_rank[i]];

            if (i != p->self && atomic_load(&peer->gone) > WEIR__GONE_LEFT) {
                snprintf(text, size, "%s", peer->text);
                return true;
            }
        }
    return false;
}

static weir_status fail_open(const struct weir__procs_group *p, int code)
{
    char text[300];

    if (!await_dead(p, text, sizeof text))
        weir__mpi_error_text(p->world->mpi->api, code, text, sizeof text);
    return weir__fail(WEIR_EUNAVAILABLE, "engine mpi: no communicator for group '%s': %s", p->key,
                      text);
}

static weir_status meet_members(const struct weir__procs_group *p, const char *key,
                                const struct weir__ranks *members, int64_t timeout_ns)
{
    struct weir__wire_gathered *all = weir__malloc(sizeof *all);
    weir_status st;

    if (!all)
        return weir__fail_nomem("making a group of %d ranks", p->ranks);
    st = weir__engine_gather(p->world, key, members, timeout_ns, NULL, 0, all);
    weir__free(all);
    return st;
}

static weir_status make_comm(struct weir__procs_group *p)
{
    const struct weir__mpi *mpi = p->world->mpi;
    const struct weir__mpi_api *api = mpi->api;
    int ranks[WEIR_MAX_RANKS], tag = 0, code;
    void *world_group = NULL, *group = NULL;

    for (int i = 0; i < p->ranks; i++)
        ranks[i] = mpi->rank_of[p->world_rank[i]];
    for (const char *c = p->key; *c; c++)
        tag = (tag * 31 + (unsigned char)*c) & 0x7fff;
    if ((code = api->comm_group(api->comm_world, &world_group)))
        return fail_open(p, code);
    if (!(code = api->group_incl(world_group, p->ranks, ranks, &group))) {
        code = api->comm_create_group(api->comm_world, group, tag, &p->comm);
        api->group_free(&group);
    }
    api->group_free(&world_group);
    if (!code)
        code = api->comm_set_errhandler(p->comm, api->errors_return);
    return code ? fail_open(p, code) : WEIR_OK;
}

/* Members meet on the control channel first, because it reports ranks that do not come. They meet
 * there again after each has its communicator: a rank that breaks the group revokes the
 * communicator everywhere, and Open MPI fails if a communicator is revoked while it is being
 * made. */
static weir_status mpi_open(struct weir__procs_group *p, const struct weir__ranks *members,
                            int64_t timeout_ns)
{
    char ready[WEIR__WIRE_KEY];
    weir_status st;

    snprintf(ready, sizeof ready, "%.80s ready", p->key);
    if (!weir__mpi_counts_make(p))
        return weir__fail_nomem("making a group of %d ranks", p->ranks);
    if ((st = meet_members(p, p->key, members, timeout_ns)) || (st = make_comm(p)))
        return st;
    return meet_members(p, ready, members, timeout_ns);
}

/* Does not free a broken group's communicator: MPI_Comm_free may wait for dead ranks. */
static void mpi_close(struct weir__procs_group *p)
{
    weir__mpi_forget_names(p);
    if (p->comm && p->group && !atomic_load(&p->group->broken))
        p->world->mpi->api->comm_free(&p->comm);
    weir__free(p->counts);
}

/* Sends copies only: MPI may use the memory longer than the call lasts. */
static bool mpi_show(struct weir__procs_group *p, struct weir__visit *v,
                     const struct weir__meet *meet, uint64_t call,
                     const struct weir__code_shown *shown, int n)
{
    (void)call;
    if (*meet->channel->name && !weir__is_pair(meet->channel))
        v->record.digest = weir__hash_text(meet->channel->name);
    for (int i = 0; i < n; i++) {
        const void *at;

        memcpy(&at, (const char *)meet + shown[i].offset, sizeof at);
        if (!shown[i].bytes)
            continue;
        if (shown[i].made ? !weir__visit_make_room(v, meet, &shown[i])
                          : !weir__visit_stage(p->world, v, at, (size_t)shown[i].bytes))
            return false;
    }
    return true;
}

static void mpi_leave(struct weir__procs_group *p, struct weir__rendezvous *m, bool failed)
{
    (void)p; /* nothing to do: peers have their own copies, and the link reports failures */
    (void)m;
    (void)failed;
}

static void mpi_broken(struct weir__procs_group *p)
{
    if (p->comm && p->world->mpi->api->comm_revoke)
        p->world->mpi->api->comm_revoke(p->comm); /* requests end with an error */
}

/* How long to sleep while there is no call. MPI may still hold data of a completed call for which
 * peers wait, so it makes progress after 1, 2, 4, ... ms, and then once a second. Under
 * world->lock. */
static int64_t idle_pause(const struct weir__world *w, struct weir__mpi *mpi)
{
    enum { DOUBLINGS = 10 };

    for (const struct weir__procs_group *p = w->groups; p && mpi->idle; p = p->next)
        /* `group` first: it is set under world->lock when the communicator is complete. */
        if (p->group && p->comm && !atomic_load(&p->group->broken)) {
            weir__mpi_keep_going(p);
            break;
        }
    mpi->idle = weir__min(mpi->idle + 1, DOUBLINGS + 1);
    return weir__min(mpi->orphans ? INT64_C(10000000) : INT64_MAX, INT64_C(1000000)
                                                                       << (mpi->idle - 1));
}

/* Polls continuously while calls progress, then every 50 us to 1 ms; rarely without calls. */
static int64_t mpi_pause(struct weir__world *w, bool calls_under_way,
                         struct weir__participant **woken)
{
    struct weir__mpi *mpi = w->mpi;

    weir__mpi_free_orphans(mpi);
    mpi->polls = *woken ? 0 : mpi->polls + 1;
    if (!calls_under_way)
        return idle_pause(w, mpi);
    mpi->idle = 0;
    if (mpi->polls < 50)
        return 0;
    return weir__min(INT64_C(50000) << weir__min((mpi->polls - 50) / 20, 5), INT64_C(1000000));
}

const struct weir__engine weir__mpi_engine = {
    .name = "mpi",
    .promise = "processes of many hosts, by MPI 5's standard ABI or Open MPI 4, 5, on cuda through "
               "the host's memory; sums in rank order, the same bits on every rank",
    .by_host = true,
    .rounds = true,
    .unavailable = mpi_unavailable,
    .join = mpi_join,
    .leave_world = mpi_leave_world,
    .open = mpi_open,
    .close = mpi_close,
    .quit = weir__mpi_quit,
    .see_close = weir__mpi_see_close,
    .tell_again = weir__mpi_tell_again,
    .show = mpi_show,
    .meet = weir__mpi_meet,
    .leave = mpi_leave,
    .left = weir__mpi_left,
    .give_up = weir__mpi_give_up,
    .closed = weir__mpi_closed,
    .may_come = weir__mpi_may_come,
    .broken = mpi_broken,
    .pause = mpi_pause,
};
