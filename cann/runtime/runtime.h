/* The internals of libascendcl: its handles and the objects behind them.
 *
 * A handle is a number with the type of a pointer: kind, generation and place in one table. A
 * handle from the program is looked up in the table and never dereferenced. So NULL, garbage and
 * handles of destroyed objects are reported as errors.
 *
 * Locks, outermost first: a capture's (capture.c), the objects' (handle.c, device.c), the
 * allocations' (allocation.c). No lock is held while a call of weir blocks.
 */
#ifndef WEIR_CANN_RUNTIME_H
#define WEIR_CANN_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "acl/acl.h"
#include "cann.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- error.c ---- */

#define fail weir_cann_fail
#define fail_status weir_cann_fail_status

/* "aclrtMalloc: size is 0" with the calling function's name. */
#define FAIL(code, ...) weir_cann_fail_in(__func__, code, __VA_ARGS__)
/* Returns the error that ended torch_npu's queue, if one did (weir_cann_launched). */
aclError launch_check(const char *function);
void launch_forget(void);
aclError weir_cann_fail_in(const char *function, aclError code, const char *format, ...)
    WEIR_PRINTF(3, 4);
/* Fails the calling function if a required pointer is NULL. */
#define NEED(pointer)                                                     \
    do {                                                                  \
        if (!(pointer))                                                   \
            return FAIL(ACL_ERROR_INVALID_PARAM, "%s is NULL", #pointer); \
    } while (0)

/* ---- handle.c ---- */

enum kind {
    KIND_CONTEXT = 1,
    KIND_STREAM,
    KIND_EVENT,
    KIND_NOTIFY,
    KIND_PHYSICAL,
    KIND_MODEL,
    KIND_TASK_GROUP,
    KIND_CONDITION,
    KIND_DATA_BUFFER,
    KIND_TENSOR_DESC,
    KIND_CHANNEL,
    KIND_ATTRIBUTES,
    KIND_ALLOCATOR,
    KIND_OTHER,
    KIND_COUNT
};

/* Returns a new handle for the object; NULL when out of memory. */
void *handle_new(enum kind kind, void *object);
/* Returns the object; NULL if this is not a live handle of that kind. */
void *handle_get(const void *handle, enum kind kind);
/* The same, and keeps the object alive until handle_release. */
void *handle_hold(const void *handle, enum kind kind);
void handle_release(const void *handle);
/* Removes the handle from the table and returns its object; only the first call succeeds. Waits
 * until no other thread holds or visits the object. */
void *handle_take(const void *handle, enum kind kind);
/* Calls `visit` with every object of a kind. The object stays alive during the call, unless `visit`
 * takes it. */
void handle_each(enum kind kind, void (*visit)(void *object, void *user), void *user);
/* In a forked child: forgets the parent's streams, events, contexts and graphs. */
void handle_forget_all(void);

/* ---- device.c ---- */

struct device {
    int id;
    weir_device *dev;
    weir_device_props props;
    struct context *primary;
    int primary_refs;  /* aclrtSetDevice without aclrtResetDevice */
    weir_event *epoch; /* recorded when the device was opened, for time stamps */
};

/* Returns the device; opens it on first use.
 * returns  ACL_ERROR_RT_INVALID_DEVICEID, naming the number of devices; errors of opening. */
aclError device_get(int32_t id, struct device **out);
uint32_t device_count(void);
/* Returns NULL unless the device has been opened. */
struct device *device_opened(int32_t id);
void device_close_all(void);
void device_forget_all(void);

/* ---- context.c ---- */

struct context {
    void *handle;
    struct device *device;
    bool primary;
    struct stream *stream; /* the default stream, for the handle NULL */
    weir_stream *copies;   /* for synchronous copies; created on first use */
    pthread_mutex_t lock;
};

/* Returns the calling thread's context.
 * returns  ACL_ERROR_RT_CONTEXT_NULL if it has none. */
aclError context_current(struct context **out);
/* True if the calling thread has ever had a context. */
bool context_set(void);
aclError context_create(struct device *device, bool primary, struct context **out);
void context_destroy(struct context *context);
/* Returns the context's stream for synchronous copies. */
aclError context_copies(struct context *context, weir_stream **out);
/* In a forked child: the calling thread has no context any more. */
void context_forget(void);

/* ---- stream.c ---- */

struct stream {
    void *handle;
    struct context *context;
    weir_stream *weir;
    bool is_default;
    int32_t id;
    uint32_t priority, flags;
    uint64_t failure_mode;
    uint32_t overflow;
    _Atomic(struct capture *) capture; /* that it takes part in, or NULL */
    int lane;                          /* in the capture: 0 is the stream that began it */
    _Atomic uint64_t reporter;         /* thread that runs its callbacks; 0: none */
    struct gate *gate;                 /* created on first use */
    weir_cores limit;                  /* -1: none */
    pthread_mutex_t lock;              /* guards gate and limit */
};

/* NULL is the default stream of the thread's context. */
aclError stream_get(aclrtStream handle, struct stream **out);
aclError stream_create(struct context *context, uint32_t priority, uint32_t flags,
                       struct stream **out);
void stream_free(struct stream *stream);
/* Fails if the stream is being captured. */
aclError stream_check_eager(const char *function, struct stream *stream);

/* ---- limit.c ---- */

/* Returns the limit that the calling thread uses for operators on `stream`; {-1, -1} if the
 * stream's own limit applies. */
weir_cores limit_in_use(const struct stream *stream);

/* ---- allocation.c ---- */

enum allocation_kind {
    ALLOCATION_DEVICE,
    ALLOCATION_RANGE,
    ALLOCATION_HOST,
    ALLOCATION_REGISTERED,
    ALLOCATION_IMPORTED
};

struct allocation {
    char *base;
    size_t size;
    enum allocation_kind kind;
    int device;         /* of the context that allocated it */
    weir_tensor *bytes; /* all of it as u8; NULL for host memory */
    size_t padding;     /* bytes before `base` that were allocated for its alignment */
    int fd;             /* the file that is mapped there for other processes */
    uint64_t inode;     /* of that file; 0 if there is none */
};

/* Stores a copy of the record, which takes over the reference to its tensor.
 * returns  ACL_ERROR_BAD_ALLOC. */
aclError allocation_add(const struct allocation *allocation);
/* Removes and returns the record that begins at `base`; false if there is none of that kind. */
bool allocation_take(const void *base, enum allocation_kind kind, struct allocation *out);
/* Copies the record that contains `address`. Its tensor is not retained. */
bool allocation_find(const void *address, struct allocation *out);
/* Calls `change` with the record that begins at `base`, under the lock; false if there is none. */
bool allocation_change(const void *base, aclError (*change)(struct allocation *a), aclError *err);
/* Makes a u8 tensor of bytes of device memory. Error messages name `function`. */
aclError allocation_bytes(const char *function, const void *address, size_t bytes,
                          weir_tensor **out);
/* Removes all records of a device, or of all devices (-1), and releases their tensors. */
void allocation_drop_all(int device);
void allocation_forget_all(void);

/* ---- vmm.c ---- */

/* Returns the bytes of physical memory that are allocated on a device. */
size_t physical_bytes(int device);

/* True if the process exists and is not a zombie. */
bool process_lives(uint32_t pid);

/* ---- ipc.c: memory of other processes ---- */

void ipc_forget(void);
void ipc_close_all(void);

/* ---- relay.c: lets a stream wait for something that is no event of weir ---- */

/* A barrier of two ranks. The waiting stream calls it as rank 0. Rank 1 calls it on the relay's own
 * stream, so that no other work waits with it. All zero: not open. */
struct relay {
    weir_group *group;
    weir_stream *stream;
};
/* Opens a relay for streams of device `to`; the relay's own stream is on `from`. After an error it
 * is closed. */
weir_status relay_open(struct relay *relay, weir_device *to, weir_device *from);
/* Queues rank 1's call on the relay's stream. Calls must be serialised. */
weir_status relay_signal(struct relay *relay);
/* Makes streams that still wait fail with the reason. Does nothing if the relay is not open.
 * returns  false if a stream has not failed yet: then the owner must not free the relay. */
bool relay_close(struct relay *relay, const char *reason);

/* ---- bridge.c ---- */

/* Makes the stream wait for an event of another device. */
aclError bridge_wait(const char *function, const weir_event *event, struct device *from,
                     struct stream *stream);
void bridge_free_all(void);
void bridge_forget(void);

/* ---- watch.c ---- */

enum watch_state { WATCH_WAITS, WATCH_OVER, WATCH_FAILED };

/* Makes the stream wait until `look` returns WATCH_OVER; a thread of the library polls it. If it
 * returns WATCH_FAILED, the stream fails with `failure`. `user` and `release` as in
 * weir_cann_defer. */
aclError watch_stream(aclrtStream stream, enum watch_state (*look)(void *user), void *user,
                      void (*release)(void *user), const char *failure);
/* Makes the thread poll at once: a condition may have changed. */
void watch_wake(void);
void watch_stop(void);
void watch_forget(void);

/* ---- shared_event.c: events in memory that processes share ---- */

struct shared_event;
aclError shared_event_create(const char *function, struct shared_event **out);
void shared_event_free(struct shared_event *event);
aclError shared_event_record(struct shared_event *event, struct stream *stream);
aclError shared_event_wait(struct shared_event *event, aclrtStream stream);
bool shared_event_done(struct shared_event *event);
/* True if another process recorded the event last. If this one did, weir's own event orders it. */
bool shared_event_foreign(struct shared_event *event);
/* Waits for the event; timeout -1: for ever. */
aclError shared_event_sync(const char *function, struct shared_event *event, int32_t timeout_ms);
void shared_event_export(const struct shared_event *event, aclrtIpcEventHandle *handle);
aclError shared_event_import(const char *function, const aclrtIpcEventHandle *handle,
                             struct shared_event **out);

/* ---- event.c ---- */

void event_free_all(void);
void notify_free_all(void);

/* ---- gate.c: streams that wait for the host ---- */

struct gate; /* one per stream; created on first use */

/* Returns the stream's gate. */
aclError gate_prepare(struct stream *stream, struct gate **out);
/* Queues a wait: work queued afterwards runs only after one more call of gate_open. */
aclError gate_close(const char *function, struct stream *stream);
/* Ends the oldest wait. With a failure, ends all waits and puts the stream in error.
 * threads  any, also in callbacks of weir. */
void gate_open(struct gate *gate, const char *failure);
/* The same after the work queued on `after` has completed. */
void gate_open_after(struct gate *gate, weir_stream *after);
void gate_free(struct gate *gate);

/* ---- capture.c ---- */

bool capture_active(const struct capture *capture);
/* weir_cann_enter for a stream that takes part in a capture. */
aclError capture_enter(struct stream *stream, struct weir_cann_launch *launch);
void capture_leave(struct weir_cann_launch *launch);
/* The record of an event in a capture. A stream that waits for the event joins the capture. */
struct capture_mark {
    uint64_t capture; /* its number; 0: the event was not recorded in one */
    uint64_t segment;
    weir_tensor *token;
};
aclError capture_record(struct stream *stream, struct capture_mark *mark);
/* Makes the stream wait for the mark; the stream joins the capture if it does not take part yet. */
aclError capture_wait(struct stream *stream, struct capture *capture,
                      const struct capture_mark *mark);
void capture_mark_clear(struct capture_mark *mark);
/* Returns the active capture of that number, or NULL. */
struct capture *capture_find(uint64_t id);
/* Adds a call of a host function to the graph. */
aclError capture_host(const char *function, struct stream *stream, aclrtCallback fn, void *user);
aclError capture_host_owned(const char *function, struct stream *stream, aclrtCallback fn,
                            void *user, void (*release)(void *user));
/* Called when a stream is destroyed. */
void capture_abandon(struct stream *stream);

/* ---- callback.c ---- */

/* weir_cann_resume after the work queued on `after` has completed. */
void resume_after(struct weir_cann_deferred *deferred, weir_stream *after);

void callback_forget_all(void);
void callback_stop(void);
/* Waits for a bounded time, once per thread, for threads that are subscribed to streams and have
 * never called aclrtProcessReport. MindSpore 2.10.0 frees the thread's argument when it destroys
 * the stream. A thread that has not started by then, on a busy machine, would read freed memory. */
void callback_await_threads(int64_t timeout_ns);

/* ---- report.c ---- */

/* Call report_begin before the first device is opened; report_end before the first device is
 * closed, or at the process's end. */
void report_begin(void);
void report_end(void);
void report_forget(void);

/* ---- source.c ---- */

/* Enables source_note. */
void source_want(void);
/* Tells weir the current Python line of the calling thread. Call with no lock held: it takes
 * Python's. */
void source_note(void);

/* ---- exception.c ---- */

/* Call when a wait of the host finds that work has failed. */
void exception_report(int32_t stream, int32_t device, aclError code);

/* ---- init.c ---- */

/* Returns a new number for a stream, a graph or another object. */
uint32_t next_id(void);
/* True between aclInit and aclFinalize. */
bool is_initialised(void);

#endif
