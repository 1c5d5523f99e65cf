/* What every file may use: errors, logging, host allocation, small helpers. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include "weir/status.h"

#define WEIR__LINE 64 /* bytes of a cache line */

#define weir__countof(a) (sizeof(a) / sizeof((a)[0]))
#define weir__likely(x) __builtin_expect(!!(x), 1)
#define weir__unlikely(x) __builtin_expect(!!(x), 0)
#define weir__containerof(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Keeps the formatted sentence as the thread's last error, logs it at debug
 * level and returns `status`. The sentence is cut at 4 KiB. */
weir_status weir__fail(weir_status status, const char *format, ...) WEIR_PRINTF(2, 3);
/* WEIR_ENOMEM: "out of host memory: " and what could not be done, or for what there was no room. */
weir_status weir__fail_nomem(const char *format, ...) WEIR_PRINTF(1, 2);

/* What a kernel has to say about its failure: the sentence of the thread's last weir__fail
 * since it was hushed, or NULL. weir_last_error is not touched. */
void weir__hush(void);
const char *weir__said(void);

/* WEIR_EINVAL if an object is NULL, as a failed call leaves it. `what` begins the sentence. */
weir_status weir__need(const void *object, const char *what);
/* Leaves a public function whose argument is NULL; `name` is its name in the header. */
#define WEIR__NEED(argument, name)                                                     \
    do {                                                                               \
        if (weir__unlikely(!(argument)))                                               \
            return weir__fail(WEIR_EINVAL, "%s: %s must not be NULL", __func__, name); \
    } while (0)

/* The status of the thread's last weir__fail, for calls that return a pointer. */
weir_status weir__last_status(void);

/* A message for the log, nothing if nobody listens at that level. */
void weir__log(weir_log_level level, const char *format, ...) WEIR_PRINTF(2, 3);

/* Through the replaceable allocator; NULL when out of memory. weir__alloc_aligned
 * takes a power of two. All are freed by weir__free. */
void *weir__malloc(size_t size);
void *weir__calloc(size_t count, size_t size);
void *weir__alloc_aligned(size_t size, size_t align);
void weir__free(void *ptr);
char *weir__strdup(const char *text);
/* Room for one more than n entries of `size` bytes in the array that *array points to;
 * false, with the error set and nothing changed, when out of memory. */
bool weir__grow(void *array, int n, int *cap, size_t size);

/* Open devices, which pin the allocator. */
void weir__allocator_hold(int change);

/* A growing text; after a failed allocation it stays valid and says so. */
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

/* "1.5 GiB" in a static-size struct, so that it can be used inside a call. */
struct weir__size_text {
    char text[24];
};
struct weir__size_text weir__size(size_t bytes);

#endif
