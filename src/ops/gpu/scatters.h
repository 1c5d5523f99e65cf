/* Several scatters as one launch: each writes one row into every stack of rows, all at the
 * positions that the same indices give. This is how a token's keys and values are added to their
 * caches. Kernel sources include this header too. */
#ifndef WEIR_OPS_GPU_SCATTERS_H
#define WEIR_OPS_GPU_SCATTERS_H

#include "ops/host/math/elementwise.h"
#include "ops/host/move/index.h"

#define WEIR__SCATTERS 4
#define WEIR__SCATTERS_DIMS 3

/* x[o, index[o], :] = source[o, :] for o in `rows`; strides in elements. */
struct weir__scatters_part {
    char *x;
    const char *source;
    int64_t x_row;
    uint32_t rows, columns; /* rows are packed */
    uint32_t ndim;          /* number of dims that make up `rows` */
    struct {
        uint32_t size;
        struct weir__divisor divisor;
        int64_t x, index, source;
    } dim[WEIR__SCATTERS_DIMS];
};

struct weir__scatters {
    const char *index;
    int64_t limit;
    uint32_t n;
    uint8_t elem, index_type;
    struct weir__scatters_part of[WEIR__SCATTERS];
};

#ifndef __CUDACC_RTC__
/* See struct weir__code; `scatter` is a struct weir__scatter. */
bool weir__scatters_join(void *joined, const void *scatter, bool keep);
#endif

#endif
