/* Streams, events and what runs on them.
 *
 * A stream is an in-order queue. Work on different streams runs in any order
 * that events do not forbid. A stream in error runs nothing more: its later
 * work, and the work of streams that wait for it, is skipped; sync returns the
 * first error; destroying the stream clears it.
 */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_stream weir_stream;
typedef struct weir_event weir_event;

/* Waits as long as the device's op_timeout allows. */
#define WEIR_TIMEOUT_DEVICE INT64_C(-1)

typedef struct weir_stream_options {
    size_t size;      /* sizeof, or 0 for the fields of version 0.1 */
    int priority;     /* -8 (most urgent) .. 7; 0 by default */
    const char *name; /* copied; NULL for a generated one */
} weir_stream_options;

/* A new stream; `options` may be NULL. Streams are pooled: making and destroying
 * one costs well under a microsecond once warm.
 * returns  WEIR_ERANGE for a priority outside -8..7.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_stream_create(weir_device *dev,
                                                      const weir_stream_options *options,
                                                      weir_stream **out);

/* Returns the stream to the pool. Queued work still runs to its end. NULL is fine.
 * returns  WEIR_EINVAL for a default or tagged stream: the device owns those.
 * threads  any, with no other call on the stream in progress. */
WEIR_API weir_status weir_stream_destroy(weir_stream *stream);

/* The stream that exists on every device from the start. The device owns it. */
WEIR_API weir_stream *weir_stream_default(weir_device *dev);

/* The stream for communication operators of programs that choose no stream themselves. */
WEIR_API WEIR_MUST_USE weir_status weir_stream_communication(weir_device *dev, weir_stream **out);

/* The stream of that tag, made on first use: the same tag is the same stream
 * everywhere on the device, and "default" is the default stream. The first use
 * decides the priority. The device owns it.
 * returns  WEIR_EINVAL for an empty tag; WEIR_ERANGE for a bad priority.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_stream_tagged(weir_device *dev, const char *tag,
                                                      int priority, weir_stream **out);

/* The stream that operators of this thread go to on `dev`: the one last set, or
 * the default stream.
 * threads  any; each thread has its own. */
WEIR_API weir_stream *weir_stream_current(weir_device *dev);

/* Makes `stream` current for this thread on its device.
 * threads  any. */
WEIR_API weir_status weir_stream_set_current(weir_stream *stream);

WEIR_API weir_device *weir_stream_device(const weir_stream *stream);
WEIR_API const char *weir_stream_name(const weir_stream *stream);
WEIR_API int weir_stream_priority(const weir_stream *stream);
WEIR_API uint64_t weir_stream_id(const weir_stream *stream);

/* Waits until everything queued so far is done.
 * returns  the stream's first error, naming the operator; WEIR_ETIMEDOUT with a
 *          report of what it waits for.
 * threads  any. */
WEIR_API weir_status weir_stream_sync(weir_stream *stream);
WEIR_API weir_status weir_stream_sync_for(weir_stream *stream, int64_t timeout_ns);

/* Sets a function that this thread calls while it waits in the library, some ten times a
 * second, so that a program can react to a signal. If the function does not return 0, the wait
 * ends with WEIR_EINTERRUPTED; the work itself goes on.
 * NULL removes the function.
 * threads  sets it for the calling thread alone. */
typedef int (*weir_wait_hook_fn)(void *user);
WEIR_API void weir_wait_hook_set(weir_wait_hook_fn fn, void *user);

/* Whether everything queued so far is done. Never waits.
 * returns  the stream's first error, as weir_stream_sync.
 * threads  any. */
WEIR_API weir_status weir_stream_query(weir_stream *stream, bool *done);

/* Orders everything queued on `stream` from now on after `event`.
 * An event that was never recorded counts as passed: the call does nothing.
 * returns  WEIR_EDEVICE if the two are of different devices.
 * threads  any. */
WEIR_API weir_status weir_stream_wait(weir_stream *stream, const weir_event *event);

/* Orders everything queued on `stream` from now on after everything queued on
 * `other` so far.
 * threads  any. */
WEIR_API weir_status weir_stream_wait_stream(weir_stream *stream, weir_stream *other);

/* Calls `fn` on a thread of the library when everything queued so far is done.
 * It is called exactly once, with the stream's error if it has one. It may submit work, but must
 * not wait for its own stream. Allocations inside it never wait: if only memory in use is left,
 * they return WEIR_EOOM.
 * threads  any. */
typedef void (*weir_callback_fn)(void *user, weir_status status);
WEIR_API weir_status weir_stream_callback(weir_stream *stream, weir_callback_fn fn, void *user);

/* Core limits of one stream: 1..the device's count; -1 keeps the current value. A new limit applies
 * to operators that start afterwards. An operator that is already queued keeps its number of
 * blocks, so that values do not depend on timing, but runs on at most as many cores as the new
 * limit allows. A gang keeps the cores it was queued with. A run of a plan keeps the limits in
 * force when it began. Reset returns to the device's limits.
 * returns  WEIR_ERANGE naming the range; nothing changes then.
 * threads  any. */
WEIR_API weir_status weir_stream_set_limit(weir_stream *stream, weir_cores limit);
WEIR_API weir_cores weir_stream_get_limit(const weir_stream *stream);
WEIR_API void weir_stream_reset_limit(weir_stream *stream);

/* ---- native streams ----
 * For programs that use other libraries on the same hardware. On `cuda` a native stream is a
 * CUstream (the same as a cudaStream_t); NULL is CUDA's default stream. Other devices have no
 * native streams: WEIR_EUNSUPPORTED.
 * threads  any. */

/* The native stream behind `stream`. Its work runs after everything queued on `stream` so far.
 * Every later command, event, wait and sync of `stream` runs after the work that the native stream
 * has by then. It may use the cores of the limit in force (the stream's, or the open scope's).
 * After a limit changes, call this function again: only the native stream returned last is ordered
 * with `stream`. The device owns it: do not destroy it, and do not use it after the device is
 * closed. */
WEIR_API WEIR_MUST_USE weir_status weir_stream_native(weir_stream *stream, void **native);

/* `native` is any stream of the same GPU. wait_native orders what is queued on `stream` from now on
 * after everything queued on `native` so far; signal_native orders `native` after `stream` in the
 * same way. */
WEIR_API weir_status weir_stream_wait_native(weir_stream *stream, void *native);
WEIR_API weir_status weir_stream_signal_native(weir_stream *stream, void *native);

/* Shows work of other libraries in traces: everything queued on `native` between the two calls
 * appears as one operator of `stream` named `name` (copied). Without a recording neither call does
 * anything. An end without a begin is ignored. */
WEIR_API weir_status weir_stream_begin_native(weir_stream *stream, void *native, const char *name);
WEIR_API weir_status weir_stream_end_native(weir_stream *stream, void *native);

/* ---- events ---- */

typedef struct weir_event_options {
    size_t size;   /* sizeof, or 0 for the fields of version 0.1 */
    bool timing;   /* weir_event_elapsed works on it */
    bool blocking; /* weir_event_sync sleeps at once instead of spinning first */
} weir_event_options;

/* threads  any. `options` may be NULL. */
WEIR_API WEIR_MUST_USE weir_status weir_event_create(weir_device *dev,
                                                     const weir_event_options *options,
                                                     weir_event **out);
/* NULL is fine.
 * returns  WEIR_EINVAL if the event was already destroyed and its handle not reused since.
 * threads  any. */
WEIR_API weir_status weir_event_destroy(weir_event *event);

/* Marks the point after everything queued on `stream` so far. Recording again
 * moves the mark; waits already queued keep the old one.
 * returns  WEIR_EDEVICE if the two are of different devices.
 * threads  any; not the same event from two threads at once. */
WEIR_API weir_status weir_event_record(weir_event *event, weir_stream *stream);

/* Whether the mark has been passed; true before the first record. Do not call it during a
 * record. */
WEIR_API weir_status weir_event_query(const weir_event *event, bool *done);

/* Waits for the mark; returns at once before the first record. Errors and
 * timeouts as weir_stream_sync. */
WEIR_API weir_status weir_event_sync(const weir_event *event);
WEIR_API weir_status weir_event_sync_for(const weir_event *event, int64_t timeout_ns);

/* Milliseconds of device time between two marks; waits for both.
 * returns  WEIR_ESTATE if one was made without timing or never recorded. */
WEIR_API weir_status weir_event_elapsed(const weir_event *start, const weir_event *end,
                                        double *milliseconds);

#ifdef __cplusplus
}
#endif
#endif
