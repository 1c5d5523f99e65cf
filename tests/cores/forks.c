/* Forks and joins of short operators on a virtual machine: they stay with the worker that runs
 * them, and other streams get their turn beside them. */
#include "cores/machine.h"
#include "cpu/cpu.h"
#include "harness/test.h"
#include "weir/weir.h"

enum {
    WIDTH = 8,
    FORKS = 1000,
    TASK_NS = 20,
    SUBMIT_NS = 10, /* what queueing a task takes the host: the workers never catch up */
};

static unsigned ran;
static bool gate_is_open;

static weir_status task(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    machine_work(TASK_NS);
    ran++;
    return WEIR_OK;
}

static weir_status wait_at_gate(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    while (!*(volatile bool *)&gate_is_open)
        machine_work(1000);
    return WEIR_OK;
}

static weir_status set_flag(const void *args, const weir_block *block)
{
    (void)block;
    **(bool *const *)args = true;
    return WEIR_OK;
}

struct forks {
    weir_device *dev;
    weir_stream *main, *branch[WIDTH];
};

static void open_forks(struct forks *f, unsigned cpus, const char *spec)
{
    machine_start(cpus);
    CHECK_OK(weir_device_open(spec, &f->dev));
    CHECK_OK(weir_stream_create(f->dev, NULL, &f->main));
    for (int i = 0; i < WIDTH; i++)
        CHECK_OK(weir_stream_create(f->dev, NULL, &f->branch[i]));
}

static void close_forks(struct forks *f)
{
    CHECK_OK(weir_device_sync(f->dev));
    CHECK_OK(weir_stream_destroy(f->main));
    for (int i = 0; i < WIDTH; i++)
        CHECK_OK(weir_stream_destroy(f->branch[i]));
    CHECK_OK(weir_device_close(f->dev));
}

static void submit(weir_stream *s)
{
    const weir_launch launch = {.name = "task", .fn = task, .work_ns = 1};

    machine_work(SUBMIT_NS);
    CHECK_OK(weir_launch_submit(s, &launch));
}

static void queue_fork(const struct forks *f)
{
    submit(f->main);
    for (int i = 0; i < WIDTH; i++) {
        CHECK_OK(weir_stream_wait_stream(f->branch[i], f->main));
        submit(f->branch[i]);
    }
    for (int i = 0; i < WIDTH; i++)
        CHECK_OK(weir_stream_wait_stream(f->main, f->branch[i]));
    submit(f->main);
}

/* How often a worker looked where others look, too. */
static unsigned picks(const struct forks *f)
{
    const struct weir__cpu *cpu = (const struct weir__cpu *)f->dev;
    unsigned n = 0;

    for (unsigned i = 0; i < cpu->nworkers; i++)
        n += cpu->workers[i].picks;
    return n;
}

/* Handing a branch to another worker takes longer than the branch. */
TEST(forks, of_short_operators_stay_with_one_worker)
{
    const weir_launch gate = {.name = "gate", .fn = wait_at_gate};
    unsigned before;
    struct forks f;

    open_forks(&f, 2, "cpu:cores=2");
    for (int round = 0; round < 3; round++) {
        gate_is_open = false;
        ran = 0;
        CHECK_OK(weir_launch_submit(f.main, &gate));
        for (int i = 0; i < FORKS; i++)
            queue_fork(&f);
        before = picks(&f);
        gate_is_open = true;
        CHECK_OK(weir_device_sync(f.dev));
        CHECK_EQ(ran, FORKS * (WIDTH + 2));
        printf("%u tasks, %u picks\n", ran, picks(&f) - before);
        CHECK_LT(picks(&f) - before, 40);
    }
    close_forks(&f);
}

/* A worker keeps its streams only as long as no other stream waits. */
TEST(forks, that_never_end_do_not_keep_their_worker_from_other_streams)
{
    bool flag, *at = &flag;
    const weir_launch setter = {
        .name = "setter", .fn = set_flag, .args = &at, .args_size = sizeof at, .work_ns = 1};
    weir_stream *other;
    struct forks f;

    open_forks(&f, 2, "cpu:cores=1");
    CHECK_OK(weir_stream_create(f.dev, NULL, &other));
    for (int round = 0; round < 3; round++) {
        unsigned queued = 0;

        flag = false;
        for (int i = 0; i < FORKS; i++)
            queue_fork(&f);
        CHECK_OK(weir_launch_submit(other, &setter));
        for (; !*(volatile bool *)&flag; queued++) {
            queue_fork(&f);
            CHECK_LT(queued, 60);
        }
        printf("it ran after %u more forks\n", queued);
    }
    CHECK_OK(weir_stream_destroy(other));
    close_forks(&f);
}
