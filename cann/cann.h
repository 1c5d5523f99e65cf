/* The interface of libascendcl for libopapi and libhccl; no other library uses it.
 *
 * AscendCL's handles stand for weir's objects: a stream for a weir_stream, a context for a
 * weir_device, memory from aclrtMalloc or mapped by aclrtMapMem for a weir_tensor of its bytes.
 * This queues an operator:
 *
 *     struct weir_cann_launch launch;
 *
 *     if ((err = weir_cann_enter(stream, &launch)))
 *         return err;
 *     err = weir_cann_tensor(address, WEIR_F32, 2, shape, strides, &x);   // for each operand
 *     ...
 *     st = weir_add_into(x, y, out);                                      // any operators of weir
 *     ...
 *     weir_cann_leave(&launch);
 *
 * Between enter and leave the thread's operators go to that stream, under its core limits, or into
 * the graph if the stream is being captured. A tensor holds a reference to the allocation that
 * contains its bytes. So memory that is freed meanwhile stays valid until the work completes, and
 * the race checker compares all accesses to one allocation. Release tensors as soon as the
 * operators are queued.
 *
 * Functions return an aclError: 0, or a code whose message aclGetRecentErrMsg returns on this
 * thread.
 * threads  any, for all of these.
 */
#ifndef WEIR_CANN_CANN_H
#define WEIR_CANN_CANN_H

#include "acl/acl_base.h"
#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CANN_API __attribute__((visibility("default")))

/* Returns the device of the calling thread's context.
 * returns  ACL_ERROR_RT_CONTEXT_NULL if the thread has none. */
WEIR_CANN_API aclError weir_cann_device(weir_device **out);

/* Returns the stream of the handle; NULL is the default stream of the thread's context.
 * returns  ACL_ERROR_RT_PARAM_INVALID if the handle is no stream; ACL_ERROR_RT_CONTEXT_NULL. */
WEIR_CANN_API aclError weir_cann_stream(aclrtStream stream, weir_stream **out);

/* True if operators on the stream become nodes of a graph. False if the handle is no stream. */
WEIR_CANN_API bool weir_cann_is_capturing(aclrtStream stream);

/* The state that enter changed and leave restores. */
struct weir_cann_launch {
    weir_stream *stream;
    weir_stream *previous; /* the thread's current stream before; NULL while capturing */
    void *capture;         /* locked until leave */
    int scopes;            /* number of open scopes, of the kinds in `kinds` */
    weir_scope_kind kinds[2];
};

/* returns  as weir_cann_stream, or the error of a broken capture; then nothing is entered. */
WEIR_CANN_API aclError weir_cann_enter(aclrtStream stream, struct weir_cann_launch *launch);
WEIR_CANN_API void weir_cann_leave(struct weir_cann_launch *launch);

/* Makes a view of device memory, which may begin anywhere in an allocation. Strides are in
 * elements; NULL means contiguous. Allocates no memory once its caches are warm. returns
 * ACL_ERROR_RT_PARAM_INVALID, naming the address, if the bytes are not within one allocation (or
 * one reserved range) of this process that is still alive. */
WEIR_CANN_API aclError weir_cann_tensor(const void *address, weir_dtype dtype, int ndim,
                                        const int64_t *shape, const int64_t *strides,
                                        weir_tensor **out);

/* Makes several views at once, which is cheaper. Either all succeed or none is made. */
struct weir_cann_view {
    const void *address;
    weir_dtype dtype;
    int ndim;
    const int64_t *shape, *strides;
};
WEIR_CANN_API aclError weir_cann_tensors(const struct weir_cann_view *views, int n,
                                         weir_tensor **out);

/* Queues work that the caller does on its own threads, in stream order. When the stream reaches it,
 * `begin` is called on a thread that must not block. Work queued afterwards waits until the caller
 * calls weir_cann_resume; if `failure` is not NULL, the stream then fails with that text. If the
 * stream is captured, both happen at each run of the graph. `release`, which may be NULL, is called
 * exactly once, when `user` is no longer needed: when the graph is freed, or else before
 * weir_cann_resume returns, or if this function returns an error. */
struct weir_cann_deferred;
typedef void (*weir_cann_begin_fn)(void *user, struct weir_cann_deferred *deferred);
WEIR_CANN_API aclError weir_cann_defer(aclrtStream stream, weir_cann_begin_fn begin, void *user,
                                       void (*release)(void *user));
WEIR_CANN_API void weir_cann_resume(struct weir_cann_deferred *deferred, const char *failure);

/* A call of an operator by name, which is the interface before aclnn. libascendcl implements some
 * operators itself; libopapi implements the others and exports weir_cann_serve_named and
 * weir_cann_serves_named. */
struct weir_cann_named {
    const char *name;
    int inputs, outputs; /* at least one each; the elements of the arrays are not NULL */
    const aclTensorDesc *const *from;
    const aclDataBuffer *const *sources;
    const aclTensorDesc *const *to;
    const aclDataBuffer *const *targets;
    const struct aclopAttr *attr;
    aclrtStream stream;
};
typedef aclError (*weir_cann_named_fn)(const struct weir_cann_named *op);
WEIR_CANN_API aclError weir_cann_serve_named(const struct weir_cann_named *op);
WEIR_CANN_API bool weir_cann_serves_named(const char *name);

/* True if either library has an operator of that name. */
WEIR_CANN_API bool weir_cann_has_named(const char *name);
/* Return the last value set for an attribute, or NULL. */
WEIR_CANN_API const int64_t *weir_cann_attr_ints(const struct aclopAttr *attr, const char *name,
                                                 int *n);
WEIR_CANN_API const char *weir_cann_attr_text(const struct aclopAttr *attr, const char *name);

/* Records the result of queueing an operator, and returns `err`. torch_npu queues operators from
 * its own thread, reports that thread's first error once, and drops all operators queued later;
 * their results are undefined memory. So after an error on that thread, every wait of the host and
 * every copy to the host fails with the error. */
WEIR_CANN_API aclError weir_cann_launched(aclError err);

/* Sets this thread's error message and returns `code`. */
WEIR_CANN_API aclError weir_cann_fail(aclError code, const char *format, ...) WEIR_PRINTF(2, 3);

/* The same for the status of a call of weir: returns AscendCL's code for it, and sets the message
 * to `what` followed by weir's message. WEIR_OK returns 0. */
WEIR_CANN_API aclError weir_cann_fail_status(weir_status status, const char *what);

#ifdef __cplusplus
}
#endif
#endif
