/* How a batch of matrix products is cut into blocks: never along k, so that the
 * cut does not show in the result. */
#ifndef WEIR_OPS_GEMM_GRID_H
#define WEIR_OPS_GEMM_GRID_H

#include "ops/tile.h"

struct weir__grid {
    int64_t batch, m, n;                /* the whole */
    int64_t batch_step, m_step, n_step; /* one block, but for the last of a row */
    unsigned blocks;
};

struct weir__part {
    struct weir__range batch, m, n;
};

/* What a kernel does on one core, roughly, and what its cuts should be multiples of. */
struct weir__grid_kernel {
    double macs_per_ns, elements_per_ns; /* multiply-adds; elements packed or read */
    int64_t unit_m, unit_n;
};
/* The widest of those that work on floats, and those that multiply pairs of bf16 in tiles. */
extern const struct weir__grid_kernel weir__grid_floats, weir__grid_tiles;

/* The cut into at most `cores` blocks in which the longest block is shortest; one
 * block for what is not worth handing over. */
struct weir__grid weir__grid_make(const struct weir__grid_kernel *kernel, int64_t batch, int64_t m,
                                  int64_t n, int64_t k, unsigned cores);

/* Block `index` of the grid; a part may be empty. */
struct weir__part weir__grid_part(const struct weir__grid *grid, unsigned index);

#endif
