/* A launch, its blocks, and where all threads of a block or a warp meet. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"

struct emu_state emu;

const struct emu_table emu_functions = {
    .at = &emu.at,
    .access = emu_access,
    .sync_block = emu_sync_block,
    .sync_block_or = emu_sync_block_or,
    .sync_warp = emu_sync_warp,
    .meet = emu_meet,
    .fence = emu_fence,
    .cluster_sync = emu_cluster_sync,
    .cluster_read = emu_cluster_read,
    .copy = emu_copy,
    .copies_commit = emu_copies_commit,
    .copies_wait = emu_copies_wait,
    .group_sync = emu_group_sync,
    .group_arrive = emu_group_arrive,
    .barrier_init = emu_barrier_init,
    .barrier_arrive = emu_barrier_arrive,
    .barrier_wait = emu_barrier_wait,
    .copy_tile = emu_copy_tile,
    .product = emu_product,
    .products_commit = emu_products_commit,
    .products_wait = emu_products_wait,
};

/* ---- the whole block ---- */

static void end_round(void)
{
    emu.whole.arrived = 0;
    emu.whole.round++;
    emu.epoch++;
    emu.whole_or = emu.any;
    emu.any = 0;
}

void emu_sync_block(void)
{
    uint32_t round = emu.whole.round;

    if (++emu.whole.arrived == emu.alive)
        end_round();
    else
        emu_wait(&emu.whole.round, round, "a barrier of the block");
}

int emu_sync_block_or(int own)
{
    emu.any |= own;
    emu_sync_block();
    return emu.whole_or;
}

/* ---- a warp ---- */

static void end_meeting(struct emu_warp *w)
{
    w->arrived = 0;
    w->round++;
    if (w->meeting == EMU_SYNCWARP && !(w->lanes & ~w->wanted))
        w->time++;
}

const struct emu_slot *emu_meet(unsigned mask, int meeting, const void *own, size_t size)
{
    struct emu_warp *w = &emu.warps[emu.current / EMU_WARP];
    unsigned lane = (unsigned)emu.current % EMU_WARP;
    uint32_t round = w->round;

    if (!(mask >> lane & 1))
        emu_fault("lane %u is not in the mask %x that it meets others by", lane, mask);
    if (!w->arrived) {
        w->meeting = meeting;
        w->wanted = mask;
    } else if (w->meeting != meeting || w->wanted != mask) {
        emu_fault("lanes of a warp meet at different instructions (%d and %d) or by different "
                  "masks (%x and %x)",
                  w->meeting, meeting, w->wanted, mask);
    }
    memcpy(w->slots[round % 2][lane].bytes, own, size);
    w->arrived |= 1U << lane;
    if (!(w->wanted & w->lanes & ~w->arrived))
        end_meeting(w);
    else
        emu_wait(&w->round, round, "a meeting of its warp");
    return w->slots[round % 2];
}

/* The one instruction that orders a warp's accesses to memory. */
void emu_sync_warp(unsigned mask)
{
    static uint32_t clocks[EMU_THREADS / EMU_WARP][2][EMU_THREADS];
    static const char nothing;
    const struct emu_warp *w = &emu.warps[emu.current / EMU_WARP];
    uint32_t *clock = clocks[emu.current / EMU_WARP][w->round % 2];

    if (!w->arrived)
        memset(clock, 0, sizeof clocks[0][0]);
    emu_release(clock);
    emu_meet(mask, EMU_SYNCWARP, &nothing, 0);
    emu_acquire(clock);
}

/* ---- threads and blocks ---- */

void emu_thread_over(void)
{
    struct emu_thread *t = emu_self();
    struct emu_warp *w = &emu.warps[emu.current / EMU_WARP];

    if (t->ncopies || t->nproducts) {
        emu_fault("a thread ends while copies or products of its own are under way");
        t->ncopies = t->nproducts = 0;
    }
    t->over = true;
    t->fiber = NULL;
    w->lanes &= ~(1U << emu.current % EMU_WARP);
    emu.alive--;
    if (w->arrived && !(w->wanted & w->lanes & ~w->arrived))
        end_meeting(w);
    if (emu.alive && emu.whole.arrived == emu.alive)
        end_round();
}

void emu_prepare_block(unsigned block)
{
    unsigned n = emu.launch->threads;

    emu.at.block = (struct emu_dim){block, 0, 0};
    emu.alive = (int)n;
    emu.next = 0;
    emu.whole.arrived = 0;
    emu.any = 0;
    emu.at_cluster = 0;
    emu_groups_reset();
    for (unsigned i = 0; i < n; i++) {
        struct emu_thread *t = &emu.threads[i];

        t->started = t->over = false;
        t->word = NULL;
        t->ncopies = t->nproducts = t->copy_group = t->product_group = 0;
    }
    for (unsigned i = 0; i < (n + EMU_WARP - 1) / EMU_WARP; i++) {
        struct emu_warp *w = &emu.warps[i];
        unsigned lanes = n - i * EMU_WARP;

        w->lanes = lanes < EMU_WARP ? (1U << lanes) - 1 : ~0U;
        w->arrived = w->time = w->round = 0;
    }
}

static void run_block(unsigned block)
{
    emu_prepare_block(block);
    emu.cluster_epoch = emu.phase_epoch = emu.epoch + 1;
    emu_begin_block();
    emu_run_threads();
}

/* A step through all blocks that comes to each of them once. */
static unsigned stride_of(unsigned grid)
{
    unsigned step = grid / 2 + grid / 7 + 1, a, b;

    for (;; step++) {
        for (a = grid, b = step; b;) {
            unsigned rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

void emu_run(const struct emu_launch *launch)
{
    unsigned groups = launch->grid / launch->cluster, step = stride_of(groups), group = 0;

    emu.launch = launch;
    emu.module = launch->module;
    emu.module->kernel->start(&emu_functions);
    emu.at.block_dim = (struct emu_dim){launch->threads, 1, 1};
    emu.at.grid_dim = (struct emu_dim){launch->grid, 1, 1};
    emu_begin_launch();
    for (unsigned i = 0; i < groups; i++) {
        if (launch->cluster > 1)
            emu_run_cluster(group * launch->cluster);
        else
            run_block(group);
        group = (unsigned)(((uint64_t)group + step) % groups);
    }
}

size_t emu_param_size(const struct emu_module *module, int i)
{
    return i < module->kernel->nparams ? module->kernel->sizes[i] : 0;
}
