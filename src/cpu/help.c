/* Host threads that execute the work they wait for.
 *
 * Handing a few microseconds of work to a worker and waiting for it takes longer than doing it,
 * even if the worker is awake. So a host thread that waits borrows cpu->helper, a worker without a
 * thread, and runs short commands with it. Invariant: helper_taken is true while a thread has the
 * helper; only that thread touches it.
 *
 * The helper takes streams that no worker has seen (weir__cpu_hold) or that are the next to be
 * picked (weir__cpu_help_with). While a host thread runs all that it waits for, workers do not take
 * its streams (leaves_to_host in rest.c). The helper does not run commands that workers run better:
 * kernels that gain from several cores, callbacks and most collectives. It does run short
 * collectives between processes: the peers often arrive soon, and the transport polls for a short
 * time. The helper returns after about HELP_NS, so that the host thread still notices timeouts and
 * signals. On a device with a single worker, that worker would be no faster than the helper, so the
 * helper returns, and the worker is woken, only after ALONE_NS.
 */
#include "cpu/cpu.h"

enum {
    HELP_NS = 50000,           /* about as long as waking a worker takes */
    ALONE_NS = 10000000,       /* the same limit on devices with one worker */
    ALONE_KERNEL_NS = 2000000, /* and there the longest kernel */
    /* The longest part of a collective for a thread that need not wait: about the time to hand it
     * to an awake worker. */
    PART_NS = 8000,
    /* The same for a thread that waits: about the time to wake a worker and then the thread. */
    LONG_PART_NS = 100000,
    COMMANDS_PER_LOOK = 16, /* reading the clock takes longer than a short command */
};

static bool borrow(struct weir__cpu *cpu)
{
    return !atomic_load_explicit(&cpu->helper_taken, memory_order_relaxed) &&
           !atomic_exchange_explicit(&cpu->helper_taken, true, memory_order_acquire);
}

bool weir__cpu_hold(weir_device *dev, bool on)
{
    struct weir__cpu *cpu = (struct weir__cpu *)dev;
    bool held = on && borrow(cpu);

    cpu->soft.held = held ? &cpu->helper.mine : NULL;
    return held;
}

/* Runs the helper's streams, and the streams that they make ready. */
static void run_helped(struct weir__worker *w)
{
    struct weir__soft_stream *s;

    while ((s = weir__soft_take(&w->mine)))
        weir__worker_run(w, s, WEIR__WANTS_CORE);
}

static void begin_help(struct weir__worker *w, uint32_t part_ns)
{
    weir__cpu_host_acts(w->cpu);
    w->part_ns = part_ns;
    w->help_until = 0;
    w->commands = 0;
    w->long_ops = 0;
    w->nwanted = 0;
}

static void end_help(struct weir__cpu *cpu)
{
    weir__worker_release_core(&cpu->helper);
    atomic_store_explicit(&cpu->helper_taken, false, memory_order_release);
    weir__cpu_wake(cpu);
}

void weir__cpu_help(weir_device *dev)
{
    struct weir__cpu *cpu = (struct weir__cpu *)dev;

    begin_help(&cpu->helper, PART_NS);
    run_helped(&cpu->helper);
    end_help(cpu);
}

/* A check without locks. False means that the stream is certainly not waiting to be picked. */
static bool may_be_next(const struct weir__soft_device *soft, const struct weir__soft_stream *s)
{
    uint32_t home = atomic_load_explicit(&s->home, memory_order_relaxed);

    return (soft->runqs && weir__runq_has(&soft->runqs[home])) ||
           atomic_load_explicit(&soft->sched.ready, memory_order_relaxed);
}

/* Takes the stream out of its run queue or the scheduler, unless that would overtake a more urgent
 * stream or a gang that waits for cores. */
static bool take_if_next(struct weir__soft_device *soft, struct weir__soft_stream *s)
{
    struct weir__sched *sched = &soft->sched;
    uint32_t ready = atomic_load_explicit(&sched->ready, memory_order_relaxed);
    bool got;

    if (weir__runq_takes(soft, s) &&
        (!ready || (unsigned)__builtin_ctz(ready) >= weir__soft_priority(s)) &&
        weir__runq_take_out(soft, s))
        return true;
    if (!ready)
        return false;
    weir__spin_lock(&sched->lock);
    got = s->entry.want == WEIR__WANTS_CORE && !sched->gangs &&
          (unsigned)__builtin_ctz(sched->ready) == weir__soft_priority(s);
    if (got)
        weir__sched_remove(sched, s);
    weir__spin_unlock(&sched->lock);
    return got;
}

static void want(struct weir__worker *w, struct weir__soft_stream *s)
{
    if (w->nwanted < WEIR__MOST_WANTED)
        w->wanted[w->nwanted++] = s;
}

/* A join has one wait for each stream that it joins. If the helper runs all of them, the joining
 * stream parks only once. */
void weir__helper_want(struct weir__worker *w, const struct weir__soft_stream *s,
                       struct weir__soft_stream *source)
{
    const struct weir__cmd *cmd = (const struct weir__cmd *)(s->head->bytes + s->head_at);
    uint64_t n = s->known - s->consumed; /* commands that this thread may look at */

    if (s->lane_left || source->base.dev != s->base.dev) {
        if (source->base.dev == s->base.dev)
            want(w, source);
        return;
    }
    for (; n && cmd->kind == WEIR__CMD_WAIT; n--) {
        source = cmd->u.source;
        if (source->base.dev == s->base.dev &&
            atomic_load_explicit(&source->completed, memory_order_relaxed) < cmd->v.seq)
            want(w, source);
        cmd = (const struct weir__cmd *)((const unsigned char *)cmd + cmd->size);
    }
}

/* Takes those of the wanted streams that are the next to be picked. */
static void take_wanted(struct weir__worker *w)
{
    for (uint32_t i = 0; i < w->nwanted; i++)
        if (take_if_next(&w->cpu->soft, w->wanted[i]))
            weir__soft_append(&w->mine, w->wanted[i]);
    w->nwanted = 0;
}

/* If `s` parks at a wait, the helper then runs the streams that `s` waits for. */
void weir__cpu_help_with(struct weir__soft_stream *s, uint64_t seq)
{
    struct weir__cpu *cpu = (struct weir__cpu *)s->base.dev;
    struct weir__worker *w = &cpu->helper;

    if (!may_be_next(&cpu->soft, s) || !borrow(cpu))
        return;
    begin_help(w, LONG_PART_NS);
    want(w, s);
    for (;;) {
        take_wanted(w);
        if (!w->mine.first)
            break;
        run_helped(w);
    }
    if (weir__soft_done(&s->base) >= seq) {
        uint32_t helped = atomic_load_explicit(&cpu->helped, memory_order_relaxed);

        atomic_store_explicit(&cpu->helped, helped + 1, memory_order_relaxed);
    }
    end_help(cpu);
}

static bool is_between_processes(const struct weir__cmd *cmd)
{
    const struct weir__meet *meet = (const void *)cmd->args;

    return meet->channel->group->procs;
}

/* Returns the longest kernel, in ns, that the helper should run. If workers must be woken anyway,
 * for other streams, they run all but short kernels: then the host thread leaves them its CPU. */
static uint64_t longest(const struct weir__worker *w, const struct weir__cmd *cmd)
{
    if (cmd->is_collective)
        return w->part_ns;
    if (w->mine.first || weir__cpu_has_work(w->cpu, memory_order_relaxed))
        return WEIR__SHORT_NS;
    return w->cpu->nworkers == 1 ? ALONE_KERNEL_NS : HELP_NS;
}

static bool suits_helper(const struct weir__worker *w, const struct weir__cmd *cmd)
{
    uint64_t ns;

    switch ((enum weir__cmd_kind)cmd->kind) {
    case WEIR__CMD_KERNEL:
        ns = (uint64_t)cmd->work_ns * cmd->blocks * cmd->phases;
        return (!cmd->is_collective || is_between_processes(cmd)) && !cmd->gang &&
               cmd->engine != WEIR_ENGINE_HOST && (ns <= WEIR__SHORT_NS || ns <= longest(w, cmd));
    case WEIR__CMD_CALLBACK:
        return false;
    default:
        return true;
    }
}

/* True if the helper has time left. Its time starts when the clock is first read here. */
static bool has_time(struct weir__worker *w, const struct weir__cmd *cmd)
{
    uint64_t now;

    if (w->commands < COMMANDS_PER_LOOK && cmd->work_ns <= HELP_NS)
        return true;
    w->commands = 0;
    now = weir__clock_ns();
    if (!w->help_until)
        w->help_until = now + (w->cpu->nworkers == 1 ? ALONE_NS : HELP_NS);
    return now < w->help_until;
}

bool weir__worker_may_go_on(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd)
{
    if (suits_helper(w, cmd) && has_time(w, cmd))
        return true;
    weir__soft_publish(s, &w->mine);
    weir__worker_share(w);
    weir__worker_give_turn(w, s);
    return false;
}
