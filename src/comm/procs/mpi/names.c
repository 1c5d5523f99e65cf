/* Records of calls by name. A tag has no room for a name, so a rank sends all these records with
 * one tag, in the order of its calls. Messages for calls that have not started here yet are kept. A
 * receive is posted only while a call waits for that rank, so no receive remains posted. */
#include <string.h>

#include "comm/procs/mpi/mpi.h"

struct early {
    struct early *next;
    int rank;
    _Alignas(64) unsigned char message[];
};

struct weir__mpi_names {
    struct weir__mpi_call *receives; /* at most one posted receive per rank, and their buffers */
    struct early *early;             /* messages that have arrived, oldest first */
};

static bool is_asked(const struct weir__mpi_names *names, int rank)
{
    for (int i = 0; i < names->receives->nrequests; i++)
        if (names->receives->requests[i].rank == rank)
            return true;
    return false;
}

/* Moves messages that have arrived to `early`. False when out of memory. */
static bool take_messages(struct weir__procs_group *p)
{
    struct weir__mpi_names *names = p->names;
    struct weir__mpi_call *c = names->receives;

    weir__mpi_is_under_way(p->world->mpi, c, ~0u);
    for (int i = 0; i < c->nrequests && !c->failed_ns; i++) {
        struct early *e, **at = &names->early;

        if (!c->requests[i].over)
            continue;
        if (!(e = weir__alloc_aligned(sizeof *e + WEIR__MPI_MESSAGE_ROOM, 64)))
            return false;
        e->next = NULL;
        e->rank = c->requests[i].rank;
        memcpy(e->message, c->records + (size_t)e->rank * WEIR__MPI_MESSAGE_ROOM,
               WEIR__MPI_MESSAGE_ROOM);
        while (*at)
            at = &(*at)->next;
        *at = e;
        c->requests[i--] = c->requests[--c->nrequests];
    }
    return true;
}

static bool make_names(struct weir__procs_group *p)
{
    struct weir__mpi_names *names = weir__calloc(1, sizeof *names);

    if (names && (names->receives = weir__calloc(1, sizeof *names->receives)) &&
        (names->receives->records = weir__malloc((size_t)p->ranks * WEIR__MPI_MESSAGE_ROOM))) {
        names->receives->p = p;
        p->names = names;
        return true;
    }
    if (names)
        weir__free(names->receives);
    weir__free(names);
    return false;
}

enum weir__mpi_found weir__mpi_find_named(struct weir__procs_group *p, struct weir__mpi_call *call,
                                          int rank, const struct weir__record *own, int tag,
                                          struct weir__record *out)
{
    struct weir__mpi_names *names = p->names;
    struct weir__mpi_call *c;

    if (!names && !make_names(p))
        return WEIR__MPI_NO_MEMORY;
    names = p->names;
    c = names->receives;
    if (!take_messages(p))
        return WEIR__MPI_NO_MEMORY;
    for (struct early **at = &names->early; *at; at = &(*at)->next) {
        struct early *e = *at;
        const struct weir__record *r = (const void *)e->message;

        if (e->rank != rank || r->digest != own->digest || r->call != own->call)
            continue;
        memcpy(out, e->message, WEIR__MPI_MESSAGE_ROOM);
        *at = e->next;
        weir__free(e);
        return WEIR__MPI_FOUND;
    }
    if (c->failed_ns && !call->failed_ns) {
        call->failed_ns = c->failed_ns;
        memcpy(call->error, c->error, sizeof call->error);
    }
    if (!is_asked(names, rank) && !c->failed_ns &&
        !weir__mpi_post(p, c, WEIR__MPI_RECV_RECORD, rank,
                        c->records + (size_t)rank * WEIR__MPI_MESSAGE_ROOM, WEIR__MPI_MESSAGE_ROOM,
                        tag))
        return WEIR__MPI_NO_MEMORY;
    return WEIR__MPI_NOT_YET;
}

/* The buffers become an orphan: MPI may still write to receives of calls that were given up. */
void weir__mpi_forget_names(struct weir__procs_group *p)
{
    struct weir__mpi_names *names = p->names;
    struct weir__mpi *mpi = p->world->mpi;

    if (!names)
        return;
    while (names->early) {
        struct early *e = names->early;

        names->early = e->next;
        weir__free(e);
    }
    weir__mutex_lock(&p->world->lock);
    names->receives->p = NULL;
    names->receives->next = mpi->orphans;
    mpi->orphans = names->receives;
    weir__mutex_unlock(&p->world->lock);
    weir__free(names);
    p->names = NULL;
}
