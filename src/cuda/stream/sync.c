/* Host threads that wait for the device. */
#include "cuda/fault/faults.h"

#include <time.h>

enum {
    SPINS = 4000,      /* polls before a waiting thread reads the clock */
    SPIN_NS = 2000000, /* time before it sleeps between polls */
    SLEEP_NS = 20000,
    QUERY_NS = 1000000, /* time between checks for a fault of the context */
};

void weir__cuda_report(weir_device *dev, struct weir__text *text)
{
    for (struct weir__cuda_stream *s = atomic_load(&weir__cuda_of(dev)->streams); s; s = s->next) {
        uint64_t queued = atomic_load(&s->queued), reached = atomic_load(&s->word->reached);
        const char *name = s->names[(reached + 1) % WEIR__CUDA_NAMES];

        if (reached == queued)
            continue;
        weir__text_add(text, "\n  stream '%s' is at command %llu of %llu", s->base.name,
                       (unsigned long long)reached + 1, (unsigned long long)queued);
        if (queued - reached <= WEIR__CUDA_NAMES && name)
            weir__text_add(text, ", '%s' or one soon after", name);
    }
}

/* Returns a number that changes when any stream progresses. Reading it also makes streams queue
 * checkpoints. */
static uint64_t progress(weir_device *dev, bool *untimed)
{
    uint64_t sum = 0;

    *untimed = false;
    for (struct weir__cuda_stream *s = atomic_load(&weir__cuda_of(dev)->streams); s; s = s->next) {
        uint64_t done = weir__cuda_done(&s->base);

        sum += done;
        *untimed |= done < atomic_load(&s->untimed);
    }
    return sum;
}

static weir_status timed_out(struct weir__cuda_stream *s, uint64_t seq, int64_t limit)
{
    struct weir__text text = {0};
    weir_status st;

    weir__cuda_report(s->base.dev, &text);
    st = weir__fail(WEIR_ETIMEDOUT, "stream '%s' did not reach command %llu within %.3f s:%s",
                    s->base.name, (unsigned long long)seq, (double)limit / 1e9,
                    text.data ? text.data : "");
    weir__text_free(&text);
    return st;
}

static bool is_over(struct weir__cuda_stream *s, uint64_t seq)
{
    return atomic_load_explicit(&s->word->reached, memory_order_acquire) >= seq ||
           atomic_load_explicit(&weir__cuda_of(s->base.dev)->faults.dead, memory_order_acquire);
}

/* Checks for a fault of the context, which CUDA reports only in answer to a call. */
static void look_for_fault(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir__cu_stream tail;
    weir__cu_result r;

    weir__spin_lock(&dev->tails);
    tail = s->order.tail;
    weir__spin_unlock(&dev->tails);
    if (tail && (r = dev->api->cu.stream_query(tail)) && r != CU_ERROR_NOT_READY)
        (void)weir__cuda_check(dev, r, "a query");
    weir__cuda_leave(dev, pushed);
}

static weir_status wait_slowly(struct weir__cuda_stream *s, uint64_t seq, int64_t timeout_ns,
                               bool spin)
{
    weir_device *dev = s->base.dev;
    bool watch = timeout_ns == WEIR_TIMEOUT_DEVICE, untimed;
    int64_t limit = watch ? dev->op_timeout_ns : timeout_ns;
    uint64_t start = weir__clock_ns(), began = start, queried = start, moved = 0, now;

    if (watch && limit >= 0)
        moved = progress(dev, &untimed);
    while (!is_over(s, seq)) {
        now = weir__clock_ns();
        if (now - queried > QUERY_NS) {
            look_for_fault(s);
            queried = now;
        }
        if (limit >= 0 && now - start > (uint64_t)limit) {
            uint64_t at = watch ? progress(dev, &untimed) : moved;

            if (at == moved && !(watch && untimed))
                return is_over(s, seq) ? WEIR_OK : timed_out(s, seq, limit);
            moved = at;
            start = now;
        }
        if (spin && now - began < SPIN_NS)
            for (int i = 0; i < 64; i++)
                weir__relax();
        else
            nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
    }
    return WEIR_OK;
}

weir_status weir__cuda_sync(weir_stream *base, uint64_t seq, int64_t timeout_ns, bool spin)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    weir_status st = WEIR_OK;

    if (!is_over(s, seq)) {
        if (atomic_load(&s->progress.checkpoint) < seq && (st = weir__cuda_checkpoint(s)) &&
            !atomic_load(&dev->faults.dead))
            return st;
        st = WEIR_OK;
        for (int i = 0; i < SPINS && spin && !is_over(s, seq); i++)
            weir__relax();
        if (!is_over(s, seq))
            st = wait_slowly(s, seq, timeout_ns, spin);
    }
    if (st)
        return st;
    weir__cuda_read_stamps(s, seq);
    weir__cuda_poll(dev);
    weir__cuda_trace_flush(dev);
    return weir__cuda_alive(dev);
}
