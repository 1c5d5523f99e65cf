/* Forks and joins of short operators on a virtual machine: they stay with the worker that runs
 * them, and other streams get their turn beside them. */
#include "cores/flag.h"
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

static unsigned ran, ran_elsewhere;
static pthread_t host;
static bool gate_is_open;

static weir_status task(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    machine_work(TASK_NS);
    ran++;
    ran_elsewhere += !pthread_equal(pthread_self(), host);
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

struct forks {
    weir_device *dev;
    weir_stream *main, *branch[WIDTH];
};

static void make_forks(struct forks *f, const char *spec)
{
    CHECK_OK(weir_device_open(spec, &f->dev));
    CHECK_OK(weir_stream_create(f->dev, NULL, &f->main));
    for (int i = 0; i < WIDTH; i++)
        CHECK_OK(weir_stream_create(f->dev, NULL, &f->branch[i]));
}

static void open_forks(struct forks *f, unsigned cpus, const char *spec)
{
    machine_start(cpus);
    make_forks(f, spec);
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
TEST(forks, forks_of_short_operators_stay_with_one_worker)
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
TEST(forks, forks_that_never_end_do_not_keep_their_worker_from_other_streams)
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

/* A fork and join that the host waits for is the host's own work: workers that look for work leave
 * it there. */
TEST(forks, forks_that_a_host_thread_waits_for_are_not_taken_from_it)
{
    static const char *const specs[] = {"cpu:cores=2", "cpu:cores=16"};
    struct forks f;

    host = pthread_self();
    machine_start(16);
    for (unsigned k = 0; k < weir__countof(specs); k++) {
        test_note("%s", specs[k]);
        make_forks(&f, specs[k]);
        for (int i = 0; i < FORKS / 10; i++) {
            queue_fork(&f);
            CHECK_OK(weir_stream_sync(f.main));
        }
        ran = ran_elsewhere = 0;
        for (int i = 0; i < FORKS; i++) {
            queue_fork(&f);
            CHECK_OK(weir_stream_sync(f.main));
        }
        CHECK_EQ(ran, FORKS * (WIDTH + 2));
        printf("of %u tasks workers ran %u\n", ran, ran_elsewhere);
        CHECK_LT(ran_elsewhere, ran / 100);
        close_forks(&f);
    }
}

/* That is a guess of the workers. If the host does not come back, they are not long in running what
 * is there; what is long they begin at once. */
TEST(forks, a_host_thread_that_no_longer_waits_leaves_its_work_to_the_workers)
{
    struct forks f;

    host = pthread_self();
    machine_start(16);
    make_forks(&f, "cpu:cores=2");
    for (int round = 0; round < 20; round++) {
        bool flag = false, *at = &flag;
        const weir_launch setter = {.name = "setter",
                                    .fn = set_flag,
                                    .args = &at,
                                    .args_size = sizeof at,
                                    .work_ns = round % 2 ? 1 : 100000};
        uint64_t queued;

        for (int i = 0; i < FORKS / 10; i++) {
            queue_fork(&f);
            CHECK_OK(weir_stream_sync(f.main));
        }
        CHECK_OK(weir_launch_submit(f.main, &setter));
        queued = machine_now();
        while (!*(volatile bool *)&flag) {
            machine_work(500);
            CHECK_LT(machine_now() - queued, 200000);
        }
        printf("it ran after %llu ns\n", (unsigned long long)(machine_now() - queued));
    }
    close_forks(&f);
}
