/* The `null` device: it completes every command at once, in order, and computes nothing.
 *
 * It is the template of docs/writing-a-device.md and has only what a driver must have. Queues,
 * waits, callbacks and plans are those of soft/. There are no threads: the host thread that queued
 * a command executes it in `kick`. Kernels do nothing, so a kernel completes as soon as its stream
 * reaches it. A device that calls a library of operators reads weir__kernel.call in its own
 * `submit` and plans->make.
 */
#include "device/serve.h"
#include "soft/execute.h"

#include <stdio.h>

struct null_device {
    struct weir__soft_device soft; /* must be first; a driver's own fields follow it */
};

/* ---- running ---- */

/* Streams whose tokens this thread holds. */
struct runner {
    struct weir__soft_list ready;
};

/* The thread's runner while it executes commands; else NULL. Publishing a command may kick another
 * device while a lock is held that executing the other device's commands may need. So a kick during
 * execution only adds the other device's streams to this runner. */
static _Thread_local struct runner *running;

static bool on_kernel(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    (void)self;
    (void)s;
    (void)cmd; /* a real device would start its work here */
    return true;
}

/* The user's function may queue and wait, so the streams that this thread has made ready first go
 * back to the scheduler, for other threads. */
static bool on_callback(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    weir_status st = weir__stream_error(&s->base, s->over);
    struct runner *r = self;
    struct weir__soft_stream *other;
    bool served = weir__thread_serves(true);

    weir__soft_publish(s, &r->ready);
    running = NULL;
    while ((other = weir__soft_take(&r->ready)))
        weir__soft_hand_back(other);
    cmd->u.callback(cmd->v.user, st);
    running = r;
    weir__thread_serves(served);
    return true;
}

static bool on_empty(void *self, struct weir__soft_stream *s)
{
    weir__soft_publish(s, &((struct runner *)self)->ready);
    return !weir__soft_surrender(s);
}

static uint64_t clock_ns(const void *self)
{
    (void)self;
    return weir__clock_ns();
}

static struct weir__soft_list *woken(void *self)
{
    return &((struct runner *)self)->ready;
}

static const struct weir__soft_hooks hooks = {
    .kernel = on_kernel,
    .callback = on_callback,
    .empty = on_empty,
    .now = clock_ns,
    .woken = woken,
};

/* Takes the streams that have become ready. */
static void take_added(struct weir__sched *sched, struct runner *r)
{
    struct weir__soft_stream *s;

    weir__spin_lock(&sched->lock);
    while ((s = weir__sched_take(sched)))
        weir__soft_append(&r->ready, s);
    weir__spin_unlock(&sched->lock);
}

static void null_kick(weir_device *dev)
{
    struct weir__sched *sched = &((struct null_device *)dev)->soft.sched;
    struct runner own = {.ready = {NULL, &own.ready.first, 0}};
    struct weir__soft_stream *s;

    if (!atomic_load(&sched->ready))
        return;
    take_added(sched, running ? running : &own);
    if (running)
        return;
    running = &own;
    while ((s = weir__soft_take(&own.ready))) {
        weir_device *its = s->base.dev;

        atomic_fetch_add(&its->visitors, 1); /* the device must not close meanwhile */
        weir__soft_execute(&hooks, &own, s);
        atomic_fetch_sub(&its->visitors, 1);
    }
    running = NULL;
}

/* ---- the rest of the table ---- */

static weir_status null_open(weir_device *dev, struct weir__spec *spec)
{
    struct null_device *null = (struct null_device *)dev;
    int64_t cores = 8;
    weir_status st;

    if ((st = weir__spec_int(spec, "cores", 1, WEIR__MAX_CORES, &cores)) ||
        (st = weir__spec_finish(spec, "cores, memory, op_timeout, deterministic, poison")))
        return st;
    weir__sched_init(&null->soft.sched, (int)cores, (int)cores, false);
    dev->props.cores = (weir_cores){(int)cores, (int)cores};
    dev->props.memory_bytes = (size_t)1 << 34;
    dev->props.features = WEIR_FEATURE_HOST_MEMORY | WEIR_FEATURE_TIMING;
    snprintf(dev->props.model, sizeof dev->props.model, "nothing");
    return WEIR_OK;
}

static void null_close(weir_device *dev)
{
    (void)dev; /* a real device would stop its threads here */
}

static weir_status null_sync(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin)
{
    (void)spin;
    null_kick(s->dev);
    return weir__soft_done(s) >= seq ? WEIR_OK : weir__soft_host_wait(s, seq, timeout_ns, NULL);
}

static uint64_t null_now(const weir_device *dev)
{
    return clock_ns(dev);
}

const struct weir__driver weir__null_driver = {
    .name = "null",
    .summary = "nothing, in order, at once",
    .device_size = sizeof(struct null_device),
    .stream_size = sizeof(struct weir__soft_stream),
    .can = 0, /* it gets operators as weir__kernel.call */
    .trace_clock = WEIR__TRACE_HOST_NS,
    .open = null_open,
    .close = null_close,
    .stream_open = weir__soft_stream_open,
    .stream_close = weir__soft_stream_close,
    .submit = weir__soft_submit,
    .wait = weir__soft_wait,
    .callback = weir__soft_callback,
    .stamp = weir__soft_stamp,
    .kick = null_kick,
    .done = weir__soft_done,
    .sync = null_sync,
    .map = weir__soft_map_for,
    .unmap = weir__soft_unmap_for,
    .now = null_now,
    .plans = &weir__soft_plans,
    .cross = &weir__soft_cross,
};
