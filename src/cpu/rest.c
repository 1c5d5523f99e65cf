/* When workers look for work, sleep and wake. There are five rules. Where a rule names two threads,
 * their accesses are sequentially consistent, so at least one of the two sees the other.
 *
 * Sleeping. A worker counts itself in cpu->sleepers, then looks for work once more. A thread that
 * adds work adds it first, then looks for sleepers.
 *
 * Attention. A worker is attentive while it looks for work or runs bookkeeping commands. It finds
 * new work within microseconds, so nobody is woken while a worker is attentive. Before a long
 * command it stops being attentive, then looks whether a worker must be woken. A thread that adds
 * work adds it first, then looks for an attentive worker.
 *
 * Waking. The lower half of cpu->sleepers counts sleeping workers, the upper half counts those of
 * them that were woken and do not run yet. Invariant: woken <= asleep. A waker wakes as many
 * workers as the work needs, less those already woken: waking takes 50 us, and streams become ready
 * every 100 ns. A worker that stops sleeping, for whatever reason, subtracts one from both halves,
 * so the upper half returns to 0.
 *
 * Standby. If every hardware thread has a worker and there is work for all, one worker stands by
 * while a host thread queues or helps. If that worker ran, the system would time-slice it with the
 * host thread in milliseconds, and the other workers would run out of commands or wait for the last
 * blocks. A host thread that goes to sleep gives its hardware thread to the standby worker. The
 * worker also looks every STANDBY_NS and stops standing by after MOST_STANDBY_NS at the latest, so
 * nothing can hang because of it.
 *
 * Placing (place.c). A worker that was woken may wait for a busy CPU although another is
 * idle. */
#include "cpu/cpu.h"

enum {
    FEW_COMMANDS = 256,    /* fewer commands than this between two looks: pauses grow */
    IDLE_NS = 50000,       /* spin this long before sleeping: about as long as waking takes */
    MOST_IDLE_NS = 400000, /* the most, on machines on which waking takes longer */
    MEASURED_PAUSES = 64,
    MOST_WOKEN = 4,       /* workers woken at once; they wake others in turn */
    STANDBY_NS = 1000000, /* between two looks while standing by */
    MOST_STANDBY_NS = 5000000,
    PICKS_PER_YIELD = 4, /* of a worker, while several host threads queue */
};

/* The halves of cpu->sleepers. */
#define ASLEEP 0xffffu
#define ONE_ON_THE_WAY 0x10000u
#define ON_THE_WAY(word) ((word) / ONE_ON_THE_WAY)

/* A pause instruction takes 10 to 50 ns, depending on the processor; the shortest of a few
 * measurements is one that nothing interrupted. */
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
    return WEIR__MOST_PAUSE_NS / (uint32_t)(best < 4 ? 4 : best > 250 ? 250 : best);
}

/* Workers of all devices of the process that are awake or woken, because all of them need CPUs.
 * Only a hint for the decision whether a thread may spin. */
static _Atomic int all_awake;
static _Atomic int all_hosts_asleep; /* host threads that sleep until a command has completed */

void weir__cpu_count_awake(int n)
{
    atomic_fetch_add_explicit(&all_awake, n, memory_order_relaxed);
}

bool weir__cpu_has_spare(const struct weir__cpu *cpu, unsigned wanted)
{
    return atomic_load_explicit(&all_awake, memory_order_relaxed) + (int)wanted <=
           (int)cpu->hardware;
}

unsigned weir__cpu_awake(const struct weir__cpu *cpu)
{
    uint32_t word = atomic_load_explicit(&cpu->sleepers, memory_order_relaxed);

    return cpu->nworkers - (word & ASLEEP) + ON_THE_WAY(word) -
           (atomic_load_explicit(&cpu->standby, memory_order_relaxed) != 0);
}

/* Wakes as many workers as there is work for, `most` at most, less those already woken. */
static void wake(struct weir__cpu *cpu, uint32_t most)
{
    uint32_t word = atomic_load(&cpu->sleepers), work, n;

    if (!(word & ASLEEP) || atomic_load(&cpu->attentive))
        return;
    if (ON_THE_WAY(word))
        weir__cpu_rescue(cpu);
    work = weir__cpu_count_work(cpu, memory_order_seq_cst, most + ON_THE_WAY(word));
    do {
        n = (word & ASLEEP) < work ? word & ASLEEP : work;
        if (n <= ON_THE_WAY(word))
            return;
        n -= ON_THE_WAY(word);
        n = n < most ? n : most;
    } while (!atomic_compare_exchange_weak(&cpu->sleepers, &word, word + n * ONE_ON_THE_WAY));
    weir__cpu_count_awake((int)n);
    atomic_store_explicit(&cpu->woken_at, weir__clock_ns(), memory_order_relaxed);
    atomic_fetch_add(&cpu->wake_word, 1);
    weir__futex_wake(&cpu->wake_word, (int)n);
}

void weir__cpu_wake(struct weir__cpu *cpu)
{
    wake(cpu, MOST_WOKEN);
}

void weir__cpu_host_acts(struct weir__cpu *cpu)
{
    if (!atomic_load_explicit(&cpu->host_active, memory_order_relaxed))
        atomic_store_explicit(&cpu->host_active, true, memory_order_relaxed);
}

void weir__cpu_wake_for_host(struct weir__cpu *cpu)
{
    weir__cpu_host_acts(cpu);
    wake(cpu, 1);
}

void weir__worker_be_busy(struct weir__worker *w)
{
    weir__worker_is_up(w);
    if (w->attentive)
        atomic_fetch_sub(&w->cpu->attentive, 1);
    w->attentive = false;
    weir__cpu_wake(w->cpu);
}

/* A single host thread that queues has the CPU of the standby worker. Several host threads share
 * CPUs with workers. The system could then make a host thread wait, for a time slice of
 * milliseconds, behind the worker that it has just woken, and that worker's streams would run out
 * of commands. dev->per_stream tells that several host threads queue. */
void weir__worker_lets_hosts(struct weir__worker *w)
{
    struct weir__cpu *cpu = w->cpu;

    if (weir__likely(!atomic_load_explicit(&cpu->soft.base.per_stream, memory_order_relaxed)) ||
        cpu->nworkers < cpu->hardware || w->picks % PICKS_PER_YIELD)
        return;
    weir__yield();
}

/* True if a hardware thread is free for spinning: every awake worker and the host thread need one
 * each. */
static bool may_spin(struct weir__cpu *cpu)
{
    uint32_t host = !atomic_load_explicit(&cpu->hosts_asleep, memory_order_relaxed);

    return weir__cpu_awake(cpu) + host <= cpu->hardware &&
           weir__cpu_has_spare(cpu, !atomic_load_explicit(&all_hosts_asleep, memory_order_relaxed));
}

/* If a worker took every command the moment it is queued, the host would lose several cache lines
 * per command, which costs more than the commands. So a worker that found little the last time
 * looks less often, unless a host thread waits for a result or something long is queued. */
void weir__worker_pause(struct weir__worker *w)
{
    struct weir__cpu *cpu = w->cpu;

    for (uint32_t n = 0; n < w->patience; n++) {
        weir__relax();
        if (n % 8)
            continue;
        /* Yield to a host thread that queues, if workers may use all CPUs. Otherwise the host
         * thread has a CPU, and yielding would only make the system move threads between CPUs. */
        if (n % 64 == 56 && cpu->nworkers >= cpu->hardware)
            weir__yield();
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

/* Returns how long to spin before sleeping: as long as waking takes. */
static uint64_t idle_ns(const struct weir__cpu *cpu)
{
    uint32_t ns = atomic_load_explicit(&cpu->wake_ns, memory_order_relaxed);

    return ns < IDLE_NS ? IDLE_NS : ns < MOST_IDLE_NS ? ns : MOST_IDLE_NS;
}

/* Keeps the shortest time that waking has taken, because disturbances only make it longer. The
 * value grows slowly, so that it follows changes. */
static void note_wake(struct weir__cpu *cpu)
{
    uint64_t took = weir__clock_ns() - atomic_load_explicit(&cpu->woken_at, memory_order_relaxed);
    uint32_t least = atomic_load_explicit(&cpu->wake_ns, memory_order_relaxed);

    least += least / 64;
    atomic_store_explicit(&cpu->wake_ns,
                          least && least < took ? least
                          : took < MOST_IDLE_NS ? (uint32_t)took
                                                : MOST_IDLE_NS,
                          memory_order_relaxed);
}

/* True if a host thread will probably run the ready streams. If a host thread has run all that it
 * waited for since this worker last looked, it is likely to do so again. Taking its streams would
 * cost both threads more cache misses than the commands take. The guess holds for one pause of the
 * worker; by then the host thread must have helped again. Long commands and waiting host threads
 * end the pause. */
static bool leaves_to_host(struct weir__worker *w)
{
    const struct weir__cpu *cpu = w->cpu;
    uint32_t helped = atomic_load_explicit(&cpu->helped, memory_order_relaxed);

    if (helped == w->seen_helped)
        return false;
    w->seen_helped = helped;
    if (w->patience == 1 || atomic_load_explicit(&cpu->soft.sched.ready, memory_order_relaxed) ||
        atomic_load_explicit(&cpu->hosts_waiting, memory_order_relaxed) ||
        atomic_load_explicit(&cpu->stop, memory_order_relaxed))
        return false;
    w->patience = 2 * w->patience < cpu->most_patience ? 2 * w->patience : cpu->most_patience;
    return true;
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

            until = until ? until : now + idle_ns(cpu);
            if (now > until || !may_spin(cpu))
                break;
        }
        found = weir__cpu_has_work(cpu, memory_order_relaxed) ||
                atomic_load_explicit(&cpu->stop, memory_order_relaxed);
        if (found && leaves_to_host(w)) {
            found = false;
            /* The last attentive worker stays awake: otherwise the host would have to wake one. */
            if (atomic_load_explicit(&cpu->attentive, memory_order_relaxed) == 1)
                until = 0;
        }
    }
    return found;
}

/* Counts this worker as no longer asleep. If any worker was woken, this one is counted as it. */
static void get_up(struct weir__cpu *cpu)
{
    uint32_t word = atomic_load_explicit(&cpu->sleepers, memory_order_relaxed);

    while (!atomic_compare_exchange_weak(&cpu->sleepers, &word,
                                         word - 1 - (ON_THE_WAY(word) ? ONE_ON_THE_WAY : 0)))
        continue;
    if (!ON_THE_WAY(word))
        weir__cpu_count_awake(1);
}

/* True if workers for all ready work would also take the host's hardware thread. Then this worker
 * should stand by. The check is made early, while other woken workers do not run yet: a worker that
 * is woken when every hardware thread is busy could not even check. At least one other worker must
 * be running. */
static bool is_one_too_many(const struct weir__cpu *cpu)
{
    unsigned awake = weir__cpu_awake(cpu);
    uint32_t asleep = atomic_load_explicit(&cpu->sleepers, memory_order_relaxed) & ASLEEP;

    return cpu->nworkers > 1 && cpu->nworkers == cpu->hardware && cpu->nworkers - asleep > 1 &&
           !atomic_load(&cpu->hosts_asleep) &&
           awake + weir__cpu_count_work(cpu, memory_order_relaxed, cpu->nworkers) > cpu->nworkers;
}

/* The worker stores its index + 1 to cpu->standby, then reads cpu->hosts_asleep. A host thread that
 * goes to sleep counts itself there, then reads cpu->standby. At least one sees the other. */
static void stand_by(struct weir__worker *w)
{
    struct weir__cpu *cpu = w->cpu;
    uint32_t nobody = 0, me = w->index + 1;
    uint64_t until;

    if (!atomic_exchange_explicit(&cpu->host_active, false, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&cpu->standby, &nobody, me))
        return;
    until = weir__clock_ns() + MOST_STANDBY_NS;
    while (!atomic_load(&cpu->hosts_asleep) && !atomic_load(&cpu->stop)) {
        weir__futex_wait(&cpu->standby, me, STANDBY_NS);
        if (atomic_load(&cpu->standby) != me ||
            !atomic_exchange_explicit(&cpu->host_active, false, memory_order_relaxed) ||
            weir__clock_ns() > until)
            break;
    }
    atomic_compare_exchange_strong(&cpu->standby, &me, 0);
}

/* Wakes the standby worker on the CPU of this host thread, which is about to sleep. It does not
 * bind the worker there if another worker runs on that CPU too. */
static void hand_over(struct weir__cpu *cpu, uint32_t standby)
{
    int here = weir__thread_cpu();

    if (!weir__cpu_has_worker(cpu, here))
        weir__worker_bind(&cpu->workers[standby - 1], here);
    if (atomic_compare_exchange_strong(&cpu->standby, &standby, 0))
        weir__futex_wake(&cpu->standby, 1);
}

void weir__cpu_host_sleeps(struct weir__cpu *cpu)
{
    uint32_t standby;

    atomic_fetch_add(&cpu->hosts_asleep, 1);
    atomic_fetch_add_explicit(&all_hosts_asleep, 1, memory_order_relaxed);
    standby = atomic_load(&cpu->standby);
    if (weir__unlikely(standby))
        hand_over(cpu, standby);
    weir__cpu_wake(cpu);
}

void weir__cpu_host_is_up(void)
{
    atomic_fetch_sub_explicit(&all_hosts_asleep, 1, memory_order_relaxed);
}

/* Waits for work: spins while that pays, then sleeps (see Sleeping, above). */
struct weir__soft_stream *weir__worker_rest(struct weir__worker *w, enum weir__want *was)
{
    struct weir__cpu *cpu = w->cpu;
    struct weir__soft_stream *s;
    uint32_t word;

    w->at_work = false;
    /* Do not spin for work that is ready but cannot start, such as a gang that lacks cores. Pick
     * work that was added since the last look before counting this worker as asleep: otherwise
     * another worker would be woken for it. */
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
    weir__cpu_count_awake(-1);
    s = weir__cpu_has_work(cpu, memory_order_seq_cst) ? weir__worker_pick(w, was) : NULL;
    if (!s && !atomic_load(&cpu->stop)) {
        weir__worker_leaves_cpu(w);
        weir__futex_wait(&cpu->wake_word, word, -1);
        note_wake(cpu);
        get_up(cpu);
        weir__worker_is_up(w);
        if (is_one_too_many(cpu)) {
            weir__worker_leaves_cpu(w);
            stand_by(w);
            weir__worker_is_up(w);
        }
        return NULL;
    }
    get_up(cpu);
    return s;
}
