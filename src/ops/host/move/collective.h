/* Parts of collectives between ranks that share memory. */
#ifndef WEIR_OPS_HOST_COLLECTIVE_H
#define WEIR_OPS_HOST_COLLECTIVE_H

#include "comm/comm.h"
#include "ops/host/isa.h"
#include "ops/host/part.h"
#include "ops/host/row.h"
#include "ops/tile.h"
#include "weir/launch.h"

enum weir__move {
    WEIR__MOVE_NONE, /* Send, Barrier: the peers copy */
    WEIR__MOVE_GATHER,
    WEIR__MOVE_BROADCAST,
    WEIR__MOVE_EXCHANGE,
    WEIR__MOVE_COUNTS,
    WEIR__MOVE_RECEIVE,
};

/* The arguments of a part, which its peers read. */
struct weir__collective_args {
    struct weir__meet meet;
    const char *in;
    char *out;
    int64_t numel; /* elements of `in`; for a receive, of `out` */
    int64_t row;   /* bytes of a row, if counts are in rows */
    char *reduced; /* in rounds: this rank's slice of the result, read by its peers */
    int ranks;
    int peer; /* the root, or the sender */
    unsigned char dtype;
    unsigned char move;   /* enum weir__move */
    unsigned char reduce; /* weir_reduce */
    bool scatter;         /* each rank gets only its own part of the result */
    bool nontemporal;     /* results are written past the caches */
    bool part;            /* for a reduction: this rank wants only the elements below */
    int64_t first, count; /* elements */
    int64_t counts[];     /* for WEIR__MOVE_COUNTS: sent to each rank, then received */
};

/* The slice of a reduction that `rank` computes for all ranks. */
static inline struct weir__range weir__reduce_slice(const struct weir__collective_args *a, int rank)
{
    return weir__tile_range(a->numel, 64,
                            &(weir_block){.index = (unsigned)rank, .count = (unsigned)a->ranks});
}

static inline bool weir__reduces_in_rounds(const struct weir__collective_args *a)
{
    return a->meet.in_rounds && a->meet.channel->group->rounds;
}

static inline int64_t weir__rows_before(const int64_t *counts, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

/* The piece that rank i, whose arguments are `peer`, holds for this rank. */
static inline struct weir__piece weir__move_piece(const struct weir__collective_args *a,
                                                  const struct weir__collective_args *peer, int i)
{
    int64_t bytes = a->numel * (int64_t)weir__elem_size((weir_dtype)a->dtype);
    int64_t part = bytes / a->ranks;

    switch ((enum weir__move)a->move) {
    case WEIR__MOVE_GATHER:
        return (struct weir__piece){peer->in, a->out + i * bytes, bytes};
    case WEIR__MOVE_EXCHANGE:
        return (struct weir__piece){peer->in + a->meet.rank * part, a->out + i * part, part};
    case WEIR__MOVE_COUNTS:
        return (struct weir__piece){peer->in +
                                        weir__rows_before(peer->counts, a->meet.rank) * a->row,
                                    a->out + weir__rows_before(a->counts + a->ranks, i) * a->row,
                                    a->counts[a->ranks + i] * a->row};
    case WEIR__MOVE_BROADCAST:
    case WEIR__MOVE_RECEIVE:
        return (struct weir__piece){peer->in, a->out, bytes};
    case WEIR__MOVE_NONE:
        break;
    }
    return (struct weir__piece){0};
}

/* The blocks' functions; their arguments are a struct weir__collective_args.
 *
 * Reduce: each rank reduces its own slice of all inputs, in the order of the ranks, and
 * writes it to every output (to its own if `scatter`). An output may be the rank's input, because
 * no other rank reads or writes that slice. */
WEIR__ISA_DECLARE(weir_status, weir__reduce_part_kernel,
                  (const void *args, const weir_block *block));
/* Move: each rank copies the data it receives from its peers' memory. */
WEIR__ISA_DECLARE(weir_status, weir__move_part_kernel, (const void *args, const weir_block *block));

#endif
