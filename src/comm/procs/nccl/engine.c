/* Engine `nccl`: ranks on one host, each with a GPU. Calls meet as in `shm`, which also checks that
 * they fit. Then each rank issues NCCL's call on the stream of its part. All ranks must make the
 * calls of a communicator in the same order. So calls of the group are issued in order of their
 * numbers, and each direction of a pair has its own communicator, made at the first message. NCCL
 * guarantees neither an order of sums nor the same bits on every rank. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/nccl/comm.h"

static const char *nccl_unavailable(void)
{
    static struct weir__engine_reason why;

    return weir__nccl_load() ? NULL : weir__engine_keep_reason(&why);
}

static weir_status nccl_join(struct weir__world *w, int64_t timeout_ns)
{
    if (!w->sharing || strcmp(w->sharing->kind, "cuda"))
        return weir__fail(WEIR_EUNSUPPORTED, "engine nccl needs ranks on cuda");
    return weir__shm_engine.join(w, timeout_ns);
}

static void cool_down(const struct weir__procs_group *p, const struct weir__nccl *n)
{
    const struct weir__world *w = p->world;

    if (n->warm.memory)
        w->sharing->unstage(w->device, n->warm.memory, n->warm.bytes);
}

/* Aborts a communicator whose first calls have failed. */
static void give_up_comm(const struct weir__procs_group *p, struct weir__nccl *n)
{
    const struct weir__world *w = p->world;
    bool entered = w->sharing->enter(w->device);

    n->api->abort(n->whole.comm);
    w->sharing->exit(w->device, entered);
    cool_down(p, n);
}

/* The first member makes the unique id with which all members join. */
static weir_status nccl_open(struct weir__procs_group *p, const struct weir__ranks *members,
                             int64_t timeout_ns)
{
    const struct weir__nccl_api *api = weir__nccl_load();
    struct weir__wire_gathered *all;
    struct weir__nccl_id id = {{0}};
    struct weir__nccl *n;
    char key[WEIR__WIRE_KEY];
    uint64_t deadline_ns = weir__nccl_deadline(timeout_ns);
    weir_status st = weir__shm_engine.open(p, members, timeout_ns);
    int code;

    if (st || !api)
        return st ? st : weir__last_status();
    if (!p->self && (code = api->unique_id(&id)))
        return weir__nccl_fail(api, NULL, "an id", code);
    n = weir__calloc(1, sizeof *n);
    all = weir__malloc(sizeof *all);
    if (n && all) {
        n->api = api;
        snprintf(key, sizeof key, "%.80s nccl", p->key);
        st = weir__engine_gather(p->world, key, members, timeout_ns, &id, sizeof id, all);
    } else {
        st = weir__fail_nomem("making a group of %d ranks", p->ranks);
    }
    if (!st) {
        memcpy(&id, all->blobs[p->world_rank[0]], sizeof id);
        st = weir__nccl_comm_make(p, api, &id, p->ranks, p->self, WEIR__NCCL_ANYBODY, deadline_ns,
                                  &n->whole.comm);
        if (!st && (st = weir__nccl_warm_up(p, api, &n->whole, deadline_ns, &n->warm)))
            give_up_comm(p, n);
        if (st) /* other members may be waiting for this rank */
            weir__world_send_abort(p->world, p->key, st, weir_last_error());
    }
    weir__free(all);
    if (st) {
        weir__free(n);
        return st;
    }
    weir__mutex_lock(&p->world->lock); /* the progress thread knows the group already */
    p->nccl = n;
    weir__mutex_unlock(&p->world->lock);
    return WEIR_OK;
}

/* Aborts all communicators, which ends kernels that wait for dead ranks. If threads use them, the
 * last user aborts. Under world->lock. */
static void abort_all(struct weir__procs_group *p)
{
    struct weir__nccl *n = p->nccl;

    n->aborts = true;
    if (n->aborted || n->users)
        return;
    n->aborted = true;
    for (const struct weir__nccl_line *l = &n->whole; l; l = l->next)
        n->api->abort(l->comm);
}

static void nccl_close(struct weir__procs_group *p)
{
    struct weir__nccl *n = p->nccl;
    bool broken = p->group && atomic_load(&p->group->broken);

    if (n) {
        bool entered = p->world->sharing->enter(p->world->device);

        if (broken)
            abort_all(p);
        for (struct weir__nccl_line *l = &n->whole, *next; l; l = next) {
            next = l->next;
            if (!broken)
                weir__nccl_comm_end(n->api, l->comm);
            if (l->order)
                p->world->sharing->forget(p->world->device, l->order);
            if (l != &n->whole)
                weir__free(l);
        }
        p->world->sharing->exit(p->world->device, entered);
        cool_down(p, n);
    }
    weir__free(n);
    weir__shm_engine.close(p);
}

/* Between begin_use and end_use no other thread aborts the communicators. False if they are to be
 * aborted. */
static bool begin_use(struct weir__procs_group *p)
{
    bool there;

    weir__mutex_lock(&p->world->lock);
    there = !p->nccl->aborts;
    p->nccl->users += there;
    weir__mutex_unlock(&p->world->lock);
    return there;
}

/* Also counts `issued` more calls of the line. */
static void end_use(struct weir__procs_group *p, struct weir__nccl_line *line, int issued)
{
    weir__mutex_lock(&p->world->lock);
    p->nccl->users--;
    if (line)
        line->issued += (uint64_t)issued;
    if (p->nccl->aborts)
        abort_all(p);
    weir__mutex_unlock(&p->world->lock);
}

/* ---- a call ---- */

static bool nccl_show(struct weir__procs_group *p, struct weir__visit *v,
                      const struct weir__meet *meet, uint64_t call,
                      const struct weir__code_shown *shown, int n)
{
    struct weir__verb verb;

    (void)shown; /* NCCL moves the bytes: peers read no memory */
    (void)n;
    if (!meet->spell || !meet->spell(meet, &verb)) {
        weir__fail(WEIR_EUNSUPPORTED, "engine nccl cannot run %s: use engine shm",
                   meet->offer.label);
        return false;
    }
    v->record.nshown = 0;
    if (!*meet->channel->name) /* leave the cell as soon as all have arrived: no bytes are read */
        v->record.carried = v->record.args_size;
    memset(v->record.unique, 0, sizeof v->record.unique);
    if (*meet->channel->name && verb.kind == WEIR__VERB_SEND) { /* the pair may have no comm yet */
        struct weir__nccl_id id;

        if (p->nccl->api->unique_id(&id)) {
            weir__fail(WEIR_EUNAVAILABLE, "NCCL: ncclGetUniqueId failed");
            return false;
        }
        memcpy(v->record.unique, &id, sizeof id);
    }
    return weir__shm_engine.show(p, v, meet, call, shown, 0);
}

static enum weir__step nccl_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                                 struct weir__ranks *arrived, struct weir__participant **woken)
{
    const struct weir__visit *v = m->more;
    /* The cell of a quick call was left, and may already belong to another call. */
    enum weir__step step = v->quick ? WEIR__STEP_HERE : weir__shm_engine.meet(p, m, arrived, woken);

    if (step == WEIR__STEP_HERE && m->call > weir__nccl_issued(p->nccl, m->channel)) {
        *arrived = m->channel->members;
        return WEIR__STEP_WAITS; /* earlier calls must be issued first */
    }
    return step;
}

/* Queues the call on the device's stream, or adds it to the capture that the stream is in. */
static weir_status queue_call(struct weir__procs_group *p, struct weir__nccl_line *line,
                              const struct weir__verb *verb, const char *label, void *stream)
{
    const struct weir__nccl_api *api = p->nccl->api;
    weir_status st;

    if (verb->kind <= WEIR__VERB_REDUCE_SCATTER && weir__nccl_type_of(verb->dtype) < 0)
        return weir__fail(WEIR_EUNSUPPORTED, "%s of %s: NCCL does not reduce it", label,
                          weir_dtype_name(verb->dtype));
    if (!verb->bytes && verb->kind != WEIR__VERB_EXCHANGE)
        return WEIR_OK;
    weir__mutex_lock(&line->calling);
    st = weir__nccl_await(p, api, line->comm, label,
                          weir__nccl_issue(api, line->comm, p->ranks, verb, stream),
                          WEIR__NCCL_NOBODY, weir__nccl_deadline(p->group->timeout_ns));
    weir__mutex_unlock(&line->calling);
    return st;
}

/* A communicator's calls must also run one after another on the device, even on different
 * queues. */
static weir_status issue_call(struct weir__procs_group *p, struct weir__nccl_line *line,
                              const struct weir__verb *verb, const char *label, void *queue)
{
    const struct weir__sharing *sharing = p->world->sharing;
    weir_status st = sharing->follow(p->world->device, line->order, queue);

    if (!st && !(st = queue_call(p, line, verb, label, queue)))
        st = sharing->mark(p->world->device, &line->order, queue);
    return st;
}

static weir_status nccl_run(struct weir__procs_group *p, struct weir__rendezvous *m, void *queue)
{
    const struct weir__meet *meet = m->args[p->self];
    struct weir__nccl_line *line = NULL;
    struct weir__verb verb;
    weir_status st;

    meet->spell(meet, &verb);
    if (!begin_use(p))
        return weir__fail(WEIR_ESTATE, "NCCL: %s: the group is broken", meet->offer.label);
    if (!(st = weir__nccl_reach(p, m, &verb, &line)))
        st = issue_call(p, line, &verb, meet->offer.label, queue);
    end_use(p, line, 1);
    weir__procs_poke(p->world);
    return st;
}

/* ---- calls in a graph ---- */

/* Calls of pairs cannot be recorded: their communicator is made when both ranks have arrived. Nor
 * can barriers, which consist only of arriving. */
static bool nccl_may_record(const struct weir__meet *meet)
{
    struct weir__verb verb;

    return !*meet->channel->name && meet->spell && meet->spell(meet, &verb) &&
           verb.kind != WEIR__VERB_BARRIER;
}

/* The kind of a call is everything by which NCCL chooses a kernel. */
static bool nccl_is_new(struct weir__procs_group *p, const struct weir__meet *meet)
{
    struct weir__nccl *n = p->nccl;
    struct weir__verb v;
    uint64_t kind;
    int i = 0;

    meet->spell(meet, &v);
    kind = (uint64_t)v.kind | (uint64_t)v.dtype << 8 | (uint64_t)v.reduce << 16 |
           (uint64_t)(64 - __builtin_clzll((uint64_t)v.bytes | 1)) << 24;
    weir__mutex_lock(&p->world->lock);
    while (i < n->nseen && n->seen[i] != kind)
        i++;
    if (i == n->nseen && i < WEIR__NCCL_SEEN)
        n->seen[n->nseen++] = kind;
    else
        i = -1;
    weir__mutex_unlock(&p->world->lock);
    return i >= 0;
}

static weir_status nccl_record(struct weir__procs_group *p, const struct weir__meet *meet,
                               void *queue)
{
    struct weir__verb verb;
    weir_status st;

    meet->spell(meet, &verb);
    if (!begin_use(p))
        return weir__fail(WEIR_ESTATE, "NCCL: %s: the group is broken", meet->offer.label);
    st = queue_call(p, &p->nccl->whole, &verb, meet->offer.label, queue);
    end_use(p, NULL, 0);
    return st;
}

static weir_status nccl_launch(struct weir__procs_group *p, int calls,
                               weir_status (*launch)(void *user, void *queue), void *user,
                               void *queue)
{
    const struct weir__sharing *sharing = p->world->sharing;
    struct weir__nccl_line *line = &p->nccl->whole;
    weir_status st;

    if (!begin_use(p))
        return weir__fail(WEIR_ESTATE, "NCCL: group '%s' is broken", p->group->name);
    if (!(st = sharing->follow(p->world->device, line->order, queue)) &&
        !(st = launch(user, queue)))
        st = sharing->mark(p->world->device, &line->order, queue);
    end_use(p, line, calls);
    weir__procs_poke(p->world);
    return st;
}

/* The rest is as in engine shm. */
static void nccl_leave_world(struct weir__world *w)
{
    weir__shm_engine.leave_world(w);
}
static void nccl_leave(struct weir__procs_group *p, struct weir__rendezvous *m, bool failed)
{
    weir__shm_engine.leave(p, m, failed);
}
static enum weir__step nccl_left(struct weir__procs_group *p, struct weir__rendezvous *m,
                                 struct weir__ranks *left, struct weir__participant **woken)
{
    return weir__shm_engine.left(p, m, left, woken);
}
static void nccl_sleep(const struct weir__rendezvous *m)
{
    weir__shm_engine.sleep(m);
}
static void nccl_give_up(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    weir__shm_engine.give_up(p, m);
}
static bool nccl_closed(const struct weir__procs_group *p, int rank)
{
    return weir__shm_engine.closed(p, rank);
}

static void nccl_broken(struct weir__procs_group *p)
{
    if (p->nccl)
        abort_all(p);
}

/* Breaks the group with NCCL's error; the reason names a call in progress, if there is one. */
static void break_by(struct weir__procs_group *p, const char *words,
                     struct weir__participant **woken)
{
    char text[300];

    if (p->group->rendezvous) {
        snprintf(text, sizeof text, "NCCL: %s", words);
        weir__procs_break_over(p, p->group->rendezvous, WEIR_EUNAVAILABLE, text, woken);
    } else {
        snprintf(text, sizeof text, "group '%s': NCCL: %s", p->group->name, words);
        weir__procs_break(p, WEIR_EUNAVAILABLE, text, true, woken);
    }
}

/* Polls NCCL for asynchronous errors every 50 ms. */
static int64_t nccl_pause(struct weir__world *w, bool calls_under_way,
                          struct weir__participant **woken)
{
    uint64_t now = weir__clock_ns();

    for (struct weir__procs_group *p = w->groups; p; p = p->next) {
        struct weir__nccl *n = p->nccl;
        int code = 0;

        if (!n || n->aborts || !p->group || now - n->asked_ns < UINT64_C(50000000))
            continue;
        n->asked_ns = now;
        if (n->api->async_error(n->whole.comm, &code) || !code || code == 7 /* in progress */)
            continue;
        break_by(p, n->api->error_string ? n->api->error_string(code) : "it failed", woken);
    }
    return calls_under_way ? INT64_C(50000000) : INT64_MAX;
}

const struct weir__engine weir__nccl_engine = {
    .name = "nccl",
    .promise = "processes of one host, each on a GPU of its own, by NCCL; sums in an order of "
               "NCCL's, bits may differ from run to run and from those of shm",
    .unavailable = nccl_unavailable,
    .join = nccl_join,
    .leave_world = nccl_leave_world,
    .open = nccl_open,
    .close = nccl_close,
    .show = nccl_show,
    .meet = nccl_meet,
    .run = nccl_run,
    .may_record = nccl_may_record,
    .is_new = nccl_is_new,
    .record = nccl_record,
    .launch = nccl_launch,
    .leave = nccl_leave,
    .sleep = nccl_sleep,
    .left = nccl_left,
    .give_up = nccl_give_up,
    .closed = nccl_closed,
    .broken = nccl_broken,
    .pause = nccl_pause,
};
