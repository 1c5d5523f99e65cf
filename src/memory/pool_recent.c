/* Recent blocks under the lock of their stream (rules: device/device.h). Nothing here writes what
 * two streams share, so statistics are kept for each stream until the device lock is taken. */
#include "memory/pool_recent.h"

weir_buffer *weir__pool_take_recent(struct weir__pool *pool, uint32_t slot, size_t asked)
{
    struct weir__recent_stats *stats = &pool->arenas[slot]->recent.stats;
    weir_buffer *b = weir__recent_pop(pool, slot, asked);

    if (!b)
        return NULL;
    stats->allocations++;
    stats->allocated += (int64_t)b->size;
    if (stats->allocated > stats->peak)
        stats->peak = stats->allocated;
    return b;
}

bool weir__pool_give_recent(struct weir__pool *pool, weir_buffer *block)
{
    struct weir__recent_stats *stats = &pool->arenas[block->owner]->recent.stats;

    if (block->state != WEIR__USED || block->race || block->nothers ||
        !weir__recent_push(pool, block))
        return false;
    stats->frees++;
    stats->allocated -= (int64_t)block->size;
    return true;
}

void weir__pool_add_recent_stats(struct weir__pool *pool)
{
    int64_t allocated = 0, peak = (int64_t)pool->stats.allocated;

    for (unsigned i = 0; i < pool->narenas; i++) {
        struct weir__recent_stats *stats = pool->arenas[i] ? &pool->arenas[i]->recent.stats : NULL;

        if (!stats || !(stats->allocations | stats->frees))
            continue;
        pool->collected = false;
        pool->stats.allocations += stats->allocations;
        pool->stats.reuse_order += stats->allocations;
        pool->stats.frees += stats->frees;
        allocated += stats->allocated;
        peak += stats->peak;
        *stats = (struct weir__recent_stats){0};
    }
    pool->stats.allocated = (size_t)((int64_t)pool->stats.allocated + allocated);
    pool->stats.idle = (size_t)((int64_t)pool->stats.idle - allocated);
    if ((size_t)peak > pool->stats.peak_allocated)
        pool->stats.peak_allocated = (size_t)peak;
}
