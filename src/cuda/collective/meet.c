/* Collectives between the devices of this process, and between processes.
 *
 * In its stream a collective is a job of the host with a gate after it, like a callback. When the
 * stream reaches it, the helper thread of its device arrives at the rendezvous. Until all ranks
 * have arrived, no work of the collective is on the device. So if a rank never arrives, arguments
 * do not fit or the group is broken, it is enough to set the error and open the gate. No kernel
 * waits for another kernel.
 *
 * The helper of the last rank to arrive queues the parts of all ranks. Each part runs on a side
 * stream of its rank, on the same cores; everything before it on the rank's stream has completed.
 * After all parts, ordered by events, the gates are opened. If parts can fail, the host first reads
 * their failures: one failed part fails the collective on all ranks.
 *
 * In a group of processes no rank is the last. When all have arrived, each starts its own part,
 * which reads its peers' memory (share.c) and writes its own. After its part has completed, the
 * rank checks it for failures and departs. Its gate opens when no peer needs its memory any
 * more. */
#include "cuda/collective/launch.h"
#include "cuda/collective/parts.h"
#include "cuda/fault/faults.h"

#include <stdio.h>
#include <string.h>

static struct weir__mutex arrived_lock; /* guards the devices' lists of arrived collectives */

/* ---- queueing ---- */

/* Finds everything that needs the device lock now, because the thread that runs the parts must not
 * take it. */
static weir_status prepare(struct weir__cuda_meet *m, const struct weir__kernel *k)
{
    struct weir__cuda *dev = weir__cuda_device_of(m);
    weir_status st;

    if ((st = weir__cuda_side(m->stream, k->engine <= WEIR_ENGINE_MIX ? k->cores : UINT32_MAX,
                              &m->side)))
        return st;
    m->cores = k->engine <= WEIR_ENGINE_MIX ? k->cores : dev->cores.total;
    if (weir__cuda_part_engine(m))
        weir__cuda_warm_call(dev, k);
    m->code = k->fn && !weir__cuda_part_engine(m) ? k->code : NULL;
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
static void arrive(void *user);

static void drop(void *user)
{
    weir__free(user);
}

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
    m->call = weir__cuda_meet_of(m)->call + (run ? run->ticket : 0);
    m->blamed = run ? run->blamed : (struct weir__mark){&s->base, m->seq};
    m->in_plan = run;
    m->traced = traced;
    m->name = k->name;
    m->participant.wake = wake;
    if ((st = prepare(m, k))) {
        weir__free(m);
        return st;
    }
    return weir__cuda_queue_job(s, tail,
                                &(struct weir__cuda_job){.serve = arrive, .drop = drop, .user = m});
}

/* ---- the end ---- */

void weir__cuda_meet_list(struct weir__cuda_meet *m)
{
    struct weir__cuda *dev = weir__cuda_device_of(m);

    weir__mutex_lock(&arrived_lock);
    m->next = dev->arrived;
    m->at = &dev->arrived;
    if (m->next)
        m->next->at = &m->next;
    dev->arrived = m;
    weir__mutex_unlock(&arrived_lock);
}

void weir__cuda_meet_unlist(struct weir__cuda_meet *m)
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

/* Reports the end to the trace: at the event of the side stream of `opener`, or now. */
static void trace_end(const struct weir__cuda_meet *m, const struct weir__cuda_meet *opener)
{
    if (m->traced && opener) /* an event can be recorded only on streams of its own device */
        weir__cuda_trace_part(m->traced, weir__cuda_device_of(m) == weir__cuda_device_of(opener)
                                             ? opener->side
                                             : m->side);
    else if (m->traced)
        weir__cuda_trace_ended(m->traced);
}

void weir__cuda_meet_finish(struct weir__cuda_meet *m, const struct weir__cuda_meet *opener)
{
    struct weir__cuda_stream *s = m->stream;
    weir_group *group = weir__cuda_group_of(m);
    char text[1024];

    weir__cuda_meet_unlist(m);
    if (m->participant.state == WEIR__PARTICIPANT_REFUSED || m->participant.failed) {
        snprintf(text, sizeof text, "collective '%.28s' failed on stream '%s': %s", m->name,
                 s->base.name, group->reason);
        weir__cuda_fail(weir__cuda_stream_of(m->blamed.stream), m->blamed.seq, group->status, text);
    }
    if (!m->in_plan) /* before opening the gate: a thread that waits may then destroy the group */
        weir__group_drop(group);
    trace_end(m, opener);
    if (!opener)
        weir__cuda_open_gate(s, m->seq);
    weir__free(m);
}

/* participant.wake: the group is broken, or it is a group of processes and the collective
 * continues. From any thread. */
static void wake(struct weir__participant *participant)
{
    struct weir__cuda_meet *m = weir__containerof(participant, struct weir__cuda_meet, participant);

    if (participant->state == WEIR__PARTICIPANT_RUNS)
        weir__cuda_run_own_part(m);
    else
        weir__cuda_meet_finish(m, NULL);
}

/* Skips the collective because the stream is in error, and breaks the group. */
static void miss(struct weir__cuda_meet *m, weir_status status, const char *why)
{
    weir_group *group = weir__cuda_group_of(m);
    char where[140], text[sizeof group->reason];

    weir__call_text(weir__cuda_meet_of(m), m->call, where, sizeof where);
    snprintf(text, sizeof text,
             "%s: rank %d does not take part, its stream '%s' is in error: %.140s", where,
             weir__cuda_meet_of(m)->rank, m->blamed.stream->name, why);
    group->transport->abort(group, status, text);
    m->participant.state = WEIR__PARTICIPANT_AWAY;
    weir__cuda_meet_finish(m, NULL);
}

/* On the helper thread: the stream has reached the collective. */
static void arrive(void *user)
{
    struct weir__cuda_meet *m = user;
    const struct weir__meet *meet = weir__cuda_meet_of(m);
    weir_status st = weir__stream_error(m->blamed.stream, m->blamed.seq);

    if (st || (st = weir__cuda_alive(weir__cuda_device_of(m)))) {
        miss(m, st, weir_last_error());
        return;
    }
    weir__cuda_meet_list(m);
    if (!meet->channel->group->transport->arrive(&m->participant, meet, m->call))
        return; /* `m` may be freed already */
    if (m->participant.state == WEIR__PARTICIPANT_LAST)
        weir__cuda_run_parts(m);
    else if (m->participant.state == WEIR__PARTICIPANT_RUNS)
        weir__cuda_run_own_part(m);
    else
        weir__cuda_meet_finish(m, NULL);
}

/* ---- functions for lower rooms ---- */

static bool explain_failure(const struct weir__cuda_stream *s, const struct weir__code_failure *f,
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

static void break_groups(struct weir__cuda *dev)
{
    for (;;) {
        const struct weir__cuda_meet *m;
        weir_group *group = NULL;

        weir__mutex_lock(&arrived_lock);
        for (m = dev->arrived; m && !group; m = m->next)
            if (!atomic_load(&weir__cuda_group_of(m)->broken))
                group = weir__cuda_group_of(m);
        if (group)
            weir__group_hold(group);
        weir__mutex_unlock(&arrived_lock);
        if (!group)
            return;
        group->transport->abort(group, WEIR_EDRIVER, dev->faults.dead_text);
        weir__group_drop(group);
    }
}

const struct weir__cuda_collectives weir__cuda_collectives = {explain_failure, break_groups};

void weir__cuda_explain(weir_device *const *devs, int ndevs, struct weir__text *report,
                        struct weir__text *cycle)
{
    (void)cycle; /* CUDA does not say what a stream waits for */
    for (int i = 0; i < ndevs; i++)
        weir__cuda_report(devs[i], report);
}
