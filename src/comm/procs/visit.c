/* A call as others see it, and others' calls as seen here. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/shm.h"

/* Peers read the bytes where they are, if they can and nobody changes them. */
static bool show(struct weir__visit *v, const struct weir__meet *meet,
                 const struct weir__code_shown *s, int i)
{
    const char *at;
    size_t bytes = (size_t)s->bytes;

    memcpy(&at, (const char *)meet + s->offset, sizeof at);
    v->record.shown[i].offset = s->offset;
    v->record.shown[i].place = (struct weir__shared_place){0};
    if (!bytes)
        return true;
    if (!s->changes && weir__share_find(at, bytes, &v->record.shown[i].place))
        return true;
    v->staged[v->nstaged].piece = weir__stage_take(bytes);
    v->staged[v->nstaged].bytes = bytes;
    if (!v->staged[v->nstaged].piece) {
        weir__fail_nomem("%zu bytes to show other processes", bytes);
        return false;
    }
    memcpy(v->staged[v->nstaged].piece, at, bytes);
    return weir__share_find(v->staged[v->nstaged++].piece, bytes, &v->record.shown[i].place);
}

static void copy_name(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

struct weir__visit *weir__visit_make(struct weir__procs_group *p, struct weir__visit *v,
                                     const struct weir__meet *meet, uint64_t call)
{
    struct weir__code_shown shown[WEIR__CODE_SHOWN];
    struct weir__record *r;
    int n = meet->shown ? meet->shown(meet, shown) : 0;

    if (!v && !(v = weir__alloc_aligned(sizeof *v + (size_t)p->ranks * sizeof v->args[0], 64))) {
        weir__fail_nomem("a call of group '%s'", p->group->name);
        return NULL;
    }
    r = &v->record;
    v->next = NULL;
    v->placed = false;
    v->nstaged = 0;
    v->cell = weir__cell_of(p->cells, meet->channel, call);
    v->generation = call / WEIR__CELLS;
    r->args_size = meet->args_size;
    r->nshown = (uint32_t)n;
    copy_name(r->label, sizeof r->label, meet->offer.label);
    copy_name(r->what, sizeof r->what, meet->offer.what);
    copy_name(r->reduce, sizeof r->reduce, meet->offer.reduce);
    memcpy(r->args, meet, meet->args_size);
    if (!v->cell) {
        weir__fail(WEIR_EUNSUPPORTED,
                   "%s: collectives by name work between ranks of one process only",
                   meet->offer.label);
        goto end;
    }
    for (int i = 0; i < n; i++)
        if (!show(v, meet, &shown[i], i))
            goto end;
    return v;

end:
    weir__visit_end(v);
    weir__free(v);
    return NULL;
}

void weir__visit_end(struct weir__visit *v)
{
    for (int i = 0; i < v->nstaged; i++)
        weir__stage_give(v->staged[i].piece, v->staged[i].bytes);
    v->nstaged = 0;
}

static const struct weir__record *record_of(const struct weir__visit *v,
                                            const struct weir__channel *channel, int rank)
{
    return &v->cell->records[weir__cell_place(channel, rank)];
}

bool weir__visit_read(struct weir__procs_group *p, struct weir__visit *v,
                      struct weir__channel *channel, int rank)
{
    const struct weir__record *r = record_of(v, channel, rank);
    struct weir__peer *peer = &p->world->peers[p->world_rank[rank]];
    struct weir__meet *meet = (void *)v->args[rank];
    uint32_t size = r->args_size, nshown = r->nshown;

    if (size < sizeof *meet || size > sizeof r->args || nshown > WEIR__CODE_SHOWN) {
        weir__fail(WEIR_EINTERNAL, "rank %d wrote what is no call", rank);
        return false;
    }
    memcpy(meet, r->args, size);
    meet->channel = channel;
    meet->shown = NULL;
    meet->offer.label = r->label;
    meet->offer.what = r->what;
    meet->offer.reduce = r->reduce;
    for (uint32_t i = 0; i < nshown; i++) {
        struct weir__shared_place place = r->shown[i].place;
        void *at = NULL;

        if (r->shown[i].offset > size - sizeof at) {
            weir__fail(WEIR_EINTERNAL, "rank %d wrote what is no call", rank);
            return false;
        }
        if (place.bytes && !(at = weir__share_reach(&peer->reached, peer->pid, &place, false)))
            return false;
        memcpy((char *)meet + r->shown[i].offset, &at, sizeof at);
    }
    return true;
}

bool weir__visit_fits(const struct weir__visit *v, const struct weir__meet *meet, int rank,
                      char *text, size_t size)
{
    const struct weir__record *r = record_of(v, meet->channel, rank);
    _Alignas(16) unsigned char room[WEIR_ARGS_MAX];
    struct weir__meet *other = (void *)room;

    memcpy(room, r->args, sizeof room);
    other->channel = meet->channel;
    other->offer.label = r->label;
    other->offer.what = r->what;
    other->offer.reduce = r->reduce;
    /* Arrays of counts are where this rank has them, or the operators differ. */
    if (other->offer.send != meet->offer.send || other->offer.recv != meet->offer.recv)
        other->offer.send = other->offer.recv = 0;
    return weir__offers_fit(other, meet, text, size);
}
