/* The arguments of a GPU's part of a collective: the addresses of all ranks' tensors, collected
 * when the ranks have met. */
#ifndef WEIR_OPS_HOST_PART_H
#define WEIR_OPS_HOST_PART_H

#include <stdint.h>

#define WEIR__PART_RANKS 64

/* Reduces elements begin..end-1 of all inputs, in the order of the ranks. Element i of an input
 * corresponds to element i - shift of every output. */
struct weir__reduce_part {
    const char *in[WEIR__PART_RANKS];
    char *out[WEIR__PART_RANKS];
    int64_t begin, end, shift;
    int ranks, nout;
    unsigned char dtype;
    unsigned char reduce; /* weir_reduce */
};

struct weir__piece {
    const char *from;
    char *to;
    int64_t bytes;
};

struct weir__move_part {
    struct weir__piece pieces[WEIR__PART_RANKS];
    int n;
};

/* The source of a row. */
struct weir__moe_route {
    int64_t rank, token;
};

struct weir__moe_part {
    const char *x[WEIR__PART_RANKS];       /* dispatch: tokens; combine: rows */
    const void *experts[WEIR__PART_RANKS]; /* for combine only the rank's own */
    int64_t rows[WEIR__PART_RANKS];        /* rows of x */
    uint64_t wide;                         /* a bit per rank: experts are i64 */
    int64_t tokens, k, hidden, nexperts, capacity;
    char *out;
    int32_t *positions;
    int64_t *counts, *starts;
    struct weir__moe_route *routes; /* routes of the rank's rows. In the entry behind them, `token`
                                     * is their number, or -1 after a failure */
    const void *weights;
    int ranks, rank;
    unsigned char dtype, weight_type;
};

/* The kind of failure, in the top bits of weir__code_failure.at; then a rank, then a token. */
enum { WEIR__MOE_BAD_EXPERT = 1, WEIR__MOE_NO_ROOM, WEIR__MOE_BAD_POSITION };
#define WEIR__MOE_AT(what, rank, token) \
    ((int64_t)(what) << 56 | (int64_t)(rank) << 48 | (int64_t)(token))

#endif
