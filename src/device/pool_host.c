#include "device/pool_host.h"
#include "device/serve.h"

#include <string.h>

static void *pool_map(void *user, size_t size)
{
    weir_device *dev = user;

    return dev->driver->map(dev, size);
}

static void pool_unmap(void *user, void *address, size_t size)
{
    weir_device *dev = user;

    dev->driver->unmap(dev, address, size);
}

static void pool_grown(void *user, void *address, size_t size, size_t asked)
{
    weir_device *dev = user;

    if (dev->driver->notices && dev->driver->notices->grown)
        dev->driver->notices->grown(dev, address, size, asked);
}

static uint64_t pool_done(void *user, uint32_t slot)
{
    weir_device *dev = user;

    return dev->driver->done(dev->streams[slot]);
}

static void pool_hurry(void *user)
{
    weir_device *dev = user;

    if (dev->driver->notices && dev->driver->notices->hurry)
        dev->driver->notices->hurry(dev);
}

/* The stream's clock is not updated: a later wait of the user's for the same mark must still be
 * queued, because it takes over errors and this one does not. */
static weir_status pool_order(void *user, uint32_t slot, uint32_t after, uint64_t seq)
{
    weir_device *dev = user;

    return weir__stream_wait_mark(dev->streams[slot], (struct weir__mark){dev->streams[after], seq},
                                  NULL, WEIR__WAIT_ORDER);
}

static _Thread_local bool is_serving;

bool weir__thread_serves(bool serves)
{
    bool before = is_serving;

    is_serving = serves;
    return before;
}

static weir_status pool_wait_all(void *user)
{
    weir_device *dev = user;
    weir_status st;

    /* Do not wait: a stream may be waiting for this thread's callback, here or on another device.
     * The pool must manage with the blocks whose uses have completed by now. */
    if (is_serving)
        return WEIR_OK;
    weir__device_unlock(dev);
    dev->driver->kick(dev);
    st = weir__device_await_all(dev, false);
    weir__device_lock(dev);
    return st;
}

static weir_status fill_kernel(const void *args, const weir_block *block)
{
    const struct weir__fill *a = args;

    (void)block;
    memset(a->address, a->value, a->size);
    return WEIR_OK;
}

static uint64_t pool_poison(void *user, uint32_t slot, void *address, size_t size)
{
    weir_device *dev = user;
    weir_stream *s = dev->streams[slot];
    static const struct weir__code code = {.kind = WEIR__CODE_FILL};
    struct weir__fill args = {address, size, 0xfb}; /* a large negative number in every type */
    struct weir__kernel k = {
        .name = "poison",
        .fn = fill_kernel,
        .code = &code,
        .args = &args,
        .args_size = sizeof args,
        .engine = WEIR_ENGINE_SDMA,
        .blocks = 1,
        .phases = 1,
        .cores = 1,
        .work_ns = UINT32_MAX,
        .bytes = (float)size,
    };

    return weir__stream_submit(s, &k) ? 0 : weir__stream_submitted(s);
}

static const struct weir__clock *pool_clock(void *user, uint32_t slot)
{
    return &((weir_device *)user)->streams[slot]->clock;
}

static const char *pool_stream_name(void *user, uint32_t slot)
{
    weir_device *dev = user;

    return slot < dev->nstreams ? dev->streams[slot]->name : "?";
}

static uint64_t pool_stream_id(void *user, uint32_t slot)
{
    weir_device *dev = user;

    return slot < dev->nstreams ? dev->streams[slot]->id : 0;
}

const struct weir__pool_host weir__device_pool_host = {
    .map = pool_map,
    .unmap = pool_unmap,
    .grown = pool_grown,
    .done = pool_done,
    .hurry = pool_hurry,
    .order = pool_order,
    .wait_all = pool_wait_all,
    .poison = pool_poison,
    .clock = pool_clock,
    .stream_name = pool_stream_name,
    .stream_id = pool_stream_id,
    .traced = weir__device_trace_memory,
};
