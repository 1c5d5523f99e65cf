/* Ranks as processes: the transport of all engines. It implements the states of comm.h.
 *
 * Each process has its own struct weir__rendezvous for a call, in group->rendezvous. world->lock
 * guards the list and the states of participants; fields that reports read are changed under
 * group->lock as well. No participant ever becomes LAST: a rank that sees that all have arrived
 * runs its part, either at once or when its progress thread wakes the stream. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/engine.h"

static const struct weir__engine *engine_of(const struct weir__procs_group *p)
{
    return p->world->engine;
}

void weir__procs_poke(struct weir__world *w)
{
    atomic_fetch_add(&w->home->bell, 1);
    weir__futex_wake_shared(&w->home->bell);
}

static void add_woken(struct weir__participant **list, struct weir__participant *participant)
{
    participant->woken = *list;
    *list = participant;
}

void weir__procs_wake(struct weir__participant *list, const struct weir__participant *self)
{
    while (list) {
        struct weir__participant *next = list->woken; /* read it first: waking gives up ownership */

        if (list != self)
            list->wake(list);
        list = next;
    }
}

static struct weir__participant *participant_of(struct weir__rendezvous *m)
{
    return weir__containerof(m, struct weir__participant, own);
}

/* True if the thread that arrived or departed is polling. It reads the new state by itself, so it
 * must not be woken. */
static bool is_attended(const struct weir__rendezvous *m)
{
    return ((const struct weir__visit *)m->more)->attended;
}

/* ---- under world->lock ---- */

static void begin(struct weir__procs_group *p, struct weir__participant *participant,
                  const struct weir__meet *meet, uint64_t call, struct weir__visit *v)
{
    struct weir__rendezvous *m = &participant->own;
    weir_group *g = p->group;

    m->channel = meet->channel;
    m->call = call;
    m->arrived = weir__ranks_one(p->self);
    m->left = (struct weir__ranks){{0}};
    m->gathered = m->failed = false;
    m->since_ns = meet->timed && g->timeout_ns >= 0 ? weir__clock_ns() : 0;
    m->more = v;
    m->participants = v->participants;
    m->args = v->peer_args;
    m->participants[p->self] = participant;
    m->args[p->self] = v->own ? v->own : meet;
    participant->in = m;
    participant->round = 0;
    participant->failed = false;
    participant->state = WEIR__PARTICIPANT_WAITS;
    weir__spin_lock(&g->lock);
    m->next = g->rendezvous;
    g->rendezvous = m;
    weir__spin_unlock(&g->lock);
}

static void put_back(struct weir__procs_group *p, struct weir__visit *v)
{
    v->next = p->idle;
    p->idle = v;
}

/* Ends a call that has completed on this rank or was given up. If it was given up, engine->give_up
 * was called first: peers must know before this rank's memory changes. */
static void end(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__rendezvous **at = &p->group->rendezvous;
    struct weir__visit *v = m->more;

    weir__spin_lock(&p->group->lock);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    weir__spin_unlock(&p->group->lock);
    weir__visit_end(p->world, v);
    if (!v->attended) /* else a thread still polls with it */
        put_back(p, v);
}

static void give_up(struct weir__procs_group *p, struct weir__rendezvous *m,
                    enum weir__participant_state state)
{
    engine_of(p)->give_up(p, m);
    participant_of(m)->state = state;
    participant_of(m)->failed = state == WEIR__PARTICIPANT_OVER;
    end(p, m);
}

void weir__procs_break(struct weir__procs_group *p, weir_status status, const char *reason,
                       bool tell, struct weir__participant **woken)
{
    weir_group *g = p->group;
    struct weir__rendezvous *m, *next;

    if (atomic_load(&g->broken))
        return;
    weir__spin_lock(&g->lock);
    g->status = status;
    snprintf(g->reason, sizeof g->reason, "%s", reason);
    atomic_store_explicit(&g->broken, true, memory_order_release);
    weir__spin_unlock(&g->lock);
    if (tell)
        weir__world_send_abort(p->world, p->key, status, reason);
    if (engine_of(p)->broken)
        engine_of(p)->broken(p);
    for (m = g->rendezvous; m; m = next) {
        struct weir__participant *participant = participant_of(m);
        bool attended;

        next = m->next;
        if (participant->state == WEIR__PARTICIPANT_RUNS)
            continue; /* its part completes by itself */
        attended = is_attended(m);
        give_up(p, m,
                participant->state == WEIR__PARTICIPANT_LEAVES ? WEIR__PARTICIPANT_OVER
                                                               : WEIR__PARTICIPANT_REFUSED);
        if (!attended)
            add_woken(woken, participant);
    }
}

void weir__procs_break_early(struct weir__procs_group *p, weir_status status, const char *reason)
{
    if (p->early)
        return;
    p->early = status;
    snprintf(p->early_text, sizeof p->early_text, "%s", reason);
}

void weir__procs_break_over(struct weir__procs_group *p, struct weir__rendezvous *m,
                            weir_status status, const char *why, struct weir__participant **woken)
{
    char where[160], text[sizeof p->group->reason];

    weir__call_text(m->args[p->self], m->call, where, sizeof where);
    snprintf(text, sizeof text, "%s: %s", where, why);
    weir__procs_break(p, status, text, true, woken);
}

/* All ranks have arrived: the part may run. */
static void let_run(struct weir__procs_group *p, struct weir__rendezvous *m,
                    struct weir__participant **woken)
{
    weir__spin_lock(&p->group->lock);
    m->gathered = true;
    weir__spin_unlock(&p->group->lock);
    participant_of(m)->state = WEIR__PARTICIPANT_RUNS;
    if (!is_attended(m))
        add_woken(woken, participant_of(m));
}

static void say_late(const struct weir__procs_group *p, const struct weir__ranks *missing,
                     char *text, size_t size)
{
    const char *comma = "";
    int n = snprintf(text, size, "timed out after %.3g s:", (double)p->group->timeout_ns / 1e9);

    WEIR__EACH_RANK(rank, missing)
    {
        if ((size_t)n >= size)
            break;
        n += snprintf(text + n, size - (size_t)n, "%s rank %d", comma, rank);
        comma = ",";
    }
    if ((size_t)n < size)
        snprintf(text + n, size - (size_t)n, " did not arrive");
}

static void look_at_waiting(struct weir__procs_group *p, struct weir__rendezvous *m,
                            uint64_t now_ns, struct weir__participant **woken)
{
    struct weir__ranks arrived, missing, gone;
    char text[500];
    int rank;
    /* Read which ranks are gone before reading which have arrived: a rank may arrive and then
     * go. */
    bool any_gone = weir__procs_find_gone(p, &m->channel->members, &gone);
    enum weir__step step = engine_of(p)->meet(p, m, &arrived, woken);

    if (step == WEIR__STEP_BROKE)
        return;
    if (step == WEIR__STEP_HERE) {
        let_run(p, m, woken);
        return;
    }
    weir__spin_lock(&p->group->lock);
    m->arrived = arrived;
    weir__spin_unlock(&p->group->lock);
    missing = weir__ranks_without(&m->channel->members, &arrived);
    if (any_gone && (rank = weir__ranks_first_of_both(&gone, &missing)) >= 0) {
        weir__procs_say_gone(p, rank, text, sizeof text);
        weir__procs_break_over(p, m, WEIR_EUNAVAILABLE, text, woken);
    } else if (m->since_ns && now_ns > m->since_ns && weir__ranks_next(&missing, 0) >= 0 &&
               now_ns - m->since_ns >= (uint64_t)p->group->timeout_ns) {
        say_late(p, &missing, text, sizeof text);
        weir__procs_break_over(p, m, WEIR_ETIMEDOUT, text, woken);
    }
}

static void look_at_leaving(struct weir__procs_group *p, struct weir__rendezvous *m,
                            struct weir__participant **woken)
{
    struct weir__ranks left = {{0}};
    enum weir__step step = engine_of(p)->left(p, m, &left, woken);

    if (step == WEIR__STEP_BROKE)
        return;
    if (step == WEIR__STEP_WAITS) {
        weir__spin_lock(&p->group->lock);
        m->left = left;
        weir__spin_unlock(&p->group->lock);
        return;
    }
    if (!is_attended(m))
        add_woken(woken, participant_of(m));
    if (weir__procs_round_follows(p, m)) {
        participant_of(m)->round++;
        participant_of(m)->state = WEIR__PARTICIPANT_RUNS;
        return;
    }
    participant_of(m)->state = WEIR__PARTICIPANT_OVER;
    end(p, m);
}

static void look(struct weir__procs_group *p, uint64_t now_ns, bool at_attended,
                 struct weir__participant **woken)
{
    struct weir__rendezvous *m, *next;

    for (m = p->group->rendezvous; m && !atomic_load(&p->group->broken); m = next) {
        next = m->next;
        if (is_attended(m) && !at_attended)
            continue;
        if (participant_of(m)->state == WEIR__PARTICIPANT_WAITS)
            look_at_waiting(p, m, now_ns, woken);
        else if (participant_of(m)->state == WEIR__PARTICIPANT_LEAVES)
            look_at_leaving(p, m, woken);
    }
}

void weir__procs_look(struct weir__procs_group *p, uint64_t now_ns,
                      struct weir__participant **woken)
{
    look(p, now_ns, false, woken);
}

/* ---- the transport ---- */

/* Polls for a short time, because most peers arrive soon. True if the call has progressed; else the
 * progress thread takes over. Called under world->lock, which is released while polling. */
static bool attend(struct weir__procs_group *p, struct weir__participant *participant, bool leaves,
                   struct weir__participant **woken)
{
    enum weir__participant_state waits =
        leaves ? WEIR__PARTICIPANT_LEAVES : WEIR__PARTICIPANT_WAITS;
    const struct weir__engine *engine = engine_of(p);
    struct weir__rendezvous *m = &participant->own;
    struct weir__visit *v = m->more;

    for (int look = 0; look < 2 && participant->state == waits; look++) {
        if (engine->linger && !look && v->placed) { /* not placed: earlier calls use the cell */
            v->attended = true;
            weir__mutex_unlock(&p->world->lock);
            engine->linger(p, m, v, leaves);
            weir__mutex_lock(&p->world->lock);
            v->attended = false;
            if (participant->state != waits) { /* the link has continued the call or broken it */
                if (participant->state != WEIR__PARTICIPANT_RUNS)
                    put_back(p, v);
                return true;
            }
        } else if (engine->sleep) {
            engine->sleep(m);
        } else {
            break;
        }
        if (leaves)
            look_at_leaving(p, m, woken);
        else
            look_at_waiting(p, m, 0, woken); /* time 0: only the progress thread checks timeouts */
    }
    return participant->state != waits;
}

static bool procs_arrive(struct weir__participant *participant, const struct weir__meet *meet,
                         uint64_t call)
{
    weir_group *g = meet->channel->group;
    struct weir__procs_group *p = g->procs;
    struct weir__participant *woken = NULL;
    struct weir__visit *v;
    char text[sizeof g->reason], where[160];
    bool parked = false;

    participant->rank = meet->rank;
    weir__mutex_lock(&p->world->lock);
    if ((v = p->idle))
        p->idle = v->next;
    weir__mutex_unlock(&p->world->lock);
    v = weir__visit_make(p, v, meet, call);
    weir__mutex_lock(&p->world->lock);
    if (!v) {
        weir__call_text(meet, call, where, sizeof where);
        snprintf(text, sizeof text, "%s failed on rank %d: %s", where, p->self, weir_last_error());
        weir__procs_break(p, WEIR_ENOMEM, text, true, &woken);
    }
    if (atomic_load(&g->broken)) {
        participant->state = WEIR__PARTICIPANT_REFUSED;
        if (v) {
            weir__visit_end(p->world, v);
            put_back(p, v);
        }
    } else {
        begin(p, participant, meet, call, v);
        look_at_waiting(p, &participant->own, 0, &woken); /* time 0: no timeout yet */
        parked = !attend(p, participant, false, &woken);
    }
    weir__mutex_unlock(&p->world->lock);
    weir__procs_wake(woken, participant);
    return !parked;
}

static bool procs_depart(struct weir__participant *participant, weir_status status,
                         const char *text)
{
    struct weir__rendezvous *m = participant->in;
    weir_group *g = m->channel->group;
    struct weir__procs_group *p = g->procs;
    struct weir__participant *woken = NULL;
    char where[160], reason[sizeof g->reason];
    bool parked;

    weir__mutex_lock(&p->world->lock);
    if (text) {
        weir__call_text(m->args[p->self], m->call, where, sizeof where);
        snprintf(reason, sizeof reason, "%s failed on rank %d: %s", where, p->self, text);
        weir__procs_break(p, status, reason, true, &woken);
    }
    engine_of(p)->leave(p, m, text);
    participant->state = WEIR__PARTICIPANT_LEAVES;
    look_at_leaving(p, m, &woken);
    if (!atomic_load(&g->broken))
        attend(p, participant, true, &woken);
    if (participant->state == WEIR__PARTICIPANT_LEAVES && atomic_load(&g->broken)) {
        give_up(p, m, WEIR__PARTICIPANT_OVER);
        add_woken(&woken, participant);
    }
    parked = participant->state == WEIR__PARTICIPANT_LEAVES;
    weir__mutex_unlock(&p->world->lock);
    weir__procs_wake(woken, participant);
    return !parked;
}

static enum weir__at_once procs_at_once(struct weir__again *again, uint64_t call)
{
    struct weir__procs_group *p = again->group->procs;

    return engine_of(p)->at_once ? engine_of(p)->at_once(p, again, call) : WEIR__AT_ONCE_NOT;
}

static void procs_forget(struct weir__again *again)
{
    weir__free(again->visit);
    again->visit = NULL;
}

static void procs_abort(weir_group *g, weir_status status, const char *reason)
{
    struct weir__procs_group *p = g->procs;
    struct weir__participant *woken = NULL;

    weir__mutex_lock(&p->world->lock);
    weir__procs_break(p, status, reason, true, &woken);
    weir__mutex_unlock(&p->world->lock);
    weir__procs_wake(woken, NULL);
}

/* Returns each rank's equal share of the host's hardware threads, because ranks of one host run
 * their parts at the same time. */
static unsigned share_of(const struct weir__procs_group *p)
{
    int here = 0;

    for (int i = 0; i < p->ranks; i++)
        here += p->world->peers[p->world_rank[i]].host == weir__host_id();
    return (unsigned)weir__max(weir__host_threads() / weir__max(here, 1), 1);
}

static weir_status procs_open(weir_group *g)
{
    struct weir__procs_group *p = g->procs;
    struct weir__participant *nobody = NULL; /* no calls have been made, so none is woken */

    weir__mutex_lock(&p->world->lock);
    p->group = g;
    g->rounds = engine_of(p)->rounds && !p->world->sharing;
    g->share = share_of(p);
    if (p->early) /* perhaps this rank alone knows */
        weir__procs_break(p, p->early, p->early_text, true, &nobody);
    weir__mutex_unlock(&p->world->lock);
    return WEIR_OK;
}

static void procs_close(weir_group *g)
{
    weir__procs_group_free(g->procs);
}

const struct weir__transport weir__procs_transport = {
    .name = "procs",
    .open = procs_open,
    .close = procs_close,
    .arrive = procs_arrive,
    .depart = procs_depart,
    .at_once = procs_at_once,
    .forget = procs_forget,
    .abort = procs_abort,
};

/* ---- what the link receives ---- */

void weir__procs_see_gone(struct weir__world *w, int rank)
{
    struct weir__participant *woken = NULL;

    weir__mutex_lock(&w->lock);
    for (struct weir__procs_group *p = w->groups; p; p = p->next)
        for (int i = 0; p->group && i < p->ranks; i++) {
            char why[500], text[sizeof p->group->reason];

            if (p->world_rank[i] != rank)
                continue;
            look(p, 0, true, &woken); /* complete the calls that the rank still took part in */
            if (atomic_load(&w->peers[rank].gone) == WEIR__GONE_LEFT ||
                (w->engine->closed && w->engine->closed(p, i)))
                continue;
            weir__procs_say_gone(p, i, why, sizeof why);
            if (p->group->rendezvous) {
                weir__procs_break_over(p, p->group->rendezvous, WEIR_EUNAVAILABLE, why, &woken);
            } else {
                snprintf(text, sizeof text, "group '%s': %s", p->group->name, why);
                weir__procs_break(p, WEIR_EUNAVAILABLE, text, false, &woken);
            }
        }
    weir__mutex_unlock(&w->lock);
    weir__procs_wake(woken, NULL);
}

void weir__procs_see_abort(struct weir__world *w, const char *key, weir_status status,
                           const char *text)
{
    struct weir__participant *woken = NULL;

    weir__mutex_lock(&w->lock);
    for (struct weir__procs_group *p = w->groups; p; p = p->next)
        if (!strcmp(p->key, key)) {
            if (p->group) {
                weir__procs_break(p, status, text, false, &woken);
            } else {
                weir__procs_break_early(p, status, text);
            }
        }
    weir__mutex_unlock(&w->lock);
    weir__procs_wake(woken, NULL);
}
