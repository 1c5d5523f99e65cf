/* What a rank's part of a collective lets its peers read. */
#ifndef WEIR_COMM_SHOWN_H
#define WEIR_COMM_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A pointer in the arguments, and bytes there. */
struct weir__code_shown {
    size_t offset;
    int64_t bytes;
    bool changes; /* the part itself writes there: peers that read later need a copy */
};
#define WEIR__CODE_SHOWN 2

#endif
