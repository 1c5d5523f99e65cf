/* Device memory: a stream-ordered pool.
 *
 * Freed memory is reused only when every stream that used it has finished with it, or is ordered
 * before the stream that gets it next. The program need not say which streams used what: weir notes
 * it when work is submitted.
 */
#ifndef WEIR_MEMORY_H
#define WEIR_MEMORY_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_buffer weir_buffer;

/* `size` bytes, first used on `stream`, aligned to at least 64 bytes. Never waits
 * while the pool can still grow.
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

/* Frees the bytes, in stream order. NULL is fine.
 * threads  any, with no later use of the handle. */
WEIR_API void weir_buffer_free(weir_buffer *buffer);

typedef struct weir_memory_stats {
    size_t reserved;  /* taken from the system = allocated + pending + idle */
    size_t allocated; /* held by tensors and buffers */
    size_t pending;   /* freed, but another stream may still use it */
    size_t idle;      /* free for some stream or for all */
    size_t peak_reserved;
    size_t peak_allocated;
    size_t limit;
    size_t segments;
    size_t blocks;        /* pieces the segments are cut into */
    uint64_t allocations; /* calls */
    uint64_t frees;
    uint64_t reuse_order;     /* served by proven stream order */
    uint64_t reuse_completed; /* served by work known to have completed */
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

/* Bytes of one stream: allocated on it, freed but still used by other streams, idle on it. */
typedef struct weir_memory_stream_stats {
    uint64_t stream_id;
    char stream_name[64];
    size_t allocated, pending, idle;
} weir_memory_stream_stats;

/* Fills at most `max` rows of `size` bytes, returns how many there are. threads any. */
WEIR_API size_t weir_memory_get_stream_stats(weir_device *dev, weir_memory_stream_stats *out,
                                             size_t size, size_t max);

/* Gives idle segments back to the system, including blocks whose uses have ended. With poison=1 it
 * first waits for the device, which may still be filling freed bytes.
 * threads  any. */
WEIR_API weir_status weir_memory_empty_cache(weir_device *dev);

/* Sets the most bytes the pool may reserve. A limit below what is already reserved frees nothing;
 * it only stops further growth.
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
