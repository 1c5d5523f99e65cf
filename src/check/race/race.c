/* Accesses to memory: which ones are kept because later accesses could race with them. */
#include "check/race/race.h"

enum { MOST_RECORDS = 1 << 14, MOST_PAIRS = 1 << 12 };

static bool comes_before(struct weir__race_order *o, const struct weir__race_record *r, int stream)
{
    return r->stream == stream || weir__race_ordered(o, stream, r->stream) >= r->seq;
}

const struct weir__race_record *weir__race_find(struct weir__race_order *o,
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
static bool is_covered(struct weir__race_order *o, const struct weir__race_record *r, int stream,
                       const struct weir__footprint *bytes, bool writes)
{
    return (writes || !r->writes) && comes_before(o, r, stream) &&
           weir__footprint_covers(bytes, &r->bytes);
}

weir_status weir__race_reserve(struct weir__race_order *o, struct weir__race_region *region,
                               int stream, const struct weir__footprint *bytes, bool writes,
                               struct weir__race_record **slot)
{
    /* Behind a collective that not every rank has called yet, somebody may still turn out to
     * come before this access: what it covers stays for them. */
    bool covers = !o->open || weir__race_is_settled(o, stream, UINT64_MAX);
    int kept = 0;

    for (int i = 0; i < region->n; i++) {
        const struct weir__race_record *r = &region->records[i];

        if (o->host[r->stream] >= r->seq || (covers && is_covered(o, r, stream, bytes, writes)))
            continue;
        if (kept != i)
            region->records[kept] = *r;
        kept++;
    }
    region->n = kept;
    if (region->n >= MOST_RECORDS)
        return WEIR_ERANGE;
    if (region->n == region->cap &&
        !weir__grow(&region->records, region->n, &region->cap, sizeof *region->records))
        return WEIR_ENOMEM;
    *slot = &region->records[region->n++];
    return WEIR_OK;
}

/* Both accesses as one that has all bytes between theirs. */
static void merge_records(struct weir__race_record *into, const struct weir__race_record *r)
{
    struct weir__footprint *f = &into->bytes;
    struct weir__race_record later = r->seq > into->seq ? *r : *into;

    later.bytes = (struct weir__footprint){
        .first = f->first < r->bytes.first ? f->first : r->bytes.first,
        .end = f->end > r->bytes.end ? f->end : r->bytes.end,
    };
    later.bytes.run = (uint32_t)(later.bytes.end - later.bytes.first);
    *into = later;
}

void weir__race_coarsen(struct weir__race_region *region)
{
    int kept = 0;

    for (int i = 0; i < region->n; i++) {
        const struct weir__race_record *r = &region->records[i];
        int at = 0;

        while (at < kept &&
               (region->records[at].stream != r->stream ||
                region->records[at].writes != r->writes || region->records[at].owner != r->owner))
            at++;
        if (at < kept)
            merge_records(&region->records[at], r);
        else
            region->records[kept++] = *r;
    }
    region->n = kept;
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

/* ---- pairs that cannot be judged yet ---- */

bool weir__race_is_decided(struct weir__race_order *o, const struct weir__race_record *a,
                           int stream, uint64_t seq)
{
    return !o->open ||
           (weir__race_is_settled(o, a->stream, a->seq) && weir__race_is_settled(o, stream, seq));
}

weir_status weir__race_suspect(struct weir__race_pairs *pairs,
                               const struct weir__race_record *first,
                               const struct weir__race_record *second)
{
    if (pairs->n == MOST_PAIRS)
        return WEIR_ERANGE;
    if (!weir__grow(&pairs->at, pairs->n, &pairs->cap, sizeof *pairs->at))
        return WEIR_ENOMEM;
    pairs->at[pairs->n++] = (struct weir__race_pair){*first, *second};
    return WEIR_OK;
}

bool weir__race_judge(struct weir__race_order *o, struct weir__race_pairs *pairs,
                      struct weir__race_pair *race)
{
    int kept = 0;
    bool found = false;

    for (int i = 0; i < pairs->n; i++) {
        const struct weir__race_record *a = &pairs->at[i].first, *b = &pairs->at[i].second;
        bool ordered = weir__race_ordered_at(o, b->stream, b->seq, a->stream) >= a->seq ||
                       weir__race_ordered_at(o, a->stream, a->seq, b->stream) >= b->seq;

        if (!ordered && !found && weir__race_is_decided(o, a, b->stream, b->seq)) {
            *race = pairs->at[i];
            found = true;
        } else if (!ordered) {
            pairs->at[kept++] = pairs->at[i];
        }
    }
    pairs->n = kept;
    return found;
}

void weir__race_pairs_fini(struct weir__race_pairs *pairs)
{
    weir__free(pairs->at);
    *pairs = (struct weir__race_pairs){0};
}
