/* The stream-ordered memory pool of one device.
 *
 * A block belongs to the stream it was allocated on (its owner). It remembers,
 * for each stream that used it, the number of the last command that did: its
 * fences. Stream a may take a free block iff for each fence (u, q) either
 * clock[a][u] >= q, so a is ordered after that use, or u has completed q.
 *
 *   allocated --free--> idle at its owner      all fences proven for the owner
 *                   \-> pending at its owner   some fence open; watches that one
 *   idle anywhere   --> shared                 every fence completed
 *
 * A small block without open fences is first *recent*: its owner takes it again as it is, by its
 * exact size, without joining it with its neighbours and cutting it out again. Recent blocks
 * become idle (weir__pool_list_kept) before a request looks further than its own stream's lists,
 * and before anybody looks at blocks, so only the two fast paths know of them.
 *
 * threads  none of this locks: callers hold the device lock.
 */
#ifndef WEIR_MEMORY_POOL_H
#define WEIR_MEMORY_POOL_H

#include <stdatomic.h>

#include "check/race/watch.h"
#include "memory/clock.h"
#include "trace/record/trace.h"
#include "weir/memory.h"

#define WEIR__POOL_GRAIN ((size_t)512) /* sizes are multiples of this */
#define WEIR__POOL_SHARED UINT32_MAX   /* owner of what is free for every stream */

struct weir__pool;

/* What the pool asks of its device. */
struct weir__pool_host {
    void *user;
    /* Bytes from the system, or NULL. */
    void *(*map)(void *user, size_t size);
    void (*unmap)(void *user, void *address, size_t size);
    /* Those bytes were mapped for a request of `asked` bytes, and nobody has touched them. */
    void (*grown)(void *user, void *address, size_t size, size_t asked);
    /* The last command of the slot that is known to be over. */
    uint64_t (*done)(void *user, uint32_t slot);
    /* Blocks wait for commands that are not over. May be NULL. */
    void (*hurry)(void *user);
    /* What is queued on `slot` from now on runs after command `seq` of `after`,
     * without passing errors on. */
    weir_status (*order)(void *user, uint32_t slot, uint32_t after, uint64_t seq);
    /* The host waits until every stream is done; gives up the device lock meanwhile. */
    weir_status (*wait_all)(void *user);
    /* Queues a fill of freed bytes on `slot`; its number there, or 0. */
    uint64_t (*poison)(void *user, uint32_t slot, void *address, size_t size);
    const struct weir__clock *(*clock)(void *user, uint32_t slot);
    const char *(*stream_name)(void *user, uint32_t slot);
    uint64_t (*stream_id)(void *user, uint32_t slot);
    /* What is allocated has changed, while a trace is recorded. */
    void (*traced)(void *user);
};

struct weir__use {
    uint32_t slot;
    uint64_t seq;
};

enum weir__block_state { WEIR__USED, WEIR__PENDING, WEIR__IDLE, WEIR__EXTERNAL, WEIR__RECENT };

/* The first cache line has all that freeing a small block and handing it out again touch, the
 * second what joins and splits blocks and notes their uses. */
struct weir_buffer {
    _Alignas(WEIR__LINE) struct weir__pool *pool;
    size_t size;            /* a multiple of the grain, unless external */
    weir_buffer *list_next; /* in a free list, a watch list or the spares */
    size_t asked;
    uint64_t after_seq; /* wait_tensor, values of the host: users run after that command of */
                        /* after_slot; 0 if nobody asked for it */
    struct weir__race_region *race; /* what the race checker knows of it; NULL: nothing */
    uint32_t owner;
    uint32_t nothers;
    _Atomic int refs; /* tensors that share it; the tensor layer's */
    uint8_t state;    /* enum weir__block_state */
    _Alignas(WEIR__LINE) char *address;
    struct weir__segment *segment; /* NULL if external */
    weir_buffer *before, *after;   /* neighbours by address */
    weir_buffer *list_prev;        /* with list_next */
    uint64_t own_seq;              /* the owner's last use */
    struct weir__use *others;      /* the other streams' last uses */
    uint32_t watched;              /* index into others[] while pending */
    uint32_t cap_others;
    struct weir__use inline_others[3];
    void (*release)(void *user); /* external only */
    void *release_user;
    uint32_t after_slot;
};

#define WEIR__TLSF_FIRST 36
#define WEIR__TLSF_SECOND 16

/* Free lists by size: constant time to find, add and remove. */
struct weir__tlsf {
    uint64_t first;                    /* bit f: some list of second[f] is not empty */
    uint32_t second[WEIR__TLSF_FIRST]; /* bit s: heads[f][s] is not empty */
    weir_buffer *heads[WEIR__TLSF_FIRST][WEIR__TLSF_SECOND];
};
void weir__tlsf_add(struct weir__tlsf *t, weir_buffer *b);
void weir__tlsf_remove(struct weir__tlsf *t, weir_buffer *b);
/* A block of at least `size`, still in its list; NULL if none is sure to fit. */
weir_buffer *weir__tlsf_find(const struct weir__tlsf *t, size_t size);

/* Pending blocks of one owner that wait for one other stream, by rising number. */
struct weir__watch {
    uint32_t slot;
    weir_buffer *first, *last;
};

/* Recent blocks of one stream, by size in grains less one: the last few that were freed. */
#define WEIR__RECENT_SIZES 128
#define WEIR__RECENT_BLOCKS 8
struct weir__recent {
    weir_buffer *first[WEIR__RECENT_SIZES];
    uint8_t count[WEIR__RECENT_SIZES];
    unsigned total;
};

/* What one stream has. */
struct weir__arena {
    struct weir__tlsf idle;
    struct weir__recent recent;
    struct weir__watch *watches;
    unsigned nwatches, cap_watches;
    size_t grown;     /* bytes of segments that were made for it */
    unsigned waiting; /* blocks that became pending so far */
};

struct weir__segment {
    char *base;
    size_t size;
    weir_buffer *first;
    struct weir__segment *prev, *next;
};

struct weir__pool {
    struct weir__pool_host host;
    struct weir__arena **arenas; /* by slot */
    unsigned narenas;
    struct weir__tlsf shared;
    struct weir__segment *segments;
    weir_buffer *spares; /* block records */
    void **slabs;        /* what the records were cut from */
    size_t nslabs, cap_slabs;
    _Atomic(weir_buffer *) deferred; /* external memory still in use; anybody may ask for NULL */
    uint64_t *synced;                /* by slot: what a host sync proved over */
    bool deterministic;              /* trust only `synced`, never what happens to be over */
    bool poison;
    bool unsafe;    /* debug hook: ignore other streams' fences */
    bool collected; /* nothing was allocated or freed since all that was free was free for all */
    weir_memory_stats stats;
};

weir_status weir__pool_init(struct weir__pool *pool, const struct weir__pool_host *host,
                            size_t limit);
/* Every block must be free and every stream done. */
void weir__pool_fini(struct weir__pool *pool);
/* Makes the slot known. */
weir_status weir__pool_add_slot(struct weir__pool *pool, uint32_t slot);

weir_status weir__pool_alloc(struct weir__pool *pool, uint32_t slot, size_t size,
                             weir_buffer **out);
/* Bytes that are not the pool's, with fences like any block. */
weir_status weir__pool_wrap(struct weir__pool *pool, uint32_t slot, void *address, size_t size,
                            void (*release)(void *user), void *user, weir_buffer **out);
void weir__pool_free(struct weir__pool *pool, weir_buffer *block);

/* Where the block keeps the slot's last use: write the command's number there once
 * it is queued. NULL when out of memory. */
uint64_t *weir__pool_fence_slow(weir_buffer *block, uint32_t slot);
static inline uint64_t *weir__pool_fence(weir_buffer *block, uint32_t slot)
{
    return block->owner == slot ? &block->own_seq : weir__pool_fence_slow(block, slot);
}

/* Whether there is such a place already. Reads only what stays while nobody else changes the
 * block's fences. */
bool weir__pool_has_fence(const weir_buffer *block, uint32_t slot);

/* A host sync proved that everything up to `seq` of the slot is over. */
void weir__pool_synced(struct weir__pool *pool, uint32_t slot, uint64_t seq);

/* External blocks whose uses are over, unlinked: call release on each, outside the
 * lock, then weir__pool_drop them under it. `all` takes the unfinished ones too. */
weir_buffer *weir__pool_take_released(struct weir__pool *pool, bool all);
void weir__pool_drop(struct weir__pool *pool, weir_buffer *list);

weir_status weir__pool_empty_cache(struct weir__pool *pool);

/* pool_reclaim.c: the rungs of the ladder between a miss and an error. Each
 * returns a block out of every list, at least `size` big, or NULL. */
weir_buffer *weir__pool_take_proven(struct weir__pool *pool, uint32_t slot, size_t size);
weir_buffer *weir__pool_take_ordered(struct weir__pool *pool, uint32_t slot, size_t size);
/* Makes recent blocks idle, of every stream. */
void weir__pool_list_kept(struct weir__pool *pool);
/* Moves idle and pending blocks whose fences are all over to the shared lists. */
void weir__pool_collect(struct weir__pool *pool);
/* Gives the segments back that are wholly free for all, and what they hold. */
void weir__pool_trim(struct weir__pool *pool);
size_t weir__pool_trimmable(const struct weir__pool *pool);

/* Shared by the files of the pool. */
bool weir__pool_over(const struct weir__pool *pool, uint32_t slot, uint64_t seq);
void weir__pool_unlink(struct weir__pool *pool, weir_buffer *block);     /* out of its list */
void weir__pool_list_block(struct weir__pool *pool, weir_buffer *block); /* into the right list */
/* To the idle lists of its owner, joined with its neighbours; the joined block. */
weir_buffer *weir__pool_link_idle(struct weir__pool *pool, weir_buffer *block);
void weir__pool_promote(struct weir__pool *pool, uint32_t slot);
void weir__pool_absorb(struct weir__pool *pool, weir_buffer *block, weir_buffer *right);

/* pool_records.c */
weir_buffer *weir__pool_new_record(struct weir__pool *pool); /* NULL when out of host memory */
void weir__pool_retire(struct weir__pool *pool, weir_buffer *block); /* to the spares */

/* pool_report.c */
void weir__pool_get_stats(const struct weir__pool *pool, weir_memory_stats *out);
size_t weir__pool_get_blocks(const struct weir__pool *pool, weir_block_info *out, size_t size,
                             size_t max);
size_t weir__pool_get_streams(const struct weir__pool *pool, weir_memory_stream_stats *out,
                              size_t size, size_t max);
void weir__pool_summary(const struct weir__pool *pool, struct weir__text *text);

#endif
