/* Core limits of streams and devices, and the cores that an engine may use under them. Any thread
 * may read them at any time without a lock. */
#include "device/device.h"

static weir_status check_limit(const weir_device *dev, const char *what, int value, int max)
{
    if (value == -1 || (value >= 1 && value <= max))
        return WEIR_OK;
    return weir__fail(WEIR_ERANGE, "core limit %d for %s cores is out of range: %s has 1..%d",
                      value, what, dev->props.name, max);
}

static weir_status check_limits(const weir_device *dev, weir_cores limit)
{
    weir_status st = check_limit(dev, "cube", limit.cube, dev->props.cores.cube);

    return st ? st : check_limit(dev, "vector", limit.vector, dev->props.cores.vector);
}

/* Rounds a limit on hardware that grants cores in units larger than one. */
static int limit_given(const weir_device *dev, int cores)
{
    const struct weir__driver_hardware *hardware = dev->driver->hardware;

    return hardware && hardware->round_limit ? hardware->round_limit(dev, cores) : cores;
}

static weir_status set_limit(const weir_device *dev, struct weir__limit *limit, weir_cores to)
{
    weir_status st = check_limits(dev, to);

    if (!st && to.cube > 0)
        atomic_store_explicit(&limit->cube, limit_given(dev, to.cube), memory_order_relaxed);
    if (!st && to.vector > 0)
        atomic_store_explicit(&limit->vector, limit_given(dev, to.vector), memory_order_relaxed);
    return st;
}

static weir_cores get_limit(const struct weir__limit *limit)
{
    return (weir_cores){atomic_load_explicit(&limit->cube, memory_order_relaxed),
                        atomic_load_explicit(&limit->vector, memory_order_relaxed)};
}

weir_status weir_device_set_limit(weir_device *dev, weir_cores limit)
{
    WEIR__NEED(dev, "dev");
    return set_limit(dev, &dev->limit, limit);
}

weir_cores weir_device_get_limit(const weir_device *dev)
{
    return dev ? get_limit(&dev->limit) : (weir_cores){0};
}

weir_status weir_stream_set_limit(weir_stream *s, weir_cores limit)
{
    WEIR__NEED(s, "stream");
    return set_limit(s->dev, &s->limit, limit);
}

weir_cores weir_stream_get_limit(const weir_stream *s)
{
    if (!s)
        return (weir_cores){0};

    weir_cores own = get_limit(&s->limit), device = get_limit(&s->dev->limit);

    return (weir_cores){own.cube ? own.cube : device.cube, own.vector ? own.vector : device.vector};
}

void weir_stream_reset_limit(weir_stream *s)
{
    if (!s)
        return;
    atomic_store_explicit(&s->limit.cube, 0, memory_order_relaxed);
    atomic_store_explicit(&s->limit.vector, 0, memory_order_relaxed);
}

weir_status weir__device_check_limit(const weir_device *dev, weir_cores limit)
{
    return check_limits(
        dev, (weir_cores){limit.cube ? limit.cube : -1, limit.vector ? limit.vector : -1});
}

unsigned weir__stream_cores(const weir_stream *s, weir_engine engine, weir_cores scope)
{
    return weir__cores_of(s->dev, engine, weir_stream_get_limit(s), scope);
}

unsigned weir__cores_of(const weir_device *dev, weir_engine engine, weir_cores limit,
                        weir_cores scope)
{
    if (scope.cube > 0)
        limit.cube = limit_given(dev, scope.cube);
    if (scope.vector > 0)
        limit.vector = limit_given(dev, scope.vector);
    switch (engine) {
    case WEIR_ENGINE_CUBE:
        return (unsigned)limit.cube;
    case WEIR_ENGINE_VECTOR:
        return (unsigned)limit.vector;
    case WEIR_ENGINE_MIX:
        /* With separate cube and vector cores, a block takes 1 cube core and 2 vector cores. */
        if (dev->props.features & WEIR_FEATURE_SPLIT_CORES)
            return (unsigned)weir__max(1, weir__min(limit.cube, limit.vector / 2));
        return (unsigned)weir__min(limit.cube, limit.vector);
    default:
        return 1;
    }
}
