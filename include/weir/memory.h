/* Device memory: a stream-ordered pool.
 *
 * Memory freed by the host keeps its bytes until every stream that used it is
 * done, or is provably ordered before the stream that gets it next. Nobody has
 * to say which streams used what: submitting work says it.
 */
#ifndef WEIR_MEMORY_H
#define WEIR_MEMORY_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_buffer weir_buffer;

/* `size` bytes for use on `stream` first; at least 64-byte aligned. Never waits
 * while the pool may still grow.
 * returns  WEIR_EOOM with sizes by stream and state.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_buffer_alloc(weir_stream *stream, size_t size,
                                                     weir_buffer **out);
WEIR_API void *weir_buffer_data(const weir_buffer *buffer);
WEIR_API size_t weir_buffer_size(const weir_buffer *buffer);

/* Says that work queued on `stream` so far uses the buffer. Operators on tensors
 * and launches that name their buffers do this themselves.
 * returns  WEIR_EDEVICE if the two are of different devices.
 * threads  any. */
WEIR_API weir_status weir_buffer_used_on(weir_buffer *buffer, weir_stream *stream);

/* Gives the bytes back, in stream order. NULL is fine.
 * threads  any, with no later use of the handle. */
WEIR_API void weir_buffer_free(weir_buffer *buffer);

typedef struct weir_memory_stats {
    size_t reserved;  /* taken from the system = allocated + pending + idle */
    size_t allocated; /* held by tensors and buffers */
    size_t pending;   /* freed, another stream may still use it */
    size_t idle;      /* free for some stream or for all */
    size_t peak_reserved;
    size_t peak_allocated;
    size_t limit;
    size_t segments;
    size_t blocks;        /* pieces the segments are cut into */
    uint64_t allocations; /* calls */
    uint64_t frees;
    uint64_t reuse_order;     /* served by proven stream order */
    uint64_t reuse_completed; /* served by work known to be over */
    uint64_t grown;           /* served by a new segment */
    uint64_t reuse_stolen;    /* served from another stream's idle blocks */
    uint64_t device_waits;    /* a stream was made to wait for a fence */
    uint64_t host_syncs;      /* the host had to wait */
    uint64_t failed;
    size_t events_live; /* events held by users and by the pool */
} weir_memory_stats;

/* `size` is sizeof *out, here and below. threads  any. */
WEIR_API void weir_memory_get_stats(weir_device *dev, weir_memory_stats *out, size_t size);
WEIR_API void weir_memory_reset_peaks(weir_device *dev);

/* Bytes that stream holds back: allocated on it, pending for others, idle on it. */
typedef struct weir_memory_stream_stats {
    uint64_t stream_id;
    char stream_name[64];
    size_t allocated, pending, idle;
} weir_memory_stream_stats;

/* Fills at most `max` rows of `size` bytes, returns how many there are. threads any. */
WEIR_API size_t weir_memory_get_stream_stats(weir_device *dev, weir_memory_stream_stats *out,
                                             size_t size, size_t max);

/* Gives idle segments back to the system, after collecting what is over. With poison=1 it waits for
 * the device first, because freed bytes are still being filled.
 * threads  any. */
WEIR_API weir_status weir_memory_empty_cache(weir_device *dev);

/* The most bytes the pool may take. A limit below what is reserved holds from
 * the next growth on.
 * threads  any. */
WEIR_API weir_status weir_memory_set_limit(weir_device *dev, size_t bytes);

/* A table for people: where the bytes are, by stream and state. Free with free().
 * returns  NULL when out of host memory. threads any. */
WEIR_API char *weir_memory_summary(weir_device *dev);

/* One piece of a segment, in address order, for checkers. */
typedef enum weir_block_state {
    WEIR_BLOCK_ALLOCATED,
    WEIR_BLOCK_PENDING,
    WEIR_BLOCK_IDLE,
} weir_block_state;

typedef struct weir_block_info {
    uintptr_t segment, address;
    size_t segment_size, size;
    weir_block_state state;
    uint64_t stream_id; /* 0: free for every stream */
} weir_block_info;

/* Fills at most `max` rows of `size` bytes, returns how many there are. threads any. */
WEIR_API size_t weir_memory_get_blocks(weir_device *dev, weir_block_info *out, size_t size,
                                       size_t max);

#ifdef __cplusplus
}
#endif
#endif
