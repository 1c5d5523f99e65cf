/* What a rank's part of a collective lets its peers read. */
#ifndef WEIR_COMM_SHOWN_H
#define WEIR_COMM_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A pointer in the arguments, and bytes there. */
struct weir__code_shown {
    size_t offset;
    int64_t bytes;
    bool changes; /* the part itself writes there, so peers that read later need a copy */
    bool made;    /* nothing is there: the transport makes room, which the part finds in its own
                   * arguments among those of all ranks */
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
    int64_t numel, bytes; /* of the input; of what is received */
    int dtype, reduce;    /* weir_dtype, weir_reduce */
    int root;             /* of a broadcast; whom is received from */
    int64_t row;          /* bytes; of an uneven exchange, with rows for and from each rank: */
    const int64_t *send, *recv;
};

#endif
