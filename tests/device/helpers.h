/* Common code of the tests of the device layer. */
#ifndef TESTS_DEVICE_HELPERS_H
#define TESTS_DEVICE_HELPERS_H

#include <stdatomic.h>
#include <time.h>

#include "harness/gate.h"
#include "harness/test.h"
#include "weir/weir.h"

static inline weir_device *open_device(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

static inline weir_stream *new_stream(weir_device *dev, int priority)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.priority = priority}, &s));
    return s;
}

static inline weir_status passing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_OK;
}

/* Work queued on a stream of its own is over: threads have looked at what was queued before. */
static inline void let_others_pass(weir_device *dev)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    for (int i = 0; i < 100; i++)
        CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "passes", .fn = passing_kernel}));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_destroy(s));
}

static inline void submit_gate(weir_stream *s, struct gate *g)
{
    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.name = "gate", .fn = gate_kernel, .args = &g, .args_size = sizeof g}));
}

/* A kernel that takes a ticket: the order in which such kernels ran. */
struct ticket_args {
    atomic_int *counter;
    int *slot;
};

static inline weir_status ticket_kernel(const void *args, const weir_block *block)
{
    const struct ticket_args *a = args;

    (void)block;
    *a->slot = atomic_fetch_add(a->counter, 1);
    return WEIR_OK;
}

static inline void submit_ticket(weir_stream *s, atomic_int *counter, int *slot)
{
    struct ticket_args a = {counter, slot};

    CHECK_OK(weir_launch_submit(
        s,
        &(weir_launch){.name = "ticket", .fn = ticket_kernel, .args = &a, .args_size = sizeof a}));
}

/* `s` goes on after everything queued on `other` so far, by an event. */
static inline void order_after(weir_stream *s, weir_stream *other)
{
    weir_event *e;

    CHECK_OK(weir_event_create(weir_stream_device(s), NULL, &e));
    CHECK_OK(weir_event_record(e, other));
    CHECK_OK(weir_stream_wait(s, e));
    weir_event_destroy(e);
}

#endif
