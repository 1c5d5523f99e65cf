/* How a batch of matrix products is cut into blocks: never along k, so that the
 * cut does not show in the result. (Along k: gemm_thin_cut.h.) */
#ifndef WEIR_OPS_PRODUCT_GEMM_GRID_H
#define WEIR_OPS_PRODUCT_GEMM_GRID_H

#include "ops/tile.h"

struct weir__grid {
    int64_t batch, m, n;                /* the whole */
    int64_t batch_step, m_step, n_step; /* one block, but for the last of a row */
    unsigned blocks;
    int64_t m0, n0; /* where it begins, if it is the rest of another */
};

struct weir__part {
    struct weir__range batch, m, n;
};

/* What a kernel does on one core, roughly, and what its cuts should be multiples of. */
struct weir__grid_kernel {
    double macs_per_ns, elements_per_ns; /* multiply-adds; elements packed or read */
    int64_t unit_m, unit_n;
};
/* The widest of those that work on floats, as virtual time has it and as hosts do; those that
 * multiply pairs of bf16 in tiles; those of few rows or columns, whose lines are read where they
 * lie, and those of few rows that read stretches of all lines. */
extern const struct weir__grid_kernel weir__grid_floats, weir__grid_host, weir__grid_tiles,
    weir__grid_lines, weir__grid_stretches;

/* The cut into at most `cores` blocks in which the longest block is shortest; one
 * block for what is not worth handing over. */
struct weir__grid weir__grid_make(const struct weir__grid_kernel *kernel, int64_t batch, int64_t m,
                                  int64_t n, int64_t k, unsigned cores);

/* The same for cores that are not all free at the same time, nor equally fast: what is long enough
 * has a block for each core in grids[0] and a rest, cut small, in grids[1], for those that are done
 * first; else grids[1] has no blocks. One product. */
void weir__grid_make_two(const struct weir__grid_kernel *kernel, int64_t m, int64_t n, int64_t k,
                         unsigned cores, struct weir__grid grids[2]);

/* Block `index` of the grid; a part may be empty. */
struct weir__part weir__grid_part(const struct weir__grid *grid, unsigned index);

#endif
