/* The transport of groups whose ranks are all in this process. */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

/* ---- lists of participants to be woken after the lock is released ---- */

static void add_woken(struct weir__participant **list, struct weir__participant *participant)
{
    participant->woken = *list;
    *list = participant;
}

static void wake_all(struct weir__participant *list)
{
    while (list) {
        struct weir__participant *next =
            list->woken; /* read before the wake: its owner may free it */

        list->wake(list);
        list = next;
    }
}

/* Sets the state of all participants of the rendezvous but `self`, and adds them to `list`. Under
 * the lock. */
static void release(struct weir__rendezvous *m, const struct weir__participant *self,
                    enum weir__participant_state state, struct weir__participant **list)
{
    WEIR__EACH_OF_RANKS(rank, &m->arrived, m->narrived)
    {
        struct weir__participant *participant = m->participants[rank];

        participant->failed = m->failed;
        if (participant == self)
            continue;
        participant->state = state;
        add_woken(list, participant);
    }
}

/* ---- rendezvous: under the lock ---- */

static struct weir__rendezvous *find(const weir_group *g, const struct weir__channel *channel,
                                     uint64_t call)
{
    struct weir__rendezvous *m = g->rendezvous;

    while (m && (m->channel != channel || m->call != call))
        m = m->next;
    return m;
}

/* Removes the rendezvous. Its slots can still be read until the lock is released. */
static void forget(weir_group *g, struct weir__rendezvous *m)
{
    struct weir__rendezvous **at = &g->rendezvous;
    struct weir__rank_slots *slots = m->more;

    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    if (slots) {
        slots->next = g->spare_slots;
        g->spare_slots = slots;
        m->more = NULL;
    }
}

/* Allocates slots for all participants. Small groups use those in the first participant. False when
 * out of memory. */
static bool take_slots(weir_group *g, struct weir__participant *participant)
{
    struct weir__rendezvous *m = &participant->own;
    struct weir__rank_slots *slots = g->spare_slots;
    size_t n = (size_t)g->nranks;

    m->more = NULL;
    m->participants = participant->few_participants;
    m->args = participant->few_args;
    if (g->nranks <= WEIR__FEW_RANKS)
        return true;
    if (slots) {
        g->spare_slots = slots->next;
    } else {
        if (!(slots = weir__malloc(sizeof *slots + n * (sizeof(void *) + sizeof(void *)))))
            return false;
        slots->participants = (void *)(slots + 1);
        slots->args = (void *)(slots->participants + n);
    }
    m->more = slots;
    m->participants = slots->participants;
    m->args = slots->args;
    return true;
}

/* Breaks the group; the first reason is kept. Refuses all participants that wait for missing ranks;
 * gathered rendezvous complete by themselves. */
static void break_group(weir_group *g, weir_status status, const char *reason,
                        struct weir__participant **list)
{
    struct weir__rendezvous *m, *next;

    if (g->broken)
        return;
    g->status = status;
    snprintf(g->reason, sizeof g->reason, "%s", reason);
    atomic_store_explicit(&g->broken, true, memory_order_release);
    for (m = g->rendezvous; m; m = next) {
        next = m->next;
        if (m->gathered)
            continue;
        forget(g, m);
        release(m, NULL, WEIR__PARTICIPANT_REFUSED, list);
    }
}

static struct weir__rendezvous *begin_rendezvous(weir_group *g,
                                                 struct weir__participant *participant,
                                                 const struct weir__meet *meet, uint64_t call)
{
    struct weir__rendezvous *m = &participant->own;

    if (!take_slots(g, participant))
        return NULL;
    m->channel = meet->channel;
    m->call = call;
    m->arrived = m->left = (struct weir__ranks){{0}};
    m->narrived = m->nleft = 0;
    m->gathered = m->failed = false;
    m->since_ns = meet->timed && g->timed ? weir__clock_ns() : 0;
    m->next = g->rendezvous;
    g->rendezvous = m;
    return m;
}

static const struct weir__meet *anybody(const struct weir__rendezvous *m)
{
    return m->args[weir__ranks_next(&m->arrived, 0)];
}

/* True if the offer fits those of all arrived ranks. Their offers fit each other, so comparing with
 * one of them is enough, except for counts: those are per pair, so each rank is compared. */
static bool fits_all(const struct weir__rendezvous *m, const struct weir__meet *meet, uint64_t call,
                     char *text, size_t size)
{
    char where[120], differ[270];

    WEIR__EACH_RANK(rank, &m->arrived)
    {
        if (weir__offers_fit(m->args[rank], meet, differ, sizeof differ)) {
            if (!meet->offer.send)
                break;
            continue;
        }
        weir__call_text(meet, call, where, sizeof where);
        snprintf(text, size, "%s: %s", where, differ);
        return false;
    }
    return true;
}

/* ---- the transport ---- */

static weir_status local_open(weir_group *g)
{
    (void)g;
    return WEIR_OK;
}

static void local_close(weir_group *g)
{
    weir__timer_stop(g);
    while (g->spare_slots) {
        struct weir__rank_slots *slots = g->spare_slots;

        g->spare_slots = slots->next;
        weir__free(slots);
    }
}

static bool local_arrive(struct weir__participant *participant, const struct weir__meet *meet,
                         uint64_t call)
{
    struct weir__channel *channel = meet->channel;
    weir_group *g = channel->group;
    char text[sizeof g->reason];
    struct weir__participant *woken = NULL;
    struct weir__rendezvous *m;
    bool parked = false;

    participant->rank = meet->rank;
    weir__spin_lock(&g->lock);
    m = find(g, channel, call);
    if (!g->broken && m && !fits_all(m, meet, call, text, sizeof text))
        break_group(g, WEIR_EINVAL, text, &woken);
    if (!g->broken && !m && !(m = begin_rendezvous(g, participant, meet, call)))
        break_group(g, WEIR_ENOMEM, "out of host memory for ranks that meet", &woken);
    if (g->broken) {
        participant->state = WEIR__PARTICIPANT_REFUSED;
    } else {
        m->participants[meet->rank] = participant;
        m->args[meet->rank] = meet;
        weir__ranks_add(&m->arrived, meet->rank);
        m->gathered = ++m->narrived == channel->nmembers;
        participant->in = m;
        participant->state = m->gathered ? WEIR__PARTICIPANT_LAST : WEIR__PARTICIPANT_WAITS;
        parked = !m->gathered;
    }
    weir__spin_unlock(&g->lock);
    wake_all(woken);
    return !parked;
}

static void local_open_rendezvous(struct weir__participant *participant)
{
    struct weir__rendezvous *m = participant->in;
    weir_group *g = m->channel->group;
    struct weir__participant *woken = NULL;

    weir__spin_lock(&g->lock);
    participant->state = WEIR__PARTICIPANT_RUNS;
    release(m, participant, WEIR__PARTICIPANT_RUNS, &woken);
    weir__spin_unlock(&g->lock);
    wake_all(woken);
}

/* Breaks the group if the part has failed: "AllReduce (call 3 of group 'tp') failed on rank 1:
 * ..." */
static void note_failure(weir_group *g, struct weir__rendezvous *m, int rank, weir_status status,
                         const char *text, struct weir__participant **list)
{
    char where[160], reason[sizeof g->reason];

    if (!text)
        return;
    weir__call_text(m->args[rank], m->call, where, sizeof where);
    snprintf(reason, sizeof reason, "%s failed on rank %d: %s", where, rank, text);
    m->failed = true;
    break_group(g, status, reason, list);
}

static struct weir__participant *local_close_rendezvous(struct weir__participant *participant,
                                                        int rank, weir_status status,
                                                        const char *text)
{
    struct weir__rendezvous *m = participant->in;
    weir_group *g = m->channel->group;
    struct weir__participant *woken = NULL, *over = NULL;

    weir__spin_lock(&g->lock);
    note_failure(g, m, rank, status, text, &woken);
    forget(g, m);
    participant->state = WEIR__PARTICIPANT_OVER;
    release(m, participant, WEIR__PARTICIPANT_OVER, &over);
    weir__spin_unlock(&g->lock);
    wake_all(woken);
    return over;
}

static bool local_depart(struct weir__participant *participant, weir_status status,
                         const char *text)
{
    struct weir__rendezvous *m = participant->in;
    weir_group *g = m->channel->group;
    struct weir__participant *woken = NULL;
    bool last;

    weir__spin_lock(&g->lock);
    note_failure(g, m, participant->rank, status, text, &woken);
    weir__ranks_add(&m->left, participant->rank);
    last = ++m->nleft == m->narrived;
    participant->state = last ? WEIR__PARTICIPANT_OVER : WEIR__PARTICIPANT_LEAVES;
    if (last) {
        forget(g, m);
        release(m, participant, WEIR__PARTICIPANT_OVER, &woken);
    }
    weir__spin_unlock(&g->lock);
    wake_all(woken);
    return last;
}

static void local_abort(weir_group *g, weir_status status, const char *reason)
{
    struct weir__participant *woken = NULL;

    weir__spin_lock(&g->lock);
    break_group(g, status, reason, &woken);
    weir__spin_unlock(&g->lock);
    wake_all(woken);
}

const struct weir__transport weir__local_transport = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .arrive = local_arrive,
    .open_rendezvous = local_open_rendezvous,
    .close_rendezvous = local_close_rendezvous,
    .depart = local_depart,
    .abort = local_abort,
};

/* ---- late ranks ---- */

static void late_text(const weir_group *g, const struct weir__rendezvous *m, char *text,
                      size_t size)
{
    struct weir__ranks missing = weir__ranks_without(&m->channel->members, &m->arrived);
    const char *comma = "";
    char where[160];
    int n;

    weir__call_text(anybody(m), m->call, where, sizeof where);
    n = snprintf(text, size, "%s timed out after %.3g s:", where, (double)g->timeout_ns / 1e9);
    WEIR__EACH_RANK(i, &missing)
    {
        if (n < 0 || (size_t)n >= size)
            break;
        n += snprintf(text + n, size - (size_t)n, "%s rank %d on %s", comma, i, g->ranks[i].device);
        comma = ",";
    }
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, " did not arrive");
}

static bool is_overdue(const weir_group *g, const struct weir__rendezvous *m, uint64_t now_ns)
{
    return !m->gathered && m->since_ns && now_ns - m->since_ns >= (uint64_t)g->timeout_ns;
}

bool weir__local_overdue(weir_group *g, uint64_t now_ns)
{
    bool found = false;

    weir__spin_lock(&g->lock);
    for (const struct weir__rendezvous *m = g->rendezvous; m && !g->broken; m = m->next)
        found |= is_overdue(g, m, now_ns);
    weir__spin_unlock(&g->lock);
    return found;
}

void weir__local_expire(weir_group *g, uint64_t now_ns, const char *more)
{
    char text[sizeof g->reason];
    struct weir__participant *woken = NULL;

    weir__spin_lock(&g->lock);
    for (struct weir__rendezvous *m = g->rendezvous; m && !g->broken; m = m->next)
        if (is_overdue(g, m, now_ns)) {
            late_text(g, m, text, sizeof text);
            if (more)
                snprintf(text + strlen(text), sizeof text - strlen(text), "; %s", more);
            break_group(g, WEIR_ETIMEDOUT, text, &woken);
            break;
        }
    weir__spin_unlock(&g->lock);
    wake_all(woken);
}
