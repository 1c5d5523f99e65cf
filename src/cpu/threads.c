/* Starts and stops the worker threads. */
#include "cpu/cpu.h"
#include "device/serve.h"

static void *worker_main(void *arg)
{
    struct weir__worker *w = arg;
    struct weir__cpu *cpu = w->cpu;

    weir__thread_serves(true);
    while (!atomic_load_explicit(&cpu->stop, memory_order_relaxed)) {
        struct weir__soft_stream *s = weir__soft_take(&w->mine);
        enum weir__want was = WEIR__WANTS_CORE;

        if (!s && !w->batch.first)
            weir__worker_lets_hosts(w);
        if (!s && !(s = weir__soft_take(&w->batch)) && !(s = weir__worker_pick(w, &was))) {
            weir__worker_be_attentive(w);
            if (!(s = weir__worker_rest(w, &was)))
                continue;
        }
        if (was == WEIR__WANTS_CORE &&
            atomic_load_explicit(&s->home, memory_order_relaxed) != w->index)
            atomic_store_explicit(&s->home, w->index, memory_order_relaxed);
        weir__worker_run(w, s, was);
    }
    return NULL;
}

static void init_worker(struct weir__worker *w, struct weir__cpu *cpu, unsigned index)
{
    *w = (struct weir__worker){
        .cpu = cpu, .index = index, .patience = 1, .random = cpu->jitter + index};
    atomic_store_explicit(&w->runs_on, CPU_SETSIZE, memory_order_relaxed); /* not started yet */
    w->mine.end = &w->mine.first;
    w->batch.end = &w->batch.first;
    w->queue = index < cpu->soft.nrunqs ? &cpu->soft.runqs[index] : NULL;
}

weir_status weir__cpu_start(struct weir__cpu *cpu)
{
    unsigned started = 0;

    cpu->workers = weir__alloc_aligned(cpu->nworkers * sizeof *cpu->workers, WEIR__LINE);
    if (!cpu->workers)
        return weir__fail_nomem("starting %u worker threads", cpu->nworkers);
    if (cpu->nworkers <= cpu->soft.sched.cube.total && !cpu->soft.sched.split &&
        weir__runqs_open(&cpu->soft, cpu->nworkers)) {
        weir__free(cpu->workers);
        return WEIR_ENOMEM;
    }
    if (!weir__thread_cpus(pthread_self(), &cpu->cpus))
        CPU_ZERO(&cpu->cpus);
    cpu->most_patience = weir__cpu_measure_patience();
    init_worker(&cpu->helper, cpu, cpu->nworkers);
    cpu->helper.helper = true;
    if (!(cpu->helper.local = weir__soft_map(WEIR_LOCAL_BYTES))) {
        weir__runqs_close(&cpu->soft);
        weir__free(cpu->workers);
        return weir__fail_nomem("allocating scratch memory for %s", cpu->soft.base.props.name);
    }
    for (unsigned i = 0; i < cpu->nworkers; i++) /* all first: running workers read the others */
        init_worker(&cpu->workers[i], cpu, i);
    for (; started < cpu->nworkers; started++) {
        struct weir__worker *w = &cpu->workers[started];

        if (!(w->local = weir__soft_map(WEIR_LOCAL_BYTES)))
            break;
        weir__cpu_count_awake(1);
        if (!weir__thread_start(&w->thread, worker_main, w)) {
            weir__cpu_count_awake(-1);
            weir__soft_unmap(w->local, WEIR_LOCAL_BYTES);
            break;
        }
    }
    if (started == cpu->nworkers)
        return WEIR_OK;

    unsigned wanted = cpu->nworkers;

    cpu->nworkers = started;
    weir__cpu_stop(cpu);
    return weir__fail(WEIR_EUNAVAILABLE,
                      "cannot start all worker threads: the system gave %u of %u", started, wanted);
}

void weir__cpu_stop(struct weir__cpu *cpu)
{
    atomic_store(&cpu->stop, true);
    atomic_fetch_add(&cpu->wake_word, 1);
    weir__futex_wake(&cpu->wake_word, INT32_MAX);
    weir__futex_wake(&cpu->standby, 1);
    for (unsigned i = 0; i < cpu->nworkers; i++) {
        pthread_join(cpu->workers[i].thread, NULL);
        weir__cpu_count_awake(-1);
        weir__soft_unmap(cpu->workers[i].local, WEIR_LOCAL_BYTES);
    }
    weir__soft_unmap(cpu->helper.local, WEIR_LOCAL_BYTES);
    weir__runqs_close(&cpu->soft);
    weir__free(cpu->workers);
    cpu->workers = NULL;
}
