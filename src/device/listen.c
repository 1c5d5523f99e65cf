/* Trace records that are the same for every driver. */
#include "device/device.h"
#include "trace/watch/watch.h"

static void announce(struct weir__trace_source *source)
{
    weir_device *dev = weir__containerof(source, weir_device, trace);

    weir__device_lock(dev);
    for (unsigned i = 0; i < dev->nstreams; i++)
        weir__trace_stream(dev->id, i, 0, dev->streams[i]->name, dev->streams[i]->priority);
    weir__device_unlock(dev);
}

void weir__device_listen(weir_device *dev)
{
    dev->trace = (struct weir__trace_source){
        .id = dev->id,
        .props = &dev->props,
        .clock = dev->driver->trace_clock,
        .announce = announce,
    };
    weir__trace_add_source(&dev->trace);
    weir__watch_begin();
}

void weir__stream_announce(const weir_stream *s)
{
    weir__trace_stream(s->dev->id, s->slot, weir__stream_submitted(s) + 1, s->name, s->priority);
}

void weir__device_trace_memory(void *user)
{
    const weir_device *dev = user;

    weir__trace_put_memory(dev->id, weir__device_trace_time(dev), dev->pool.stats.allocated,
                           dev->pool.stats.reserved);
}
