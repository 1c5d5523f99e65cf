/* Engine `nccl`: a GPU for each rank, of one host. Calls meet as by `shm`, where they are checked
 * against each other; then each rank issues NCCL's call on the stream of its part. A communicator
 * wants its calls in one order on all ranks: those of the group are issued by number, and each pair
 * that sends has, in each direction, a communicator of its own, made when both are first there.
 * NCCL promises neither an order of sums nor the same bits on every rank. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/nccl/comm.h"

/* Of a pair and a direction. */
struct pair {
    struct pair *next;
    const struct weir__channel *channel;
    void *comm;
};

struct weir__nccl {
    const struct weir__nccl_api *api;
    void *comm;      /* of the group */
    uint64_t issued; /* calls of the group */
    struct pair *pairs;
    int users;            /* threads that call NCCL with one of these, without the lock */
    bool aborted, aborts; /* it is to be aborted, by the last user */
    uint64_t asked_ns;    /* when NCCL was last asked for errors */
};

static const char *nccl_unavailable(void)
{
    static struct weir__engine_reason why;

    return weir__nccl_load() ? NULL : weir__engine_keep_reason(&why);
}

static weir_status nccl_join(struct weir__world *w, int64_t timeout_ns)
{
    if (!w->sharing || strcmp(w->sharing->kind, "cuda"))
        return weir__fail(WEIR_EUNSUPPORTED, "engine nccl joins ranks on cuda");
    return weir__shm_engine.join(w, timeout_ns);
}

/* The first member makes the number that all join under. */
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
                                  &n->comm);
        if (st) /* others may wait for this one */
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

/* Kernels that wait for the dead end. Under world->lock. */
static void abort_all(struct weir__procs_group *p)
{
    struct weir__nccl *n = p->nccl;

    n->aborts = true;
    if (n->aborted || n->users)
        return;
    n->aborted = true;
    if (n->comm)
        n->api->abort(n->comm);
    for (struct pair *pair = n->pairs; pair; pair = pair->next)
        n->api->abort(pair->comm);
}

static void nccl_close(struct weir__procs_group *p)
{
    struct weir__nccl *n = p->nccl;
    bool broken = p->group && atomic_load(&p->group->broken);

    if (n && n->comm) {
        bool entered = p->world->sharing->enter(p->world->device);

        if (broken)
            abort_all(p);
        else
            weir__nccl_comm_end(n->api, n->comm);
        while (n->pairs) {
            struct pair *pair = n->pairs;

            n->pairs = pair->next;
            if (!broken)
                weir__nccl_comm_end(n->api, pair->comm);
            weir__free(pair);
        }
        p->world->sharing->exit(p->world->device, entered);
    }
    weir__free(n);
    weir__shm_engine.close(p);
}

/* Between these two nobody else aborts what is there. False if it is aborted. */
static bool begin_use(struct weir__procs_group *p)
{
    bool there;

    weir__mutex_lock(&p->world->lock);
    there = !p->nccl->aborts;
    p->nccl->users += there;
    weir__mutex_unlock(&p->world->lock);
    return there;
}

static void end_use(struct weir__procs_group *p, bool issued)
{
    weir__mutex_lock(&p->world->lock);
    p->nccl->users--;
    p->nccl->issued += issued;
    if (p->nccl->aborts)
        abort_all(p);
    weir__mutex_unlock(&p->world->lock);
}

static struct pair *find_pair(const struct weir__nccl *n, const struct weir__channel *channel)
{
    struct pair *pair = n->pairs;

    while (pair && pair->channel != channel)
        pair = pair->next;
    return pair;
}

/* ---- a call ---- */

static bool nccl_show(struct weir__procs_group *p, struct weir__visit *v,
                      const struct weir__meet *meet, uint64_t call,
                      const struct weir__code_shown *shown, int n)
{
    struct weir__verb verb;

    (void)shown; /* peers read nothing */
    (void)n;
    if (!meet->spell || !meet->spell(meet, &verb)) {
        weir__fail(WEIR_EUNSUPPORTED, "%s is none of NCCL's calls: use engine shm",
                   meet->offer.label);
        return false;
    }
    v->record.nshown = 0;
    memset(v->record.unique, 0, sizeof v->record.unique);
    if (*meet->channel->name && verb.kind == WEIR__VERB_SEND) { /* used if there is no pair yet */
        struct weir__nccl_id id;

        if (p->nccl->api->unique_id(&id)) {
            weir__fail(WEIR_EUNAVAILABLE, "NCCL gives no id");
            return false;
        }
        memcpy(v->record.unique, &id, sizeof id);
    }
    return weir__shm_engine.show(p, v, meet, call, shown, 0);
}

static enum weir__step nccl_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                                 struct weir__ranks *arrived, struct weir__participant **woken)
{
    enum weir__step step = weir__shm_engine.meet(p, m, arrived, woken);

    if (step == WEIR__STEP_HERE && !*m->channel->name && m->call != p->nccl->issued)
        return WEIR__STEP_WAITS; /* those before it first */
    return step;
}

static int type_of(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_F32:
        return WEIR__NCCL_F32;
    case WEIR_F64:
        return WEIR__NCCL_F64;
    case WEIR_F16:
        return WEIR__NCCL_F16;
    case WEIR_BF16:
        return WEIR__NCCL_BF16;
    case WEIR_I64:
        return WEIR__NCCL_I64;
    case WEIR_I32:
        return WEIR__NCCL_I32;
    case WEIR_I8:
        return WEIR__NCCL_I8;
    case WEIR_U8:
        return WEIR__NCCL_U8;
    default:
        return -1;
    }
}

static int issue_exchange(const struct weir__nccl *n, const struct weir__verb *v, int ranks,
                          void *stream)
{
    const char *in = v->in;
    char *out = v->out;
    int code = n->api->group_start();

    for (int i = 0; i < ranks; i++) {
        size_t send = (size_t)(v->send ? v->send[i] * v->row : v->bytes / ranks);
        size_t recv = (size_t)(v->recv ? v->recv[i] * v->row : v->bytes / ranks);

        if (!code && send)
            code = n->api->send(in, send, WEIR__NCCL_I8, i, n->comm, stream);
        if (!code && recv)
            code = n->api->recv(out, recv, WEIR__NCCL_I8, i, n->comm, stream);
        in += send;
        out += recv;
    }
    return code ? (n->api->group_end(), code) : n->api->group_end();
}

static int issue(const struct weir__nccl *n, const struct weir__verb *v, int ranks, void *comm,
                 int peer, void *stream)
{
    static const int reduces[] = {[WEIR_REDUCE_SUM] = 0,
                                  [WEIR_REDUCE_PROD] = 1,
                                  [WEIR_REDUCE_MAX] = 2,
                                  [WEIR_REDUCE_MIN] = 3,
                                  [WEIR_REDUCE_MEAN] = 4};
    const struct weir__nccl_api *api = n->api;
    int type = type_of(v->dtype);
    size_t bytes = (size_t)v->bytes;

    switch (v->kind) {
    case WEIR__VERB_ALL_REDUCE:
        return api->all_reduce(v->in, v->out, (size_t)v->numel, type, reduces[v->reduce], comm,
                               stream);
    case WEIR__VERB_REDUCE_SCATTER:
        return api->reduce_scatter(v->in, v->out, (size_t)(v->numel / ranks), type,
                                   reduces[v->reduce], comm, stream);
    case WEIR__VERB_ALL_GATHER:
        return api->all_gather(v->in, v->out, bytes, WEIR__NCCL_I8, comm, stream);
    case WEIR__VERB_BROADCAST:
        return api->broadcast(v->in, v->out, bytes, WEIR__NCCL_I8, v->root, comm, stream);
    case WEIR__VERB_EXCHANGE:
        return issue_exchange(n, v, ranks, stream);
    case WEIR__VERB_SEND:
        return api->send(v->in, bytes, WEIR__NCCL_I8, peer, comm, stream);
    case WEIR__VERB_RECV:
        return api->recv(v->out, bytes, WEIR__NCCL_I8, peer, comm, stream);
    case WEIR__VERB_BARRIER:
        break;
    }
    return 0; /* all are there */
}

/* Both ends are there: the sender's record has the id. */
static weir_status reach_pair(struct weir__procs_group *p, struct weir__rendezvous *m,
                              const struct weir__verb *verb, struct pair **out)
{
    const struct weir__visit *v = m->more;
    int sender = verb->kind == WEIR__VERB_SEND ? p->self : verb->root;
    int peer = weir__ranks_next(&m->channel->members, 0);
    struct weir__nccl_id id;
    struct pair *pair;
    weir_status st;

    weir__mutex_lock(&p->world->lock);
    pair = find_pair(p->nccl, m->channel);
    weir__mutex_unlock(&p->world->lock);
    if ((*out = pair))
        return WEIR_OK;
    if (!(pair = weir__calloc(1, sizeof *pair)))
        return weir__fail_nomem("a communicator of two ranks");
    memcpy(&id, v->cell->records[weir__cell_place(m->channel, sender)].unique, sizeof id);
    pair->channel = m->channel;
    if (peer == p->self)
        peer = weir__ranks_next(&m->channel->members, peer + 1);
    if ((st = weir__nccl_comm_make(p, p->nccl->api, &id, 2, p->self == sender ? 0 : 1, peer,
                                   weir__nccl_deadline(p->group->timeout_ns), &pair->comm))) {
        weir__free(pair);
        return st;
    }
    weir__mutex_lock(&p->world->lock);
    pair->next = p->nccl->pairs;
    p->nccl->pairs = pair;
    weir__mutex_unlock(&p->world->lock);
    *out = pair;
    return WEIR_OK;
}

/* A queue of the device has the call when this returns. */
static weir_status issue_call(struct weir__procs_group *p, struct weir__rendezvous *m,
                              const struct weir__verb *verb, void *stream)
{
    const struct weir__nccl *n = p->nccl;
    const char *label = ((const struct weir__meet *)m->args[p->self])->offer.label;
    struct pair *pair = NULL;
    weir_status st;
    void *comm;

    if (*m->channel->name && (st = reach_pair(p, m, verb, &pair)))
        return st;
    if (!verb->bytes && verb->kind != WEIR__VERB_EXCHANGE)
        return WEIR_OK;
    comm = pair ? pair->comm : n->comm;
    return weir__nccl_settle(
        p, n->api, comm, label,
        issue(n, verb, p->ranks, comm, verb->kind == WEIR__VERB_SEND ? 1 : 0, stream),
        WEIR__NCCL_NOBODY, weir__nccl_deadline(p->group->timeout_ns));
}

static weir_status nccl_run(struct weir__procs_group *p, struct weir__rendezvous *m, void *stream)
{
    const struct weir__meet *meet = m->args[p->self];
    struct weir__verb verb;
    weir_status st = WEIR_OK;

    meet->spell(meet, &verb);
    if (!begin_use(p))
        return weir__fail(WEIR_ESTATE, "NCCL: %s: the group is broken", meet->offer.label);
    if (verb.kind <= WEIR__VERB_REDUCE_SCATTER && type_of(verb.dtype) < 0)
        st = weir__fail(WEIR_EUNSUPPORTED, "%s of %s: NCCL does not reduce it", meet->offer.label,
                        weir_dtype_name(verb.dtype));
    if (!st)
        st = issue_call(p, m, &verb, stream);
    end_use(p, !*m->channel->name);
    weir__procs_poke(p->world);
    return st;
}

/* The rest is as by shm. */
static void nccl_part(struct weir__world *w)
{
    weir__shm_engine.part(w);
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

/* Over the call under way, or without one. */
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

/* Asks NCCL every now and then whether something went wrong. */
static int64_t nccl_pause(struct weir__world *w, bool calls_under_way,
                          struct weir__participant **woken)
{
    uint64_t now = weir__clock_ns();

    for (struct weir__procs_group *p = w->groups; p; p = p->next) {
        struct weir__nccl *n = p->nccl;
        int code = 0;

        if (!n || !n->comm || n->aborts || !p->group || now - n->asked_ns < UINT64_C(50000000))
            continue;
        n->asked_ns = now;
        if (n->api->async_error(n->comm, &code) || !code || code == 7 /* in progress */)
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
    .part = nccl_part,
    .open = nccl_open,
    .close = nccl_close,
    .show = nccl_show,
    .meet = nccl_meet,
    .run = nccl_run,
    .leave = nccl_leave,
    .sleep = nccl_sleep,
    .left = nccl_left,
    .give_up = nccl_give_up,
    .closed = nccl_closed,
    .broken = nccl_broken,
    .pause = nccl_pause,
};
