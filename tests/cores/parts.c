/* Operators in blocks and phases on a virtual machine: workers that find no block left stay for the
 * next phase, and go where they are needed more. */
#include "cores/machine.h"
#include "cpu/cpu.h"
#include "harness/test.h"
#include "weir/weir.h"

#include <string.h>

enum { CPUS = 16, BLOCKS = 32, PHASES = 3, OPERATORS = 200, BLOCK_NS = 5000 };

static unsigned ran[PHASES], early, failing = UINT32_MAX;
static unsigned cpu_of_last[PHASES][BLOCKS], again; /* blocks that ran where they did before */

/* Blocks of up to twice the time of others: some workers are done first. */
static weir_status part(const void *args, const weir_block *block)
{
    (void)args;
    again += cpu_of_last[block->phase][block->index] == machine_cpu();
    cpu_of_last[block->phase][block->index] = machine_cpu();
    machine_work(BLOCK_NS * (1 + block->index % 3) / 2);
    if (block->phase == 0 && block->index == failing)
        return weir_kernel_fail(WEIR_EKERNEL, "a block");
    if (block->phase) /* a whole number of operators has been through the phase before */
        early += ran[block->phase - 1] % BLOCKS != 0;
    ran[block->phase]++;
    return WEIR_OK;
}

static const weir_launch launch = {
    .name = "parts", .fn = part, .blocks = BLOCKS, .phases = PHASES, .work_ns = BLOCK_NS};

static unsigned picks(weir_device *dev)
{
    const struct weir__cpu *cpu = (const struct weir__cpu *)dev;
    unsigned n = 0;

    for (unsigned i = 0; i < cpu->nworkers; i++)
        n += cpu->workers[i].picks;
    return n;
}

TEST(parts, workers_stay_in_an_operator_from_phase_to_phase_and_get_their_blocks_again)
{
    weir_stream *stream;
    unsigned before;
    weir_device *dev;
    uint64_t from;
    double share;

    machine_start(CPUS);
    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_OK(weir_stream_create(dev, NULL, &stream));
    for (int i = 0; i < 8; i++)
        CHECK_OK(weir_launch_submit(stream, &launch));
    CHECK_OK(weir_device_sync(dev));
    before = picks(dev);
    memset(ran, 0, sizeof ran);
    again = 0;
    from = machine_now();
    for (int i = 0; i < OPERATORS; i++)
        CHECK_OK(weir_launch_submit(stream, &launch));
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < PHASES; i++)
        CHECK_EQ(ran[i], OPERATORS * BLOCKS);
    CHECK_EQ(early, 0);
    share = (double)OPERATORS * BLOCKS * PHASES * BLOCK_NS / (double)(machine_now() - from) / CPUS;
    printf("%.1f picks an operator, %.1f %% work, %.1f %% of the blocks where they ran before\n",
           (double)(picks(dev) - before) / OPERATORS, 100 * share,
           100.0 * again / (OPERATORS * BLOCKS * PHASES));
    CHECK_LT(OPERATORS * BLOCKS * PHASES * 7 / 10, again);
    CHECK_LT(picks(dev) - before, OPERATORS * 2 * CPUS);
    CHECK_OK(weir_stream_destroy(stream));
    CHECK_OK(weir_device_close(dev));
}

TEST(parts, an_operator_that_fails_while_workers_stay_ends)
{
    weir_stream *stream, *other;
    weir_device *dev;

    machine_start(CPUS);
    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    for (unsigned i = 0; i < BLOCKS; i++) {
        failing = i;
        CHECK_OK(weir_stream_create(dev, NULL, &stream));
        CHECK_OK(weir_launch_submit(stream, &launch));
        CHECK_OK(weir_launch_submit(other, &launch));
        CHECK_EQ(weir_stream_sync(stream), WEIR_EKERNEL);
        CHECK_EQ(weir_stream_sync(other), WEIR_EKERNEL);
        CHECK_OK(weir_stream_destroy(stream));
        CHECK_OK(weir_stream_destroy(other));
        failing = UINT32_MAX;
        CHECK_OK(weir_stream_create(dev, NULL, &other));
        memset(ran, 0, sizeof ran);
        CHECK_OK(weir_launch_submit(other, &launch));
        CHECK_OK(weir_stream_sync(other));
        CHECK_EQ(ran[PHASES - 1], BLOCKS);
    }
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}
