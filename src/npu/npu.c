/* The driver of the `npu` device. */
#include "npu/npu.h"

#include <stdio.h>
#include <string.h>

/* ---- open and close ---- */

static struct weir__mutex open_lock;
static struct weir__npu *open_devices;

static weir_status read_choice(struct weir__spec *spec, const char *key, const char *const *names,
                               int n, int *out)
{
    const char *value = weir__spec_text(spec, key);
    struct weir__text known = {0};
    weir_status st;

    if (!value)
        return WEIR_OK;
    for (int i = 0; i < n; i++) {
        if (!strcmp(value, names[i])) {
            *out = i;
            weir__text_free(&known);
            return WEIR_OK;
        }
        weir__text_add(&known, "%s%s", i ? ", " : "", names[i]);
    }
    st = weir__fail(WEIR_ESPEC, "device spec '%s': %s=%s is not one of %s", spec->text, key, value,
                    known.data ? known.data : "");
    weir__text_free(&known);
    return st;
}

static weir_status read_model(struct weir__spec *spec, struct weir__model *m)
{
    static const char *const policies[] = {"hold", "batch"};
    const char *profile = weir__spec_word(spec);
    int policy = 0, algorithm = WEIR__ALGORITHM_AUTO;
    int64_t seed = 0;
    weir_status st;

    m->overhead = m->compute = true;
    if ((st = read_choice(spec, "policy", policies, 2, &policy)) ||
        (st =
             read_choice(spec, "algorithm", weir__algorithm_names, WEIR__ALGORITHMS, &algorithm)) ||
        (st = weir__spec_bool(spec, "compute", &m->compute)) ||
        (st = weir__spec_bool(spec, "overhead", &m->overhead)) ||
        (st = weir__spec_bool(spec, "hf32", &m->hf32)) ||
        (st = weir__spec_int(spec, "seed", 0, INT64_MAX, &seed)) ||
        (st = weir__spec_finish(spec, "a profile, policy, compute, overhead, hf32, seed, "
                                      "algorithm, memory, op_timeout, deterministic, poison")))
        return st;
    m->hold = policy == 0;
    m->algorithm = (enum weir__algorithm)algorithm;
    m->seed = (uint64_t)seed;
    st = weir__profile_load(profile ? profile : "a3", &m->profile);
    return st == WEIR_EPARSE || st == WEIR_EIO || st == WEIR_ESPEC
               ? weir__fail(WEIR_ESPEC, "device spec '%s': %s", spec->text, weir_last_error())
               : st;
}

static weir_status npu_open(weir_device *dev, struct weir__spec *spec)
{
    struct weir__npu *npu = (struct weir__npu *)dev;
    const struct weir__profile *p = &npu->model.profile;
    struct weir__sim_limits limits;
    weir_status st;

    if ((st = read_model(spec, &npu->model)))
        return st;
    weir__model_limits(&npu->model, &limits);
    if ((st = weir__sim_init(&npu->sim, &limits, 1, 0)))
        return st;
    if (!(npu->local = weir__soft_map(WEIR_LOCAL_BYTES))) {
        weir__sim_fini(&npu->sim);
        return weir__fail_nomem("allocating scratch memory for %s", dev->props.name);
    }
    npu->woken.end = &npu->woken.first;
    npu->callbacks.end = &npu->callbacks.first;
    npu->arrived.end = &npu->arrived.first;
    npu->next_ps = UINT64_MAX;
    dev->model = &npu->model;
    dev->events_most = (size_t)p->event_limit;
    dev->props.cores = (weir_cores){(int)p->cube_cores, (int)p->vector_cores};
    dev->props.memory_bytes = (size_t)(p->hbm_gib * 1024 * 1024 * 1024);
    dev->props.features = (p->shared_cores > 0 ? 0 : WEIR_FEATURE_SPLIT_CORES) |
                          WEIR_FEATURE_HOST_MEMORY | WEIR_FEATURE_TIMING;
    snprintf(dev->props.model, sizeof dev->props.model, "%s, modelled", p->about);
    weir__sched_init(&npu->soft.sched, dev->props.cores.cube, dev->props.cores.vector, true);
    weir__mutex_lock(&open_lock);
    npu->next = open_devices;
    open_devices = npu;
    weir__mutex_unlock(&open_lock);
    return WEIR_OK;
}

int weir__npu_count(void)
{
    int n = 0;

    weir__mutex_lock(&open_lock);
    for (const struct weir__npu *npu = open_devices; npu; npu = npu->next)
        n++;
    weir__mutex_unlock(&open_lock);
    return n;
}

static void npu_close(weir_device *dev)
{
    struct weir__npu *npu = (struct weir__npu *)dev, **link;

    weir__mutex_lock(&open_lock);
    for (link = &open_devices; *link != npu; link = &(*link)->next)
        ;
    *link = npu->next;
    weir__mutex_unlock(&open_lock);
    while (atomic_load(&npu->visitors))
        weir__yield();
    weir__sim_fini(&npu->sim);
    weir__free(npu->streams);
    weir__soft_unmap(npu->local, WEIR_LOCAL_BYTES);
}

static weir_status npu_stream_open(weir_stream *s)
{
    struct weir__npu_stream *own = (struct weir__npu_stream *)s;
    struct weir__npu *npu = (struct weir__npu *)s->dev;
    weir_status st;

    if (s->slot >= npu->model.profile.stream_limit)
        return weir__fail(WEIR_ERANGE, "cannot open another stream on %s: it has at most %.0f",
                          s->dev->props.name, npu->model.profile.stream_limit);
    if ((st = weir__soft_stream_open(s)))
        return st;
    weir__mutex_lock(&npu->loop);
    if (!weir__grow(&npu->streams, npu->nstreams, &npu->cap_streams, sizeof *npu->streams))
        st = WEIR_ENOMEM;
    else if (!(st = weir__sim_lane_init(&npu->sim, &own->lane, 0, 0)))
        npu->streams[npu->nstreams++] = own;
    weir__mutex_unlock(&npu->loop);
    if (st)
        weir__soft_stream_close(s);
    return st;
}

static void npu_stream_close(weir_stream *s)
{
    weir__free(((struct weir__npu_stream *)s)->marks);
    weir__sim_lane_fini(&((struct weir__npu_stream *)s)->lane);
    weir__soft_stream_close(s);
}

/* ---- waiting ---- */

/* Timeouts count virtual time, because host time is unrelated to the modelled work. */
static weir_status npu_sync(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin)
{
    struct weir__npu *npu = (struct weir__npu *)s->dev;
    uint64_t end = UINT64_MAX;

    (void)spin;
    if (weir__soft_done(s) >= seq)
        return WEIR_OK;
    weir__npu_lock(npu);
    if (timeout_ns >= 0)
        end = npu->sim.now + (uint64_t)timeout_ns * 1000;
    if (!atomic_load(&npu->soft.base.groups_live))
        while (weir__soft_done(s) < seq && weir__npu_step_until(npu, end))
            ;
    weir__npu_unlock(npu);
    return weir__soft_done(s) >= seq ? WEIR_OK : weir__npu_wait(s, seq, end, timeout_ns);
}

static void step(struct weir__npu *npu)
{
    struct weir__npu_clock_group c;
    bool later;

    if (weir__npu_gather(npu, &c))
        return;
    weir__npu_step_group(&c, UINT64_MAX, &later);
    weir__npu_release(&c);
}

/* Steps all other devices, because streams of theirs wait for this device and no thread of their
 * own would continue them. */
static void step_visitors(const struct weir__npu *npu)
{
    for (unsigned i = 0;; i++) {
        struct weir__npu *other;

        weir__mutex_lock(&open_lock);
        other = open_devices;
        for (unsigned skip = i; other && skip; skip--)
            other = other->next;
        if (other)
            atomic_fetch_add(&other->visitors, 1);
        weir__mutex_unlock(&open_lock);
        if (!other)
            return;
        if (other != npu)
            step(other);
        atomic_fetch_sub(&other->visitors, 1);
    }
}

static void npu_poll(weir_device *dev)
{
    struct weir__npu *npu = (struct weir__npu *)dev;

    if (weir__npu_in_loop)
        return;
    step(npu);
    if (atomic_load(&dev->visitors))
        step_visitors(npu);
}

/* ---- queueing ---- */

static weir_status npu_submit(weir_stream *s, const struct weir__kernel *k)
{
    struct weir__npu *npu = (struct weir__npu *)s->dev;
    weir_status st = weir__soft_submit(s, k);

    if (atomic_load(&weir__soft(s)->pending) > npu->model.profile.queue_depth)
        atomic_store(&npu->full, weir__soft(s));
    return st;
}

/* Notes that an event is recorded after the last command, unless that has completed: recording
 * takes virtual time. */
static weir_status npu_mark(weir_stream *s)
{
    struct weir__npu_stream *own = (struct weir__npu_stream *)s;
    uint64_t seq = weir__stream_submitted(s);
    weir_status st = WEIR_OK;

    weir__spin_lock(&own->marks_lock);
    if (weir__soft_done(s) < seq && (!own->nmarks || own->marks[own->nmarks - 1] < seq)) {
        if (weir__grow(&own->marks, own->nmarks, &own->cap_marks, sizeof *own->marks))
            own->marks[own->nmarks++] = seq;
        else
            st = WEIR_ENOMEM;
    }
    weir__spin_unlock(&own->marks_lock);
    return st;
}

/* If this host thread has filled a queue, it waits until the queue has room. */
static void npu_kick(weir_device *dev)
{
    struct weir__npu *npu = (struct weir__npu *)dev;
    struct weir__soft_stream *full = atomic_exchange(&npu->full, NULL);
    struct weir__npu_clock_group c;
    bool full_still, later;

    if (!full || weir__npu_in_loop)
        return;
    if (weir__npu_gather(npu, &c))
        return;
    do {
        weir__npu_lock(npu);
        full_still = atomic_load(&full->pending) - full->consumed > npu->model.profile.queue_depth;
        weir__npu_unlock(npu);
    } while (full_still && weir__npu_step_group(&c, UINT64_MAX, &later));
    weir__npu_release(&c);
}

static uint64_t npu_now(const weir_device *dev)
{
    return atomic_load(&((const struct weir__npu *)dev)->now_ps) / 1000;
}

const struct weir__driver weir__npu_driver = {
    .name = "npu",
    .summary = "a modelled Ascend NPU, in virtual time",
    .device_size = sizeof(struct weir__npu),
    .stream_size = sizeof(struct weir__npu_stream),
    .can = WEIR__RUNS_HOST_FUNCTIONS,
    .trace_clock = WEIR__TRACE_OWN_NS,
    .open = npu_open,
    .close = npu_close,
    .stream_open = npu_stream_open,
    .stream_close = npu_stream_close,
    .submit = npu_submit,
    .wait = weir__soft_wait,
    .callback = weir__soft_callback,
    .stamp = weir__soft_stamp,
    .kick = npu_kick,
    .done = weir__soft_done,
    .sync = npu_sync,
    .map = weir__soft_map_for,
    .unmap = weir__soft_unmap_for,
    .now = npu_now,
    .plans = &weir__soft_plans,
    .collectives = &(const struct weir__driver_collectives){.explain = NULL},
    .notices = &(const struct weir__driver_notices){.poll = npu_poll, .mark = npu_mark},
};
