/* The pool's tables, which have an entry for each stream. */
#include "memory/pool.h"

#include <string.h>

weir_status weir__pool_init(struct weir__pool *pool, const struct weir__pool_host *host,
                            size_t limit)
{
    *pool = (struct weir__pool){.host = *host};
    pool->stats.limit = limit;
    return WEIR_OK;
}

void weir__pool_fini(struct weir__pool *pool)
{
    pool->poison = false;        /* no device runs commands any more */
    pool->deterministic = false; /* all commands have completed, also without a host sync */
    weir__pool_collect(pool);
    weir__pool_trim(pool);
    for (unsigned i = 0; i < pool->narenas; i++)
        if (pool->arenas[i]) {
            weir__free(pool->arenas[i]->watches);
            weir__free(pool->arenas[i]);
        }
    weir__free(pool->arenas);
    weir__free(pool->synced);
    for (size_t i = 0; i < pool->nslabs; i++)
        weir__free(pool->slabs[i]);
    weir__free(pool->slabs);
    *pool = (struct weir__pool){0};
}

static weir_status grow_tables(struct weir__pool *pool, unsigned n)
{
    struct weir__arena **arenas = weir__calloc(n, sizeof *arenas);
    uint64_t *synced = weir__calloc(n, sizeof *synced);

    if (!arenas || !synced) {
        weir__free(arenas);
        weir__free(synced);
        return weir__fail_nomem("allocating the pool's tables for %u streams", n);
    }
    if (pool->narenas) {
        memcpy(arenas, pool->arenas, pool->narenas * sizeof *arenas);
        memcpy(synced, pool->synced, pool->narenas * sizeof *synced);
    }
    weir__free(pool->arenas);
    weir__free(pool->synced);
    pool->arenas = arenas;
    pool->synced = synced;
    pool->narenas = n;
    return WEIR_OK;
}

weir_status weir__pool_add_slot(struct weir__pool *pool, uint32_t slot)
{
    weir_status st;

    if (slot >= pool->narenas && (st = grow_tables(pool, slot < 8 ? 8 : 2 * (slot + 1))))
        return st;
    if (!pool->arenas[slot] && !(pool->arenas[slot] = weir__calloc(1, sizeof **pool->arenas)))
        return weir__fail_nomem("allocating the free lists of a stream");
    return WEIR_OK;
}
