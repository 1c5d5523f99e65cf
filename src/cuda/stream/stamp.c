/* The time at which streams pass events, in the host's clock. */
#include "cuda/cuda.h"

enum { ANCHORS = 4 }; /* tries to set the clock */

static weir_status take_stamp(struct weir__cuda *dev, _Atomic uint64_t *ns,
                              struct weir__cuda_stamp **out)
{
    struct weir__cuda_stamp *found = NULL, **at;
    weir_status st = WEIR_OK;

    weir__spin_lock(&dev->clock.lock);
    /* A stamp with the same address belongs to a destroyed event: reuse it. */
    for (at = &dev->clock.stamps; *at; at = &(*at)->next)
        if ((*at)->ns == ns) {
            found = *at;
            *at = found->next;
            break;
        }
    if (!found && (found = dev->clock.spare))
        dev->clock.spare = found->next;
    weir__spin_unlock(&dev->clock.lock);
    if (!found) {
        if (!(found = weir__calloc(1, sizeof *found)))
            return weir__fail_nomem("recording a time on %s", dev->base.props.name);
        if ((st = weir__cuda_check(dev, dev->api->cu.event_create(&found->event, CU_EVENT_DEFAULT),
                                   "a time stamp")))
            weir__free(found);
    }
    *out = st ? NULL : found;
    return st;
}

weir_status weir__cuda_record_stamp(weir_stream *base, _Atomic uint64_t *ns)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
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
        weir__spin_lock(&dev->clock.lock);
        stamp->next = st ? dev->clock.spare : dev->clock.stamps;
        *(st ? &dev->clock.spare : &dev->clock.stamps) = stamp;
        weir__spin_unlock(&dev->clock.lock);
    }
    if (!st)
        weir__cuda_count(s, 1, "time stamp");
    return st;
}

/* CUDA returns time differences as float milliseconds, so the base event is moved forward to keep
 * differences small. */
weir__cu_result weir__cuda_time_of(struct weir__cuda *dev, weir__cu_event *event, uint64_t *ns)
{
    float ms = 0;
    weir__cu_result r = dev->api->cu.event_elapsed(&ms, dev->clock.base, *event);

    *ns = WEIR__NO_TIME;
    if (r) {
        if (r != CU_ERROR_NOT_READY)
            (void)weir__cuda_check(dev, r, "a time stamp");
        return r;
    }
    *ns = (uint64_t)(dev->clock.base_ns + (double)ms * 1e6);
    if (ms > 100) {
        weir__cu_event old = dev->clock.base;

        dev->clock.base = *event;
        dev->clock.base_ns += (double)ms * 1e6;
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
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_stamp **at, *stamp;
    bool pushed;

    weir__spin_lock(&dev->clock.lock);
    if (dev->clock.stamps) {
        pushed = weir__cuda_enter(dev);
        for (at = &dev->clock.stamps; (stamp = *at);) {
            if (stamp->stream != s || stamp->seq > seq) {
                at = &stamp->next;
                continue;
            }
            read_stamp(dev, stamp);
            *at = stamp->next;
            stamp->next = dev->clock.spare;
            dev->clock.spare = stamp;
        }
        weir__cuda_leave(dev, pushed);
    }
    weir__spin_unlock(&dev->clock.lock);
}

/* ---- the clock ---- */

/* The GPU passes the event between two reads of the host's clock. Of a few tries, the one with the
 * shortest interval is used. */
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

        weir__spin_lock(&dev->clock.lock);
        old = dev->clock.base;
        dev->clock.base = events[0];
        dev->clock.base_ns = ns;
        weir__spin_unlock(&dev->clock.lock);
        events[0] = old;
    }
    for (int i = 0; i < 2; i++)
        if (events[i])
            cu->event_destroy(events[i]);
    return st;
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

void weir__cuda_stamps_close(struct weir__cuda *dev)
{
    free_stamps(dev, dev->clock.stamps);
    free_stamps(dev, dev->clock.spare);
    if (dev->clock.base)
        dev->api->cu.event_destroy(dev->clock.base);
}
