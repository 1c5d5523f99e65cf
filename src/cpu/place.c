/* Which CPU a worker gets when nearly all of them are busy.
 *
 * Linux gives a thread that is woken its last CPU if that is idle, and else looks at a few others:
 * the busier the machine, the fewer. So a worker may be queued behind another one for milliseconds
 * though a CPU is idle. Whoever looks whether to wake somebody finds out: a worker was woken and is
 * not up after LATE_NS. It then binds those that are not up to CPUs on which no worker runs, which
 * moves them. A worker that is up takes such a binding back. */
#include "cpu/cpu.h"

enum { LATE_NS = 150000, NOWHERE = -1 };

void weir__worker_bind(struct weir__worker *w, int to)
{
    cpu_set_t one;

    /* Somebody else may have said where it runs. */
    if (to < 0 || to >= CPU_SETSIZE || !CPU_ISSET(to, &w->cpu->cpus) ||
        !weir__thread_cpus(w->thread, &one) || !CPU_EQUAL(&one, &w->cpu->cpus))
        return;
    CPU_ZERO(&one);
    CPU_SET(to, &one);
    atomic_store_explicit(&w->runs_on, to, memory_order_relaxed); /* nobody else goes there */
    weir__thread_bind(w->thread, &one);
    atomic_store(&w->bound, true);
}

/* If it is bound just now, it finds out the next time. */
static void unbind(struct weir__worker *w)
{
    if (weir__unlikely(atomic_load_explicit(&w->bound, memory_order_relaxed)) &&
        atomic_exchange(&w->bound, false))
        weir__thread_bind(w->thread, &w->cpu->cpus);
}

void weir__worker_is_up(struct weir__worker *w)
{
    int now;

    if (w->helper)
        return;
    now = weir__thread_cpu();
    if (atomic_load_explicit(&w->runs_on, memory_order_relaxed) != now)
        atomic_store_explicit(&w->runs_on, now, memory_order_relaxed);
    unbind(w);
}

void weir__worker_leaves_cpu(struct weir__worker *w)
{
    atomic_store_explicit(&w->runs_on, NOWHERE, memory_order_relaxed);
    unbind(w);
}

/* Those that no worker runs on, or is bound for. */
static cpu_set_t idle_cpus(const struct weir__cpu *cpu)
{
    cpu_set_t idle = cpu->cpus;

    for (unsigned i = 0; i < cpu->nworkers; i++) {
        int on = atomic_load_explicit(&cpu->workers[i].runs_on, memory_order_relaxed);

        if (on >= 0 && on < CPU_SETSIZE)
            CPU_CLR(on, &idle);
    }
    return idle;
}

void weir__cpu_rescue(struct weir__cpu *cpu)
{
    uint64_t woken_at = atomic_load_explicit(&cpu->woken_at, memory_order_relaxed);
    uint64_t now = weir__clock_ns();
    cpu_set_t idle;
    int at = 0;

    /* A host that is awake has the CPU that is left: then one worker stands by (rest.c). */
    if (now < woken_at + LATE_NS ||
        (cpu->nworkers == cpu->hardware && !atomic_load(&cpu->hosts_asleep)) ||
        !atomic_compare_exchange_strong(&cpu->woken_at, &woken_at, now))
        return;
    idle = idle_cpus(cpu);
    /* Nobody knows which of the sleepers was woken. The others find their CPU later. */
    for (unsigned i = 0; i < cpu->nworkers; i++) {
        struct weir__worker *w = &cpu->workers[i];

        if (atomic_load_explicit(&w->runs_on, memory_order_relaxed) != NOWHERE)
            continue;
        while (at < CPU_SETSIZE && !CPU_ISSET(at, &idle))
            at++;
        if (at == CPU_SETSIZE)
            return;
        weir__worker_bind(w, at++);
    }
}
