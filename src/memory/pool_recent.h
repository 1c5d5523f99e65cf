/* Recent blocks: small freed blocks that their stream takes again by their exact size (pool.h). */
#ifndef WEIR_MEMORY_POOL_RECENT_H
#define WEIR_MEMORY_POOL_RECENT_H

#include "memory/pool.h"

/* Takes the stream's last freed block of this size; NULL if there is none. */
static inline weir_buffer *weir__recent_pop(struct weir__pool *pool, uint32_t slot, size_t asked)
{
    struct weir__recent *recent = &pool->arenas[slot]->recent;
    size_t i = (asked - 1) / WEIR__POOL_GRAIN; /* out of range if asked is 0 */
    weir_buffer *b = i < WEIR__RECENT_SIZES ? recent->first[i] : NULL;

    if (!b)
        return NULL;
    recent->first[i] = b->list_next;
    recent->count[i]--;
    recent->total--;
    b->after_seq = 0;
    b->state = WEIR__USED;
    b->asked = asked;
    return b;
}

/* Makes the freed block, which has no open fences, recent. False if it is too large, or there are
 * enough recent blocks of its size. */
static inline bool weir__recent_push(struct weir__pool *pool, weir_buffer *block)
{
    struct weir__recent *recent = &pool->arenas[block->owner]->recent;
    size_t i = block->size / WEIR__POOL_GRAIN - 1;

    if (i >= WEIR__RECENT_SIZES || pool->poison || recent->count[i] == WEIR__RECENT_BLOCKS)
        return false;
    block->state = WEIR__RECENT;
    block->list_next = recent->first[i];
    recent->first[i] = block;
    recent->count[i]++;
    recent->total++;
    return true;
}

#endif
