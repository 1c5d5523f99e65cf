/* Which bytes an operand touches: a strided box, compared exactly. */
#ifndef WEIR_CHECK_RACE_FOOTPRINT_H
#define WEIR_CHECK_RACE_FOOTPRINT_H

#include "base/base.h"

#define WEIR__FOOTPRINT_DIMS 8

struct weir__footprint {
    uintptr_t first, end; /* every byte lies in [first, end) */
    uint32_t run;         /* bytes together, at each place of the box */
    int ndim;             /* 0: one run, all of [first, end) */
    int64_t count[WEIR__FOOTPRINT_DIMS];
    int64_t step[WEIR__FOOTPRINT_DIMS]; /* bytes, positive, falling */
};

/* The bytes of `ndim` dims of elements of `elem` bytes; strides are in elements. No bytes:
 * first == end. */
void weir__footprint_init(struct weir__footprint *f, uintptr_t at, uint32_t elem, int ndim,
                          const int64_t *shape, const int64_t *stride);

/* Whether the two share a byte. Exact but for boxes so entangled that the search is given
 * up: those count as sharing. */
bool weir__footprint_overlaps(const struct weir__footprint *a, const struct weir__footprint *b);

/* Whether every byte of `b` is surely one of `a`. */
bool weir__footprint_covers(const struct weir__footprint *a, const struct weir__footprint *b);

#endif
