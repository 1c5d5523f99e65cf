/* What a kernel that was compiled for the host asks of the emulator: C and C++. */
#ifndef TESTS_CUDA_EMULATE_TABLE_H
#define TESTS_CUDA_EMULATE_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { EMU_WARP = 32, EMU_SLOT_BYTES = 32, EMU_SHARED_MAX = 227 << 10 };

struct emu_dim {
    unsigned x, y, z;
};

struct emu_position {
    struct emu_dim thread, block, block_dim, grid_dim;
};

enum emu_how {
    EMU_READ,
    EMU_WRITE,
    EMU_ATOMIC, /* or volatile: two of them are no race */
    EMU_CLAIM,  /* a write that is under way from now on */
    EMU_FILL,   /* and is over: for shared memory */
};

/* What a lane shows the others of its warp. */
struct emu_slot {
    unsigned char bytes[EMU_SLOT_BYTES];
};

/* Instructions at which lanes meet; all of them must come to the same one. */
enum emu_meeting {
    EMU_SYNCWARP,
    EMU_SHUFFLE,
    EMU_VOTE,
    EMU_MATCH,
    EMU_LDMATRIX,
    EMU_MMA,
    EMU_WGMMA,
};

/* c = a b or c += a b of a warpgroup, as the thread has it: rows row and row + 8 of a tile of 16.
 */
struct emu_product {
    float (*c)[4];
    uint64_t a, b;     /* descriptors */
    uint32_t held[16]; /* a of the thread's two rows, where it is in registers: eight words each */
    uint8_t is_held, more, is_f16, b_turned;
    uint16_t columns;
};

struct emu_table {
    const struct emu_position *at; /* of the thread that runs */
    void (*access)(const void *address, size_t size, int how, const void *from);

    void (*sync_block)(void);
    int (*sync_block_or)(int own);
    void (*sync_warp)(unsigned mask);
    /* Waits for the lanes of the mask; returns 32 slots, which stay until the next meeting. */
    const struct emu_slot *(*meet)(unsigned mask, int meeting, const void *own, size_t size);
    void (*fence)(void);
    void (*cluster_sync)(void);
    void (*cluster_read)(unsigned rank, uint32_t address, void *to, size_t size, const void *from);

    /* Bytes from global to shared memory, zeros after the first `there`. */
    void (*copy)(uint32_t to, const void *from, unsigned size, unsigned there);
    void (*copies_commit)(void);
    void (*copies_wait)(int left);

    void (*group_sync)(int barrier, int threads);
    void (*group_arrive)(int barrier, int threads);
    void (*barrier_init)(uint32_t barrier, int arrivals);
    void (*barrier_arrive)(uint32_t barrier, int bytes);
    void (*barrier_wait)(uint32_t barrier, int parity);
    void (*copy_tile)(uint32_t to, const void *map, const int *at, uint32_t full);
    void (*product)(const struct emu_product *product);
    void (*products_commit)(void);
    void (*products_wait)(int left);
};

/* What a compiled kernel has, found by its name. */
struct emu_kernel {
    void (*start)(const struct emu_table *table);
    void (*run)(void **params); /* one thread */
    size_t sizes[4];            /* of its parameters */
    int nparams;
    char *shared_begin, *shared_end;
    char *dynamic; /* shared memory that the launch gives: EMU_SHARED_MAX bytes at most */
    int by_clocks; /* it has barriers of its own, so that order between threads is kept track of */
};
#define EMU_KERNEL "emu_kernel_made"

/* What cuTensorMapEncodeTiled makes of its arguments. */
struct emu_tile_map {
    const char *data;
    uint64_t sizes[3], strides[2];
    uint32_t box[3];
};

#endif
