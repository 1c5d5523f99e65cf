/* Runs host functions in stream order: on the thread that subscribed to the stream, inside
 * aclrtProcessReport, or on a thread of the library (aclrtLaunchHostFunc). weir's callbacks only
 * hand the functions over to those threads: a callback of weir must not block, but a function of
 * the program may. */
#include "runtime/graph/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct job {
    aclrtCallback fn;
    void *user;
    struct gate *gate; /* opened after the function has returned; NULL: none */
    struct worker *worker;
    struct job *next;
};

/* A thread that runs jobs. */
struct worker {
    uint64_t thread; /* the caller of aclrtProcessReport; 0: the library's thread */
    int streams;     /* number of subscribed streams */
    int inside;      /* calls of aclrtProcessReport in progress */
    bool subscribed; /* it has subscribed at least once */
    bool came;       /* has called aclrtProcessReport, or is no longer waited for */
    struct job *first, **last;
    struct worker *next;
};

/* How long device synchronisation waits for subscribed threads that have not asked for
 * callbacks. */
#define AWAIT_NS INT64_C(2000000000)

static struct worker *workers; /* of subscribed threads, and of those that asked for callbacks */
static struct worker own;
static bool own_runs, own_stops;
static pthread_t own_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;

void callback_forget_all(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&posted, NULL);
    workers = NULL;
    own = (struct worker){0};
    own_runs = own_stops = false;
}

static void post(void *user, weir_status status)
{
    struct job *j = user;
    struct worker *w = j->worker;

    (void)status; /* the function is called even if the stream failed, as on the hardware */
    pthread_mutex_lock(&lock);
    j->next = NULL;
    if (!w->first)
        w->last = &w->first;
    *w->last = j;
    w->last = &j->next;
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&lock);
}

/* Removes and returns the first job, or NULL. The caller holds the lock. */
static struct job *take(struct worker *w)
{
    struct job *j = w->first;

    if (j)
        w->first = j->next;
    return j;
}

static void run(struct job *j)
{
    j->fn(j->user);
    if (j->gate)
        gate_open(j->gate, NULL);
    free(j);
}

static aclError queue(const char *function, struct stream *s, aclrtCallback fn, void *user,
                      bool block, struct worker *w)
{
    struct job *j = malloc(sizeof *j);
    weir_status st;
    aclError err;

    if (!j)
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "a callback on stream %d", s->id);
    *j = (struct job){.fn = fn, .user = user, .worker = w};
    if (block && (err = gate_prepare(s, &j->gate))) {
        free(j);
        return err;
    }
    if ((st = weir_stream_callback(s->weir, post, j))) {
        free(j);
        return fail_status(st, function);
    }
    return block ? gate_close(function, s) : ACL_SUCCESS;
}

/* ---- subscribed threads ---- */

/* Returns the thread's worker, or NULL. The caller holds the lock. */
static struct worker *find(uint64_t thread)
{
    struct worker *w = workers;

    while (w && w->thread != thread)
        w = w->next;
    return w;
}

/* Returns the thread's worker, a new one if needed; NULL when out of memory. The caller holds the
 * lock. */
static struct worker *find_or_make(uint64_t thread)
{
    struct worker *w = find(thread);

    if (!w && (w = calloc(1, sizeof *w))) {
        w->thread = thread;
        w->next = workers;
        workers = w;
    }
    return w;
}

void callback_await_threads(int64_t timeout_ns)
{
    uint64_t self = (uint64_t)pthread_self();
    struct timespec end;
    int late = 0;

    if (timeout_ns > AWAIT_NS)
        timeout_ns = AWAIT_NS;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)((end.tv_nsec + timeout_ns) / 1000000000);
    end.tv_nsec = (end.tv_nsec + timeout_ns) % 1000000000;
    pthread_mutex_lock(&lock);
    for (struct worker *w = workers; w; w = w->next) {
        w->inside++; /* keeps the worker alive */
        while (!w->came && w->streams && w->thread != self && !late)
            late = pthread_cond_timedwait(&posted, &lock, &end);
        w->inside--;
        w->came |= w->streams && w->thread != self;
    }
    pthread_mutex_unlock(&lock);
}

EXPORT aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    struct worker *w;
    struct stream *s;
    uint64_t none = 0;
    aclError err;

    if (!threadId)
        return FAIL(ACL_ERROR_INVALID_PARAM, "threadId is 0");
    if ((err = stream_get(stream, &s)))
        return err;
    pthread_mutex_lock(&lock);
    if (!(w = find_or_make(threadId)))
        err = FAIL(ACL_ERROR_BAD_ALLOC, "a subscription");
    else if (!atomic_compare_exchange_strong(&s->reporter, &none, threadId))
        err = FAIL(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is subscribed already", s->id);
    else
        w->streams++;
    if (!err)
        w->subscribed = true;
    pthread_mutex_unlock(&lock);
    return err;
}

EXPORT aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    struct stream *s;
    uint64_t thread = threadId;
    aclError err;

    if (!threadId)
        return FAIL(ACL_ERROR_INVALID_PARAM, "threadId is 0");
    if ((err = stream_get(stream, &s)))
        return err;
    pthread_mutex_lock(&lock);
    if (!atomic_compare_exchange_strong(&s->reporter, &thread, 0))
        err = FAIL(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is not subscribed by that thread",
                   s->id);
    else
        find(threadId)->streams--; /* the worker stays: callbacks may still be queued for it */
    pthread_mutex_unlock(&lock);
    return err;
}

EXPORT aclError aclrtLaunchCallback(aclrtCallback fn, void *userData,
                                    aclrtCallbackBlockType blockType, aclrtStream stream)
{
    struct worker *w;
    struct stream *s;
    aclError err;

    NEED(fn);
    if ((unsigned)blockType > ACL_CALLBACK_BLOCK)
        return FAIL(ACL_ERROR_INVALID_PARAM, "blockType %d is neither 0 nor 1", (int)blockType);
    if ((err = stream_get(stream, &s)))
        return err;
    if (s->capture)
        return capture_host(__func__, s, fn, userData);
    pthread_mutex_lock(&lock);
    w = s->reporter ? find(s->reporter) : NULL;
    pthread_mutex_unlock(&lock);
    if (!w)
        return FAIL(ACL_ERROR_RT_STREAM_NO_CB_REG, "stream %d: call aclrtSubscribeReport first",
                    s->id);
    return queue(__func__, s, fn, userData, blockType == ACL_CALLBACK_BLOCK, w);
}

/* Queries a stream, as a modelled device makes progress only while the host queries or waits. */
static void ask(void *object, void *user)
{
    struct stream *s = object;
    bool done;

    if (s->reporter == *(uint64_t *)user && !s->capture &&
        !(s->context->device->props.features & WEIR_FEATURE_REAL_TIME))
        weir_stream_query(s->weir, &done);
}

EXPORT aclError aclrtProcessReport(int32_t timeout)
{
    uint64_t self = (uint64_t)pthread_self();
    struct timespec end, slice;
    struct worker *w;
    struct job *j;

    if (timeout < -1)
        return FAIL(ACL_ERROR_INVALID_PARAM, "timeout is %d ms", timeout);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += timeout / 1000;
    end.tv_nsec += timeout % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&lock);
    if ((w = find_or_make(self)) && !w->came) {
        w->came = true;
        pthread_cond_broadcast(&posted);
    }
    if (!w || !w->subscribed) {
        pthread_mutex_unlock(&lock);
        return FAIL(ACL_ERROR_RT_THREAD_SUBSCRIBE, "no stream is subscribed by this thread");
    }
    w->inside++;
    while (!(j = take(w))) {
        pthread_mutex_unlock(&lock);
        handle_each(KIND_STREAM, ask, &self);
        pthread_mutex_lock(&lock);
        if (w->first)
            continue;
        clock_gettime(CLOCK_REALTIME, &slice);
        if (timeout >= 0 && (slice.tv_sec > end.tv_sec ||
                             (slice.tv_sec == end.tv_sec && slice.tv_nsec >= end.tv_nsec)))
            break;
        slice.tv_nsec += 10000000; /* the longest time between two queries */
        if (slice.tv_nsec >= 1000000000) {
            slice.tv_sec++;
            slice.tv_nsec -= 1000000000;
        }
        if (timeout >= 0 && (end.tv_sec < slice.tv_sec ||
                             (end.tv_sec == slice.tv_sec && end.tv_nsec < slice.tv_nsec)))
            slice = end;
        pthread_cond_timedwait(&posted, &lock, &slice);
    }
    w->inside--;
    pthread_mutex_unlock(&lock);
    if (!j)
        return FAIL(ACL_ERROR_RT_REPORT_TIMEOUT, "no callback within %d ms", timeout);
    run(j);
    return ACL_SUCCESS;
}

/* ---- a thread of the library ---- */

static void *serve(void *unused)
{
    struct job *j;

    (void)unused;
    pthread_mutex_lock(&lock);
    while (!own_stops || own.first) {
        if (!(j = take(&own))) {
            pthread_cond_wait(&posted, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        run(j);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void callback_stop(void)
{
    bool runs;

    pthread_mutex_lock(&lock);
    runs = own_runs;
    own_stops = true;
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&lock);
    if (runs)
        pthread_join(own_thread, NULL);
    pthread_mutex_lock(&lock);
    own_runs = own_stops = false;
    for (struct worker **at = &workers, *w; (w = *at);) {
        struct job *j;

        while ((j = take(w)))
            free(j);
        if (w->inside) { /* its thread still uses it */
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
    pthread_mutex_unlock(&lock);
}

EXPORT aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
    struct stream *s;
    aclError err;

    NEED(fn);
    if ((err = stream_get(stream, &s)))
        return err;
    if (s->capture)
        return capture_host(__func__, s, fn, args);
    pthread_mutex_lock(&lock);
    if (!own_runs) {
        int e = pthread_create(&own_thread, NULL, serve, NULL);

        if (e)
            err = FAIL(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "a thread: error %d", e);
        own_runs = !e;
    }
    pthread_mutex_unlock(&lock);
    return err ? err : queue(__func__, s, fn, args, true, &own);
}

/* ---- deferred work (weir_cann_defer) ---- */

struct weir_cann_deferred {
    weir_cann_begin_fn begin;
    void (*release)(void *user);
    void *user;
    struct gate *gate;
    bool captured; /* belongs to a graph, and runs once per run of it */
};

static void begin(void *user, weir_status status)
{
    struct weir_cann_deferred *d = user;

    if (status)
        weir_cann_resume(d, "the stream was in error before");
    else
        d->begin(d->user, d);
}

static void begin_captured(void *user)
{
    begin(user, WEIR_OK);
}

static void drop_deferred(void *user)
{
    struct weir_cann_deferred *d = user;

    if (d->release)
        d->release(d->user);
    free(d);
}

EXPORT aclError weir_cann_defer(aclrtStream stream, weir_cann_begin_fn fn, void *user,
                                void (*release)(void *user))
{
    struct weir_cann_deferred *d = malloc(sizeof *d);
    struct stream *s;
    weir_status st;
    aclError err;

    if (!d) {
        if (release)
            release(user);
        return FAIL(ACL_ERROR_BAD_ALLOC, "work on a stream");
    }
    *d = (struct weir_cann_deferred){.begin = fn, .release = release, .user = user};
    if ((err = stream_get(stream, &s)) || (err = gate_prepare(s, &d->gate)))
        goto drop;
    d->captured = s->capture;
    if (d->captured)
        err = capture_host_owned(__func__, s, begin_captured, d, drop_deferred);
    else if ((st = weir_stream_callback(s->weir, begin, d)))
        err = fail_status(st, __func__);
    if (err)
        goto drop;
    /* `begin` will run, and its resume will open the gate, even if closing the gate failed. So
     * break the gate now: else that opening would end a later wait. */
    if ((err = gate_close(__func__, s)) && !s->capture)
        gate_open(s->gate, "a stream could not be made to wait");
    return err;

drop:
    drop_deferred(d);
    return err;
}

EXPORT void weir_cann_resume(struct weir_cann_deferred *d, const char *failure)
{
    struct gate *gate = d->gate;

    if (!d->captured)
        drop_deferred(d);
    gate_open(gate, failure);
}

void resume_after(struct weir_cann_deferred *d, weir_stream *after)
{
    gate_open_after(d->gate, after);
    if (!d->captured)
        drop_deferred(d); /* last, as it may hold the only reference to `after` */
}
