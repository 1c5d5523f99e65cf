/* When workers look for work, sleep and wake.
 *
 * A worker is attentive while it looks for work or runs commands that are no more than
 * bookkeeping: it gets to whatever is in the scheduler within microseconds, so nobody needs to be
 * woken for that. Before it starts something long it ceases to be, and then looks whether
 * somebody must be. Whoever adds to the scheduler looks for an attentive worker after that, so one
 * of the two sees the other.
 *
 * cpu->sleepers counts workers that sleep, and in its upper half how many of them are on their way
 * because somebody woke them: never more than sleep. A stream for which somebody is on the way
 * wakes nobody else, since waking takes 50 us and streams come every 100 ns. Whoever ceases to
 * sleep, for whatever reason, takes one off either count, so that no way is waited for in vain.
 *
 * Where every hardware thread has a worker, the last of them stands by while a host thread queues:
 * were it to run, the system would take turns between it and the host, in slices of milliseconds,
 * and all the others would run dry. It looks again every STANDBY_NS, and it goes on at the latest
 * after MOST_STANDBY_NS, whatever the host does, so that nothing can hang for it.
 */
#include "cpu/cpu.h"

enum {
    MOST_PAUSE_NS = 16000, /* between two looks */
    FEW_COMMANDS = 256,    /* between two looks, for patience to grow */
    IDLE_NS = 50000,       /* without work, before sleeping: about what waking takes, */
    MOST_IDLE_NS = 400000, /* or this much where that takes longer */
    MEASURED_PAUSES = 64,
    MOST_WOKEN = 4,      /* at once; they wake others */
    STANDBY_NS = 100000, /* between two looks */
    MOST_STANDBY_NS = 5000000,
};

/* Of cpu->sleepers. */
#define ASLEEP 0xffffu
#define ONE_ON_THE_WAY 0x10000u
#define ON_THE_WAY(word) ((word) / ONE_ON_THE_WAY)

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

unsigned weir__cpu_awake(const struct weir__cpu *cpu)
{
    uint32_t word = atomic_load_explicit(&cpu->sleepers, memory_order_relaxed);
    uint32_t standby = atomic_load_explicit(&cpu->standby_word, memory_order_relaxed) & 1;

    return cpu->nworkers - (word & ASLEEP) + ON_THE_WAY(word) - standby;
}

/* At most so many, less those on their way already. */
static void wake(struct weir__cpu *cpu, uint32_t most)
{
    uint32_t word = atomic_load(&cpu->sleepers), work, n;

    if (!(word & ASLEEP) || atomic_load(&cpu->attentive))
        return;
    work = weir__cpu_count_work(cpu, memory_order_seq_cst, most + ON_THE_WAY(word));
    do {
        n = (word & ASLEEP) < work ? word & ASLEEP : work;
        if (n <= ON_THE_WAY(word))
            return;
        n -= ON_THE_WAY(word);
        n = n < most ? n : most;
    } while (!atomic_compare_exchange_weak(&cpu->sleepers, &word, word + n * ONE_ON_THE_WAY));
    atomic_store_explicit(&cpu->woken_at, weir__clock_ns(), memory_order_relaxed);
    atomic_fetch_add(&cpu->wake_word, 1);
    weir__futex_wake(&cpu->wake_word, (int)n);
}

void weir__cpu_wake(struct weir__cpu *cpu)
{
    wake(cpu, MOST_WOKEN);
}

void weir__cpu_wake_for_host(struct weir__cpu *cpu)
{
    if (!atomic_load_explicit(&cpu->host_queued, memory_order_relaxed))
        atomic_store_explicit(&cpu->host_queued, true, memory_order_relaxed);
    wake(cpu, 1);
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
    uint32_t host = !atomic_load_explicit(&cpu->hosts_asleep, memory_order_relaxed);

    return weir__cpu_awake(cpu) + host <= cpu->hardware;
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

/* Sleeping pays once it lasts longer than it takes to be woken. */
static uint64_t idle_ns(const struct weir__cpu *cpu)
{
    uint32_t ns = atomic_load_explicit(&cpu->wake_ns, memory_order_relaxed);

    return ns < IDLE_NS ? IDLE_NS : ns < MOST_IDLE_NS ? ns : MOST_IDLE_NS;
}

/* The least that was seen, since what disturbs only adds; slowly forgotten. */
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
    }
    return found;
}

/* One sleeper less; and one less on the way, if any is: whoever it was that was woken. */
static void get_up(struct weir__cpu *cpu)
{
    uint32_t word = atomic_load_explicit(&cpu->sleepers, memory_order_relaxed);

    while (!atomic_compare_exchange_weak(&cpu->sleepers, &word,
                                         word - 1 - (ON_THE_WAY(word) ? ONE_ON_THE_WAY : 0)))
        continue;
}

/* The word of the one that stands by is odd. */
static bool end_standby(struct weir__cpu *cpu, uint32_t word)
{
    return atomic_compare_exchange_strong(&cpu->standby_word, &word, word + 1);
}

/* Whether a host thread has no hardware thread left if this worker runs. */
static bool is_one_too_many(const struct weir__cpu *cpu)
{
    return cpu->nworkers > 1 && cpu->nworkers == cpu->hardware &&
           weir__cpu_awake(cpu) == cpu->nworkers && !atomic_load(&cpu->hosts_asleep);
}

/* Makes the word odd and then looks for hosts that sleep; a host that goes to sleep is counted
 * and then looks at the word. One of the two sees the other. */
static void stand_by(struct weir__cpu *cpu)
{
    uint32_t word = atomic_load(&cpu->standby_word);
    uint64_t until;

    if (!atomic_exchange_explicit(&cpu->host_queued, false, memory_order_relaxed) || word & 1 ||
        !atomic_compare_exchange_strong(&cpu->standby_word, &word, word + 1))
        return;
    word++;
    until = weir__clock_ns() + MOST_STANDBY_NS;
    do {
        if (atomic_load(&cpu->hosts_asleep) || atomic_load(&cpu->stop))
            break;
        weir__futex_wait(&cpu->standby_word, word, STANDBY_NS);
        if (atomic_load(&cpu->standby_word) != word)
            return;
    } while (atomic_exchange_explicit(&cpu->host_queued, false, memory_order_relaxed) &&
             weir__clock_ns() < until);
    end_standby(cpu, word);
}

void weir__cpu_host_sleeps(struct weir__cpu *cpu)
{
    uint32_t word;

    atomic_fetch_add(&cpu->hosts_asleep, 1);
    word = atomic_load(&cpu->standby_word);
    if (weir__unlikely(word & 1) && end_standby(cpu, word))
        weir__futex_wake(&cpu->standby_word, 1);
    weir__cpu_wake(cpu);
}

/* Waits for work: spinning while that pays, then asleep. Counting as a sleeper comes
 * before the last look, and whoever makes work or cores available looks for sleepers
 * after that, so one of the two sees the other. */
struct weir__soft_stream *weir__worker_rest(struct weir__worker *w, enum weir__want *was)
{
    struct weir__cpu *cpu = w->cpu;
    struct weir__soft_stream *s;
    uint32_t word;

    w->at_work = false;
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
    if (!s && !atomic_load(&cpu->stop)) {
        weir__futex_wait(&cpu->wake_word, word, -1);
        note_wake(cpu);
        get_up(cpu);
        if (is_one_too_many(cpu))
            stand_by(cpu);
        return NULL;
    }
    get_up(cpu);
    return s;
}
