/* Streams: handles, tags, and queueing on them. */
#include "base/sized.h"
#include "check/race/slots.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

enum { MANY_STREAMS = 256 };

/* ---- slots ---- */

static weir_status grow_streams(weir_device *dev)
{
    unsigned cap = dev->cap_streams ? 2 * dev->cap_streams : 8;
    struct weir__stream_table *table = weir__calloc(1, sizeof *table + cap * sizeof *table->at);

    if (!table)
        return weir__fail_nomem("allocating a table of %u streams", cap);
    if (dev->nstreams)
        memcpy(table->at, dev->streams, dev->nstreams * sizeof *table->at);
    table->smaller = atomic_load_explicit(&dev->table, memory_order_relaxed);
    atomic_store_explicit(&dev->table, table, memory_order_release);
    dev->streams = table->at;
    dev->cap_streams = cap;
    return WEIR_OK;
}

static weir_stream *open_slot(weir_device *dev)
{
    weir_stream *s;

    if (dev->nstreams == dev->cap_streams && grow_streams(dev))
        return NULL;
    if (weir__pool_add_slot(&dev->pool, dev->nstreams))
        return NULL;
    if (!(s = weir__alloc_aligned(dev->driver->stream_size, WEIR__LINE))) {
        weir__fail_nomem("opening a stream on %s", dev->props.name);
        return NULL;
    }
    memset(s, 0, dev->driver->stream_size);
    s->dev = dev;
    s->slot = dev->nstreams;
    if (weir__clock_reserve(&s->clock, s->slot + 1))
        goto free_stream;
    if (dev->driver->stream_open(s))
        goto fini_clock;
    dev->streams[dev->nstreams++] = s;
    return s;

fini_clock:
    weir__clock_fini(&s->clock);
free_stream:
    weir__free(s);
    return NULL;
}

static bool is_idle(weir_stream *s)
{
    const weir_device *dev = s->dev;
    uint64_t done = dev->pool.deterministic ? dev->pool.synced[s->slot] : dev->driver->done(s);

    return done == weir__stream_submitted(s);
}

/* True if the destroyed stream's slot can be given to a new stream. The error of a failed stream is
 * kept until every wait that may still ask for it has completed, on whichever stream. */
static bool may_reuse(weir_stream *s)
{
    const weir_device *dev = s->dev;

    if (s->live || !is_idle(s))
        return false;
    if (weir__race_on() && !weir__race_has_seen(weir__stream_race(s)))
        return false;
    if (atomic_load_explicit(&s->failed_at, memory_order_relaxed) == WEIR__NEVER_FAILED)
        return true;
    if (s->unusable)
        return false;
    for (unsigned i = 0; i < dev->nstreams; i++)
        if (dev->driver->done(dev->streams[i]) < weir__clock_get(&s->retired_at, i))
            return false;
    return true;
}

/* Reuses the slot of a destroyed stream whose work has completed, or opens a new slot. A reused
 * slot keeps its clock, because it keeps its queue: it is still ordered after the same commands. */
weir_stream *weir__device_new_stream(weir_device *dev)
{
    weir_stream *s = NULL;

    for (unsigned i = 0; i < dev->nstreams && !s; i++)
        if (may_reuse(dev->streams[i]))
            s = dev->streams[i];
    if (!s && !(s = open_slot(dev)))
        return NULL;
    s->id = ++dev->next_stream_id;
    s->priority = 0;
    weir_stream_reset_limit(s);
    s->live = true;
    weir__stream_forget_error(s);
    weir__race_rename(&s->race);
    if (s->taken.n) /* the new stream has taken over no errors */
        memset(s->taken.seq, 0, s->taken.n * sizeof *s->taken.seq);
    snprintf(s->name, sizeof s->name, "stream %llu", (unsigned long long)dev->next_stream_id);
    return s;
}

static weir_status check_priority(int priority)
{
    if (priority < WEIR__PRIORITY_MOST || priority > WEIR__PRIORITY_LEAST)
        return weir__fail(WEIR_ERANGE, "stream priority %d is out of range: %d (most urgent) to %d",
                          priority, WEIR__PRIORITY_MOST, WEIR__PRIORITY_LEAST);
    return WEIR_OK;
}

weir_status weir_stream_create(weir_device *dev, const weir_stream_options *options,
                               weir_stream **out)
{
    weir_stream_options o;
    bool hint;
    weir_status st;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = WEIR__TAKE(&o, options, "options of a stream")) || (st = check_priority(o.priority)))
        return st;
    weir__device_lock(dev);
    if (!(*out = weir__device_new_stream(dev))) {
        weir__device_unlock(dev);
        return weir__last_status();
    }
    (*out)->priority = o.priority;
    if (o.name)
        snprintf((*out)->name, sizeof(*out)->name, "%s", o.name);
    weir__stream_announce(*out);
    hint = ++dev->streams_made == MANY_STREAMS;
    weir__device_unlock(dev);
    if (hint)
        weir__log(WEIR_LOG_WARN,
                  "%d streams have been made on %s: make a stream once and keep it, rather than "
                  "one per call",
                  MANY_STREAMS, dev->props.name);
    return WEIR_OK;
}

weir_status weir_stream_destroy(weir_stream *s)
{
    if (!s)
        return WEIR_OK;
    if (s->pinned)
        return weir__fail(WEIR_EINVAL, "stream '%s' belongs to %s and cannot be destroyed", s->name,
                          s->dev->props.name);
    weir_device *dev = s->dev;

    weir__device_lock(dev);
    /* The stream may fail later, so retired_at is filled for every stream. If there is no memory
     * for it and the stream fails, the slot is never reused. */
    s->unusable = weir__clock_reserve(&s->retired_at, dev->nstreams) != WEIR_OK;
    for (unsigned i = 0; i < dev->nstreams && !s->unusable; i++)
        s->retired_at.seq[i] = weir__stream_submitted(dev->streams[i]);
    s->live = false;
    s->id = 0;
    weir__device_unlock(dev);
    return WEIR_OK;
}

/* ---- tags ---- */

static weir_status add_tag(weir_device *dev, const char *tag, int priority, weir_stream **out)
{
    struct weir__tag entry;

    if (dev->ntags == dev->cap_tags) {
        unsigned cap = dev->cap_tags ? 2 * dev->cap_tags : 8;
        struct weir__tag *tags = weir__calloc(cap, sizeof *tags);

        if (!tags)
            return weir__fail_nomem("allocating the table of %u stream tags", cap);
        if (dev->ntags)
            memcpy(tags, dev->tags, dev->ntags * sizeof *tags);
        weir__free(dev->tags);
        dev->tags = tags;
        dev->cap_tags = cap;
    }
    if (!(entry.name = weir__strdup(tag)))
        return weir__fail_nomem("keeping stream tag '%s'", tag);
    if (!(entry.stream = weir__device_new_stream(dev))) {
        weir__free(entry.name);
        return weir__last_status();
    }
    entry.stream->pinned = true;
    entry.stream->priority = priority;
    snprintf(entry.stream->name, sizeof entry.stream->name, "%s", tag);
    weir__stream_announce(entry.stream);
    dev->tags[dev->ntags++] = entry;
    *out = entry.stream;
    return WEIR_OK;
}

weir_status weir_stream_tagged(weir_device *dev, const char *tag, int priority, weir_stream **out)
{
    weir_status st;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(tag, "tag");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (!tag || !*tag)
        return weir__fail(WEIR_EINVAL, "a stream tag must not be empty");
    if ((st = check_priority(priority)))
        return st;
    if (!strcmp(tag, "default")) {
        *out = dev->default_stream;
        return WEIR_OK;
    }
    weir__device_lock(dev);
    for (unsigned i = 0; i < dev->ntags && !*out; i++)
        if (!strcmp(dev->tags[i].name, tag))
            *out = dev->tags[i].stream;
    if (!*out)
        st = add_tag(dev, tag, priority, out);
    weir__device_unlock(dev);
    return st;
}

weir_status weir_stream_communication(weir_device *dev, weir_stream **out)
{
    WEIR__NEED(dev, "dev");
    WEIR__NEED(out, "out");
    return weir_stream_tagged(dev, "communication", 0, out);
}

/* ---- asking ---- */

weir_device *weir_stream_device(const weir_stream *s)
{
    return s ? s->dev : NULL;
}
const char *weir_stream_name(const weir_stream *s)
{
    return s ? s->name : "";
}
int weir_stream_priority(const weir_stream *s)
{
    return s ? s->priority : 0;
}
uint64_t weir_stream_id(const weir_stream *s)
{
    return s ? s->id : 0;
}

/* ---- queueing ---- */

weir_status weir__stream_wait_deferred(weir_stream *s, struct weir__mark deferred)
{
    uint32_t slot = deferred.stream->slot;
    weir_status st;

    if ((st = weir__clock_reserve(&s->clock, slot + 1)) ||
        (st = weir__stream_wait_mark(s, deferred, NULL, WEIR__WAIT_ORDER)))
        return st;
    if (s->clock.seq[slot] < deferred.seq)
        s->clock.seq[slot] = deferred.seq;
    return WEIR_OK;
}

static weir_status queue_deferred_wait(weir_stream *s)
{
    struct weir__mark deferred = s->deferred;
    weir_status st;

    s->deferred.stream = NULL;
    if ((st = weir__stream_wait_deferred(s, deferred)))
        s->deferred = deferred;
    return st;
}

weir_status weir__stream_queue_deferred_slow(weir_stream *s)
{
    static const struct weir__kernel nothing = {.name = "work of others"};
    weir_status st = s->deferred.stream ? queue_deferred_wait(s) : WEIR_OK;

    /* Only a lost device refuses the command, and the caller's next request then fails too. */
    if (!st && s->shared && !s->dev->driver->submit(s, &nothing))
        s->clock.seq[s->slot]++;
    return st;
}

weir_status weir__stream_submit(weir_stream *s, const struct weir__kernel *kernel)
{
    weir_status st = weir__stream_queue_deferred(s);
    /* Read the time before a worker can start the kernel. */
    uint64_t queued = weir__trace_on() ? weir__device_trace_time(s->dev) : 0;

    if (!st)
        st = s->dev->driver->submit(s, kernel);
    if (!st)
        s->clock.seq[s->slot]++;
    if (!st && weir__trace_on())
        weir__trace_put_queued(s->dev->id, s->slot, weir__stream_submitted(s), 1, queued);
    return st;
}

/* True if the mark's stream had failed at or before the mark. Such a wait must be queued even if
 * the command has completed: it takes the error over. */
static bool has_failed(struct weir__mark mark)
{
    return atomic_load_explicit(&mark.stream->failed_at, memory_order_acquire) <= mark.seq;
}

bool weir__stream_is_after(const weir_stream *s, struct weir__mark mark, enum weir__wait how)
{
    uint32_t slot = mark.stream->slot;

    return mark.stream == s ||
           (weir__clock_get(&s->clock, slot) >= mark.seq &&
            (how == WEIR__WAIT_ORDER ||
             (weir__clock_get(&s->taken, slot) >= mark.seq && !has_failed(mark))));
}

/* Records that errors up to the mark have been taken over. If there is no memory for the record,
 * the only effect is that a later wait is queued although it is not needed. */
static void note_taken(weir_stream *s, struct weir__mark mark)
{
    uint32_t slot = mark.stream->slot;

    if (!weir__clock_reserve(&s->taken, slot + 1) && s->taken.seq[slot] < mark.seq)
        s->taken.seq[slot] = mark.seq;
}

static weir_status wait_mark(weir_stream *s, struct weir__mark mark,
                             const struct weir__clock *clock, enum weir__wait how)
{
    weir_status st;

    if (weir__stream_is_after(s, mark, how))
        return WEIR_OK;
    /* Reserve memory first, so that nothing can fail after the wait is queued. */
    if (clock && (st = weir__clock_reserve(&s->clock, clock->n)))
        return st;
    /* A command that a host sync has seen completed needs no wait. Asking the driver instead would
     * cost a cache miss, which is more than the wait. */
    if (s->dev->pool.synced[mark.stream->slot] < mark.seq || has_failed(mark)) {
        if ((st = s->dev->driver->wait(s, mark, how)))
            return st;
        s->clock.seq[s->slot]++;
    }
    if (how == WEIR__WAIT_ERRORS)
        note_taken(s, mark);
    return clock ? weir__clock_merge(&s->clock, clock) : WEIR_OK;
}

weir_status weir__stream_wait_mark(weir_stream *s, struct weir__mark mark,
                                   const struct weir__clock *clock, enum weir__wait how)
{
    struct weir__race_stream before;
    weir_status st = weir__stream_queue_deferred(s);

    if (st)
        return st;
    /* Waits for order alone are the library's own; the race checker must not count them. It is told
     * of the user's waits once they are queued, with the stream's last command before the wait. */
    if (weir__likely(!weir__race_on()) || how == WEIR__WAIT_ORDER)
        return wait_mark(s, mark, clock, how);
    before = weir__stream_race(s);
    if (!(st = wait_mark(s, mark, clock, how)))
        weir__race_see_wait(before, weir__stream_race(mark.stream), mark.seq);
    return st;
}

weir_status weir_stream_wait_stream(weir_stream *s, weir_stream *other)
{
    weir_status st;

    WEIR__NEED(s, "stream");
    WEIR__NEED(other, "other");
    if (s->dev != other->dev)
        return weir__fail(WEIR_EDEVICE, "stream '%s' of %s cannot wait for stream '%s' of %s",
                          s->name, s->dev->label, other->name, other->dev->label);
    weir__device_lock(s->dev);
    if (!(st = weir__stream_queue_deferred(other)) &&
        !(st = weir__stream_wait_mark(s, (struct weir__mark){other, weir__stream_submitted(other)},
                                      &other->clock, WEIR__WAIT_ERRORS)))
        (void)weir__clock_merge(&s->taken, &other->taken);
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev);
    return st;
}

weir_status weir_stream_callback(weir_stream *s, weir_callback_fn fn, void *user)
{
    uint64_t queued;
    weir_status st;

    WEIR__NEED(s, "stream");
    if (!fn)
        return weir__fail(WEIR_EINVAL, "a callback on stream '%s' needs a function", s->name);
    weir__device_lock(s->dev);
    queued = weir__trace_on() ? weir__device_trace_time(s->dev) : 0;
    if (!(st = weir__stream_queue_deferred(s)) && !(st = s->dev->driver->callback(s, fn, user))) {
        s->clock.seq[s->slot]++;
        if (weir__trace_on())
            weir__trace_put_queued(s->dev->id, s->slot, weir__stream_submitted(s), 1, queued);
    }
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev);
    return st;
}
