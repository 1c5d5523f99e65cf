/* What goes wrong on the device, and whom it concerns.
 *
 * A kernel that finds an index out of range says so (log.c). The stream is in error from there on,
 * and so is what waited for it: what is queued once the host knows is counted and not run, what was
 * queued before runs for nothing. A fault of the hardware (an illegal address) makes the whole
 * context unusable. */
#include "cuda/fault/faults.h"
#include "cuda/collective/meet.h"

#include <stdio.h>
#include <string.h>

struct weir__mutex weir__cuda_faults;

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

    weir__mutex_lock(&weir__cuda_faults);
    if (!atomic_load_explicit(&dev->dead, memory_order_relaxed)) {
        weir__cuda_report(&dev->base, &running);
        snprintf(
            dev->dead_text, sizeof dev->dead_text,
            "%s is unusable, as this GPU is for the rest of the process: %s; what was running:%s",
            dev->base.props.name, weir__cuda_error(r).text,
            running.data ? running.data : " unknown");
        weir__text_free(&running);
        for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next) {
            uint64_t reached = atomic_load(&s->word->reached);

            if (reached < atomic_load(&s->queued))
                weir__stream_fail(&s->base, reached + 1, WEIR_EDEVICE, dev->dead_text);
        }
        atomic_store_explicit(&dev->dead, true, memory_order_release);
    }
    weir__mutex_unlock(&weir__cuda_faults);
    weir__cuda_jobs_dead(dev);
}

weir_status weir__cuda_dead(struct weir__cuda *dev)
{
    return weir__fail(WEIR_EDEVICE, "%s", dev->dead_text);
}

weir_status weir__cuda_failed(struct weir__cuda *dev, weir__cu_result r, const char *what)
{
    if (is_fatal(r))
        die(dev, r);
    if (atomic_load(&dev->dead))
        return weir__cuda_dead(dev);
    return weir__fail(r == CU_ERROR_OUT_OF_MEMORY ? WEIR_ENOMEM : WEIR_EDEVICE, "%s on %s: %s",
                      what, dev->base.props.name, weir__cuda_error(r).text);
}

weir_status weir__cuda_ask(struct weir__cuda *dev)
{
    size_t available, total;

    return weir__cuda_check(dev, dev->api->cu.memory_info(&available, &total), "the GPU");
}

/* ---- failures of kernels: under the faults lock from here on ---- */

/* Kept until the waits of the stream before it have been looked at. */
void weir__cuda_add_failure_among(struct weir__cuda_stream *s, const uint64_t *seq, int n,
                                  uint64_t last, weir_status status, const char *text)
{
    struct weir__cuda_failure *f = s->failures;

    atomic_store(&weir__cuda(s->base.dev)->failed, true);
    for (int i = 0; i < s->nfailures; i++)
        if (f[i].last == last && !strcmp(f[i].text, text))
            return; /* it goes on failing */
    if (!weir__grow(&s->failures, s->nfailures, &s->cap_failures, sizeof *s->failures)) {
        weir__stream_fail(&s->base, seq[0], WEIR_ENOMEM, "out of memory for the text of an error");
        return;
    }
    f = &s->failures[s->nfailures++];
    memcpy(f->seq, seq, (size_t)n * sizeof *seq);
    f->n = n;
    f->last = last;
    f->status = status;
    snprintf(f->text, sizeof f->text, "%s", text);
}

/* Leaves those commands that are not before this one; false if there are none. */
static bool trim(struct weir__cuda_failure *f, uint64_t before)
{
    int over = 0;

    while (over < f->n && f->seq[over] < before)
        over++;
    if (over == f->n) {
        if (f->last < before)
            return false;
        f->seq[--over] = before;
    }
    memmove(f->seq, f->seq + over, (size_t)(f->n - over) * sizeof *f->seq);
    f->n -= over;
    return true;
}

/* The first of them is the stream's error. If it was one of several commands, it may have been one
 * that is still to come: then it stays, for waits between them may forget the error. */
static bool apply_failure(struct weir__cuda_stream *s, uint64_t before)
{
    int first = -1, n = 0;

    for (int i = 0; i < s->nfailures; i++)
        if (s->failures[i].seq[0] < before &&
            (first < 0 || s->failures[i].seq[0] < s->failures[first].seq[0]))
            first = i;
    if (first < 0)
        return false;
    weir__stream_fail(&s->base, s->failures[first].seq[0], s->failures[first].status,
                      s->failures[first].text);
    for (int i = 0; i < s->nfailures; i++)
        if (trim(&s->failures[i], before))
            s->failures[n++] = s->failures[i];
    s->nfailures = n;
    return true;
}

/* Waits up to `over`, which is known to be over, in order, each after the failures before it
 * and after whatever its source has to pass on, on whatever device. Sources are earlier work, so
 * this ends. */
static bool settle(struct weir__cuda_stream *s, uint64_t over)
{
    bool changed = false;

    while (s->ntaken && s->taken[0].at <= over) {
        struct weir__cuda_taken t = s->taken[0];
        weir_stream *from = t.from.stream;

        memmove(s->taken, s->taken + 1, (size_t)--s->ntaken * sizeof *s->taken);
        if (from->dev != s->base.dev)
            weir__cuda_read_log(weir__cuda(from->dev));
        changed |= settle(weir__cuda_stream(from), t.from.seq);
        changed |= apply_failure(s, t.at);
        if (t.how == WEIR__WAIT_FRESH && atomic_load(&s->base.failed_at) < t.at) {
            weir__stream_forget_error(&s->base);
            changed = true;
        }
        if (atomic_load(&from->failed_at) <= t.from.seq &&
            atomic_load(&s->base.failed_at) == WEIR__NEVER_FAILED) {
            weir__stream_fail_like(&s->base, t.at, from);
            atomic_store(&weir__cuda(s->base.dev)->failed, true);
            changed = true;
        }
    }
    return apply_failure(s, over < UINT64_MAX ? over + 1 : over) || changed;
}

/* How far streams are comes first: of what is over the log then has all there is to say. */
static void poll_locked(struct weir__cuda *dev)
{
    struct weir__cuda_stream *first = atomic_load(&dev->streams), *s;
    bool changed;

    for (s = first; s; s = s->next)
        s->over = atomic_load_explicit(&s->word->reached, memory_order_acquire);
    weir__cuda_read_log(dev);
    do {
        changed = false;
        for (s = first; s; s = s->next)
            if (s->ntaken || s->nfailures)
                changed |= settle(s, s->over);
    } while (changed);
    for (s = first; s; s = s->next)
        s->sure = s->over;
}

void weir__cuda_poll(struct weir__cuda *dev)
{
    weir__mutex_lock(&weir__cuda_faults);
    poll_locked(dev);
    weir__mutex_unlock(&weir__cuda_faults);
}

/* Waits for streams of `gone` become failures, or nothing. */
static void forget_sources(struct weir__cuda_stream *s, const struct weir__cuda *gone)
{
    int n = 0;

    for (int i = 0; i < s->ntaken; i++) {
        const struct weir__cuda_taken *t = &s->taken[i];
        weir_stream *from = t->from.stream;

        if (from->dev != &gone->base)
            s->taken[n++] = *t;
        else if (atomic_load(&from->failed_at) <= t->from.seq)
            weir__cuda_add_failure(s, t->at, from->error, from->error_text);
    }
    s->ntaken = n;
}

void weir__cuda_faults_close(struct weir__cuda *dev)
{
    weir_device *other;

    if (!dev->log) /* it never opened */
        return;
    other = weir__devices_hold();
    weir__mutex_lock(&weir__cuda_faults);
    poll_locked(dev);
    for (; other; other = other->next_open)
        if (other->driver == dev->base.driver && other != &dev->base)
            for (struct weir__cuda_stream *s = atomic_load(&weir__cuda(other)->streams); s;
                 s = s->next)
                forget_sources(s, dev);
    weir__mutex_unlock(&weir__cuda_faults);
    weir__devices_release();
}

bool weir__cuda_failed_before(struct weir__cuda_stream *s, uint64_t seq)
{
    weir__mutex_lock(&weir__cuda_faults);
    weir__cuda_read_log(weir__cuda(s->base.dev));
    settle(s, seq - 1);
    weir__mutex_unlock(&weir__cuda_faults);
    return atomic_load(&s->base.failed_at) < seq;
}

weir_status weir__cuda_failed_at(struct weir__cuda_stream *s, uint64_t seq, char *text, size_t size)
{
    weir_status st = WEIR_OK;

    weir__mutex_lock(&weir__cuda_faults);
    for (int i = 0; i < s->nfailures && !st; i++)
        if (s->failures[i].seq[0] == seq) {
            st = s->failures[i].status;
            snprintf(text, size, "%s", s->failures[i].text);
        }
    weir__mutex_unlock(&weir__cuda_faults);
    return st;
}

/* ---- what is known when a command is queued ---- */

static bool is_known(const struct weir__cuda_stream *s, uint64_t at, uint64_t seq)
{
    return at >= s->fresh && at < seq;
}

bool weir__cuda_is_doomed(const struct weir__cuda_stream *s, uint64_t seq)
{
    return is_known(s, atomic_load_explicit(&s->base.failed_at, memory_order_relaxed), seq) ||
           (weir__unlikely(s->doomed) && s->doomed_id == s->base.id && is_known(s, s->doomed, seq));
}

/* The wait forgets an error, or takes one over that is known already. What is known of another
 * device's stream is its error alone. */
static void note_doom(struct weir__cuda_stream *s, uint64_t at, struct weir__mark from,
                      enum weir__wait how)
{
    bool doomed = from.stream->dev == s->base.dev
                      ? weir__cuda_is_doomed(weir__cuda_stream(from.stream), from.seq + 1)
                      : atomic_load(&from.stream->failed_at) <= from.seq;

    if (how == WEIR__WAIT_FRESH)
        s->fresh = at;
    if (doomed && !weir__cuda_is_doomed(s, at)) {
        s->doomed = at;
        s->doomed_id = s->base.id;
    }
}

weir_status weir__cuda_take(struct weir__cuda_stream *s, uint64_t at, struct weir__mark from,
                            enum weir__wait how)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    weir_status st = WEIR_OK;

    weir__mutex_lock(&weir__cuda_faults);
    if (s->ntaken == s->cap_taken && s->ntaken)
        poll_locked(dev);
    if (!weir__grow(&s->taken, s->ntaken, &s->cap_taken, sizeof *s->taken))
        st = WEIR_ENOMEM;
    else
        s->taken[s->ntaken++] = (struct weir__cuda_taken){at, from, how};
    weir__mutex_unlock(&weir__cuda_faults);
    if (!st)
        note_doom(s, at, from, how);
    return st;
}
