/* Handles encode the kind, the generation and the place of an object in one table. */
#include "runtime/runtime.h"

#include <stdlib.h>

/* bits: 63..56 mark, 55..50 kind, 49..24 generation, 23..0 place */
enum { MARK = 0x57, CHUNK = 1024, CHUNKS = 1 << 14 };
#define GENERATIONS (1u << 26)

struct place {
    _Atomic uint64_t handle; /* 0 while it is free */
    _Atomic(void *) object;
    uint32_t generation;
    uint32_t next_free; /* place + 1 */
    uint32_t visitors;
};

static _Atomic(struct place *) chunks[CHUNKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t visited = PTHREAD_COND_INITIALIZER; /* signalled when a visitor leaves */
static uint32_t used, first_free;                         /* place + 1 */
static _Thread_local struct place *visiting;              /* the innermost visited by this thread */

static struct place *place_at(uint32_t index)
{
    struct place *chunk = index < CHUNK * CHUNKS
                              ? atomic_load_explicit(&chunks[index / CHUNK], memory_order_acquire)
                              : NULL;

    return chunk ? &chunk[index % CHUNK] : NULL;
}

static struct place *take_free(uint32_t *index)
{
    struct place *p;

    if (first_free) {
        *index = first_free - 1;
        p = place_at(*index);
        first_free = p->next_free;
        return p;
    }
    if (used == CHUNK * CHUNKS)
        return NULL;
    if (!(p = place_at(used))) {
        struct place *chunk = calloc(CHUNK, sizeof *chunk);

        if (!chunk)
            return NULL;
        atomic_store_explicit(&chunks[used / CHUNK], chunk, memory_order_release);
        p = chunk;
    }
    *index = used++;
    return p;
}

void *handle_new(enum kind kind, void *object)
{
    uint64_t handle = 0;
    struct place *p;
    uint32_t index;

    pthread_mutex_lock(&lock);
    if ((p = take_free(&index))) {
        p->generation = (p->generation + 1) % GENERATIONS;
        handle =
            (uint64_t)MARK << 56 | (uint64_t)kind << 50 | (uint64_t)p->generation << 24 | index;
        atomic_store_explicit(&p->object, object, memory_order_relaxed);
        atomic_store_explicit(&p->handle, handle, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)handle;
}

static struct place *find(const void *handle, enum kind kind)
{
    uint64_t h = (uintptr_t)handle;
    struct place *p;

    if (h >> 56 != MARK || (h >> 50 & 63) != (uint64_t)kind)
        return NULL;
    p = place_at((uint32_t)(h & 0xffffff));
    return p && atomic_load_explicit(&p->handle, memory_order_acquire) == h ? p : NULL;
}

void *handle_get(const void *handle, enum kind kind)
{
    struct place *p = find(handle, kind);

    return p ? atomic_load_explicit(&p->object, memory_order_relaxed) : NULL;
}

void *handle_take(const void *handle, enum kind kind)
{
    uint32_t index = (uint32_t)((uintptr_t)handle & 0xffffff);
    void *object = NULL;
    struct place *p;

    pthread_mutex_lock(&lock);
    if ((p = find(handle, kind))) {
        object = atomic_load_explicit(&p->object, memory_order_relaxed);
        atomic_store_explicit(&p->handle, 0, memory_order_release);
        while (p->visitors > (visiting == p))
            pthread_cond_wait(&visited, &lock);
        p->next_free = first_free;
        first_free = index + 1;
    }
    pthread_mutex_unlock(&lock);
    return object;
}

void *handle_hold(const void *handle, enum kind kind)
{
    void *object = NULL;
    struct place *p;

    pthread_mutex_lock(&lock);
    if ((p = find(handle, kind))) {
        p->visitors++;
        object = atomic_load_explicit(&p->object, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return object;
}

void handle_release(const void *handle)
{
    pthread_mutex_lock(&lock);
    place_at((uint32_t)((uintptr_t)handle & 0xffffff))->visitors--;
    pthread_cond_broadcast(&visited);
    pthread_mutex_unlock(&lock);
}

void handle_each(enum kind kind, void (*visit)(void *object, void *user), void *user)
{
    struct place *outer = visiting;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < used; i++) {
        struct place *p = place_at(i);
        uint64_t h = atomic_load_explicit(&p->handle, memory_order_relaxed);

        if (!h || (h >> 50 & 63) != (uint64_t)kind)
            continue;
        p->visitors++;
        visiting = p;
        pthread_mutex_unlock(&lock);
        visit(atomic_load_explicit(&p->object, memory_order_relaxed), user);
        pthread_mutex_lock(&lock);
        visiting = outer;
        p->visitors--;
        pthread_cond_broadcast(&visited);
    }
    pthread_mutex_unlock(&lock);
}

void handle_forget_all(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&visited, NULL);
    visiting = NULL;
    for (uint32_t i = 0; i < used; i++) {
        struct place *p = place_at(i);
        uint64_t kind = p->handle >> 50 & 63;

        p->visitors = 0;
        if (!p->handle || kind == KIND_DATA_BUFFER || kind == KIND_TENSOR_DESC)
            continue;
        p->handle = 0;
        p->next_free = first_free;
        first_free = i + 1;
    }
}
