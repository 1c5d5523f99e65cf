/* Events: a mark on a stream, the stream's clock at that mark, and a time if timing is on. */
#include "base/sized.h"
#include "device/device.h"

struct weir_event {
    weir_event *next_spare; /* must be the first word: weir_device.spare_events links by it */
    weir_device *dev;
    bool live; /* (L) not destroyed; the device keeps the memory, so this can be read later */
    bool timing, blocking, recorded;
    struct weir__mark mark;
    struct weir__clock clock, taken; /* the stream's when it was recorded */
    struct weir__stamp *stamp;       /* of the last record; NULL without timing */
};

weir_status weir_event_create(weir_device *dev, const weir_event_options *options, weir_event **out)
{
    weir_event_options o;
    weir_status st;
    weir_event *e;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = WEIR__TAKE(&o, options, "options of an event")))
        return st;
    weir__device_lock(dev);
    if (dev->events_most && dev->events_live >= dev->events_most)
        st = weir__fail(WEIR_ERANGE, "cannot create another event on %s: it has at most %zu",
                        dev->props.name, dev->events_most);
    else if ((e = dev->spare_events))
        dev->spare_events = e->next_spare;
    else if (!(e = weir__malloc(sizeof *e)))
        st = weir__fail_nomem("making an event on %s", dev->props.name);
    if (!st) {
        *e = (weir_event){.dev = dev, .live = true, .timing = o.timing, .blocking = o.blocking};
        dev->events_live++;
        *out = e;
    }
    weir__device_unlock(dev);
    return st;
}

/* Puts the stamp on the spare list. take_stamp reuses it once its command has completed. */
static void give_stamp(weir_device *dev, struct weir__stamp *stamp)
{
    stamp->next = NULL;
    *dev->spare_stamps_end = stamp;
    dev->spare_stamps_end = &stamp->next;
}

static struct weir__stamp *take_stamp(weir_device *dev)
{
    struct weir__stamp *stamp = dev->spare_stamps;

    if (!stamp || dev->driver->done(stamp->mark.stream) < stamp->mark.seq)
        return weir__calloc(1, sizeof *stamp);
    if (!(dev->spare_stamps = stamp->next))
        dev->spare_stamps_end = &dev->spare_stamps;
    return stamp;
}

weir_status weir_event_destroy(weir_event *e)
{
    weir_device *dev;

    if (!e)
        return WEIR_OK;
    dev = e->dev;
    weir__device_lock(dev);
    if (!e->live) {
        weir__device_unlock(dev);
        return weir__fail(WEIR_EINVAL, "an event of %s is destroyed twice", dev->props.name);
    }
    e->live = false;
    dev->events_live--;
    if (e->stamp)
        give_stamp(dev, e->stamp);
    weir__clock_fini(&e->clock);
    weir__clock_fini(&e->taken);
    e->next_spare = dev->spare_events;
    dev->spare_events = e;
    weir__device_unlock(dev);
    return WEIR_OK;
}

static weir_status record_stamp(weir_stream *s, struct weir__stamp **out)
{
    weir_device *dev = s->dev;
    struct weir__stamp *stamp = take_stamp(dev);
    weir_status st;

    if (!stamp)
        return weir__fail_nomem("recording a time on stream '%s'", s->name);
    if ((st = dev->driver->stamp(s, &stamp->ns))) {
        stamp->mark = (struct weir__mark){s, 0};
        give_stamp(dev, stamp);
        return st;
    }
    stamp->mark = (struct weir__mark){s, ++s->clock.seq[s->slot]};
    *out = stamp;
    return WEIR_OK;
}

weir_status weir_event_record(weir_event *e, weir_stream *s)
{
    struct weir__stamp *stamp = NULL;
    bool queues;
    weir_status st;

    WEIR__NEED(e, "event");
    WEIR__NEED(s, "stream");
    if (e->dev != s->dev)
        return weir__fail(WEIR_EDEVICE, "an event of %s cannot be recorded on stream '%s' of %s",
                          e->dev->label, s->name, s->dev->label);
    weir__device_lock(s->dev);
    queues = e->timing || s->deferred.stream;
    if (!(st = weir__stream_queue_deferred(s)) &&
        !(st = weir__clock_reserve(&e->clock, s->clock.n)) &&
        !(st = weir__clock_reserve(&e->taken, s->taken.n)) && e->timing)
        st = record_stamp(s, &stamp);
    if (!st && s->dev->driver->notices && s->dev->driver->notices->mark)
        st = s->dev->driver->notices->mark(s);
    /* The event gets all new values, or keeps all old ones. */
    if (!st && !(st = weir__clock_copy(&e->clock, &s->clock)) &&
        !(st = weir__clock_copy(&e->taken, &s->taken))) {
        struct weir__stamp *old = e->stamp;

        e->mark = (struct weir__mark){s, weir__stream_submitted(s)};
        e->recorded = true;
        e->stamp = stamp;
        stamp = old;
    }
    if (stamp)
        give_stamp(e->dev, stamp);
    weir__device_unlock(s->dev);
    if (queues)
        s->dev->driver->kick(s->dev);
    return st;
}

weir_status weir_stream_wait(weir_stream *s, const weir_event *e)
{
    weir_status st;

    WEIR__NEED(s, "stream");
    WEIR__NEED(e, "event");
    if (e->dev != s->dev)
        return weir__fail(WEIR_EDEVICE, "stream '%s' of %s cannot wait for an event of %s", s->name,
                          s->dev->label, e->dev->label);
    if (!e->recorded)
        return WEIR_OK;
    weir__device_lock(s->dev);
    if (!(st = weir__stream_wait_mark(s, e->mark, &e->clock, WEIR__WAIT_ERRORS)))
        (void)weir__clock_merge(&s->taken, &e->taken);
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev);
    return st;
}

weir_status weir_event_query(const weir_event *e, bool *done)
{
    WEIR__NEED(e, "event");
    WEIR__NEED(done, "done");
    weir__device_poll(e->dev);
    *done = !e->recorded || e->dev->driver->done(e->mark.stream) >= e->mark.seq;
    if (weir__race_on() && e->recorded && *done)
        weir__stream_saw(e->mark.stream, e->mark.seq);
    return e->recorded && *done ? weir__stream_error(e->mark.stream, e->mark.seq) : WEIR_OK;
}

weir_status weir_event_sync_for(const weir_event *e, int64_t timeout_ns)
{
    WEIR__NEED(e, "event");
    if (!e->recorded)
        return WEIR_OK;
    return weir__stream_sync_seq(e->mark.stream, e->mark.seq, timeout_ns, !e->blocking);
}

weir_status weir_event_sync(const weir_event *e)
{
    WEIR__NEED(e, "event");
    return weir_event_sync_for(e, WEIR_TIMEOUT_DEVICE);
}

static weir_status stamped(const weir_event *e, const char *which, uint64_t *ns)
{
    weir_status st;

    if (!e->timing)
        return weir__fail(WEIR_ESTATE, "the %s event was made without timing", which);
    if (!e->recorded)
        return weir__fail(WEIR_ESTATE, "the %s event was never recorded", which);
    if ((st = weir_event_sync(e)))
        return st;
    *ns = atomic_load_explicit(&e->stamp->ns, memory_order_acquire);
    if (*ns == WEIR__NO_TIME)
        return weir__fail(WEIR_EDRIVER, "%s has no time for the %s event", e->dev->props.name,
                          which);
    return WEIR_OK;
}

weir_status weir_event_elapsed(const weir_event *start, const weir_event *end, double *milliseconds)
{
    uint64_t from, to;
    weir_status st;

    WEIR__NEED(start, "start");
    WEIR__NEED(end, "end");
    WEIR__NEED(milliseconds, "milliseconds");
    *milliseconds = 0;
    if ((st = stamped(start, "start", &from)) || (st = stamped(end, "end", &to)))
        return st;
    *milliseconds = ((double)to - (double)from) / 1e6;
    return WEIR_OK;
}
