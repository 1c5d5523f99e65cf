/* Work of the host within a stream: callbacks, order with devices of another kind, and jobs of
 * collectives.
 *
 * When the stream reaches a job, CUDA calls a function of ours, on a thread that must not call
 * CUDA. So the function only wakes a helper thread. The helper calls the user's function and then
 * lets the stream continue by writing the word for which it waits. The library's own jobs have a
 * separate helper, because a user's callback may take long.
 *
 * CUDA's call and waking the helper take some 30 us. So for the library's own jobs the stream also
 * writes a word, and the helper polls such words for a while before it sleeps. The job is freed by
 * the later of the two, CUDA's call or the helper. */
#include "cuda/stream/jobs.h"
#include "cuda/fault/faults.h"

#include "base/thread.h"
#include "device/relay.h"
#include "device/serve.h"

#include <unistd.h>

/* How long a helper polls after a job; shorter on machines with few cores. */
enum { LOOKS_PER_CLOCK = 32, AWAKE_NS = 400000, FEW_CORES = 3, AWAKE_NS_OF_FEW = 20000 };

/* True for the library's own jobs, on which other devices may wait. */
static bool is_ours(const struct weir__cuda_job *job)
{
    return job->serve || job->relay || job->ours;
}

/* Sets the job's helper, and the word that tells that the stream has reached it. */
static void assign(struct weir__cuda_job *job, const _Atomic uint64_t *word, uint64_t mark)
{
    job->helper = &weir__cuda_of(job->stream->base.dev)->helpers[is_ours(job)];
    job->word = is_ours(job) ? word : NULL;
    job->mark = mark;
}

static void wake_helper(struct weir__cuda_helper *h)
{
    atomic_fetch_add(&h->word, 1);
    weir__futex_wake(&h->word, 1);
}

static void unlist_late(struct weir__cuda_helper *h, const struct weir__cuda_job *job)
{
    struct weir__cuda_job **at = &h->late;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
}

/* On CUDA's thread. */
static void reached(void *user)
{
    struct weir__cuda_job *job = user;
    struct weir__cuda_helper *h = job->helper;
    bool served;

    weir__mutex_lock(&h->lock);
    job->reached = true;
    if ((served = job->served))
        unlist_late(h, job);
    weir__mutex_unlock(&h->lock);
    if (served)
        weir__free(job);
    else
        wake_helper(h);
}

static bool is_due(const struct weir__cuda_job *job)
{
    return job->reached ||
           (job->word && atomic_load_explicit(job->word, memory_order_acquire) >= job->mark);
}

/* Removes the first due job from the list and returns it; with a dead context, the first job. */
static struct weir__cuda_job *take_job(struct weir__cuda_helper *h)
{
    bool dead = atomic_load(&h->dev->faults.dead);
    struct weir__cuda_job *job, **at;

    weir__mutex_lock(&h->lock);
    for (at = &h->jobs; (job = *at); at = &job->next)
        if (job->queued && (dead || is_due(job)))
            break;
    if (job && !(*at = job->next))
        h->jobs_end = at;
    weir__mutex_unlock(&h->lock);
    return job;
}

/* Everything before the job has completed, so updates `reached`, which the stream may not have
 * written yet. Values that the stream writes later are larger. */
static void note_reached(struct weir__cuda *dev, const struct weir__cuda_job *job)
{
    if (atomic_load(&job->stream->word->reached) < job->seq - 1)
        atomic_store(&job->stream->word->reached, job->seq - 1);
    weir__cuda_poll(dev);
}

/* Stores `reached` first: a stream that passes the gate may then store a larger number. */
void weir__cuda_open_gate(struct weir__cuda_stream *s, uint64_t seq)
{
    atomic_store_explicit(&s->word->reached, seq, memory_order_release);
    atomic_store_explicit(&s->word->gate, seq, memory_order_release);
}

static void drop_work(const struct weir__cuda_job *job)
{
    if (job->drop)
        job->drop(job->user);
}

static void free_job(struct weir__cuda_job *job)
{
    drop_work(job);
    weir__free(job);
}

/* Frees a finished job. If CUDA's call may still come, the job is kept until then; with a dead
 * context, until the device is closed. */
static void put_away(struct weir__cuda_job *job)
{
    struct weir__cuda_helper *h = job->helper;
    bool late;

    weir__mutex_lock(&h->lock);
    if ((late = !job->reached)) {
        job->served = true;
        job->next = h->late;
        h->late = job;
    }
    weir__mutex_unlock(&h->lock);
    if (!late)
        weir__free(job);
}

/* Called when the relay is signalled: ends the stream's wait for another device. */
static void pass_relay(void *user)
{
    struct weir__cuda_job *job = user;
    struct weir__cuda_stream *s = job->stream;
    weir_device *dev = s->base.dev;

    if (job->relay->status)
        weir__cuda_fail(s, job->seq, job->relay->status, job->relay->text);
    weir__relay_drop(job->relay);
    weir__cuda_open_gate(s, job->seq);
    put_away(job);
    atomic_fetch_sub(&dev->visitors, 1); /* the device may close after this */
}

static void run_job(struct weir__cuda *dev, struct weir__cuda_job *job)
{
    if (!job->whole) {
        drop_work(job);
        put_away(job);
        return;
    }
    if (!job->beside)
        note_reached(dev, job);
    if (job->relay) {
        atomic_fetch_add(&dev->base.visitors, 1);
        if (!weir__relay_park(job->relay, pass_relay, job))
            pass_relay(job);
        return;
    }
    if (job->serve) {
        job->serve(job->user);
    } else {
        job->fn(job->user, weir__stream_error(&job->stream->base, job->seq));
        weir__cuda_open_gate(job->stream, job->seq);
    }
    put_away(job);
}

static bool has_words(struct weir__cuda_helper *h)
{
    const struct weir__cuda_job *job;

    weir__mutex_lock(&h->lock);
    for (job = h->jobs; job && !(job->queued && job->word); job = job->next)
        ;
    weir__mutex_unlock(&h->lock);
    return job;
}

/* Polls the words of jobs until a job is due or the helper is woken. False if no job has a word or
 * the time is up: the helper should sleep. */
static bool look_at_words(struct weir__cuda_helper *h, uint32_t seen, uint64_t until_ns)
{
    if (!has_words(h))
        return false;
    while (weir__clock_ns() < until_ns)
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            const struct weir__cuda_job *job;

            if (atomic_load_explicit(&h->word, memory_order_acquire) != seen)
                return true;
            weir__mutex_lock(&h->lock);
            for (job = h->jobs; job && !(job->queued && is_due(job)); job = job->next)
                ;
            weir__mutex_unlock(&h->lock);
            if (job)
                return true;
            weir__relax();
        }
    return false;
}

static void *help(void *user)
{
    struct weir__cuda_helper *h = user;
    uint64_t until_ns = 0;

    weir__thread_serves(true);
    for (;;) {
        uint32_t seen = atomic_load(&h->word);
        struct weir__cuda_job *job = take_job(h);

        if (weir__unlikely(atomic_load(&h->dev->faults.dead)))
            h->dev->collectives->dead(h->dev);
        if (job) {
            run_job(h->dev, job);
            until_ns = weir__clock_ns() + h->awake_ns;
        } else if (atomic_load(&h->stops)) {
            return NULL;
        } else if (!look_at_words(h, seen, until_ns)) {
            weir__futex_wait(&h->word, seen, -1);
            until_ns = weir__clock_ns() + h->awake_ns;
        }
    }
}

static weir_status start_helper(struct weir__cuda_helper *h)
{
    if (h->started)
        return WEIR_OK;
    if (!weir__thread_start(&h->thread, help, h))
        return weir__fail_nomem("starting a thread for the callbacks of %s",
                                h->dev->base.props.name);
    h->started = true;
    return WEIR_OK;
}

static void add_job(struct weir__cuda_helper *h, struct weir__cuda_job *job)
{
    weir__mutex_lock(&h->lock);
    *h->jobs_end = job;
    h->jobs_end = &job->next;
    weir__mutex_unlock(&h->lock);
}

static void remove_job(struct weir__cuda_helper *h, const struct weir__cuda_job *job)
{
    weir__mutex_lock(&h->lock);
    for (struct weir__cuda_job **at = &h->jobs; *at; at = &(*at)->next)
        if (*at == job) {
            if (!(*at = job->next))
                h->jobs_end = at;
            break;
        }
    weir__mutex_unlock(&h->lock);
}

/* Marks the job as queued. If it is not `whole`, only the part that wakes the helper is in the
 * stream, and the job does nothing. */
static void mark_queued(struct weir__cuda_helper *h, struct weir__cuda_job *job, bool whole)
{
    bool due;

    weir__mutex_lock(&h->lock);
    job->queued = true;
    job->whole = whole;
    due = job->reached || job->word; /* the helper polls the word from now on */
    weir__mutex_unlock(&h->lock);
    if (due || atomic_load(&h->dev->faults.dead))
        wake_helper(h);
}

/* Queues the write of the job's word and CUDA's call. */
static weir_status announce(struct weir__cuda *dev, struct weir__cuda_job *job, weir__cu_stream on,
                            const char *what)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir_status st = WEIR_OK;

    if (job->word)
        st = weir__cuda_check(
            dev, cu->stream_write(on, (weir__cu_address)(uintptr_t)job->word, job->mark, 0), what);
    return st ? st : weir__cuda_check(dev, cu->launch_host(on, reached, job), what);
}

/* Gives the job to its helper. Once CUDA has the call that wakes the helper, the job stays with it,
 * even if shutting the gate fails. */
static weir_status hand_over(struct weir__cuda *dev, struct weir__cuda_job *job,
                             weir__cu_stream tail)
{
    struct weir__cuda_helper *h = job->helper;
    weir_status st;

    add_job(h, job);
    if ((st = announce(dev, job, tail, "a callback"))) {
        remove_job(h, job);
        free_job(job);
        return st;
    }
    st = weir__cuda_gate(job->stream, is_ours(job));
    mark_queued(h, job, !st);
    return st;
}

weir_status weir__cuda_queue_job(struct weir__cuda_stream *s, weir__cu_stream tail,
                                 const struct weir__cuda_job *draft)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_job *job = weir__malloc(sizeof *job);
    weir_status st;

    if (!job) {
        drop_work(draft);
        return weir__fail_nomem("queueing a callback on stream '%s'", s->base.name);
    }
    *job = *draft;
    job->stream = s;
    job->seq = weir__stream_submitted(&s->base) + 1;
    assign(job, &s->word->at_job, job->seq);
    if ((st = start_helper(job->helper)) || (st = weir__cuda_before_gate(s))) {
        free_job(job);
        return st;
    }
    return hand_over(dev, job, tail);
}

static weir_status queue_command(weir_stream *base, const struct weir__cuda_job *draft,
                                 const char *name)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    weir__cu_stream tail;
    bool pushed;
    weir_status st;

    if ((st = weir__cuda_alive(dev)))
        return st;
    pushed = weir__cuda_enter(dev);
    if (!(st = weir__cuda_tail(s, UINT32_MAX, &tail)))
        st = weir__cuda_queue_job(s, tail, draft);
    weir__cuda_leave(dev, pushed);
    if (!st)
        weir__cuda_count(s, 1, name);
    return st;
}

weir_status weir__cuda_callback(weir_stream *s, weir_callback_fn fn, void *user)
{
    return queue_command(s, &(struct weir__cuda_job){.fn = fn, .user = user}, "callback");
}

weir_status weir__cuda_signal_relay(weir_stream *s, struct weir__relay *relay)
{
    const struct weir__cuda_job job = {.fn = weir__relay_signal, .user = relay, .ours = true};

    return queue_command(s, &job, "signal");
}

weir_status weir__cuda_wait_relay(weir_stream *s, struct weir__relay *relay)
{
    weir__cuda_may_fail(weir__cuda_stream_of(s));
    return queue_command(s, &(struct weir__cuda_job){.relay = relay}, "wait");
}

weir_status weir__cuda_queue_look(struct weir__cuda_stream *s, weir__cu_stream side,
                                  void (*serve)(void *user), void *user)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_job *job = weir__calloc(1, sizeof *job);
    weir_status st;

    if (!job)
        return weir__fail_nomem("watching a collective on stream '%s'", s->base.name);
    job->stream = s;
    job->serve = serve;
    job->user = user;
    job->beside = job->whole = true;
    assign(job, &s->word->at_look, atomic_fetch_add(&s->looks, 1) + 1);
    add_job(job->helper, job);
    if ((st = announce(dev, job, side, "a look"))) {
        remove_job(job->helper, job);
        weir__free(job);
    } else {
        mark_queued(job->helper, job, true);
    }
    return st;
}

void weir__cuda_jobs_dead(struct weir__cuda *dev)
{
    for (size_t i = 0; i < weir__countof(dev->helpers); i++)
        wake_helper(&dev->helpers[i]);
}

void weir__cuda_jobs_open(struct weir__cuda *dev)
{
    for (size_t i = 0; i < weir__countof(dev->helpers); i++) {
        dev->helpers[i].dev = dev;
        dev->helpers[i].awake_ns =
            sysconf(_SC_NPROCESSORS_ONLN) > FEW_CORES ? AWAKE_NS : AWAKE_NS_OF_FEW;
        dev->helpers[i].jobs_end = &dev->helpers[i].jobs;
    }
}

void weir__cuda_jobs_close(struct weir__cuda *dev)
{
    for (size_t i = 0; i < weir__countof(dev->helpers); i++) {
        struct weir__cuda_helper *h = &dev->helpers[i];

        if (!h->started)
            continue;
        atomic_store(&h->stops, true);
        wake_helper(h);
        pthread_join(h->thread, NULL);
        while (h->late) {
            struct weir__cuda_job *job = h->late;

            h->late = job->next;
            weir__free(job);
        }
    }
}
