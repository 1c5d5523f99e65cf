/* The host allocator, growing texts, and sizes for people. */
#include "base/base.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *libc_alloc(void *user, size_t size, size_t align)
{
    void *p;

    (void)user;
    if (align <= _Alignof(max_align_t))
        return malloc(size);
    return posix_memalign(&p, align, size) ? NULL : p;
}

static void libc_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

static weir_allocator allocator = {libc_alloc, libc_free, NULL};
static atomic_int holders;

weir_status weir_allocator_set(const weir_allocator *replacement)
{
    if (replacement && (!replacement->alloc || !replacement->free))
        return weir__fail(WEIR_EINVAL, "an allocator needs both alloc and free");
    if (atomic_load(&holders))
        return weir__fail(WEIR_ESTATE, "the allocator cannot change while %d device(s) are open",
                          atomic_load(&holders));
    allocator = replacement ? *replacement : (weir_allocator){libc_alloc, libc_free, NULL};
    return WEIR_OK;
}

void weir__allocator_hold(int change)
{
    atomic_fetch_add(&holders, change);
}

void *weir__alloc_aligned(size_t size, size_t align)
{
    return allocator.alloc(allocator.user, size ? size : 1, align);
}

void *weir__malloc(size_t size)
{
    return weir__alloc_aligned(size, _Alignof(max_align_t));
}

void *weir__calloc(size_t count, size_t size)
{
    size_t total;
    void *p;

    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    if ((p = weir__malloc(total)))
        memset(p, 0, total);
    return p;
}

void weir__free(void *ptr)
{
    if (ptr)
        allocator.free(allocator.user, ptr);
}

char *weir__strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = weir__malloc(size);

    return copy ? memcpy(copy, text, size) : NULL;
}

bool weir__grow(void *array, int n, int *cap, size_t size)
{
    int want = *cap ? 2 * *cap : 16;
    void *old, *fresh;

    if (n < *cap)
        return true;
    memcpy(&old, array, sizeof old); /* whatever type it points to */
    if (!(fresh = weir__calloc((size_t)want, size))) {
        weir__fail_nomem("allocating a table of %d entries", want);
        return false;
    }
    if (n)
        memcpy(fresh, old, (size_t)n * size);
    weir__free(old);
    memcpy(array, &fresh, sizeof fresh);
    *cap = want;
    return true;
}

/* Texts use malloc, not the replaceable allocator, because users free() them. */
void weir__text_add(struct weir__text *text, const char *format, ...)
{
    va_list args;
    int n;

    for (;;) {
        size_t room = text->cap - text->size;

        va_start(args, format);
        n = vsnprintf(text->data ? text->data + text->size : NULL, room, format, args);
        va_end(args);
        if (n < 0 || text->failed)
            return;
        if ((size_t)n < room)
            break;
        size_t cap = text->size + (size_t)n + 1 + text->cap;
        char *data = realloc(text->data, cap);
        if (!data) {
            text->failed = true;
            return;
        }
        text->data = data;
        text->cap = cap;
    }
    text->size += (size_t)n;
}

void weir__text_free(struct weir__text *text)
{
    free(text->data);
    *text = (struct weir__text){0};
}

struct weir__size_text weir__size(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct weir__size_text out;
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < weir__countof(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(out.text, sizeof out.text, unit && value < 100 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return out;
}
