/* Products of groups: one of the three sizes of C = A B is cut into groups, each with a matrix of
 * its own on the other side. The ends of the groups are data, read when the kernel runs.
 *
 *   rows:    a [m, k], b [groups, k, n], c [m, n]
 *   columns: a [groups, m, k], b [k, n], c [m, n]
 *   depth:   a [m, k], b [k, n], c [groups, m, n]
 *
 * Elements of c outside all groups are 0.
 */
#ifndef WEIR_OPS_HOST_GROUPED_H
#define WEIR_OPS_HOST_GROUPED_H

#include "ops/host/product/gemm.h"

enum weir__grouped_along { WEIR__GROUPED_ROWS, WEIR__GROUPED_COLUMNS, WEIR__GROUPED_DEPTH };

struct weir__grouped {
    struct weir__gemm gemm; /* for the first group's matrices; m, n and k are totals of all
                             * groups */
    const char *ends;       /* the end of each group: ascending, at most the size that is cut */
    weir_dtype end_type;    /* i64 or i32 */
    enum weir__grouped_along along;
    int64_t end_step, groups;
    int64_t a_group, b_group, c_group, bias_group; /* distance between groups, in elements */
};

/* The size that is cut into groups. */
static inline int64_t weir__grouped_length(const struct weir__grouped *a)
{
    return a->along == WEIR__GROUPED_ROWS      ? a->gemm.m
           : a->along == WEIR__GROUPED_COLUMNS ? a->gemm.n
                                               : a->gemm.k;
}

/* The block's function; its arguments are the struct. An element of c does not depend on the number
 * of blocks. WEIR_ERANGE, with the end and its group, if an end is out of range. */
WEIR__ISA_DECLARE(weir_status, weir__grouped_kernel, (const void *args, const weir_block *block));

#endif
