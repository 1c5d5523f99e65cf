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
    MOST_PAUSE_NS = 16000, /* between two looks */
    FEW_COMMANDS = 256,    /* between two looks, for patience to grow */
    IDLE_NS = 50000,       /* without work, before sleeping */
    MEASURED_PAUSES = 64,
};

/* A pause takes from 10 to 50 ns, by processor; the shortest of a few is one that nobody
 * interrupted. */
uint32_t weir__cpu_measure_patience(void)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 4; i++) {
        uint64_t ns, start = weir__clock_ns();

        for (int n = 0; n < MEASURED_PAUSES; n++)
            weir__relax();
        ns = weir__clock_ns() - start;
        best = ns < best ? ns : best;
    }
    best /= MEASURED_PAUSES;
    return MOST_PAUSE_NS / (uint32_t)(best < 4 ? 4 : best > 250 ? 250 : best);
}

void weir__cpu_wake(struct weir__cpu *cpu)
{
    if (!atomic_load(&cpu->sleepers) || atomic_load(&cpu->attentive) ||
        !weir__cpu_has_work(cpu, memory_order_seq_cst))
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
 * several cache lines for each, which costs more than the commands. So while no host thread
 * waits for a result and nothing long is queued, a worker that found little the last time looks
 * less often. */
void weir__worker_pause(struct weir__worker *w)
{
    struct weir__cpu *cpu = w->cpu;

    for (uint32_t n = 0; n < w->patience; n++) {
        weir__relax();
        if (n % 8)
            continue;
        if (n % 64 == 56)
            weir__yield(); /* to a host thread that queues, if it has no other CPU */
        if (atomic_load_explicit(&cpu->hosts_waiting, memory_order_relaxed))
            break;
        if (atomic_load_explicit(&cpu->soft.hurry, memory_order_relaxed)) {
            atomic_store_explicit(&cpu->soft.hurry, false, memory_order_relaxed);
            w->patience = 1;
        }
    }
}

void weir__worker_adapt(struct weir__worker *w)
{
    if (w->commands < FEW_COMMANDS)
        w->patience =
            2 * w->patience < w->cpu->most_patience ? 2 * w->patience : w->cpu->most_patience;
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
        found = weir__cpu_has_work(cpu, memory_order_relaxed) ||
                atomic_load_explicit(&cpu->stop, memory_order_relaxed);
    }
    return found;
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
    if (!weir__cpu_has_work(cpu, memory_order_relaxed)) {
        weir__worker_release_core(w);
        if (spin(w))
            return weir__worker_pick(w, was);
    } else if ((s = weir__worker_pick(w, was))) {
        return s;
    }
    weir__worker_release_core(w);
    word = atomic_load(&cpu->wake_word);
    if (w->attentive)
        atomic_fetch_sub(&cpu->attentive, 1);
    w->attentive = false;
    atomic_fetch_add(&cpu->sleepers, 1);
    s = weir__cpu_has_work(cpu, memory_order_seq_cst) ? weir__worker_pick(w, was) : NULL;
    if (!s && !atomic_load(&cpu->stop))
        weir__futex_wait(&cpu->wake_word, word, -1);
    atomic_fetch_sub(&cpu->sleepers, 1);
    return s;
}
