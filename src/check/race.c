#include "check/race.h"

#include <string.h>

enum { MOST_CLOCKS = 1 << 16, MOST_RECORDS = 1 << 14 };

/* What a stream is ordered after from command `from` on, by id; ids from n on: nothing. */
struct weir__race_clock {
    uint64_t from;
    int n;
    uint64_t *seq;
};

/* ---- order ---- */

int weir__race_add_stream(struct weir__race_order *o, uint64_t seq)
{
    if (!weir__grow(&o->streams, o->nstreams, &o->cap_streams, sizeof *o->streams) ||
        !weir__grow(&o->host, o->nstreams, &o->cap_host, sizeof *o->host))
        return -1;
    o->streams[o->nstreams] = (struct weir__race_history){0};
    o->host[o->nstreams] = seq;
    return o->nstreams++;
}

/* The clock in force at command `seq`; NULL before the first. */
static const struct weir__race_clock *clock_at(const struct weir__race_history *h, uint64_t seq)
{
    int low = 0, high = h->n;

    while (low < high) {
        int middle = (low + high) / 2;

        if (h->clocks[middle].from <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &h->clocks[low - 1] : NULL;
}

static uint64_t clock_get(const struct weir__race_clock *c, int stream)
{
    return c && stream < c->n ? c->seq[stream] : 0;
}

uint64_t weir__race_ordered(const struct weir__race_order *o, int stream, int source)
{
    const struct weir__race_history *h = &o->streams[stream];
    uint64_t known = h->n ? clock_get(&h->clocks[h->n - 1], source) : 0;

    return known > o->host[source] ? known : o->host[source];
}

/* Clocks that only marks of the past could ask for, and the host has seen past those. */
static void forget_clocks(struct weir__race_order *o, int stream)
{
    struct weir__race_history *h = &o->streams[stream];
    int gone = 0;

    while (gone + 1 < h->n && h->clocks[gone + 1].from <= o->host[stream])
        gone++;
    if (!gone && h->n >= MOST_CLOCKS) {
        gone = MOST_CLOCKS / 2; /* a mark of before takes the oldest that is left: later, so
                                 * a race may be missed, but none is made up */
        o->forgotten += (uint64_t)gone;
    }
    for (int i = 0; i < gone; i++)
        weir__free(h->clocks[i].seq);
    h->n -= gone;
    memmove(h->clocks, h->clocks + gone, (size_t)h->n * sizeof *h->clocks);
}

weir_status weir__race_wait(struct weir__race_order *o, int stream, uint64_t from, int source,
                            uint64_t seq)
{
    struct weir__race_history *h = &o->streams[stream];
    const struct weir__race_clock *old, *other = clock_at(&o->streams[source], seq);
    struct weir__race_clock next = {.from = from};

    if (!other && o->streams[source].n && o->forgotten)
        other = &o->streams[source].clocks[0];
    if (weir__race_ordered(o, stream, source) >= seq)
        return WEIR_OK;
    if ((h->n & 63) == 63)
        forget_clocks(o, stream);
    if (!weir__grow(&h->clocks, h->n, &h->cap, sizeof *h->clocks))
        goto no_memory;
    old = h->n ? &h->clocks[h->n - 1] : NULL;
    next.n = o->nstreams;
    if (!(next.seq = weir__calloc((size_t)next.n, sizeof *next.seq)))
        goto no_memory;
    for (int i = 0; i < next.n; i++) {
        uint64_t mine = clock_get(old, i), theirs = clock_get(other, i);

        next.seq[i] = mine > theirs ? mine : theirs;
    }
    if (next.seq[source] < seq)
        next.seq[source] = seq;
    if (old && old->from == from) { /* nothing was queued between: one clock is enough */
        weir__free(old->seq);
        h->n--;
    }
    h->clocks[h->n++] = next;
    return WEIR_OK;

no_memory:
    /* As if the host had waited: a race may be missed, but none is made up. */
    weir__race_host_saw(o, source, seq);
    o->forgotten++;
    return WEIR_ENOMEM;
}

void weir__race_host_saw(struct weir__race_order *o, int stream, uint64_t seq)
{
    const struct weir__race_clock *c = clock_at(&o->streams[stream], seq);

    if (o->host[stream] >= seq)
        return;
    o->host[stream] = seq;
    for (int i = 0; c && i < c->n; i++)
        if (o->host[i] < c->seq[i])
            o->host[i] = c->seq[i];
}

void weir__race_order_fini(struct weir__race_order *o)
{
    for (int s = 0; s < o->nstreams; s++) {
        for (int i = 0; i < o->streams[s].n; i++)
            weir__free(o->streams[s].clocks[i].seq);
        weir__free(o->streams[s].clocks);
    }
    weir__free(o->streams);
    weir__free(o->host);
    *o = (struct weir__race_order){0};
}

/* ---- accesses ---- */

static bool comes_before(const struct weir__race_order *o, const struct weir__race_record *r,
                         int stream)
{
    return r->stream == stream || weir__race_ordered(o, stream, r->stream) >= r->seq;
}

const struct weir__race_record *weir__race_find(const struct weir__race_order *o,
                                                const struct weir__race_region *region, int stream,
                                                const struct weir__footprint *bytes, bool writes,
                                                int *at)
{
    while (*at < region->n) {
        const struct weir__race_record *r = &region->records[(*at)++];

        if ((writes || r->writes) && !comes_before(o, r, stream) &&
            weir__footprint_overlaps(&r->bytes, bytes))
            return r;
    }
    return NULL;
}

/* Whether nobody can race with `r` who does not race with such a later access too. */
static bool is_covered(const struct weir__race_order *o, const struct weir__race_record *r,
                       int stream, const struct weir__footprint *bytes, bool writes)
{
    return o->host[r->stream] >= r->seq || ((writes || !r->writes) && comes_before(o, r, stream) &&
                                            weir__footprint_covers(bytes, &r->bytes));
}

weir_status weir__race_reserve(const struct weir__race_order *o, struct weir__race_region *region,
                               int stream, const struct weir__footprint *bytes, bool writes,
                               struct weir__race_record **slot)
{
    int kept = 0;

    for (int i = 0; i < region->n; i++)
        if (!is_covered(o, &region->records[i], stream, bytes, writes)) {
            if (kept != i)
                region->records[kept] = region->records[i];
            kept++;
        }
    region->n = kept;
    if (region->n >= MOST_RECORDS)
        return WEIR_ERANGE;
    if (!weir__grow(&region->records, region->n, &region->cap, sizeof *region->records))
        return WEIR_ENOMEM;
    *slot = &region->records[region->n++];
    return WEIR_OK;
}

void weir__race_drop_owner(struct weir__race_region *region, const void *owner)
{
    int kept = 0;

    for (int i = 0; i < region->n; i++)
        if (region->records[i].owner != owner)
            region->records[kept++] = region->records[i];
    region->n = kept;
}

void weir__race_region_fini(struct weir__race_region *region)
{
    weir__free(region->records);
    *region = (struct weir__race_region){0};
}
