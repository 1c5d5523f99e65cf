/* The machine's own costs. No runtime can be faster than these. */
#include "../collective_sizes.h"
#include "../dag_gen.h"
#include "../harness.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    CHEAP_CALLS = 200000,
    CLOCK_CALLS = 20000,
    RING_ITEMS = 200000,
    RING_SIZE = 1024, /* a power of two */
    FORKS = 5000,
    FORK_WIDTH = 8,
    DAG_ROUNDS = 20,
    WAKES = 20,
};

#define ALIGNED _Alignas(64)

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static double hop_once(void *ctx)
{
    (void)ctx;
    return bench_hop_ns();
}

static void pingpong(struct bench *b)
{
    bench_sample(b, "machine: cache-line hop", "ns", 3, hop_once, NULL);
}

/* ---- a single-producer single-consumer ring, both sides spinning ---- */

struct ring {
    ALIGNED atomic_long head;
    ALIGNED atomic_long tail;
    ALIGNED long items[RING_SIZE];
    ALIGNED double ns;
};

static void ring_side(void *ctx, int who)
{
    struct ring *r = ctx;
    double start = bench_now_ns();
    long other = 0;

    /* Each side remembers the other's index as last read, and reads it again only
     * when the ring looks full or empty by that index. */
    for (long i = 0; i < RING_ITEMS; i++) {
        if (who == 0) {
            while (i - other >= RING_SIZE)
                other = atomic_load_explicit(&r->tail, memory_order_acquire);
            r->items[i & (RING_SIZE - 1)] = i;
            atomic_store_explicit(&r->head, i + 1, memory_order_release);
        } else {
            while (other <= i)
                other = atomic_load_explicit(&r->head, memory_order_acquire);
            if (r->items[i & (RING_SIZE - 1)] != i)
                abort();
            atomic_store_explicit(&r->tail, i + 1, memory_order_release);
        }
    }
    if (who == 1)
        r->ns = (bench_now_ns() - start) / RING_ITEMS;
}

static double ring_once(void *ctx)
{
    struct ring *r = ctx;

    atomic_store(&r->head, 0);
    atomic_store(&r->tail, 0);
    bench_on_two(ring_side, r);
    return r->ns;
}

static void chain(struct bench *b)
{
    static struct ring ring;

    bench_sample(b, "machine: ring between two cores", "ns", 3, ring_once, &ring);
}

/* ---- fork of 8 and join: four jobs on each of two spinning threads ---- */

struct fork_state {
    ALIGNED atomic_int go;
    ALIGNED atomic_int done;
    ALIGNED double ns;
};

static atomic_int jobs_done[2];

static void fork_side(void *ctx, int who)
{
    struct fork_state *f = ctx;
    double start = bench_now_ns();

    for (int i = 1; i <= FORKS; i++) {
        if (who == 0)
            atomic_store_explicit(&f->go, i, memory_order_release);
        else
            while (atomic_load_explicit(&f->go, memory_order_acquire) != i)
                continue;
        for (int job = 0; job < FORK_WIDTH / 2; job++)
            atomic_fetch_add_explicit(&jobs_done[who], 1, memory_order_relaxed);
        if (who == 1)
            atomic_store_explicit(&f->done, i, memory_order_release);
        else
            while (atomic_load_explicit(&f->done, memory_order_acquire) != i)
                continue;
    }
    if (who == 0)
        f->ns = (bench_now_ns() - start) / FORKS;
}

static double fork_once(void *ctx)
{
    struct fork_state f = {.ns = 0};

    (void)ctx;
    bench_on_two(fork_side, &f);
    return f.ns;
}

static void fork_join(struct bench *b)
{
    bench_sample(b, "machine: two threads spinning", "ns", 3, fork_once, NULL);
}

/* ---- a static graph of empty nodes, ordered by flags, split between the threads ---- */

struct dag {
    int threads;
    int deps[DAG_NODES][2];
    ALIGNED atomic_int done[DAG_NODES]; /* the round a node was last done in */
    ALIGNED atomic_int rounds_done;
    double ns;
};

/* A node is a call through a function pointer, unknown at compile time. */
static void empty_node(void)
{
}
static void (*volatile run_node)(void) = empty_node;

static void dag_side(void *ctx, int who)
{
    struct dag *d = ctx;
    double start = bench_now_ns();

    for (int round = 1; round <= DAG_ROUNDS; round++) {
        for (int i = who; i < DAG_NODES; i += d->threads) {
            for (int k = 0; k < 2; k++)
                while (i &&
                       atomic_load_explicit(&d->done[d->deps[i][k]], memory_order_acquire) != round)
                    continue;
            run_node();
            atomic_store_explicit(&d->done[i], round, memory_order_release);
        }
        atomic_fetch_add(&d->rounds_done, 1);
        while (atomic_load(&d->rounds_done) < d->threads * round)
            relax();
    }
    if (who == 0)
        d->ns = (bench_now_ns() - start) / DAG_ROUNDS / DAG_NODES;
}

static double dag_once(void *ctx)
{
    struct dag *d = ctx;

    memset(d->done, 0, sizeof d->done);
    atomic_store(&d->rounds_done, 0);
    if (d->threads == 1)
        dag_side(d, 0);
    else
        bench_on_two(dag_side, d);
    return d->ns;
}

static void dag_flags(struct bench *b)
{
    static struct dag dag;

    dag.threads = b->threads;
    dag_generate(dag.deps);
    bench_sample(b, "machine: static flags", "ns", 3, dag_once, &dag);
}

/* ---- single instructions and calls ---- */

static double rmw_once(void *ctx)
{
    static atomic_long counter;
    double start = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < CHEAP_CALLS; i++)
        atomic_fetch_add(&counter, 1);
    return (bench_now_ns() - start) / CHEAP_CALLS;
}

static long count_up(long x)
{
    return x + 1;
}
static long (*volatile indirect)(long) = count_up;

static double indirect_once(void *ctx)
{
    double start = bench_now_ns();
    long x = 0;

    (void)ctx;
    for (int i = 0; i < CHEAP_CALLS; i++)
        x = indirect(x);
    return (bench_now_ns() - start) / CHEAP_CALLS;
}

static double clock_once(void *ctx)
{
    double start = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < CLOCK_CALLS; i++)
        bench_now_ns();
    return (bench_now_ns() - start) / CLOCK_CALLS;
}

static void limits(struct bench *b)
{
    bench_sample(b, "machine: atomic read-modify-write", "ns", 3, rmw_once, NULL);
    bench_sample(b, "machine: indirect call", "ns", 3, indirect_once, NULL);
    bench_sample(b, "machine: clock_gettime", "ns", 3, clock_once, NULL);
}

/* ---- waking a thread that sleeps on the other core ---- */

static void futex(atomic_int *word, int op, int value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

struct wake {
    ALIGNED atomic_int word;
    atomic_int asleep; /* the sleeper is about to sleep for this value */
    double sent[WAKES], got[WAKES];
};

static void wake_side(void *ctx, int who)
{
    struct wake *w = ctx;
    struct timespec parked = {.tv_nsec = 1000000};

    for (int i = 0; i < WAKES; i++) {
        if (who == 1) {
            atomic_store(&w->asleep, i + 1);
            while (atomic_load(&w->word) == i)
                futex(&w->word, FUTEX_WAIT, i);
            w->got[i] = bench_now_ns();
        } else {
            while (atomic_load(&w->asleep) != i + 1)
                relax();
            nanosleep(&parked, NULL);
            w->sent[i] = bench_now_ns();
            atomic_store(&w->word, i + 1);
            futex(&w->word, FUTEX_WAKE, 1);
        }
    }
}

static double wake_once(void *ctx)
{
    struct wake w = {.word = 0};

    (void)ctx;
    bench_on_two(wake_side, &w);
    for (int i = 0; i < WAKES; i++)
        w.got[i] -= w.sent[i];
    return bench_quantile(w.got, WAKES, 0.5);
}

static void limits_wake(struct bench *b)
{
    bench_sample(b, "machine: futex wake of a parked thread", "ns", 1, wake_once, NULL);
}

/* ---- arithmetic and memory ---- */

static double fma_once(void *ctx)
{
    return bench_fma_gflops(*(const int *)ctx);
}

static void fma_peak(struct bench *b)
{
    bench_sample(b, "machine: FMA peak", "GFLOP/s", 3, fma_once, &b->threads);
}

/* The traffic of c = a + b on 1000x1000 f32: 12 MB, half of it read. */
#define COPY_BYTES ((size_t)6000000)

struct copy {
    int threads, rounds;
    size_t bytes; /* of all threads together */
    char *from, *to;
    double start[2], end[2];
};

static void copy_side(void *ctx, int who)
{
    struct copy *c = ctx;
    size_t bytes = c->bytes / (size_t)c->threads;

    c->start[who] = bench_now_ns();
    for (int i = 0; i < c->rounds; i++)
        memcpy(c->to + bytes * (size_t)who, c->from + bytes * (size_t)who, bytes);
    c->end[who] = bench_now_ns();
}

static double copy_once(void *ctx)
{
    struct copy *c = ctx;
    double start, end;

    if (c->threads == 1) {
        copy_side(c, 0);
        return 2.0 * c->rounds * (double)c->bytes / (c->end[0] - c->start[0]);
    }
    bench_on_two(copy_side, c);
    start = c->start[0] < c->start[1] ? c->start[0] : c->start[1];
    end = c->end[0] > c->end[1] ? c->end[0] : c->end[1];
    return 2.0 * c->rounds * (double)c->bytes / (end - start);
}

static void sample_copy(struct bench *b, size_t bytes, int rounds)
{
    struct copy c = {
        .threads = b->threads,
        .rounds = rounds,
        .bytes = bytes,
        .from = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095),
        .to = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095),
    };

    if (!c.from || !c.to) {
        bench_skip(b, "out of memory");
        return;
    }
    memset(c.from, 1, bytes);
    memset(c.to, 1, bytes);
    bench_sample(b, "machine: memcpy", "GB/s", 3, copy_once, &c);
}

static void run_copy(struct bench *b)
{
    sample_copy(b, COPY_BYTES, 10);
}

/* Each of two threads copies the bytes of one rank. */
static void copy_collective(struct bench *b)
{
    sample_copy(b, 2 * bench_collective_bytes(b->work), bench_collective_calls(b->work));
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        {"pingpong", 2, pingpong},
        {"chain", 2, chain},
        {"fork_join_8", 2, fork_join},
        {"dag_1000_t1", 1, dag_flags},
        {"dag_1000_t2", 2, dag_flags},
        {"limits", 1, limits},
        {"limits_wake", 2, limits_wake},
        {"matmul_f32_1000_t1", 1, fma_peak},
        {"matmul_f32_1000_t2", 2, fma_peak},
        {"add_1000x1000_t1", 1, run_copy},
        {"add_1000x1000_t2", 2, run_copy},
        {"all_reduce_4k", 2, copy_collective},
        {"all_reduce_64k", 2, copy_collective},
        {"all_reduce_1m", 2, copy_collective},
        {"all_reduce_16m", 2, copy_collective},
        {"all_reduce_64m", 2, copy_collective},
        {"reduce_scatter_4k", 2, copy_collective},
        {"reduce_scatter_64k", 2, copy_collective},
        {"reduce_scatter_1m", 2, copy_collective},
        {"reduce_scatter_16m", 2, copy_collective},
        {"reduce_scatter_64m", 2, copy_collective},
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
