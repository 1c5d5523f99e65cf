#include "comm/procs/cells.h"

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

    return sizeof(struct weir__cells) + WEIR__CELLS * (cell_size(ranks) + n * n * cell_size(2));
}

struct weir__cell *weir__cell_of(struct weir__cells *cells, const struct weir__channel *channel,
                                 uint64_t call)
{
    int n = channel->group->nranks;
    char *base = (char *)(cells + 1);
    size_t size = cell_size(n);

    if (*channel->name) {
        long from, to;
        char *end;

        if (strncmp(channel->name, "pair ", 5)) /* tensor/member.c names them */
            return NULL;
        from = strtol(channel->name + 5, &end, 10);
        to = strtol(end + strlen(" to "), NULL, 10);
        base += WEIR__CELLS * (size + (size_t)(from * n + to) * cell_size(2));
        size = cell_size(2);
    }
    return (void *)(base + call % WEIR__CELLS * size);
}
