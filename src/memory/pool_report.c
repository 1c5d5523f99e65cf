/* Statistics and listings of the pool. */
#include "base/sized.h"
#include "memory/pool.h"

#include <stdio.h>

void weir__pool_get_stats(const struct weir__pool *pool, weir_memory_stats *out)
{
    *out = pool->stats;
}

static weir_block_state public_state(const weir_buffer *b)
{
    return b->state == WEIR__USED      ? WEIR_BLOCK_ALLOCATED
           : b->state == WEIR__PENDING ? WEIR_BLOCK_PENDING
                                       : WEIR_BLOCK_IDLE;
}

size_t weir__pool_get_blocks(const struct weir__pool *pool, weir_block_info *out, size_t size,
                             size_t max)
{
    size_t n = 0;

    for (const struct weir__segment *s = pool->segments; s; s = s->next)
        for (const weir_buffer *b = s->first; b; b = b->after, n++)
            if (out && n < max) {
                weir_block_info row = {
                    .segment = (uintptr_t)s->base,
                    .segment_size = s->size,
                    .address = (uintptr_t)b->address,
                    .size = b->size,
                    .state = public_state(b),
                    .stream_id = b->owner == WEIR__POOL_SHARED
                                     ? 0
                                     : pool->host.stream_id(pool->host.user, b->owner),
                };

                weir__sized_give((char *)out + n * size, size, &row, sizeof row);
            }
    return n;
}

/* Returns the bytes of one owner by state. */
static weir_memory_stream_stats owner_stats(const struct weir__pool *pool, uint32_t owner)
{
    weir_memory_stream_stats out = {0};

    for (const struct weir__segment *s = pool->segments; s; s = s->next)
        for (const weir_buffer *b = s->first; b; b = b->after)
            if (b->owner == owner)
                *(b->state == WEIR__USED      ? &out.allocated
                  : b->state == WEIR__PENDING ? &out.pending
                                              : &out.idle) += b->size;
    return out;
}

size_t weir__pool_get_streams(const struct weir__pool *pool, weir_memory_stream_stats *out,
                              size_t size, size_t max)
{
    size_t n = 0;

    for (uint32_t slot = 0; slot < pool->narenas; slot++) {
        if (!pool->arenas[slot])
            continue;
        if (out && n < max) {
            weir_memory_stream_stats stats = owner_stats(pool, slot);

            stats.stream_id = pool->host.stream_id(pool->host.user, slot);
            snprintf(stats.stream_name, sizeof stats.stream_name, "%s",
                     pool->host.stream_name(pool->host.user, slot));
            weir__sized_give((char *)out + n * size, size, &stats, sizeof stats);
        }
        n++;
    }
    return n;
}

static void row(struct weir__text *text, const char *name, const weir_memory_stream_stats *s)
{
    weir__text_add(text, "  %-24.24s %12s %12s %12s\n", name, weir__size(s->allocated).text,
                   weir__size(s->pending).text, weir__size(s->idle).text);
}

void weir__pool_summary(const struct weir__pool *pool, struct weir__text *text)
{
    const weir_memory_stats *s = &pool->stats;
    weir_memory_stream_stats shared = owner_stats(pool, WEIR__POOL_SHARED);

    weir__text_add(
        text, "  reserved %s of %s in %zu segment(s): allocated %s, pending %s, idle %s\n",
        weir__size(s->reserved).text, weir__size(s->limit).text, s->segments,
        weir__size(s->allocated).text, weir__size(s->pending).text, weir__size(s->idle).text);
    weir__text_add(text, "  %-24s %12s %12s %12s\n", "stream", "allocated", "pending", "idle");
    for (uint32_t slot = 0; slot < pool->narenas; slot++) {
        if (!pool->arenas[slot])
            continue;

        weir_memory_stream_stats one = owner_stats(pool, slot);

        if (one.allocated || one.pending || one.idle)
            row(text, pool->host.stream_name(pool->host.user, slot), &one);
    }
    row(text, "(free for all)", &shared);
    weir__text_add(text,
                   "  %llu allocations: %llu by stream order, %llu by completed work, %llu grown, "
                   "%llu from other streams, %llu device waits, %llu host syncs, %llu failed\n",
                   (unsigned long long)s->allocations, (unsigned long long)s->reuse_order,
                   (unsigned long long)s->reuse_completed, (unsigned long long)s->grown,
                   (unsigned long long)s->reuse_stolen, (unsigned long long)s->device_waits,
                   (unsigned long long)s->host_syncs, (unsigned long long)s->failed);
}
