/* The bytes that ranks of one host show each other. Few bytes are put into the record. Other bytes
 * are read in place, or from a copy if they are not in shared memory or may change. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/shm.h"

enum { CARRIED_MOST = 1024 }; /* bytes that a record carries */

/* ---- showing ---- */

static bool find_bytes(const struct weir__world *w, struct weir__visit *v, int i, const void *at,
                       size_t bytes)
{
    if (w->sharing)
        return w->sharing->find(w->device, at, bytes, &v->record.shown[i].place,
                                v->record.handles[i]);
    return weir__share_find(at, bytes, &v->record.shown[i].place);
}

static bool show_room(const struct weir__world *w, struct weir__visit *v,
                      const struct weir__meet *meet, const struct weir__code_shown *s, int i)
{
    const void *at = weir__visit_make_room(v, meet, s);

    return at && find_bytes(w, v, i, at, (size_t)s->bytes);
}

/* Peers read the bytes in place if they can map them and the part does not change them. */
static bool show_bytes(const struct weir__world *w, struct weir__visit *v,
                       const struct weir__meet *meet, const struct weir__code_shown *s, int i)
{
    size_t bytes = (size_t)s->bytes;
    const char *at;

    if (s->made)
        return !bytes || show_room(w, v, meet, s, i);
    memcpy(&at, (const char *)meet + s->offset, sizeof at);
    if (!bytes || (!s->changes && find_bytes(w, v, i, at, bytes)))
        return true;
    return weir__visit_stage(w, v, at, bytes) &&
           find_bytes(w, v, i, v->staged[v->nstaged - 1].piece, bytes);
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t mix_name(uint64_t h, const char *name)
{
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return mix(h, 0);
}

/* Returns 0 for calls with counts or unknown sizes. Arguments of other calls with equal digests
 * differ only in addresses and the rank. */
static uint64_t digest_of(const struct weir__meet *meet)
{
    const struct weir__offer *o = &meet->offer;
    uint64_t h = mix(meet->args_size, (uint64_t)o->dtype << 32 | (uint32_t)o->root);

    if (o->send || o->recv)
        return 0;
    h = mix_name(mix_name(h, o->what), o->reduce);
    h = mix(h, (uint64_t)(int64_t)o->ndim);
    for (int i = 0; i < o->ndim; i++) {
        if (o->shape[i] < 0)
            return 0;
        h = mix(h, (uint64_t)o->shape[i]);
    }
    return h | 1;
}

/* Puts few bytes into the record, so that this rank need not wait until peers have read them. Only
 * for calls that libraries know (`spell`): their parts cannot fail on one rank alone, so a rank may
 * complete the call without knowing how the others' parts ended. */
static bool carry_bytes(const struct weir__world *w, struct weir__record *r,
                        const struct weir__meet *meet, const struct weir__code_shown *shown, int n)
{
    size_t at = (meet->args_size + 15) & ~(size_t)15;

    if (w->engine != &weir__shm_engine || w->sharing || !meet->spell)
        return false;
    for (int i = 0; i < n; i++) {
        const char *from;

        if ((uint64_t)shown[i].bytes > CARRIED_MOST || at + (size_t)shown[i].bytes > sizeof r->args)
            return false;
        memcpy(&from, (const char *)meet + shown[i].offset, sizeof from);
        memcpy(r->args + at, from, (size_t)shown[i].bytes);
        r->shown[i].place.offset = at;
        at = (at + (size_t)shown[i].bytes + 15) & ~(size_t)15;
    }
    r->carried = (uint32_t)weir__min(at, sizeof r->args);
    if (n == 1 && shown->bytes <= WEIR__RECORD_FEW)
        memcpy(r->few, r->args + r->shown[0].place.offset, (size_t)shown->bytes);
    r->digest = n <= 1 ? digest_of(meet) : 0;
    return true;
}

bool weir__shm_show_bytes(const struct weir__world *w, struct weir__visit *v,
                          const struct weir__meet *meet, const struct weir__code_shown *shown,
                          int n)
{
    if (carry_bytes(w, &v->record, meet, shown, n))
        return true;
    for (int i = 0; i < n; i++)
        if (!show_bytes(w, v, meet, &shown[i], i))
            return false;
    return true;
}

/* ---- reading ---- */

/* The memory of a process cannot be opened any more when it ends: says that, and which rank. */
static void blame(const struct weir__peer *peer, int rank)
{
    char why[300];

    snprintf(why, sizeof why, "%s", weir_last_error());
    if (weir__process_state(peer->pid) == 'Z')
        weir__fail(WEIR_EUNAVAILABLE, "rank %d died", rank);
    else
        weir__fail(weir__last_status(), "rank %d: %s", rank, why);
}

/* The rank may have given up because another has died: then the link says so soon. */
#define LOST_NS UINT64_C(500000000)

void *weir__shm_reach(const struct weir__world *w, const struct weir__procs_group *p, int rank,
                      struct weir__reached **list, const struct weir__shared_place *place)
{
    void *at = weir__share_reach(list, w->peers[rank].pid, place, true);
    uint64_t until = weir__clock_ns() + LOST_NS;
    _Atomic uint32_t nobody = 0;

    if (!at)
        blame(&w->peers[rank], rank);
    while (!at && weir__clock_ns() < until) {
        for (int i = 0; i < (p ? p->ranks : w->ranks); i++) {
            const struct weir__peer *peer = &w->peers[p ? p->world_rank[i] : i];
            int gone = atomic_load(&peer->gone);

            if (gone && gone != WEIR__GONE_LEFT) {
                weir__fail(WEIR_EUNAVAILABLE, "%s", peer->text);
                return NULL;
            }
        }
        weir__futex_wait(&nobody, 0, INT64_C(5000000));
    }
    return at;
}

static void *reach_bytes(const struct weir__world *w, struct weir__peer *peer, int rank,
                         const struct weir__shared_place *place, const unsigned char *handle)
{
    void *at = w->sharing ? w->sharing->reach(w->device, &peer->shown, peer->pid, place, handle)
                          : weir__share_reach(&peer->reached, peer->pid, place, false);

    if (!at)
        blame(peer, rank);
    return at;
}

/* Copies the bytes that the record contains. False if the record is malformed. */
static bool take_carried(const struct weir__record *r, unsigned char *args, void **at)
{
    uint32_t size = r->args_size, carried = r->carried;

    if (size > carried || carried > sizeof r->args)
        return false;
    memcpy(args + size, r->args + size, carried - size);
    for (uint32_t i = 0; i < r->nshown && i < WEIR__CODE_SHOWN; i++) {
        const struct weir__shared_place *place = &r->shown[i].place;

        if (place->offset > carried || place->bytes > carried - place->offset)
            return false;
        at[i] = args + place->offset;
    }
    return true;
}

bool weir__shm_is_alike(const struct weir__visit *v, const struct weir__record *r)
{
    return v->record.digest && r->digest == v->record.digest && r->carried == v->record.carried &&
           r->nshown == v->record.nshown;
}

void weir__shm_read_alike(struct weir__visit *v, const struct weir__meet *mine, int rank,
                          const struct weir__record *r)
{
    unsigned char *args = v->args[rank];
    struct weir__meet *meet = (void *)args;

    memcpy(args, mine, v->record.args_size);
    meet->rank = rank;
    meet->shown = NULL;
    meet->wanted = NULL;
    meet->spell = NULL;
    if (v->record.nshown) {
        const struct weir__shared_place *place = &v->record.shown[0].place;
        void *at = args + place->offset;

        memcpy(at, place->bytes <= WEIR__RECORD_FEW ? r->few : r->args + place->offset,
               place->bytes);
        memcpy(args + v->record.shown[0].offset, &at, sizeof at);
    }
}

bool weir__shm_reach_bytes(const struct weir__world *w, struct weir__peer *peer, int rank,
                           const struct weir__record *r, unsigned char *args, void **at)
{
    if (r->carried && !take_carried(r, args, at)) {
        weir__fail(WEIR_EINTERNAL, "rank %d wrote a malformed call", rank);
        return false;
    }
    for (uint32_t i = 0; !r->carried && i < r->nshown && i < WEIR__CODE_SHOWN; i++) {
        struct weir__shared_place from = r->shown[i].place;

        if (from.bytes && !(at[i] = reach_bytes(w, peer, rank, &from, r->handles[i])))
            return false;
    }
    return true;
}
