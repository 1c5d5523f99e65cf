/* Status codes, the last error, logging and the host allocator.
 *
 * Every call that can fail returns a weir_status. If it is not WEIR_OK, output pointers are set
 * to NULL and the calling thread keeps a message that names the thing, the rule and the value
 * (weir_last_error). Passing a tensor, graph or plan that is NULL gives WEIR_EINVAL. Other
 * pointers may be NULL only where the function's comment says so.
 *
 * Later versions may add fields at the end of a struct. Programs built against another version
 * keep working: an options struct begins with `size`, which is its sizeof, or 0 for the fields of
 * version 0.1; fields that this library does not know must be 0. A function that fills a struct
 * takes its size, fills the fields that fit and sets the rest to 0. These never change: rows of
 * arrays inside other structs (findings, traces), structs that are passed by value, weir_allocator,
 * weir_attr, weir_message, what weir_trace_make copies and, from version 0.2 on, parameters of
 * operators.
 */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define WEIR_MUST_USE __attribute__((warn_unused_result))
#else
#define WEIR_API
#define WEIR_PRINTF(fmt, args)
#define WEIR_MUST_USE
#endif

/* code, text */
#define WEIR_STATUS_LIST(X)                           \
    X(OK, "success")                                  \
    X(EINVAL, "invalid argument")                     \
    X(ERANGE, "value out of range")                   \
    X(ESHAPE, "shapes do not fit")                    \
    X(EDTYPE, "data type does not fit")               \
    X(EDEVICE, "objects belong to different devices") \
    X(ESPEC, "malformed device spec")                 \
    X(EUNAVAILABLE, "not available on this machine")  \
    X(EUNSUPPORTED, "not supported by this device")   \
    X(ENOMEM, "out of host memory")                   \
    X(EOOM, "out of device memory")                   \
    X(ESTATE, "not allowed in this state")            \
    X(EBUSY, "still in use")                          \
    X(ECONFLICT, "options conflict")                  \
    X(EPARSE, "malformed input")                      \
    X(EIO, "input or output failed")                  \
    X(EKERNEL, "an operator failed")                  \
    X(ETIMEDOUT, "timed out")                         \
    X(EDEADLOCK, "deadlock")                          \
    X(EINTERNAL, "internal error")                    \
    X(EINTERRUPTED, "interrupted")                    \
    X(ERACE, "unordered accesses to the same memory") \
    X(EDRIVER, "the device or its driver failed")

typedef enum weir_status {
#define WEIR_STATUS_ENUM(code, text) WEIR_##code,
    WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
        WEIR_STATUS_COUNT
} weir_status;

/* The code's name ("WEIR_ESHAPE") and its general text. Never NULL.
 * threads  any. */
WEIR_API const char *weir_status_name(weir_status status);
WEIR_API const char *weir_status_text(weir_status status);

/* The message of this thread's last failed call, "" if none failed yet.
 * Valid until the thread's next failing call.
 * threads  any; each thread has its own. */
WEIR_API const char *weir_last_error(void);

typedef enum weir_log_level {
    WEIR_LOG_ERROR,
    WEIR_LOG_WARN,
    WEIR_LOG_INFO,
    WEIR_LOG_DEBUG,
} weir_log_level;

typedef void (*weir_log_fn)(void *user, weir_log_level level, const char *text);

/* Sends messages up to `level` to `fn`; NULL turns logging off. Without a call, WEIR_LOG (error,
 * warn, info, debug) sends them to stderr, and without that variable nothing is printed.
 * threads  any; `fn` is called from any thread, one call at a time, and must not call weir. */
WEIR_API void weir_log_set(weir_log_fn fn, void *user, weir_log_level level);

/* Host allocator of the library's own records (not of tensors). */
typedef struct weir_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr);
    void *user;
} weir_allocator;

/* Replaces the allocator; NULL restores the C library's.
 * returns  WEIR_ESTATE while a device is open.
 * threads  one; `alloc` and `free` must be safe from any thread. */
WEIR_API weir_status weir_allocator_set(const weir_allocator *allocator);

/* "MAJOR.MINOR.PATCH" */
WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif
#endif
