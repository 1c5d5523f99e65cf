/* Reports a deadlock and fails the streams that are in it. In virtual time the detection is exact:
 * all `loop` locks are held, and a clock group without events, ready streams and running callbacks
 * cannot change until a host thread queues something. */
#include "npu/npu.h"

#include <stdio.h>

/* ---- looking ---- */

struct view {
    const struct weir__npu_clock_group *clock_group;
    struct weir__npu_stream *awaiting;
};

static void see_participant(const struct weir__participant *participant, const weir_group *group,
                            const struct weir__ranks *missing, void *user)
{
    struct view *view = user;
    struct weir__npu_stream *s;

    if (!weir__npu_is_in(view->clock_group, group->ranks[participant->rank].dev))
        return;
    s = weir__npu_stream_of(weir__containerof(participant, struct weir__soft_stream, participant));
    s->group = participant->in->channel->group;
    s->missing = *missing;
    s->uncalled = (struct weir__ranks){{0}};
    WEIR__EACH_RANK(rank, missing)
    if (!weir__channel_called(participant->in->channel, rank, participant->in->call)) {
        weir__ranks_add(&s->uncalled, rank);
        s->lacks_calls = true;
    }
    if (s->lacks_calls)
        view->awaiting = s;
}

static bool waits_for_cores(const struct weir__npu_stream *s)
{
    return s->lane.op && !s->lane.running;
}

/* True from the stream's arrival to the end of the last part. */
static bool is_in_rendezvous(const struct weir__npu_stream *s)
{
    return atomic_load(&s->soft.rendezvous);
}

/* Notes for each waiting stream the ranks that its rendezvous lacks. Returns a stream whose
 * rendezvous lacks a call that the host has not made; NULL if there is none. */
static struct weir__npu_stream *look(const struct weir__npu_clock_group *c)
{
    struct view view = {.clock_group = c};

    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->members[i]->nstreams; k++) {
            struct weir__npu_stream *s = c->members[i]->streams[k];

            s->group = NULL;
            s->lacks_calls = false;
        }
    weir__groups_each_participant(see_participant, &view);
    return view.awaiting;
}

static bool moves(const struct weir__npu_clock_group *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->members[i]->calling || c->members[i]->sim.nheap ||
            atomic_load(&c->members[i]->soft.sched.ready))
            return true;
    return false;
}

enum weir__npu_rest weir__npu_at_rest(const struct weir__npu_clock_group *c,
                                      struct weir__npu_stream **awaiting)
{
    if (moves(c))
        return WEIR__NPU_MOVES;
    *awaiting = look(c);
    /* Check again: a call is counted before it is queued, so one that look() has seen as made may
     * have become ready only now. */
    if (moves(c))
        return WEIR__NPU_MOVES;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->members[i]->nstreams; k++) {
            const struct weir__npu_stream *s = c->members[i]->streams[k];

            if (is_in_rendezvous(s) && !s->group && !waits_for_cores(s))
                return WEIR__NPU_MOVES; /* another thread is about to wake it */
        }
    return *awaiting ? WEIR__NPU_AWAITS_CALL : WEIR__NPU_STUCK;
}

/* ---- saying ---- */

static void add_cores(struct weir__text *text, const uint32_t *cores)
{
    const char *comma = "";
    uint32_t n = 0;

    for (int p = 0; p < WEIR__POOLS; p++)
        if (cores[p]) {
            weir__text_add(text, "%s%u %s", comma, cores[p], weir__pool_names[p]);
            comma = " + ";
            n += cores[p];
        }
    weir__text_add(text, "%s", !n ? "no cores" : n == 1 ? " core" : " cores");
}

static void add_place(const struct weir__npu_clock_group *c, const struct weir__soft_stream *s,
                      struct weir__text *text)
{
    weir__text_add(text, "stream '%s'", s->base.name);
    if (c->n > 1)
        weir__text_add(text, " of device %llu (%s)", (unsigned long long)s->base.dev->id,
                       s->base.dev->props.name);
}

static void add_ranks(const struct weir__npu_stream *s, struct weir__text *text)
{
    const char *comma = "";

    WEIR__EACH_RANK(rank, &s->missing)
    {
        weir__text_add(text, "%s rank %d (device %llu%s)", comma, rank,
                       (unsigned long long)s->group->ranks[rank].dev->id,
                       weir__ranks_has(&s->uncalled, rank) ? "; not called" : "");
        comma = ",";
    }
    weir__text_add(text, " of group '%s'", s->group->name);
}

static void add_stream(const struct weir__npu_clock_group *c, struct weir__npu_stream *s,
                       struct weir__text *text)
{
    const struct weir__soft_stream *other = atomic_load(&s->soft.waits_for);
    uint32_t need[WEIR__POOLS];

    if (s->group || waits_for_cores(s)) {
        weir__text_add(text, "\n  ");
        add_place(c, &s->soft, text);
        weir__text_add(text, ": operator '%s' holds ", weir__soft_next(&s->soft)->name);
        add_cores(text, s->lane.held);
        if (s->group) {
            weir__text_add(text, " and waits for");
            add_ranks(s, text);
            return;
        }
        for (int p = 0; p < WEIR__POOLS; p++)
            need[p] = s->op.blocks * s->op.per_block[p];
        weir__text_add(text, " and waits until it has ");
        add_cores(text, need);
    } else if (other) {
        weir__text_add(text, "\n  ");
        add_place(c, &s->soft, text);
        weir__text_add(text, ": waits for command %llu of ",
                       (unsigned long long)atomic_load(&s->soft.waits_seq));
        add_place(c, other, text);
    }
}

void weir__npu_report(const struct weir__npu_clock_group *c, struct weir__text *text)
{
    look(c);
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->members[i]->nstreams; k++)
            add_stream(c, c->members[i]->streams[k], text);
}

/* ---- undoing ---- */

/* Fails an operator that waits for cores that will never become free. */
static void fail_operator(struct weir__npu_stream *s, const char *report)
{
    const struct weir__cmd *cmd = weir__soft_next(&s->soft);
    struct weir__text own = {0};

    weir__text_add(&own, "deadlock on %s: operator '%s' on stream '%s' can never start:%s",
                   s->soft.base.dev->props.name, cmd->name, s->soft.base.name, report);
    weir__soft_fail(&s->soft, WEIR_EDEADLOCK, own.data ? own.data : "deadlock");
    weir__text_free(&own);
    weir__sim_drop(&weir__npu_of(s)->sim, &s->lane);
    if (is_in_rendezvous(s)) { /* it lacks cores for its last blocks; its peers wait for it */
        if (!weir__npu_depart(s, cmd))
            return;
        weir__soft_meet_end(&s->soft, cmd);
    } else if (cmd->is_collective) {
        weir__soft_miss(&s->soft, cmd);
    }
    weir__npu_end_command(s, cmd);
}

static void fail_rendezvous(const struct weir__npu_stream *s, const char *report)
{
    struct weir__text own = {0};

    weir__text_add(&own, "deadlock: its ranks can never all arrive:%s", report);
    s->group->transport->abort(s->group, WEIR_EDEADLOCK, own.data ? own.data : "deadlock");
    weir__text_free(&own);
}

bool weir__npu_break_deadlock(const struct weir__npu_clock_group *c)
{
    struct weir__text text = {0};
    const char *report;
    bool any = false;

    weir__npu_report(c, &text);
    report = text.data ? text.data : "";
    /* Fail rendezvous first: the errors that failed operators pass to peers lack the report. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < c->n; i++)
            for (int k = 0; k < c->members[i]->nstreams; k++) {
                struct weir__npu_stream *s = c->members[i]->streams[k];

                if (pass ? !s->group && waits_for_cores(s) : s->group != NULL) {
                    any = true;
                    if (pass)
                        fail_operator(s, report);
                    else
                        fail_rendezvous(s, report);
                }
            }
    weir__text_free(&text);
    return any;
}
