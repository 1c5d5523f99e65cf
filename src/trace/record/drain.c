/* Reads records from rings, at the end of a recording and during it. The caller holds the lock of
 * ring.c, so no ring is added or resized; the rings' threads may write meanwhile. */
#include "trace/record/store.h"

#include <sys/mman.h>

size_t weir__trace_kept(const struct weir__trace_ring *r)
{
    size_t size = r->count * sizeof *r->records;

    return size < WEIR__TRACE_KEPT ? size : WEIR__TRACE_KEPT;
}

/* Finds the records of the ring that belong to the recording: from *first up to the returned
 * head. */
static uint64_t span(const struct weir__trace_ring *r, uint32_t recording, uint64_t *first)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);

    *first = head;
    if (atomic_load_explicit(&r->recording, memory_order_relaxed) == recording)
        /* The writer may be writing the slot at the head, which also holds the oldest record. */
        *first = head < r->count ? 0 : head - r->count + 1;
    return head;
}

/* Copies the newest records of a ring while its thread writes. If the ring has wrapped, leaves out
 * the older half: the writer would have to fill that half during the copy to overwrite a record
 * that is being read. If it does so, the copied records are discarded. */
static void copy_written(struct weir__trace_raw *raw, const struct weir__trace_ring *r,
                         uint32_t recording)
{
    uint64_t first, head = span(r, recording, &first), at, now;
    size_t before = raw->nrecords;

    if (head - first > r->count / 2)
        first = head - r->count / 2;
    if (head != first)
        raw->dropped += first;
    for (at = first; at < head; at++) {
        raw->records[raw->nrecords] = r->records[at & (r->count - 1)];
        raw->nrecords += raw->records[raw->nrecords].generation == (uint16_t)recording;
    }
    now = atomic_load_explicit(&r->head, memory_order_acquire);
    if (now - first >= r->count) {
        raw->dropped += raw->nrecords - before;
        raw->nrecords = before;
    }
}

weir_status weir__trace_look(struct weir__trace_ring *rings, uint32_t recording,
                             struct weir__trace_raw *raw)
{
    size_t total = 1;

    for (struct weir__trace_ring *r = rings; r; r = r->next)
        total += r->count / 2;
    if (!(raw->records = weir__malloc(total * sizeof *raw->records)))
        return weir__fail_nomem("copying a trace of up to %zu records", total);
    for (struct weir__trace_ring *r = rings; r; r = r->next)
        if (r->count)
            copy_written(raw, r, recording);
    return WEIR_OK;
}

weir_status weir__trace_drain(struct weir__trace_ring *rings, uint32_t recording,
                              struct weir__trace_raw *raw)
{
    size_t total = 0;
    uint64_t first, head;

    for (struct weir__trace_ring *r = rings; r; r = r->next) {
        head = span(r, recording, &first);
        total += head - first;
    }
    if (!(raw->records = weir__malloc(total * sizeof *raw->records)))
        return weir__fail_nomem("sorting a trace of %zu records", total);
    for (struct weir__trace_ring *r = rings; r; r = r->next) {
        head = span(r, recording, &first);
        if (head != first)
            raw->dropped += first;
        for (; first < head && raw->nrecords < total; first++) {
            raw->records[raw->nrecords] = r->records[first & (r->count - 1)];
            raw->nrecords += raw->records[raw->nrecords].generation == (uint16_t)recording;
        }
        if (r->count * sizeof *r->records > weir__trace_kept(r))
            madvise((char *)r->records + weir__trace_kept(r),
                    r->count * sizeof *r->records - weir__trace_kept(r), MADV_DONTNEED);
    }
    return WEIR_OK;
}
