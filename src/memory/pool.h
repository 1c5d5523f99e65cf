/* The stream-ordered memory pool of one device.
 *
 * A block belongs to the stream on which it was allocated (its owner). It records, for each stream
 * that used it, the number of the last command that did: its fences. Stream a may take a free block
 * iff for each fence (u, q) either clock[a][u] >= q, so a is ordered after that use, or u has
 * completed q.
 *
 *   allocated --free--> idle at its owner      all fences proven for the owner
 *                   \-> pending at its owner   some fence open; it watches that fence
 *   idle anywhere   --> shared                 every fence completed
 *
 * A small freed block without open fences is first *recent*: its owner can take it again by its
 * exact size, without joining and splitting blocks. Recent blocks become idle
 * (weir__pool_list_kept) before a request searches beyond its own stream's lists, and before blocks
 * are counted or listed. So only the fast paths of allocation and free handle recent blocks.
 *
 * threads  none of this locks: callers hold the device lock. For weir__pool_take_recent and
 *          weir__pool_give_recent the lock of the block's owner is enough (device/device.h).
 */
#ifndef WEIR_MEMORY_POOL_H
#define WEIR_MEMORY_POOL_H

#include <stdatomic.h>

#include "check/race/watch.h"
#include "memory/clock.h"
#include "trace/record/trace.h"
#include "weir/memory.h"

#define WEIR__POOL_GRAIN ((size_t)512) /* sizes are multiples of this */
#define WEIR__POOL_SHARED UINT32_MAX   /* the owner of blocks that are free for every stream */

struct weir__pool;

/* The functions that the pool needs from its device. */
struct weir__pool_host {
    void *user;
    /* Allocates memory from the system, or returns NULL. */
    void *(*map)(void *user, size_t size);
    void (*unmap)(void *user, void *address, size_t size);
    /* Memory has been mapped for a request of `asked` bytes; no page has been touched. */
    void (*grown)(void *user, void *address, size_t size, size_t asked);
    /* Returns the last command of the slot that is known to have completed. */
    uint64_t (*done)(void *user, uint32_t slot);
    /* Tells the device that blocks wait for pending commands. May be NULL. */
    void (*hurry)(void *user);
    /* Orders everything queued on `slot` from now on after command `seq` of `after`, without taking
     * over errors. */
    weir_status (*order)(void *user, uint32_t slot, uint32_t after, uint64_t seq);
    /* Makes the host wait for every stream; releases the device lock meanwhile. */
    weir_status (*wait_all)(void *user);
    /* Queues a fill of freed bytes on `slot`; returns its command number, or 0 on failure. */
    uint64_t (*poison)(void *user, uint32_t slot, void *address, size_t size);
    const struct weir__clock *(*clock)(void *user, uint32_t slot);
    const char *(*stream_name)(void *user, uint32_t slot);
    uint64_t (*stream_id)(void *user, uint32_t slot);
    /* Called while a trace is recorded, after the allocated bytes have changed. */
    void (*traced)(void *user);
};

struct weir__use {
    uint32_t slot;
    uint64_t seq;
};

enum weir__block_state { WEIR__USED, WEIR__PENDING, WEIR__IDLE, WEIR__EXTERNAL, WEIR__RECENT };

/* The first cache line has all fields that the fast paths of allocation and free use. The second
 * has those for joining and splitting blocks and for recording uses. */
struct weir_buffer {
    _Alignas(WEIR__LINE) struct weir__pool *pool;
    size_t size;            /* a multiple of the grain, unless external */
    weir_buffer *list_next; /* in a free list, a watch list or the spares */
    size_t asked;
    uint64_t after_seq; /* wait_tensor, values of the host: users are ordered after this command */
                        /* of after_slot; 0: no such command */
    struct weir__race_region *race; /* the race checker's record of it, or NULL */
    uint32_t owner;
    uint32_t nothers;
    _Atomic int refs; /* tensors that share it; used by the tensor layer */
    uint8_t state;    /* enum weir__block_state */
    _Alignas(WEIR__LINE) char *address;
    struct weir__segment *segment; /* NULL if external */
    weir_buffer *before, *after;   /* neighbours by address */
    weir_buffer *list_prev;        /* in the same list as list_next */
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
/* Returns a block of at least `size` bytes without removing it; NULL if none is certain to fit. */
weir_buffer *weir__tlsf_find(const struct weir__tlsf *t, size_t size);

/* Pending blocks of one owner that wait for one other stream, by ascending command number. */
struct weir__watch {
    uint32_t slot;
    weir_buffer *first, *last;
};

/* What weir__pool_take_recent and _give_recent have changed since the device lock was taken. */
struct weir__recent_stats {
    uint64_t allocations, frees;
    int64_t allocated, peak; /* bytes more than at that time, now and at most */
};

/* Recent blocks of one stream: lists by size in grains, minus one. */
#define WEIR__RECENT_SIZES 128
#define WEIR__RECENT_BLOCKS 8
struct weir__recent {
    weir_buffer *first[WEIR__RECENT_SIZES];
    uint8_t count[WEIR__RECENT_SIZES];
    unsigned total;
    struct weir__recent_stats stats;
};

/* The pool's data of one stream. */
struct weir__arena {
    struct weir__tlsf idle;
    struct weir__recent recent;
    struct weir__watch *watches;
    unsigned nwatches, cap_watches;
    size_t grown;     /* bytes of segments that its requests have added */
    unsigned waiting; /* number of blocks that have become pending so far */
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
    void **slabs;        /* allocations of records */
    size_t nslabs, cap_slabs;
    _Atomic(weir_buffer *) deferred; /* freed external memory still in use; any thread may compare
                                      * it with NULL without the lock */
    uint64_t *synced;                /* by slot: the last command that a host sync has proved
                                      * completed */
    bool deterministic;              /* rely only on `synced`, never on completion by chance */
    bool poison;
    bool unsafe;    /* debug hook: ignore other streams' fences */
    bool collected; /* all free blocks are shared, and nothing was allocated or freed since */
    weir_memory_stats stats;
};

weir_status weir__pool_init(struct weir__pool *pool, const struct weir__pool_host *host,
                            size_t limit);
/* Precondition: every block is free and every command has completed. */
void weir__pool_fini(struct weir__pool *pool);
/* Adds a stream's slot. */
weir_status weir__pool_add_slot(struct weir__pool *pool, uint32_t slot);

weir_status weir__pool_alloc(struct weir__pool *pool, uint32_t slot, size_t size,
                             weir_buffer **out);
/* Makes a block of memory that does not belong to the pool. It has fences like any other block. */
weir_status weir__pool_wrap(struct weir__pool *pool, uint32_t slot, void *address, size_t size,
                            void (*release)(void *user), void *user, weir_buffer **out);
void weir__pool_free(struct weir__pool *pool, weir_buffer *block);

/* pool_recent.c: as weir__pool_alloc and weir__pool_free, but only for blocks that are recent or
 * become recent. NULL and false if the call needs the device lock; nothing has changed then. */
weir_buffer *weir__pool_take_recent(struct weir__pool *pool, uint32_t slot, size_t size);
bool weir__pool_give_recent(struct weir__pool *pool, weir_buffer *block);
/* Adds what these have changed to the pool's statistics. Streams may have had their most bytes at
 * different times: peak_allocated counts them as one time. All these blocks exist, so it is at most
 * what was reserved. */
void weir__pool_add_recent_stats(struct weir__pool *pool);

/* Returns the address of the block's fence for the slot. The caller writes the command's number
 * there once the command is queued. NULL when out of memory. */
uint64_t *weir__pool_fence_slow(weir_buffer *block, uint32_t slot);
static inline uint64_t *weir__pool_fence(weir_buffer *block, uint32_t slot)
{
    return block->owner == slot ? &block->own_seq : weir__pool_fence_slow(block, slot);
}

/* True if the block has a fence for the slot already. Safe without the device lock as long as no
 * other thread changes the block's fences. */
bool weir__pool_has_fence(const weir_buffer *block, uint32_t slot);

/* Records that a host sync has proved all commands of the slot up to `seq` completed. */
void weir__pool_synced(struct weir__pool *pool, uint32_t slot, uint64_t seq);

/* Removes and returns freed external blocks whose uses have completed; with `all`, the others too.
 * The caller calls `release` for each without the lock, then weir__pool_drop under the lock. */
weir_buffer *weir__pool_take_released(struct weir__pool *pool, bool all);
void weir__pool_drop(struct weir__pool *pool, weir_buffer *list);

weir_status weir__pool_empty_cache(struct weir__pool *pool);

/* pool_reclaim.c: the steps that alloc_slow tries, one after the other. These two return a block of
 * at least `size` bytes that is in no list, or NULL. */
weir_buffer *weir__pool_take_proven(struct weir__pool *pool, uint32_t slot, size_t size);
weir_buffer *weir__pool_take_ordered(struct weir__pool *pool, uint32_t slot, size_t size);
/* Makes the recent blocks of all streams idle. */
void weir__pool_list_kept(struct weir__pool *pool);
/* Moves idle and pending blocks whose uses have all completed to the shared lists. */
void weir__pool_collect(struct weir__pool *pool);
/* Returns segments that are one shared idle block to the system. */
void weir__pool_trim(struct weir__pool *pool);
/* Returns how many bytes weir__pool_trim would free. */
size_t weir__pool_trimmable(const struct weir__pool *pool);

/* Shared by the files of the pool. */
bool weir__pool_over(const struct weir__pool *pool, uint32_t slot, uint64_t seq);
void weir__pool_unlink(struct weir__pool *pool, weir_buffer *block);     /* out of its list */
void weir__pool_list_block(struct weir__pool *pool, weir_buffer *block); /* into the right list */
/* Joins the block with idle neighbours and adds it to its owner's idle lists; returns it. */
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
