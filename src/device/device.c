/* Opening, closing and describing devices. */
#include "device/device.h"
#include "base/sized.h"
#include "device/pool_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct weir__driver *const drivers[] = {&weir__cpu_driver, &weir__npu_driver,
                                                     &weir__cuda_driver, &weir__null_driver};

const char *weir_engine_name(weir_engine engine)
{
    static const char *const names[] = {"cube", "vector", "mix", "sdma", "host"};

    return (unsigned)engine < weir__countof(names) ? names[engine] : "?";
}

static const char *unavailable(const struct weir__driver *driver)
{
    return driver->hardware && driver->hardware->unavailable ? driver->hardware->unavailable()
                                                             : NULL;
}

/* Makes the last call to the driver. */
static void release(weir_device *dev)
{
    if (dev->driver->hardware && dev->driver->hardware->release)
        dev->driver->hardware->release(dev);
}

size_t weir_driver_list(weir_driver_info *out, size_t size, size_t max)
{
    for (size_t i = 0; out && i < weir__countof(drivers) && i < max; i++) {
        weir_driver_info row = {drivers[i]->name, drivers[i]->summary, unavailable(drivers[i])};

        weir__sized_give((char *)out + i * size, size, &row, sizeof row);
    }
    return weir__countof(drivers);
}

/* ---- open and close ---- */

static bool all_done(weir_device *dev);

/* Frees records that are linked by their first word. */
static void free_records(void *first)
{
    while (first) {
        void *next = *(void **)first;

        weir__free(first);
        first = next;
    }
}

static void free_streams(weir_device *dev)
{
    for (unsigned i = 0; i < dev->nstreams; i++) {
        dev->driver->stream_close(dev->streams[i]);
        weir__clock_fini(&dev->streams[i]->clock);
        weir__clock_fini(&dev->streams[i]->retired_at);
        weir__clock_fini(&dev->streams[i]->taken);
        free_records(dev->streams[i]->spare_tensors);
        weir__free(dev->streams[i]);
    }
    for (struct weir__stream_table *t = dev->table, *smaller; t; t = smaller) {
        smaller = t->smaller;
        weir__free(t);
    }
    for (unsigned i = 0; i < dev->ntags; i++)
        weir__free(dev->tags[i].name);
    weir__free(dev->tags);
}

static weir_status common_options(weir_device *dev, struct weir__spec *spec, size_t *memory)
{
    int64_t timeout_s = 300;
    weir_status st;

    if ((st = weir__spec_int(spec, "op_timeout", 0, 1000000, &timeout_s)) ||
        (st = weir__spec_bytes(spec, "memory", memory)) ||
        (st = weir__spec_bool(spec, "deterministic", &dev->pool.deterministic)) ||
        (st = weir__spec_bool(spec, "poison", &dev->pool.poison)))
        return st;
    dev->op_timeout_ns = timeout_s ? timeout_s * 1000000000 : -1;
#ifdef WEIR_DEBUG_HOOKS
    dev->pool.unsafe = getenv("WEIR_DEBUG_UNSAFE_POOL") != NULL;
#endif
    return WEIR_OK;
}

static const struct weir__driver *find_driver(const struct weir__spec *spec)
{
    struct weir__text names = {0};

    for (size_t i = 0; i < weir__countof(drivers); i++)
        if (!strcmp(drivers[i]->name, spec->driver))
            return drivers[i];
    for (size_t i = 0; i < weir__countof(drivers); i++)
        weir__text_add(&names, "%s%s", i ? ", " : "", drivers[i]->name);
    weir__fail(WEIR_ESPEC, "device spec '%s': there is no device '%s'; there is %s", spec->text,
               spec->driver, names.data ? names.data : "");
    weir__text_free(&names);
    return NULL;
}

/* ---- all open devices ---- */

static struct weir__mutex open_lock;
static weir_device *open_devices;

weir_device *weir__devices_hold(void)
{
    weir__mutex_lock(&open_lock);
    return open_devices;
}

void weir__devices_release(void)
{
    weir__mutex_unlock(&open_lock);
}

static void add_open(weir_device *dev)
{
    weir__mutex_lock(&open_lock);
    dev->next_open = open_devices;
    open_devices = dev;
    weir__mutex_unlock(&open_lock);
}

static void remove_open(const weir_device *dev)
{
    weir_device **link = &open_devices;

    weir__mutex_lock(&open_lock);
    while (*link != dev)
        link = &(*link)->next_open;
    *link = dev->next_open;
    weir__mutex_unlock(&open_lock);
}

weir_status weir_device_open(const char *text, weir_device **out)
{
    WEIR__NEED(out, "out");
    static _Atomic uint64_t next_id = 1;
    const struct weir__driver *driver;
    struct weir__spec spec;
    weir_device *dev;
    const char *reason;
    weir_status st;

    *out = NULL;
    if ((st = weir__race_from_environment()))
        return st;
    if (!text && !(text = getenv("WEIR_DEVICE")))
        text = "cpu";
    if ((st = weir__spec_parse(text, &spec)))
        return st;
    if (!(driver = find_driver(&spec)))
        return WEIR_ESPEC;
    if ((reason = unavailable(driver)))
        return weir__fail(WEIR_EUNAVAILABLE, "device '%s' cannot be opened here: %s", text, reason);
    if (!(dev = weir__alloc_aligned(driver->device_size, WEIR__LINE)))
        return weir__fail_nomem("opening device '%s'", text);
    memset(dev, 0, driver->device_size);
    dev->driver = driver;
    dev->spare_stamps_end = &dev->spare_stamps;
    dev->id = atomic_fetch_add(&next_id, 1);
    dev->props.priority_least = WEIR__PRIORITY_LEAST;
    dev->props.priority_most = WEIR__PRIORITY_MOST;
    dev->dlpack.type = WEIR__DLPACK_CPU;
    snprintf(dev->props.name, sizeof dev->props.name, "%.63s", text);
    snprintf(dev->label, sizeof dev->label, "%s (device %llu)", dev->props.name,
             (unsigned long long)dev->id);
    if ((st = weir__pool_init(&dev->pool, &weir__device_pool_host, 0)) ||
        (st = common_options(dev, &spec, &dev->pool.stats.limit)))
        goto free_device;
    dev->pool.host.user = dev;
    weir__allocator_hold(1);
    if ((st = driver->open(dev, &spec)))
        goto unhold;
    if (!dev->pool.stats.limit)
        dev->pool.stats.limit = dev->props.memory_bytes;
    dev->props.memory_bytes = dev->pool.stats.limit;
    atomic_init(&dev->limit.cube, dev->props.cores.cube);
    atomic_init(&dev->limit.vector, dev->props.cores.vector);
    if (!(dev->default_stream = weir__device_new_stream(dev))) {
        st = weir__last_status();
        goto close_driver;
    }
    dev->default_stream->pinned = true;
    strcpy(dev->default_stream->name, "default");
    weir__device_listen(dev);
    add_open(dev);
    *out = dev;
    return WEIR_OK;

close_driver:
    driver->close(dev);
    free_streams(dev);
    release(dev);
unhold:
    weir__allocator_hold(-1);
free_device:
    weir__pool_fini(&dev->pool);
    weir__free(dev);
    return st;
}

static weir_status wait_visitors(weir_device *dev)
{
    uint64_t start = weir__clock_ns();

    while (atomic_load(&dev->visitors)) {
        if (dev->op_timeout_ns >= 0 && weir__clock_ns() - start > (uint64_t)dev->op_timeout_ns)
            return weir__fail(WEIR_ETIMEDOUT,
                              "device '%s' cannot close: %u wait(s) of other devices for its "
                              "streams have not ended",
                              dev->props.name, atomic_load(&dev->visitors));
        weir__device_poll(dev);
        weir__yield();
    }
    return WEIR_OK;
}

void weir__device_leave(weir_device *dev, struct weir__leftover *leftover)
{
    weir__device_lock(dev);
    leftover->next = dev->leftovers;
    dev->leftovers = leftover;
    weir__device_unlock(dev);
}

static void free_leftovers(weir_device *dev)
{
    while (dev->leftovers) {
        struct weir__leftover *leftover = dev->leftovers;

        dev->leftovers = leftover->next;
        leftover->free(leftover);
    }
}

static weir_status refuse_close(weir_device *dev)
{
    int tagged = atomic_load(&dev->tagged_live);

    return weir__fail(WEIR_EBUSY,
                      "device '%s' cannot close: %zu tensor(s), %zu event(s), %d tagged event(s), "
                      "%d graph(s) and plan(s), and %s of buffers are still held",
                      dev->props.name, dev->tensors_live - (size_t)tagged, dev->events_live, tagged,
                      atomic_load(&dev->graphs_live), weir__size(dev->pool.stats.allocated).text);
}

weir_status weir_device_close(weir_device *dev)
{
    weir_status st;

    if (!dev)
        return WEIR_OK;
    do { /* callbacks may queue more */
        if ((st = weir__device_await_all(dev, false)))
            return st;
    } while (!all_done(dev));
    if ((st = wait_visitors(dev)))
        return st;
    for (unsigned i = 0; i < dev->nstreams && weir__race_on(); i++)
        weir__stream_saw(dev->streams[i], weir__stream_submitted(dev->streams[i]));
    free_leftovers(dev);
    weir__device_reap(dev, false);
    if (atomic_load(&dev->groups_live))
        return weir__fail(WEIR_EBUSY, "device '%s' cannot close: groups have %d rank(s) on it",
                          dev->props.name, atomic_load(&dev->groups_live));
    if (dev->tensors_live || dev->events_live || dev->pool.stats.allocated ||
        atomic_load(&dev->graphs_live))
        return refuse_close(dev);
    remove_open(dev);
    weir__device_reap(dev, true);
    weir__trace_remove_source(&dev->trace);
    dev->driver->close(dev);
    weir__pool_fini(&dev->pool);
    free_streams(dev);
    release(dev);
    free_records(dev->spare_tensors);
    free_records(dev->spare_events);
    while (dev->spare_stamps) {
        struct weir__stamp *stamp = dev->spare_stamps;

        dev->spare_stamps = stamp->next;
        weir__free(stamp);
    }
    weir__free(dev);
    weir__allocator_hold(-1);
    return WEIR_OK;
}

weir_status weir_device_default(weir_device **out)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static weir_device *device;
    static pid_t opener;
    weir_status st = WEIR_OK;

    WEIR__NEED(out, "out");
    pthread_mutex_lock(&once);
    /* After a fork the parent's device is still in memory, but its threads are not. */
    if (device && opener != getpid())
        device = NULL;
    if (!device && !(st = weir_device_open(NULL, &device)))
        opener = getpid();
    *out = device;
    pthread_mutex_unlock(&once);
    return st;
}

/* ---- asking ---- */

void weir_device_get_props(const weir_device *dev, weir_device_props *out, size_t size)
{
    if (!dev || !out)
        return;
    weir__sized_give(out, size, &dev->props, sizeof dev->props);
}
const char *weir_device_name(const weir_device *dev)
{
    return dev ? dev->props.name : "";
}
uint64_t weir_device_now(const weir_device *dev)
{
    return dev ? dev->driver->now(dev) : 0;
}

weir_status weir__device_await_all(weir_device *dev, bool errors)
{
    weir_status first = WEIR_OK;
    char text[sizeof dev->default_stream->error_text];

    for (unsigned i = 0;; i++) {
        struct weir__mark now;
        weir_stream *s;
        bool live;
        weir_status st;

        weir__device_lock(dev);
        s = i < dev->nstreams ? dev->streams[i] : NULL;
        live = s && s->live;
        weir__device_unlock(dev);
        if (!s)
            break;
        if ((st = weir__stream_mark(s, &now)))
            return st;
        st = (errors ? weir__stream_sync_seq : weir__stream_await)(s, now.seq, WEIR_TIMEOUT_DEVICE,
                                                                   true);
        /* WEIR_ETIMEDOUT may also be the stream's error, from a collective that has timed out. Its
         * commands have completed then. */
        if ((st == WEIR_ETIMEDOUT || st == WEIR_EINTERRUPTED) && dev->driver->done(s) < now.seq)
            return st;
        if (st && !first && live) {
            first = st;
            snprintf(text, sizeof text, "%s", weir_last_error());
        }
    }
    return first && errors ? weir__fail(first, "%s", text) : WEIR_OK;
}

static bool all_done(weir_device *dev)
{
    bool done = true;

    weir__device_lock(dev);
    for (unsigned i = 0; i < dev->nstreams; i++)
        done &= dev->driver->done(dev->streams[i]) == weir__stream_submitted(dev->streams[i]);
    weir__device_unlock(dev);
    return done;
}

/* True if everything queued has completed and no stream has failed. Then it also tells the pool
 * what has completed. (L) */
static bool is_at_rest(weir_device *dev)
{
    /* Devices without helping host threads may notice completed commands only in a sync. */
    if (!dev->driver->helping || weir__race_on() || dev->pool.poison)
        return false;
    for (unsigned i = 0; i < dev->nstreams; i++) {
        const weir_stream *s = dev->streams[i];
        uint64_t queued = weir__stream_submitted(s);

        if (s->deferred.stream || s->shared || dev->driver->done(dev->streams[i]) != queued ||
            atomic_load_explicit(&s->failed_at, memory_order_acquire) != WEIR__NEVER_FAILED)
            return false;
        weir__pool_synced(&dev->pool, s->slot, queued);
    }
    return true;
}

weir_status weir_device_sync(weir_device *dev)
{
    WEIR__NEED(dev, "dev");

    weir_status st;
    bool at_rest;

    weir__device_lock(dev);
    if ((at_rest = is_at_rest(dev)))
        weir__pool_collect(&dev->pool);
    weir__device_unlock(dev);
    if (at_rest) {
        weir__device_reap(dev, false);
        return WEIR_OK;
    }
    st = weir__device_await_all(dev, true);
    weir__device_lock(dev);
    weir__pool_collect(&dev->pool); /* blocks whose uses have completed are free from here on */
    weir__device_unlock(dev);
    dev->driver->kick(dev); /* poison may have been queued */
    weir__device_reap(dev, false);
    return st;
}
