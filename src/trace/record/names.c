/* Texts by number. They are never freed: a record may be written and read long after the named
 * object was destroyed, and the same few names recur. They are allocated by malloc, as the
 * replaceable allocator may be replaced while they live. */
#include "trace/record/store.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1 << 20, MAX_SCOPES = 1 << 16, PAGE = 1024, SEEN = 512 };

/* Open addressing. A slot is written once; 0 is free. */
struct slots {
    struct slots *smaller; /* the table before; never freed, as threads may still search it */
    uint32_t n;
    _Atomic uint32_t ids[];
};

/* Names are added under the lock and found without it: many threads record at once. */
struct table {
    pthread_mutex_t lock;
    uint32_t n, limit; /* n counts the empty text, number 0 */
    _Atomic(struct slots *) slots;
    _Atomic(char **) pages[MAX_NAMES / PAGE];
};

static struct table names = {.lock = PTHREAD_MUTEX_INITIALIZER, .n = 1, .limit = MAX_NAMES};
static struct table scopes = {.lock = PTHREAD_MUTEX_INITIALIZER, .n = 1, .limit = MAX_SCOPES};

static uint64_t hash(const char *text)
{
    uint64_t h = weir__hash_text(text);

    return h ^ h >> 29;
}

static const char *text_of(struct table *t, uint32_t id)
{
    char **page = atomic_load_explicit(&t->pages[id / PAGE], memory_order_acquire);

    return id && page ? page[id % PAGE] : "";
}

/* Returns the slot with the text, or the free slot where it belongs. */
static _Atomic uint32_t *slot_of(struct table *t, struct slots *slots, const char *text)
{
    uint32_t i = (uint32_t)hash(text) & (slots->n - 1), id;

    while ((id = atomic_load_explicit(&slots->ids[i], memory_order_acquire)) &&
           strcmp(text_of(t, id), text))
        i = (i + 1) & (slots->n - 1);
    return &slots->ids[i];
}

/* Doubles the table. The old ones are kept; together they take less memory than the new one. */
static struct slots *grow_slots(struct table *t, struct slots *old)
{
    uint32_t n = old ? 2 * old->n : 256;
    struct slots *fresh = calloc(1, sizeof *fresh + n * sizeof *fresh->ids);

    if (!fresh)
        return NULL;
    fresh->smaller = old;
    fresh->n = n;
    for (uint32_t id = 1; id < t->n; id++)
        atomic_store_explicit(slot_of(t, fresh, text_of(t, id)), id, memory_order_relaxed);
    atomic_store_explicit(&t->slots, fresh, memory_order_release);
    return fresh;
}

static uint32_t add(struct table *t, const char *text)
{
    char **page;

    if (t->n == t->limit)
        return 0;
    page = atomic_load_explicit(&t->pages[t->n / PAGE], memory_order_relaxed);
    if (!page) {
        if (!(page = calloc(PAGE, sizeof *page)))
            return 0;
        atomic_store_explicit(&t->pages[t->n / PAGE], page, memory_order_release);
    }
    if (!(page[t->n % PAGE] = strdup(text)))
        return 0;
    return t->n++;
}

static uint32_t find_or_add(struct table *t, const char *text)
{
    struct slots *slots = atomic_load_explicit(&t->slots, memory_order_acquire);
    _Atomic uint32_t *slot;
    uint32_t id = 0;

    if (!*text)
        return 0;
    if (slots && (id = atomic_load_explicit(slot_of(t, slots, text), memory_order_acquire)))
        return id;
    pthread_mutex_lock(&t->lock);
    slots = atomic_load_explicit(&t->slots, memory_order_relaxed);
    if ((slots && t->n * 2 < slots->n) || (slots = grow_slots(t, slots))) {
        slot = slot_of(t, slots, text);
        if (!(id = atomic_load_explicit(slot, memory_order_relaxed))) {
            id = add(t, text);
            atomic_store_explicit(slot, id, memory_order_release);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return id;
}

void weir__trace_names_hold(bool hold)
{
    if (hold) {
        pthread_mutex_lock(&names.lock);
        pthread_mutex_lock(&scopes.lock);
    } else {
        pthread_mutex_unlock(&scopes.lock);
        pthread_mutex_unlock(&names.lock);
    }
}

/* A per-thread cache by address. It compares the text, as the address may now hold another name. */
struct seen {
    const char *at, *text;
    uint32_t id;
};
static _Thread_local struct seen seen[SEEN];

uint32_t weir__trace_name(const char *text)
{
    struct seen *s = &seen[((uintptr_t)text >> 3 ^ (uintptr_t)text >> 12) % SEEN];

    if (weir__likely(s->at == text && !strcmp(s->text, text)))
        return s->id;
    s->id = find_or_add(&names, text);
    s->text = text_of(&names, s->id);
    s->at = s->id ? text : NULL;
    return s->id;
}

uint16_t weir__trace_scope(const char *text)
{
    return (uint16_t)find_or_add(&scopes, text);
}

const char *weir__trace_name_text(uint32_t id)
{
    return text_of(&names, id);
}

const char *weir__trace_scope_text(uint16_t id)
{
    return text_of(&scopes, id);
}
