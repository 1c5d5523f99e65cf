/* Clusters: blocks that read each other's shared memory. They take turns: each runs until all of
 * its threads wait for the cluster, or are over. Between turns a block's state and its shared
 * memory are kept aside. Two blocks that touch the same bytes between two meetings, one of them
 * writing, are a fault. Global memory has no order between blocks, whether they meet or not. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"

static struct member {
    struct emu_state state;
    char *shared;
    size_t cap;
} members[EMU_CLUSTER], outside;

/* Exchanges the block that runs. What belongs to the launch stays. */
static void swap_in(const struct member *m)
{
    const struct emu_launch *launch = emu.launch;
    const struct emu_module *module = emu.module;
    const struct emu_position at = emu.at;
    uint32_t epoch = emu.epoch, launch_epoch = emu.launch_epoch;

    emu = m->state;
    emu.launch = launch;
    emu.module = module;
    emu.at.block_dim = at.block_dim;
    emu.at.grid_dim = at.grid_dim;
    emu.epoch = epoch;
    emu.launch_epoch = launch_epoch;
}

static void swap_out(struct member *m)
{
    size_t size = emu.module->shared_size;

    m->state = emu;
    if (m->cap < size && !(m->shared = realloc(m->shared, m->cap = size)))
        abort();
    memcpy(m->shared, emu.module->shared, size);
}

/* A block's turn. False: it waits for what never comes. */
static bool take_turn(unsigned rank, uint32_t phase)
{
    struct member *m = &members[rank];
    bool goes_on;

    swap_in(m);
    memcpy(emu.module->shared, m->shared, emu.module->shared_size);
    emu_use_cells(rank);
    emu.phase_epoch = phase;
    emu.at_cluster = 0;
    emu.meetings++;
    emu_begin_block();
    goes_on = emu_run_threads();
    if (emu.nturns == EMU_TURNS)
        abort(); /* no kernel meets so often */
    emu.turns[emu.nturns].from = emu.block_epoch;
    emu.turns[emu.nturns++].to = emu.epoch;
    swap_out(m);
    return goes_on;
}

void emu_run_cluster(unsigned first)
{
    unsigned n = emu.launch->cluster;
    uint32_t cluster = emu.epoch + 1;
    bool goes_on = true, alive = true;

    if (emu.module->kernel->by_clocks) {
        emu_fault("clusters of kernels with barriers of their own are not emulated");
        return;
    }
    outside.state = emu;
    for (unsigned i = 0; i < n; i++) {
        swap_in(&members[i]);
        emu_prepare_block(first + i);
        emu.rank = i;
        emu.cluster_epoch = cluster;
        emu.nturns = 0;
        swap_out(&members[i]);
    }
    while (alive && goes_on) {
        uint32_t phase = emu.epoch + 1;

        alive = false;
        for (unsigned i = 0; i < n && goes_on; i++)
            if (members[i].state.alive) {
                goes_on = take_turn(i, phase);
                alive |= emu.alive > 0;
            }
    }
    swap_in(&outside);
    emu_use_cells(0);
}

void emu_cluster_sync(void)
{
    if (emu.launch->cluster < 2)
        emu_fault("the block is in no cluster");
    emu.at_cluster++;
    emu_wait(&emu.meetings, emu.meetings, "a barrier of the cluster");
}

void emu_cluster_read(unsigned rank, uint32_t address, void *to, size_t size, const void *from)
{
    const char *own = emu_shared_at(address);

    if (rank >= emu.launch->cluster) {
        emu_fault("the cluster has no block %u", rank);
        return;
    }
    if (address % size)
        emu_fault("%x of shared memory is not aligned to %zu bytes", address, size);
    if (rank != emu.rank && !members[rank].state.alive)
        emu_fault("reads shared memory of a block that has ended");
    emu_use_cells(rank);
    emu_access(own, size, EMU_READ, from);
    emu_use_cells(emu.rank);
    memcpy(to, rank == emu.rank ? own : members[rank].shared + address, size);
}
