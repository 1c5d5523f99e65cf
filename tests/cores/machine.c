#include "cores/machine.h"
#include "base/lock.h"
#include "base/thread.h"
#include "cores/vpause.h"
#include "cpu/cpu.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#undef pthread_join
#undef clock_gettime

enum {
    MAX_THREADS = 128,
    LEAD_NS = 1000, /* a thread may be this far ahead of the others */
    LOOK_NS = 100,  /* at the clock, by a kernel that computes until then */
    STEP_NS = 5000, /* of computing, before others get to run */
};

enum state { ASLEEP, WAITS_FOR_CPU, ON_CPU, ENDED };

struct vthread {
    sem_t go;
    enum state state;
    uint64_t time;
    uint64_t wakes_at;      /* of a sleep with a limit; else UINT64_MAX */
    uint64_t asleep_since;  /* a number, for the order of waking */
    _Atomic uint32_t *word; /* that it sleeps on */
    struct vthread *joins;  /* whose end it sleeps for */
    struct vthread *next;   /* in a CPU's queue */
    unsigned cpu;           /* its own, or its last */
    bool bound;             /* to that one */
    pthread_t real;
    void *(*run)(void *);
    void *arg;
};

struct vcpu {
    struct vthread *current; /* NULL: idle */
    struct vthread *first, **end;
    uint64_t slice_end, idle_since;
};

static struct vthread threads[MAX_THREADS];
static unsigned nthreads, ncpus;
static struct vcpu cpus[MACHINE_MAX_CPUS];
static struct machine_counts counts;
static uint64_t sleeps_numbered;
static bool wakes_preempt, idle_pulls;
static __thread struct vthread *self;

static void give_up(const char *why)
{
    fprintf(stderr, "machine: %s\n", why);
    for (unsigned i = 0; i < nthreads; i++)
        fprintf(stderr, "  thread %u: state %d at %llu ns\n", i, (int)threads[i].state,
                (unsigned long long)threads[i].time);
    abort();
}

/* ---- CPUs ---- */

static void begin_on(struct vcpu *c, struct vthread *t, uint64_t when)
{
    c->current = t;
    t->cpu = (unsigned)(c - cpus);
    t->state = ON_CPU;
    t->time = when;
    c->slice_end = when + MACHINE_SLICE_NS;
}

static void enqueue(struct vcpu *c, struct vthread *t, uint64_t when)
{
    t->state = WAITS_FOR_CPU;
    t->cpu = (unsigned)(c - cpus);
    t->time = when;
    t->next = NULL;
    *c->end = t;
    c->end = &t->next;
    /* Whoever runs there without a rival for long is in the middle of a slice. */
    if (c->slice_end < when)
        c->slice_end = when + MACHINE_SLICE_NS / 2;
}

static struct vthread *dequeue(struct vcpu *c)
{
    struct vthread *t = c->first;

    if (t && !(c->first = t->next))
        c->end = &c->first;
    return t;
}

/* A thread that can go on gets its last CPU if that is idle, else another that is. Of those it
 * looks at as many as are idle, as Linux does: on a busy machine it waits for its last CPU, or for
 * the one of whoever woke it, though another is idle. */
static void place(struct vthread *t, uint64_t when)
{
    struct vcpu *c = &cpus[t->cpu];
    unsigned idle = 0;

    for (unsigned i = 0; i < ncpus; i++)
        idle += !cpus[i].current;
    for (unsigned i = 1; c->current && !t->bound && i <= idle; i++)
        if (!cpus[(t->cpu + i) % ncpus].current)
            c = &cpus[(t->cpu + i) % ncpus];
    if (c->current && wakes_preempt && c->current->state == ON_CPU && c->current != self) {
        struct vthread *other = c->current;

        counts.preempted++;
        begin_on(c, t, (when > other->time ? when : other->time) + MACHINE_SWITCH_NS);
        enqueue(c, other, other->time);
        return;
    }
    if (c->current) {
        enqueue(t->bound || idle ? c : &cpus[self->cpu], t, when);
        return;
    }
    when = when > c->idle_since ? when : c->idle_since;
    begin_on(c, t, when + MACHINE_WAKE_UP_NS);
}

/* The first thread of the others' queues that may run elsewhere. */
static struct vthread *pull(void)
{
    for (unsigned i = 0; i < ncpus; i++)
        if (cpus[i].first && !cpus[i].first->bound)
            return dequeue(&cpus[i]);
    return NULL;
}

static void leave_cpu(struct vthread *t)
{
    struct vcpu *c = &cpus[t->cpu];
    struct vthread *next = dequeue(c);

    next = next || !idle_pulls ? next : pull();

    c->current = NULL;
    c->idle_since = t->time;
    if (next)
        begin_on(c, next, (next->time > t->time ? next->time : t->time) + MACHINE_SWITCH_NS);
}

/* The running thread goes behind those that want its CPU. */
static void rotate(void)
{
    struct vcpu *c = &cpus[self->cpu];
    struct vthread *next = dequeue(c);

    if (!next)
        return;
    counts.preempted++;
    begin_on(c, next, (next->time > self->time ? next->time : self->time) + MACHINE_SWITCH_NS);
    enqueue(c, self, self->time);
}

/* ---- whose turn it is ---- */

static uint64_t due(const struct vthread *t)
{
    return t->state == ON_CPU ? t->time : t->state == ASLEEP ? t->wakes_at : UINT64_MAX;
}

static struct vthread *furthest_behind(void)
{
    struct vthread *best = NULL;

    for (unsigned i = 0; i < nthreads; i++)
        if (due(&threads[i]) < (best ? due(best) : UINT64_MAX))
            best = &threads[i];
    return best;
}

/* Lets the furthest behind run; returns when that is this thread again. */
static void hand_over(void)
{
    bool ended = self->state == ENDED; /* once another runs, that one writes it */
    struct vthread *next;

    while ((next = furthest_behind()) && next->state == ASLEEP) { /* its time is up */
        uint64_t when = next->wakes_at;

        next->wakes_at = UINT64_MAX;
        next->word = NULL;
        place(next, when);
    }
    if (!next)
        give_up("every thread sleeps");
    if (next == self)
        return;
    sem_post(&next->go);
    if (!ended)
        while (sem_wait(&self->go))
            continue;
}

static void passed(uint64_t ns)
{
    const struct vcpu *c = &cpus[self->cpu];
    const struct vthread *next;

    self->time += ns;
    if (c->first && self->time >= c->slice_end)
        rotate();
    next = furthest_behind();
    if (self->state != ON_CPU || due(next) + LEAD_NS < self->time)
        hand_over();
}

/* ---- what the library calls ---- */

void machine_pause(void)
{
    passed(MACHINE_PAUSE_NS);
}

void weir__yield(void)
{
    self->time += MACHINE_SYSCALL_NS;
    rotate();
    hand_over();
}

uint64_t weir__clock_ns(void)
{
    return self->time;
}

int machine_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    passed(LOOK_NS);
    *t = (struct timespec){(time_t)(self->time / 1000000000), (long)(self->time % 1000000000)};
    return 0;
}

void weir__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    passed(MACHINE_SYSCALL_NS);
    if (atomic_load(word) != expected)
        return;
    counts.sleeps++;
    self->word = word;
    self->asleep_since = ++sleeps_numbered;
    self->wakes_at = timeout_ns < 0 ? UINT64_MAX : self->time + (uint64_t)timeout_ns;
    self->state = ASLEEP;
    leave_cpu(self);
    hand_over();
    self->word = NULL;
    self->wakes_at = UINT64_MAX;
}

static struct vthread *first_asleep(const _Atomic uint32_t *word)
{
    struct vthread *best = NULL;

    for (unsigned i = 0; i < nthreads; i++)
        if (threads[i].state == ASLEEP && threads[i].word == word &&
            (!best || threads[i].asleep_since < best->asleep_since))
            best = &threads[i];
    return best;
}

void weir__futex_wake(_Atomic uint32_t *word, int count)
{
    struct vthread *t;
    bool any = false;

    passed(MACHINE_SYSCALL_NS);
    for (; count > 0 && (t = first_asleep(word)); count--) {
        t->word = NULL;
        place(t, self->time);
        self->time += MACHINE_WAKE_NS;
        any = true;
    }
    any ? counts.wakes++ : counts.vain++;
    passed(0);
}

void weir__mutex_lock_slow(struct weir__mutex *m)
{
    while (atomic_exchange_explicit(&m->state, 2, memory_order_acquire) != 0)
        weir__futex_wait(&m->state, 2, -1);
}

/* One thread runs at a time: no fence is needed. */
void weir__light_lock_slow(struct weir__light_mutex *m)
{
    while (!weir__light_try(m)) {
        atomic_store(&m->wanted, WEIR__MUTEX_WANTED);
        weir__futex_wait(&m->wanted, WEIR__MUTEX_WANTED, -1);
    }
    atomic_store(&m->wanted, WEIR__MUTEX_WANTED);
}

void weir__light_wake(struct weir__light_mutex *m)
{
    atomic_store(&m->wanted, 0);
    weir__futex_wake(&m->wanted, 1);
}

static void *thread_main(void *arg)
{
    self = arg;
    while (sem_wait(&self->go))
        continue;
    self->run(self->arg);
    self->state = ENDED;
    leave_cpu(self);
    for (unsigned i = 0; i < nthreads; i++)
        if (threads[i].joins == self) {
            threads[i].joins = NULL;
            place(&threads[i], self->time);
        }
    hand_over();
    return NULL;
}

static struct vthread *add_thread(void)
{
    struct vthread *t = &threads[nthreads];

    if (nthreads == MAX_THREADS)
        give_up("too many threads");
    sem_init(&t->go, 0, 0);
    t->wakes_at = UINT64_MAX;
    t->cpu = nthreads % ncpus;
    nthreads++;
    return t;
}

bool weir__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    struct vthread *t = add_thread();

    t->run = run;
    t->arg = arg;
    if (pthread_create(&t->real, NULL, thread_main, t))
        give_up("no real thread to be had");
    *thread = t->real;
    place(t, self->time);
    return true;
}

static struct vthread *thread_of(pthread_t thread)
{
    for (unsigned i = 1; i < nthreads; i++)
        if (pthread_equal(threads[i].real, thread))
            return &threads[i];
    return &threads[0]; /* the test itself */
}

bool weir__thread_cpus(pthread_t thread, cpu_set_t *set)
{
    const struct vthread *t = thread_of(thread);

    CPU_ZERO(set);
    for (unsigned i = 0; i < ncpus; i++)
        if (!t->bound || i == t->cpu)
            CPU_SET(i, set);
    return true;
}

int weir__thread_cpu(void)
{
    return (int)self->cpu;
}

static void take_out(struct vcpu *c, const struct vthread *t)
{
    struct vthread **link = &c->first;

    while (*link != t)
        link = &(*link)->next;
    if (!(*link = t->next))
        c->end = link;
}

void weir__thread_bind(pthread_t thread, const cpu_set_t *set)
{
    struct vthread *t = thread_of(thread);
    unsigned cpu = 0;

    passed(MACHINE_SYSCALL_NS);
    t->bound = CPU_COUNT(set) == 1;
    while (!CPU_ISSET(cpu, set))
        cpu++;
    if (!t->bound || t->state == ON_CPU || t->state == ENDED)
        return;
    if (t->state == WAITS_FOR_CPU)
        take_out(&cpus[t->cpu], t);
    t->cpu = cpu;
    if (t->state == WAITS_FOR_CPU)
        place(t, self->time);
}

int machine_join(pthread_t thread, void **result)
{
    for (unsigned i = 0; i < nthreads; i++)
        if (i && pthread_equal(threads[i].real, thread) && threads[i].state != ENDED) {
            self->joins = &threads[i];
            self->state = ASLEEP;
            leave_cpu(self);
            hand_over();
        }
    return pthread_join(thread, result);
}

unsigned weir__cpu_hardware_threads(void)
{
    return ncpus;
}

static struct weir__cpu_nodes nodes;

const struct weir__cpu_nodes *weir__cpu_nodes(void)
{
    return &nodes;
}

void weir__cpu_model(char *text, size_t size)
{
    snprintf(text, size, "a virtual machine");
}

/* ---- what tests call ---- */

void machine_start(unsigned n)
{
    if (ncpus || n < 1 || n > MACHINE_MAX_CPUS)
        give_up("started twice, or with a strange number of CPUs");
    ncpus = n;
    for (unsigned i = 0; i < n; i++)
        cpus[i].end = &cpus[i].first;
    self = add_thread();
    begin_on(&cpus[0], self, 0);
}

void machine_places_threads(bool preempts, bool pulls)
{
    wakes_preempt = preempts;
    idle_pulls = pulls;
}

void machine_has_nodes(unsigned n)
{
    nodes.count = n;
    nodes.system = (UINT64_C(1) << n) - 1;
    for (unsigned i = 0; i < ncpus; i++)
        nodes.of_cpu[i] = (uint8_t)(i * n / ncpus);
}

unsigned machine_cpu(void)
{
    return self->cpu;
}

void machine_work(uint64_t ns)
{
    while (ns) {
        uint64_t step = ns < STEP_NS ? ns : STEP_NS;

        passed(step);
        ns -= step;
    }
}

uint64_t machine_now(void)
{
    return self->time;
}

struct machine_counts machine_counts(void)
{
    return counts;
}
