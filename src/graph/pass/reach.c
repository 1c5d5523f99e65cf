/* Which nodes complete before which others start: a vector clock for each node. */
#include "graph/pass/compile.h"

#include <string.h>

static void set_clock(struct weir__reach *r, const struct weir__compile *c, int v)
{
    size_t n = (size_t)r->nstreams;
    int *clock = r->clock + (size_t)v * n;
    int stream = c->stream[v], position = c->position[v];

    if (position) {
        int before = weir__node_at(c, stream, position - 1);

        memcpy(clock, r->clock + (size_t)before * n, n * sizeof *clock);
        clock[stream] = position;
    }
    for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++) {
        const struct weir__sync *sync = &c->syncs[i];
        int other = weir__node_at(c, sync->stream, sync->position);

        weir__reach_max(clock, r->clock + (size_t)other * n, r->nstreams);
        if (clock[sync->stream] <= sync->position)
            clock[sync->stream] = sync->position + 1;
    }
}

weir_status weir__reach_init(struct weir__reach *r, const struct weir__compile *c)
{
    size_t nnodes = (size_t)c->g->nnodes;

    r->nstreams = c->nstreams;
    r->clock = weir__calloc(nnodes, (size_t)r->nstreams * sizeof *r->clock);
    if (!r->clock)
        return weir__fail_nomem("allocating order of %zu nodes on %d streams", nnodes, r->nstreams);
    /* Program order is topological: all nodes that v waits for already have clocks. */
    for (int v = 0; v < c->g->nnodes; v++)
        if (c->live[v])
            set_clock(r, c, v);
    return WEIR_OK;
}

void weir__reach_fini(struct weir__reach *r)
{
    weir__free(r->clock);
    r->clock = NULL;
}
