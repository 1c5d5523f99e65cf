/* After all ranks have arrived: queues their parts, and the writes that open their gates. */
#include "cuda/collective/parts.h"
#include "cuda/fault/faults.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NAP_NS = 50000 };

static struct weir__cuda_meet *participant_at(const struct weir__rendezvous *rendezvous, int rank)
{
    return weir__containerof(rendezvous->participants[rank], struct weir__cuda_meet, participant);
}

/* Checks that kernels on the GPU of `m` can access the memory of all ranks. */
static weir_status check_reach(const struct weir__cuda_meet *m,
                               const struct weir__rendezvous *rendezvous)
{
    const struct weir__cuda *here = weir__cuda_device_of(m);

    WEIR__EACH_RANK(at, &rendezvous->arrived)
    {
        const struct weir__cuda *other = weir__cuda_device_of(participant_at(rendezvous, at));

        if (!weir__cuda_reaches_device(&here->base, &other->base))
            return weir__fail(WEIR_EUNSUPPORTED,
                              "GPU %d cannot read the memory of GPU %d: collectives need GPUs that "
                              "reach each other",
                              here->gpu.device, other->gpu.device);
    }
    return WEIR_OK;
}

static weir_status start_part(struct weir__cuda_meet *m, const void *const *peers)
{
    struct weir__cuda *dev = weir__cuda_device_of(m);
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__code_context context = weir__cuda_context(dev, m->blamed.stream, m->blamed.seq);
    _Alignas(16) unsigned char part[WEIR_ARGS_MAX];
    void *params[] = {part, &context};
    bool pushed = weir__cuda_enter(dev);
    weir_status st = WEIR_OK;

    context.name = m->name;
    context.stream = m->stream->base.name;
    context.cores = m->cores;
    if (m->code)
        m->code->gather(m->args, peers, weir__cuda_meet_of(m)->pulls, part);
    m->started = true;
    if (weir__cuda_part_engine(m))
        st = weir__cuda_part_engine(m)->run(weir__cuda_group_of(m)->procs, m->participant.in,
                                            m->side);
    for (unsigned i = 0; i < m->phases && m->code && !st; i++) {
        const struct weir__code_launch *l = &m->steps[i].launch;

        context.phase = i;
        if (l->grid)
            st = weir__cuda_check(dev,
                                  cu->launch(m->steps[i].function, l->grid, 1, 1, l->threads, 1, 1,
                                             l->shared, m->side, params, NULL),
                                  m->name);
    }
    if (!st)
        st = weir__cuda_check(dev, cu->event_record(m->stream->queues.parted, m->side), m->name);
    weir__cuda_leave(dev, pushed);
    return st;
}

/* Orders the side stream of `last` after all parts. */
static weir_status join_parts(const struct weir__cuda_meet *last)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;
    struct weir__cuda *dev = weir__cuda_device_of(last);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = WEIR_OK;

    WEIR__EACH_RANK(at, &rendezvous->arrived)
    {
        const struct weir__cuda_meet *m = participant_at(rendezvous, at);

        if (st)
            break;
        if (m != last)
            st = weir__cuda_check(
                dev, dev->api->cu.stream_wait(last->side, m->stream->queues.parted, 0), "a wait");
    }
    weir__cuda_leave(dev, pushed);
    return st;
}

/* The gates that a side stream opens. It is a copy of all needed data, because the collectives are
 * freed first. */
struct opening {
    struct weir__cuda *dev;
    weir__cu_stream side;
    int n;
    struct {
        struct weir__cuda_stream *stream;
        uint64_t seq;
        struct weir__mark blamed;
    } gates[WEIR__CODE_RANKS];
};

static void plan_opening(const struct weir__cuda_meet *last, struct opening *o)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;

    o->dev = weir__cuda_device_of(last);
    o->side = last->side;
    o->n = 0;
    WEIR__EACH_RANK(at, &rendezvous->arrived)
    {
        const struct weir__cuda_meet *m = participant_at(rendezvous, at);

        o->gates[o->n].stream = m->stream;
        o->gates[o->n].blamed = m->blamed;
        o->gates[o->n++].seq = m->seq;
    }
}

static weir_status open_by_device(const struct opening *o)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < o->n && !st; i++) {
        struct weir__cuda_word *word = o->gates[i].stream->word;
        const _Atomic uint64_t *words[] = {&word->reached, &word->gate};

        /* In the order of weir__cuda_open_gate. */
        for (int k = 0; k < 2 && !st; k++)
            st = weir__cuda_check(
                o->dev,
                o->dev->api->cu.stream_write(o->side, (weir__cu_address)(uintptr_t)words[k],
                                             o->gates[i].seq, 0),
                "a collective");
    }
    return st;
}

/* Has the device open the gates after the parts, which are running. If that cannot be queued, waits
 * for the parts, puts the streams in error and opens the gates on the host. */
static void open_gates(const struct opening *o)
{
    bool pushed = weir__cuda_enter(o->dev);
    weir_status st = open_by_device(o);
    char text[400];

    snprintf(text, sizeof text, "%s", st ? weir_last_error() : "");
    while (st && o->dev->api->cu.stream_query(o->side) == CU_ERROR_NOT_READY)
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    for (int i = 0; i < o->n && st; i++) {
        struct weir__cuda_stream *s = o->gates[i].stream;

        if (atomic_load(&s->word->gate) >= o->gates[i].seq)
            continue;
        weir__cuda_fail(weir__cuda_stream_of(o->gates[i].blamed.stream), o->gates[i].blamed.seq, st,
                        text);
        weir__cuda_open_gate(s, o->gates[i].seq);
    }
    weir__cuda_leave(o->dev, pushed);
}

/* Waits for parts that were started before an error: they still write to their peers' memory. */
static void await_parts(const struct weir__rendezvous *rendezvous)
{
    WEIR__EACH_RANK(at, &rendezvous->arrived)
    {
        const struct weir__cuda_meet *m;
        struct weir__cuda *dev;
        bool pushed;

        if (!rendezvous->participants[at])
            continue; /* of another process */
        m = participant_at(rendezvous, at);
        dev = weir__cuda_device_of(m);
        pushed = weir__cuda_enter(dev);
        while (m->started && dev->api->cu.stream_query(m->side) == CU_ERROR_NOT_READY)
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        weir__cuda_leave(dev, pushed);
    }
}

/* Closes the rendezvous for all ranks. With `by_device` the device will open the gates, otherwise
 * the host opens them now. */
static void close_rendezvous(struct weir__cuda_meet *last, int rank, weir_status status,
                             const char *text, bool by_device)
{
    const struct weir__cuda_meet *opener = by_device ? last : NULL;
    const struct weir__transport *transport = weir__cuda_group_of(last)->transport;
    struct weir__participant *participant = transport->close_rendezvous(&last->participant, rank,
                                                                        status, text),
                             *next;

    for (; participant; participant = next) {
        next = participant->woken;
        weir__cuda_meet_finish(weir__containerof(participant, struct weir__cuda_meet, participant),
                               opener);
    }
    weir__cuda_meet_finish(last, opener);
}

static void look(void *user);

static weir_status queue_look(struct weir__cuda_meet *last)
{
    struct weir__cuda *dev = weir__cuda_device_of(last);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = weir__cuda_queue_look(last->stream, last->side, look, last);

    weir__cuda_leave(dev, pushed);
    return st;
}

void weir__cuda_run_parts(struct weir__cuda_meet *last)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;
    struct opening opening;
    bool may_fail = false;
    int rank = last->participant.rank;
    char text[400];
    weir_status st = WEIR_OK;

    WEIR__EACH_RANK(at, &rendezvous->arrived)
    {
        struct weir__cuda_meet *m = participant_at(rendezvous, at);

        if (st)
            break;
        rank = m->participant.rank;
        may_fail |= m->code && m->code->fails;
        if (!(st = check_reach(m, rendezvous)))
            st = start_part(m, rendezvous->args);
    }
    if (!st) {
        rank = last->participant.rank;
        st = join_parts(last);
    }
    if (!st && may_fail && !(st = queue_look(last)))
        return;
    if (st) {
        snprintf(text, sizeof text, "%s", weir_last_error());
        await_parts(rendezvous);
    }
    plan_opening(last, &opening);
    close_rendezvous(last, rank, st, st ? text : NULL, !st);
    if (!st)
        open_gates(&opening);
}

/* ---- groups of processes ---- */

/* Departs after the part has completed or could not be started. */
static void depart(struct weir__cuda_meet *m, weir_status status, const char *text)
{
    if (weir__cuda_group_of(m)->transport->depart(&m->participant, status, text))
        weir__cuda_meet_finish(m, NULL);
}

static void look_at_own_part(struct weir__cuda_meet *m)
{
    char text[1024];
    weir_status st = WEIR_OK;

    if (weir__cuda_failed_before(weir__cuda_stream_of(m->blamed.stream), m->blamed.seq + 1))
        st = weir__stream_copy_error(m->blamed.stream, text, sizeof text);
    depart(m, st, st ? text : NULL);
}

/* True if the device has work for this part; the sender of a message has none. */
static bool has_work(const struct weir__cuda_meet *m)
{
    if (weir__cuda_part_engine(m))
        return true;
    for (unsigned i = 0; i < m->phases && m->code; i++)
        if (m->steps[i].launch.grid)
            return true;
    return false;
}

void weir__cuda_run_own_part(struct weir__cuda_meet *m)
{
    char text[400];
    weir_status st;

    if (!has_work(m)) {
        look_at_own_part(m);
        return;
    }
    st = start_part(m, m->participant.in->args);

    if (!st && !(st = queue_look(m)))
        return;
    snprintf(text, sizeof text, "%s", weir_last_error());
    await_parts(m->participant.in);
    depart(m, st, text);
}

/* Called after parts that can fail have completed. The error of the first failed rank is reported
 * for all. */
static void look_at_all_parts(struct weir__cuda_meet *last)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;
    char text[1024];
    weir_status st = WEIR_OK;
    int rank = last->participant.rank;

    WEIR__EACH_RANK(at, &rendezvous->arrived)
    {
        const struct weir__cuda_meet *m = participant_at(rendezvous, at);

        if (st)
            break;
        rank = m->participant.rank;
        if (weir__cuda_failed_before(weir__cuda_stream_of(m->blamed.stream), m->blamed.seq + 1))
            st = weir__stream_copy_error(m->blamed.stream, text, sizeof text);
    }
    close_rendezvous(last, rank, st, st ? text : NULL, false);
}

/* On the helper thread, after all parts, or in a group of processes after the own part. */
static void look(void *user)
{
    struct weir__cuda_meet *last = user;

    if (weir__cuda_group_of(last)->procs) {
        look_at_own_part(last);
        return;
    }
    look_at_all_parts(last);
}
