/* Cuts a product of few rows with a row-major matrix along k, where cutting the columns would give
 * each core only short pieces of many rows. Each core then reads long stretches of memory. A second
 * phase adds up the sums of the parts. The cut does not affect the result: the parts depend on k
 * alone, see weir__gemm_part. */
#ifndef WEIR_OPS_PRODUCT_GEMM_THIN_CUT_H
#define WEIR_OPS_PRODUCT_GEMM_THIN_CUT_H

#include "ops/host/product/gemm.h"
#include "ops/tile.h"

struct weir__thin_cut {
    void (*part)(const struct weir__gemm *g, int64_t part, void *sums, int64_t step, void *local);
    void (*join)(const struct weir__gemm *g, const void *sums, int64_t parts, int64_t step,
                 int64_t next, void *local);
    char *sums;            /* [parts][m][n] */
    int64_t parts, pieces; /* parts of k and pieces of the columns: one block per pair of them */
};

/* Size of one sum. */
static inline size_t weir__thin_sum_size(weir_dtype dtype)
{
    return dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
}

/* Bytes for the sums of all parts; 0: the problem is not cut this way. With fewer cores it never
 * becomes larger. */
size_t weir__thin_scratch(const struct weir__gemm *g, unsigned cores);

/* Cuts a problem that has scratch memory. */
void weir__thin_make(struct weir__thin_cut *cut, const struct weir__gemm *g, void *scratch,
                     unsigned cores);

/* The range of n columns of block `index` of the first phase. Its part of k is index / pieces. */
struct weir__range weir__thin_columns(const struct weir__thin_cut *cut, int64_t n, unsigned index);

/* Runs a block of the problem `whole`, in one of two phases of parts * pieces blocks. */
void weir__thin_run(const struct weir__thin_cut *cut, const struct weir__gemm *whole,
                    const weir_block *block);

#endif
