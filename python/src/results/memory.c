/* Arenas of huge pages, divided into spans. Adjacent free spans are merged. A request takes the
 * first free span by address, so that every call reuses the same few pages. */
#define _GNU_SOURCE
#include "results/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GRAIN ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define ARENA ((size_t)32 << 20)
/* The most free bytes that keep their pages. */
#define KEEP ((size_t)256 << 20)
/* An arena is unmapped if it has been empty while this many spans were taken. */
#define IDLE_TAKES 1024

struct span {
    char *start;
    size_t size;
    struct arena *arena;
    struct span *before, *after; /* neighbours in the arena */
    bool used;
    bool has_pages; /* of a free span: some of its pages may be resident */
};

struct arena {
    char *base;
    size_t size, used;
    struct span *first;
    struct arena *next;
    uint64_t empty_since; /* the value of `takes` when it became empty */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct arena *arenas;
static uint64_t takes;
static struct result_memory stats;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static char *map(size_t size)
{
    char *raw = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start;

    if (raw == MAP_FAILED)
        return NULL;
    start = (char *)round_up((size_t)(uintptr_t)raw, HUGE_PAGE);
    if (start > raw)
        munmap(raw, (size_t)(start - raw));
    if (start < raw + HUGE_PAGE)
        munmap(start + size, (size_t)(raw + HUGE_PAGE - start));
    madvise(start, size, MADV_HUGEPAGE); /* advice only: a failure does no harm */
    return start;
}

static struct span *new_span(struct arena *a, char *start, size_t size)
{
    struct span *s = calloc(1, sizeof *s);

    if (s) {
        s->start = start;
        s->size = size;
        s->arena = a;
    }
    return s;
}

/* Maps an arena for a span of `size`, with room for results that grow. NULL if out of memory. */
static struct arena *add_arena(size_t size)
{
    struct arena *a = calloc(1, sizeof *a), **at = &arenas;

    if (!a)
        return NULL;
    a->size = size <= ARENA / 2 ? ARENA : round_up(size + size / 8, HUGE_PAGE);
    a->empty_since = takes;
    if (!(a->base = map(a->size)) || !(a->first = new_span(a, a->base, a->size))) {
        if (a->base)
            munmap(a->base, a->size);
        free(a);
        return NULL;
    }
    while (*at)
        at = &(*at)->next;
    *at = a;
    stats.reserved += a->size;
    return a;
}

static void remove_arena(struct arena **at)
{
    struct arena *a = *at;

    *at = a->next;
    if (a->first->has_pages)
        stats.kept -= a->first->size;
    stats.reserved -= a->size;
    munmap(a->base, a->size);
    free(a->first);
    free(a);
}

/* Unmaps arenas that have been empty for this many takes. */
static void remove_empty(uint64_t idle)
{
    for (struct arena **at = &arenas; *at;)
        if (!(*at)->used && takes - (*at)->empty_since >= idle)
            remove_arena(at);
        else
            at = &(*at)->next;
}

/* Returns the pages of a free span to the system. */
static void drop_pages(struct span *s)
{
    if (s->used || !s->has_pages)
        return;
    madvise(s->start, s->size, MADV_DONTNEED);
    s->has_pages = false;
    stats.kept -= s->size;
}

static struct span *find(size_t size)
{
    for (struct arena *a = arenas; a; a = a->next)
        for (struct span *s = a->size - a->used >= size ? a->first : NULL; s; s = s->after)
            if (!s->used && s->size >= size)
                return s;
    return NULL;
}

/* Splits the rest off a free span. Without memory for its record the span stays whole. */
static void cut(struct span *s, size_t size)
{
    struct span *rest = s->size > size ? new_span(s->arena, s->start + size, s->size - size) : NULL;

    if (!rest)
        return;
    rest->has_pages = s->has_pages;
    rest->before = s;
    if ((rest->after = s->after))
        rest->after->before = rest;
    s->after = rest;
    s->size = size;
}

/* Merges a free span with the next one, if that is free too. */
static void join(struct span *s)
{
    struct span *next = s->after;

    if (!next || s->used || next->used)
        return;
    if (s->has_pages != next->has_pages) {
        stats.kept += s->has_pages ? next->size : s->size;
        s->has_pages = true;
    }
    s->size += next->size;
    if ((s->after = next->after))
        s->after->before = s;
    free(next);
}

struct span *result_memory_take(size_t size)
{
    struct span *s;
    struct arena *a;

    if (size > PTRDIFF_MAX / 2)
        return NULL;
    size = size ? round_up(size, GRAIN) : GRAIN;
    pthread_mutex_lock(&lock);
    takes++;
    if (!(s = find(size)) && (a = add_arena(size)))
        s = a->first;
    if (s) {
        cut(s, size);
        s->used = true;
        s->arena->used += s->size;
        stats.used += s->size;
        if (s->has_pages)
            stats.kept -= s->size;
    }
    remove_empty(IDLE_TAKES);
    pthread_mutex_unlock(&lock);
    return s;
}

void *result_memory_address(const struct span *s)
{
    return s->start;
}

void result_memory_give(struct span *s)
{
    struct arena *a = s->arena;

    pthread_mutex_lock(&lock);
    s->used = false;
    s->has_pages = true;
    stats.kept += s->size;
    stats.used -= s->size;
    a->used -= s->size;
    if (stats.kept > KEEP)
        drop_pages(s);
    join(s);
    if (s->before)
        join(s->before);
    if (!a->used)
        a->empty_since = takes;
    pthread_mutex_unlock(&lock);
}

void result_memory_trim(void)
{
    pthread_mutex_lock(&lock);
    remove_empty(0);
    for (struct arena *a = arenas; a; a = a->next)
        for (struct span *s = a->first; s; s = s->after)
            drop_pages(s);
    pthread_mutex_unlock(&lock);
}

void result_memory_stats(struct result_memory *out)
{
    pthread_mutex_lock(&lock);
    *out = stats;
    pthread_mutex_unlock(&lock);
}

/* fork: the child must not inherit the lock held by a thread that does not exist there. */
static void lock_it(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_it(void)
{
    pthread_mutex_unlock(&lock);
}

void result_memory_init(void)
{
    pthread_atfork(lock_it, unlock_it, unlock_it);
}
