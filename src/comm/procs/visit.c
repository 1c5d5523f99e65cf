/* Records of calls: writing this rank's record and reading the peers' records. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/engine.h"

static void copy_name(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);

    memcpy(to, from, n);
    to[n] = 0;
}

/* True if copies of shown bytes are kept in device memory. */
static bool stays(const struct weir__world *w)
{
    return w->sharing && !w->engine->by_host;
}

static void *take_room(size_t bytes)
{
    void *piece = weir__stage_take(bytes);

    if (!piece)
        weir__fail_nomem("allocating %zu bytes to show other processes", bytes);
    return piece;
}

static void *copy_bytes(const struct weir__world *w, const void *from, size_t bytes)
{
    void *piece;

    if (stays(w))
        return w->sharing->stage(w->device, from, bytes);
    if (!(piece = take_room(bytes)))
        return NULL;
    if (!w->sharing) {
        memcpy(piece, from, bytes);
    } else if (!w->sharing->fetch(w->device, piece, from, bytes)) {
        weir__stage_give(piece, bytes);
        return NULL;
    }
    return piece;
}

static bool keep(struct weir__visit *v, void *piece, size_t bytes)
{
    if (!piece)
        return false;
    v->staged[v->nstaged].piece = piece;
    v->staged[v->nstaged++].bytes = bytes;
    return true;
}

bool weir__visit_stage(const struct weir__world *w, struct weir__visit *v, const void *from,
                       size_t bytes)
{
    return keep(v, copy_bytes(w, from, bytes), bytes);
}

void *weir__visit_make_room(struct weir__visit *v, const struct weir__meet *meet,
                            const struct weir__code_shown *s)
{
    void *room = take_room((size_t)s->bytes);
    unsigned char *own = v->args[meet->rank];

    if (!keep(v, room, (size_t)s->bytes))
        return NULL;
    if (!v->own)
        memcpy(own, meet, meet->args_size);
    v->own = (const void *)own;
    memcpy(own + s->offset, &room, sizeof room);
    return room;
}

static struct weir__visit *alloc_visit(int ranks)
{
    size_t n = (size_t)ranks, args = sizeof(struct weir__visit) + n * WEIR_ARGS_MAX;
    struct weir__visit *v = weir__alloc_aligned(args + n * (sizeof(void *) + sizeof(void *)), 64);

    if (!v)
        return NULL;
    v->participants = (void *)((char *)v + args);
    v->peer_args = (void *)(v->participants + n);
    memset(v->participants, 0, n * sizeof *v->participants);
    return v;
}

struct weir__visit *weir__visit_make(struct weir__procs_group *p, struct weir__visit *v,
                                     const struct weir__meet *meet, uint64_t call)
{
    struct weir__code_shown shown[WEIR__CODE_SHOWN];
    struct weir__record *r;
    int n = meet->shown ? meet->shown(meet, shown) : 0;

    if (!v && !(v = alloc_visit(p->ranks))) {
        weir__fail_nomem("allocating a call of group '%s'", p->group->name);
        return NULL;
    }
    r = &v->record;
    v->next = NULL;
    v->placed = meet->placed;
    v->attended = v->quick = false;
    v->fits = weir__ranks_one(p->self);
    v->mpi = NULL;
    v->own = NULL;
    v->nstaged = 0;
    v->slept_ns = 0;
    r->call = call;
    r->args_size = meet->args_size;
    r->nshown = (uint32_t)n;
    r->carried = 0;
    r->digest = 0;
    copy_name(r->label, sizeof r->label, meet->offer.label);
    copy_name(r->what, sizeof r->what, meet->offer.what);
    copy_name(r->reduce, sizeof r->reduce, meet->offer.reduce);
    memcpy(r->args, meet, meet->args_size);
    for (int i = 0; i < n; i++) {
        r->shown[i].offset = shown[i].offset;
        r->shown[i].place = (struct weir__shared_place){.bytes = (uint64_t)shown[i].bytes};
    }
    if (p->world->engine->show(p, v, meet, call, shown, n))
        return v;
    weir__visit_end(p->world, v);
    weir__free(v);
    return NULL;
}

void weir__visit_end(const struct weir__world *w, struct weir__visit *v)
{
    for (int i = 0; i < v->nstaged; i++)
        if (stays(w))
            w->sharing->unstage(w->device, v->staged[i].piece, v->staged[i].bytes);
        else
            weir__stage_give(v->staged[i].piece, v->staged[i].bytes);
    v->nstaged = 0;
}

static void name_offer(const struct weir__record *r, struct weir__meet *meet)
{
    meet->offer.label = r->label;
    meet->offer.what = r->what;
    meet->offer.reduce = r->reduce;
}

bool weir__record_read(const struct weir__record *r, struct weir__channel *channel, int rank,
                       void *const *at, struct weir__meet *out)
{
    uint32_t size = r->args_size, nshown = r->nshown;

    if (size < sizeof *out || size > sizeof r->args || nshown > WEIR__CODE_SHOWN) {
        weir__fail(WEIR_EINTERNAL, "rank %d wrote a malformed call", rank);
        return false;
    }
    memcpy(out, r->args, size);
    out->channel = channel;
    out->shown = NULL;
    out->wanted = NULL;
    out->aim = NULL;
    out->spell = NULL;
    name_offer(r, out);
    for (uint32_t i = 0; i < nshown; i++) {
        if (r->shown[i].offset > size - sizeof *at) {
            weir__fail(WEIR_EINTERNAL, "rank %d wrote a malformed call", rank);
            return false;
        }
        memcpy((char *)out + r->shown[i].offset, &at[i], sizeof *at);
    }
    return true;
}

bool weir__record_fits(const struct weir__record *r, const struct weir__meet *meet, char *text,
                       size_t size)
{
    _Alignas(16) unsigned char room[WEIR_ARGS_MAX];
    struct weir__meet *other = (void *)room;
    bool counts = meet->offer.send || meet->offer.recv;

    memcpy(room, r->args, counts ? (size_t)weir__min(r->args_size, sizeof room) : sizeof *other);
    other->channel = meet->channel;
    name_offer(r, other);
    /* If the arrays of counts are at other offsets than this rank's, the operators differ. */
    if (other->offer.send != meet->offer.send || other->offer.recv != meet->offer.recv)
        other->offer.send = other->offer.recv = 0;
    return weir__offers_fit(other, meet, text, size);
}

bool weir__procs_round_follows(const struct weir__procs_group *p, const struct weir__rendezvous *m)
{
    const struct weir__meet *meet = m->args[p->self];

    return meet->in_rounds && p->group->rounds &&
           !weir__containerof(m, const struct weir__participant, own)->round;
}
