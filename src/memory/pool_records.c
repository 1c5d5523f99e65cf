/* Block records. They are allocated in slabs, reused, and freed with the pool. */
#include "memory/pool.h"

#include <string.h>

enum { SLAB_RECORDS = 128 };

static bool grow_spares(struct weir__pool *pool)
{
    weir_buffer *slab;

    if (pool->nslabs == pool->cap_slabs) {
        size_t cap = pool->cap_slabs ? 2 * pool->cap_slabs : 8;
        void **slabs = weir__calloc(cap, sizeof *slabs);

        if (!slabs)
            return false;
        if (pool->nslabs)
            memcpy(slabs, pool->slabs, pool->nslabs * sizeof *slabs);
        weir__free(pool->slabs);
        pool->slabs = slabs;
        pool->cap_slabs = cap;
    }
    if (!(slab = weir__alloc_aligned(SLAB_RECORDS * sizeof *slab, WEIR__LINE)))
        return false;
    pool->slabs[pool->nslabs++] = slab;
    for (int i = SLAB_RECORDS - 1; i >= 0; i--) {
        slab[i].list_next = pool->spares;
        pool->spares = &slab[i];
    }
    return true;
}

weir_buffer *weir__pool_new_record(struct weir__pool *pool)
{
    weir_buffer *b;

    if (!pool->spares && !grow_spares(pool))
        return NULL;
    b = pool->spares;
    pool->spares = b->list_next;
    *b = (weir_buffer){.pool = pool, .cap_others = weir__countof(b->inline_others)};
    b->others = b->inline_others;
    return b;
}

void weir__pool_retire(struct weir__pool *pool, weir_buffer *block)
{
    if (block->others != block->inline_others)
        weir__free(block->others);
    block->list_next = pool->spares;
    pool->spares = block;
}
