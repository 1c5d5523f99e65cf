/* All ranks in this process: meetings gather in memory. */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

static uint64_t bit(int rank)
{
    return UINT64_C(1) << rank;
}

/* ---- lists of guests to be woken, once the lock is free ---- */

static void add_woken(struct weir__guest **list, struct weir__guest *guest)
{
    guest->woken = *list;
    *list = guest;
}

static void wake_all(struct weir__guest *list)
{
    while (list) {
        struct weir__guest *next = list->woken; /* once woken it is somebody else's */

        list->wake(list);
        list = next;
    }
}

/* All guests of the meeting but `self` go on in that state. Under the lock. */
static void release(struct weir__meeting *m, const struct weir__guest *self,
                    enum weir__guest_state state, struct weir__guest **list)
{
    for (uint64_t left = m->arrived; left; left &= left - 1) {
        struct weir__guest *guest = m->guests[__builtin_ctzll(left)];

        guest->failed = m->failed;
        if (guest == self)
            continue;
        guest->state = state;
        add_woken(list, guest);
    }
}

/* ---- meetings: under the lock ---- */

static struct weir__meeting *find(const weir_group *g, const struct weir__channel *channel,
                                  uint64_t call)
{
    struct weir__meeting *m = g->meetings;

    while (m && (m->channel != channel || m->call != call))
        m = m->next;
    return m;
}

static void forget(weir_group *g, const struct weir__meeting *m)
{
    struct weir__meeting **at = &g->meetings;

    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
}

/* The first reason is kept. Whoever waits for ranks that will not come is let go; gathered
 * meetings end by themselves. */
static void break_group(weir_group *g, weir_status status, const char *reason,
                        struct weir__guest **list)
{
    struct weir__meeting *m, *next;

    if (g->broken)
        return;
    g->status = status;
    snprintf(g->reason, sizeof g->reason, "%s", reason);
    atomic_store_explicit(&g->broken, true, memory_order_release);
    for (m = g->meetings; m; m = next) {
        next = m->next;
        if (m->gathered)
            continue;
        forget(g, m);
        release(m, NULL, WEIR__GUEST_REFUSED, list);
    }
}

static struct weir__meeting *begin_meeting(weir_group *g, struct weir__guest *guest,
                                           const struct weir__meet *meet, uint64_t call)
{
    struct weir__meeting *m = &guest->own;

    m->channel = meet->channel;
    m->call = call;
    m->arrived = m->left = 0;
    m->gathered = m->failed = false;
    m->since_ns = meet->timed && g->timed ? weir__clock_ns() : 0;
    m->next = g->meetings;
    g->meetings = m;
    return m;
}

static const struct weir__meet *anybody(const struct weir__meeting *m)
{
    return m->args[__builtin_ctzll(m->arrived)];
}

static bool fits_all(const struct weir__meeting *m, const struct weir__meet *meet, uint64_t call,
                     char *text, size_t size)
{
    char where[120], differ[270];

    for (uint64_t left = m->arrived; left; left &= left - 1) {
        if (weir__offers_fit(m->args[__builtin_ctzll(left)], meet, differ, sizeof differ))
            continue;
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
}

static bool local_arrive(struct weir__guest *guest, const struct weir__meet *meet, uint64_t call)
{
    struct weir__channel *channel = meet->channel;
    weir_group *g = channel->group;
    char text[sizeof g->reason];
    struct weir__guest *woken = NULL;
    struct weir__meeting *m;
    bool parked = false;

    guest->rank = meet->rank;
    weir__spin_lock(&g->lock);
    m = find(g, channel, call);
    if (!g->broken && m && !fits_all(m, meet, call, text, sizeof text))
        break_group(g, WEIR_EINVAL, text, &woken);
    if (g->broken) {
        guest->state = WEIR__GUEST_REFUSED;
    } else {
        if (!m)
            m = begin_meeting(g, guest, meet, call);
        m->guests[meet->rank] = guest;
        m->args[meet->rank] = meet;
        m->arrived |= bit(meet->rank);
        m->gathered = m->arrived == channel->members;
        guest->in = m;
        guest->state = m->gathered ? WEIR__GUEST_LAST : WEIR__GUEST_WAITS;
        parked = !m->gathered;
    }
    weir__spin_unlock(&g->lock);
    wake_all(woken);
    return !parked;
}

static void local_open_meeting(struct weir__guest *guest)
{
    struct weir__meeting *m = guest->in;
    weir_group *g = m->channel->group;
    struct weir__guest *woken = NULL;

    weir__spin_lock(&g->lock);
    guest->state = WEIR__GUEST_RUNS;
    release(m, guest, WEIR__GUEST_RUNS, &woken);
    weir__spin_unlock(&g->lock);
    wake_all(woken);
}

/* "AllReduce (call 3 of group 'tp') failed on rank 1: ..." */
static void note_failure(weir_group *g, struct weir__meeting *m, int rank, weir_status status,
                         const char *text, struct weir__guest **list)
{
    char where[160], reason[sizeof g->reason];

    if (!text)
        return;
    weir__call_text(m->args[rank], m->call, where, sizeof where);
    snprintf(reason, sizeof reason, "%s failed on rank %d: %s", where, rank, text);
    m->failed = true;
    break_group(g, status, reason, list);
}

static struct weir__guest *local_close_meeting(struct weir__guest *guest, int rank,
                                               weir_status status, const char *text)
{
    struct weir__meeting *m = guest->in;
    weir_group *g = m->channel->group;
    struct weir__guest *woken = NULL, *over = NULL;

    weir__spin_lock(&g->lock);
    note_failure(g, m, rank, status, text, &woken);
    forget(g, m);
    guest->state = WEIR__GUEST_OVER;
    release(m, guest, WEIR__GUEST_OVER, &over);
    weir__spin_unlock(&g->lock);
    wake_all(woken);
    return over;
}

static bool local_depart(struct weir__guest *guest, weir_status status, const char *text)
{
    struct weir__meeting *m = guest->in;
    weir_group *g = m->channel->group;
    struct weir__guest *woken = NULL;
    bool last;

    weir__spin_lock(&g->lock);
    note_failure(g, m, guest->rank, status, text, &woken);
    m->left |= bit(guest->rank);
    last = m->left == m->arrived;
    guest->state = last ? WEIR__GUEST_OVER : WEIR__GUEST_LEAVES;
    if (last) {
        forget(g, m);
        release(m, guest, WEIR__GUEST_OVER, &woken);
    }
    weir__spin_unlock(&g->lock);
    wake_all(woken);
    return last;
}

static void local_abort(weir_group *g, weir_status status, const char *reason)
{
    struct weir__guest *woken = NULL;

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
    .open_meeting = local_open_meeting,
    .close_meeting = local_close_meeting,
    .depart = local_depart,
    .abort = local_abort,
};

/* ---- late ranks ---- */

static void late_text(const weir_group *g, const struct weir__meeting *m, char *text, size_t size)
{
    uint64_t missing = m->channel->members & ~m->arrived;
    char where[160];
    int n;

    weir__call_text(anybody(m), m->call, where, sizeof where);
    n = snprintf(text, size, "%s timed out after %.3g s:", where, (double)g->timeout_ns / 1e9);
    for (int i = 0; missing && n > 0 && (size_t)n < size; missing &= missing - 1, i++) {
        const weir_rank *rank = &g->ranks[__builtin_ctzll(missing)];

        n += snprintf(text + n, size - (size_t)n, "%s rank %d on %s", i ? "," : "", rank->index,
                      rank->device);
    }
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, " did not arrive");
}

static bool is_overdue(const weir_group *g, const struct weir__meeting *m, uint64_t now_ns)
{
    return !m->gathered && m->since_ns && now_ns - m->since_ns >= (uint64_t)g->timeout_ns;
}

bool weir__local_overdue(weir_group *g, uint64_t now_ns)
{
    bool found = false;

    weir__spin_lock(&g->lock);
    for (const struct weir__meeting *m = g->meetings; m && !g->broken; m = m->next)
        found |= is_overdue(g, m, now_ns);
    weir__spin_unlock(&g->lock);
    return found;
}

void weir__local_expire(weir_group *g, uint64_t now_ns, const char *more)
{
    char text[sizeof g->reason];
    struct weir__guest *woken = NULL;

    weir__spin_lock(&g->lock);
    for (struct weir__meeting *m = g->meetings; m && !g->broken; m = m->next)
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
