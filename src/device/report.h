/* How a kernel tells the host that it has failed. Kernel sources include this, and the tests that
 * run them on the host. Define before including it:
 *   WEIR__REPORT_FN            the qualifiers of a device function
 *   weir__report_load(p)       loads the word at p from memory
 *   weir__report_store(p, v)   stores to memory, ordered after all earlier stores
 *   weir__report_replace(p, old, new)   atomic compare-and-swap; returns the value that was there
 *
 * Each stream has one record for a failure, because only its first failure counts. If several
 * threads fail, one of them claims the record and then fills it. The claim is in device memory,
 * because a GPU cannot compare and swap host memory atomically:
 *
 *   claims[slot]    written by kernels only: the command that has claimed the record
 *   of[slot].*      written by the thread that has claimed the record, `seq` last
 *   any             written by that thread after `seq`; the host reads it before the records
 *   stale           written by the host when another stream takes over the slot, before any kernel
 *                   of that stream is queued: claims up to this number are of the old stream
 */
#ifndef WEIR_DEVICE_REPORT_H
#define WEIR_DEVICE_REPORT_H

#include "device/code.h"

WEIR__REPORT_FN void weir__code_report(const struct weir__code_context *c, int64_t index,
                                       int64_t limit, int64_t at)
{
    uint64_t where = c->run ? weir__report_load(c->run) : c->where;
    uint64_t slot = where >> WEIR__CODE_SEQ_BITS, seq = where - WEIR__CODE_WHERE(slot, 0);
    struct weir__code_failure *f = &c->failures->of[slot];
    uint64_t old = weir__report_load(&c->claims[slot]);

    if (old > weir__report_load(&f->stale) ||
        weir__report_replace(&c->claims[slot], old, seq) != old)
        return;
    f->name = c->name;
    f->stream = c->stream;
    f->index = index;
    f->limit = limit;
    f->at = at;
    weir__report_store(&f->seq, seq);
    weir__report_store(&c->failures->any, 1);
}

#endif
