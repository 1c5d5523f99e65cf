/* Scopes: settings for the operators called inside them.
 *
 * Scopes nest. Every operator that this thread calls gets the settings of all open scopes. If
 * several scopes of one kind are open, the innermost applies. Leaving a scope restores the settings
 * from before it. Scopes work the same whether operators run at once or are captured.
 *
 *     WEIR_STREAM_SCOPE("1", 0) {
 *         weir_matmul(a, b, &c);      // on the stream tagged "1"
 *     }                               // also left by break, goto and return
 *
 * threads  any; each thread has its own scopes.
 */
#ifndef WEIR_SCOPE_H
#define WEIR_SCOPE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weir_scope_kind {
    WEIR_SCOPE_STREAM,        /* tag and priority */
    WEIR_SCOPE_CORES,         /* core limits of the operators themselves */
    WEIR_SCOPE_SUPER_KERNEL,  /* operators fused into one launch */
    WEIR_SCOPE_NEVER_TIMEOUT, /* op_timeout does not apply to the operators */
} weir_scope_kind;

/* Enters a scope; weir_scope_pop with the same kind leaves it. A thread may have 32 open.
 * returns  WEIR_EINVAL for an empty tag or name, or malformed options; WEIR_ERANGE
 *          for a priority outside -8..7 or a core count below 1 that is not -1 (the
 *          device's maximum is checked when an operator is called). On an error no scope is
 *          entered. */
WEIR_API WEIR_MUST_USE weir_status weir_scope_push_stream(const char *tag, int priority);
WEIR_API WEIR_MUST_USE weir_status weir_scope_push_cores(weir_cores limit);
/* options: "key=value:key=value" of stream-fusion (0, 1), strict-scope-check (bypass,
 * abort), feed-sync-all (0, 1), debug-aic-num and debug-aiv-num (counts). With name NULL the
 * operators inside belong to no super kernel, even if an outer scope opened one. */
WEIR_API WEIR_MUST_USE weir_status weir_scope_push_super_kernel(const char *name,
                                                                const char *options);
WEIR_API WEIR_MUST_USE weir_status weir_scope_push_never_timeout(bool enable);

/* Leaves the innermost scope.
 * returns  WEIR_ESTATE if none is open or the innermost is of another kind; nothing
 *          changes then. */
WEIR_API weir_status weir_scope_pop(weir_scope_kind kind);

/* How many scopes are open on this thread. */
WEIR_API int weir_scope_depth(void);

/* Orders everything that uses `self` afterwards, on any stream, after the work that computes
 * `dependency`. In eager mode the current stream, and every stream that uses `self` later, waits
 * for the stream on which `dependency` was last used.
 * returns  WEIR_EDEVICE if the two are of different devices. */
WEIR_API WEIR_MUST_USE weir_status weir_wait_tensor(weir_tensor *self, weir_tensor *dependency);

/* ---- block forms ---- */

typedef struct weir_scope_guard {
    weir_scope_kind kind;
    weir_status status; /* of entering; the body does not run if it failed */
    bool open;
} weir_scope_guard;

WEIR_API weir_scope_guard weir_scope_enter_stream(const char *tag, int priority);
WEIR_API weir_scope_guard weir_scope_enter_cores(int cube, int vector);
WEIR_API weir_scope_guard weir_scope_enter_super_kernel(const char *name, const char *options);
WEIR_API weir_scope_guard weir_scope_enter_never_timeout(bool enable);
WEIR_API void weir_scope_leave(weir_scope_guard *guard);

#if defined(__GNUC__)
#define WEIR_SCOPE_PASTE_(a, b) a##b
#define WEIR_SCOPE_PASTE(a, b) WEIR_SCOPE_PASTE_(a, b)
#define WEIR_SCOPE_WITH(guard, enter)                                                           \
    for (weir_scope_guard guard __attribute__((cleanup(weir_scope_leave))) = enter; guard.open; \
         weir_scope_leave(&guard))
#define WEIR_STREAM_SCOPE(tag, priority) \
    WEIR_SCOPE_WITH(WEIR_SCOPE_PASTE(weir_guard_, __LINE__), weir_scope_enter_stream(tag, priority))
#define WEIR_CORE_SCOPE(cube, vector) \
    WEIR_SCOPE_WITH(WEIR_SCOPE_PASTE(weir_guard_, __LINE__), weir_scope_enter_cores(cube, vector))
#define WEIR_SUPER_KERNEL_SCOPE(name, options)               \
    WEIR_SCOPE_WITH(WEIR_SCOPE_PASTE(weir_guard_, __LINE__), \
                    weir_scope_enter_super_kernel(name, options))
#define WEIR_NEVER_TIMEOUT_SCOPE(enable) \
    WEIR_SCOPE_WITH(WEIR_SCOPE_PASTE(weir_guard_, __LINE__), weir_scope_enter_never_timeout(enable))
#endif

#ifdef __cplusplus
}
#endif
#endif
