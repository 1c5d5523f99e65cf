/* Rings, and the current recording.
 *
 * A ring has one writer, the thread that owns it, and is read under the lock at the end of the
 * recording. The writer stores the record and then the head; the reader loads the head and then
 * the records before it. A writer may still write one record after the recording has ended. That
 * record goes into the slot at the head, which the reader leaves out.
 *
 * Rings outlive recordings, because a late writer may still use one. When a thread ends, its ring
 * goes to the next thread that needs one. Their memory is mapped from the system; only its
 * beginning is populated in advance, the rest page by page when it is first written.
 *
 * Two locks: `sources_lock` guards the list of devices and is taken outside device locks; `lock`
 * guards rings and the session and is taken inside device locks.
 */
#include "trace/record/store.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/sized.h"

enum { DEFAULT_BYTES = 32 << 20, LEAST_BYTES = 4 << 10, WATCH_BYTES = 2 << 20 };
#define MOST_BYTES ((size_t)16 << 30)

_Static_assert(sizeof(struct weir__trace_record) == WEIR__LINE, "a record is a cache line");

_Alignas(WEIR__LINE) _Atomic uint32_t weir__trace_generation; /* avoids false sharing */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__trace_source *sources;
static struct weir__trace_ring *rings;
static struct {
    uint32_t last; /* number of the last recording that began */
    bool watched;  /* the watch began it; a recording that the program begins replaces it */
    size_t count;  /* records of a ring */
    struct weir__trace_raw raw;
} session;

/* ---- a thread's ring ---- */

static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT, forks = PTHREAD_ONCE_INIT;
/* The faster TLS model "initial-exec" is not used: loading the library into a running program, as
 * Python does, could then fail for lack of static thread storage. */
static _Thread_local struct weir__trace_ring *mine;

/* Runs on the thread that ends. If destructors of other libraries record after this, the thread
 * claims a ring again. */
static void disown(void *ring)
{
    mine = NULL;
    pthread_mutex_lock(&lock);
    ((struct weir__trace_ring *)ring)->owned = false;
    pthread_mutex_unlock(&lock);
}

static void make_key(void)
{
    if (pthread_key_create(&at_exit, disown))
        at_exit = (pthread_key_t)-1;
}

static void *map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Returns a ring whose thread has ended, or a new one. */
static struct weir__trace_ring *claim(void)
{
    struct weir__trace_ring *r = rings;

    while (r && r->owned)
        r = r->next;
    if (!r) {
        if (!(r = map(sizeof *r)))
            return NULL;
        r->next = rings;
        rings = r;
    }
    r->owned = true;
    mine = r;
    pthread_once(&once, make_key);
    pthread_setspecific(at_exit, r);
    return r;
}

static bool resize(struct weir__trace_ring *r, size_t count)
{
    struct weir__trace_record *records;

    if (r->count == count)
        return true;
    if (!(records = map(count * sizeof *records)))
        return false;
    if (r->records)
        munmap(r->records, r->count * sizeof *records);
    r->records = records;
    r->count = count;
    for (size_t at = 0; at < weir__trace_kept(r); at += 4096)
        *(volatile char *)((char *)records + at) = 0;
    return true;
}

/* Resets the thread's ring for its first record of a recording. NULL if the recording has ended
 * already, or memory is short. Not inlined, so that the fast path of its caller saves no
 * registers. */
static __attribute__((noinline)) struct weir__trace_ring *join(uint32_t recording)
{
    struct weir__trace_ring *r = NULL;

    pthread_mutex_lock(&lock);
    if (recording == atomic_load_explicit(&weir__trace_generation, memory_order_relaxed))
        r = mine ? mine : claim();
    if (r && !resize(r, session.count)) {
        session.raw.dropped++;
        r = NULL;
    }
    if (r && atomic_load_explicit(&r->recording, memory_order_relaxed) != recording) {
        atomic_store_explicit(&r->head, 0, memory_order_relaxed);
        atomic_store_explicit(&r->recording, recording, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

struct weir__trace_ring *weir__trace_get_ring(void)
{
    uint32_t now = atomic_load_explicit(&weir__trace_generation, memory_order_relaxed);
    struct weir__trace_ring *r = mine;

    if (weir__unlikely(!now))
        return NULL;
    if (weir__likely(r && atomic_load_explicit(&r->recording, memory_order_relaxed) == now))
        return r;
    return join(now);
}

void weir__trace_put(const struct weir__trace_record *record)
{
    struct weir__trace_ring *r = weir__trace_get_ring();

    if (!r)
        return;
    *weir__trace_slot(r) = *record;
    weir__trace_written(r);
}

/* ---- devices and streams ---- */

/* Adds a device, sorted by id: two devices that are opened concurrently may arrive in either order.
 * The caller holds both locks, and a trace is being recorded. */
static void add_device(const struct weir__trace_source *s)
{
    struct weir__trace_raw *raw = &session.raw;
    const weir_device_props *p = s->props;
    struct weir__trace_raw_device *d;
    int at = raw->ndevices;

    if (!weir__grow(&raw->devices, raw->ndevices, &raw->cap_devices, sizeof *raw->devices)) {
        raw->dropped++;
        return;
    }
    for (; at && raw->devices[at - 1].id > s->id; at--)
        raw->devices[at] = raw->devices[at - 1];
    raw->ndevices++;
    d = &raw->devices[at];
    *d = (struct weir__trace_raw_device){
        .id = s->id,
        .cores = p->cores,
        .split = p->features & WEIR_FEATURE_SPLIT_CORES,
        .real_time = p->features & WEIR_FEATURE_REAL_TIME,
        .clock = s->clock,
    };
    snprintf(d->name, sizeof d->name, "%s", p->name);
    snprintf(d->model, sizeof d->model, "%s", p->model);
}

void weir__trace_stream(uint64_t device, uint32_t slot, uint64_t first, const char *name,
                        int priority)
{
    struct weir__trace_raw *raw = &session.raw;
    struct weir__trace_raw_stream *s;

    if (!weir__trace_on())
        return;
    pthread_mutex_lock(&lock);
    if (!weir__trace_on()) {
        /* The recording has just ended: nobody would free an entry that is added now. */
    } else if (!weir__grow(&raw->streams, raw->nstreams, &raw->cap_streams, sizeof *raw->streams)) {
        raw->dropped++;
    } else {
        s = &raw->streams[raw->nstreams++];
        *s = (struct weir__trace_raw_stream){
            .device = device, .slot = slot, .first = first, .priority = priority};
        snprintf(s->name, sizeof s->name, "%s", name);
    }
    pthread_mutex_unlock(&lock);
}

/* Adds the device to the recording. The caller holds sources_lock, so a recording may end
 * meanwhile, but none begins. */
static void introduce(struct weir__trace_source *s)
{
    pthread_mutex_lock(&lock);
    if (weir__trace_on())
        add_device(s);
    pthread_mutex_unlock(&lock);
    s->announce(s);
}

void weir__trace_add_source(struct weir__trace_source *source)
{
    struct weir__trace_source **end = &sources;

    weir__trace_ticks_init();
    pthread_mutex_lock(&sources_lock);
    while (*end && (*end)->id < source->id) /* oldest first: ranks open their devices in order */
        end = &(*end)->next;
    source->next = *end;
    *end = source;
    if (weir__trace_on())
        introduce(source);
    pthread_mutex_unlock(&sources_lock);
}

void weir__trace_remove_source(struct weir__trace_source *source)
{
    struct weir__trace_source **s = &sources;

    pthread_mutex_lock(&sources_lock);
    while (*s != source)
        s = &(*s)->next;
    *s = source->next;
    pthread_mutex_unlock(&sources_lock);
}

/* ---- start and stop ---- */

/* Ends and discards the recording. The caller holds the lock. */
static void forget(void)
{
    atomic_store(&weir__trace_generation, 0);
    weir__trace_raw_fini(&session.raw);
    session.raw = (struct weir__trace_raw){0};
    session.watched = false;
    weir__allocator_hold(-1);
}

static weir_status begin(size_t bytes, bool watched)
{
    weir_status st = WEIR_OK;

    pthread_mutex_lock(&lock);
    if (weir__trace_on() && session.watched && !watched)
        forget();
    if (weir__trace_on()) {
        st = weir__fail(WEIR_ESTATE, "a trace is being recorded already");
    } else {
        session.count = 1;
        while (2 * session.count * sizeof(struct weir__trace_record) <= bytes)
            session.count *= 2;
        session.raw = (struct weir__trace_raw){.start_ns = weir__clock_ns(),
                                               .start_ticks = weir__trace_ticks()};
        session.watched = watched;
        if (!++session.last) /* 0 means off */
            session.last++;
        weir__allocator_hold(1);
        atomic_store(&weir__trace_generation, session.last);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

/* Discards the recording and fails if it could not add all devices and streams. */
static weir_status check_begun(void)
{
    bool lost;

    pthread_mutex_lock(&lock);
    if ((lost = session.raw.dropped))
        forget();
    pthread_mutex_unlock(&lock);
    return lost ? weir__fail_nomem("allocating the devices and streams of a trace") : WEIR_OK;
}

/* A forked child has no recording threads, but would inherit the locks that they hold. So the
 * forking thread takes all these locks before the fork, in lock order, and releases them in parent
 * and child. */
static void before_fork(void)
{
    pthread_mutex_lock(&sources_lock);
    pthread_mutex_lock(&lock);
    weir__trace_names_hold(true);
}

static void after_fork(void)
{
    weir__trace_names_hold(false);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&sources_lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static weir_status start(size_t bytes, bool watched)
{
    weir_status st;

    pthread_once(&forks, watch_forks);
    weir__trace_ticks_init(); /* weir__trace_add_source does this too; no device may be open yet */
    pthread_mutex_lock(&sources_lock);
    if (!(st = begin(bytes, watched))) {
        for (struct weir__trace_source *s = sources; s; s = s->next)
            introduce(s);
        st = check_begun();
    }
    pthread_mutex_unlock(&sources_lock);
    return st;
}

weir_status weir_trace_start(const weir_trace_options *options)
{
    weir_trace_options o;
    weir_status st = WEIR__TAKE(&o, options, "options of a trace");
    size_t bytes = o.bytes_per_thread ? o.bytes_per_thread : DEFAULT_BYTES;

    if (st)
        return st;
    if (bytes < LEAST_BYTES || bytes > MOST_BYTES)
        return weir__fail(WEIR_ERANGE, "%zu bytes per thread are out of range for a trace: %d..%zu",
                          bytes, LEAST_BYTES, MOST_BYTES);
    return start(bytes, false);
}

weir_status weir__trace_watch_start(void)
{
    return start(WATCH_BYTES, true);
}

static bool is_programs_own(void)
{
    bool own;

    pthread_mutex_lock(&lock);
    own = weir__trace_on() && !session.watched;
    pthread_mutex_unlock(&lock);
    return own;
}

bool weir_trace_running(void)
{
    return weir__trace_on() && is_programs_own();
}

/* Copies the session's devices and streams. The caller holds the lock. */
static weir_status copy_session(struct weir__trace_raw *raw, uint32_t recording)
{
    *raw = (struct weir__trace_raw){.dropped = session.raw.dropped,
                                    .start_ns = session.raw.start_ns,
                                    .start_ticks = session.raw.start_ticks,
                                    .ndevices = session.raw.ndevices,
                                    .nstreams = session.raw.nstreams};
    raw->devices = weir__malloc(((size_t)raw->ndevices + 1) * sizeof *raw->devices);
    raw->streams = weir__malloc(((size_t)raw->nstreams + 1) * sizeof *raw->streams);
    if (!raw->devices || !raw->streams)
        return weir__fail_nomem("copying a trace");
    if (raw->ndevices)
        memcpy(raw->devices, session.raw.devices, (size_t)raw->ndevices * sizeof *raw->devices);
    if (raw->nstreams)
        memcpy(raw->streams, session.raw.streams, (size_t)raw->nstreams * sizeof *raw->streams);
    return weir__trace_look(rings, recording, raw);
}

weir_status weir_trace_snapshot(weir_trace **out)
{
    struct weir__trace_raw raw = {0};
    uint32_t recording;
    weir_status st;

    WEIR__NEED(out, "out");
    *out = NULL;
    pthread_mutex_lock(&lock);
    if (!(recording = atomic_load(&weir__trace_generation))) {
        st = weir__fail(WEIR_ESTATE, "no trace is being recorded");
    } else {
        weir__allocator_hold(1); /* the trace's */
        st = copy_session(&raw, recording);
    }
    pthread_mutex_unlock(&lock);
    if (!recording)
        return st;
    raw.ns_per_tick = weir__trace_tick_ns();
    if (!st)
        st = weir__trace_collect(&raw, out);
    weir__trace_raw_fini(&raw);
    if (st)
        weir__allocator_hold(-1);
    return st;
}

weir_status weir_trace_stop(weir_trace **out)
{
    struct weir__trace_raw raw = {0};
    uint32_t recording;
    weir_status st;

    WEIR__NEED(out, "out");
    *out = NULL;
    pthread_mutex_lock(&lock);
    recording = session.watched ? 0 : atomic_exchange(&weir__trace_generation, 0);
    if (!recording) {
        st = weir__fail(WEIR_ESTATE, "no trace is being recorded");
    } else {
        raw = session.raw;
        session.raw = (struct weir__trace_raw){0};
        st = weir__trace_drain(rings, recording, &raw);
    }
    pthread_mutex_unlock(&lock);
    if (!recording)
        return st;
    raw.ns_per_tick = weir__trace_tick_ns();
    if (!st)
        st = weir__trace_collect(&raw, out);
    weir__trace_raw_fini(&raw);
    if (st)
        weir__allocator_hold(-1); /* else the trace has it */
    return st;
}

void weir__trace_raw_fini(struct weir__trace_raw *raw)
{
    weir__free(raw->records);
    weir__free(raw->devices);
    weir__free(raw->streams);
}
