/* Failures of kernels: how they reach the host, and which command each is of. */
#include "cuda/collective/meet.h"
#include "cuda/fault/faults.h"
#include "cuda/program/program.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A slot and a command's number, or a program, a lane and an item, and a bit that says which. */
enum { SEQ_BITS = 47, LANE_BITS = 10, ITEM_BITS = 24 };

static_assert((1 << LANE_BITS) >= WEIR__CUDA_LANES &&
                  (uint64_t)WEIR__CUDA_PROGRAM_IDS < (uint64_t)1 << (63 - LANE_BITS - ITEM_BITS),
              "every item has a number of its own");

uint64_t weir__cuda_where(const weir_stream *s, uint64_t seq)
{
    return (uint64_t)s->slot << SEQ_BITS | seq;
}

uint64_t weir__cuda_where_item(uint32_t program, int lane, int item)
{
    return (uint64_t)1 << 63 | (uint64_t)program << (LANE_BITS + ITEM_BITS) |
           (uint64_t)lane << ITEM_BITS | (uint64_t)item;
}

static uint64_t bits(uint64_t where, int from, int n)
{
    return where >> from & (((uint64_t)1 << n) - 1);
}

weir_status weir__cuda_log_open(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir_status st = weir__cuda_check(
        dev, cu->host_alloc((void **)&dev->log, sizeof *dev->log, CU_HOST_ALLOC_PORTABLE_MAPPED),
        "pinned memory");

    if (st) {
        dev->log = NULL;
        return st;
    }
    memset(dev->log, 0, sizeof *dev->log);
    st = weir__cuda_check(dev, cu->memory_alloc(&dev->claims, sizeof(struct weir__code_claims)),
                          "memory");
    if (st) {
        dev->claims = 0;
        return st;
    }
    return weir__cuda_check(
        dev, cu->fill_async(dev->claims, 0, sizeof(struct weir__code_claims), NULL), "memory");
}

void weir__cuda_log_close(struct weir__cuda *dev)
{
    if (dev->log)
        dev->api->cu.host_free(dev->log);
    if (dev->claims)
        dev->api->cu.memory_free(dev->claims);
}

/* ---- under the faults lock from here on ---- */

void weir__cuda_failure_text(const struct weir__cuda_stream *s, const struct weir__code_failure *f,
                             char *text)
{
    char what[200];

    if (f->where >> 63 ||
        !weir__cuda_meet_explain(s, bits(f->where, 0, SEQ_BITS), f, what, sizeof what))
        snprintf(what, sizeof what, "index %lld is out of range: 0..%lld", (long long)f->index,
                 (long long)f->limit - 1);
    snprintf(text, WEIR__CUDA_FAILURE_TEXT, "operator '%s' on stream '%s': %s", f->name,
             s->base.name, what);
}

static void place(struct weir__cuda *dev, const struct weir__code_failure *f)
{
    char text[WEIR__CUDA_FAILURE_TEXT];
    struct weir__cuda_stream *s = atomic_load(&dev->streams);
    uint64_t seq = bits(f->where, 0, SEQ_BITS);

    if (f->where >> 63) {
        weir__cuda_program_blame(
            dev, (uint32_t)bits(f->where, LANE_BITS + ITEM_BITS, 63 - LANE_BITS - ITEM_BITS),
            (int)bits(f->where, ITEM_BITS, LANE_BITS), (int)bits(f->where, 0, ITEM_BITS), f);
        return;
    }
    while (s && s->base.slot != f->where >> SEQ_BITS)
        s = s->next;
    if (s) {
        weir__cuda_failure_text(s, f, text);
        weir__cuda_add_failure(s, seq, WEIR_ERANGE, text);
    }
}

/* Any stream may have failed since the log was last read: better an error too many. If one is known
 * to have, it was that, or some command before. */
static void suspect_all(struct weir__cuda *dev)
{
    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next) {
        uint64_t seq = s->sure + 1, last = atomic_load(&s->fallible);
        char text[WEIR__CUDA_FAILURE_TEXT];

        if (last < seq)
            continue;
        if (s->nfailures) {
            struct weir__cuda_failure *f = &s->failures[0];

            f->seq[0] = seq < f->seq[0] ? seq : f->seq[0];
            f->last = last > f->last ? last : f->last;
            continue;
        }
        snprintf(text, sizeof text,
                 "more than %d operators have failed on %s since it was last looked at: it is not "
                 "known whether one on stream '%s' did, after its command %llu",
                 WEIR__CODE_FAILURES, dev->base.props.name, s->base.name,
                 (unsigned long long)s->sure);
        weir__cuda_add_failure_among(s, &seq, 1, last, WEIR_ERANGE, text);
    }
}

#define PLACED UINT64_MAX /* in `ready`, until those before it are as well */

/* Entries are written in any order. What comes to be written from now on is news again. */
void weir__cuda_read_log(struct weir__cuda *dev)
{
    struct weir__code_log *log = dev->log;
    uint64_t read = log->read;
    bool lost;

    if (!__atomic_load_n(&log->news, __ATOMIC_ACQUIRE))
        return;
    atomic_store(&dev->failed, true); /* before others see that there are no news */
    /* In this order: whoever has written at the present time has left news behind. */
    __atomic_store_n(&log->news, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&log->time, log->time + 1, __ATOMIC_SEQ_CST);
    lost = __atomic_exchange_n(&log->lost, 0, __ATOMIC_SEQ_CST);
    for (uint64_t n = read; n < read + WEIR__CODE_FAILURES; n++) {
        struct weir__code_failure *f = &log->entries[n % WEIR__CODE_FAILURES];

        if (__atomic_load_n(&f->ready, __ATOMIC_ACQUIRE) == n + 1) {
            place(dev, f);
            __atomic_store_n(&f->ready, PLACED, __ATOMIC_RELAXED);
        }
    }
    for (;; read++) {
        uint64_t *ready = &log->entries[read % WEIR__CODE_FAILURES].ready;

        if (__atomic_load_n(ready, __ATOMIC_RELAXED) != PLACED)
            break;
        __atomic_store_n(ready, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&log->read, read, __ATOMIC_RELEASE);
    if (lost)
        suspect_all(dev);
}
