/* Short calls that are made again and again: the calling thread runs the whole call.
 *
 * Most of the cost of a call is to describe it, to show that to the peers, and to compare it with
 * their descriptions. A call like an earlier one has this ready. In its record only the bytes are
 * new. The arguments of peers equal this rank's own if the digests of the records are equal. The
 * protocol is that of cells.h, so a rank may run a call here while its peers run it through their
 * streams. The bytes of peers are read in place, in the cell. */
#include <string.h>

#include "comm/procs/shm.h"
#include "weir/launch.h"

/* Prepares what does not change from call to call. False if the call cannot be run this way. */
static bool prepare(struct weir__procs_group *p, struct weir__again *again, uint64_t call)
{
    struct weir__visit *v = weir__visit_make(p, NULL, again->meet, call);

    if (!v)
        return false;
    again->visit = v;
    weir__visit_end(p->world, v); /* nothing is staged if the record carries its bytes */
    if (!v->record.digest || v->record.nshown != 1)
        return false;
    for (int rank = 0; rank < p->ranks; rank++)
        if (rank == p->self) {
            v->peer_args[rank] = again->meet;
        } else {
            weir__shm_read_alike(v, again->meet, rank, &v->record);
            v->peer_args[rank] = v->args[rank];
        }
    return true;
}

/* Returns the bytes of a record that is alike to `mine`. */
static const void *bytes_of(const struct weir__record *mine, const struct weir__record *r)
{
    return mine->shown[0].place.bytes <= WEIR__RECORD_FEW ? r->few
                                                          : r->args + mine->shown[0].place.offset;
}

/* Writes number and bytes of the call to a record whose other fields are already written. */
static void renew_record(const struct weir__visit *v, const void *from, uint64_t call,
                         struct weir__record *to)
{
    size_t bytes = v->record.shown[0].place.bytes;

    to->call = call;
    memcpy(to->args + v->record.shown[0].place.offset, from, bytes);
    if (bytes <= WEIR__RECORD_FEW)
        memcpy(to->few, from, bytes);
}

static void show(struct weir__procs_group *p, const struct weir__again *again, uint64_t call)
{
    struct weir__visit *v = again->visit;
    struct weir__record *to = &v->cell->records[p->self];
    const char *from;

    memcpy(&from, (const char *)again->meet + v->record.shown[0].offset, sizeof from);
    if (p->written[call % WEIR__CELLS] != v->record.digest)
        weir__shm_put_record(p, again->group->whole, v, call);
    renew_record(v, from, call, to);
}

/* True if all records are alike; then the arguments of the peers are complete. */
static bool read_peers(struct weir__procs_group *p, struct weir__visit *v)
{
    for (int rank = 0; rank < p->ranks; rank++) {
        const struct weir__record *r = &v->cell->records[rank];
        const void *at = bytes_of(&v->record, r);

        if (rank == p->self)
            continue;
        if (!weir__shm_is_alike(v, r))
            return false;
        memcpy(v->args[rank] + v->record.shown[0].offset, &at, sizeof at);
    }
    return true;
}

enum weir__at_once weir__shm_at_once(struct weir__procs_group *p, struct weir__again *again,
                                     uint64_t call)
{
    const struct weir__channel *channel = again->group->whole;
    uint32_t members = (uint32_t)channel->nmembers;
    uint64_t generation = call / WEIR__CELLS;
    struct weir__visit *v = again->visit;
    struct weir__cell *c;

    if (!v && !prepare(p, again, call)) {
        again->never = true;
        return WEIR__AT_ONCE_NOT;
    }
    v = again->visit;
    v->cell = c = weir__cell_of(p->cells, channel, call);
    if (atomic_load(&c->generation) != generation)
        return WEIR__AT_ONCE_NOT; /* an earlier call still uses the cell */
    show(p, again, call);
    atomic_fetch_or(&c->arrived[p->self >> 6], weir__rank_bit(p->self));
    if (atomic_fetch_add(&c->narrived, 1) + 1 != members)
        weir__shm_linger(p->world, c, &c->narrived, members, generation, again);
    else if (atomic_load(&c->sleeps) && atomic_exchange(&c->sleeps, 0))
        weir__shm_ring(p, &channel->members);
    if (atomic_load(&c->narrived) != members)
        return WEIR__AT_ONCE_SHOWN;
    if (!read_peers(p, v)) {
        again->never = true; /* a broadcast, or ranks that disagree */
        return WEIR__AT_ONCE_SHOWN;
    }
    again->fn(again->meet, &(weir_block){.count = 1, .local = again->local, .peers = v->peer_args});
    weir__shm_leave_quick(p, channel, c);
    return WEIR__AT_ONCE_DONE;
}
