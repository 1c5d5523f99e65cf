/* Order of commands: vector clocks of streams, and collectives between them. */
#include "check/race/race.h"

#include <string.h>

enum { MOST_CLOCKS = 1 << 16 };

/* Everything that is ordered before something: for each stream id below n, a command and all before
 * it; no command of ids from n on; and collectives that were open when the past was made, with
 * their own pasts. */
struct past {
    uint64_t *seq;
    int n;
    struct weir__race_rendezvous **met;
    int nmet, cap_met;
};

/* The past of a stream's commands from number `from` on, up to the next clock. */
struct weir__race_clock {
    uint64_t from;
    bool met; /* the command before `from` is a collective, which made this clock */
    struct past past;
};

/* A collective: whatever is ordered after it is ordered after every rank's call. It is settled once
 * all ranks have called and every collective in its past is settled. Then its past names streams
 * only. */
struct weir__race_rendezvous {
    struct weir__race_rendezvous *next; /* of those that are open */
    const void *channel;
    uint64_t call;
    int ranks, came;
    bool settled;
    struct past past; /* of all calls so far, and the calls */
    int refs;         /* one per past that names it, one for the list of open ones */
    uint64_t visit;
    struct weir__race_rendezvous *todo; /* next one to visit in a walk */
};

/* ---- pasts ---- */

static void drop(struct weir__race_rendezvous *m);

static void past_fini(struct past *p)
{
    for (int i = 0; i < p->nmet; i++)
        drop(p->met[i]);
    weir__free(p->met);
    weir__free(p->seq);
    *p = (struct past){0};
}

static void drop(struct weir__race_rendezvous *m)
{
    if (--m->refs)
        return;
    past_fini(&m->past);
    weir__free(m);
}

static uint64_t past_get(const struct past *p, int stream)
{
    return stream < p->n ? p->seq[stream] : 0;
}

static bool reserve(struct past *p, int n)
{
    uint64_t *seq;

    if (n <= p->n)
        return true;
    if (!(seq = weir__calloc((size_t)n, sizeof *seq)))
        return false;
    if (p->n)
        memcpy(seq, p->seq, (size_t)p->n * sizeof *seq);
    weir__free(p->seq);
    p->seq = seq;
    p->n = n;
    return true;
}

static bool add_met(struct past *p, struct weir__race_rendezvous *m)
{
    for (int i = 0; i < p->nmet; i++)
        if (p->met[i] == m)
            return true;
    if (!weir__grow(&p->met, p->nmet, &p->cap_met, sizeof *p->met))
        return false;
    m->refs++;
    p->met[p->nmet++] = m;
    return true;
}

/* Adds the streams of `from` to the past. Precondition: `p` has room for them. */
static void join_streams(struct past *p, const struct past *from)
{
    for (int i = 0; i < from->n; i++)
        if (p->seq[i] < from->seq[i])
            p->seq[i] = from->seq[i];
}

/* Adds `from` to the past; a settled collective is replaced by the streams of its past. False when
 * out of memory. */
static bool join(struct past *p, const struct past *from)
{
    bool fits = reserve(p, from->n);

    if (fits)
        join_streams(p, from);
    for (int i = 0; i < from->nmet && fits; i++) {
        struct weir__race_rendezvous *m = from->met[i];

        if (!m->settled)
            fits = add_met(p, m);
        else if ((fits = reserve(p, m->past.n)))
            join_streams(p, &m->past);
    }
    return fits;
}

/* Returns the last command of `source` in the past or in that of a collective it names. */
static uint64_t reach(struct weir__race_order *o, const struct past *p, int source)
{
    struct weir__race_rendezvous *todo = NULL;
    uint64_t best = 0, visit;

    if (!p)
        return 0;
    if (!p->nmet)
        return past_get(p, source);
    visit = ++o->visit;
    for (;;) {
        best = past_get(p, source) > best ? past_get(p, source) : best;
        for (int i = 0; i < p->nmet; i++)
            if (p->met[i]->visit != visit) {
                p->met[i]->visit = visit;
                p->met[i]->todo = todo;
                todo = p->met[i];
            }
        if (!todo)
            return best;
        p = &todo->past;
        todo = todo->todo;
    }
}

/* ---- clocks ---- */

int weir__race_add_stream(struct weir__race_order *o, uint64_t seq)
{
    if (!weir__grow(&o->streams, o->nstreams, &o->cap_streams, sizeof *o->streams) ||
        !weir__grow(&o->host, o->nstreams, &o->cap_host, sizeof *o->host))
        return -1;
    o->streams[o->nstreams] = (struct weir__race_history){0};
    o->host[o->nstreams] = seq;
    return o->nstreams++;
}

/* Returns how many clocks start at command `seq` or before. */
static int clocks_at(const struct weir__race_history *h, uint64_t seq)
{
    int low = 0, high = h->n;

    while (low < high) {
        int middle = (low + high) / 2;

        if (h->clocks[middle].from <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the past of command `seq`; NULL before the first clock. */
static const struct past *past_at(const struct weir__race_history *h, uint64_t seq)
{
    int n = clocks_at(h, seq);

    return n ? &h->clocks[n - 1].past : NULL;
}

/* Returns the past of whatever is ordered after command `seq`. If the command is a collective, that
 * includes the calls of all ranks. */
static const struct past *past_over(const struct weir__race_history *h, uint64_t seq)
{
    int n = clocks_at(h, seq);

    if (n < h->n && h->clocks[n].from == seq + 1 && h->clocks[n].met)
        n++;
    return n ? &h->clocks[n - 1].past : NULL;
}

uint64_t weir__race_ordered(struct weir__race_order *o, int stream, int source)
{
    const struct weir__race_history *h = &o->streams[stream];
    uint64_t known = h->n ? reach(o, &h->clocks[h->n - 1].past, source) : 0;

    return known > o->host[source] ? known : o->host[source];
}

uint64_t weir__race_ordered_at(struct weir__race_order *o, int stream, uint64_t seq, int source)
{
    return stream == source ? seq - 1 : reach(o, past_at(&o->streams[stream], seq), source);
}

/* Drops clocks of commands that the host has seen complete: only waits for such commands could need
 * the clocks, and those waits change nothing. */
static void forget_clocks(struct weir__race_order *o, int stream)
{
    struct weir__race_history *h = &o->streams[stream];
    int gone = 0;

    while (gone + 1 < h->n && h->clocks[gone + 1].from <= o->host[stream])
        gone++;
    if (!gone && h->n >= MOST_CLOCKS) {
        gone = MOST_CLOCKS / 2; /* an older mark then uses the oldest clock left. That clock is
                                 * later: a race may be missed, but none is reported falsely */
        o->forgotten += (uint64_t)gone;
    }
    for (int i = 0; i < gone; i++)
        past_fini(&h->clocks[i].past);
    h->n -= gone;
    memmove(h->clocks, h->clocks + gone, (size_t)h->n * sizeof *h->clocks);
}

static bool begin_clock(struct weir__race_order *o, int stream, struct weir__race_clock *next)
{
    struct weir__race_history *h = &o->streams[stream];

    if ((h->n & 63) == 63)
        forget_clocks(o, stream);
    return weir__grow(&h->clocks, h->n, &h->cap, sizeof *h->clocks) &&
           reserve(&next->past, o->nstreams);
}

static void push_clock(struct weir__race_order *o, int stream, const struct weir__race_clock *next)
{
    struct weir__race_history *h = &o->streams[stream];
    struct weir__race_clock *last = h->n ? &h->clocks[h->n - 1] : NULL;

    /* If no command was queued since the last clock, the new clock replaces it. A collective's
     * clock stays, as past_over needs it. */
    if (last && last->from == next->from && last->met == next->met)
        past_fini(&h->clocks[--h->n].past);
    h->clocks[h->n++] = *next;
}

weir_status weir__race_wait(struct weir__race_order *o, int stream, uint64_t from, int source,
                            uint64_t seq)
{
    const struct weir__race_history *h = &o->streams[stream];
    const struct past *other = past_over(&o->streams[source], seq);
    struct weir__race_clock next = {.from = from};

    if (!other && o->streams[source].n && o->forgotten)
        other = &o->streams[source].clocks[0].past;
    if (weir__race_ordered(o, stream, source) >= seq)
        return WEIR_OK;
    if (!begin_clock(o, stream, &next) || (h->n && !join(&next.past, &h->clocks[h->n - 1].past)) ||
        (other && !join(&next.past, other))) {
        past_fini(&next.past);
        /* Act as if the host had waited: a race may be missed, but none is reported falsely. */
        weir__race_host_saw(o, source, seq);
        o->forgotten++;
        return WEIR_ENOMEM;
    }
    if (next.past.seq[source] < seq)
        next.past.seq[source] = seq;
    push_clock(o, stream, &next);
    return WEIR_OK;
}

/* ---- collectives ---- */

/* Makes all commands of the known streams, past and future, count as ordered. */
static void give_up(struct weir__race_order *o)
{
    for (int i = 0; i < o->nstreams; i++)
        o->host[i] = UINT64_MAX;
    o->forgotten++;
}

/* Settles a collective: replaces the collectives in its past by the streams of their pasts.
 * Precondition: can_settle. */
static void settle(struct weir__race_order *o, struct weir__race_rendezvous *m)
{
    struct past flat = {0};
    struct weir__race_rendezvous **at = &o->open;

    m->settled = true; /* before join: if one stream calls for two ranks, m is in its own past */
    if (!join(&flat, &m->past))
        give_up(o);
    past_fini(&m->past);
    m->past = flat;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    drop(m);
}

static bool can_settle(const struct weir__race_rendezvous *m)
{
    bool can = m->came >= m->ranks;

    for (int i = 0; i < m->past.nmet; i++)
        can &= m->past.met[i]->settled || m->past.met[i] == m;
    return can;
}

/* Settles all that can be settled; each one settled may allow others. True if there was any. */
static bool settle_all(struct weir__race_order *o)
{
    bool any = false, more = true;

    while (more) {
        more = false;
        for (struct weir__race_rendezvous *m = o->open; m && !more; m = m->next)
            if ((more = can_settle(m)))
                settle(o, m);
        any |= more;
    }
    return any;
}

static struct weir__race_rendezvous *find_rendezvous(struct weir__race_order *o,
                                                     const void *channel, uint64_t call, int ranks)
{
    struct weir__race_rendezvous *m = o->open;

    while (m && (m->channel != channel || m->call != call))
        m = m->next;
    if (!m && (m = weir__calloc(1, sizeof *m))) {
        *m = (struct weir__race_rendezvous){
            .next = o->open, .channel = channel, .call = call, .ranks = ranks, .refs = 1};
        o->open = m;
    }
    return m;
}

/* Adds what the stream's next clock needs besides the new rendezvous. The rendezvous contains the
 * past of the call itself, but not the other rendezvous of the same command. False when out of
 * memory. Precondition: `next` has room for all streams. */
static bool carry_over(const struct weir__race_history *h, uint64_t seq, struct past *next)
{
    const struct past *at = past_at(h, seq), *over = past_over(h, seq);

    if (over != at)
        return join(next, over);
    if (at)
        join_streams(next, at);
    return true;
}

bool weir__race_meet(struct weir__race_order *o, int stream, uint64_t seq, const void *channel,
                     uint64_t call, int ranks)
{
    struct weir__race_rendezvous *m = find_rendezvous(o, channel, call, ranks);
    const struct weir__race_history *h = &o->streams[stream];
    const struct past *now = past_at(h, seq);
    struct weir__race_clock next = {.from = seq + 1, .met = true};

    if (!m || !reserve(&m->past, o->nstreams) || (now && !join(&m->past, now)))
        goto no_memory;
    m->past.seq[stream] = seq;
    m->came++;
    if (!begin_clock(o, stream, &next) || !add_met(&next.past, m))
        goto no_memory;
    if (!carry_over(h, seq, &next.past))
        goto no_memory;
    push_clock(o, stream, &next);
    return settle_all(o);

no_memory:
    past_fini(&next.past);
    give_up(o);
    return false;
}

void weir__race_leave(struct weir__race_order *o, const void *channel)
{
    for (struct weir__race_rendezvous *m = o->open; m; m = m->next)
        if (m->channel == channel) {
            m->channel = NULL; /* a later channel may have the same address */
            m->came = m->ranks;
        }
    settle_all(o);
}

bool weir__race_is_settled(struct weir__race_order *o, int stream, uint64_t seq)
{
    const struct past *p = past_at(&o->streams[stream], seq);

    for (int i = 0; p && i < p->nmet; i++)
        if (!p->met[i]->settled)
            return false;
    return true;
}

/* ---- the host ---- */

/* A collective that the host saw complete was called by all ranks, even if the checker has not seen
 * all the calls. */
static void settle_seen(struct weir__race_order *o, const struct past *p)
{
    for (int i = 0; i < p->nmet; i++)
        if (!p->met[i]->settled && p->met[i]->came < p->met[i]->ranks) {
            p->met[i]->came = p->met[i]->ranks;
            settle_seen(o, &p->met[i]->past);
        }
}

void weir__race_host_saw(struct weir__race_order *o, int stream, uint64_t seq)
{
    const struct past *p = past_over(&o->streams[stream], seq);

    if (o->host[stream] >= seq)
        return;
    o->host[stream] = seq;
    if (!p)
        return;
    if (p->nmet) {
        settle_seen(o, p);
        settle_all(o);
    }
    for (int i = 0; i < o->nstreams; i++) {
        uint64_t known = reach(o, p, i);

        if (o->host[i] < known)
            o->host[i] = known;
    }
}

void weir__race_order_fini(struct weir__race_order *o)
{
    for (int s = 0; s < o->nstreams; s++) {
        for (int i = 0; i < o->streams[s].n; i++)
            past_fini(&o->streams[s].clocks[i].past);
        weir__free(o->streams[s].clocks);
    }
    /* Open rendezvous may refer to each other in a cycle: hold all of them while freeing. */
    for (struct weir__race_rendezvous *m = o->open; m; m = m->next)
        m->refs++;
    while (o->open) {
        struct weir__race_rendezvous *m = o->open;

        past_fini(&m->past);
        o->open = m->next;
        m->refs--;
        drop(m);
    }
    weir__free(o->streams);
    weir__free(o->host);
    *o = (struct weir__race_order){0};
}
