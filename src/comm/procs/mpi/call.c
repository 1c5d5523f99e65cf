/* Calls by engine `mpi`.
 *
 * Only point-to-point messages are used, with the call's number in the tag, so calls on different
 * streams need no common order. Each member sends its record to the others, and the shown bytes
 * with it if they are short. When all records have arrived and fit, each rank knows which of its
 * bytes the others need, and sends those. Then the part runs on the received copies as it would on
 * peers' memory, so sums are in rank order. In the first round of a call in rounds, the ranks
 * exchange slices of the inputs. In the second, each sends the slice that it has reduced to all
 * others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/procs/mpi/mpi.h"

enum { CALLS = 2048 }; /* call numbers in tags; a whole tag is below 32768 */

/* A message with a record: the record's used part, then short shown bytes. */
static size_t message_size(const struct weir__record *r)
{
    return offsetof(struct weir__record, args) + r->args_size;
}
static size_t shown_bytes(const struct weir__record *r)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < r->nshown && i < WEIR__CODE_SHOWN; i++)
        sum += r->shown[i].place.bytes;
    return sum;
}
static bool is_short(const struct weir__record *r)
{
    return shown_bytes(r) <= WEIR__MPI_SHORT;
}
enum { MESSAGE_ROOM = WEIR__MPI_MESSAGE_ROOM };

static struct weir__record *record_of(const struct weir__mpi_call *c, int rank)
{
    return (void *)(c->records + (size_t)rank * MESSAGE_ROOM);
}

/* Channel names: "" for the whole group; "pair 3 to 5" for one direction of a pair; else a name. */
static bool is_named(const struct weir__channel *channel)
{
    return *channel->name && !weir__is_pair(channel);
}

static int tag_of(const struct weir__rendezvous *m, int what)
{
    static const char pair[] = "pair ", to[] = " to ";
    const char *name = m->channel->name;
    int kind = 0;
    char *rest;

    if (is_named(m->channel)) /* one tag for all names and call numbers: see names.c */
        return WEIR__MPI_NAMED_TAG + what;
    if (!strncmp(name, pair, sizeof pair - 1)) {
        long from = strtol(name + sizeof pair - 1, &rest, 10);

        if (!strncmp(rest, to, sizeof to - 1))
            kind = from < strtol(rest + sizeof to - 1, NULL, 10) ? 1 : 2;
    }
    return ((int)(m->call % CALLS) * 4 + kind) * 4 + what;
}

static void free_call(struct weir__mpi_call *c)
{
    for (int i = 0; i < c->npieces; i++)
        weir__stage_give(c->pieces[i].memory, c->pieces[i].bytes);
    weir__free(c->requests);
    weir__free(c->records);
    weir__free(c);
}

/* ---- stages ---- */

static enum weir__step break_for_memory(struct weir__procs_group *p, struct weir__rendezvous *m,
                                        struct weir__participant **woken)
{
    weir__procs_break_over(p, m, WEIR_ENOMEM, "out of host memory for messages", woken);
    return WEIR__STEP_BROKE;
}

static struct weir__mpi_call *begin_call(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;
    size_t most = (size_t)(p->ranks + 1) * WEIR__CODE_SHOWN;
    struct weir__mpi_call *c =
        weir__calloc(1, sizeof *c + (p->world->sharing ? 2 : 1) * most * sizeof *c->pieces);
    unsigned char *mine;

    if (!c || !(c->records = weir__malloc((size_t)p->ranks * MESSAGE_ROOM))) {
        weir__free(c);
        return NULL;
    }
    c->placed = c->pieces + most;
    mine = (void *)record_of(c, p->self);
    memcpy(mine, &v->record, message_size(&v->record));
    c->record_size = message_size(&v->record);
    if (is_short(&v->record))
        for (int i = 0; i < v->nstaged; i++) {
            memcpy(mine + c->record_size, v->staged[i].piece, v->staged[i].bytes);
            c->record_size += v->staged[i].bytes;
        }
    v->mpi = c;
    c->p = p;
    WEIR__EACH_RANK(rank, &m->channel->members)
    {
        if (rank == p->self)
            continue;
        if ((!is_named(m->channel) &&
             !weir__mpi_post(p, c, WEIR__MPI_RECV_RECORD, rank, record_of(c, rank), MESSAGE_ROOM,
                             tag_of(m, 0))) ||
            !weir__mpi_post(p, c, WEIR__MPI_SEND_RECORD, rank, mine, c->record_size, tag_of(m, 0)))
            return NULL;
    }
    weir__procs_poke(p->world);
    return c;
}

/* Checks and reads the record that has arrived from `rank`. False if the group broke. */
static bool take_record(struct weir__procs_group *p, struct weir__rendezvous *m, int rank,
                        struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    const struct weir__record *r = record_of(v->mpi, rank);
    void *at[WEIR__CODE_SHOWN];
    char differ[400];

    if (r->call != m->call) {
        snprintf(differ, sizeof differ, "rank %d is at call %llu", rank,
                 (unsigned long long)r->call);
        weir__procs_break_over(p, m, WEIR_EINTERNAL, differ, woken);
        return false;
    }
    if (!weir__record_fits(r, m->args[p->self], differ, sizeof differ)) {
        weir__procs_break_over(p, m, WEIR_EINVAL, differ, woken);
        return false;
    }
    for (uint32_t i = 0; i < r->nshown && i < WEIR__CODE_SHOWN; i++)
        memcpy(&at[i], r->args + weir__min(r->shown[i].offset, sizeof r->args - sizeof *at),
               sizeof *at);
    if (!weir__record_read(r, m->channel, rank, at, (void *)v->args[rank])) {
        weir__procs_break_over(p, m, WEIR_EINTERNAL, weir_last_error(), woken);
        return false;
    }
    weir__ranks_add(&v->mpi->arrived, rank);
    v->mpi->narrived++;
    return true;
}

static bool take_records(struct weir__procs_group *p, struct weir__rendezvous *m,
                         struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    struct weir__mpi_call *c = v->mpi;

    for (int i = 0; i < c->nrequests; i++) {
        const struct weir__mpi_request *r = &c->requests[i];

        if (r->role == WEIR__MPI_RECV_RECORD && r->over && !weir__ranks_has(&c->arrived, r->rank) &&
            !c->failed_ns && !take_record(p, m, r->rank, woken))
            return false;
    }
    return true;
}

/* The same for calls by name. */
static enum weir__step take_named(struct weir__procs_group *p, struct weir__rendezvous *m,
                                  struct weir__participant **woken)
{
    struct weir__visit *v = m->more;
    struct weir__ranks others = weir__ranks_but(&m->channel->members, p->self);

    WEIR__EACH_RANK(rank, &others)
    {
        enum weir__mpi_found found;

        if (weir__ranks_has(&v->mpi->arrived, rank))
            continue;
        found = weir__mpi_find_named(p, v->mpi, rank, &v->record, tag_of(m, 0),
                                     record_of(v->mpi, rank));
        if (found == WEIR__MPI_NO_MEMORY)
            return break_for_memory(p, m, woken);
        if (found == WEIR__MPI_FOUND && !take_record(p, m, rank, woken))
            return WEIR__STEP_BROKE;
    }
    return WEIR__STEP_HERE;
}

/* Computes which bytes of the i-th piece shown by `shower` are needed by `reader`. */
static void find_wanted(const struct weir__meet *own, const void *reader, const void *shower, int i,
                        int64_t *begin, int64_t *bytes)
{
    *begin = 0;
    if (!i && own->wanted && *bytes)
        own->wanted(reader, shower, begin, bytes);
}

static void set_pointer(struct weir__visit *v, int rank, int i, const char *at)
{
    memcpy(v->args[rank] + record_of(v->mpi, rank)->shown[i].offset, &at, sizeof at);
}

/* Short data arrives in the record's message: points the arguments there. */
static void point_into_record(struct weir__visit *v, int rank)
{
    const struct weir__record *r = record_of(v->mpi, rank);
    const char *at = (const char *)r + message_size(r);

    for (uint32_t i = 0; i < r->nshown; i++) {
        set_pointer(v, rank, (int)i, at);
        at += r->shown[i].place.bytes;
    }
}

/* The range of shown pieces that are transferred now: in the first of two rounds the inputs, in the
 * second the results of the first. */
struct some {
    uint32_t first, end;
};
static struct some moved_now(const struct weir__procs_group *p, const struct weir__rendezvous *m,
                             uint32_t nshown)
{
    const struct weir__visit *v = m->more;
    const struct weir__meet *own = m->args[p->self];

    if (!own->in_rounds || !p->group->rounds || nshown < 2)
        return (struct some){0, nshown};
    return v->mpi->gathers ? (struct some){1, nshown} : (struct some){0, 1};
}

static bool receive_from(struct weir__procs_group *p, struct weir__rendezvous *m, int rank)
{
    struct weir__visit *v = m->more;
    struct weir__mpi_call *c = v->mpi;
    const struct weir__record *r = record_of(c, rank);
    const struct weir__meet *own = m->args[p->self];
    struct some some = moved_now(p, m, r->nshown);

    for (uint32_t i = some.first; i < some.end; i++) {
        int64_t begin, bytes = (int64_t)r->shown[i].place.bytes;
        char *piece;

        find_wanted(own, own, v->args[rank], (int)i, &begin, &bytes);
        if (!bytes)
            continue;
        if (!(piece = weir__stage_take((size_t)bytes)))
            return false;
        c->pieces[c->npieces++] = (struct weir__mpi_piece){piece, (size_t)bytes};
        if (!weir__mpi_post(p, c, WEIR__MPI_RECV_BYTES, rank, piece, (size_t)bytes,
                            tag_of(m, 1 + (int)i)))
            return false;
    }
    return true;
}

static bool send_to(struct weir__procs_group *p, struct weir__rendezvous *m, int rank)
{
    struct weir__visit *v = m->more;
    const struct weir__meet *own = m->args[p->self];
    struct some some = moved_now(p, m, v->record.nshown);
    int staged = 0;

    for (uint32_t i = 0; i < some.end; i++) {
        int64_t begin, bytes = (int64_t)v->record.shown[i].place.bytes;
        char *from;

        if (!bytes)
            continue;
        from = v->staged[staged++].piece;
        if (i < some.first)
            continue;
        find_wanted(own, v->args[rank], own, (int)i, &begin, &bytes);
        if (bytes && !weir__mpi_post(p, v->mpi, WEIR__MPI_SEND_BYTES, rank, from + begin,
                                     (size_t)bytes, tag_of(m, 1 + (int)i)))
            return false;
    }
    return true;
}

/* Starts the transfers: when all records have arrived, and again after the first of two rounds. */
static bool begin_moves(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;
    struct weir__ranks others = weir__ranks_but(&m->channel->members, p->self);

    v->mpi->first_piece = v->mpi->npieces;
    WEIR__EACH_RANK(rank, &others)
    {
        if (is_short(record_of(v->mpi, rank)))
            point_into_record(v, rank);
        else if (!receive_from(p, m, rank))
            return false;
    }
    WEIR__EACH_RANK(rank, &others)
    if (!is_short(&v->record) && !send_to(p, m, rank))
        return false;
    v->mpi->moves = true;
    return true;
}

/* Points the arguments to the received pieces, which receive_from allocated in this order. */
static void point_into_pieces(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;
    const struct weir__meet *own = m->args[p->self];
    int piece = v->mpi->first_piece;

    WEIR__EACH_RANK(rank, &m->channel->members)
    {
        const struct weir__record *r = record_of(v->mpi, rank);
        struct some some = moved_now(p, m, r->nshown);

        if (rank == p->self)
            continue;
        for (uint32_t i = some.first; i < some.end && !is_short(r); i++) {
            int64_t begin, bytes = (int64_t)r->shown[i].place.bytes;

            find_wanted(own, own, v->args[rank], (int)i, &begin, &bytes);
            if (bytes)
                set_pointer(v, rank, (int)i, (char *)v->mpi->pieces[piece++].memory - begin);
        }
        m->args[rank] = v->args[rank];
    }
}

/* Copies received bytes to the device. False with the thread's error set. */
static bool place(const struct weir__world *w, struct weir__mpi_call *c, const char **at,
                  int64_t begin, int64_t bytes)
{
    char *piece = w->sharing->place(w->device, *at + begin, (size_t)bytes);

    if (!piece)
        return false;
    c->placed[c->nplaced++] = (struct weir__mpi_piece){piece, (size_t)bytes};
    *at = piece - begin;
    return true;
}

static void unplace(const struct weir__world *w, struct weir__mpi_call *c)
{
    for (int i = 0; i < c->nplaced; i++)
        w->sharing->unstage(w->device, c->placed[i].memory, c->placed[i].bytes);
    c->nplaced = 0;
}

static bool place_on_device(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;
    const struct weir__meet *own = m->args[p->self];
    struct weir__ranks others = weir__ranks_but(&m->channel->members, p->self);

    WEIR__EACH_RANK(rank, &others)
    {
        const struct weir__record *r = record_of(v->mpi, rank);

        for (uint32_t i = 0; i < r->nshown; i++) {
            int64_t begin, bytes = (int64_t)r->shown[i].place.bytes;
            const char *at;

            find_wanted(own, own, v->args[rank], (int)i, &begin, &bytes);
            if (!bytes)
                continue;
            memcpy(&at, v->args[rank] + r->shown[i].offset, sizeof at);
            if (!place(p->world, v->mpi, &at, begin, bytes))
                return false;
            set_pointer(v, rank, (int)i, at);
        }
    }
    return true;
}

enum weir__step weir__mpi_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *arrived, struct weir__participant **woken)
{
    const struct weir__mpi *mpi = p->world->mpi;
    struct weir__visit *v = m->more;
    bool waits;

    if (!v->mpi && !begin_call(p, m))
        return break_for_memory(p, m, woken);
    waits = weir__mpi_is_under_way(mpi, v->mpi,
                                   1u << WEIR__MPI_RECV_RECORD | 1u << WEIR__MPI_RECV_BYTES);
    if (!v->mpi->moves && is_named(m->channel) && take_named(p, m, woken) == WEIR__STEP_BROKE)
        return WEIR__STEP_BROKE;
    if (!v->mpi->moves && !take_records(p, m, woken))
        return WEIR__STEP_BROKE;
    *arrived = v->mpi->arrived;
    weir__ranks_add(arrived, p->self);
    if (!v->mpi->moves && v->mpi->narrived == m->channel->nmembers - 1 && !v->mpi->failed_ns) {
        if (!begin_moves(p, m))
            return break_for_memory(p, m, woken);
        waits = weir__mpi_is_under_way(mpi, v->mpi, 1u << WEIR__MPI_RECV_BYTES);
    }
    if (waits || !v->mpi->moves || v->mpi->failed_ns)
        return weir__mpi_stay_or_break(p, m, woken);
    point_into_pieces(p, m);
    if (p->world->sharing && !place_on_device(p, m)) {
        weir__procs_break_over(p, m, weir__last_status(), weir_last_error(), woken);
        return WEIR__STEP_BROKE;
    }
    return WEIR__STEP_HERE;
}

/* After the first round: exchanges the results of all ranks. */
static enum weir__step gather(struct weir__procs_group *p, struct weir__rendezvous *m,
                              struct weir__participant **woken)
{
    struct weir__visit *v = m->more;

    if (!v->mpi->gathers) {
        v->mpi->gathers = true;
        if (!begin_moves(p, m))
            return break_for_memory(p, m, woken);
        weir__procs_poke(p->world);
    }
    if (weir__mpi_is_under_way(p->world->mpi, v->mpi, 1u << WEIR__MPI_RECV_BYTES) ||
        v->mpi->failed_ns)
        return weir__mpi_stay_or_break(p, m, woken);
    point_into_pieces(p, m);
    return WEIR__STEP_HERE;
}

enum weir__step weir__mpi_left(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *left, struct weir__participant **woken)
{
    struct weir__visit *v = m->more;

    *left = weir__ranks_one(p->self);
    if (weir__procs_round_follows(p, m))
        return gather(p, m, woken);
    if (weir__mpi_is_under_way(p->world->mpi, v->mpi, ~0u) || v->mpi->failed_ns)
        return weir__mpi_stay_or_break(p, m, woken);
    unplace(p->world, v->mpi);
    free_call(v->mpi);
    v->mpi = NULL;
    return WEIR__STEP_HERE;
}

/* The call becomes an orphan, which keeps the copies: MPI may still read and write them. */
void weir__mpi_give_up(struct weir__procs_group *p, struct weir__rendezvous *m)
{
    struct weir__visit *v = m->more;
    struct weir__mpi_call *c = v->mpi;

    if (!c)
        return;
    unplace(p->world, c);
    for (int i = 0; i < v->nstaged; i++)
        c->pieces[c->npieces++] = (struct weir__mpi_piece){v->staged[i].piece, v->staged[i].bytes};
    v->nstaged = 0;
    v->mpi = NULL;
    c->p = NULL;
    c->next = p->world->mpi->orphans;
    p->world->mpi->orphans = c;
}

void weir__mpi_free_orphans(struct weir__mpi *mpi)
{
    struct weir__mpi_call **at = &mpi->orphans;

    while (*at) {
        struct weir__mpi_call *c = *at;

        if (weir__mpi_is_under_way(mpi, c, ~0u)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free_call(c);
    }
}
