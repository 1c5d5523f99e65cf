/* Helpers for all files: errors, logging, host allocation. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include "weir/status.h"

#define WEIR__LINE 64 /* bytes of a cache line */

#define weir__countof(a) (sizeof(a) / sizeof((a)[0]))
#define weir__likely(x) __builtin_expect(!!(x), 1)
#define weir__unlikely(x) __builtin_expect(!!(x), 0)
#define weir__containerof(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Sets the thread's last error to the formatted text, logs it at debug level and returns `status`.
 * The text is cut at 4 KiB. */
weir_status weir__fail(weir_status status, const char *format, ...) WEIR_PRINTF(2, 3);
/* Fails with WEIR_ENOMEM: "out of host memory: " and the operation that failed. */
weir_status weir__fail_nomem(const char *format, ...) WEIR_PRINTF(1, 2);

/* Lets a kernel report why it failed. weir__said returns the text of the thread's last weir__fail
 * since weir__hush, or NULL. weir__hush does not change weir_last_error. */
void weir__hush(void);
const char *weir__said(void);

/* Fails with WEIR_EINVAL if an object is NULL, as after a failed create call. The error begins with
 * `what`. */
weir_status weir__need(const void *object, const char *what);
/* Returns WEIR_EINVAL from a public function if the argument is NULL; `name` is its name in the
 * header. */
#define WEIR__NEED(argument, name)                                                     \
    do {                                                                               \
        if (weir__unlikely(!(argument)))                                               \
            return weir__fail(WEIR_EINVAL, "%s: %s must not be NULL", __func__, name); \
    } while (0)

/* Returns the status of the thread's last weir__fail. For use after calls that return a pointer. */
weir_status weir__last_status(void);

/* Writes a message to the log; does nothing if there is no listener at that level. */
void weir__log(weir_log_level level, const char *format, ...) WEIR_PRINTF(2, 3);

/* Allocate with the replaceable allocator; NULL when out of memory. `align` is a power of two. All
 * memory is freed by weir__free. */
void *weir__malloc(size_t size);
void *weir__calloc(size_t count, size_t size);
void *weir__alloc_aligned(size_t size, size_t align);
void weir__free(void *ptr);
char *weir__strdup(const char *text);
/* Makes room for one more than n entries of `size` bytes in the array that *array points to. False,
 * with the error set and nothing changed, when out of memory. */
bool weir__grow(void *array, int n, int *cap, size_t size);

/* Adds `change` to the number of open devices. While it is not 0 the allocator cannot be
 * replaced. */
void weir__allocator_hold(int change);

/* A growing text. After a failed allocation it stays valid and `failed` is true. */
struct weir__text {
    char *data;
    size_t size, cap;
    bool failed;
};
void weir__text_add(struct weir__text *text, const char *format, ...) WEIR_PRINTF(2, 3);
void weir__text_free(struct weir__text *text);

static inline int64_t weir__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t weir__max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t weir__div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Returns text such as "1.5 GiB" in a struct, so that it can be used as an argument of a call. */
struct weir__size_text {
    char text[24];
};
struct weir__size_text weir__size(size_t bytes);

#endif
