/* Allocating and freeing: the common case, in which one stream reuses its own blocks. */
#include "memory/pool_recent.h"

enum {
    PENDING_PER_HURRY = 8, /* hurrying for every block would break up the device's batches */
};
#define SCATTERED ((size_t)128 << 20) /* a pool of fewer bytes grows before it collects */

/* ---- lists ---- */

static size_t *state_bytes(struct weir__pool *pool, uint8_t state)
{
    return state == WEIR__PENDING ? &pool->stats.pending : &pool->stats.idle;
}

static struct weir__tlsf *idle_lists(struct weir__pool *pool, uint32_t owner)
{
    return owner == WEIR__POOL_SHARED ? &pool->shared : &pool->arenas[owner]->idle;
}

static struct weir__watch *watch_of(struct weir__pool *pool, const weir_buffer *block)
{
    struct weir__arena *arena = pool->arenas[block->owner];
    uint32_t slot = block->others[block->watched].slot;
    struct weir__watch *w = arena->watches;

    while (w->slot != slot) /* weir__pool_fence_slow has added the entry */
        w++;
    return w;
}

void weir__pool_unlink(struct weir__pool *pool, weir_buffer *block)
{
    *state_bytes(pool, block->state) -= block->size;
    if (block->state == WEIR__IDLE) {
        weir__tlsf_remove(idle_lists(pool, block->owner), block);
        return;
    }

    struct weir__watch *w = watch_of(pool, block);

    *(block->list_prev ? &block->list_prev->list_next : &w->first) = block->list_next;
    *(block->list_next ? &block->list_next->list_prev : &w->last) = block->list_prev;
}

static void link_pending(struct weir__pool *pool, weir_buffer *block)
{
    struct weir__watch *w = watch_of(pool, block);
    uint64_t seq = block->others[block->watched].seq;
    weir_buffer *at = w->last;

    /* Numbers mostly increase, so the right position is near the end. */
    while (at && at->others[at->watched].seq > seq)
        at = at->list_prev;
    block->list_prev = at;
    block->list_next = at ? at->list_next : w->first;
    *(block->list_prev ? &block->list_prev->list_next : &w->first) = block;
    *(block->list_next ? &block->list_next->list_prev : &w->last) = block;
}

/* Joins `right` to `block`, its left neighbour. Both must be in no list. `right` must have no open
 * fences but those of the same owner. */
void weir__pool_absorb(struct weir__pool *pool, weir_buffer *block, weir_buffer *right)
{
    block->size += right->size;
    block->after = right->after;
    if (right->after)
        right->after->before = block;
    if (right->own_seq > block->own_seq)
        block->own_seq = right->own_seq;
    pool->stats.blocks--;
    weir__pool_retire(pool, right);
}

/* True if the neighbour is idle and belongs to the same stream or is shared. */
static bool joins(const weir_buffer *neighbour, uint32_t owner)
{
    return neighbour && neighbour->state == WEIR__IDLE &&
           (neighbour->owner == owner || neighbour->owner == WEIR__POOL_SHARED);
}

weir_buffer *weir__pool_link_idle(struct weir__pool *pool, weir_buffer *block)
{
    if (joins(block->after, block->owner)) {
        weir__pool_unlink(pool, block->after);
        weir__pool_absorb(pool, block, block->after);
    }
    if (joins(block->before, block->owner)) {
        weir_buffer *left = block->before;

        weir__pool_unlink(pool, left);
        left->owner = block->owner;
        weir__pool_absorb(pool, left, block);
        block = left;
    }
    block->state = WEIR__IDLE;
    weir__tlsf_add(idle_lists(pool, block->owner), block);
    pool->stats.idle += block->size;
    return block;
}

bool weir__pool_over(const struct weir__pool *pool, uint32_t slot, uint64_t seq)
{
    if (pool->synced[slot] >= seq)
        return true;
    return !pool->deterministic && pool->host.done(pool->host.user, slot) >= seq;
}

/* Drops the fences that the owner is ordered after or that have completed. False if another fence
 * is left: the block is now pending and watches it. */
static bool prove_fences(struct weir__pool *pool, weir_buffer *block)
{
    const struct weir__clock *clock = pool->host.clock(pool->host.user, block->owner);

    for (; block->nothers && !pool->unsafe; block->nothers--) {
        struct weir__use *use = &block->others[block->nothers - 1];

        if (weir__clock_get(clock, use->slot) < use->seq &&
            !weir__pool_over(pool, use->slot, use->seq)) {
            block->watched = block->nothers - 1;
            block->state = WEIR__PENDING;
            pool->stats.pending += block->size;
            link_pending(pool, block);
            if (++pool->arenas[block->owner]->waiting % PENDING_PER_HURRY == 0 && pool->host.hurry)
                pool->host.hurry(pool->host.user);
            return false;
        }
        /* A stream that is ordered after the owner's last use need not be ordered after this use of
         * another stream. So count the block as used by the owner up to now, including the wait
         * that has proved this use completed. */
        block->own_seq = weir__clock_get(clock, block->owner);
    }
    block->nothers = 0;
    return true;
}

/* Puts a freed block into its list: idle if every fence is proven for its owner, else pending on
 * a fence that is not. */
void weir__pool_list_block(struct weir__pool *pool, weir_buffer *block)
{
    if (block->nothers && !prove_fences(pool, block))
        return;
    if (pool->poison) {
        uint64_t seq =
            pool->host.poison(pool->host.user, block->owner, block->address, block->size);

        if (seq)
            block->own_seq = seq;
    }
    weir__pool_link_idle(pool, block);
}

/* Lists again the pending blocks of `slot` whose watched fence is proven by now. */
void weir__pool_promote(struct weir__pool *pool, uint32_t slot)
{
    struct weir__arena *arena = pool->arenas[slot];

    for (unsigned i = 0; i < arena->nwatches; i++) {
        struct weir__watch *w = &arena->watches[i];

        if (!w->first)
            continue;

        const struct weir__clock *clock = pool->host.clock(pool->host.user, slot);
        uint64_t proven = weir__clock_get(clock, w->slot);

        while (w->first) {
            weir_buffer *b = w->first;
            uint64_t seq = b->others[b->watched].seq;

            if (seq > proven && !weir__pool_over(pool, w->slot, seq))
                break;
            weir__pool_unlink(pool, b);
            weir__pool_list_block(pool, b);
        }
    }
}

/* ---- the two calls ---- */

/* Cuts a block that is in no list to size and marks it as allocated. If no record can be allocated
 * for the remainder, the remainder stays part of the block. */
static weir_buffer *hand_out(struct weir__pool *pool, uint32_t slot, weir_buffer *block,
                             size_t size, size_t asked)
{
    if (block->size > size) {
        weir_buffer *rest = weir__pool_new_record(pool);

        if (rest) {
            rest->address = block->address + size;
            rest->size = block->size - size;
            rest->segment = block->segment;
            rest->owner = block->owner;
            rest->own_seq = block->own_seq;
            rest->before = block;
            rest->after = block->after;
            if (block->after)
                block->after->before = rest;
            block->after = rest;
            block->size = size;
            rest->state = WEIR__IDLE;
            pool->stats.blocks++;
            pool->stats.idle += rest->size;
            weir__tlsf_add(idle_lists(pool, rest->owner), rest);
        }
    }
    /* The block comes from another owner, by order. The next stream that takes it must be ordered
     * after the point at which that order was proven, even if this stream never uses the block. */
    if (block->owner != slot) {
        block->own_seq = block->owner == WEIR__POOL_SHARED
                             ? 0
                             : weir__clock_get(pool->host.clock(pool->host.user, slot), slot);
        block->owner = slot;
    }
    block->nothers = 0;
    block->after_seq = 0;
    block->state = WEIR__USED;
    block->asked = asked;
    pool->stats.allocated += block->size;
    if (pool->stats.allocated > pool->stats.peak_allocated)
        pool->stats.peak_allocated = pool->stats.allocated;
    pool->stats.allocations++;
    return block;
}

/* Returns the size of a new segment; 0 if there is no room for `size`. Segments grow with the pool,
 * so that there are few. But a segment is not larger than all segments of the stream so far: the
 * rest of a segment belongs to the stream, and many streams would soon use up all memory. */
static size_t segment_size(const struct weir__pool *pool, const struct weir__arena *arena,
                           size_t size)
{
    const size_t unit = (size_t)2 << 20, least = (size_t)32 << 20;
    size_t want = weir__min(pool->stats.reserved / 4, arena->grown), room;

    if (pool->stats.reserved > pool->stats.limit)
        return 0;
    room = (pool->stats.limit - pool->stats.reserved) / WEIR__POOL_GRAIN * WEIR__POOL_GRAIN;
    if (size > room)
        return 0;
    want = want < least ? least : want;
    want = want < size ? size : want;
    return want > room - room % unit ? room : (want + unit - 1) / unit * unit;
}

static weir_buffer *grow(struct weir__pool *pool, struct weir__arena *arena, size_t size)
{
    size_t want = segment_size(pool, arena, size);
    struct weir__segment *segment;
    weir_buffer *block;

    if (!want || !(block = weir__pool_new_record(pool)))
        return NULL;
    if (!(segment = weir__calloc(1, sizeof *segment)))
        goto retire;
    segment->base = pool->host.map(pool->host.user, want);
    if (!segment->base && want > size) {
        want = size;
        segment->base = pool->host.map(pool->host.user, want);
    }
    if (!segment->base)
        goto free_segment;
    if (pool->host.grown)
        pool->host.grown(pool->host.user, segment->base, want, size);
    segment->size = want;
    segment->first = block;
    segment->next = pool->segments;
    if (pool->segments)
        pool->segments->prev = segment;
    pool->segments = segment;
    block->segment = segment;
    block->address = segment->base;
    block->size = want;
    block->owner = WEIR__POOL_SHARED;
    pool->stats.segments++;
    pool->stats.blocks++;
    pool->stats.reserved += want;
    arena->grown += want;
    if (pool->stats.reserved > pool->stats.peak_reserved)
        pool->stats.peak_reserved = pool->stats.reserved;
    return block;

free_segment:
    weir__free(segment);
retire:
    weir__pool_retire(pool, block);
    return NULL;
}

static weir_buffer *take(struct weir__pool *pool, struct weir__tlsf *lists, size_t size)
{
    weir_buffer *b = weir__tlsf_find(lists, size);

    if (b) {
        weir__tlsf_remove(lists, b);
        pool->stats.idle -= b->size;
    }
    return b;
}

static weir_status out_of_memory(struct weir__pool *pool, uint32_t slot, size_t size)
{
    struct weir__text text = {0};
    weir_status st;

    pool->stats.failed++;
    weir__pool_summary(pool, &text);
    st = weir__fail(WEIR_EOOM,
                    "out of device memory: stream '%s' asked for %s; free some tensors, call "
                    "weir_memory_empty_cache, or raise the limit (memory=...)\n%s",
                    pool->host.stream_name(pool->host.user, slot), weir__size(size).text,
                    text.data ? text.data : "");
    weir__text_free(&text);
    return st;
}

static weir_buffer *take_collected(struct weir__pool *pool, size_t size)
{
    weir_buffer *b;

    weir__pool_collect(pool);
    if ((b = take(pool, &pool->shared, size)))
        pool->stats.reuse_stolen++;
    return b;
}

/* True if most memory is idle, but in pieces of streams that do not request it: many streams have a
 * few of every size. Collecting them reads all blocks, so the pool first grows to some size. */
static bool is_scattered(const struct weir__pool *pool)
{
    return pool->stats.reserved >= SCATTERED && pool->stats.idle > pool->stats.reserved / 2;
}

/* Tries the slower sources of memory, cheapest first (docs/ARCHITECTURE.md, Memory). */
static weir_status alloc_slow(struct weir__pool *pool, uint32_t slot, size_t size,
                              weir_buffer **out)
{
    struct weir__arena *arena = pool->arenas[slot];
    weir_status st;

    weir__pool_list_kept(pool);
    weir__pool_promote(pool, slot);
    if ((*out = take(pool, &arena->idle, size))) {
        pool->stats.reuse_order++;
        return WEIR_OK;
    }
    if ((*out = weir__pool_take_proven(pool, slot, size)))
        return WEIR_OK;
    if ((*out = take(pool, &pool->shared, size))) {
        pool->stats.reuse_completed++;
        return WEIR_OK;
    }
    if (is_scattered(pool) && (*out = take_collected(pool, size)))
        return WEIR_OK;
    if ((*out = grow(pool, arena, size))) {
        pool->stats.grown++;
        return WEIR_OK;
    }
    if ((*out = take_collected(pool, size)))
        return WEIR_OK;
    if ((*out = weir__pool_take_ordered(pool, slot, size)))
        return WEIR_OK;
    pool->stats.host_syncs++;
    if ((st = pool->host.wait_all(pool->host.user)))
        return st;
    weir__pool_collect(pool);
    if ((*out = take(pool, &pool->shared, size)))
        return WEIR_OK;
    /* There may be enough free memory, but fragmented over segments: free those and grow. */
    if (pool->stats.reserved - weir__pool_trimmable(pool) + size <= pool->stats.limit)
        weir__pool_trim(pool);
    if ((*out = grow(pool, arena, size))) {
        pool->stats.grown++;
        return WEIR_OK;
    }
    return WEIR_EOOM;
}

/* Allocates when there is no recent block of the exact size. A separate function, so that the
 * common path needs no stack frame. */
static __attribute__((noinline)) weir_status alloc_listed(struct weir__pool *pool, uint32_t slot,
                                                          size_t asked, weir_buffer **out)
{
    size_t size = (asked + WEIR__POOL_GRAIN - 1) / WEIR__POOL_GRAIN * WEIR__POOL_GRAIN;
    weir_buffer *block;
    weir_status st;

    *out = NULL;
    if (size < asked || size > PTRDIFF_MAX ||
        (size > pool->stats.limit && size > pool->stats.reserved))
        return out_of_memory(pool, slot, asked);
    if (!size)
        size = WEIR__POOL_GRAIN;
    if (weir__likely((block = take(pool, &pool->arenas[slot]->idle, size))))
        pool->stats.reuse_order++;
    else if ((st = alloc_slow(pool, slot, size, &block)))
        return st == WEIR_EOOM ? out_of_memory(pool, slot, asked) : st;
    *out = hand_out(pool, slot, block, size, asked);
    if (weir__trace_on())
        pool->host.traced(pool->host.user);
    return WEIR_OK;
}

/* The fast path: a recent block belongs to the stream, has no fences and has the exact size. */
weir_status weir__pool_alloc(struct weir__pool *pool, uint32_t slot, size_t asked,
                             weir_buffer **out)
{
    weir_buffer *b = weir__recent_pop(pool, slot, asked);

    pool->collected = false;
    if (!b)
        return alloc_listed(pool, slot, asked, out);
    pool->stats.idle -= b->size;
    pool->stats.allocated += b->size;
    if (pool->stats.allocated > pool->stats.peak_allocated)
        pool->stats.peak_allocated = pool->stats.allocated;
    pool->stats.allocations++;
    pool->stats.reuse_order++;
    *out = b;
    if (weir__trace_on())
        pool->host.traced(pool->host.user);
    return WEIR_OK;
}

weir_status weir__pool_wrap(struct weir__pool *pool, uint32_t slot, void *address, size_t size,
                            void (*release)(void *user), void *user, weir_buffer **out)
{
    weir_buffer *b = weir__pool_new_record(pool);

    *out = b;
    if (!b)
        return weir__fail_nomem("wrapping memory");
    b->address = address;
    b->size = b->asked = size;
    b->owner = slot;
    b->state = WEIR__EXTERNAL;
    b->release = release;
    b->release_user = user;
    return WEIR_OK;
}

static inline bool keep_recent(struct weir__pool *pool, weir_buffer *block)
{
    if (!weir__recent_push(pool, block))
        return false;
    pool->stats.idle += block->size;
    return true;
}

static __attribute__((noinline)) void free_slow(struct weir__pool *pool, weir_buffer *block)
{
    if (block->state == WEIR__EXTERNAL) {
        block->list_next = atomic_load_explicit(&pool->deferred, memory_order_relaxed);
        atomic_store_explicit(&pool->deferred, block, memory_order_relaxed);
        return;
    }
    if (weir__unlikely(block->race != NULL))
        weir__race_forget(&block->race, block);
    pool->stats.allocated -= block->size;
    pool->stats.frees++;
    pool->collected = false;
    if (weir__trace_on())
        pool->host.traced(pool->host.user);
    if (block->nothers && !prove_fences(pool, block))
        return;
    if (!keep_recent(pool, block))
        weir__pool_list_block(pool, block);
}

void weir__pool_free(struct weir__pool *pool, weir_buffer *block)
{
    size_t size = block->size;

    if (block->state != WEIR__USED || block->race || block->nothers || weir__trace_on() ||
        !keep_recent(pool, block)) {
        free_slow(pool, block);
        return;
    }
    pool->stats.allocated -= size;
    pool->stats.frees++;
    pool->collected = false;
}
