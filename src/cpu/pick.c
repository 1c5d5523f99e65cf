/* Which stream a worker runs next.
 *
 * A worker looks in three places: its own run queue, the other workers' run queues, and the
 * scheduler. The scheduler contains the streams of all other priorities than the default, operators
 * that more workers may join, and gangs. The order is:
 *   1. streams more urgent than the default priority;
 *   2. its own queue and the scheduler's streams of the default priority, in turns;
 *   3. other workers' queues (stealing), those of its NUMA node first;
 *   4. less urgent streams.
 * Every 64th pick is an aged pick, which looks at the scheduler's oldest stream or steals first. So
 * no stream waits for ever: neither a less urgent one, nor one in the queue of a busy worker.
 *
 * A worker keeps its core from one stream of a run queue to the next. It takes the scheduler's lock
 * only to get the first core, and to return it before it picks from the scheduler.
 */
#include "cpu/cpu.h"

enum {
    DEFAULT_BIT = -WEIR__PRIORITY_MOST, /* of the default priority in sched->ready */
    PICKS_PER_AGED_PICK = 64,
    PICKS_PER_BALANCE = 16,
};
#define MORE_URGENT ((1u << DEFAULT_BIT) - 1)

/* An operator in the scheduler may have work for all workers, so it counts as `most`. */
uint32_t weir__cpu_count_work(const struct weir__cpu *cpu, memory_order order, uint32_t most)
{
    const struct weir__soft_device *soft = &cpu->soft;
    uint32_t n = atomic_load_explicit(&soft->sched.ready, order) ? most : 0;

    for (unsigned i = 0; i < soft->nrunqs && n < most; i++)
        n += atomic_load_explicit(&soft->runqs[i].filled, order);
    return n < most ? n : most;
}

bool weir__worker_others_first(const struct weir__worker *w, const struct weir__soft_stream *s)
{
    uint32_t ready = atomic_load_explicit(&w->cpu->soft.sched.ready, memory_order_relaxed);
    unsigned mine = weir__soft_priority(s);

    if (!w->long_ops) /* a stream that was picked runs at least one long command */
        return false;
    if (weir__unlikely(ready) && (unsigned)__builtin_ctz(ready) <= mine)
        return true;
    if (w->queue && mine == DEFAULT_BIT && weir__runq_has(w->queue))
        return true;
    return weir__unlikely(mine > DEFAULT_BIT || w->long_ops >= WEIR__LONG_OPS_PER_TURN) &&
           weir__cpu_has_work(w->cpu, memory_order_relaxed);
}

void weir__worker_release_core(struct weir__worker *w)
{
    struct weir__sched *sched = &w->cpu->soft.sched;

    if (w->grant.kind == WEIR__CORE_NONE)
        return;
    weir__spin_lock(&sched->lock);
    weir__sched_release(sched, &w->grant);
    weir__spin_unlock(&sched->lock);
}

static struct weir__soft_stream *from_scheduler(struct weir__worker *w, enum weir__want *was,
                                                bool aged)
{
    struct weir__sched *sched = &w->cpu->soft.sched;
    enum weir__want tried; /* written by the pick even if it finds no stream */
    struct weir__soft_stream *s;

    if (!atomic_load_explicit(&sched->ready, memory_order_relaxed) && !w->grant.kind)
        return NULL;
    weir__spin_lock(&sched->lock);
    weir__sched_release(sched, &w->grant);
    s = weir__sched_pick(sched, &w->grant, &tried, aged);
    weir__spin_unlock(&sched->lock);
    if (s)
        *was = tried;
    return s;
}

/* A worker that runs short commands takes all streams of its queue at once, so that the queue's
 * cache line moves once. Before a long command it puts back those it has not run
 * (weir__worker_share). */
static struct weir__soft_stream *from_own(struct weir__worker *w)
{
    if (!w->attentive)
        return weir__runq_take(w->queue);
    weir__runq_take_all(w->queue, &w->batch);
    return weir__soft_take(&w->batch);
}

/* Returns the longest queue of the other workers if it has more than `own` streams, else NULL. With
 * `near`, only queues of workers on this worker's NUMA node count. */
static struct weir__runq *longest_queue(const struct weir__worker *w, uint32_t own, bool near)
{
    const struct weir__cpu *cpu = w->cpu;
    const struct weir__soft_device *soft = &cpu->soft;
    struct weir__runq *longest = NULL;
    uint32_t most = own;
    unsigned victim = w->index;

    for (unsigned i = 1; i < soft->nrunqs; i++) {
        uint32_t has;

        victim = victim + 1 == soft->nrunqs ? 0 : victim + 1;
        if (near && weir__worker_node(&cpu->workers[victim]) != weir__worker_node(w))
            continue;
        has = weir__runq_has(&soft->runqs[victim]);
        if (has > most) {
            most = has;
            longest = &soft->runqs[victim];
        }
    }
    return longest;
}

/* Takes a stream from the longest queue that has more than `own` streams. So all streams advance at
 * about the same rate, and no stream finishes late because it shared a worker with many others.
 * Queues of this worker's NUMA node come first, because their streams use memory of that node. Aged
 * picks ignore nodes: all workers of another node may be stuck in long commands. */
static struct weir__soft_stream *steal(struct weir__worker *w, uint32_t own, bool aged)
{
    struct weir__runq *longest = NULL;

    if (weir__unlikely(w->cpu->nodes) && !aged)
        longest = longest_queue(w, own, true);
    if (!longest)
        longest = longest_queue(w, own, false);
    return longest ? weir__runq_take(longest) : NULL;
}

struct weir__soft_stream *weir__worker_pick(struct weir__worker *w, enum weir__want *was)
{
    struct weir__soft_device *soft = &w->cpu->soft;
    bool aged = w->long_ops >= WEIR__LONG_OPS_PER_TURN || ++w->picks % PICKS_PER_AGED_PICK == 0;
    struct weir__soft_stream *s = NULL;
    uint32_t ready;

    w->long_ops = 0;
    *was = WEIR__WANTS_CORE; /* true of every stream in a run queue */
    if (!w->queue)
        return from_scheduler(w, was, aged);
    if (weir__unlikely(atomic_load_explicit(&soft->sched.gangs, memory_order_relaxed))) {
        weir__runqs_empty(soft);
        return from_scheduler(w, was, aged);
    }
    ready = atomic_load_explicit(&soft->sched.ready, memory_order_relaxed);
    if (weir__unlikely(aged)) {
        if (ready && ++w->aged_picks % 2)
            s = from_scheduler(w, was, true);
        s = s ? s : steal(w, 0, true);
    } else if (w->at_work && w->picks % PICKS_PER_BALANCE == 0 &&
               (s = steal(w, weir__runq_has(w->queue) + 1, false))) {
        return s;
    } else if (weir__unlikely(ready & MORE_URGENT) ||
               weir__unlikely(ready & 1u << DEFAULT_BIT && w->picks % 2)) {
        s = from_scheduler(w, was, false);
    }
    if (s)
        return s;
    if (!(s = from_own(w)) && (!(ready & 1u << DEFAULT_BIT) || !(s = from_scheduler(w, was, aged))))
        s = steal(w, 0, false);
    return s || !ready ? s : from_scheduler(w, was, aged);
}
