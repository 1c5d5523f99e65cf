/* How a kernel tells the host that it has failed; for kernel texts, and for what stands for them in
 * tests. Whoever includes this defines first
 *   WEIR__REPORT_FN            what a function of the device begins with
 *   weir__report_load(p)       the word at p, from memory
 *   weir__report_store(p, v)   to memory, after all that was written before
 *   weir__report_replace(p, old, new)   if it is `old`, in one step; returns what it was
 *
 * A stream has one place for a failure: behind its first one nothing of it counts. Of all threads
 * that fail one claims the place, in the device's memory, since the host's cannot be changed in one
 * step, and then writes what it has found:
 *
 *   claims[slot]    written by kernels alone: the command whose failure has the place
 *   of[slot].*      written by the thread that has claimed it, `seq` last
 *   any             written by that thread after `seq`; read by the host before it looks
 *   stale           written by the host when another stream takes over the slot, before any kernel
 *                   of that one is queued: a claim up to here is an old one
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
