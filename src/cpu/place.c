/* Which CPU a worker gets when nearly all of them are busy.
 *
 * Linux gives a thread that is woken its last CPU if that is idle, and else looks at a few others:
 * the busier the machine, the fewer. So a worker may be queued behind another one for milliseconds
 * though a CPU is idle. Whoever looks whether to wake somebody finds out: a worker was woken and is
 * not up after LATE_NS. It then binds those that are not up to CPUs on which no worker runs, which
 * moves them. A worker that is up takes such a binding back.
 *
 * A worker that is up may also have put another one off its CPU, and the other's stream with it:
 * then it moves that one (make_room). */
#include "cpu/cpu.h"

enum {
    LATE_NS = 150000,
    /* Of runs_on: */
    NOWHERE = -1,
    BOUND = -2, /* sleeps, or did: BOUND - n is to CPU n */
};

bool weir__worker_bind(struct weir__worker *w, int to)
{
    cpu_set_t one;

    /* Somebody else may have said where it runs. */
    if (to < 0 || to >= CPU_SETSIZE || !CPU_ISSET(to, &w->cpu->cpus) ||
        !weir__thread_cpus(w->thread, &one) || !CPU_EQUAL(&one, &w->cpu->cpus))
        return false;
    CPU_ZERO(&one);
    CPU_SET(to, &one);
    atomic_store_explicit(&w->runs_on, BOUND - to,
                          memory_order_relaxed); /* nobody else goes there */
    weir__thread_bind(w->thread, &one);
    atomic_store(&w->bound, true);
    return true;
}

/* If it is bound just now, it finds out the next time. */
static void unbind(struct weir__worker *w)
{
    if (weir__unlikely(atomic_load_explicit(&w->bound, memory_order_relaxed)) &&
        atomic_exchange(&w->bound, false))
        weir__thread_bind(w->thread, &w->cpu->cpus);
}

/* Those that no worker runs on, nor, with `bound`, is bound for. */
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

/* One of those CPUs, of the worker's node if there is one; negative: there is none. */
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

/* Whether a worker runs there. */
bool weir__cpu_has_worker(const struct weir__cpu *cpu, int at)
{
    for (unsigned i = 0; i < cpu->nworkers; i++)
        if (atomic_load_explicit(&cpu->workers[i].runs_on, memory_order_relaxed) == at)
            return true;
    return false;
}

/* Another worker that has not slept since was put off and may have a stream. One that sleeps, bound
 * to this CPU, would be queued here though another CPU is idle. */
static void make_room(const struct weir__worker *w)
{
    const struct weir__cpu *cpu = w->cpu;
    int here = atomic_load_explicit(&w->runs_on, memory_order_relaxed);
    /* The CPU without a worker may be that of the one host thread that queues: see rescue. */
    bool may_move = cpu->nworkers < cpu->hardware ||
                    atomic_load_explicit(&cpu->hosts_asleep, memory_order_relaxed) ||
                    atomic_load_explicit(&cpu->soft.base.per_stream, memory_order_relaxed);

    for (unsigned i = 0; i < cpu->nworkers; i++) {
        struct weir__worker *other = &cpu->workers[i];
        int bound = BOUND - here, on = atomic_load_explicit(&other->runs_on, memory_order_relaxed);
        cpu_set_t idle;

        if (other != w && on == here && may_move) {
            idle = idle_cpus(cpu, false); /* of those that are bound most still sleep */
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

    /* A host that is awake has the CPU that is left: then one worker stands by (rest.c). */
    if (now < woken_at + LATE_NS ||
        (cpu->nworkers == cpu->hardware && !atomic_load(&cpu->hosts_asleep)) ||
        !atomic_compare_exchange_strong(&cpu->woken_at, &woken_at, now))
        return;
    idle = idle_cpus(cpu, true);
    /* Nobody knows which of the sleepers was woken. The others find their CPU later. */
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
