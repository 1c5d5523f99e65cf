/* 64 chains of tasks on a virtual machine: how much of its CPUs' time is work, how soon the workers
 * are at it, and how often one is woken. The bounds are of virtual time, so they do not depend on
 * the real machine or its load; -v prints the figures. */
#include "cores/flag.h"
#include "cores/machine.h"
#include "harness/test.h"
#include "weir/weir.h"

enum {
    CHAINS = 64,
    TASKS = 100,
    RUNS = 2,
    SUBMIT_NS = 100,   /* what queueing a task takes the host */
    LAUNCH_NS = 20000, /* and a plan */
};

static struct {
    unsigned now, most;
    uint64_t since; /* when the most ran at once for the first time */
    unsigned ran;
} active;

static weir_status task(const void *args, const weir_block *block)
{
    (void)block;
    if (++active.now > active.most) {
        active.most = active.now;
        active.since = machine_now();
    }
    machine_work(*(const uint64_t *)args);
    active.now--;
    active.ran++;
    return WEIR_OK;
}

struct chains {
    weir_device *dev;
    weir_stream *streams[CHAINS];
    weir_plan *plan;
    uint64_t ns; /* of a task */
    unsigned cpus;
};

struct figures {
    double share;     /* of the CPUs' time that is work */
    double most_us;   /* until as many tasks ran at once as ever do */
    double wakes;     /* a run */
    double preempted; /* likewise */
};

static void open_chains(struct chains *c, unsigned cpus, uint64_t ns)
{
    machine_start(cpus);
    CHECK_OK(weir_device_open("cpu", &c->dev));
    for (int i = 0; i < CHAINS; i++)
        CHECK_OK(weir_stream_create(c->dev, NULL, &c->streams[i]));
    c->plan = NULL;
    c->cpus = cpus;
    c->ns = ns;
}

static void close_chains(struct chains *c)
{
    weir_plan_destroy(c->plan);
    for (int i = 0; i < CHAINS; i++)
        CHECK_OK(weir_stream_destroy(c->streams[i]));
    CHECK_OK(weir_device_close(c->dev));
}

static void queue_all(const struct chains *c)
{
    const weir_launch launch = {
        .name = "task", .fn = task, .args = &c->ns, .args_size = sizeof c->ns, .work_ns = c->ns};

    for (int i = 0; i < TASKS; i++)
        for (int k = 0; k < CHAINS; k++) {
            machine_work(SUBMIT_NS);
            CHECK_OK(weir_launch_submit(c->streams[k], &launch));
        }
    CHECK_OK(weir_device_sync(c->dev));
}

static void make_plan(struct chains *c)
{
    const weir_attr us = {.name = "us", .kind = WEIR_ATTR_FLOAT, .value.f = (double)c->ns / 1000};
    weir_tensor *last[CHAINS] = {NULL}, *out;
    weir_graph *g;

    CHECK_OK(weir_graph_create(c->dev, &g));
    for (int i = 0; i < TASKS; i++)
        for (int k = 0; k < CHAINS; k++) {
            char tag[24];

            snprintf(tag, sizeof tag, "chain %d", k);
            CHECK_OK(weir_scope_push_stream(tag, 0));
            CHECK_OK(weir_graph_add(g, "Kernel", NULL, &us, 1, &last[k], last[k] != NULL, &out, 1));
            CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
            weir_tensor_release(last[k]);
            last[k] = out;
        }
    for (int k = 0; k < CHAINS; k++)
        weir_tensor_release(last[k]);
    CHECK_OK(weir_graph_compile(g, NULL, &c->plan));
    weir_graph_destroy(g);
}

static void run_plan(const struct chains *c)
{
    machine_work(LAUNCH_NS);
    CHECK_OK(weir_plan_run(c->plan, c->streams[0], NULL, 0, NULL, 0));
    CHECK_OK(weir_stream_sync(c->streams[0]));
}

/* After a first run, and with the host away for so long before each. */
static struct figures measure(const struct chains *c, void (*run)(const struct chains *),
                              uint64_t away_ns)
{
    struct figures f = {0, 0, 0, 0};
    struct machine_counts before;
    uint64_t from, took = 0;

    run(c);
    before = machine_counts();
    for (int i = 0; i < RUNS; i++) {
        machine_work(away_ns);
        active.most = 0;
        from = machine_now();
        run(c);
        took += machine_now() - from;
        f.most_us += active.most ? (double)(active.since - from) / RUNS / 1e3 : 0;
    }
    f.share = (double)(c->ns * CHAINS * TASKS * RUNS) / (double)(took * c->cpus);
    f.wakes = (double)(machine_counts().wakes - before.wakes) / RUNS;
    f.preempted = (double)(machine_counts().preempted - before.preempted) / RUNS;
    printf("%u CPUs, tasks of %llu ns: %.1f %% work, %u at once after %.0f us, %.1f wakes, "
           "%.1f preempted\n",
           c->cpus, (unsigned long long)c->ns, 100 * f.share, active.most, f.most_us, f.wakes,
           f.preempted);
    return f;
}

TEST(chains, chains_queued_by_one_thread_keep_sixteen_cores_busy)
{
    struct chains c;
    struct figures f;

    open_chains(&c, 16, 5000);
    f = measure(&c, queue_all, 0);
    CHECK_EQ(active.ran, CHAINS * TASKS * (RUNS + 1));
    CHECK(f.share > 0.85);
    CHECK_EQ(active.most, 16);
    close_chains(&c);
}

/* The host has a CPU of its own while it queues: nobody takes turns with it. */
TEST(chains, the_last_worker_stands_by_while_a_host_thread_queues)
{
    struct chains c;
    struct figures f;

    open_chains(&c, 4, 20000);
    f = measure(&c, queue_all, 0);
    CHECK_EQ(active.most, 4);
    CHECK(f.share > 0.96);
    CHECK(f.preempted <= 2);
    close_chains(&c);
}

TEST(chains, chains_of_a_plan_keep_sixteen_cores_busy)
{
    struct chains c;
    struct figures f;

    open_chains(&c, 16, 5000);
    make_plan(&c);
    f = measure(&c, run_plan, 0);
    CHECK(f.share > 0.87);
    CHECK(f.wakes <= 8);
    close_chains(&c);
}

TEST(chains, chains_of_a_plan_with_tasks_of_a_microsecond_keep_sixteen_cores_busy)
{
    struct chains c;
    struct figures f;

    open_chains(&c, 16, 1000);
    make_plan(&c);
    f = measure(&c, run_plan, 0);
    CHECK(f.share > 0.6);
    close_chains(&c);
}

/* All workers sleep, and one thread queues: a wake is on the way for each stream, no more, and
 * whoever is up wakes others. */
TEST(chains, sleeping_workers_wake_soon)
{
    struct chains c;
    struct figures f;

    open_chains(&c, 16, 5000);
    make_plan(&c);
    f = measure(&c, run_plan, 2000000);
    CHECK(f.share > 0.8);
    CHECK(f.wakes <= 16);
    close_chains(&c);
}

/* One stream is work for one worker, however many sleep. */
TEST(chains, one_stream_wakes_one_worker)
{
    const uint64_t ns = 5000;
    const weir_launch launch = {
        .name = "task", .fn = task, .args = &ns, .args_size = sizeof ns, .work_ns = ns};
    struct machine_counts before;
    weir_device *dev;
    weir_stream *stream;

    machine_start(16);
    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_OK(weir_stream_tagged(dev, "default", 0, &stream));
    machine_work(2000000);
    before = machine_counts();
    for (int i = 0; i < 100; i++) {
        machine_work(SUBMIT_NS);
        CHECK_OK(weir_launch_submit(stream, &launch));
    }
    CHECK_EQ(machine_counts().wakes - before.wakes, 1);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_close(dev));
}

/* One worker is stuck in a callback until another stream has run, and the host queues and queues:
 * the other worker stands by for it, but not for ever. */
TEST(chains, a_host_thread_that_never_stops_queueing_blocks_no_stream)
{
    bool flag = false, *at = &flag;
    const weir_launch empty = {.name = "empty", .work_ns = 1};
    const weir_launch setter = {
        .name = "setter", .fn = set_flag, .args = &at, .args_size = sizeof at};
    weir_stream *streams[3];
    weir_device *dev;

    machine_start(2);
    CHECK_OK(weir_device_open("cpu", &dev));
    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
    for (int round = 0; round < 3; round++) {
        uint64_t from = machine_now();

        flag = false;
        CHECK_OK(weir_stream_callback(streams[0], wait_for_flag, &flag));
        machine_work(100000); /* somebody is in it */
        CHECK_OK(weir_launch_submit(streams[1], &setter));
        while (!*(volatile bool *)&flag) {
            CHECK_OK(weir_launch_submit(streams[2], &empty));
            machine_work(1000);
            CHECK_LT(machine_now() - from, 50000000);
        }
        CHECK_OK(weir_device_sync(dev));
    }
    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    CHECK_OK(weir_device_close(dev));
}
