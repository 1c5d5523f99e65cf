/* The memory that a rank lets its peers read in a collective, and collectives as communication
 * libraries describe them. */
#ifndef WEIR_COMM_SHOWN_H
#define WEIR_COMM_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One piece of memory that peers may read. */
struct weir__code_shown {
    size_t offset; /* of the pointer to it, in the arguments */
    int64_t bytes;
    bool changes; /* the part itself writes there, so peers that read later need a copy */
    bool made;    /* the piece is not allocated yet: the transport allocates it. The part finds the
                   * pointer in this rank's entry of weir_block.peers */
};
#define WEIR__CODE_SHOWN 2

/* A collective as communication libraries describe it. */
enum weir__verb_kind {
    WEIR__VERB_ALL_REDUCE,
    WEIR__VERB_REDUCE_SCATTER,
    WEIR__VERB_ALL_GATHER,
    WEIR__VERB_BROADCAST,
    WEIR__VERB_EXCHANGE,
    WEIR__VERB_SEND,
    WEIR__VERB_RECV,
    WEIR__VERB_BARRIER,
};
struct weir__verb {
    enum weir__verb_kind kind;
    const void *in;
    void *out;
    int64_t numel, bytes; /* of the input; of RECV: of the message */
    int dtype, reduce;    /* weir_dtype, weir_reduce */
    int root;             /* BROADCAST: the root; RECV: the sender */
    /* Uneven EXCHANGE: the bytes of a row, and the rows to and from each rank. */
    int64_t row;
    const int64_t *send, *recv;
};

#endif
