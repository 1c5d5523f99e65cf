/* A machine with memory in two nodes: streams stay where their memory is, and none is forgotten. */
#include "cores/flag.h"
#include "cores/machine.h"
#include "cpu/cpu.h"
#include "harness/test.h"
#include "weir/weir.h"

#include <string.h>

enum { CPUS = 16, CHAINS = 64, TASKS = 100, TASK_NS = 5000 };

static struct {
    unsigned node_of_last[CHAINS], moved, ran;
} seen;

struct args {
    unsigned chain;
    uint32_t ns;
};

/* Counts how often a chain goes on at the other node. */
static weir_status task(const void *args, const weir_block *block)
{
    const struct args *a = args;
    unsigned node = machine_cpu() / (CPUS / 2);

    (void)block;
    seen.moved += seen.node_of_last[a->chain] == 1 - node;
    seen.node_of_last[a->chain] = node;
    seen.ran++;
    machine_work(a->ns);
    return WEIR_OK;
}

/* One worker in four of each node has long tasks: the others run out of theirs, and steal. */
static unsigned moves(void)
{
    weir_stream *streams[CHAINS];
    weir_device *dev;

    memset(&seen, 0, sizeof seen);
    memset(seen.node_of_last, 0xff, sizeof seen.node_of_last);
    CHECK_OK(weir_device_open("cpu", &dev));
    for (int k = 0; k < CHAINS; k++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[k]));
    for (int i = 0; i < TASKS; i++)
        for (unsigned k = 0; k < CHAINS; k++) {
            struct args args = {k, k % 4 ? TASK_NS : 8 * TASK_NS};
            const weir_launch launch = {.name = "task",
                                        .fn = task,
                                        .args = &args,
                                        .args_size = sizeof args,
                                        .work_ns = args.ns};

            machine_work(100);
            CHECK_OK(weir_launch_submit(streams[k], &launch));
        }
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(seen.ran, CHAINS * TASKS);
    for (int k = 0; k < CHAINS; k++)
        CHECK_OK(weir_stream_destroy(streams[k]));
    CHECK_OK(weir_device_close(dev));
    return seen.moved;
}

TEST(nodes, workers_steal_from_their_own_node_first)
{
    unsigned blind, seeing;

    machine_start(CPUS);
    blind = moves();
    machine_has_nodes(2);
    seeing = moves();
    printf("of %u tasks %u were at the other node, with one node known %u\n", seen.ran, seeing,
           blind);
    CHECK_LT(3 * seeing, 2 * blind);
}

/* All workers of one node are stuck in callbacks until streams of their queues have run, and those
 * of the other have work of their own without end. */
TEST(nodes, a_stream_of_a_node_without_a_free_worker_is_run_by_the_other_node)
{
    bool flags[4] = {false};
    weir_stream *stuck[2], *waiting[4], *busy[8];
    weir_device *dev;
    uint64_t from;

    machine_start(4);
    machine_has_nodes(2);
    CHECK_OK(weir_device_open("cpu", &dev));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &stuck[i]));
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &waiting[i]));
    for (int i = 0; i < 8; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &busy[i]));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_callback(stuck[i], wait_for_flag, &flags[i]));
    machine_work(200000);
    for (int i = 0; i < 4; i++) {
        bool *at = &flags[i];
        const weir_launch setter = {
            .name = "setter", .fn = set_flag, .args = &at, .args_size = sizeof at};

        CHECK_OK(weir_launch_submit(waiting[i], &setter));
    }
    from = machine_now();
    for (unsigned n = 0; !(flags[0] && flags[1] && flags[2] && flags[3]); n++) {
        struct args args = {n % CHAINS, TASK_NS};
        const weir_launch launch = {.name = "task",
                                    .fn = task,
                                    .args = &args,
                                    .args_size = sizeof args,
                                    .work_ns = TASK_NS};

        machine_work(1000);
        CHECK_OK(weir_launch_submit(busy[n % 8], &launch));
        CHECK_LT(machine_now() - from, 50000000);
    }
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_destroy(stuck[i]));
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_stream_destroy(waiting[i]));
    for (int i = 0; i < 8; i++)
        CHECK_OK(weir_stream_destroy(busy[i]));
    CHECK_OK(weir_device_close(dev));
}
