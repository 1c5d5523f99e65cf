#include "comm/procs/cells.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static size_t cell_size(int members)
{
    size_t size = sizeof(struct weir__cell) + (size_t)members * sizeof(struct weir__record);

    return (size + 63) & ~(size_t)63;
}

size_t weir__cells_size(int ranks)
{
    size_t n = (size_t)ranks;

    return sizeof(struct weir__cells) +
           WEIR__CELLS * ((1 + WEIR__CELL_NAMES) * cell_size(ranks) + n * n * cell_size(2));
}

/* Returns the index of the name in the table, inserting it if needed; -1 if the table is full. */
static int find_name(struct weir__cells *cells, const char *name)
{
    uint64_t hash = weir__hash_text(name);

    hash = hash ? hash : 1;
    for (uint64_t i = 0; i < WEIR__CELL_NAMES; i++) {
        int at = (int)((hash + i) % WEIR__CELL_NAMES);
        uint64_t there = atomic_load(&cells->names[at]);

        if (there == hash ||
            (!there &&
             (atomic_compare_exchange_strong(&cells->names[at], &there, hash) || there == hash)))
            return at;
    }
    return -1;
}

struct weir__cell *weir__cell_of(struct weir__cells *cells, const struct weir__channel *channel,
                                 uint64_t call)
{
    size_t n = (size_t)channel->group->nranks, size = cell_size((int)n);
    char *base = (char *)(cells + 1);

    if (!*channel->name) {
        /* they are the first */
    } else if (weir__is_pair(channel)) {
        char *end;
        size_t from = (size_t)strtol(channel->name + 5, &end, 10),
               to = (size_t)strtol(end + strlen(" to "), NULL, 10);

        base += WEIR__CELLS * (size + (from * n + to) * cell_size(2));
        size = cell_size(2);
    } else {
        int name = find_name(cells, channel->name);

        if (name < 0)
            return NULL;
        base += WEIR__CELLS * ((1 + (size_t)name) * size + n * n * cell_size(2));
    }
    return (void *)(base + call % WEIR__CELLS * size);
}
