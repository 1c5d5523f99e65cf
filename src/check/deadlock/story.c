#include "check/deadlock/story.h"

#include <string.h>

struct describer {
    struct weir__report *r;
    const struct weir__check_program *p;
    struct weir__lines *lines;
};

static const struct weir__check_op *op_at(const struct describer *t, int rank, int stream,
                                          const struct weir__slot *slots)
{
    const struct weir__check_rank *k = &t->p->ranks[rank];

    return &k->ops[k->streams[stream].ops[slots[stream].position]];
}

static const char *blocks(const struct describer *t, int rank, const struct weir__check_op *op,
                          int n)
{
    return weir__report_blocks(t->r, &t->p->ranks[rank], op, n);
}

static const char *cores(const struct describer *t, int rank, int cube, int vector)
{
    return weir__report_cores(t->r, &t->p->ranks[rank], cube, vector);
}

/* ---- steps ---- */

static const char *describe_arrival(const struct describer *t, const struct weir__check_event *e,
                                    const struct weir__check_op *op)
{
    const struct weir__slot *is = &e->after[e->stream];
    const char *has = cores(t, e->rank, is->cube, is->vector);
    const char *all = blocks(t, e->rank, op, op->blocks);

    if (is->status == WEIR__SLOT_WAIT && !is->cube && !is->vector)
        return weir__report_text(t->r, "needs %s, has to wait and holds none",
                                 op->take == WEIR__TAKE_ANY ? blocks(t, e->rank, op, 1) : all);
    if (is->status == WEIR__SLOT_WAIT)
        return weir__report_text(
            t->r, "takes the %s that are left, keeps them and waits for the rest of its %s", has,
            all);
    return weir__report_text(
        t->r, "starts on %s%s", has,
        is->status == WEIR__SLOT_MEET ? ", keeps them and waits for the other ranks" : "");
}

/* Describes the step of the stream's own operator. */
static const char *describe_move(const struct describer *t, const struct weir__check_event *e,
                                 const struct weir__check_op *op)
{
    const struct weir__slot *was = &e->before[e->stream], *is = &e->after[e->stream];
    int cube = was->cube - is->cube, vector = was->vector - is->vector;

    if (is->position > was->position)
        return was->status == WEIR__SLOT_IDLE
                   ? "runs to its end"
                   : weir__report_text(t->r, "ends and gives back %s",
                                       cores(t, e->rank, was->cube, was->vector));
    if (was->status == WEIR__SLOT_IDLE)
        return describe_arrival(t, e, op);
    if (cube || vector)
        return weir__report_text(t->r, "ends some blocks, gives back %s and keeps %s",
                                 cores(t, e->rank, cube, vector),
                                 is->cube || is->vector ? cores(t, e->rank, is->cube, is->vector)
                                                        : "none, with blocks left to start");
    return "starts the last of its blocks";
}

/* Describes the cores that operators of the rank's other streams got by this step. */
static const char *describe_gains(const struct describer *t, const struct weir__check_event *e)
{
    const char *text = "";

    for (int s = 0; s < t->p->ranks[e->rank].nstreams; s++) {
        const struct weir__slot *was = &e->before[s], *is = &e->after[s];
        const struct weir__check_op *op;

        if (s == e->stream || !was->status || was->status == WEIR__SLOT_MEET ||
            (is->position == was->position && is->cube <= was->cube && is->vector <= was->vector))
            continue;
        op = op_at(t, e->rank, s, e->before);
        text =
            is->position > was->position
                ? weir__report_text(t->r, "%s; %s gets the rest of its cores and runs to its end",
                                    text, op->name)
                : weir__report_text(
                      t->r, "%s; %s gets %s%s", text, op->name,
                      cores(t, e->rank, is->cube - was->cube, is->vector - was->vector),
                      is->status == WEIR__SLOT_WAIT   ? " more and still waits"
                      : was->status == WEIR__SLOT_RUN ? ""
                                                      : " and starts");
    }
    return text;
}

/* True if the step only frees cores that no other operator takes, and the next step goes on with
 * that: both are described as one. */
static bool is_part_of_next(const struct describer *t, const struct weir__check_event *e,
                            const struct weir__check_event *next)
{
    return next && next->rank == e->rank && next->stream == e->stream &&
           e->before[e->stream].status == WEIR__SLOT_DRAIN &&
           next->before[e->stream].status == WEIR__SLOT_DRAIN &&
           next->before[e->stream].position == e->before[e->stream].position &&
           !*describe_gains(t, e);
}

static void describe_event(const struct describer *t, const struct weir__check_event *e)
{
    const struct weir__check_op *op = op_at(t, e->rank, e->stream, e->before);
    const struct weir__check_stream *stream = &t->p->ranks[e->rank].streams[e->stream];

    weir__report_line(
        t->r, t->lines,
        weir__report_text(t->r, "%s%s (stream %s) %s%s", weir__report_rank(t->r, t->p, e->rank),
                          op->name, stream->name, describe_move(t, e, op), describe_gains(t, e)));
}

static void describe_rendezvous(const struct describer *t, int rendezvous)
{
    const struct weir__check_rendezvous *m = &t->p->rendezvous[rendezvous];

    int first = 0;

    while (m->op[first] < 0)
        first++;
    weir__report_line(
        t->r, t->lines,
        weir__report_text(t->r, "all %sranks are at %s (collective %s, number %d), which goes on",
                          m->needs == t->p->nranks ? "" : "its ",
                          t->p->ranks[first].ops[m->op[first]].name, m->name, m->k + 1));
}

void weir__describe_trace(struct weir__report *r, const struct weir__check_program *p,
                          const struct weir__trace *trace, const bool *told,
                          struct weir__lines *lines)
{
    struct describer t = {r, p, lines};
    struct weir__check_event joined;
    bool pending = false;

    for (int i = 0; i < trace->nevents; i++) {
        struct weir__check_event e = trace->events[i];
        const struct weir__check_event *next =
            i + 1 < trace->nevents ? &trace->events[i + 1] : NULL;

        if (e.rank < 0) {
            describe_rendezvous(&t, e.rendezvous);
            continue;
        }
        if (told && !told[e.rank])
            continue;
        if (pending)
            e.before = joined.before;
        pending = is_part_of_next(&t, &e, next);
        if (pending)
            joined = e;
        else
            describe_event(&t, &e);
    }
}

/* ---- the cycle ---- */

static const char *describe_wait(const struct describer *t, const struct weir__deadlock *deadlock,
                                 const struct weir__check_wait *w,
                                 const struct weir__check_wait *on)
{
    const struct weir__check_rank *rank = &t->p->ranks[w->rank];
    const struct weir__check_op *op = &rank->ops[w->op];
    const struct weir__check_op *other = &t->p->ranks[on->rank].ops[on->op];
    const struct weir__deadlock_head *own = &deadlock->heads[deadlock->first[w->rank] + op->stream];
    const struct weir__deadlock_head *its =
        &deadlock->heads[deadlock->first[on->rank] + other->stream];
    const char *held = own->cube || own->vector ? cores(t, w->rank, own->cube, own->vector) : NULL;
    const char *others = cores(t, on->rank, its->cube, its->vector);

    switch (w->why) {
    case WEIR__WAIT_AFTER:
        return weir__report_text(t->r, "%s must run after %s", op->name, other->name);
    case WEIR__WAIT_BEHIND:
        return weir__report_text(t->r, "%s is behind %s on stream %s", op->name, other->name,
                                 rank->streams[op->stream].name);
    case WEIR__WAIT_RENDEZVOUS:
        if (held)
            return weir__report_text(t->r, "%s holds %s until rank %d comes to its %s", op->name,
                                     held, on->rank, other->name);
        return weir__report_text(t->r, "%s waits until rank %d comes to its %s", op->name, on->rank,
                                 other->name);
    case WEIR__WAIT_CORES:
        break;
    }
    if (op->take == WEIR__TAKE_ANY)
        return weir__report_text(t->r, "%s finds no free core while %s holds %s", op->name,
                                 other->name, others);
    if (!held)
        return weir__report_text(t->r, "%s needs %s while %s holds %s", op->name,
                                 blocks(t, w->rank, op, op->blocks), other->name, others);
    return weir__report_text(t->r, "%s holds %s and needs %d more, while %s holds %s", op->name,
                             held, op->blocks * (op->cube + op->vector) - own->cube - own->vector,
                             other->name, others);
}

void weir__describe_cycle(struct weir__report *r, const struct weir__check_program *p,
                          const struct weir__deadlock *deadlock, const struct weir__cycle *cycle,
                          struct weir__lines *lines)
{
    struct describer t = {r, p, lines};

    for (int i = 0; i < cycle->n; i++) {
        const struct weir__check_wait *w = &cycle->waits[i];

        weir__report_line(
            r, lines,
            weir__report_text(r, "%s%s", weir__report_rank(r, p, w->rank),
                              describe_wait(&t, deadlock, w, &cycle->waits[(i + 1) % cycle->n])));
    }
}
