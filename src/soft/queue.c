/* The command queue, and how its token moves (soft.h has the protocol). */
#include "device/relay.h"
#include "soft/soft.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = sizeof(struct weir__chunk), PREFETCH_BYTES = 512 };

/* Room that always remains for the jump to the next chunk. */
#define JUMP_SIZE ((uint32_t)sizeof(struct weir__cmd))

_Static_assert(sizeof(struct weir__cmd) % 16 == 0, "commands stay aligned");
_Static_assert(sizeof(struct weir__cmd) + WEIR_ARGS_MAX + JUMP_SIZE < CHUNK_BYTES, "one fits");

weir_status weir__soft_stream_open(weir_stream *base)
{
    const struct weir__soft_device *dev = (const struct weir__soft_device *)base->dev;
    struct weir__soft_stream *s = weir__soft(base);

    s->tail = weir__alloc_aligned(sizeof *s->tail, WEIR__LINE);
    if (!s->tail)
        return weir__fail_nomem("making the queue of a stream on %s", base->dev->props.name);
    s->head = s->tail;
    if (dev->nrunqs)
        atomic_store_explicit(&s->home, base->slot % dev->nrunqs, memory_order_relaxed);
    s->participant.wake = weir__soft_wake_participant;
    return WEIR_OK;
}

void weir__soft_stream_close(weir_stream *base)
{
    struct weir__soft_stream *s = weir__soft(base);

    /* The queue has no commands left, but its last entry may be a jump to an empty chunk. */
    while (s->head != s->tail) {
        const struct weir__cmd *jump = (const struct weir__cmd *)(s->head->bytes + s->head_at);
        struct weir__chunk *done = s->head;

        s->head = jump->u.chunk;
        s->head_at = 0;
        weir__free(done);
    }
    weir__free(s->head);
    weir__free(atomic_load(&s->spare));
}

/* ---- adding: under the device lock ---- */

uint32_t weir__soft_command_size(size_t args_size)
{
    return (uint32_t)((sizeof(struct weir__cmd) + args_size + 15) / 16 * 16);
}

weir_status weir__soft_make_room(struct weir__soft_stream *s, uint32_t size)
{
    struct weir__chunk *chunk;
    struct weir__cmd *jump;

    if (weir__likely(s->tail_at + size + JUMP_SIZE <= CHUNK_BYTES))
        return WEIR_OK;
    chunk = atomic_exchange(&s->spare, NULL);
    if (!chunk && !(chunk = weir__alloc_aligned(sizeof *chunk, WEIR__LINE)))
        return weir__fail_nomem("growing the queue of stream '%s'", s->base.name);
    jump = (struct weir__cmd *)(s->tail->bytes + s->tail_at);
    jump->kind = WEIR__CMD_JUMP;
    jump->u.chunk = chunk;
    s->tail = chunk;
    s->tail_at = 0;
    return WEIR_OK;
}

/* Prefetches the cache line at `p` for writing. (The compiler's builtin prefetches for reading if
 * it may not assume the instruction, which every x86-64 accepts.) */
static inline void will_write(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

static struct weir__cmd *reserve(struct weir__soft_stream *s, enum weir__cmd_kind kind,
                                 size_t args_size)
{
    uint32_t size = weir__soft_command_size(args_size);
    struct weir__cmd *cmd;

    if (weir__soft_make_room(s, size))
        return NULL;
    cmd = (struct weir__cmd *)(s->tail->bytes + s->tail_at);
    /* The next lines are in a worker's cache, which has read them last: fetch them early. */
    will_write((unsigned char *)cmd + PREFETCH_BYTES);
    cmd->kind = (uint8_t)kind;
    cmd->engine = WEIR_ENGINE_HOST;
    cmd->is_collective = cmd->recorded = false;
    cmd->size = size;
    return cmd;
}

void weir__soft_append(struct weir__soft_list *list, struct weir__soft_stream *s)
{
    s->local_next = NULL;
    *list->end = s;
    list->end = &s->local_next;
    list->count++;
}

struct weir__soft_stream *weir__soft_take(struct weir__soft_list *list)
{
    struct weir__soft_stream *s = list->first;

    if (!s)
        return NULL;
    if (!(list->first = s->local_next))
        list->end = &list->first;
    list->count--;
    return s;
}

/* True if the command may take longer than a worker's pause; then workers should look at once. For
 * short commands pauses pay off: the host gets ahead, and adding to a stream that has commands
 * costs the host a fifth of adding to an empty stream. */
static bool may_be_long(const struct weir__cmd *cmd)
{
    return cmd->kind == WEIR__CMD_KERNEL
               ? (uint64_t)cmd->work_ns * cmd->blocks > WEIR__MOST_PAUSE_NS
               : cmd->kind != WEIR__CMD_WAIT && cmd->kind != WEIR__CMD_STAMP;
}

/* True if workers of other devices, or other processes, may be waiting for this collective. A
 * collective whose last rank runs all parts may wait for the end of a worker's pause like any short
 * command: a host thread that waits for it hurries all devices of the group (cpu_sync). */
static bool keeps_others_waiting(const struct weir__cmd *cmd)
{
    const struct weir__meet *meet = (const void *)cmd->args;

    return cmd->kind != WEIR__CMD_KERNEL || meet->channel->group->procs || cmd->gang ||
           weir__soft_parts_ns(cmd, meet) > WEIR__ALL_PARTS_NS;
}

static void added(struct weir__soft_stream *s, const struct weir__cmd *cmd, uint32_t count)
{
    struct weir__soft_device *dev = (struct weir__soft_device *)s->base.dev;
    struct weir__soft_list *held = dev->held;
    struct weir__sched *sched = &dev->sched;
    enum weir__core_kind kind;

    s->tail_at += cmd->size;
    if (atomic_fetch_add(&s->pending, count)) {
        /* The worker that holds the token may be in a pause. */
        if (weir__unlikely(cmd->is_collective) && keeps_others_waiting(cmd))
            weir__soft_hurry(dev);
        return;
    }
    if (weir__unlikely(cmd->is_collective)) {
        if (weir__soft_arrive_early(s, weir__soft_next(s)))
            return;
    }
    if (weir__unlikely(held)) {
        weir__soft_append(held, s);
        return;
    }
    if (weir__unlikely(cmd->is_collective) ? keeps_others_waiting(cmd) : may_be_long(cmd))
        weir__soft_hurry(dev);
    if (weir__runq_offer(dev, s))
        return;
    kind = weir__unlikely(cmd->is_collective) ? weir__soft_next_kind(s)
                                              : weir__sched_kind(sched, cmd->engine);
    weir__spin_lock(&sched->lock);
    weir__sched_add(sched, s, WEIR__WANTS_CORE, kind);
    weir__spin_unlock(&sched->lock);
}

void weir__soft_fill(struct weir__cmd *cmd, const struct weir__kernel *k)
{
    cmd->engine = (uint8_t)k->engine;
    cmd->phases = (uint8_t)k->phases;
    cmd->gang = k->gang;
    cmd->blocks = k->blocks;
    cmd->cores = k->cores < k->blocks ? k->cores : k->blocks;
    cmd->work_ns = k->work_ns;
    cmd->untimed = k->never_timeout;
    cmd->own_cores = k->own_cores;
    cmd->scope = k->scope;
    cmd->is_collective = k->is_collective;
    cmd->name = k->name;
    cmd->u.fn = k->fn;
    cmd->how = (uint8_t)((k->block_us > 0 ? WEIR__LOAD_TIMED : 0) |
                         (k->together ? WEIR__LOAD_TOGETHER : 0));
    cmd->v.load = (struct weir__cmd_load){k->block_us > 0 ? k->block_us : k->flops, k->bytes};
    if (k->args_size)
        memcpy(cmd->args, k->args, k->args_size);
}

weir_status weir__soft_submit(weir_stream *base, const struct weir__kernel *k)
{
    struct weir__soft_stream *s = weir__soft(base);
    struct weir__cmd *cmd = reserve(s, WEIR__CMD_KERNEL, k->args_size);

    if (!cmd)
        return WEIR_ENOMEM;
    weir__soft_fill(cmd, k);
    added(s, cmd, 1);
    return WEIR_OK;
}

weir_status weir__soft_wait(weir_stream *base, struct weir__mark mark, enum weir__wait how)
{
    struct weir__soft_stream *s = weir__soft(base);
    struct weir__cmd *cmd = reserve(s, WEIR__CMD_WAIT, 0);

    if (!cmd)
        return WEIR_ENOMEM;
    cmd->u.source = weir__soft(mark.stream);
    cmd->v.seq = mark.seq;
    cmd->how = (uint8_t)how;
    added(s, cmd, 1);
    return WEIR_OK;
}

void weir__soft_add_lane(struct weir__soft_stream *s, const struct weir__soft_lane *lane,
                         const struct weir__lane_base *bases, int nbases, const uint64_t *tickets,
                         int ntickets)
{
    const struct weir__cmd *first = (const struct weir__cmd *)lane->commands;
    size_t size = (size_t)nbases * sizeof *bases, more = (size_t)ntickets * sizeof *tickets;
    struct weir__cmd *cmd = reserve(s, WEIR__CMD_LANE, size + more);

    cmd->u.lane = lane;
    cmd->blocks = (uint32_t)nbases;
    memcpy(cmd->args, bases, size);
    if (more)
        memcpy(cmd->args + size, tickets, more);
    cmd->engine = first->engine;
    cmd->is_collective = first->is_collective;
    added(s, cmd, lane->nitems);
}

weir_status weir__soft_callback(weir_stream *base, weir_callback_fn fn, void *user)
{
    struct weir__soft_stream *s = weir__soft(base);
    struct weir__cmd *cmd = reserve(s, WEIR__CMD_CALLBACK, 0);

    if (!cmd)
        return WEIR_ENOMEM;
    cmd->u.callback = fn;
    cmd->v.user = user;
    added(s, cmd, 1);
    return WEIR_OK;
}

static weir_status signal_relay(weir_stream *s, struct weir__relay *relay)
{
    return weir__soft_callback(s, weir__relay_signal, relay);
}

static weir_status wait_relay(weir_stream *base, struct weir__relay *relay)
{
    struct weir__soft_stream *s = weir__soft(base);
    struct weir__cmd *cmd = reserve(s, WEIR__CMD_RELAY, 0);

    if (!cmd)
        return WEIR_ENOMEM;
    cmd->u.relay = relay;
    added(s, cmd, 1);
    return WEIR_OK;
}

const struct weir__driver_cross weir__soft_cross = {
    .signal_relay = signal_relay,
    .wait_relay = wait_relay,
};

weir_status weir__soft_stamp(weir_stream *base, _Atomic uint64_t *ns)
{
    struct weir__soft_stream *s = weir__soft(base);
    struct weir__cmd *cmd = reserve(s, WEIR__CMD_STAMP, 0);

    if (!cmd)
        return WEIR_ENOMEM;
    cmd->u.ns = ns;
    added(s, cmd, 1);
    return WEIR_OK;
}

uint64_t weir__soft_done(weir_stream *base)
{
    const struct weir__soft_stream *s = (const struct weir__soft_stream *)base;

    return atomic_load_explicit(&s->completed, memory_order_acquire);
}

/* ---- consuming: the token's holder ---- */

static struct weir__cmd *next_chunk(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    struct weir__chunk *done = s->head;

    s->head = cmd->u.chunk;
    s->head_at = 0;
    weir__free(atomic_exchange(&s->spare, done));
    return (struct weir__cmd *)s->head->bytes;
}

struct weir__cmd *weir__soft_follow(struct weir__soft_stream *s, struct weir__cmd *cmd)
{
    if (cmd->kind == WEIR__CMD_JUMP)
        cmd = next_chunk(s, cmd);
    if (cmd->kind != WEIR__CMD_LANE)
        return cmd;
    if (!s->lane_left) {
        s->lane_left = cmd->u.lane->nitems;
        s->lane_at = 0;
    }
    return (struct weir__cmd *)(cmd->u.lane->commands + s->lane_at);
}

void weir__soft_consume_items(struct weir__soft_stream *s, uint32_t n, uint32_t size)
{
    s->lane_at += size;
    s->lane_left -= n;
    if (!s->lane_left)
        s->head_at += weir__soft_lane_cmd(s)->size;
    s->consumed += n;
    s->over += n;
}

enum weir__core_kind weir__soft_next_kind(struct weir__soft_stream *s)
{
    const struct weir__cmd *cmd = weir__soft_next(s);

    /* Arriving and departing take no core. */
    if (!cmd || (cmd->is_collective && !weir__soft_may_run_part(s)))
        return WEIR__CORE_NONE;
    return weir__sched_kind(weir__soft_sched(s), cmd->engine);
}

unsigned weir__soft_cores(const struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    unsigned cores;

    if (cmd->gang || cmd->own_cores || cmd->blocks == 1)
        return cmd->cores;
    cores = weir__stream_cores(&s->base, cmd->engine, (weir_cores){0, 0});
    return cores < cmd->blocks ? cores : cmd->blocks;
}

void weir__soft_pass_wait(struct weir__soft_stream *s, struct weir__soft_stream *source,
                          uint64_t seq, enum weir__wait how)
{
    if (weir__unlikely(atomic_load_explicit(&source->base.failed_at, memory_order_acquire) <= seq &&
                       how != WEIR__WAIT_ORDER))
        weir__stream_fail_like(&s->base, s->over + 1, &source->base);
    if (weir__unlikely(source->base.dev != s->base.dev)) /* `source` may be freed after this */
        atomic_fetch_sub(&source->base.dev->visitors, 1);
}

void weir__soft_block_failed(struct weir__soft_stream *s, const struct weir__cmd *cmd,
                             weir_status status)
{
    struct weir__run *run = &s->run;
    const char *sentence = weir__said();

    weir__hush(); /* the next command's error must not contain this one's */
    if (atomic_exchange(&run->failed, 1))
        return;
    run->status = status;
    snprintf(run->text, sizeof run->text, "operator '%s' failed on stream '%s': %s", cmd->name,
             s->base.name, sentence ? sentence : weir_status_text(status));
}

/* A plan's run fails as a whole: the stream it was called on is in error from the run's first
 * command. */
void weir__soft_fail(struct weir__soft_stream *s, weir_status status, const char *text)
{
    weir_stream *blamed = weir__soft_error_stream(s);
    const void *bases = weir__soft_lane_cmd(s)->args;

    weir__stream_fail(
        blamed, blamed == &s->base ? s->over + 1 : ((const struct weir__lane_base *)bases)->seq + 1,
        status, text);
}

void weir__soft_settle_failure(struct weir__soft_stream *s)
{
    if (weir__likely(!atomic_load_explicit(&s->run.failed, memory_order_acquire)))
        return;
    weir__soft_fail(s, s->run.status, s->run.text);
    atomic_store_explicit(&s->run.failed, 0, memory_order_relaxed);
}

bool weir__soft_surrender(struct weir__soft_stream *s)
{
    uint64_t consumed = s->consumed;

    /* Reset first: after the subtraction another thread may hold the token. */
    s->known = s->consumed = 0;
    if (atomic_fetch_sub(&s->pending, consumed) == consumed)
        return true;
    return false;
}
