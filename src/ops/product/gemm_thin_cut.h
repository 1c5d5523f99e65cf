/* How a product of few rows with a matrix in rows of n is cut where the columns of a core would be
 * short pieces of many rows: along k, so that each core reads whole stretches of memory. The sums
 * of the parts are put together in a second phase. Where the cut lies does not show in the result:
 * parts are by k alone, see weir__gemm_part. */
#ifndef WEIR_OPS_PRODUCT_GEMM_THIN_CUT_H
#define WEIR_OPS_PRODUCT_GEMM_THIN_CUT_H

#include "ops/host/product/gemm.h"
#include "ops/tile.h"

struct weir__thin_cut {
    void (*part)(const struct weir__gemm *g, int64_t part, void *sums, int64_t step, void *local);
    void (*join)(const struct weir__gemm *g, const void *sums, int64_t parts, int64_t step,
                 int64_t next, void *local);
    char *sums;            /* [parts][m][n] */
    int64_t parts, pieces; /* of k, of the columns: a block for each pair of them */
};

/* Of what sums are. */
static inline size_t weir__thin_sum_size(weir_dtype dtype)
{
    return dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
}

/* Bytes for the sums of all parts; 0: the problem is not cut so. It never gets more with fewer
 * cores. */
size_t weir__thin_scratch(const struct weir__gemm *g, unsigned cores);

/* The cut of a problem that has scratch memory. */
void weir__thin_make(struct weir__thin_cut *cut, const struct weir__gemm *g, void *scratch,
                     unsigned cores);

/* The columns of block `index` of the first phase, of n; the part of k is index / pieces. */
struct weir__range weir__thin_columns(const struct weir__thin_cut *cut, int64_t n, unsigned index);

#endif
