/* 64 independent chains of short operators, queued round robin: the cost of switching between
 * streams, and how it scales with cores and with host threads that queue.
 *
 * b->work is chains_64_<us>us_t<cores>. */
#include "bench/weir/works.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHAINS = BENCH_CHAINS, MOST_SUBMITTERS = 8 };

struct chains {
    const struct bench *b;
    weir_device *dev;
    weir_stream *streams[CHAINS];
    weir_plan *plan;
    weir_launch task;
    double ns;
    int tasks; /* of a chain, in one sample */
    int submitters;
    atomic_int ready;
    atomic_bool go;
};

struct submitter {
    struct chains *c;
    int index;
    pthread_t thread;
};

static weir_status spin(const void *args, const weir_block *block)
{
    (void)block;
    bench_spin_ns(*(const double *)args);
    return WEIR_OK;
}

/* Queues the chains of one host thread, round robin. */
static weir_status queue_share(const struct chains *c, int index)
{
    int first = CHAINS * index / c->submitters, end = CHAINS * (index + 1) / c->submitters;
    weir_status st = WEIR_OK;

    for (int i = 0; i < c->tasks && !st; i++)
        for (int k = first; k < end && !st; k++)
            st = weir_launch_submit(c->streams[k], &c->task);
    return st;
}

static void *submit_share(void *arg)
{
    const struct submitter *s = arg;

    atomic_fetch_add(&s->c->ready, 1);
    while (!atomic_load_explicit(&s->c->go, memory_order_acquire))
        bench_yield();
    weir__bench_must(s->c->b, queue_share(s->c, s->index));
    return NULL;
}

static double eager_once(void *ctx)
{
    struct chains *c = ctx;
    double start = bench_now_ns();

    weir__bench_must(c->b, queue_share(c, 0));
    weir__bench_must(c->b, weir_device_sync(c->dev));
    return (bench_now_ns() - start) / (CHAINS * c->tasks);
}

/* The threads are started before the clock. */
static double submitters_once(void *ctx)
{
    struct submitter all[MOST_SUBMITTERS];
    struct chains *c = ctx;
    double start;

    atomic_store(&c->ready, 0);
    atomic_store(&c->go, false);
    for (int i = 1; i < c->submitters; i++) {
        all[i] = (struct submitter){.c = c, .index = i};
        if (pthread_create(&all[i].thread, NULL, submit_share, &all[i])) {
            bench_skip(c->b, "no thread to submit from");
            _Exit(0);
        }
    }
    while (atomic_load(&c->ready) < c->submitters - 1)
        bench_yield();
    start = bench_now_ns();
    atomic_store_explicit(&c->go, true, memory_order_release);
    weir__bench_must(c->b, queue_share(c, 0));
    for (int i = 1; i < c->submitters; i++)
        pthread_join(all[i].thread, NULL);
    weir__bench_must(c->b, weir_device_sync(c->dev));
    return (bench_now_ns() - start) / (CHAINS * c->tasks);
}

static double plan_once(void *ctx)
{
    struct chains *c = ctx;
    double start = bench_now_ns();

    weir__bench_must(c->b, weir_plan_run(c->plan, c->streams[0], NULL, 0, NULL, 0));
    weir__bench_must(c->b, weir_stream_sync(c->streams[0]));
    return (bench_now_ns() - start) / (CHAINS * BENCH_CHAIN_TASKS);
}

/* The node is weir's own "Kernel", which spins for the same time. */
static weir_tensor *add_task(const struct chains *c, weir_graph *g, weir_tensor *last)
{
    const weir_attr us = {.name = "us", .kind = WEIR_ATTR_FLOAT, .value.f = c->ns / 1000};
    weir_tensor *out;

    weir__bench_must(
        c->b, weir_graph_add(g, "Kernel", NULL, &us, c->ns > 0, &last, last != NULL, &out, 1));
    weir_tensor_release(last);
    return out;
}

static void make_plan(struct chains *c)
{
    weir_tensor *last[CHAINS] = {NULL};
    weir_graph *g;

    weir__bench_must(c->b, weir_graph_create(c->dev, &g));
    for (int i = 0; i < BENCH_CHAIN_TASKS; i++)
        for (int k = 0; k < CHAINS; k++) {
            char tag[24];

            snprintf(tag, sizeof tag, "chain %d", k);
            weir__bench_must(c->b, weir_scope_push_stream(tag, 0));
            last[k] = add_task(c, g, last[k]);
            weir__bench_must(c->b, weir_scope_pop(WEIR_SCOPE_STREAM));
        }
    for (int k = 0; k < CHAINS; k++)
        weir_tensor_release(last[k]);
    weir__bench_must(c->b, weir_graph_compile(g, NULL, &c->plan));
    weir_graph_destroy(g);
}

void weir__bench_chains(struct bench *b)
{
    static struct chains c;
    int us = 0, cores = 1;

    sscanf(b->work, "chains_64_%dus_t%d", &us, &cores);
    c.b = b;
    c.dev = weir__bench_open(b, cores);
    c.ns = us * 1000.0;
    c.tasks = us ? BENCH_CHAIN_TASKS : 5 * BENCH_CHAIN_TASKS;
    c.task = (weir_launch){.name = "task", .work_ns = us ? (uint64_t)us * 1000 : 1};
    if (us) {
        c.task.fn = spin;
        c.task.args = &c.ns;
        c.task.args_size = sizeof c.ns;
    }
    for (int i = 0; i < CHAINS; i++)
        c.streams[i] = weir__bench_stream(b, c.dev);
    c.submitters = 1;
    bench_sample(b, "weir", "ns", 3, eager_once, &c);
    c.submitters = MOST_SUBMITTERS;
    bench_sample(b, "weir: 8 submitters", "ns", 3, submitters_once, &c);
    make_plan(&c);
    bench_sample(b, "weir: plan", "ns", 3, plan_once, &c);
}
