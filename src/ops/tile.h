/* Cuts operators into blocks. The cut depends only on their size and the core limit. */
#ifndef WEIR_OPS_TILE_H
#define WEIR_OPS_TILE_H

#include "base/base.h"
#include "device/op.h"

/* A shorter block costs more to hand to another core than it saves. */
#define WEIR__TILE_MIN_NS 5000
/* Bytes that one core reads and writes in a nanosecond, roughly. */
#define WEIR__TILE_BYTES_PER_NS 16

/* The number of blocks for work of about `ns` on one core that consists of `units`. */
static inline unsigned weir__tile_blocks(int64_t ns, int64_t units, unsigned cores)
{
    int64_t n = weir__min(weir__min(ns / WEIR__TILE_MIN_NS, units), cores);

    return n > 1 ? (unsigned)n : 1;
}

struct weir__range {
    int64_t begin, end;
};

/* The block's share of 0..n-1, cut at multiples of `align`; empty if begin >= end. */
static inline struct weir__range weir__tile_range(int64_t n, int64_t align, const weir_block *block)
{
    struct weir__range r = {0, n};

    if (block->count > 1) {
        int64_t step = weir__div_up(weir__div_up(n, block->count), align) * align;

        r.begin = weir__min(n, step * block->index);
        r.end = weir__min(n, r.begin + step);
    }
    return r;
}

/* The same for operators with parts; in a launch by rows it is the share of the current rows. n is
 * a multiple of the number of rows. */
static inline struct weir__range weir__tile_rows(int64_t n, int64_t align, const weir_block *block)
{
    const struct weir__rows_block *rows = (const void *)block;

    if (weir__likely(block->count))
        return weir__tile_range(n, align, block);
    return (struct weir__range){n / rows->rows * rows->begin, n / rows->rows * rows->end};
}

#endif
