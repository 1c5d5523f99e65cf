/* Devices on one clock: how a waiting thread runs them, and what it does when nothing
 * progresses. */
#include "npu/npu.h"

#include <stdlib.h>

/* ---- finding the members ---- */

bool weir__npu_is_in(const struct weir__npu_clock_group *c, const weir_device *dev)
{
    for (int i = 0; i < c->n; i++)
        if (&c->members[i]->soft.base == dev)
            return true;
    return false;
}

/* Adds the devices of a group that contains a member. They are open while the group is in the list,
 * which is locked here; afterwards the count of visitors keeps them open. */
static void join(const weir_group *g, void *user)
{
    struct weir__npu_clock_group *c = user;
    bool ours = false;

    if (g->ranks[0].dev->driver != &weir__npu_driver)
        return;
    for (int i = 0; i < g->nranks && !ours; i++)
        ours = weir__npu_is_in(c, g->ranks[i].dev);
    for (int i = 0; i < g->nranks && ours; i++)
        if (c->n < c->cap && !weir__npu_is_in(c, g->ranks[i].dev)) {
            c->members[c->n] = (struct weir__npu *)g->ranks[i].dev;
            atomic_fetch_add(&c->members[c->n++]->visitors, 1);
        }
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = (*(struct weir__npu *const *)a)->soft.base.id;
    uint64_t y = (*(struct weir__npu *const *)b)->soft.base.id;

    return (x > y) - (x < y);
}

weir_status weir__npu_gather(struct weir__npu *npu, struct weir__npu_clock_group *out)
{
    int before;

    *out = (struct weir__npu_clock_group){.n = 1, .cap = 1, .self = npu};
    out->members = &out->self;
    if (!atomic_load(&npu->soft.base.groups_live))
        return WEIR_OK;
    out->cap = weir__npu_count();
    if (!(out->members = weir__calloc((size_t)out->cap, sizeof(struct weir__npu *))))
        return weir__fail_nomem("waiting for %s", npu->soft.base.props.name);
    out->members[0] = npu;
    do {
        before = out->n;
        weir__groups_each(join, out);
    } while (out->n > before);
    qsort(out->members, (size_t)out->n, sizeof(struct weir__npu *), compare_ids);
    return WEIR_OK;
}

void weir__npu_release(struct weir__npu_clock_group *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->members[i] != c->self)
            atomic_fetch_sub(&c->members[i]->visitors, 1);
    if (c->members != &c->self)
        weir__free(c->members);
}

/* ---- running the members ---- */

/* Runs ready streams on all members. That takes no time, but may change which member has the
 * earliest event. */
static bool run_ready(const struct weir__npu_clock_group *c)
{
    bool any = false;

    for (int i = 0; i < c->n; i++) {
        struct weir__npu *npu = c->members[i];

        if (!atomic_load(&npu->soft.sched.ready))
            continue;
        weir__npu_lock(npu);
        any |= weir__npu_run_now(npu);
        weir__npu_unlock(npu);
    }
    return any;
}

bool weir__npu_step_group(const struct weir__npu_clock_group *c, uint64_t end, bool *later)
{
    struct weir__npu *first = c->members[0];
    bool any;

    *later = false;
    if (run_ready(c))
        return true;
    for (int i = 1; i < c->n; i++)
        if (atomic_load(&c->members[i]->next_ps) < atomic_load(&first->next_ps))
            first = c->members[i];
    weir__npu_lock(first);
    any = weir__npu_step_until(first, end);
    *later = !any && first->sim.nheap;
    weir__npu_unlock(first);
    return any;
}

static void lock_all(const struct weir__npu_clock_group *c)
{
    for (int i = 0; i < c->n; i++)
        weir__npu_lock(c->members[i]);
}

static void unlock_all(const struct weir__npu_clock_group *c)
{
    for (int i = c->n; i-- > 0;)
        weir__npu_unlock(c->members[i]);
}

/* ---- waiting ---- */

enum { NAP_NS = 200000, HOOK_NS = 100000000 };

/* The state of a wait while nothing progresses. */
struct patience {
    uint64_t since, hooked; /* host time of its start and of the last call of the hook; 0: none */
};

/* True if a stream waits for a device outside the clock group; *mark is what it waits for. */
static bool waits_abroad(const struct weir__npu_clock_group *c, struct weir__mark *mark)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->members[i]->nstreams; k++) {
            struct weir__soft_stream *s = &c->members[i]->streams[k]->soft;
            struct weir__soft_stream *source = atomic_load(&s->waits_for);

            if (source && !weir__npu_is_in(c, source->base.dev)) {
                *mark = (struct weir__mark){&source->base, atomic_load(&s->waits_seq)};
                return true;
            }
        }
    return false;
}

/* Waits for another host thread to make the missing rank's call, up to the group's timeout; then
 * breaks the group. Called with all `loop` locks held; releases them. */
static weir_status await_call(const struct weir__npu_clock_group *c, struct weir__npu_stream *s,
                              weir_stream *waits, struct patience *p)
{
    static _Atomic uint32_t never;
    weir_group *group = s->group;
    int64_t most = group->timeout_ns;
    uint64_t now = weir__clock_ns();
    struct weir__text text = {0};
    char call[140];

    if (!p->since)
        p->since = p->hooked = now;
    if (most >= 0 && now - p->since >= (uint64_t)most) {
        weir__call_text((const void *)weir__soft_next(&s->soft)->args, s->soft.participant.in->call,
                        call, sizeof call);
        weir__text_add(&text,
                       "%s timed out after %.3g s: the host did not make the missing calls, and "
                       "nothing else could continue:",
                       call, (double)most / 1e9);
        weir__npu_report(c, &text);
        group->transport->abort(group, WEIR_ETIMEDOUT, text.data ? text.data : "timed out");
        weir__text_free(&text);
        p->since = 0;
        unlock_all(c);
        return WEIR_OK;
    }
    unlock_all(c);
    weir__futex_wait(&never, 0, NAP_NS);
    if (weir__wait_has_hook() && now - p->hooked >= HOOK_NS) {
        p->hooked = now;
        return weir__wait_check(waits);
    }
    return WEIR_OK;
}

static weir_status timed_out(const struct weir__npu_clock_group *c, const weir_stream *s,
                             uint64_t seq, int64_t timeout_ns);

/* A callback or a kernel is running on some thread, and virtual time stands still. A callback that
 * waits here may be waiting for itself, so inside a callback the timeout counts host time. */
static weir_status await_host(const struct weir__npu_clock_group *c, weir_stream *s, uint64_t seq,
                              int64_t timeout_ns, struct patience *p)
{
    int64_t most = timeout_ns >= 0 ? timeout_ns : s->dev->op_timeout_ns;
    uint64_t now = weir__clock_ns();

    if (!p->since)
        p->since = p->hooked = now;
    if (weir__npu_in_callback && most >= 0 && now - p->since >= (uint64_t)most)
        return timed_out(c, s, seq, most);
    weir__yield();
    if (weir__wait_has_hook() && now - p->hooked >= HOOK_NS) {
        p->hooked = now;
        return weir__wait_check(s);
    }
    return WEIR_OK;
}

/* Called when no member has an event. Returns an error if the wait cannot end. */
static weir_status unblock(const struct weir__npu_clock_group *c, weir_stream *s, uint64_t seq,
                           int64_t timeout_ns, struct patience *p)
{
    struct weir__npu_stream *awaiting;
    struct weir__text text = {0};
    struct weir__mark abroad;
    enum weir__npu_rest rest;
    weir_status st;

    lock_all(c);
    rest = weir__npu_at_rest(c, &awaiting);
    if (rest == WEIR__NPU_MOVES) {
        unlock_all(c);
        return await_host(c, s, seq, timeout_ns, p);
    }
    if (waits_abroad(c, &abroad)) {
        unlock_all(c);
        return abroad.stream->dev->driver->sync(abroad.stream, abroad.seq, WEIR_TIMEOUT_DEVICE,
                                                false);
    }
    if (rest == WEIR__NPU_AWAITS_CALL)
        return await_call(c, awaiting, s, p);
    if (weir__npu_break_deadlock(c) || weir__soft_done(s) >= seq) {
        unlock_all(c);
        return WEIR_OK;
    }
    weir__npu_report(c, &text);
    unlock_all(c);
    st = weir__fail(WEIR_EDEADLOCK, "stream '%s' will never reach command %llu:%s", s->name,
                    (unsigned long long)seq, text.data ? text.data : "");
    weir__text_free(&text);
    return st;
}

static weir_status timed_out(const struct weir__npu_clock_group *c, const weir_stream *s,
                             uint64_t seq, int64_t timeout_ns)
{
    struct weir__text text = {0};
    weir_status st;

    lock_all(c);
    weir__npu_report(c, &text);
    unlock_all(c);
    st = weir__fail(
        WEIR_ETIMEDOUT, "stream '%s' did not reach command %llu within %.3f ms of the %s%s",
        s->name, (unsigned long long)seq, (double)timeout_ns / 1e6,
        weir__npu_in_callback ? "host's time, in a callback that waits for it" : "device's time",
        text.data ? text.data : "");
    weir__text_free(&text);
    return st;
}

weir_status weir__npu_wait(weir_stream *s, uint64_t seq, uint64_t end, int64_t timeout_ns)
{
    struct weir__npu_clock_group c;
    struct patience patience = {0};
    weir_status st = weir__npu_gather((struct weir__npu *)s->dev, &c);

    if (st)
        return st;
    while (!st && weir__soft_done(s) < seq) {
        bool later;

        if (weir__npu_step_group(&c, end, &later))
            patience.since = 0;
        else
            st = later ? timed_out(&c, s, seq, timeout_ns)
                       : unblock(&c, s, seq, timeout_ns, &patience);
    }
    weir__npu_release(&c);
    return st;
}
