/* Collectives on worker threads; soft/meet.c explains the states. */
#include "cpu/cpu.h"

/* Called for the last rank to arrive: runs the parts of all ranks on the core that it has. */
static void run_all_parts(struct weir__worker *w, struct weir__soft_stream *s,
                          const struct weir__cmd *cmd)
{
    const struct weir__grant none = {.kind = WEIR__CORE_NONE}, mine = w->grant;
    int failed = 0;

    s->run.parted = false;
    WEIR__EACH_OF_RANKS(rank, &s->participant.in->arrived, s->participant.in->narrived)
    {
        struct weir__soft_stream *peer = weir__soft_peer(s, rank);
        const struct weir__cmd *part = weir__soft_peer_cmd(s, rank);
        uint64_t from = weir__trace_on() ? weir__worker_ticks(w) : 0;

        failed = rank;
        weir__worker_run_alone(w, s, part);
        if (from) { /* a peer's record shows no core: it took none of its own device */
            w->grant = peer == s ? mine : none;
            weir__worker_trace_op(w, peer, part, 0, from);
            w->grant = mine;
        }
        if (atomic_load_explicit(&s->run.failed, memory_order_relaxed))
            break;
    }
    weir__soft_settle_failure(s);
    weir__soft_close_rendezvous(s, cmd, failed);
}

bool weir__worker_leave_rendezvous(struct weir__worker *w, struct weir__soft_stream *s,
                                   const struct weir__cmd *cmd)
{
    if (!weir__soft_depart(s, cmd))
        return false;
    if (s->participant.state == WEIR__PARTICIPANT_RUNS) /* the next round */
        return weir__worker_run_collective(w, s, cmd);
    weir__soft_meet_end(s, cmd);
    return true;
}

bool weir__worker_run_collective(struct weir__worker *w, struct weir__soft_stream *s,
                                 const struct weir__cmd *cmd)
{
    if (s->participant.state == WEIR__PARTICIPANT_AWAY) {
        weir__soft_publish(s, &w->mine);
        if (!weir__soft_arrive(s, cmd))
            return false;
    }
    if (s->participant.state == WEIR__PARTICIPANT_LAST) {
        uint64_t ns = weir__soft_parts_ns(cmd, (const void *)cmd->args);

        if (!cmd->gang && ns <= WEIR__ALL_PARTS_NS) {
            if (!weir__worker_take_short_turn(w, s, ns) ||
                !weir__worker_have_core(w, s, weir__sched_kind(&w->cpu->soft.sched, cmd->engine)))
                return false;
            run_all_parts(w, s, cmd);
        } else {
            weir__soft_open_rendezvous(s, cmd);
        }
    }
    if (s->participant.state == WEIR__PARTICIPANT_RUNS)
        return weir__worker_run_kernel(w, s, cmd) && weir__worker_leave_rendezvous(w, s, cmd);
    weir__soft_meet_end(s, cmd);
    return true;
}
