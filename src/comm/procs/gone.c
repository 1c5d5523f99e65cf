/* Which ranks are gone, according to the link and the engine. */
#include <stdio.h>

#include "comm/procs/engine.h"

/* True if the member will make no more calls and none of its messages are in flight. */
static bool is_gone(const struct weir__procs_group *p, int rank)
{
    const struct weir__engine *engine = p->world->engine;
    int gone = atomic_load(&p->world->peers[p->world_rank[rank]].gone);

    if (gone == WEIR__GONE_LEFT && engine->may_come && engine->may_come(p, rank))
        return false;
    return gone || (engine->closed && engine->closed(p, rank));
}

bool weir__procs_find_gone(const struct weir__procs_group *p, const struct weir__ranks *members,
                           struct weir__ranks *gone)
{
    const struct weir__engine *engine = p->world->engine;
    bool any = false;

    if (!atomic_load(&p->world->lost) && !(engine->closed && engine->closed(p, -1)))
        return false;
    *gone = (struct weir__ranks){{0}};
    WEIR__EACH_RANK(rank, members)
    if (rank != p->self && is_gone(p, rank)) {
        weir__ranks_add(gone, rank);
        any = true;
    }
    return any;
}

void weir__procs_say_gone(const struct weir__procs_group *p, int rank, char *text, size_t size)
{
    const struct weir__peer *peer = &p->world->peers[p->world_rank[rank]];

    if (!atomic_load(&peer->gone))
        snprintf(text, size, "rank %d has left", rank);
    else if (p->world_rank[rank] == rank)
        snprintf(text, size, "%s", peer->text);
    else
        snprintf(text, size, "rank %d of the group: %s", rank, peer->text);
}
