/* Cuts a large product for many cores into two phases. If each block packed its operands itself, as
 * other products' blocks do, the operands would be packed several times: cut for 16 cores, 1000 x
 * 1000 x 1000 takes 6 to 11 % more processor time than with operands packed once. Here the first
 * phase packs them once, into scratch memory. The cut does not affect the result. */
#ifndef WEIR_OPS_PRODUCT_GEMM_PACKED_CUT_H
#define WEIR_OPS_PRODUCT_GEMM_PACKED_CUT_H

#include "ops/host/product/gemm.h"
#include "ops/product/gemm_grid.h"

struct weir__packed_cut {
    void (*pack)(const struct weir__gemm *g, const struct weir__gemm_packed *p,
                 const weir_block *block);
    void (*run)(const struct weir__gemm *g, const struct weir__gemm_packed *p, void *local);
    struct weir__gemm_packed packed;
};

/* Bytes for the packed operands; 0: the problem is not cut this way. With fewer cores it never
 * becomes larger. */
size_t weir__packed_scratch(const struct weir__gemm *g, unsigned cores);

/* Cuts a problem that has scratch memory. The grids are for the second phase. */
void weir__packed_make(struct weir__packed_cut *cut, const struct weir__gemm *g, void *scratch,
                       unsigned cores, struct weir__grid grids[2]);

/* Runs a block of the problem `whole`, in one of two phases of as many blocks as the grids have. */
void weir__packed_run(const struct weir__packed_cut *cut, const struct weir__gemm *whole,
                      const struct weir__grid grids[2], const weir_block *block);

#endif
