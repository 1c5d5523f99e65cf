/* Reductions: sum, max, min and argmax over some dims of a strided tensor.
 *
 * The order of every addition depends only on the shape. The reduced positions of an output are cut
 * into chunks of fixed size. Each chunk is summed by itself and the chunks' results are combined in
 * order, whichever blocks computed them. A unit is one output, or a run of up to WEIR__REDUCE_WIDTH
 * outputs if neighbours in memory belong to different outputs (`columns`).
 */
#ifndef WEIR_OPS_HOST_REDUCE_H
#define WEIR_OPS_HOST_REDUCE_H

#include "ops/host/isa.h"
#include "weir/launch.h"

#define WEIR__REDUCE_WIDTH 512

enum weir__reduce_code {
    WEIR__REDUCE_SUM,
    WEIR__REDUCE_MAX,
    WEIR__REDUCE_MIN,
    WEIR__REDUCE_ARGMAX,
};

/* A partial result: double for floats, int64_t for everything else. */
union weir__reduce_value {
    double f;
    int64_t i;
};

struct weir__reduce {
    enum weir__reduce_code code;
    weir_dtype in_type, out_type;
    bool columns;
    double divisor; /* mean: the number of elements; else 1 */
    const char *in;
    char *out;
    /* units * chunks * width values, followed by as many int64_t indices for argmax; NULL if one
     * block computes each unit */
    void *partial;
    int64_t units, chunks, chunk, width, reduced;
    int nkeep, nred; /* at least 1 each */
    int64_t keep_shape[WEIR_MAX_DIMS], keep_in[WEIR_MAX_DIMS], keep_out[WEIR_MAX_DIMS];
    int64_t red_shape[WEIR_MAX_DIMS], red_in[WEIR_MAX_DIMS];
};

/* Rows too short to be reduced one by one are reduced as columns, many at once. Whether a row is
 * that short, and the order of additions, depend only on the shape. */
#define WEIR__REDUCE_SHORT_ROW 16 /* elements */
static inline bool weir__reduce_is_short(const struct weir__reduce *r)
{
    return !r->columns && r->reduced <= WEIR__REDUCE_SHORT_ROW && r->chunks == 1 && !r->partial &&
           r->keep_shape[r->nkeep - 1] >= WEIR__REDUCE_WIDTH;
}

/* The block function; its arguments are a struct weir__reduce. Two phases if
 * there are partials: chunks, then their combination. */
WEIR__ISA_DECLARE(weir_status, weir__reduce_kernel, (const void *args, const weir_block *block));

#endif
