/* Which CPU a worker gets when nearly all of them are busy.
 *
 * Linux runs a woken thread on its last CPU if that is idle; otherwise it checks a few other CPUs,
 * fewer on a busy machine. So a worker may be queued behind another one for milliseconds although a
 * CPU is idle. A thread that is about to wake workers notices this: a worker was woken and does not
 * run after LATE_NS. The thread then binds all workers that do not run yet to CPUs without a
 * worker, which moves them. A worker that runs again removes its binding.
 *
 * A worker that starts to run may also have preempted another worker on the same CPU, which may
 * hold a stream. Then it moves that worker (make_room). */
#include "cpu/cpu.h"

enum {
    LATE_NS = 150000,
    /* Values of runs_on: */
    NOWHERE = -1, /* sleeps */
    BOUND = -2,   /* BOUND - n: bound to CPU n; sleeps or was just woken */
};

bool weir__worker_bind(struct weir__worker *w, int to)
{
    cpu_set_t one;

    /* Do nothing if the program itself has set the thread's affinity. */
    if (to < 0 || to >= CPU_SETSIZE || !CPU_ISSET(to, &w->cpu->cpus) ||
        !weir__thread_cpus(w->thread, &one) || !CPU_EQUAL(&one, &w->cpu->cpus))
        return false;
    CPU_ZERO(&one);
    CPU_SET(to, &one);
    atomic_store_explicit(&w->runs_on, BOUND - to,
                          memory_order_relaxed); /* reserves the CPU: others skip it */
    weir__thread_bind(w->thread, &one);
    atomic_store(&w->bound, true);
    return true;
}

/* Removes the worker's binding. A binding that is being made right now is removed next time. */
static void unbind(struct weir__worker *w)
{
    if (weir__unlikely(atomic_load_explicit(&w->bound, memory_order_relaxed)) &&
        atomic_exchange(&w->bound, false))
        weir__thread_bind(w->thread, &w->cpu->cpus);
}

/* Returns the CPUs on which no worker runs and, with `bound`, to which no worker is bound. */
static cpu_set_t idle_cpus(const struct weir__cpu *cpu, bool bound)
{
    cpu_set_t idle = cpu->cpus;

    for (unsigned i = 0; i < cpu->nworkers; i++) {
        int on = atomic_load_explicit(&cpu->workers[i].runs_on, memory_order_relaxed);

        on = bound && on <= BOUND ? BOUND - on : on;
        if (on >= 0 && on < CPU_SETSIZE)
            CPU_CLR(on, &idle);
    }
    return idle;
}

/* Returns one of the idle CPUs, preferably of the worker's NUMA node; negative if there is none. */
static int nearest(const struct weir__worker *w, const cpu_set_t *idle)
{
    const struct weir__cpu_nodes *nodes = w->cpu->nodes;
    int any = NOWHERE;

    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, idle))
            continue;
        if (!nodes || nodes->of_cpu[i] == weir__worker_node(w))
            return i;
        any = any < 0 ? i : any;
    }
    return any;
}

bool weir__cpu_has_worker(const struct weir__cpu *cpu, int at)
{
    for (unsigned i = 0; i < cpu->nworkers; i++)
        if (atomic_load_explicit(&cpu->workers[i].runs_on, memory_order_relaxed) == at)
            return true;
    return false;
}

/* Called when the worker runs on another CPU than before. If another worker is recorded on this CPU
 * and has not slept since, it was preempted and may hold a stream: moves it. If a sleeping worker
 * is bound to this CPU, removes its binding: it would be queued here although other CPUs are
 * idle. */
static void make_room(const struct weir__worker *w)
{
    const struct weir__cpu *cpu = w->cpu;
    int here = atomic_load_explicit(&w->runs_on, memory_order_relaxed);
    /* The only CPU without a worker may be that of the host thread that queues
     * (weir__cpu_rescue). */
    bool may_move = cpu->nworkers < cpu->hardware ||
                    atomic_load_explicit(&cpu->hosts_asleep, memory_order_relaxed) ||
                    atomic_load_explicit(&cpu->soft.base.per_stream, memory_order_relaxed);

    for (unsigned i = 0; i < cpu->nworkers; i++) {
        struct weir__worker *other = &cpu->workers[i];
        int bound = BOUND - here, on = atomic_load_explicit(&other->runs_on, memory_order_relaxed);
        cpu_set_t idle;

        if (other != w && on == here && may_move) {
            idle = idle_cpus(cpu, false); /* most workers that are bound to a CPU still sleep */
            on = nearest(other, &idle);
            if (on >= 0 && weir__worker_bind(other, on))
                atomic_store_explicit(&other->runs_on, on, memory_order_relaxed);
        } else if (on == bound &&
                   atomic_compare_exchange_strong(&other->runs_on, &bound, NOWHERE)) {
            unbind(other);
        }
    }
}

void weir__worker_is_up(struct weir__worker *w)
{
    int now;

    if (w->helper)
        return;
    now = weir__thread_cpu();
    if (atomic_load_explicit(&w->runs_on, memory_order_relaxed) != now) {
        const struct weir__cpu_nodes *nodes = w->cpu->nodes;

        atomic_store_explicit(&w->runs_on, now, memory_order_relaxed);
        if (weir__unlikely(nodes) && now >= 0 && now < CPU_SETSIZE)
            atomic_store_explicit(&w->node, nodes->of_cpu[now], memory_order_relaxed);
        make_room(w);
    }
    unbind(w);
}

void weir__worker_leaves_cpu(struct weir__worker *w)
{
    atomic_store_explicit(&w->runs_on, NOWHERE, memory_order_relaxed);
    unbind(w);
}

void weir__cpu_rescue(struct weir__cpu *cpu)
{
    uint64_t woken_at = atomic_load_explicit(&cpu->woken_at, memory_order_relaxed);
    uint64_t now = weir__clock_ns();
    cpu_set_t idle;

    /* An awake host thread has the remaining CPU: then one worker stands by instead (rest.c). */
    if (now < woken_at + LATE_NS ||
        (cpu->nworkers == cpu->hardware && !atomic_load(&cpu->hosts_asleep)) ||
        !atomic_compare_exchange_strong(&cpu->woken_at, &woken_at, now))
        return;
    idle = idle_cpus(cpu, true);
    /* It is not known which sleeper was woken, so bind all. The rest are bound for a later wake. */
    for (unsigned i = 0; i < cpu->nworkers; i++) {
        struct weir__worker *w = &cpu->workers[i];
        int to;

        if (atomic_load_explicit(&w->runs_on, memory_order_relaxed) != NOWHERE)
            continue;
        if ((to = nearest(w, &idle)) < 0)
            return;
        CPU_CLR(to, &idle);
        weir__worker_bind(w, to);
    }
}
