/* Machines with several NUMA nodes: reading hwloc's description, and placing memory. */
#include "cpu/cpu.h"
#include "harness/test.h"
#include "weir/weir.h"

#include <stdlib.h>

static struct {
    unsigned calls;
    size_t bytes;
    int mode;
    uint64_t nodes;
} bound;

static long note(void *address, size_t size, int mode, const uint64_t *nodes)
{
    CHECK(address != NULL);
    bound.calls++;
    bound.bytes += size;
    bound.mode = mode;
    bound.nodes = *nodes;
    return 0;
}

/* The device on a machine that hwloc makes up. */
static weir_device *open_on(const char *machine, const char *spec)
{
    weir_device *dev;

    setenv("HWLOC_SYNTHETIC", machine, 1);
    weir__cpu_mbind = note;
    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

static const struct weir__cpu_nodes *nodes_of(weir_device *dev)
{
    return ((struct weir__cpu *)dev)->nodes;
}

static void alloc(weir_device *dev, int64_t bytes)
{
    weir_stream *stream;
    weir_tensor *t;

    CHECK_OK(weir_stream_tagged(dev, "default", 0, &stream));
    CHECK_OK(weir_tensor_empty(stream, WEIR_U8, 1, &bytes, &t));
    weir_tensor_release(t);
}

TEST(nodes, hwlocs_nodes_are_known_with_their_cpus)
{
    weir_device *dev = open_on("node:2 core:4 pu:1", "cpu");
    const struct weir__cpu_nodes *nodes = nodes_of(dev);

    if (!weir__cpu_nodes()->count)
        SKIP("built without hwloc");
    CHECK(nodes != NULL);
    CHECK_EQ(nodes->count, 2);
    CHECK_EQ(nodes->system, 3);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(nodes->of_cpu[i], i / 4);
    CHECK_OK(weir_device_close(dev));
}

TEST(nodes, memory_of_large_tensors_is_spread_and_that_of_small_ones_is_left_alone)
{
    weir_device *dev = open_on("node:4 core:2 pu:1", "cpu");

    if (!weir__cpu_nodes()->count)
        SKIP("built without hwloc");
    alloc(dev, 4096);
    CHECK_EQ(bound.calls, 0);
    alloc(dev, 64 << 20);
    CHECK_EQ(bound.calls, 1);
    CHECK(bound.bytes >= (size_t)64 << 20);
    CHECK_EQ(bound.mode, 3); /* MPOL_INTERLEAVE */
    CHECK_EQ(bound.nodes, 15);
    alloc(dev, 64 << 20); /* the same memory */
    CHECK_EQ(bound.calls, 1);
    CHECK_OK(weir_device_close(dev));
}

static void check_untouched(const char *machine, const char *spec)
{
    weir_device *dev = open_on(machine, spec);

    CHECK(nodes_of(dev) == NULL);
    alloc(dev, 64 << 20);
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(bound.calls, 0);
}

/* One worker's memory is best where it runs. */
TEST(nodes, one_worker_has_its_memory_where_it_runs)
{
    check_untouched("node:2 core:4 pu:1", "cpu:threads=1");
}

TEST(nodes, a_machine_of_one_node_has_none_to_choose_from)
{
    check_untouched("node:1 core:8 pu:1", "cpu");
}

/* The real call, on this machine's node: where it is refused memory still comes. */
TEST(nodes, the_system_takes_the_call_or_refuses_it_without_harm)
{
    const struct weir__cpu_nodes one = {.count = 1, .system = 1};
    char *memory = weir__soft_map((size_t)4 << 20);

    CHECK(memory != NULL);
    weir__cpu_mbind(memory, (size_t)4 << 20, 3, &one.system);
    memory[0] = memory[(4 << 20) - 1] = 1;
    weir__soft_unmap(memory, (size_t)4 << 20);
}
