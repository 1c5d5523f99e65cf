/* Cuts a batch of matrix products into blocks, never along k, so that the cut does not affect the
 * result. (Along k: gemm_thin_cut.h.) */
#ifndef WEIR_OPS_PRODUCT_GEMM_GRID_H
#define WEIR_OPS_PRODUCT_GEMM_GRID_H

#include "ops/tile.h"

struct weir__grid {
    int64_t batch, m, n;                /* the whole problem */
    int64_t batch_step, m_step, n_step; /* one block; the last of a row may be smaller */
    unsigned blocks;
    int64_t m0, n0; /* start, if it is the rest of another grid */
};

struct weir__part {
    struct weir__range batch, m, n;
};

/* The speed of a kernel on one core, roughly, and the preferred multiples of its cuts. */
struct weir__grid_kernel {
    double macs_per_ns, elements_per_ns; /* multiply-adds; elements packed or read */
    int64_t unit_m, unit_n;
};
/* The widest kernels for floats, for virtual time and for hosts; the kernels that multiply pairs of
 * bf16 in tiles; those for few rows or columns, which read lines in place; and those for few rows
 * that read parts of all lines. */
extern const struct weir__grid_kernel weir__grid_floats, weir__grid_host, weir__grid_tiles,
    weir__grid_lines, weir__grid_stretches;

/* The cut into at most `cores` blocks whose longest block is shortest; one block for small work. */
struct weir__grid weir__grid_make(const struct weir__grid_kernel *kernel, int64_t batch, int64_t m,
                                  int64_t n, int64_t k, unsigned cores);

/* The same for cores that differ in speed and start time, for one product. Long work gets a block
 * per core in grids[0] and a finely cut rest in grids[1], for cores that finish early. Otherwise
 * grids[1] has no blocks. */
void weir__grid_make_two(const struct weir__grid_kernel *kernel, int64_t m, int64_t n, int64_t k,
                         unsigned cores, struct weir__grid grids[2]);

/* Block `index` of the grid. Its ranges may be empty. */
struct weir__part weir__grid_part(const struct weir__grid *grid, unsigned index);
/* The same for two grids, of which the second's blocks follow the first's. */
struct weir__part weir__grid_part_of_two(const struct weir__grid grids[2], unsigned index);

#endif
