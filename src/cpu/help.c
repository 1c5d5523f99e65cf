/* Host threads that work on what they wait for.
 *
 * A thread that waits for a few microseconds of work is better off doing it than handing it to
 * another and back, which takes longer even while a worker is awake, and the time to wake one
 * while all are asleep. So it borrows the device's one helper, with the tokens of streams
 * nobody has been shown yet, runs what is short, and shows the rest to the others: kernels that
 * gain from several cores, functions of the user's, collectives. It is back within some
 * HELP_NS, so that timeouts and signals are still noticed.
 */
#include "cpu/cpu.h"

enum { HELP_NS = 50000 }; /* about what waking a worker takes */

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

void weir__cpu_help(weir_device *dev)
{
    struct weir__cpu *cpu = (struct weir__cpu *)dev;
    struct weir__worker *w = &cpu->helper;
    struct weir__soft_stream *s;

    w->lent_until = weir__clock_ns() + HELP_NS;
    w->long_ops = 0;
    while ((s = weir__soft_take(&w->mine)))
        weir__worker_run(w, s, WEIR__WANTS_CORE);
    weir__worker_release_core(w);
    atomic_store_explicit(&cpu->lent_taken, false, memory_order_release);
    weir__cpu_wake(cpu);
}

/* Nobody who is more urgent is passed over, nor a gang that waits for cores. */
static bool take_if_next(struct weir__soft_device *soft, struct weir__soft_stream *s)
{
    struct weir__sched *sched = &soft->sched;
    uint32_t ready = atomic_load_explicit(&sched->ready, memory_order_relaxed);
    bool got;

    if (weir__runq_takes(soft, s) &&
        (!ready || (unsigned)__builtin_ctz(ready) >= weir__soft_priority(s)) &&
        weir__runq_take_first(soft, s))
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

void weir__cpu_help_with(struct weir__soft_stream *s)
{
    struct weir__cpu *cpu = (struct weir__cpu *)s->base.dev;

    if (!weir__cpu_has_work(cpu, memory_order_relaxed) || !borrow(cpu))
        return;
    if (!take_if_next(&cpu->soft, s)) {
        atomic_store_explicit(&cpu->lent_taken, false, memory_order_release);
        return;
    }
    weir__soft_append(&cpu->helper.mine, s);
    weir__cpu_help(&cpu->soft.base);
}

static bool is_for_lent(const struct weir__cmd *cmd)
{
    switch ((enum weir__cmd_kind)cmd->kind) {
    case WEIR__CMD_KERNEL:
        return !cmd->meets && !cmd->gang && cmd->engine != WEIR_ENGINE_HOST &&
               (uint64_t)cmd->work_ns * cmd->blocks * cmd->phases <= HELP_NS;
    case WEIR__CMD_CALLBACK:
        return false;
    default:
        return true;
    }
}

bool weir__worker_may_go_on(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd)
{
    if (is_for_lent(cmd) && weir__clock_ns() < w->lent_until)
        return true;
    weir__soft_publish(s, &w->mine);
    weir__worker_share(w);
    weir__worker_give_turn(w, s);
    return false;
}
