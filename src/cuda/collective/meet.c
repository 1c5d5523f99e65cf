/* Collectives between the devices of this process, and between processes.
 *
 * In its stream a collective is a call of the host and a gate behind it, as a callback is. When
 * the stream gets there, the helper thread of its device arrives at the rendezvous for it; until
 * the others have come nothing of it is on the device, so that a rank that never comes, arguments
 * that do not fit or a broken group need only say so and open the gate. No kernel waits for
 * another.
 *
 * The helper of the last to arrive queues every rank's part, each on a stream of its own beside
 * the rank's (on the same cores, and what is before it on the rank's stream is over), and behind
 * all of them, by events, the opening of all gates. Parts that can fail are looked at by the
 * host first: a failure is every rank's.
 *
 * Of a group of processes nobody is the last: when all are there each starts its own part, which
 * reads its peers' memory (share.c) and writes its own, looks at it when it is over, and departs;
 * the gate opens when nobody needs its memory any more.
 */
#include "cuda/collective/meet.h"
#include "comm/comm.h"
#include "cuda/fault/faults.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PHASES = 3, NAP_NS = 50000 };

static struct weir__mutex arrived_lock; /* of the devices' lists of those that have arrived */

/* A collective of one rank, from when it is queued until it is over. */
struct weir__cuda_meet {
    struct weir__participant participant;
    struct weir__cuda_stream *stream;
    uint64_t seq, call;
    struct weir__mark blamed; /* the command that fails with it: its own, or its run's */
    bool in_plan;
    struct weir__cuda_traced *traced; /* or NULL */
    bool started;                     /* something of it is on the side stream */
    const char *name;
    const struct weir__code *code; /* NULL: the others' parts do what is to be done */
    unsigned cores, phases;
    weir__cu_stream side;
    struct {
        weir__cu_function function;
        struct weir__code_launch launch;
    } steps[PHASES];
    struct weir__cuda_meet *next, **at; /* of the device's that have arrived */
    _Alignas(64) unsigned char args[WEIR_ARGS_MAX];
};

static const struct weir__meet *meet_of(const struct weir__cuda_meet *m)
{
    return (const struct weir__meet *)(const void *)m->args;
}

static weir_group *group_of(const struct weir__cuda_meet *m)
{
    return meet_of(m)->channel->group;
}

static struct weir__cuda *device_of(const struct weir__cuda_meet *m)
{
    return weir__cuda_of(m->stream->base.dev);
}

static struct weir__cuda_meet *participant_at(const struct weir__rendezvous *rendezvous,
                                              uint64_t left)
{
    return weir__containerof(rendezvous->participants[__builtin_ctzll(left)],
                             struct weir__cuda_meet, participant);
}

/* ---- queueing ---- */

/* The device lock is the host's: whoever runs the parts must not need it, so everything that
 * does is found now. */
static weir_status prepare(struct weir__cuda_meet *m, const struct weir__kernel *k)
{
    struct weir__cuda *dev = device_of(m);
    weir_status st;

    if ((st = weir__cuda_side(m->stream, k->engine <= WEIR_ENGINE_MIX ? k->cores : UINT32_MAX,
                              &m->side)))
        return st;
    m->cores = k->engine <= WEIR_ENGINE_MIX ? k->cores : dev->cores.total;
    m->code = k->fn ? k->code : NULL;
    m->phases = m->code && m->code->phases ? m->code->phases : k->phases;
    for (unsigned i = 0; i < m->phases && m->code; i++) {
        m->steps[i].launch = (struct weir__code_launch){
            .threads = 256, .arch = (uint32_t)(dev->gpu.major * 10 + dev->gpu.minor)};
        m->code->shape(m->args, i, m->cores, &m->steps[i].launch);
        if (m->steps[i].launch.grid &&
            (st = weir__cuda_find_function(dev, m->code, m->args, &m->steps[i].launch,
                                           &m->steps[i].function)))
            return st;
    }
    return WEIR_OK;
}

static void wake(struct weir__participant *participant);

weir_status weir__cuda_queue_meet(struct weir__cuda_stream *s, weir__cu_stream tail,
                                  const struct weir__kernel *k, const struct weir__cuda_run *run,
                                  struct weir__cuda_traced *traced)
{
    struct weir__cuda_meet *m = weir__alloc_aligned(sizeof *m, WEIR__LINE);
    weir_status st;

    if (!m)
        return weir__fail_nomem("queueing collective '%s' on stream '%s'", k->name, s->base.name);
    memset(m, 0, sizeof *m);
    memcpy(m->args, k->args, k->args_size);
    m->stream = s;
    m->seq = weir__stream_submitted(&s->base) + 1;
    m->call = meet_of(m)->call + (run ? run->ticket : 0);
    m->blamed = run ? run->blamed : (struct weir__mark){&s->base, m->seq};
    m->in_plan = run;
    m->traced = traced;
    m->name = k->name;
    m->participant.wake = wake;
    if ((st = prepare(m, k))) {
        weir__free(m);
        return st;
    }
    return weir__cuda_queue_job(s, tail, &(struct weir__cuda_job){.seq = m->seq, .meet = m});
}

void weir__cuda_meet_free(struct weir__cuda_meet *m)
{
    weir__free(m);
}

/* ---- the end ---- */

static void list_arrived(struct weir__cuda_meet *m)
{
    struct weir__cuda *dev = device_of(m);

    weir__mutex_lock(&arrived_lock);
    m->next = dev->arrived;
    m->at = &dev->arrived;
    if (m->next)
        m->next->at = &m->next;
    dev->arrived = m;
    weir__mutex_unlock(&arrived_lock);
}

static void unlist(struct weir__cuda_meet *m)
{
    weir__mutex_lock(&arrived_lock);
    if (m->at) {
        *m->at = m->next;
        if (m->next)
            m->next->at = m->at;
        m->at = NULL;
    }
    weir__mutex_unlock(&arrived_lock);
}

static void fail(const struct weir__mark *blamed, weir_status status, const char *text)
{
    weir__cuda_fail(weir__cuda_stream_of(blamed->stream), blamed->seq, status, text);
}

/* Its end, which the side stream of `opener` has queued if there is one. */
static void trace_end(const struct weir__cuda_meet *m, const struct weir__cuda_meet *opener)
{
    if (m->traced && opener) /* an event goes to streams of its own device only */
        weir__cuda_trace_part(m->traced,
                              device_of(m) == device_of(opener) ? opener->side : m->side);
    else if (m->traced)
        weir__cuda_trace_ended(m->traced);
}

/* Nobody is in its rendezvous any more. The stream fails if it did, and goes on: by the host, or
 * by the device of `opener`. The group may be gone afterwards, and `m` is. */
static void finish(struct weir__cuda_meet *m, const struct weir__cuda_meet *opener)
{
    struct weir__cuda_stream *s = m->stream;
    weir_group *group = group_of(m);
    char text[1024];

    unlist(m);
    if (m->participant.state == WEIR__PARTICIPANT_REFUSED || m->participant.failed) {
        snprintf(text, sizeof text, "collective '%.28s' failed on stream '%s': %s", m->name,
                 s->base.name, group->reason);
        fail(&m->blamed, group->status, text);
    }
    if (!m->in_plan) /* before the stream goes on: whoever has waited for it may destroy the group
                      */
        weir__group_drop(group);
    trace_end(m, opener);
    if (!opener)
        weir__cuda_open_gate(s, m->seq);
    weir__free(m);
}

static void run_own_part(struct weir__cuda_meet *m);

/* It waits no longer: the group is broken, or of processes and can go on. From any thread. */
static void wake(struct weir__participant *participant)
{
    struct weir__cuda_meet *m = weir__containerof(participant, struct weir__cuda_meet, participant);

    if (participant->state == WEIR__PARTICIPANT_RUNS)
        run_own_part(m);
    else
        finish(m, NULL);
}

/* The stream is in error before it came here: it stays away, and says so. */
static void miss(struct weir__cuda_meet *m, weir_status status, const char *why)
{
    weir_group *group = group_of(m);
    char where[140], text[sizeof group->reason];

    weir__call_text(meet_of(m), m->call, where, sizeof where);
    snprintf(text, sizeof text,
             "%s: rank %d does not take part, its stream '%s' is in error: %.140s", where,
             meet_of(m)->rank, m->blamed.stream->name, why);
    group->transport->abort(group, status, text);
    m->participant.state = WEIR__PARTICIPANT_AWAY;
    finish(m, NULL);
}

/* ---- all are here ---- */

/* Whether kernels on the GPU of `m` read and write the memory of all. */
static weir_status check_reach(const struct weir__cuda_meet *m,
                               const struct weir__rendezvous *rendezvous)
{
    const struct weir__cuda *here = device_of(m);

    for (uint64_t left = rendezvous->arrived; left; left &= left - 1) {
        const struct weir__cuda *other = device_of(participant_at(rendezvous, left));

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
    struct weir__cuda *dev = device_of(m);
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
        m->code->gather(m->args, peers, meet_of(m)->pulls, part);
    m->started = true;
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

/* The side stream of `last` goes on behind all parts. */
static weir_status join_parts(const struct weir__cuda_meet *last)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;
    struct weir__cuda *dev = device_of(last);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = WEIR_OK;

    for (uint64_t left = rendezvous->arrived; left && !st; left &= left - 1) {
        const struct weir__cuda_meet *m = participant_at(rendezvous, left);

        if (m != last)
            st = weir__cuda_check(
                dev, dev->api->cu.stream_wait(last->side, m->stream->queues.parted, 0), "a wait");
    }
    weir__cuda_leave(dev, pushed);
    return st;
}

/* Gates that a side stream opens, once nothing but the streams themselves is needed for it. */
struct opening {
    struct weir__cuda *dev;
    weir__cu_stream side;
    int n;
    struct {
        struct weir__cuda_stream *stream;
        uint64_t seq;
        struct weir__mark blamed;
    } gates[WEIR_MAX_RANKS];
};

static void plan_opening(const struct weir__cuda_meet *last, struct opening *o)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;

    o->dev = device_of(last);
    o->side = last->side;
    o->n = 0;
    for (uint64_t left = rendezvous->arrived; left; left &= left - 1) {
        const struct weir__cuda_meet *m = participant_at(rendezvous, left);

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

/* The parts run; if the device cannot be told to go on behind them, the host waits and does it,
 * with an error. */
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
        fail(&o->gates[i].blamed, st, text);
        weir__cuda_open_gate(s, o->gates[i].seq);
    }
    weir__cuda_leave(o->dev, pushed);
}

/* Parts that were started before something went wrong write their peers' memory. */
static void await_parts(const struct weir__rendezvous *rendezvous)
{
    for (uint64_t left = rendezvous->arrived; left; left &= left - 1) {
        const struct weir__cuda_meet *m;
        struct weir__cuda *dev;
        bool pushed;

        if (!rendezvous->participants[__builtin_ctzll(left)])
            continue; /* of another process */
        m = participant_at(rendezvous, left);
        dev = device_of(m);
        pushed = weir__cuda_enter(dev);
        while (m->started && dev->api->cu.stream_query(m->side) == CU_ERROR_NOT_READY)
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        weir__cuda_leave(dev, pushed);
    }
}

/* The rendezvous is over for everybody; the device opens the gates, or the host does now. */
static void close_rendezvous(struct weir__cuda_meet *last, int rank, weir_status status,
                             const char *text, bool by_device)
{
    const struct weir__cuda_meet *opener = by_device ? last : NULL;
    const struct weir__transport *transport = group_of(last)->transport;
    struct weir__participant *participant = transport->close_rendezvous(&last->participant, rank,
                                                                        status, text),
                             *next;

    for (; participant; participant = next) {
        next = participant->woken;
        finish(weir__containerof(participant, struct weir__cuda_meet, participant), opener);
    }
    finish(last, opener);
}

static weir_status queue_look(struct weir__cuda_meet *last)
{
    struct weir__cuda *dev = device_of(last);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = weir__cuda_queue_look(last, last->stream, last->side);

    weir__cuda_leave(dev, pushed);
    return st;
}

static void run_parts(struct weir__cuda_meet *last)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;
    struct opening opening;
    bool look = false;
    int rank = last->participant.rank;
    char text[400];
    weir_status st = WEIR_OK;

    for (uint64_t left = rendezvous->arrived; left && !st; left &= left - 1) {
        struct weir__cuda_meet *m = participant_at(rendezvous, left);

        rank = m->participant.rank;
        look |= m->code && m->code->fails;
        if (!(st = check_reach(m, rendezvous)))
            st = start_part(m, rendezvous->args);
    }
    if (!st) {
        rank = last->participant.rank;
        st = join_parts(last);
    }
    if (!st && look && !(st = queue_look(last)))
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

/* ---- of a group of processes ---- */

/* The part is over, or could not be started. */
static void depart(struct weir__cuda_meet *m, weir_status status, const char *text)
{
    if (group_of(m)->transport->depart(&m->participant, status, text))
        finish(m, NULL);
}

static void run_own_part(struct weir__cuda_meet *m)
{
    char text[400];
    weir_status st = start_part(m, m->participant.in->args);

    if (!st && !(st = queue_look(m)))
        return;
    snprintf(text, sizeof text, "%s", weir_last_error());
    await_parts(m->participant.in);
    depart(m, st, text);
}

static void look_at_own_part(struct weir__cuda_meet *m)
{
    char text[1024];
    weir_status st = WEIR_OK;

    if (weir__cuda_failed_before(weir__cuda_stream_of(m->blamed.stream), m->blamed.seq + 1))
        st = weir__stream_copy_error(m->blamed.stream, text, sizeof text);
    depart(m, st, st ? text : NULL);
}

/* Parts that can fail are over: the first rank that did speaks for all. */
static void look_at_all_parts(struct weir__cuda_meet *last)
{
    const struct weir__rendezvous *rendezvous = last->participant.in;
    char text[1024];
    weir_status st = WEIR_OK;
    int rank = last->participant.rank;

    for (uint64_t left = rendezvous->arrived; left && !st; left &= left - 1) {
        const struct weir__cuda_meet *m = participant_at(rendezvous, left);

        rank = m->participant.rank;
        if (weir__cuda_failed_before(weir__cuda_stream_of(m->blamed.stream), m->blamed.seq + 1))
            st = weir__stream_copy_error(m->blamed.stream, text, sizeof text);
    }
    close_rendezvous(last, rank, st, st ? text : NULL, false);
}

void weir__cuda_meet_look(struct weir__cuda_meet *last)
{
    if (group_of(last)->procs) {
        look_at_own_part(last);
        return;
    }
    look_at_all_parts(last);
}

void weir__cuda_meet_arrive(struct weir__cuda_meet *m)
{
    const struct weir__meet *meet = meet_of(m);
    weir_status st = weir__stream_error(m->blamed.stream, m->blamed.seq);

    if (st || (st = weir__cuda_alive(device_of(m)))) {
        miss(m, st, weir_last_error());
        return;
    }
    list_arrived(m);
    if (!meet->channel->group->transport->arrive(&m->participant, meet, m->call))
        return; /* it may be gone */
    if (m->participant.state == WEIR__PARTICIPANT_LAST)
        run_parts(m);
    else if (m->participant.state == WEIR__PARTICIPANT_RUNS)
        run_own_part(m);
    else
        finish(m, NULL);
}

/* ---- for faults.c and jobs.c ---- */

bool weir__cuda_meet_explain(const struct weir__cuda_stream *s, const struct weir__code_failure *f,
                             char *text, size_t size)
{
    const struct weir__cuda_meet *m;

    weir__mutex_lock(&arrived_lock);
    for (m = weir__cuda_of(s->base.dev)->arrived; m; m = m->next)
        if (m->blamed.stream == &s->base && m->blamed.seq == f->seq && m->name == f->name &&
            m->code && m->code->explain) {
            m->code->explain(m->args, f, text, size);
            break;
        }
    weir__mutex_unlock(&arrived_lock);
    return m;
}

void weir__cuda_meets_dead(struct weir__cuda *dev)
{
    for (;;) {
        const struct weir__cuda_meet *m;
        weir_group *group = NULL;

        weir__mutex_lock(&arrived_lock);
        for (m = dev->arrived; m && !group; m = m->next)
            if (!atomic_load(&group_of(m)->broken))
                group = group_of(m);
        if (group)
            weir__group_hold(group);
        weir__mutex_unlock(&arrived_lock);
        if (!group)
            return;
        group->transport->abort(group, WEIR_EDRIVER, dev->faults.dead_text);
        weir__group_drop(group);
    }
}

void weir__cuda_explain(weir_device *const *devs, int ndevs, struct weir__text *report,
                        struct weir__text *cycle)
{
    (void)cycle; /* CUDA does not say what a stream waits for */
    for (int i = 0; i < ndevs; i++)
        weir__cuda_report(devs[i], report);
}
