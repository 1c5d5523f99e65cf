/* Host threads that sleep until a stream has completed a command. */
#include "soft/soft.h"

#define HOOK_NS INT64_C(100000000) /* a sleeping thread calls its wait hook this often */

static weir_status timed_out(weir_stream *s, uint64_t seq, int64_t timeout_ns)
{
    struct weir__text text = {0}, cycle = {0};
    weir_status st;

    weir__soft_report(&s->dev, 1, &text, &cycle);
    st = weir__fail(WEIR_ETIMEDOUT, "stream '%s' did not reach command %llu within %.3f s:%s%s%s",
                    s->name, (unsigned long long)seq, (double)timeout_ns / 1e9,
                    text.data ? text.data : "", cycle.data ? "\n  " : "",
                    cycle.data ? cycle.data : "");
    weir__text_free(&text);
    weir__text_free(&cycle);
    return st;
}

/* Stops waiting; false if the host thread has been woken meanwhile. */
static bool leave(struct weir__soft_stream *s, struct weir__waiter *w)
{
    bool waiting = weir__soft_host_unpark(s, w);

    if (waiting)
        weir__soft_host_is_up(w);
    return waiting;
}

weir_status weir__soft_host_wait(weir_stream *base, uint64_t seq, int64_t timeout_ns,
                                 _Atomic uint32_t *asleep)
{
    struct weir__soft_stream *s = weir__soft(base);
    bool watch = timeout_ns == WEIR_TIMEOUT_DEVICE, hooked = weir__wait_has_hook();
    int64_t limit = watch ? base->dev->op_timeout_ns : timeout_ns;
    uint64_t start, progress;
    struct weir__waiter waiter = {.asleep = asleep};
    weir_status st;

    if (!limit || !weir__soft_host_park(s, &waiter, seq)) {
        weir__soft_host_is_up(&waiter);
        return limit ? WEIR_OK : timed_out(base, seq, 0);
    }
    start = weir__clock_ns();
    progress = weir__soft_progress(base->dev);
    while (!atomic_load_explicit(&waiter.woken, memory_order_acquire)) {
        int64_t left = limit < 0 ? -1 : limit - (int64_t)(weir__clock_ns() - start);

        if (limit >= 0 && left <= 0) {
            uint64_t now = watch ? weir__soft_progress(base->dev) : progress;

            if (now != progress || (watch && weir__soft_untimed(base->dev))) { /* not stuck */
                progress = now;
                start = weir__clock_ns();
                continue;
            }
            if (leave(s, &waiter))
                return timed_out(base, seq, limit);
            break;
        }
        if (hooked && (left < 0 || left > HOOK_NS))
            left = HOOK_NS;
        weir__futex_wait(&waiter.woken, 0, left);
        if (hooked && !atomic_load_explicit(&waiter.woken, memory_order_acquire) &&
            (st = weir__wait_check(base))) {
            if (!leave(s, &waiter))
                break;
            return st;
        }
    }
    return WEIR_OK;
}
