/* The runtime inside libascendcl: what its handles stand for.
 *
 * A handle is a number in a pointer's clothes: kind, generation and place in one table. Whatever a
 * program passes in is looked up there and never followed, so that NULLs, garbage and handles of
 * destroyed objects are errors.
 *
 * Locks, outermost first: a capture's (capture.c), the objects' (handle.c, device.c), the
 * allocations' (allocation.c). Calls of weir that wait are made with none held.
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
/* The error with which torch_npu's queue has ended, if it has (weir_cann_launched). */
aclError launch_check(const char *function);
void launch_forget(void);
aclError weir_cann_fail_in(const char *function, aclError code, const char *format, ...)
    WEIR_PRINTF(3, 4);
/* A pointer that must be there. */
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

/* A new handle for the object; NULL when out of memory. */
void *handle_new(enum kind kind, void *object);
/* What it stands for; NULL if it is no handle of that kind, or no longer. */
void *handle_get(const void *handle, enum kind kind);
/* The same; it stays in being until it is released. */
void *handle_hold(const void *handle, enum kind kind);
void handle_release(const void *handle);
/* Takes the handle out of the table and gives what it stood for, once, when no other thread holds
 * or visits it any more. */
void *handle_take(const void *handle, enum kind kind);
/* Calls `visit` with every object of a kind. It stays in being meanwhile, unless `visit` takes it.
 */
void handle_each(enum kind kind, void (*visit)(void *object, void *user), void *user);
/* The child of a fork has none of its parent's streams, events, contexts, graphs. */
void handle_forget_all(void);

/* ---- device.c ---- */

struct device {
    int id;
    weir_device *dev;
    weir_device_props props;
    struct context *primary;
    int primary_refs;  /* aclrtSetDevice without aclrtResetDevice */
    weir_event *epoch; /* recorded when it was opened, for time stamps */
};

/* Opens the device on first use.
 * returns  ACL_ERROR_RT_INVALID_DEVICEID naming how many there are; what opening returns. */
aclError device_get(int32_t id, struct device **out);
uint32_t device_count(void);
/* NULL unless it has been opened. */
struct device *device_opened(int32_t id);
void device_close_all(void);
void device_forget_all(void);

/* ---- context.c ---- */

struct context {
    void *handle;
    struct device *device;
    bool primary;
    struct stream *stream; /* what NULL means */
    weir_stream *copies;   /* carries synchronous copies; made on first use */
    pthread_mutex_t lock;
};

/* The calling thread's.
 * returns  ACL_ERROR_RT_CONTEXT_NULL. */
aclError context_current(struct context **out);
/* Whether the calling thread has ever had one. */
bool context_set(void);
aclError context_create(struct device *device, bool primary, struct context **out);
void context_destroy(struct context *context);
/* The stream that synchronous copies are made on. */
aclError context_copies(struct context *context, weir_stream **out);
/* The calling thread forgets its context: in the child of a fork. */
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
    _Atomic(struct capture *) capture; /* it takes part in; NULL */
    int lane;                          /* of the capture: 0 is the stream that began it */
    _Atomic uint64_t reporter;         /* thread that takes its callbacks; 0: none */
    struct gate *gate;                 /* made on first use */
    weir_cores limit;                  /* -1: none */
    pthread_mutex_t lock;              /* gate, limit */
};

/* NULL is the default stream of the thread's context. */
aclError stream_get(aclrtStream handle, struct stream **out);
aclError stream_create(struct context *context, uint32_t priority, uint32_t flags,
                       struct stream **out);
void stream_free(struct stream *stream);
/* Refuses what cannot be done while the stream is captured. */
aclError stream_check_eager(const char *function, struct stream *stream);

/* ---- limit.c ---- */

/* The limit that an operator on `stream` has by what its thread uses; {-1, -1}: the stream's own.
 */
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
    int device;         /* of the context that made it */
    weir_tensor *bytes; /* all of it, u8; NULL for the host's */
    size_t padding;     /* bytes in front of `base` that were asked for its alignment */
    int fd;             /* of the file that is mapped there for other processes, and ... */
    uint64_t inode;     /* ... its number; 0: there is none */
};

/* Takes the record over (a copy).
 * returns  ACL_ERROR_BAD_ALLOC. */
aclError allocation_add(const struct allocation *allocation);
/* The record that begins at `base`, taken out; false if there is none of that kind. */
bool allocation_take(const void *base, enum allocation_kind kind, struct allocation *out);
/* A copy of the record that `address` lies in. Its tensor is not retained. */
bool allocation_find(const void *address, struct allocation *out);
/* Calls `change` with the record that begins at `base`, while nobody finds it; false: there is
 * none. */
bool allocation_change(const void *base, aclError (*change)(struct allocation *a), aclError *err);
/* A u8 tensor of the bytes of device memory, in the caller's name for messages. */
aclError allocation_bytes(const char *function, const void *address, size_t bytes,
                          weir_tensor **out);
/* Forgets everything of a device, or of all (-1): tensors are released. */
void allocation_drop_all(int device);
void allocation_forget_all(void);

/* ---- vmm.c ---- */

/* Bytes of physical memory that a device has given out. */
size_t physical_bytes(int device);

/* Whether a process is there and not only waits to be buried. */
bool process_lives(uint32_t pid);

/* ---- ipc.c: memory of other processes ---- */

void ipc_forget(void);
void ipc_close_all(void);

/* ---- relay.c: what a stream waits for that weir has no event for ---- */

/* A barrier of two. The stream that waits makes the calls of rank 0; those of rank 1 are made on a
 * stream of the relay's own, so that nothing else waits with it. Zero: not open. */
struct relay {
    weir_group *group;
    weir_stream *stream;
};
/* For streams of `to`; the relay's own is of `from`. After an error it is closed. */
weir_status relay_open(struct relay *relay, weir_device *to, weir_device *from);
/* Rank 1's call, behind what the relay's stream waits for. One at a time. */
weir_status relay_signal(struct relay *relay);
/* Streams that still wait fail for that reason. Nothing if it is not open.
 * returns  false if one has yet to fail: whoever holds the relay must leave it where it is. */
bool relay_close(struct relay *relay, const char *reason);

/* ---- bridge.c ---- */

/* The stream waits for an event of another device. */
aclError bridge_wait(const char *function, const weir_event *event, struct device *from,
                     struct stream *stream);
void bridge_free_all(void);
void bridge_forget(void);

/* ---- watch.c ---- */

enum watch_state { WATCH_WAITS, WATCH_OVER, WATCH_FAILED };

/* The stream waits until `look`, called again and again on a thread of the library's, says that it
 * is over; a wait that failed puts the stream in error with `failure`. `user` as with
 * weir_cann_defer. */
aclError watch_stream(aclrtStream stream, enum watch_state (*look)(void *user), void *user,
                      void (*release)(void *user), const char *failure);
/* Something that is waited for may have changed. */
void watch_wake(void);
void watch_stop(void);
void watch_forget(void);

/* ---- shared_event.c: an event's record in memory that processes share ---- */

struct shared_event;
aclError shared_event_create(const char *function, struct shared_event **out);
void shared_event_free(struct shared_event *event);
aclError shared_event_record(struct shared_event *event, struct stream *stream);
aclError shared_event_wait(struct shared_event *event, aclrtStream stream);
bool shared_event_done(struct shared_event *event);
/* Whether another process was the last to record it; what this one records, weir orders. */
bool shared_event_foreign(struct shared_event *event);
/* -1: for ever. */
aclError shared_event_sync(const char *function, struct shared_event *event, int32_t timeout_ms);
void shared_event_export(const struct shared_event *event, aclrtIpcEventHandle *handle);
aclError shared_event_import(const char *function, const aclrtIpcEventHandle *handle,
                             struct shared_event **out);

/* ---- event.c ---- */

void event_free_all(void);
void notify_free_all(void);

/* ---- gate.c: streams wait for the host ---- */

struct gate; /* one per stream; made on first use */

/* The stream's gate. */
aclError gate_prepare(struct stream *stream, struct gate **out);
/* What is queued on the stream from now on waits until its gate has been opened once more. */
aclError gate_close(const char *function, struct stream *stream);
/* Lets one wait go, in the order they were queued; with a failure, all: the stream is in error.
 * threads  any, also callbacks of weir's. */
void gate_open(struct gate *gate, const char *failure);
/* The same once what is queued on `after` is over. */
void gate_open_after(struct gate *gate, weir_stream *after);
void gate_free(struct gate *gate);

/* ---- capture.c ---- */

bool capture_active(const struct capture *capture);
/* As weir_cann_enter's second half, on a stream that takes part. */
aclError capture_enter(struct stream *stream, struct weir_cann_launch *launch);
void capture_leave(struct weir_cann_launch *launch);
/* Of an event recorded in a capture: a stream that waits for it joins. */
struct capture_mark {
    uint64_t capture; /* its number; 0: the event was not recorded in one */
    uint64_t segment;
    weir_tensor *token;
};
aclError capture_record(struct stream *stream, struct capture_mark *mark);
/* The stream, if it does not yet take part in the capture, joins it. */
aclError capture_wait(struct stream *stream, struct capture *capture,
                      const struct capture_mark *mark);
void capture_mark_clear(struct capture_mark *mark);
/* The capture of that number, while it lasts; NULL. */
struct capture *capture_find(uint64_t id);
/* A call of the host's function becomes part of the graph. */
aclError capture_host(const char *function, struct stream *stream, aclrtCallback fn, void *user);
aclError capture_host_owned(const char *function, struct stream *stream, aclrtCallback fn,
                            void *user, void (*release)(void *user));
/* The stream goes away. */
void capture_abandon(struct stream *stream);

/* ---- callback.c ---- */

/* As weir_cann_resume, once what is queued on `after` is over. */
void resume_after(struct weir_cann_deferred *deferred, weir_stream *after);

void callback_forget_all(void);
void callback_stop(void);
/* Waits, once and not for long, for threads that are subscribed to streams and have never asked for
 * callbacks. MindSpore 2.10.0 frees what it starts such a thread with when the stream goes: one
 * that a busy machine has not let begin until then would read freed memory. */
void callback_await_threads(int64_t timeout_ns);

/* ---- report.c ---- */

/* Before the first device is opened; before the first is closed, or at the process's end. */
void report_begin(void);
void report_end(void);
void report_forget(void);

/* ---- source.c ---- */

/* From now on source_note tells weir which line of Python the calling thread is at. */
void source_want(void);
/* With no lock held: it takes Python's. */
void source_note(void);

/* ---- exception.c ---- */

/* A wait of the host came upon failed work. */
void exception_report(int32_t stream, int32_t device, aclError code);

/* ---- init.c ---- */

/* Numbers for streams, models and the like. */
uint32_t next_id(void);
/* Between aclInit and aclFinalize. */
bool is_initialised(void);

#endif
