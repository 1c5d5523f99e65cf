/* Rendezvous of ranks on one host: cells in shared memory that every rank reads and writes.
 *
 * The k-th call of a channel uses cell k % WEIR__CELLS of the channel, in generation k /
 * WEIR__CELLS. A rank writes its record, then sets its bit in `arrived`, then increments
 * `narrived`. When all ranks have arrived, each may read the memory of the others. When it has done
 * so, it increments `nleft`. A rank that sees that all have left increments `nacked`; the last one
 * empties the cell for the next generation.
 *
 * If all records carry their bytes, no rank reads another's memory. Then a rank leaves as soon as
 * it has copied the records, without waiting for the others, and the last to leave empties the
 * cell.
 *
 * In a call in rounds, `nhalf` counts the ranks that have done the first round. When all have, they
 * do the second round, which reads what was written in the first. A rank that gives up the call
 * sets `failed` before its memory may change.
 */
/* clang-format off */
/*   who       writes, then reads                 partner   writes, then reads      so
 *   reader    nleft, then failed                 gives up  failed, then continues  the reader knows that it read garbage
 *   arriver   its bit of arrived, then others'   arriver   the same                at least one sees both bits
 *   sleeper   sleeps, then the counts            the last  the count, then sleeps  the sleeper is woken
 */
/* clang-format on */
#ifndef WEIR_COMM_PROCS_CELLS_H
#define WEIR_COMM_PROCS_CELLS_H

#include <stdatomic.h>
#include <stddef.h>

#include "comm/procs/procs.h"
#include "weir/launch.h"

enum { WEIR__CELLS = 16, WEIR__CELL_NAMES = 512 };

/* If calls are alike and show few bytes, peers read only the first cache line of a record. Rarely
 * used fields are at the end. */
enum { WEIR__RECORD_FEW = 32 };
struct weir__record {
    _Alignas(64) uint64_t call;
    /* A hash of everything that must be equal on all ranks. It is set only if kernels read nothing
     * else from the arguments except addresses, so equal digests mean that the calls are alike. 0:
     * peers must read the whole record. */
    uint64_t digest;
    uint32_t args_size, nshown;
    /* Not 0: the record contains the shown bytes. They are in `args`, behind the arguments, at the
     * offsets of the places; `carried` is the number of bytes used in `args`. 0: the shown bytes
     * are in the memory that the places name. */
    uint32_t carried, reserved;
    unsigned char few[WEIR__RECORD_FEW]; /* a copy of the shown bytes if they are one small piece */
    char reduce[8], label[32], what[32];
    struct {
        uint64_t offset;
        struct weir__shared_place place;
    } shown[WEIR__CODE_SHOWN];
    _Alignas(16) unsigned char args[WEIR_ARGS_MAX];
    unsigned char handles[WEIR__CODE_SHOWN][WEIR__SHARE_HANDLE]; /* of a device's memory */
    unsigned char unique[128]; /* nccl: the unique id for the communicator of a pair */
};

struct weir__cell {
    _Alignas(64) _Atomic uint64_t generation;
    _Atomic uint32_t narrived, nleft, nacked; /* numbers of ranks */
    _Atomic uint32_t nhalf;  /* of a call in rounds: ranks that have done the first round */
    _Atomic uint32_t failed; /* 1: a rank has given up the call */
    _Atomic uint32_t wanted; /* 1: a rank waits for the next generation */
    _Atomic uint32_t sleeps; /* 1: a rank has stopped polling: ring its bell */
    _Atomic uint64_t arrived[WEIR__RANK_WORDS]; /* bit per rank of the group */
    struct weir__record records[];              /* by member */
};

/* The start of the shared memory. The cells of the whole group follow, then those of each pair,
 * then those of names that graph files give. */
struct weir__cells {
    _Alignas(64) _Atomic uint64_t closed[WEIR__RANK_WORDS]; /* ranks that have closed the group */
    /* A hash table of names, with linear probing; the first rank that uses a name inserts its hash.
     * Two names with the same hash would wait for each other until the timeout. */
    _Atomic uint64_t names[WEIR__CELL_NAMES];
    char room[8192 - sizeof(uint64_t[WEIR__RANK_WORDS + WEIR__CELL_NAMES])];
};

_Static_assert(offsetof(struct weir__record, reduce) == 64, "a line is enough");

size_t weir__cells_size(int ranks);
/* Returns the cell of the call; NULL if the group has WEIR__CELL_NAMES names already. */
struct weir__cell *weir__cell_of(struct weir__cells *cells, const struct weir__channel *channel,
                                 uint64_t call);
/* Returns the index of the rank's record in the channel's cells. */
static inline int weir__cell_place(const struct weir__channel *channel, int rank)
{
    return *channel->name ? weir__ranks_below(&channel->members, rank) : rank;
}

#endif
