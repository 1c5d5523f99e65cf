/* Work of the host within a stream: callbacks, and the time an event was passed.
 *
 * CUDA calls a function of ours when the stream gets there, on a thread that must not call CUDA.
 * So it only wakes a helper thread, which calls the user's function and then lets the stream
 * go on by writing the word that it waits for. */
#include "cuda/cuda.h"

#include "base/thread.h"

enum { ANCHORS = 4 }; /* tries to set the clock */

/* ---- callbacks ---- */

static void wake_helper(struct weir__cuda *dev)
{
    atomic_fetch_add(&dev->jobs_word, 1);
    weir__futex_wake(&dev->jobs_word, 1);
}

/* On CUDA's thread. */
static void reached(void *user)
{
    struct weir__cuda_job *job = user;
    struct weir__cuda *dev = weir__cuda(job->stream->base.dev);

    weir__mutex_lock(&dev->jobs_lock);
    job->reached = true;
    weir__mutex_unlock(&dev->jobs_lock);
    wake_helper(dev);
}

/* The first job that is due, taken off the list; with a dead context, any. */
static struct weir__cuda_job *take_job(struct weir__cuda *dev)
{
    bool dead = atomic_load(&dev->dead);
    struct weir__cuda_job *job, **at;

    weir__mutex_lock(&dev->jobs_lock);
    for (at = &dev->jobs; (job = *at); at = &job->next)
        if (job->queued && (job->reached || dead))
            break;
    if (job && !(*at = job->next))
        dev->jobs_end = at;
    weir__mutex_unlock(&dev->jobs_lock);
    return job;
}

static void run_job(struct weir__cuda *dev, struct weir__cuda_job *job)
{
    weir_status st;

    if (!job->fn) {
        weir__free(job);
        return;
    }
    /* What is before it is over, though the stream has not said so: what it will write from
     * now on is more. */
    if (atomic_load(&job->stream->word->reached) < job->seq - 1)
        atomic_store(&job->stream->word->reached, job->seq - 1);
    weir__cuda_poll(dev);
    st = weir__stream_error(&job->stream->base, job->seq);
    job->fn(job->user, st);
    atomic_store_explicit(&job->stream->word->gate, job->seq, memory_order_release);
    weir__free(job);
}

static void *help(void *user)
{
    struct weir__cuda *dev = user;

    for (;;) {
        uint32_t seen = atomic_load(&dev->jobs_word);
        struct weir__cuda_job *job = take_job(dev);

        if (job)
            run_job(dev, job);
        else if (dev->helper_stops)
            return NULL;
        else
            weir__futex_wait(&dev->jobs_word, seen, -1);
    }
}

static weir_status start_helper(struct weir__cuda *dev)
{
    pthread_t thread;

    if (dev->helper_started)
        return WEIR_OK;
    if (!weir__thread_start(&thread, help, dev))
        return weir__fail(WEIR_ENOMEM, "a thread for the callbacks of %s", dev->base.props.name);
    dev->helper = (unsigned long)thread;
    dev->helper_started = true;
    return WEIR_OK;
}

static void drop_job(struct weir__cuda *dev, struct weir__cuda_job *job)
{
    weir__mutex_lock(&dev->jobs_lock);
    for (struct weir__cuda_job **at = &dev->jobs; *at; at = &(*at)->next)
        if (*at == job) {
            if (!(*at = job->next))
                dev->jobs_end = at;
            break;
        }
    weir__mutex_unlock(&dev->jobs_lock);
    weir__free(job);
}

/* All of it is in the stream, or only the part that wakes us, in which case nothing is called. */
static void settle_job(struct weir__cuda *dev, struct weir__cuda_job *job, bool whole)
{
    bool due;

    weir__mutex_lock(&dev->jobs_lock);
    job->queued = true;
    if (!whole)
        job->fn = NULL;
    due = job->reached;
    weir__mutex_unlock(&dev->jobs_lock);
    if (due || atomic_load(&dev->dead))
        wake_helper(dev);
}

weir_status weir__cuda_callback(weir_stream *base, weir_callback_fn fn, void *user)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_job *job;
    weir__cu_stream tail;
    bool pushed;
    weir_status st;

    if ((st = weir__cuda_alive(dev)) || (st = start_helper(dev)))
        return st;
    if (!(job = weir__calloc(1, sizeof *job)))
        return weir__fail(WEIR_ENOMEM, "a callback on stream '%s'", base->name);
    *job =
        (struct weir__cuda_job){NULL, s, weir__stream_submitted(base) + 1, fn, user, false, false};
    pushed = weir__cuda_enter(dev);
    if (!(st = weir__cuda_tail(s, UINT32_MAX, &tail))) {
        weir__mutex_lock(&dev->jobs_lock);
        *dev->jobs_end = job;
        dev->jobs_end = &job->next;
        weir__mutex_unlock(&dev->jobs_lock);
        if ((st = weir__cuda_check(dev, cu->launch_host(tail, reached, job), "a callback"))) {
            drop_job(dev, job);
            job = NULL;
        } else {
            st = weir__cuda_check(dev,
                                  cu->stream_wait_value(tail,
                                                        (weir__cu_address)(uintptr_t)&s->word->gate,
                                                        job->seq, CU_WAIT_GEQ),
                                  "a callback");
            settle_job(dev, job, !st);
            job = NULL; /* the helper's, come what may */
        }
    }
    weir__cuda_leave(dev, pushed);
    weir__free(job);
    if (!st)
        weir__cuda_count(s, 1, "callback");
    return st;
}

void weir__cuda_host_dead(struct weir__cuda *dev)
{
    wake_helper(dev);
}

/* ---- time stamps ---- */

static weir_status take_stamp(struct weir__cuda *dev, _Atomic uint64_t *ns,
                              struct weir__cuda_stamp **out)
{
    struct weir__cuda_stamp *found = NULL, **at;
    weir_status st = WEIR_OK;

    weir__spin_lock(&dev->stamps_lock);
    /* The place is used again: whoever it was meant for is gone. */
    for (at = &dev->stamps; *at; at = &(*at)->next)
        if ((*at)->ns == ns) {
            found = *at;
            *at = found->next;
            break;
        }
    if (!found && (found = dev->spare_stamps))
        dev->spare_stamps = found->next;
    weir__spin_unlock(&dev->stamps_lock);
    if (!found) {
        if (!(found = weir__calloc(1, sizeof *found)))
            return weir__fail(WEIR_ENOMEM, "a time stamp on %s", dev->base.props.name);
        if ((st = weir__cuda_check(dev, dev->api->cu.event_create(&found->event, CU_EVENT_DEFAULT),
                                   "a time stamp")))
            weir__free(found);
    }
    *out = st ? NULL : found;
    return st;
}

weir_status weir__cuda_stamp(weir_stream *base, _Atomic uint64_t *ns)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    struct weir__cuda_stamp *stamp = NULL;
    weir__cu_stream tail;
    bool pushed;
    weir_status st;

    if ((st = weir__cuda_alive(dev)))
        return st;
    pushed = weir__cuda_enter(dev);
    if (!(st = take_stamp(dev, ns, &stamp)) && !(st = weir__cuda_tail(s, UINT32_MAX, &tail)))
        st = weir__cuda_check(dev, dev->api->cu.event_record(stamp->event, tail), "a time stamp");
    weir__cuda_leave(dev, pushed);
    if (stamp) {
        stamp->stream = s;
        stamp->seq = weir__stream_submitted(base) + 1;
        stamp->ns = st ? NULL : ns;
        weir__spin_lock(&dev->stamps_lock);
        stamp->next = st ? dev->spare_stamps : dev->stamps;
        *(st ? &dev->spare_stamps : &dev->stamps) = stamp;
        weir__spin_unlock(&dev->stamps_lock);
    }
    if (!st)
        weir__cuda_count(s, 1, "time stamp");
    return st;
}

/* CUDA tells times apart in floats of milliseconds, so the base moves on to stay near. */
weir__cu_result weir__cuda_time_of(struct weir__cuda *dev, weir__cu_event *event, uint64_t *ns)
{
    float ms = 0;
    weir__cu_result r = dev->api->cu.event_elapsed(&ms, dev->base_event, *event);

    *ns = WEIR__NO_TIME;
    if (r) {
        if (r != CU_ERROR_NOT_READY)
            (void)weir__cuda_check(dev, r, "a time stamp");
        return r;
    }
    *ns = (uint64_t)(dev->base_ns + (double)ms * 1e6);
    if (ms > 100) {
        weir__cu_event old = dev->base_event;

        dev->base_event = *event;
        dev->base_ns += (double)ms * 1e6;
        *event = old;
    }
    return 0;
}

static void read_stamp(struct weir__cuda *dev, struct weir__cuda_stamp *stamp)
{
    uint64_t ns;

    (void)weir__cuda_time_of(dev, &stamp->event, &ns);
    atomic_store_explicit(stamp->ns, ns, memory_order_release);
}

void weir__cuda_read_stamps(struct weir__cuda_stream *s, uint64_t seq)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    struct weir__cuda_stamp **at, *stamp;
    bool pushed;

    weir__spin_lock(&dev->stamps_lock);
    if (dev->stamps) {
        pushed = weir__cuda_enter(dev);
        for (at = &dev->stamps; (stamp = *at);) {
            if (stamp->stream != s || stamp->seq > seq) {
                at = &stamp->next;
                continue;
            }
            read_stamp(dev, stamp);
            *at = stamp->next;
            stamp->next = dev->spare_stamps;
            dev->spare_stamps = stamp;
        }
        weir__cuda_leave(dev, pushed);
    }
    weir__spin_unlock(&dev->stamps_lock);
}

/* ---- open and close ---- */

/* The event lies somewhere between the two looks at the host's clock; the closest pair of a few
 * counts. */
weir_status weir__cuda_anchor(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir__cu_event events[2] = {NULL, NULL};
    uint64_t closest = UINT64_MAX;
    double ns = 0;
    weir_status st = WEIR_OK;

    for (int i = 0; i < 2 && !st; i++)
        st = weir__cuda_check(dev, cu->event_create(&events[i], CU_EVENT_DEFAULT), "the clock");
    for (int i = 0; i < ANCHORS && !st; i++) {
        uint64_t before = weir__clock_ns(), took;

        if ((st = weir__cuda_check(dev, cu->event_record(events[1], NULL), "the clock")) ||
            (st = weir__cuda_check(dev, cu->event_sync(events[1]), "the clock")))
            break;
        took = weir__clock_ns() - before;
        if (took < closest) {
            weir__cu_event event = events[0];

            events[0] = events[1];
            events[1] = event;
            closest = took;
            ns = (double)before + (double)took / 2;
        }
    }
    if (!st) {
        weir__cu_event old;

        weir__spin_lock(&dev->stamps_lock);
        old = dev->base_event;
        dev->base_event = events[0];
        dev->base_ns = ns;
        weir__spin_unlock(&dev->stamps_lock);
        events[0] = old;
    }
    for (int i = 0; i < 2; i++)
        if (events[i])
            cu->event_destroy(events[i]);
    return st;
}

weir_status weir__cuda_host_open(struct weir__cuda *dev)
{
    dev->jobs_end = &dev->jobs;
    dev->heard_end = &dev->heard;
    return weir__cuda_anchor(dev);
}

static void free_stamps(struct weir__cuda *dev, struct weir__cuda_stamp *list)
{
    while (list) {
        struct weir__cuda_stamp *next = list->next;

        dev->api->cu.event_destroy(list->event);
        weir__free(list);
        list = next;
    }
}

void weir__cuda_host_close(struct weir__cuda *dev)
{
    if (dev->helper_started) {
        dev->helper_stops = true;
        wake_helper(dev);
        pthread_join((pthread_t)dev->helper, NULL);
    }
    weir__cuda_listen_close(dev);
    free_stamps(dev, dev->stamps);
    free_stamps(dev, dev->spare_stamps);
    if (dev->base_event)
        dev->api->cu.event_destroy(dev->base_event);
}
