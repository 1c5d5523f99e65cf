/* Closing a group of engine `mpi` without losing messages.
 *
 * A send completes when MPI has copied the message, and the copy may arrive after a message on the
 * link that says that the sender has left. So a receiver could not tell a record in flight from one
 * that will never arrive. Also, MPI may not deliver the copy until the sender calls MPI again. So a
 * rank that closes a group, after all its calls have completed, tells each member how many messages
 * it has sent to it. It keeps calling MPI until every member has confirmed, and leaves only then:
 *
 *   closes ─ CLOSES(messages) ─▶ the member compares with the number of messages that have arrived.
 *                                If all have, it confirms, and treats the rank as gone in calls
 *                                that wait for it. Otherwise it waits for the rest
 *   ends   ◀─ RECEIVED ───────── or CLOSES of the member, whose calls have completed too, or the
 *                                member is gone
 *
 * The link and the hub keep the order of messages. So a rank that learns that another has left has
 * already learned how many messages that rank sent to each group, or that the group is
 * broken. */
#include <stdio.h>

#include "comm/procs/mpi/mpi.h"

/* A closing rank does not wait longer than this for a member's answer. */
#define QUIT_NS UINT64_C(10000000000)
#define PAUSE_NS INT64_C(500000)

bool weir__mpi_counts_make(struct weir__procs_group *p)
{
    struct weir__mpi_counts *c = weir__calloc(1, sizeof *c + (size_t)p->ranks * sizeof *c->of);

    weir__mutex_lock(&p->world->lock); /* the link knows the group already */
    p->counts = c;
    weir__mutex_unlock(&p->world->lock);
    return c;
}

static bool has_all(const struct weir__mpi_count *c)
{
    return c->closes && c->received == c->announced;
}

static void answer(struct weir__procs_group *p, int rank)
{
    const struct weir__mpi_count *c = &p->counts->of[rank];

    if (has_all(c) && !p->counts->closes) /* this rank's own CLOSES is an answer, too */
        weir__world_send_close(p->world, p->key, p->world_rank[rank], false, c->received);
}

/* Also before the group is made here: the other rank may be quicker. */
static void break_for(struct weir__procs_group *p, int rank, uint64_t messages,
                      struct weir__participant **woken)
{
    char text[200];

    snprintf(
        text, sizeof text,
        "group '%.60s': rank %d says that it has sent %llu messages, but %llu have arrived and it "
        "has announced %llu before",
        p->name, rank, (unsigned long long)messages,
        (unsigned long long)p->counts->of[rank].received,
        (unsigned long long)p->counts->of[rank].announced);
    if (p->group)
        weir__procs_break(p, WEIR_EINTERNAL, text, true, woken);
    else
        weir__procs_break_early(p, WEIR_EINTERNAL, text);
}

void weir__mpi_count_received(struct weir__procs_group *p, int rank)
{
    struct weir__mpi_count *c = &p->counts->of[rank];

    c->received++;
    answer(p, rank);
}

void weir__mpi_see_close(struct weir__procs_group *p, int rank, bool closes, uint64_t messages,
                         struct weir__participant **woken)
{
    struct weir__mpi_count *c;

    if (!p->counts || rank == p->self)
        return;
    c = &p->counts->of[rank];
    if (!closes) {
        c->has |= p->counts->closes && messages == c->sent;
        return;
    }
    if (messages < c->received || (c->closes && messages != c->announced)) {
        break_for(p, rank, messages, woken);
        return;
    }
    p->counts->nclosing += !c->closes;
    c->closes = true;
    c->announced = messages;
    answer(p, rank);
}

void weir__mpi_tell_again(struct weir__procs_group *p)
{
    for (int i = 0; i < p->ranks && p->counts; i++) {
        if (i == p->self)
            continue;
        if (p->counts->closes)
            weir__world_send_close(p->world, p->key, p->world_rank[i], true, p->counts->of[i].sent);
        else
            answer(p, i);
    }
}

bool weir__mpi_closed(const struct weir__procs_group *p, int rank)
{
    if (!p->counts)
        return false;
    return rank < 0 ? p->counts->nclosing > 0 : has_all(&p->counts->of[rank]);
}

bool weir__mpi_may_come(const struct weir__procs_group *p, int rank)
{
    const struct weir__mpi_count *c = p->counts ? &p->counts->of[rank] : NULL;

    return c && c->closes && c->received < c->announced;
}

/* True if every other rank has received what this rank sent, or does not need it any more. */
static bool is_over(struct weir__procs_group *p)
{
    if (atomic_load(&p->group->broken) || !weir__world_is_linked(p->world))
        return true;
    for (int i = 0; i < p->ranks; i++) {
        const struct weir__mpi_count *c = &p->counts->of[i];

        if (i != p->self && c->sent && !c->has && !c->closes &&
            !atomic_load(&p->world->peers[p->world_rank[i]].gone))
            return false;
    }
    return true;
}

void weir__mpi_keep_going(const struct weir__procs_group *p)
{
    const struct weir__mpi_api *api = p->world->mpi->api;
    int flag;

    api->iprobe((p->self + 1) % p->ranks, WEIR__MPI_NO_TAG, p->comm, &flag, NULL);
}

void weir__mpi_quit(struct weir__procs_group *p)
{
    struct weir__world *w = p->world;
    uint64_t until = weir__clock_ns() + QUIT_NS;
    _Atomic uint32_t nobody = 0;
    bool over = false;

    if (!p->counts || !p->comm || atomic_load(&p->group->broken))
        return;
    weir__mutex_lock(&w->lock);
    p->counts->closes = true;
    for (int i = 0; i < p->ranks; i++)
        if (i != p->self)
            weir__world_send_close(w, p->key, p->world_rank[i], true, p->counts->of[i].sent);
    weir__mutex_unlock(&w->lock);
    while (weir__clock_ns() < until) {
        weir__mutex_lock(&w->lock);
        if (!(over = is_over(p)))
            weir__mpi_keep_going(p);
        weir__mutex_unlock(&w->lock);
        if (over)
            return;
        weir__futex_wait(&nobody, 0, PAUSE_NS);
    }
}
