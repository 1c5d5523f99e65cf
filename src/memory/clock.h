/* Vector clocks over the streams of one device.
 *
 * A stream numbers its commands 1, 2, 3, ... The clock of stream a has an entry for each stream u:
 * the last command of u that precedes everything queued on a from now on. Recording an event
 * copies the clock, waiting takes the maximum.
 * Streams are named by their slot, a small index that is reused.
 */
#ifndef WEIR_MEMORY_CLOCK_H
#define WEIR_MEMORY_CLOCK_H

#include "base/base.h"

struct weir__clock {
    uint64_t *seq; /* seq[u]; slots from n on count as 0 */
    unsigned n;
};

static inline uint64_t weir__clock_get(const struct weir__clock *c, unsigned slot)
{
    return slot < c->n ? c->seq[slot] : 0;
}

/* Makes room for `n` slots. returns WEIR_ENOMEM, the clock unchanged. */
weir_status weir__clock_grow(struct weir__clock *c, unsigned n);
static inline weir_status weir__clock_reserve(struct weir__clock *c, unsigned n)
{
    return weir__likely(n <= c->n) ? WEIR_OK : weir__clock_grow(c, n);
}
/* *dst = *src. returns WEIR_ENOMEM, *dst unchanged. */
weir_status weir__clock_copy(struct weir__clock *dst, const struct weir__clock *src);
/* Takes the maximum, slot by slot. returns WEIR_ENOMEM, *dst unchanged. */
weir_status weir__clock_merge(struct weir__clock *dst, const struct weir__clock *src);
void weir__clock_fini(struct weir__clock *c);

#endif
