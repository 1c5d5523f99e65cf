/* What libascendcl offers to the libraries beside it (libopapi, libhccl), and to nobody else.
 *
 * AscendCL's handles stand for weir's objects here: a stream for a weir_stream, a context for a
 * weir_device, memory from aclrtMalloc or mapped by aclrtMapMem for a weir_tensor of its bytes. An
 * operator is queued so:
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
 * the graph if the stream is being captured. Tensors share the allocation that their bytes lie in:
 * memory freed meanwhile keeps its bytes until the work is over, and the race checker compares
 * whatever lies in one allocation. Release them as soon as the operators are queued.
 *
 * Functions return an aclError: 0, or a code whose message this thread's aclGetRecentErrMsg has.
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

/* The device of the calling thread's context.
 * returns  ACL_ERROR_RT_CONTEXT_NULL if the thread has none. */
WEIR_CANN_API aclError weir_cann_device(weir_device **out);

/* The stream behind the handle; NULL is the default stream of the thread's context.
 * returns  ACL_ERROR_RT_PARAM_INVALID for what is no stream; ACL_ERROR_RT_CONTEXT_NULL. */
WEIR_CANN_API aclError weir_cann_stream(aclrtStream stream, weir_stream **out);

/* Whether operators on the stream become nodes of a graph. False for what is no stream. */
WEIR_CANN_API bool weir_cann_is_capturing(aclrtStream stream);

/* What enter changed, for leave. */
struct weir_cann_launch {
    weir_stream *stream;
    weir_stream *previous; /* that was current; NULL while capturing */
    void *capture;         /* locked until leave */
    int scopes;            /* open ones of `kinds` */
    weir_scope_kind kinds[2];
};

/* returns  as weir_cann_stream; the error that a broken capture has; nothing is entered then. */
WEIR_CANN_API aclError weir_cann_enter(aclrtStream stream, struct weir_cann_launch *launch);
WEIR_CANN_API void weir_cann_leave(struct weir_cann_launch *launch);

/* A view of device memory, which may begin anywhere in an allocation; strides are in elements, NULL
 * means contiguous. Costs no allocation of memory once warm.
 * returns  ACL_ERROR_RT_PARAM_INVALID, naming the address, if the bytes are not within one
 *          allocation (or one reserved range) of this process that is still alive. */
WEIR_CANN_API aclError weir_cann_tensor(const void *address, weir_dtype dtype, int ndim,
                                        const int64_t *shape, const int64_t *strides,
                                        weir_tensor **out);

/* The same for several at once, which costs less. All of them, or none. */
struct weir_cann_view {
    const void *address;
    weir_dtype dtype;
    int ndim;
    const int64_t *shape, *strides;
};
WEIR_CANN_API aclError weir_cann_tensors(const struct weir_cann_view *views, int n,
                                         weir_tensor **out);

/* Work that others do in stream order, on threads of their own. When the stream gets there `begin`
 * is called, on a thread that must not wait; what is queued on the stream afterwards waits until
 * weir_cann_resume. With a failure the stream is in error with that text. Captured, both happen at
 * each run of the graph. `release`, which may be NULL, is called once, when `user` is needed no
 * more: when the graph goes, else before the resume ends, and also if this returns an error. */
struct weir_cann_deferred;
typedef void (*weir_cann_begin_fn)(void *user, struct weir_cann_deferred *deferred);
WEIR_CANN_API aclError weir_cann_defer(aclrtStream stream, weir_cann_begin_fn begin, void *user,
                                       void (*release)(void *user));
WEIR_CANN_API void weir_cann_resume(struct weir_cann_deferred *deferred, const char *failure);

/* A call of an operator by name, of before aclnn. libascendcl knows some itself; the others are
 * libopapi's, which has these two functions: */
struct weir_cann_named {
    const char *name;
    int inputs, outputs; /* at least one each, and none of these is NULL: */
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

/* Whether there is an operator of that name, of either library. */
WEIR_CANN_API bool weir_cann_has_named(const char *name);
/* An attribute as it was set last; NULL. */
WEIR_CANN_API const int64_t *weir_cann_attr_ints(const struct aclopAttr *attr, const char *name,
                                                 int *n);
WEIR_CANN_API const char *weir_cann_attr_text(const struct aclopAttr *attr, const char *name);

/* What queueing an operator came to: gives `err` back. torch_npu queues by a thread of its own,
 * whose first error it tells once; whatever is queued later it drops, and results are what memory
 * happens to hold. So after an error of that thread every wait and every copy to the host fails
 * with it. */
WEIR_CANN_API aclError weir_cann_launched(aclError err);

/* Keeps a message for this thread and returns `code`. */
WEIR_CANN_API aclError weir_cann_fail(aclError code, const char *format, ...) WEIR_PRINTF(2, 3);

/* The same for a failed call of weir: its code in AscendCL's numbers, its message behind `what`.
 * WEIR_OK gives 0. */
WEIR_CANN_API aclError weir_cann_fail_status(weir_status status, const char *what);

#ifdef __cplusplus
}
#endif
#endif
