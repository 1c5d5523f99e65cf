/* Collectives on the soft devices.
 *
 * Proof that core grants cannot deadlock them on `cpu`. A collective passes through three states:
 *
 *   arriving   The rendezvous has the stream's token. The stream holds no core and blocks no
 *              thread. weir__soft_next_kind asks for no core, so a gang's closed door does not
 *              delay an arrival.
 *   running    All ranks have arrived. The part is now an operator like any other, a gang or not:
 *              it waits for cores of its own device only.
 *   departing  The part has run and has released its cores. The rendezvous has the token. A call
 *              in rounds runs its part again after all ranks have departed from the round; that
 *              wait is the same as arriving.
 *
 * So a stream that holds cores is running blocks, and blocks end because they wait for nothing. A
 * stream that waits for cores holds none. A gang that closes its door waits only for cores that
 * running blocks hold. No stream passes the door before the gang, so those cores become free and
 * the gang starts. By induction along the order (priority, arrival; every 64th pick the oldest)
 * each waiting part and gang gets its cores, whatever other devices do. So a rendezvous at which
 * all ranks have arrived completes. What remains are programs that deadlock by themselves, such as
 * two ranks that issue two groups' collectives in different orders on one stream each. The timeout
 * ends those.
 *
 * On some hardware a rank holds its cores while it waits for the others. A driver that models this
 * grants cores first and then calls weir__soft_arrive, and sets participant.wake to a function that
 * brings the stream back into the driver's own loop.
 */
#include "soft/soft.h"

#include <stdio.h>

static const struct weir__transport *transport_of(const struct weir__meet *meet)
{
    return meet->channel->group->transport;
}

static const struct weir__meet *meet_of(const struct weir__cmd *cmd)
{
    return (const struct weir__meet *)(const void *)cmd->args;
}

static uint64_t call_of(const struct weir__soft_stream *s, const struct weir__meet *meet)
{
    const struct weir__cmd *lane;
    const struct weir__lane_base *bases;

    if (!s->lane_left)
        return meet->call;
    lane = weir__soft_lane_cmd(s);
    bases = (const void *)lane->args;
    return ((const uint64_t *)(const void *)(bases + lane->blocks))[meet->place] + meet->call;
}

void weir__soft_wake_participant(struct weir__participant *participant)
{
    weir__soft_hand_back(weir__containerof(participant, struct weir__soft_stream, participant));
}

bool weir__soft_arrive(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    const struct weir__meet *meet = meet_of(cmd);

    weir__soft_begin_report(s, cmd);
    atomic_store_explicit(&s->rendezvous, true, memory_order_relaxed);
    return transport_of(meet)->arrive(&s->participant, meet, call_of(s, meet));
}

bool weir__soft_arrive_early(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    if (!cmd->is_collective || s->participant.state != WEIR__PARTICIPANT_AWAY ||
        weir__soft_has_failed(s) || !((const struct weir__soft_device *)s->base.dev)->meets_first)
        return false;
    if (!weir__soft_arrive(s, cmd))
        return true;
    /* Open now: the other ranks run their parts while this stream's worker wakes up. */
    if (s->participant.state == WEIR__PARTICIPANT_LAST &&
        (cmd->gang || weir__soft_parts_ns(cmd, meet_of(cmd)) > WEIR__ALL_PARTS_NS))
        weir__soft_open_rendezvous(s, cmd);
    return false;
}

/* A queued call holds a reference to its group; the calls of a plan use the plan's reference. The
 * group may be freed once the reference is dropped. */
static void end_call(struct weir__soft_stream *s, const struct weir__meet *meet)
{
    atomic_store_explicit(&s->rendezvous, false, memory_order_relaxed);
    s->participant.state = WEIR__PARTICIPANT_AWAY;
    s->participant.round = 0;
    if (!s->lane_left)
        weir__group_drop(meet->channel->group);
}

void weir__soft_miss(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    const struct weir__meet *meet = meet_of(cmd);
    weir_group *group = meet->channel->group;
    weir_stream *failed = weir__soft_error_stream(s);
    char where[140], text[sizeof group->reason], why[sizeof failed->error_text];
    weir_status status = weir__stream_copy_error(failed, why, sizeof why);

    weir__call_text(meet, call_of(s, meet), where, sizeof where);
    snprintf(text, sizeof text,
             "%s: rank %d does not take part, its stream '%s' is in error: %.140s", where,
             meet->rank, failed->name, why);
    group->transport->abort(group, status, text);
    end_call(s, meet);
}

/* Returns the error text of the part, copied to `text`, and sets *status; NULL if it has not
 * failed. */
static const char *part_error(struct weir__soft_stream *s, weir_status *status, char *text,
                              size_t size)
{
    *status = WEIR_OK;
    if (!weir__soft_has_failed(s))
        return NULL;
    *status = weir__stream_copy_error(weir__soft_error_stream(s), text, size);
    return text;
}

bool weir__soft_depart(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    char room[sizeof s->base.error_text];
    weir_status status;
    const char *text = part_error(s, &status, room, sizeof room);

    return transport_of(meet_of(cmd))->depart(&s->participant, status, text);
}

void weir__soft_open_rendezvous(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    transport_of(meet_of(cmd))->open_rendezvous(&s->participant);
}

/* Completes the collective at the head of `s`; the caller has the token. If the next command is a
 * collective too, the stream arrives there at once, without a worker of its own device. So a chain
 * of collectives runs without waking any worker. */
static void bring_on(struct weir__soft_stream *s)
{
    struct weir__soft_list woken = {NULL, &woken.first, 0};
    const struct weir__cmd *cmd = weir__soft_next(s);
    weir_device *dev = s->base.dev;

    atomic_fetch_add(&dev->visitors, 1); /* keeps dev open: the next call may free the group */
    weir__soft_meet_end(s, cmd);
    weir__soft_consume(s, cmd);
    weir__soft_publish(s, &woken);
    for (struct weir__soft_stream *waiter = woken.first, *next; waiter; waiter = next) {
        next = waiter->local_next;
        weir__soft_hand_back(waiter);
    }
    while (!(cmd = weir__soft_next(s)))
        if (weir__soft_surrender(s))
            break;
    if (cmd && !weir__soft_arrive_early(s, cmd))
        weir__soft_hand_back(s);
    atomic_fetch_sub(&dev->visitors, 1);
}

void weir__soft_close_rendezvous(struct weir__soft_stream *s, const struct weir__cmd *cmd, int rank)
{
    char room[sizeof s->base.error_text];
    weir_status status;
    const char *text = part_error(s, &status, room, sizeof room);
    struct weir__participant *participant, *next;

    participant = transport_of(meet_of(cmd))->close_rendezvous(&s->participant, rank, status, text);
    for (; participant; participant = next) {
        next = participant->woken;
        bring_on(weir__containerof(participant, struct weir__soft_stream, participant));
    }
}

struct weir__soft_stream *weir__soft_peer(const struct weir__soft_stream *s, int rank)
{
    return weir__containerof(s->participant.in->participants[rank], struct weir__soft_stream,
                             participant);
}

const struct weir__cmd *weir__soft_peer_cmd(const struct weir__soft_stream *s, int rank)
{
    return weir__containerof(s->participant.in->args[rank], const struct weir__cmd, args);
}

void weir__soft_meet_end(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    const struct weir__meet *meet = meet_of(cmd);
    const weir_group *group = meet->channel->group;

    if (s->participant.state == WEIR__PARTICIPANT_REFUSED || s->participant.failed) {
        char text[sizeof s->base.error_text];

        snprintf(text, sizeof text, "collective '%.28s' failed on stream '%s': %s", cmd->name,
                 s->base.name, group->reason);
        weir__soft_fail(s, group->status, text);
    }
    s->participant.failed = false;
    weir__soft_end_report(s);
    end_call(s, meet);
}
