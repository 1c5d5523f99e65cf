/* Where ranks of one host meet: cells in shared memory, which every rank reads and writes.
 *
 * The k-th call of a channel has cell k % WEIR__CELLS of the channel, in generation k /
 * WEIR__CELLS. A rank writes its record, then its bit of `arrived`, then counts itself. When all
 * are there everybody may read everybody's memory, and counts itself as having left when it has
 * done so. A rank that sees that all have left counts as acked; the last one empties the cell for
 * the next generation. Where all records carry their bytes nobody reads anybody's memory: a rank
 * leaves when it has copied the records, waits for nobody, and the last to leave empties the cell.
 * Of a call in rounds `nhalf` counts who has done the first; when all have, everybody goes on to
 * the second, and what they wrote in the first is read. A rank that gives the call up sets `failed`
 * before its memory may change.
 */
/* clang-format off */
/*   who       writes, then reads                 partner   writes, then reads      so
 *   reader    nleft, then failed                 gives up  failed, then goes on    it knows that it read garbage
 *   arriver   its bit of arrived, then others'   arriver   the same                one of them sees both
 *   sleeper   sleeps, then the counts            the last  the count, then sleeps  the sleeper is rung
 */
/* clang-format on */
#ifndef WEIR_COMM_PROCS_CELLS_H
#define WEIR_COMM_PROCS_CELLS_H

#include <stdatomic.h>
#include <stddef.h>

#include "comm/procs/procs.h"
#include "weir/launch.h"

enum { WEIR__CELLS = 16, WEIR__CELL_NAMES = 512 };

/* Of few bytes the first cache line is all that others read, if their calls are alike. What is
 * rarely used stands behind the arguments. */
enum { WEIR__RECORD_FEW = 32 };
struct weir__record {
    _Alignas(64) uint64_t call;
    /* Of all that must be the same, and of nothing else that kernels read but addresses: whose are
     * equal are alike. 0: the record must be read. */
    uint64_t digest;
    uint32_t args_size, nshown;
    /* Shown bytes stand behind the arguments, at places' offsets from them: how many bytes of
     * `args` are used. 0: they are where the places say. */
    uint32_t carried, reserved;
    unsigned char few[WEIR__RECORD_FEW]; /* the bytes, if what is shown is one piece so small */
    char reduce[8], label[32], what[32];
    struct {
        uint64_t offset;
        struct weir__shared_place place;
    } shown[WEIR__CODE_SHOWN];
    _Alignas(16) unsigned char args[WEIR_ARGS_MAX];
    unsigned char handles[WEIR__CODE_SHOWN][WEIR__SHARE_HANDLE]; /* of a device's memory */
    unsigned char unique[128]; /* nccl: what the communicator of a pair is made by */
};

struct weir__cell {
    _Alignas(64) _Atomic uint64_t generation;
    _Atomic uint32_t narrived, nleft, nacked; /* how many have */
    _Atomic uint32_t nhalf;  /* of a call in rounds: how many have done the first */
    _Atomic uint32_t failed; /* somebody has given it up */
    _Atomic uint32_t wanted; /* somebody waits for the next generation */
    _Atomic uint32_t sleeps; /* somebody has stopped looking: ring */
    _Atomic uint64_t arrived[WEIR__RANK_WORDS]; /* bit per rank of the group */
    struct weir__record records[];              /* by member */
};

/* The beginning of the shared memory. Cells of the whole group follow, then those of each pair,
 * then those of names that graph files give. */
struct weir__cells {
    _Alignas(64) _Atomic uint64_t closed[WEIR__RANK_WORDS]; /* who has destroyed the group */
    /* Hashes of names: whoever comes first takes the first place that is free from its hash on. Two
     * names of one hash would wait for each other until the timeout. */
    _Atomic uint64_t names[WEIR__CELL_NAMES];
    char room[8192 - sizeof(uint64_t[WEIR__RANK_WORDS + WEIR__CELL_NAMES])];
};

_Static_assert(offsetof(struct weir__record, reduce) == 64, "a line is enough");

size_t weir__cells_size(int ranks);
/* NULL if the group has WEIR__CELL_NAMES names already. */
struct weir__cell *weir__cell_of(struct weir__cells *cells, const struct weir__channel *channel,
                                 uint64_t call);
/* Which record of its cell is that rank's. */
static inline int weir__cell_place(const struct weir__channel *channel, int rank)
{
    return *channel->name ? weir__ranks_below(&channel->members, rank) : rank;
}

#endif
