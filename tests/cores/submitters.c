/* 64 chains of tasks that several host threads queue, on a virtual machine of 16 CPUs that has a
 * worker for each: threads that queue get a CPU soon, so they take no longer than one thread. */
#include "base/thread.h"
#include "cores/machine.h"
#include "cores/vpause.h"
#include "cpu/cpu.h"
#include "device/per_stream.h"
#include "harness/test.h"
#include "weir/weir.h"

enum {
    CPUS = 16,
    CHAINS = 64,
    TASKS = 100,
    SUBMITTERS = 8,
    RUNS = 3,
    SUBMIT_NS = 100, /* what queueing a task takes a host thread */
};

struct chains {
    weir_device *dev;
    weir_stream *streams[CHAINS];
    uint64_t ns; /* of a task */
    unsigned submitters, ready;
    bool go;
};

struct submitter {
    struct chains *c;
    unsigned index;
    pthread_t thread;
};

static unsigned ran;

static weir_status task(const void *args, const weir_block *block)
{
    (void)block;
    machine_work(*(const uint64_t *)args);
    ran++;
    return WEIR_OK;
}

static void queue_share(const struct chains *c, unsigned index)
{
    const weir_launch launch = {
        .name = "task", .fn = task, .args = &c->ns, .args_size = sizeof c->ns, .work_ns = c->ns};
    unsigned first = CHAINS * index / c->submitters, end = CHAINS * (index + 1) / c->submitters;

    for (int i = 0; i < TASKS; i++)
        for (unsigned k = first; k < end; k++) {
            machine_work(SUBMIT_NS);
            CHECK_OK(weir_launch_submit(c->streams[k], &launch));
        }
}

static void *submit_share(void *arg)
{
    const struct submitter *s = arg;

    s->c->ready++;
    while (!*(volatile bool *)&s->c->go)
        weir__yield();
    queue_share(s->c, s->index);
    return NULL;
}

/* Virtual time until all tasks have run. The threads are there before it begins. */
static uint64_t run(struct chains *c)
{
    struct submitter all[SUBMITTERS];
    uint64_t from;

    c->ready = 0;
    c->go = false;
    for (unsigned i = 1; i < c->submitters; i++) {
        all[i] = (struct submitter){.c = c, .index = i};
        CHECK(weir__thread_start(&all[i].thread, submit_share, &all[i]));
    }
    while (*(volatile unsigned *)&c->ready < c->submitters - 1)
        weir__yield();
    if (c->submitters > 1) /* they would find out, but here nobody is ever interrupted in a call */
        lock_per_stream(c->dev);
    from = machine_now();
    c->go = true;
    queue_share(c, 0);
    for (unsigned i = 1; i < c->submitters; i++)
        CHECK(!machine_join(all[i].thread, NULL));
    CHECK_OK(weir_device_sync(c->dev));
    return machine_now() - from;
}

static double measure(struct chains *c, unsigned submitters)
{
    struct machine_counts before;
    uint64_t took = 0;

    c->submitters = submitters;
    run(c);
    before = machine_counts();
    for (int i = 0; i < RUNS; i++)
        took += run(c);
    printf("%u threads, tasks of %llu ns: %.0f ns a task, %.1f wakes, %.1f preempted\n", submitters,
           (unsigned long long)c->ns, (double)took / (RUNS * CHAINS * TASKS),
           (double)(machine_counts().wakes - before.wakes) / RUNS,
           (double)(machine_counts().preempted - before.preempted) / RUNS);
    return (double)took;
}

static void compare(uint64_t ns, bool pulls)
{
    struct chains c = {.ns = ns};
    double one, several;

    machine_start(CPUS);
    machine_places_threads(true, pulls);
    CHECK_OK(weir_device_open("cpu", &c.dev));
    for (int i = 0; i < CHAINS; i++)
        CHECK_OK(weir_stream_create(c.dev, NULL, &c.streams[i]));
    one = measure(&c, 1);
    several = measure(&c, SUBMITTERS);
    CHECK_EQ(ran, 2 * (RUNS + 1) * CHAINS * TASKS);
    CHECK(several < one);
    for (int i = 0; i < CHAINS; i++)
        CHECK_OK(weir_stream_destroy(c.streams[i]));
    CHECK_OK(weir_device_close(c.dev));
}

TEST(submitters, eight_submitters_take_no_longer_than_one_with_tasks_of_five_microseconds)
{
    compare(5000, true);
}

TEST(submitters, eight_submitters_take_no_longer_than_one_with_tasks_of_a_microsecond)
{
    compare(1000, true);
}

/* Workers that share a CPU must find out themselves. */
TEST(submitters,
     eight_submitters_take_no_longer_if_idle_cpus_stay_idle_with_tasks_of_five_microseconds)
{
    compare(5000, false);
}

TEST(submitters, eight_submitters_take_no_longer_if_idle_cpus_stay_idle_with_tasks_of_a_microsecond)
{
    compare(1000, false);
}
