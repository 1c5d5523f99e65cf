/* Failures on the GPU, and the streams that they put in error.
 *
 * A kernel that finds an index out of range writes that to its stream's place in pinned memory
 * (device/report.h). The host reads it and puts the stream in error from that command on, and with
 * it every stream that waits for that command or a later one. Commands queued after the host has
 * read it are counted but not run; commands queued before still run on the GPU, and their results
 * are not used. A hardware fault (an illegal address) makes the whole context unusable.
 *
 * Invariant: failed_at of a stream is the smallest number of a command that failed or waited for a
 * failed one, of those the host knows. It only decreases, so the order in which the host learns of
 * failures does not matter. */
#include "cuda/fault/faults.h"

#include <stdio.h>
#include <string.h>

/* Guards the list of open devices and `faults` of their streams (except its atomics). One lock for
 * all devices, because errors cross from one device to another. */
static struct weir__mutex faults_lock;
static struct weir__cuda *opened;

/* ---- the context ---- */

/* Codes after which CUDA refuses everything in the context. */
static bool is_fatal(weir__cu_result r)
{
    static const int codes[] = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 999};

    for (size_t i = 0; i < weir__countof(codes); i++)
        if (r == codes[i])
            return true;
    return false;
}

static void die(struct weir__cuda *dev, weir__cu_result r)
{
    struct weir__text running = {0};

    weir__mutex_lock(&faults_lock);
    if (!atomic_load_explicit(&dev->faults.dead, memory_order_relaxed)) {
        weir__cuda_report(&dev->base, &running);
        snprintf(
            dev->faults.dead_text, sizeof dev->faults.dead_text,
            "%s is unusable, and so is this GPU for the rest of the process: %s; running were:%s",
            dev->base.props.name, weir__cuda_error(r).text,
            running.data ? running.data : " unknown");
        weir__text_free(&running);
        for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next) {
            uint64_t reached = atomic_load(&s->word->reached);

            if (reached < atomic_load(&s->queued))
                weir__stream_fail(&s->base, reached + 1, WEIR_EDRIVER, dev->faults.dead_text);
        }
        atomic_store_explicit(&dev->faults.dead, true, memory_order_release);
    }
    weir__mutex_unlock(&faults_lock);
    weir__cuda_jobs_dead(dev);
}

weir_status weir__cuda_dead(struct weir__cuda *dev)
{
    return weir__fail(WEIR_EDRIVER, "%s", dev->faults.dead_text);
}

weir_status weir__cuda_failed(struct weir__cuda *dev, weir__cu_result r, const char *what)
{
    if (is_fatal(r))
        die(dev, r);
    if (atomic_load(&dev->faults.dead))
        return weir__cuda_dead(dev);
    if (r == CU_ERROR_OUT_OF_MEMORY)
        return weir__fail(WEIR_EOOM, "out of device memory on %s: %s", dev->base.props.name, what);
    return weir__fail(WEIR_EDRIVER, "%s on %s: %s", what, dev->base.props.name,
                      weir__cuda_error(r).text);
}

weir_status weir__cuda_ask(struct weir__cuda *dev)
{
    size_t available, total;

    return weir__cuda_check(dev, dev->api->cu.memory_info(&available, &total), "the GPU");
}

/* ---- reports of kernels ---- */

weir_status weir__cuda_faults_open(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    size_t claims = WEIR__CODE_STREAMS * sizeof(uint64_t);
    void *failures;
    weir_status st;

    if ((st = weir__cuda_check(
             dev,
             cu->host_alloc(&failures, sizeof *dev->faults.failures, CU_HOST_ALLOC_PORTABLE_MAPPED),
             "pinned memory")))
        return st;
    dev->faults.failures = failures;
    memset(dev->faults.failures, 0, sizeof *dev->faults.failures);
    if ((st = weir__cuda_check(dev, cu->memory_alloc(&dev->faults.claims, claims), "memory"))) {
        dev->faults.claims = 0;
        return st;
    }
    if ((st = weir__cuda_check(dev, cu->fill_async(dev->faults.claims, 0, claims, NULL), "memory")))
        return st;
    weir__mutex_lock(&faults_lock);
    dev->faults.next = opened;
    opened = dev;
    weir__mutex_unlock(&faults_lock);
    return WEIR_OK;
}

void weir__cuda_faults_free(struct weir__cuda *dev)
{
    if (dev->faults.failures)
        dev->api->cu.host_free(dev->faults.failures);
    if (dev->faults.claims)
        dev->api->cu.memory_free(dev->faults.claims);
}

struct weir__code_context weir__cuda_context(struct weir__cuda *dev, const weir_stream *s,
                                             uint64_t seq)
{
    return (struct weir__code_context){
        .failures = dev->faults.failures,
        .claims = (uint64_t *)(uintptr_t)dev->faults.claims,
        .where = WEIR__CODE_WHERE(s->slot, seq),
    };
}

/* The slot's place may still hold the failure of an earlier stream: `stale` lets kernels overwrite
 * it. */
void weir__cuda_may_fail(struct weir__cuda_stream *s)
{
    struct weir__code_failure *f = &weir__cuda_of(s->base.dev)->faults.failures->of[s->base.slot];
    uint64_t seen = atomic_load(&s->faults.seen);

    if (weir__unlikely(f->stale != seen) && atomic_load(&s->base.failed_at) == WEIR__NEVER_FAILED)
        __atomic_store_n(&f->stale, seen, __ATOMIC_RELEASE);
    atomic_store_explicit(&s->faults.may_fail, true, memory_order_release);
}

/* Under the faults lock. */
static void read_failure(struct weir__cuda_stream *s)
{
    const struct weir__code_failure *f =
        &weir__cuda_of(s->base.dev)->faults.failures->of[s->base.slot];
    uint64_t seq = __atomic_load_n(&f->seq, __ATOMIC_ACQUIRE);
    char what[200], text[400];

    if (seq == atomic_load(&s->faults.seen))
        return;
    if (!weir__cuda_of(s->base.dev)->collectives->explain(s, f, what, sizeof what))
        snprintf(what, sizeof what, "index %lld is out of range: %lld..%lld", (long long)f->index,
                 (long long)(f->at < f->limit ? f->at : 0), (long long)f->limit - 1);
    snprintf(text, sizeof text, "operator '%s' on stream '%s': %s", f->name,
             f->stream ? f->stream : s->base.name, what);
    weir__cuda_fail(s, seq, WEIR_ERANGE, text);
    atomic_store(&s->faults.seen, seq); /* after the error: see weir__cuda_may_fail */
}

/* ---- passing errors on ---- */

void weir__cuda_fail(struct weir__cuda_stream *s, uint64_t seq, weir_status status,
                     const char *text)
{
    weir__stream_fail(&s->base, seq, status, text);
    atomic_store(&weir__cuda_of(s->base.dev)->faults.failed, true);
}

/* Takes over the error of the wait's source, if it has one up to the awaited command. True if the
 * stream's error has changed. */
static bool take_error(struct weir__cuda_stream *s, const struct weir__cuda_taken *w)
{
    if (atomic_load(&w->from.stream->failed_at) > w->from.seq ||
        atomic_load(&s->base.failed_at) <= w->at)
        return false;
    weir__stream_fail_like(&s->base, w->at, w->from.stream);
    atomic_store(&weir__cuda_of(s->base.dev)->faults.failed, true);
    return true;
}

static bool take_errors(struct weir__cuda_stream *s)
{
    bool news = false;

    for (int i = 0; i < s->faults.nwaits; i++)
        news |= take_error(s, &s->faults.waits[i]);
    return news;
}

/* Removes waits up to command `over`, and waits for streams of the device `gone`. */
static void drop_waits(struct weir__cuda_stream *s, uint64_t over, const weir_device *gone)
{
    int n = 0;

    for (int i = 0; i < s->faults.nwaits; i++)
        if (s->faults.waits[i].at > over && s->faults.waits[i].from.stream->dev != gone)
            s->faults.waits[n++] = s->faults.waits[i];
    s->faults.nwaits = n;
}

#define EVERY_STREAM(s)                                                    \
    for (struct weir__cuda *dev_ = opened; dev_; dev_ = dev_->faults.next) \
        for (struct weir__cuda_stream *s = atomic_load(&dev_->streams); s; s = s->next)

/* Order matters: `reached` of every stream is read first, then the failures. A command that had
 * completed at the first read has reported its failures by the second, so a wait that had completed
 * then can be dropped after one pass. The loop repeats until errors have crossed every chain of
 * waits. Under the faults lock. */
static void poll_locked(const weir_device *gone)
{
    bool news = true;

    EVERY_STREAM(s)
    s->faults.over = atomic_load_explicit(&s->word->reached, memory_order_acquire);
    for (struct weir__cuda *dev = opened; dev; dev = dev->faults.next)
        if (__atomic_load_n(&dev->faults.failures->any, __ATOMIC_ACQUIRE))
            for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
                read_failure(s);
    while (news) {
        news = false;
        EVERY_STREAM(s)
        news |= take_errors(s);
    }
    EVERY_STREAM(s)
    drop_waits(s, s->faults.over, gone);
}

void weir__cuda_poll(struct weir__cuda *dev)
{
    if (weir__likely(!__atomic_load_n(&dev->faults.failures->any, __ATOMIC_ACQUIRE) &&
                     !atomic_load_explicit(&dev->faults.failed, memory_order_acquire) &&
                     !atomic_load_explicit(&dev->faults.looks_abroad, memory_order_relaxed)))
        return;
    weir__mutex_lock(&faults_lock);
    poll_locked(NULL);
    weir__mutex_unlock(&faults_lock);
}

bool weir__cuda_failed_before(struct weir__cuda_stream *s, uint64_t seq)
{
    weir__cuda_poll(weir__cuda_of(s->base.dev));
    return weir__cuda_is_doomed(s, seq);
}

weir_status weir__cuda_take(struct weir__cuda_stream *s, uint64_t at, struct weir__mark from)
{
    struct weir__cuda_taken wait = {at, from};
    struct weir__cuda_faults *f = &s->faults;
    weir_status st = WEIR_OK;

    weir__mutex_lock(&faults_lock);
    if (f->nwaits == f->cap_waits && f->nwaits)
        poll_locked(NULL);
    if (!weir__grow(&f->waits, f->nwaits, &f->cap_waits, sizeof *f->waits)) {
        st = WEIR_ENOMEM;
    } else {
        f->waits[f->nwaits++] = wait;
        take_error(s, &wait);
    }
    weir__mutex_unlock(&faults_lock);
    return st;
}

void weir__cuda_faults_close(struct weir__cuda *dev)
{
    weir__mutex_lock(&faults_lock);
    for (struct weir__cuda **at = &opened; *at; at = &(*at)->faults.next)
        if (*at == dev) {
            poll_locked(&dev->base);
            *at = dev->faults.next;
            break;
        }
    weir__mutex_unlock(&faults_lock);
}
