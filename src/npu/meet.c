/* Collectives in virtual time; soft/meet.c explains the states.
 *
 * As on the hardware, a part takes its cores first and arrives when it has them; it holds them
 * without progress until every rank has arrived. The last rank to arrive sets the time of the
 * rendezvous: the latest time of any rank. Each part then takes the time that the model says. Its
 * values are computed when it ends, and all streams continue when the last part has ended. So ranks
 * can deadlock by holding cores that other ranks need; deadlock.c detects that.
 */
#include "npu/npu.h"

static uint32_t span_of_pair(const struct weir__model *model, const struct weir__ranks *pair)
{
    int first = weir__ranks_next(pair, 0);

    return weir__span_between(model, (uint32_t)first, (uint32_t)weir__ranks_next(pair, first + 1));
}

void weir__npu_collective_op(struct weir__npu_stream *s, const struct weir__cmd *cmd,
                             struct weir__load *load)
{
    const struct weir__model *model = &weir__npu_of(s)->model;
    const struct weir__meet *meet = (const void *)cmd->args;
    struct weir__collective c = {
        .kind = weir__collective_kind(meet->offer.what),
        .nranks = (uint32_t)meet->channel->nmembers,
        .bytes = load->bytes,
    };

    if (c.kind == WEIR__SEND && c.nranks == 2)
        c.span = span_of_pair(model, &meet->channel->members);
    if (cmd->u.fn) {
        weir__model_group_op(model, load, &c, &s->op);
    } else { /* a stand-in from a graph file, which gives its kind and its bytes */
        load->comm = true;
        weir__model_op(model, load, &s->op);
        if (!(load->block_us > 0) && c.nranks > 1)
            weir__model_collective(model, &c, &s->op);
        if (load->engine == WEIR_ENGINE_SDMA)
            weir__model_take_no_cores(&s->op);
    }
    s->op.rendezvous = WEIR__SIM_OUTSIDE;
}

/* Raises meets_at or leaves_at of all ranks of the rendezvous to `at`. */
static void agree(const struct weir__npu_stream *s, bool leaving, uint64_t at)
{
    WEIR__EACH_RANK(rank, &s->soft.participant.in->arrived)
    {
        struct weir__npu_stream *peer = weir__npu_stream_of(weir__soft_peer(&s->soft, rank));
        _Atomic uint64_t *to = leaving ? &peer->leaves_at : &peer->meets_at;
        uint64_t seen = atomic_load(to);

        while (seen < at && !atomic_compare_exchange_weak(to, &seen, at))
            ;
    }
}

static uint64_t latest(const struct weir__npu_stream *s)
{
    uint64_t at = 0;

    WEIR__EACH_RANK(rank, &s->soft.participant.in->arrived)
    {
        const struct weir__npu_stream *peer = weir__npu_stream_of(weir__soft_peer(&s->soft, rank));
        uint64_t now = atomic_load(&weir__npu_of(peer)->now_ps);

        at = now > at ? now : at;
    }
    return at;
}

bool weir__npu_arrive(struct weir__npu_stream *s)
{
    const struct weir__cmd *cmd = weir__soft_next(&s->soft);

    if (!weir__soft_arrive(&s->soft, cmd))
        return false;
    if (s->soft.participant.state == WEIR__PARTICIPANT_LAST) {
        agree(s, false, latest(s));
        weir__soft_open_rendezvous(&s->soft, cmd);
    }
    return true;
}

bool weir__npu_depart(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    agree(s, true, weir__npu_of(s)->sim.now);
    return weir__soft_depart(&s->soft, cmd);
}

/* Makes the stream sleep until `at`; false if that time has passed. */
static bool sleeps_until(struct weir__npu_stream *s, uint64_t at)
{
    struct weir__sim *sim = &weir__npu_of(s)->sim;

    if (at <= sim->now)
        return false;
    weir__sim_sleep(sim, &s->lane, at - sim->now);
    return true;
}

bool weir__npu_met(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    struct weir__sim *sim = &weir__npu_of(s)->sim;

    switch (s->soft.participant.state) {
    case WEIR__PARTICIPANT_RUNS:
        if (!sleeps_until(s, atomic_load(&s->meets_at)))
            weir__sim_set_off(sim, &s->lane, WEIR__SIM_NOBODY);
        return false;
    case WEIR__PARTICIPANT_REFUSED:
        weir__sim_drop(sim, &s->lane);
        break;
    default: /* every part has run */
        if (sleeps_until(s, atomic_load(&s->leaves_at)))
            return false;
    }
    weir__soft_meet_end(&s->soft, cmd);
    return true;
}
