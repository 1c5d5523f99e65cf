/* Executes commands of all kinds, for every soft device.
 *
 * A device's hooks run its kernels and read its clock. The hooks are a constant in the file that
 * calls weir__soft_execute, and the function is inlined there. So the compiler calls hooks directly
 * and removes those that are NULL.
 *
 * The caller holds the stream's token (soft.h). A hook that returns false has given the token away:
 * to the scheduler, a waiter list, a rendezvous, or another owner that wakes the stream
 * later. */
#ifndef WEIR_SOFT_EXECUTE_H
#define WEIR_SOFT_EXECUTE_H

#include "soft/soft.h"

struct weir__soft_hooks {
    /* Runs the kernel at the head; its stream is not in error. */
    bool (*kernel)(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd);
    /* Runs the collective at the head; its stream is not in error, or has arrived already. NULL if
     * the device runs no collectives. */
    bool (*collective)(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd);
    bool (*callback)(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd);
    /* Called when the queue is empty; returns false if it has given up the token. */
    bool (*empty)(void *self, struct weir__soft_stream *s);
    /* Returns the device's time in nanoseconds, for stamps. */
    uint64_t (*now)(const void *self);
    /* Returns the list to which woken streams and their tokens are appended. */
    struct weir__soft_list *(*woken)(void *self);
    /* Optional: called before the command, after it has run, and after it is consumed. */
    bool (*before)(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd);
    bool (*after)(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd);
    void (*consumed)(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd);
    /* Optional: called when the wait at the head is satisfied. Returns false if passing the wait
     * takes (virtual) time. */
    bool (*pass)(void *self, struct weir__soft_stream *s, const struct weir__soft_stream *source);
    /* Optional: called before the stream is parked until `source` has progressed. */
    void (*parks)(void *self, const struct weir__soft_stream *s, struct weir__soft_stream *source);
    /* Both or neither: called while a trace is recorded, when a wait is reached and when it
     * ends. */
    void (*trace_reached)(void *self, struct weir__soft_stream *s);
    void (*trace_wait)(void *self, struct weir__soft_stream *s,
                       const struct weir__soft_stream *source, uint64_t seq);
};

#define WEIR__SOFT_INLINE static inline __attribute__((always_inline))

/* Executes the wait at the head for command `seq` of `source`. */
WEIR__SOFT_INLINE bool weir__soft_run_wait(const struct weir__soft_hooks *hooks, void *self,
                                           struct weir__soft_stream *s,
                                           struct weir__soft_stream *source, uint64_t seq,
                                           enum weir__wait how)
{
    if (hooks->trace_reached && weir__trace_on())
        hooks->trace_reached(self, s);
    if (atomic_load_explicit(&source->completed, memory_order_acquire) < seq) {
        atomic_store_explicit(&s->waits_seq, seq, memory_order_relaxed);
        atomic_store_explicit(&s->waits_for, source, memory_order_relaxed);
        weir__soft_publish(s, hooks->woken(self));
        if (hooks->parks)
            hooks->parks(self, s, source);
        if (weir__soft_park(s, source, seq))
            return false;
    }
    atomic_store_explicit(&s->waits_for, NULL, memory_order_relaxed);
    if (hooks->pass && !hooks->pass(self, s, source))
        return false;
    if (hooks->trace_wait && weir__trace_on())
        hooks->trace_wait(self, s, source, seq);
    weir__soft_pass_wait(s, source, seq, how);
    return true;
}

/* Executes the command at the head. True if it has completed. */
WEIR__SOFT_INLINE bool weir__soft_run_head(const struct weir__soft_hooks *hooks, void *self,
                                           struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    switch ((enum weir__cmd_kind)cmd->kind) {
    case WEIR__CMD_KERNEL:
        if (hooks->collective && weir__unlikely(cmd->is_collective)) {
            if (s->participant.state != WEIR__PARTICIPANT_AWAY || !weir__soft_has_failed(s))
                return hooks->collective(self, s, cmd);
            weir__soft_miss(s, cmd);
            return true;
        }
        return weir__soft_has_failed(s) || hooks->kernel(self, s, cmd);
    case WEIR__CMD_WAIT:
        return weir__soft_run_wait(hooks, self, s, cmd->u.source, cmd->v.seq, cmd->how);
    case WEIR__CMD_LANE_WAIT: {
        const struct weir__lane_base *base = weir__soft_lane_base(s, cmd);

        return weir__soft_run_wait(hooks, self, s, base->stream, base->seq + cmd->v.seq,
                                   WEIR__WAIT_ORDER);
    }
    case WEIR__CMD_CALLBACK:
        return hooks->callback(self, s, cmd);
    case WEIR__CMD_RELAY:
        weir__soft_publish(s, hooks->woken(self));
        return weir__soft_pass_relay(s, cmd->u.relay);
    case WEIR__CMD_STAMP:
        atomic_store_explicit(cmd->u.ns, hooks->now(self), memory_order_release);
        return true;
    case WEIR__CMD_JUMP:
    case WEIR__CMD_LANE:
        break; /* weir__soft_next follows those */
    }
    return true;
}

/* Runs commands of `s` until its token is given away. `self` is passed to the hooks. */
WEIR__SOFT_INLINE void weir__soft_execute(const struct weir__soft_hooks *hooks, void *self,
                                          struct weir__soft_stream *s)
{
    for (;;) {
        const struct weir__cmd *cmd = weir__soft_next(s);

        if (!cmd) {
            if (!hooks->empty(self, s))
                return;
            continue;
        }
        if ((hooks->before && !hooks->before(self, s, cmd)) ||
            !weir__soft_run_head(hooks, self, s, cmd) ||
            (hooks->after && !hooks->after(self, s, cmd)))
            return;
        weir__soft_consume(s, cmd);
        if (hooks->consumed)
            hooks->consumed(self, s, cmd);
    }
}

#endif
