/* The `cpu` device: host threads that run the blocks of a soft device. */
#ifndef WEIR_CPU_CPU_H
#define WEIR_CPU_CPU_H

#include "base/thread.h"
#include "soft/soft.h"

struct weir__cpu;

#define WEIR__MOST_WANTED 16

/* A thread that runs blocks. Only that thread touches it. */
struct weir__worker {
    _Alignas(WEIR__LINE) struct weir__cpu *cpu;
    unsigned index;
    pthread_t thread;
    struct weir__grant grant;     /* the cores it holds */
    struct weir__runq *queue;     /* its own; NULL: the device has none, or it is a helper */
    struct weir__soft_list mine;  /* streams it made ready and has not shown to others */
    struct weir__soft_list batch; /* streams it took from its queue and has not run yet */
    uint32_t short_ns;            /* time of short commands since the last turn, */
    uint32_t short_work_ns;       /* and how much of it was work, not overhead */
    uint32_t parks;               /* and how many streams had to wait meanwhile */
    uint32_t commands;            /* run since it last looked for work */
    uint32_t patience;            /* pauses between two looks for work */
    uint32_t long_ops;            /* long commands since the last pick */
    uint32_t picks, aged_picks;
    uint32_t seen_helped; /* cpu->helped when it last looked for work */
    bool attentive;       /* counted in cpu->attentive (rest.c) */
    bool at_work;         /* its last commands were work: short ones do not make it attentive */
    /* place.c: read and written by others, too. */
    _Atomic int runs_on; /* the CPU; negative while it sleeps, CPU_SETSIZE before it starts */
    _Atomic bool bound;  /* to one CPU, for a moment */
    /* The node of its CPU, or of its last one: 0 where there is but one (nodes.c). */
    _Atomic uint8_t node;
    /* Of the helper alone (help.c): a worker without a thread, which picks nothing by itself. */
    bool helper;
    uint32_t part_ns;    /* the longest part of a collective that it runs */
    uint64_t help_until; /* when it returns; 0: the clock was not read yet */
    struct weir__soft_stream *wanted[WEIR__MOST_WANTED]; /* that its streams wait for */
    uint32_t nwanted;
    uint64_t random; /* for jitter */
    uint64_t ticks;  /* while a trace is recorded: when its last command ended, if it has done
                      * nothing since; else 0 */
    void *local;     /* weir_block.local */
};

struct weir__cpu {
    struct weir__soft_device soft;
    struct weir__worker *workers;
    unsigned nworkers;
    unsigned hardware;                   /* threads the machine runs at once */
    uint64_t jitter;                     /* 0: none */
    uint32_t most_patience;              /* of a worker */
    cpu_set_t cpus;                      /* that workers may run on; empty: not known */
    const struct weir__cpu_nodes *nodes; /* that their memory is at; NULL: one is all there is */
    struct weir__worker helper;          /* for one host thread at a time (help.c) */
    _Atomic bool helper_taken;
    _Atomic uint32_t
        helped; /* times that a host thread ran all it waited for; the helper's writes */
    /* Sleeping and waking: rest.c has the rules. */
    _Alignas(WEIR__LINE) _Atomic uint32_t wake_word;
    _Atomic uint32_t sleepers;      /* workers asleep, and in the upper half those woken */
    _Atomic uint32_t attentive;     /* workers that are attentive */
    _Atomic uint32_t hosts_asleep;  /* host threads of hosts_waiting that sleep and are not woken */
    _Atomic uint32_t hosts_waiting; /* host threads that wait for a result */
    _Atomic bool stop;
    _Atomic bool host_active;  /* a host queued or helped since the worker that stands by looked */
    _Atomic uint32_t standby;  /* the worker that stands by and sleeps on it: index + 1; or 0 */
    _Atomic uint64_t woken_at; /* when a worker was last woken, */
    _Atomic uint32_t wake_ns;  /* and how long waking takes at best */
};

/* After so many long commands of one stream, a less urgent stream gets a turn. */
#define WEIR__LONG_OPS_PER_TURN 16

/* worker.c: runs commands of `s`, whose token the worker has (or whose operator it has
 * joined), until the token is given away. */
void weir__worker_run(struct weir__worker *w, struct weir__soft_stream *s, enum weir__want was);

/* Runs the kernel at the head. False if this worker no longer has the token: other streams go
 * first, cores are short, or other workers finish the kernel. */
bool weir__worker_run_kernel(struct weir__worker *w, struct weir__soft_stream *s,
                             const struct weir__cmd *cmd);
/* Gets a core of that kind for the next block. False: none is free, and the stream is with the
 * scheduler. */
bool weir__worker_have_core(struct weir__worker *w, struct weir__soft_stream *s,
                            enum weir__core_kind kind);

/* parts.c: runs all blocks on this worker, until one fails. */
void weir__worker_run_alone(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd);
/* Opens the operator to other workers, or asks for a gang's cores. */
void weir__worker_open_run(struct weir__worker *w, struct weir__soft_stream *s,
                           const struct weir__cmd *cmd, unsigned cores);
/* Runs blocks of the operator in s->run, in which this worker counts as running. True if the
 * operator is over and this worker has the token; false if others go on with it. */
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

/* Before a short step that is not a kernel: false if other streams go first and this one is with
 * the scheduler, or behind those that this worker keeps. */
bool weir__worker_take_short_turn(struct weir__worker *w, struct weir__soft_stream *s, uint64_t ns);

/* meet.c: runs the collective at the head; leaves its rendezvous after the part has run. False if
 * this worker no longer has the token. */
bool weir__worker_run_collective(struct weir__worker *w, struct weir__soft_stream *s,
                                 const struct weir__cmd *cmd);
bool weir__worker_leave_rendezvous(struct weir__worker *w, struct weir__soft_stream *s,
                                   const struct weir__cmd *cmd);

/* help.c: a host thread that waits for a plan executes it: see weir__driver_helping. */
bool weir__cpu_hold(weir_device *dev, bool on);
void weir__cpu_help(weir_device *dev);
/* The same for a stream that waits to be picked, if it is next, up to its command `seq`. */
void weir__cpu_help_with(struct weir__soft_stream *s, uint64_t seq);
/* The helper's stream is about to park at the wait at its head: notes whom it waits for, there and
 * in the waits that follow. */
void weir__helper_want(struct weir__worker *w, const struct weir__soft_stream *s,
                       struct weir__soft_stream *source);
/* Whether the helper may run `cmd`, the next command of the stream. If not, the stream is now with
 * the scheduler. */
bool weir__worker_may_go_on(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd);

/* listen.c: while a trace is recorded, about the command at the head of `s`. A block of an
 * operator in parts; an operator that is over, whole since `from` or, with 0, in parts, so many
 * commands behind the head; a callback; a wait that is passed. */
void weir__worker_trace_part(const struct weir__worker *w, const struct weir__soft_stream *s,
                             const struct weir__cmd *cmd, unsigned index, uint64_t from);
void weir__worker_trace_op(struct weir__worker *w, const struct weir__soft_stream *s,
                           const struct weir__cmd *cmd, uint32_t behind, uint64_t from);
void weir__worker_trace_callback(struct weir__worker *w, const struct weir__soft_stream *s,
                                 uint64_t from);
void weir__worker_trace_wait(void *worker, struct weir__soft_stream *s,
                             const struct weir__soft_stream *source, uint64_t seq);
/* When the next command begins. */
static inline uint64_t weir__worker_ticks(const struct weir__worker *w)
{
    return w->ticks ? w->ticks : weir__trace_ticks();
}

/* pick.c: the next stream, from the run queues or from the scheduler; NULL if none can start. */
struct weir__soft_stream *weir__worker_pick(struct weir__worker *w, enum weir__want *was);
/* Whether another stream should go before the next long command of `s`. */
bool weir__worker_others_first(const struct weir__worker *w, const struct weir__soft_stream *s);
/* How many workers the streams that want cores could use, `most` at most. Before sleeping and
 * before waking `order` is sequentially consistent. */
uint32_t weir__cpu_count_work(const struct weir__cpu *cpu, memory_order order, uint32_t most);
static inline bool weir__cpu_has_work(const struct weir__cpu *cpu, memory_order order)
{
    return weir__cpu_count_work(cpu, order, 1);
}
void weir__worker_release_core(struct weir__worker *w);

/* rest.c: the same after waiting a while; may return NULL. */
struct weir__soft_stream *weir__worker_rest(struct weir__worker *w, enum weir__want *was);
static inline void weir__worker_be_attentive(struct weir__worker *w)
{
    if (!w->attentive && !w->helper)
        atomic_fetch_add(&w->cpu->attentive, 1);
    w->attentive = !w->helper;
}
/* Puts the stream back into its queue or the scheduler, its token with it. */
void weir__worker_give_turn(struct weir__worker *w, struct weir__soft_stream *s);
/* Makes the streams that this worker keeps available to the others. */
void weir__worker_share(struct weir__worker *w);
void weir__worker_be_busy(struct weir__worker *w);
/* Between two streams, while several host threads queue: they get a CPU. */
void weir__worker_lets_hosts(struct weir__worker *w);
/* Between two looks for work, and the choice of how long that is. */
void weir__worker_pause(struct weir__worker *w);
void weir__worker_adapt(struct weir__worker *w);
uint32_t weir__cpu_measure_patience(void);

/* threads.c: starts cpu->nworkers threads. returns WEIR_ENOMEM or WEIR_EUNAVAILABLE, none started.
 */
weir_status weir__cpu_start(struct weir__cpu *cpu);
void weir__cpu_stop(struct weir__cpu *cpu);
/* Wakes workers if there is work that nobody is about to find. */
void weir__cpu_wake(struct weir__cpu *cpu);
/* The same for a host thread: one that has queued something, one that goes to sleep. */
void weir__cpu_wake_for_host(struct weir__cpu *cpu);
void weir__cpu_host_sleeps(struct weir__cpu *cpu);
/* It runs again; cpu->hosts_asleep was counted down by whoever woke it. */
void weir__cpu_host_is_up(void);

/* place.c: binds the worker to a CPU until it is up there. False: it may not. */
bool weir__worker_bind(struct weir__worker *w, int to);
/* The worker runs now, or is about to sleep. */
void weir__worker_is_up(struct weir__worker *w);
bool weir__cpu_has_worker(const struct weir__cpu *cpu, int at);
void weir__worker_leaves_cpu(struct weir__worker *w);
/* If a worker that was woken is late, moves those that are not up to idle CPUs. */
void weir__cpu_rescue(struct weir__cpu *cpu);

/* nodes.c: where memory lies on a machine with several nodes. Sets cpu->nodes. */
void weir__cpu_find_nodes(struct weir__cpu *cpu);
/* The pool has a new segment, for a request of so many bytes: nobody has touched it yet. */
void weir__cpu_place_memory(weir_device *dev, void *address, size_t size, size_t asked);
/* The call of the system, which tests replace. */
extern long (*weir__cpu_mbind)(void *address, size_t size, int mode, const uint64_t *nodes);
static inline unsigned weir__worker_node(const struct weir__worker *w)
{
    return atomic_load_explicit(&w->node, memory_order_relaxed);
}

/* A host thread does something on a hardware thread of its own. */
void weir__cpu_host_acts(struct weir__cpu *cpu);
/* Workers that run or are about to. */
unsigned weir__cpu_awake(const struct weir__cpu *cpu);
/* So many workers more, or fewer, are awake; whether so many hardware threads are left beside those
 * of all devices. */
void weir__cpu_count_awake(int n);
bool weir__cpu_has_spare(const struct weir__cpu *cpu, unsigned wanted);

/* topology.c: threads that may run at once, by affinity (hwloc where it is built in). */
unsigned weir__cpu_hardware_threads(void);
/* The NUMA nodes of those threads. 0 of them: not known. */
#define WEIR__MAX_NODES 64
struct weir__cpu_nodes {
    unsigned count;
    uint64_t system;             /* bit n: it is the system's node n */
    uint8_t of_cpu[CPU_SETSIZE]; /* 0 to count - 1 */
};
const struct weir__cpu_nodes *weir__cpu_nodes(void);
/* The processor's name for people. */
void weir__cpu_model(char *text, size_t size);

#endif
