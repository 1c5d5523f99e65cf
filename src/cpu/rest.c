/* When workers look for work, sleep and wake.
 *
 * A worker is attentive while it looks for work or runs short commands: it gets to
 * whatever is in the scheduler within microseconds, so nobody needs to be woken for
 * that. Before it starts something long it ceases to be, and then looks whether
 * somebody must be. Whoever adds to the scheduler looks for an attentive worker
 * after that, so one of the two sees the other.
 */
#include "cpu/cpu.h"

enum {
    MAX_PATIENCE = 64, /* pauses between two looks */
    FEW_COMMANDS = 16, /* between two looks, for patience to grow */
    IDLE_NS = 50000,   /* without work, before sleeping */
};

void weir__cpu_wake(struct weir__cpu *cpu)
{
    if (!atomic_load(&cpu->soft.sched.ready) || atomic_load(&cpu->attentive) ||
        !atomic_load(&cpu->sleepers))
        return;
    atomic_fetch_add(&cpu->wake_word, 1);
    weir__futex_wake(&cpu->wake_word, 1);
}

void weir__worker_be_busy(struct weir__worker *w)
{
    if (w->attentive)
        atomic_fetch_sub(&w->cpu->attentive, 1);
    w->attentive = false;
    weir__cpu_wake(w->cpu);
}

/* Spinning pays only while there is a hardware thread to do it on: the workers that
 * are awake and the host each want one. */
static bool may_spin(struct weir__cpu *cpu)
{
    uint32_t asleep = atomic_load_explicit(&cpu->sleepers, memory_order_relaxed);
    uint32_t host = !atomic_load_explicit(&cpu->hosts_asleep, memory_order_relaxed);

    return cpu->nworkers - asleep + host <= cpu->hardware;
}

/* A worker that catches every command the moment it is queued makes the host hand over
 * a cache line for each, which costs more than the commands. So while no host thread
 * waits for a result, a worker that found little the last time looks less often. */
void weir__worker_pause(struct weir__worker *w)
{
    for (uint32_t n = 0; n < w->patience; n++) {
        weir__relax();
        if (n % 8 == 0 && atomic_load_explicit(&w->cpu->hosts_waiting, memory_order_relaxed))
            break;
    }
}

void weir__worker_adapt(struct weir__worker *w)
{
    if (w->commands < FEW_COMMANDS && w->patience < MAX_PATIENCE)
        w->patience *= 2;
    else if (w->commands > 4 * FEW_COMMANDS && w->patience > 1)
        w->patience /= 2;
    w->commands = 0;
}

/* True if there may be work. */
static bool spin(struct weir__worker *w)
{
    struct weir__cpu *cpu = w->cpu;
    uint64_t until = 0;
    bool found = false;

    if (!may_spin(cpu))
        return false;
    weir__worker_adapt(w);
    for (unsigned i = 0; !found; i++) {
        weir__worker_pause(w);
        if (i % 16 == 0) {
            uint64_t now = weir__clock_ns();

            until = until ? until : now + IDLE_NS;
            if (now > until || !may_spin(cpu))
                break;
        }
        found = atomic_load_explicit(&cpu->soft.sched.ready, memory_order_relaxed) ||
                atomic_load_explicit(&cpu->stop, memory_order_relaxed);
    }
    return found;
}

struct weir__soft_stream *weir__worker_pick(struct weir__worker *w, enum weir__want *was)
{
    struct weir__sched *sched = &w->cpu->soft.sched;
    struct weir__soft_stream *s;

    weir__spin_lock(&sched->lock);
    weir__sched_release(sched, &w->grant);
    s = weir__sched_pick(sched, &w->grant, was, w->long_ops >= WEIR__LONG_OPS_PER_TURN);
    weir__spin_unlock(&sched->lock);
    w->long_ops = 0;
    return s;
}

/* Waits for work: spinning while that pays, then asleep. Counting as a sleeper comes
 * before the last look, and whoever makes work or cores available looks for sleepers
 * after that, so one of the two sees the other. */
struct weir__soft_stream *weir__worker_rest(struct weir__worker *w, enum weir__want *was)
{
    struct weir__cpu *cpu = w->cpu;
    struct weir__soft_stream *s;
    uint32_t word;

    /* What is ready but cannot start, a gang short of cores say, is no reason to spin. What came
     * since the last look is none to be counted as asleep: somebody would be woken for it. */
    if (!atomic_load_explicit(&cpu->soft.sched.ready, memory_order_relaxed)) {
        if (spin(w))
            return weir__worker_pick(w, was);
    } else if ((s = weir__worker_pick(w, was))) {
        return s;
    }
    word = atomic_load(&cpu->wake_word);
    if (w->attentive)
        atomic_fetch_sub(&cpu->attentive, 1);
    w->attentive = false;
    atomic_fetch_add(&cpu->sleepers, 1);
    s = weir__worker_pick(w, was);
    if (!s && !atomic_load(&cpu->stop))
        weir__futex_wait(&cpu->wake_word, word, -1);
    atomic_fetch_sub(&cpu->sleepers, 1);
    return s;
}
