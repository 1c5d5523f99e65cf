/* The `cpu` device: host threads that run the blocks of a soft device. */
#ifndef WEIR_CPU_CPU_H
#define WEIR_CPU_CPU_H

#include "base/thread.h"
#include "soft/soft.h"

struct weir__cpu;

#define WEIR__MOST_WANTED 16

/* A thread that runs blocks. Only that thread accesses the struct, except where noted. */
struct weir__worker {
    _Alignas(WEIR__LINE) struct weir__cpu *cpu;
    unsigned index;
    pthread_t thread;
    struct weir__grant grant;     /* the cores it holds */
    struct weir__runq *queue;     /* its own; NULL: the device has none, or this is the helper */
    struct weir__soft_list mine;  /* streams it made ready and has not given to other workers */
    struct weir__soft_list batch; /* streams it took from its queue and has not run yet */
    uint32_t short_ns;            /* since the last turn: time of short commands */
    uint32_t short_work_ns;       /* since the last turn: the part of short_ns without overhead */
    uint32_t parks;               /* since the last turn: streams that parked */
    uint32_t commands;            /* run since it last looked for work */
    uint32_t patience;            /* pauses between two looks for work */
    uint32_t long_ops;            /* long commands since the last pick */
    uint32_t picks, aged_picks;
    uint32_t seen_helped; /* cpu->helped when it last looked for work */
    bool attentive;       /* counted in cpu->attentive (rest.c) */
    bool at_work;         /* its last commands took long: short commands do not make it attentive */
    /* place.c: other threads read and write these, too. */
    _Atomic int runs_on; /* the CPU; negative while it sleeps, CPU_SETSIZE before it starts */
    _Atomic bool bound;  /* temporarily bound to one CPU */
    /* The NUMA node of its CPU, or of its last CPU; 0 on machines with one node (nodes.c). */
    _Atomic uint8_t node;
    /* The next five fields are for the helper (help.c), a worker without a thread. */
    bool helper;
    uint32_t part_ns;    /* the longest part of a collective that it runs */
    uint64_t help_until; /* the time at which it returns; 0: the clock was not read yet */
    struct weir__soft_stream *wanted[WEIR__MOST_WANTED]; /* streams that its streams wait for */
    uint32_t nwanted;
    uint64_t random; /* for jitter */
    uint64_t ticks;  /* while a trace is recorded: the time at which its last command ended, if it
                      * has done nothing since then; else 0 */
    void *local;     /* weir_block.local */
};

struct weir__cpu {
    struct weir__soft_device soft;
    struct weir__worker *workers;
    unsigned nworkers;
    unsigned hardware;                   /* number of hardware threads */
    uint64_t jitter;                     /* seed of random delays for tests; 0: none */
    uint32_t most_patience;              /* the limit of a worker's patience */
    cpu_set_t cpus;                      /* that workers may run on; empty: not known */
    const struct weir__cpu_nodes *nodes; /* NUMA nodes; NULL: treat the machine as one node */
    struct weir__worker helper;          /* for one host thread at a time (help.c) */
    _Atomic bool helper_taken;
    /* How often a host thread has run all that it waited for. Written by the thread that has the
     * helper. */
    _Atomic uint32_t helped;
    /* Sleeping and waking: rest.c has the rules. */
    _Alignas(WEIR__LINE) _Atomic uint32_t wake_word;
    _Atomic uint32_t sleepers;      /* low 16 bits: sleeping workers; high: those already woken */
    _Atomic uint32_t attentive;     /* number of attentive workers */
    _Atomic uint32_t hosts_asleep;  /* of the hosts_waiting, those that sleep and are not woken */
    _Atomic uint32_t hosts_waiting; /* host threads that wait for a result */
    _Atomic bool stop;
    _Atomic bool host_active;  /* a host thread queued or helped since the standby worker's last
                                * look */
    _Atomic uint32_t standby;  /* index + 1 of the standby worker, or 0; the worker's futex */
    _Atomic uint64_t woken_at; /* the time at which a worker was last woken */
    _Atomic uint32_t wake_ns;  /* the shortest time that waking has taken */
};

/* After this many long commands of one stream, a less urgent stream gets a turn. */
#define WEIR__LONG_OPS_PER_TURN 16

/* worker.c: runs commands of `s` until the token is given away. The worker holds the token, or has
 * joined the running operator (`was` is not WEIR__WANTS_CORE). */
void weir__worker_run(struct weir__worker *w, struct weir__soft_stream *s, enum weir__want was);

/* Runs the kernel at the head. False if this worker has given the token away: another stream goes
 * first, no core is free, or another worker finishes the kernel. */
bool weir__worker_run_kernel(struct weir__worker *w, struct weir__soft_stream *s,
                             const struct weir__cmd *cmd);
/* Gets a core of that kind for the next block. False if none is free: the stream is in the
 * scheduler then. */
bool weir__worker_have_core(struct weir__worker *w, struct weir__soft_stream *s,
                            enum weir__core_kind kind);

/* parts.c: runs all blocks on this worker, until one fails. */
void weir__worker_run_alone(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd);
/* Opens the operator to other workers, or asks the scheduler for a gang's cores. */
void weir__worker_open_run(struct weir__worker *w, struct weir__soft_stream *s,
                           const struct weir__cmd *cmd, unsigned cores);
/* Runs blocks of the operator in s->run; run.running already counts this worker. True if all blocks
 * have completed: this worker has the token. False if other workers continue the operator. */
bool weir__worker_run_shared(struct weir__worker *w, struct weir__soft_stream *s);
static inline enum weir__core_kind weir__worker_kind(const struct weir__worker *w,
                                                     const struct weir__cmd *cmd)
{
    return weir__sched_kind(&w->cpu->soft.sched, cmd->engine);
}
static inline unsigned weir__worker_core(const struct weir__worker *w)
{
    return w->grant.kind == WEIR__CORE_VECTOR ? w->grant.vector[0] : w->grant.cube;
}

/* Call it before a short step that is not a kernel. False if another stream goes first: this one is
 * in the scheduler then, or at the end of w->mine. */
bool weir__worker_take_short_turn(struct weir__worker *w, struct weir__soft_stream *s, uint64_t ns);

/* meet.c: the first runs the collective at the head; the second departs from its rendezvous after
 * the part has run. False if this worker has given the token away. */
bool weir__worker_run_collective(struct weir__worker *w, struct weir__soft_stream *s,
                                 const struct weir__cmd *cmd);
bool weir__worker_leave_rendezvous(struct weir__worker *w, struct weir__soft_stream *s,
                                   const struct weir__cmd *cmd);

/* help.c: weir__driver_helping: a host thread executes work that it waits for. */
bool weir__cpu_hold(weir_device *dev, bool on);
void weir__cpu_help(weir_device *dev);
/* Executes the stream up to its command `seq` on the calling host thread, if the stream is the next
 * to be picked. */
void weir__cpu_help_with(struct weir__soft_stream *s, uint64_t seq);
/* Called before the helper's stream parks at the wait at its head: notes the streams that this wait
 * and the following waits wait for. */
void weir__helper_want(struct weir__worker *w, const struct weir__soft_stream *s,
                       struct weir__soft_stream *source);
/* True if the helper may run `cmd`, the next command of the stream. If false, the stream is now in
 * the scheduler. */
bool weir__worker_may_go_on(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd);

/* listen.c: write trace records for the command at the head of `s`. Call them only while a trace is
 * recorded. The first records one block of an operator that is recorded block by block. The second
 * records an operator that has completed, `behind` commands after the head; `from` is the time at
 * which it began, or 0 if its blocks have records of their own. The others record a callback and a
 * wait that has ended. */
void weir__worker_trace_part(const struct weir__worker *w, const struct weir__soft_stream *s,
                             const struct weir__cmd *cmd, unsigned index, uint64_t from);
void weir__worker_trace_op(struct weir__worker *w, const struct weir__soft_stream *s,
                           const struct weir__cmd *cmd, uint32_t behind, uint64_t from);
void weir__worker_trace_callback(struct weir__worker *w, const struct weir__soft_stream *s,
                                 uint64_t from);
void weir__worker_trace_wait(void *worker, struct weir__soft_stream *s,
                             const struct weir__soft_stream *source, uint64_t seq);
/* Returns the time at which the next command begins. */
static inline uint64_t weir__worker_ticks(const struct weir__worker *w)
{
    return w->ticks ? w->ticks : weir__trace_ticks();
}

/* pick.c: returns the next stream, from the run queues or the scheduler; NULL if none can start. */
struct weir__soft_stream *weir__worker_pick(struct weir__worker *w, enum weir__want *was);
/* True if another stream should go before the next long command of `s`. */
bool weir__worker_others_first(const struct weir__worker *w, const struct weir__soft_stream *s);
/* Returns how many workers the streams that want cores could use, at most `most`. Before sleeping
 * and before waking, `order` must be sequentially consistent. */
uint32_t weir__cpu_count_work(const struct weir__cpu *cpu, memory_order order, uint32_t most);
static inline bool weir__cpu_has_work(const struct weir__cpu *cpu, memory_order order)
{
    return weir__cpu_count_work(cpu, order, 1);
}
void weir__worker_release_core(struct weir__worker *w);

/* rest.c: waits for work, then picks like weir__worker_pick; may return NULL. */
struct weir__soft_stream *weir__worker_rest(struct weir__worker *w, enum weir__want *was);
static inline void weir__worker_be_attentive(struct weir__worker *w)
{
    if (!w->attentive && !w->helper)
        atomic_fetch_add(&w->cpu->attentive, 1);
    w->attentive = !w->helper;
}
/* Puts the stream back into its queue or the scheduler, its token with it. */
void weir__worker_give_turn(struct weir__worker *w, struct weir__soft_stream *s);
/* Moves the streams in w->mine and w->batch to queues from which other workers can take them. */
void weir__worker_share(struct weir__worker *w);
/* Ends the worker's attention and wakes other workers if there is work for them. */
void weir__worker_be_busy(struct weir__worker *w);
/* Yields the CPU between two streams while several host threads queue. */
void weir__worker_lets_hosts(struct weir__worker *w);
/* Pauses between two looks for work, and adapts how long the pauses are. */
void weir__worker_pause(struct weir__worker *w);
void weir__worker_adapt(struct weir__worker *w);
uint32_t weir__cpu_measure_patience(void);

/* threads.c: starts cpu->nworkers threads. returns WEIR_ENOMEM or WEIR_EUNAVAILABLE with no thread
 * left running. */
weir_status weir__cpu_start(struct weir__cpu *cpu);
void weir__cpu_stop(struct weir__cpu *cpu);
/* Wakes workers if there is work that no attentive worker will find. */
void weir__cpu_wake(struct weir__cpu *cpu);
/* The same, called by a host thread that has queued something. */
void weir__cpu_wake_for_host(struct weir__cpu *cpu);
/* The same, called by a host thread before it sleeps: counts it in cpu->hosts_asleep and gives its
 * CPU to the standby worker. */
void weir__cpu_host_sleeps(struct weir__cpu *cpu);
/* Called by that host thread when it runs again. The thread that woke it has decremented
 * cpu->hosts_asleep. */
void weir__cpu_host_is_up(void);

/* place.c: binds the worker to a CPU until it runs there. False if it may not be bound. */
bool weir__worker_bind(struct weir__worker *w, int to);
/* Called by the worker when it runs. */
void weir__worker_is_up(struct weir__worker *w);
/* True if a worker runs on CPU `at`. */
bool weir__cpu_has_worker(const struct weir__cpu *cpu, int at);
/* Called by the worker before it sleeps. */
void weir__worker_leaves_cpu(struct weir__worker *w);
/* If a woken worker has not run for too long, moves workers that do not run yet to idle CPUs. */
void weir__cpu_rescue(struct weir__cpu *cpu);

/* nodes.c: sets cpu->nodes on machines with several NUMA nodes. */
void weir__cpu_find_nodes(struct weir__cpu *cpu);
/* Chooses the nodes of a new segment of the pool, allocated for a request of `asked` bytes. No page
 * of it may have been touched. */
void weir__cpu_place_memory(weir_device *dev, void *address, size_t size, size_t asked);
/* The system call mbind, which tests replace. */
extern long (*weir__cpu_mbind)(void *address, size_t size, int mode, const uint64_t *nodes);
static inline unsigned weir__worker_node(const struct weir__worker *w)
{
    return atomic_load_explicit(&w->node, memory_order_relaxed);
}

/* Notes that a host thread is active and uses a hardware thread. */
void weir__cpu_host_acts(struct weir__cpu *cpu);
/* Returns the number of this device's workers that are awake or have been woken. */
unsigned weir__cpu_awake(const struct weir__cpu *cpu);
/* Adds n to the number of awake workers of all devices. */
void weir__cpu_count_awake(int n);
/* True if `wanted` hardware threads are left beside the awake workers of all devices. */
bool weir__cpu_has_spare(const struct weir__cpu *cpu, unsigned wanted);

/* topology.c: returns how many threads of this process can run at once, by its affinity and, with
 * hwloc, by cgroups. */
unsigned weir__cpu_hardware_threads(void);
/* The NUMA nodes of those hardware threads. count == 0: not known. */
#define WEIR__MAX_NODES 64
struct weir__cpu_nodes {
    unsigned count;
    uint64_t system;             /* bit n: the system's node n is one of them */
    uint8_t of_cpu[CPU_SETSIZE]; /* the node of each CPU, 0 to count - 1 */
};
const struct weir__cpu_nodes *weir__cpu_nodes(void);
/* The processor's name for people. */
void weir__cpu_model(char *text, size_t size);

#endif
