/* How a kernel tells the host that it has failed; for kernel texts, and for what stands for them in
 * tests. Whoever includes this defines first
 *   WEIR__REPORT_FN            what a function of the device begins with
 *   weir__report_load(p)       the word at p, from memory
 *   weir__report_store(p, v)   to memory, after all that was written before
 *   weir__report_exchange(p, v)         in one step; the old word
 *   weir__report_replace(p, old, new)   likewise, if it is `old` */
#ifndef WEIR_DEVICE_REPORT_H
#define WEIR_DEVICE_REPORT_H

#include "device/code.h"

/* A launch is noted once, however many of its threads fail, until the host reads next. Nothing is
 * overwritten that it has not read: where there is no room it is told that much. */
WEIR__REPORT_FN void weir__code_report(const struct weir__code_context *c, int64_t index,
                                       int64_t limit, int64_t at)
{
    const uint64_t spread = 0x9e3779b97f4a7c15u; /* odd, of no pattern */
    uint64_t key = c->where + weir__report_load(&c->log->time) * spread;
    uint64_t read, n, was;

    if (weir__report_exchange(&c->claims->cells[(c->where * spread) >> 54], key) == key)
        return;
    read = weir__report_load(&c->log->read);
    n = weir__report_load(&c->claims->count);
    /* Signed: an old count may be less than the host has read, and is not replaced. */
    while ((int64_t)(n - read) < WEIR__CODE_FAILURES ||
           (int64_t)(n - (read = weir__report_load(&c->log->read))) < WEIR__CODE_FAILURES) {
        struct weir__code_failure *f = &c->log->entries[n % WEIR__CODE_FAILURES];

        was = weir__report_replace(&c->claims->count, n, n + 1);
        if (was != n) {
            n = was;
            continue;
        }
        f->where = c->where;
        f->name = c->name;
        f->index = index;
        f->limit = limit;
        f->at = at;
        weir__report_store(&f->ready, n + 1);
        weir__report_store(&c->log->news, 1);
        return;
    }
    weir__report_store(&c->log->lost, 1);
    weir__report_store(&c->log->news, 1);
}

#endif
