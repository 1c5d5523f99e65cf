/* Ranks that die while a call of engine `mpi` waits for them. */
#include <stdio.h>

#include "comm/procs/mpi/mpi.h"

/* Returns a member that has died, according to the link or the process states of this host; -1 if
 * none is known. */
static int find_dead(const struct weir__procs_group *p, const struct weir__rendezvous *m)
{
    WEIR__EACH_RANK(rank, &m->channel->members)
    {
        const struct weir__peer *peer = &p->world->peers[p->world_rank[rank]];
        int gone = atomic_load(&peer->gone);

        if (rank == p->self || gone == WEIR__GONE_LEFT)
            continue;
        if (gone || (peer->host == weir__host_id() && weir__process_state(peer->pid) == 'Z'))
            return rank;
    }
    return -1;
}

/* After an error of MPI, waits for the link to report which rank died, because that report breaks
 * the group by itself. If no report comes in time, looks for a dead process, or uses MPI's text. */
enum weir__step weir__mpi_stay_or_break(struct weir__procs_group *p, struct weir__rendezvous *m,
                                        struct weir__participant **woken)
{
    const struct weir__visit *v = m->more;
    char text[40];
    int dead;

    if (!v->mpi->failed_ns || weir__clock_ns() - v->mpi->failed_ns < WEIR__MPI_PATIENCE_NS)
        return WEIR__STEP_WAITS;
    dead = find_dead(p, m);
    snprintf(text, sizeof text, "rank %d died", dead);
    weir__procs_break_over(p, m, WEIR_EUNAVAILABLE, dead < 0 ? v->mpi->error : text, woken);
    return WEIR__STEP_BROKE;
}
