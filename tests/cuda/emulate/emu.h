/* The internals of the emulator: the running block. */
#ifndef TESTS_CUDA_EMULATE_EMU_H
#define TESTS_CUDA_EMULATE_EMU_H

#include "emulate.h"

enum {
    EMU_THREADS = 1024,
    EMU_CLUSTER = 8,
    EMU_TURNS = 16,
    EMU_FIBERS = 4 * EMU_THREADS,
    EMU_STACK = 128 << 10,
    EMU_GROUP_BARRIERS = 16,
    EMU_BARRIERS = 64,
    EMU_COPIES = 256,
    EMU_PRODUCTS = 64,
};

struct emu_module {
    const struct emu_kernel *kernel;
    char *shared; /* where its shared memory begins, a multiple of 1024, */
    size_t shared_size;
    uintptr_t image, image_size; /* all of the module in memory */
    char path[512];
    struct emu_module *next;
};

/* Copies from global to shared memory that have not been done yet. */
struct emu_copy {
    uint32_t to;
    const void *from;
    uint16_t size, there;
    int group;
};

/* A product that has not been done yet. */
struct emu_pending {
    struct emu_product product;
    int group;
};

struct emu_fiber;

struct emu_thread {
    struct emu_fiber *fiber; /* NULL before it begins, and when it is over */
    bool started, over;
    const uint32_t *word; /* what it waits for: another value than `seen` */
    uint32_t seen;
    const char *waits_at;
    /* Its time, where order is kept by clocks; see check.c. */
    uint32_t time;
    uint32_t *clock;
    /* In which block it has fenced, and in which epoch; in which it has changed a word, which, and
     * what it then heard: see publish.c. */
    uint32_t fenced_in, fenced, changed_in;
    int changed, heard;
    /* What it has under way. */
    struct emu_copy *copies;
    int ncopies, copy_group;
    struct emu_pending *products;
    int nproducts, product_group;
};

struct emu_warp {
    uint32_t lanes, arrived, wanted; /* bits */
    int meeting;
    uint32_t round; /* so many meetings are over, */
    uint32_t time;  /* and so many that order memory */
    struct emu_slot slots[2][EMU_WARP];
};

/* Where threads of the block wait for each other. */
struct emu_barrier {
    uint32_t address; /* of one in shared memory */
    int expected, arrived, bytes;
    uint32_t round;
    uint32_t *gathers, *gave; /* clocks of those that arrived: in this round, up to the last one */
};

struct emu_state {
    const struct emu_launch *launch;
    const struct emu_module *module;
    struct emu_position at;
    int current;                               /* thread */
    int alive, next;                           /* threads: not over yet, and the next to begin */
    uint32_t epoch, launch_epoch, block_epoch; /* see check.c */
    uint32_t cluster_epoch, phase_epoch;       /* likewise */
    unsigned rank;                             /* of the block in its cluster */
    int at_cluster;    /* threads that wait for the cluster's other blocks, */
    uint32_t meetings; /* and how often they have met */
    struct {
        uint32_t from, to; /* epochs */
    } turns[EMU_TURNS];    /* that the block has had */
    int nturns;
    struct emu_barrier whole;
    int any, whole_or; /* __syncthreads_or: so far, and of the round before */
    struct emu_barrier groups[EMU_GROUP_BARRIERS], barriers[EMU_BARRIERS];
    int nbarriers;
    struct emu_tile_copy *tiles; /* that have not come yet */
    struct emu_thread threads[EMU_THREADS];
    struct emu_warp warps[EMU_THREADS / EMU_WARP];
};
extern struct emu_state emu;
extern const struct emu_table emu_functions;

static inline struct emu_thread *emu_self(void)
{
    return &emu.threads[emu.current];
}

static inline char *emu_shared_at(uint32_t address)
{
    return emu.module->shared + address;
}

/* ---- fiber.c ---- */
/* Runs threads on stacks of their own: those that have not begun and the others, once they may;
 * until all are over or wait for the cluster. False: they wait for what never comes. */
bool emu_run_threads(void);
/* Until *word is no longer `seen`. */
void emu_wait(const uint32_t *word, uint32_t seen, const char *at);
bool emu_on_stack(uintptr_t address);

/* ---- block.c ---- */
void emu_sync_block(void);
int emu_sync_block_or(int own);
void emu_sync_warp(unsigned mask);
const struct emu_slot *emu_meet(unsigned mask, int meeting, const void *own, size_t size);
void emu_thread_over(void);

/* Before a block's first thread. */
void emu_prepare_block(unsigned block);

/* ---- cluster.c ---- */
void emu_run_cluster(unsigned first);
void emu_cluster_sync(void);
void emu_cluster_read(unsigned rank, uint32_t address, void *to, size_t size, const void *from);

/* ---- group.c: barriers of some threads, and in shared memory ---- */
void emu_group_sync(int barrier, int threads);
void emu_group_arrive(int barrier, int threads);
void emu_barrier_init(uint32_t barrier, int arrivals);
void emu_barrier_arrive(uint32_t barrier, int bytes);
void emu_barrier_wait(uint32_t barrier, int parity);
void emu_copy_tile(uint32_t to, const void *map, const int *at, uint32_t full);
void emu_groups_reset(void);
/* The tile that was asked for first comes; false if there is none. */
bool emu_bring_tile(void);

/* ---- async.c ---- */
void emu_copy(uint32_t to, const void *from, unsigned size, unsigned there);
void emu_copies_commit(void);
void emu_copies_wait(int left);
void emu_product(const struct emu_product *product);
void emu_products_commit(void);
void emu_products_wait(int left);

/* ---- check.c ---- */
void emu_access(const void *address, size_t size, int how, const void *from);
void emu_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The current thread's past is known to whoever takes the clock over. */
void emu_release(uint32_t *clock);
void emu_acquire(const uint32_t *clock);
void emu_begin_launch(void);
void emu_begin_block(void);
/* What is known of the shared memory of the cluster's block `rank`. */
void emu_use_cells(unsigned rank);

/* ---- publish.c ---- */
void emu_fence(void);
void emu_change_word(uintptr_t address);
/* Whether what another block did in that epoch is known to come before. */
bool emu_is_told(uint32_t epoch);

#endif
