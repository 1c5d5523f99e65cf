/* The bytes that an operand accesses: a strided box. Comparisons are exact. */
#ifndef WEIR_CHECK_RACE_FOOTPRINT_H
#define WEIR_CHECK_RACE_FOOTPRINT_H

#include "base/base.h"

#define WEIR__FOOTPRINT_DIMS 8

struct weir__footprint {
    uintptr_t first, end; /* every byte lies in [first, end) */
    uint32_t run;         /* contiguous bytes at each point of the box */
    int ndim;             /* 0: one run, all of [first, end) */
    int64_t count[WEIR__FOOTPRINT_DIMS];
    int64_t step[WEIR__FOOTPRINT_DIMS]; /* bytes, positive, in descending order */
};

/* Sets the footprint of a tensor of `ndim` dims whose elements take `elem` bytes; strides are in
 * elements. An empty tensor gets first == end. */
void weir__footprint_init(struct weir__footprint *f, uintptr_t at, uint32_t elem, int ndim,
                          const int64_t *shape, const int64_t *stride);

/* True if the two share a byte. Exact, except that the search has a bound: beyond it, the two count
 * as sharing. */
bool weir__footprint_overlaps(const struct weir__footprint *a, const struct weir__footprint *b);

/* True only if `a` contains every byte of `b`; may be false even then. */
bool weir__footprint_covers(const struct weir__footprint *a, const struct weir__footprint *b);

#endif
