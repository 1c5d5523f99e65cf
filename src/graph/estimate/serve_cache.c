#include <string.h>

#include "graph/estimate/serve_state.h"

#define NONE UINT32_MAX

/* A block cached by a replica; an entry of the replica's list by last use. */
struct entry {
    uint64_t block;
    uint32_t replica;
    uint32_t older, newer;
    uint32_t chain; /* next entry of its hash slot, or of the free list */
};

struct weir__prefix_cache {
    struct entry *entries;
    int n, cap;
    uint32_t nfree, first_free;
    uint32_t *slots;
    uint32_t nslots;
    struct list {
        uint32_t oldest, newest, count;
    } * lists; /* by replica */
};

struct weir__prefix_cache *weir__prefix_cache_new(uint32_t replicas)
{
    struct weir__prefix_cache *c = weir__calloc(1, sizeof *c);

    if (c && (c->lists = weir__malloc(replicas * sizeof *c->lists))) {
        for (uint32_t i = 0; i < replicas; i++)
            c->lists[i] = (struct list){NONE, NONE, 0};
        c->first_free = NONE;
        return c;
    }
    weir__free(c);
    return NULL;
}

void weir__prefix_cache_free(struct weir__prefix_cache *c)
{
    if (!c)
        return;
    weir__free(c->entries);
    weir__free(c->slots);
    weir__free(c->lists);
    weir__free(c);
}

static uint32_t *slot_of(const struct weir__prefix_cache *c, uint32_t replica, uint64_t block)
{
    uint64_t h = (block * UINT64_C(0x9e3779b97f4a7c15) ^ replica) * UINT64_C(0xff51afd7ed558ccd);

    return &c->slots[(h >> 32) & (c->nslots - 1)];
}

static uint32_t find(const struct weir__prefix_cache *c, uint32_t replica, uint64_t block)
{
    uint32_t i = c->nslots ? *slot_of(c, replica, block) : NONE;

    while (i != NONE && (c->entries[i].block != block || c->entries[i].replica != replica))
        i = c->entries[i].chain;
    return i;
}

uint32_t weir__prefix_find(const struct weir__prefix_cache *c, uint32_t replica,
                           const uint64_t *blocks, uint32_t n)
{
    uint32_t found = 0;

    while (found < n && find(c, replica, blocks[found]) != NONE)
        found++;
    return found;
}

static void unlink_entry(struct weir__prefix_cache *c, uint32_t i)
{
    struct entry *e = &c->entries[i];
    struct list *l = &c->lists[e->replica];

    *(e->older == NONE ? &l->oldest : &c->entries[e->older].newer) = e->newer;
    *(e->newer == NONE ? &l->newest : &c->entries[e->newer].older) = e->older;
}

static void make_newest(struct weir__prefix_cache *c, uint32_t i)
{
    struct entry *e = &c->entries[i];
    struct list *l = &c->lists[e->replica];

    e->older = l->newest;
    e->newer = NONE;
    *(l->newest == NONE ? &l->oldest : &c->entries[l->newest].newer) = i;
    l->newest = i;
}

static void drop(struct weir__prefix_cache *c, uint32_t i)
{
    uint32_t *at = slot_of(c, c->entries[i].replica, c->entries[i].block);

    unlink_entry(c, i);
    while (*at != i)
        at = &c->entries[*at].chain;
    *at = c->entries[i].chain;
    c->lists[c->entries[i].replica].count--;
    c->entries[i].chain = c->first_free;
    c->first_free = i;
    c->nfree++;
}

static bool grow_slots(struct weir__prefix_cache *c)
{
    uint32_t n = c->nslots ? 2 * c->nslots : 1024;
    uint32_t *slots = weir__malloc(n * sizeof *slots);

    if (!slots)
        return false;
    memset(slots, 0xff, n * sizeof *slots);
    weir__free(c->slots);
    c->slots = slots;
    c->nslots = n;
    for (uint32_t i = 0; i < (uint32_t)c->n; i++) { /* the table is full, so every entry is in
                                                     * use */
        uint32_t *slot = slot_of(c, c->entries[i].replica, c->entries[i].block);

        c->entries[i].chain = *slot;
        *slot = i;
    }
    return true;
}

static bool add(struct weir__prefix_cache *c, uint32_t replica, uint64_t block)
{
    uint32_t i = c->first_free, *slot;

    if (i != NONE) {
        c->first_free = c->entries[i].chain;
        c->nfree--;
    } else {
        if (((uint32_t)c->n >= c->nslots && !grow_slots(c)) ||
            !weir__grow(&c->entries, c->n, &c->cap, sizeof *c->entries))
            return false;
        i = (uint32_t)c->n++;
    }
    slot = slot_of(c, replica, block);
    c->entries[i] = (struct entry){.block = block, .replica = replica, .chain = *slot};
    *slot = i;
    make_newest(c, i);
    c->lists[replica].count++;
    return true;
}

bool weir__prefix_use(struct weir__prefix_cache *c, uint32_t replica, const uint64_t *blocks,
                      uint32_t n, double most)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = find(c, replica, blocks[k]);

        if (i == NONE) {
            if (!add(c, replica, blocks[k]))
                return false;
            continue;
        }
        unlink_entry(c, i);
        make_newest(c, i);
    }
    while (c->lists[replica].count > most && c->lists[replica].oldest != NONE)
        drop(c, c->lists[replica].oldest);
    return true;
}
