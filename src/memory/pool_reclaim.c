/* Fences, and the ways to get memory when the stream's own idle blocks do not suffice. */
#include "memory/pool.h"

#include <string.h>

/* ---- fences ---- */

static bool ensure_watch(struct weir__arena *arena, uint32_t slot)
{
    for (unsigned i = 0; i < arena->nwatches; i++)
        if (arena->watches[i].slot == slot)
            return true;
    if (arena->nwatches == arena->cap_watches) {
        unsigned cap = arena->cap_watches ? 2 * arena->cap_watches : 4;
        struct weir__watch *watches = weir__calloc(cap, sizeof *watches);

        if (!watches)
            return false;
        if (arena->nwatches)
            memcpy(watches, arena->watches, arena->nwatches * sizeof *watches);
        weir__free(arena->watches);
        arena->watches = watches;
        arena->cap_watches = cap;
    }
    arena->watches[arena->nwatches++] = (struct weir__watch){.slot = slot};
    return true;
}

/* Allocates everything that freeing the block may need later, so that freeing cannot fail. */
uint64_t *weir__pool_fence_slow(weir_buffer *block, uint32_t slot)
{
    for (unsigned i = 0; i < block->nothers; i++)
        if (block->others[i].slot == slot)
            return &block->others[i].seq;
    if (!ensure_watch(block->pool->arenas[block->owner], slot))
        return NULL;
    if (block->nothers == block->cap_others) {
        uint32_t cap = 2 * block->cap_others;
        struct weir__use *others = weir__calloc(cap, sizeof *others);

        if (!others)
            return NULL;
        memcpy(others, block->others, block->nothers * sizeof *others);
        if (block->others != block->inline_others)
            weir__free(block->others);
        block->others = others;
        block->cap_others = cap;
    }
    block->others[block->nothers] = (struct weir__use){.slot = slot};
    return &block->others[block->nothers++].seq;
}

bool weir__pool_has_fence(const weir_buffer *block, uint32_t slot)
{
    if (block->owner == slot)
        return true;
    for (unsigned i = 0; i < block->nothers; i++)
        if (block->others[i].slot == slot)
            return true;
    return false;
}

void weir__pool_synced(struct weir__pool *pool, uint32_t slot, uint64_t seq)
{
    if (pool->synced[slot] < seq)
        pool->synced[slot] = seq;
}

/* True if every use of the block has completed. */
static bool all_over(const struct weir__pool *pool, const weir_buffer *b)
{
    if (b->owner != WEIR__POOL_SHARED && !weir__pool_over(pool, b->owner, b->own_seq))
        return false;
    for (unsigned i = 0; i < b->nothers; i++)
        if (!weir__pool_over(pool, b->others[i].slot, b->others[i].seq))
            return false;
    return true;
}

/* ---- blocks of other streams ---- */

weir_buffer *weir__pool_take_proven(struct weir__pool *pool, uint32_t slot, size_t size)
{
    const struct weir__clock *clock = pool->host.clock(pool->host.user, slot);

    for (uint32_t u = 0; u < pool->narenas; u++) {
        weir_buffer *b;

        if (u == slot || !pool->arenas[u])
            continue;
        if (!(b = weir__tlsf_find(&pool->arenas[u]->idle, size)))
            continue;
        /* Check only the first block of the list, which was freed last. */
        if (weir__clock_get(clock, u) >= b->own_seq)
            pool->stats.reuse_order++;
        else if (weir__pool_over(pool, u, b->own_seq))
            pool->stats.reuse_completed++;
        else
            continue;
        weir__pool_unlink(pool, b);
        return b;
    }
    return NULL;
}

static void settle(struct weir__pool *pool, struct weir__recent *recent)
{
    for (unsigned i = 0; i < WEIR__RECENT_SIZES && recent->total; i++) {
        weir_buffer *oldest_first = NULL;

        recent->total -= recent->count[i];
        recent->count[i] = 0;
        for (weir_buffer *b = recent->first[i], *next; b; b = next) {
            next = b->list_next;
            b->list_next = oldest_first;
            oldest_first = b;
        }
        recent->first[i] = NULL;
        for (weir_buffer *b = oldest_first, *next; b; b = next) {
            next = b->list_next;
            pool->stats.idle -= b->size;
            weir__pool_link_idle(pool, b);
        }
    }
}

void weir__pool_list_kept(struct weir__pool *pool)
{
    for (unsigned i = 0; i < pool->narenas; i++)
        if (pool->arenas[i] && pool->arenas[i]->recent.total)
            settle(pool, &pool->arenas[i]->recent);
}

void weir__pool_collect(struct weir__pool *pool)
{
    bool all = true;

    if (pool->collected)
        return;
    weir__pool_list_kept(pool);
    for (struct weir__segment *s = pool->segments; s; s = s->next)
        for (weir_buffer *b = s->first; b; b = b->after) {
            if (b->state == WEIR__USED || b->owner == WEIR__POOL_SHARED)
                continue;
            if (!all_over(pool, b)) {
                all = false;
                continue;
            }
            weir__pool_unlink(pool, b);
            if (pool->poison && b->state == WEIR__PENDING) {
                weir__pool_list_block(pool, b); /* its owner must poison it first */
                all = false;
                continue;
            }
            b->owner = WEIR__POOL_SHARED;
            b->own_seq = 0;
            b->nothers = 0;
            b = weir__pool_link_idle(pool, b);
        }
    pool->collected = all;
}

static bool is_empty(const struct weir__segment *s)
{
    const weir_buffer *b = s->first;

    return b->size == s->size && b->state == WEIR__IDLE && b->owner == WEIR__POOL_SHARED;
}

size_t weir__pool_trimmable(const struct weir__pool *pool)
{
    size_t bytes = 0;

    for (const struct weir__segment *s = pool->segments; s; s = s->next)
        bytes += is_empty(s) ? s->size : 0;
    return bytes;
}

void weir__pool_trim(struct weir__pool *pool)
{
    for (struct weir__segment *s = pool->segments, *next; s; s = next) {
        weir_buffer *b = s->first;

        next = s->next;
        if (!is_empty(s))
            continue;
        weir__pool_unlink(pool, b);
        weir__pool_retire(pool, b);
        *(s->prev ? &s->prev->next : &pool->segments) = s->next;
        if (s->next)
            s->next->prev = s->prev;
        pool->host.unmap(pool->host.user, s->base, s->size);
        pool->stats.reserved -= s->size;
        pool->stats.segments--;
        pool->stats.blocks--;
        weir__free(s);
    }
}

weir_status weir__pool_empty_cache(struct weir__pool *pool)
{
    weir__pool_collect(pool);
    weir__pool_trim(pool);
    return WEIR_OK;
}

/* ---- making the requesting stream wait ---- */

struct fences {
    const struct weir__pool *pool;
    const struct weir__clock *clock; /* of the stream that wants memory */
    uint32_t slot;
    unsigned n;
    struct weir__use open[16]; /* the largest open number of each stream */
};

static bool add_fence(struct fences *f, uint32_t slot, uint64_t seq)
{
    if (slot == WEIR__POOL_SHARED || slot == f->slot || weir__clock_get(f->clock, slot) >= seq ||
        weir__pool_over(f->pool, slot, seq))
        return true;
    for (unsigned i = 0; i < f->n; i++)
        if (f->open[i].slot == slot) {
            if (f->open[i].seq < seq)
                f->open[i].seq = seq;
            return true;
        }
    if (f->n == weir__countof(f->open))
        return false; /* too many fences: a host sync is tried next */
    f->open[f->n++] = (struct weir__use){slot, seq};
    return true;
}

/* Collects the open fences of the run of adjacent free blocks that starts at `b` and has at least
 * `size` bytes. False if there is no such run or it has too many fences. */
static bool run_fences(struct fences *f, const weir_buffer *b, size_t size)
{
    size_t have = 0;

    f->n = 0;
    for (; b && b->state != WEIR__USED; b = b->after) {
        if (!add_fence(f, b->owner, b->own_seq))
            return false;
        for (unsigned i = 0; i < b->nothers; i++)
            if (!add_fence(f, b->others[i].slot, b->others[i].seq))
                return false;
        if ((have += b->size) >= size)
            return true;
    }
    return false;
}

static weir_buffer *join_run(struct weir__pool *pool, uint32_t slot, weir_buffer *first,
                             size_t size)
{
    weir__pool_unlink(pool, first);
    while (first->size < size) {
        weir_buffer *right = first->after;

        weir__pool_unlink(pool, right);
        weir__pool_absorb(pool, first, right);
    }
    first->owner = slot;
    first->nothers = 0;
    if (pool->poison)
        pool->host.poison(pool->host.user, slot, first->address, first->size);
    first->own_seq = weir__clock_get(pool->host.clock(pool->host.user, slot), slot);
    return first;
}

weir_buffer *weir__pool_take_ordered(struct weir__pool *pool, uint32_t slot, size_t size)
{
    struct fences f = {
        .pool = pool, .clock = pool->host.clock(pool->host.user, slot), .slot = slot};
    struct fences best = {.n = UINT32_MAX};
    weir_buffer *found = NULL;

    for (struct weir__segment *s = pool->segments; s; s = s->next)
        for (weir_buffer *b = s->first; b; b = b->after)
            if (b->state != WEIR__USED && run_fences(&f, b, size) && f.n < best.n) {
                best = f;
                found = b;
            }
    if (!found)
        return NULL;
    for (unsigned i = 0; i < best.n; i++)
        if (pool->host.order(pool->host.user, slot, best.open[i].slot, best.open[i].seq))
            return NULL;
    if (best.n)
        pool->stats.device_waits++;
    else
        pool->stats.reuse_order++;
    return join_run(pool, slot, found, size);
}

/* ---- external memory ---- */

weir_buffer *weir__pool_take_released(struct weir__pool *pool, bool all)
{
    weir_buffer *list = NULL, *first = pool->deferred, **link = &first;

    while (*link) {
        weir_buffer *b = *link;

        if (!all && !all_over(pool, b)) {
            link = &b->list_next;
            continue;
        }
        *link = b->list_next;
        b->list_next = list;
        list = b;
        if (weir__race_on()) /* the program may reuse this memory for anything */
            weir__race_forget(NULL, b);
    }
    atomic_store_explicit(&pool->deferred, first, memory_order_relaxed);
    return list;
}

void weir__pool_drop(struct weir__pool *pool, weir_buffer *list)
{
    while (list) {
        weir_buffer *next = list->list_next;

        weir__pool_retire(pool, list);
        list = next;
    }
}
