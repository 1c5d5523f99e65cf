/* Host threads that work on what they wait for.
 *
 * A thread that waits for a few microseconds of work is better off doing it than handing it to
 * another and back, which takes longer even while a worker is awake, and the time to wake one
 * while all are asleep. So it borrows the device's one helper, with the tokens of streams
 * nobody has been shown yet, runs what is short, and shows the rest to the others: kernels that
 * gain from several cores, functions of the user's, collectives. It is back within some
 * HELP_NS, so that timeouts and signals are still noticed. A short collective between processes is
 * such work as well, for the thread that calls it too: peers are often about to come, and the
 * transport waits awake for a little while.
 */
#include "cpu/cpu.h"

enum {
    HELP_NS = 50000,        /* about what waking a worker takes */
    PART_NS = 8000,         /* the same for one that is awake; of a thread that may not wait */
    LONG_PART_NS = 100000,  /* waking one, and it the thread: of one that waits */
    COMMANDS_PER_LOOK = 16, /* at the clock, which takes longer than a short command */
};

static bool borrow(struct weir__cpu *cpu)
{
    return !atomic_load_explicit(&cpu->lent_taken, memory_order_relaxed) &&
           !atomic_exchange_explicit(&cpu->lent_taken, true, memory_order_acquire);
}

bool weir__cpu_hold(weir_device *dev, bool on)
{
    struct weir__cpu *cpu = (struct weir__cpu *)dev;
    bool held = on && borrow(cpu);

    cpu->soft.held = held ? &cpu->helper.mine : NULL;
    return held;
}

/* Runs the streams that the helper has, and those that they wake. */
static void run_lent(struct weir__worker *w)
{
    struct weir__soft_stream *s;

    while ((s = weir__soft_take(&w->mine)))
        weir__worker_run(w, s, WEIR__WANTS_CORE);
}

static void begin_help(struct weir__worker *w, uint32_t part_ns)
{
    w->part_ns = part_ns;
    w->lent_until = 0;
    w->commands = 0;
    w->long_ops = 0;
    w->parked_for = NULL;
}

static void end_help(struct weir__cpu *cpu)
{
    weir__worker_release_core(&cpu->helper);
    atomic_store_explicit(&cpu->lent_taken, false, memory_order_release);
    weir__cpu_wake(cpu);
}

void weir__cpu_help(weir_device *dev)
{
    struct weir__cpu *cpu = (struct weir__cpu *)dev;

    begin_help(&cpu->helper, PART_NS);
    run_lent(&cpu->helper);
    end_help(cpu);
}

/* Nobody who is more urgent is passed over, nor a gang that waits for cores. */
static bool may_be_next(const struct weir__soft_device *soft, const struct weir__soft_stream *s)
{
    uint32_t home = atomic_load_explicit(&s->home, memory_order_relaxed);

    return (soft->runqs && weir__runq_has(&soft->runqs[home])) ||
           atomic_load_explicit(&soft->sched.ready, memory_order_relaxed);
}

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

/* What the stream waits for comes next, if nobody has begun it: the thread needs that first. */
void weir__cpu_help_with(struct weir__soft_stream *s)
{
    struct weir__cpu *cpu = (struct weir__cpu *)s->base.dev;
    struct weir__worker *w = &cpu->helper;

    if (!may_be_next(&cpu->soft, s) || !borrow(cpu))
        return;
    begin_help(w, LONG_PART_NS);
    while (s && take_if_next(&cpu->soft, s)) {
        weir__soft_append(&w->mine, s);
        run_lent(w);
        s = w->parked_for;
        w->parked_for = NULL;
    }
    end_help(cpu);
}

static bool is_between_processes(const struct weir__cmd *cmd)
{
    const struct weir__meet *meet = (const void *)cmd->args;

    return meet->channel->group->procs;
}

static bool is_for_lent(const struct weir__worker *w, const struct weir__cmd *cmd)
{
    switch ((enum weir__cmd_kind)cmd->kind) {
    case WEIR__CMD_KERNEL:
        return (!cmd->meets || is_between_processes(cmd)) && !cmd->gang &&
               cmd->engine != WEIR_ENGINE_HOST &&
               (uint64_t)cmd->work_ns * cmd->blocks * cmd->phases <=
                   (cmd->meets ? w->part_ns : HELP_NS);
    case WEIR__CMD_CALLBACK:
        return false;
    default:
        return true;
    }
}

/* The time begins with the first look. */
static bool has_time(struct weir__worker *w)
{
    uint64_t now;

    if (w->commands < COMMANDS_PER_LOOK)
        return true;
    w->commands = 0;
    now = weir__clock_ns();
    if (!w->lent_until)
        w->lent_until = now + HELP_NS;
    return now < w->lent_until;
}

bool weir__worker_may_go_on(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd)
{
    if (is_for_lent(w, cmd) && has_time(w))
        return true;
    weir__soft_publish(s, &w->mine);
    weir__worker_share(w);
    weir__worker_give_turn(w, s);
    return false;
}
