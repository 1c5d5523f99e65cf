/* The instructions of src/cuda/kernels/product/ptx_hopper.cuh on the host. */
#pragma once

#include "kernel.cuh"

#define EMU_BY_CLOCKS 1

EMU_PLAIN static void barrier_init(uint32_t barrier, int arrivals)
{
    emu->barrier_init(barrier, arrivals);
}

EMU_PLAIN static void barrier_arrive(uint32_t barrier)
{
    emu->barrier_arrive(barrier, 0);
}

static inline void barriers_show()
{
}

EMU_PLAIN static void barrier_expect(uint32_t barrier, int bytes)
{
    emu->barrier_arrive(barrier, bytes);
}

EMU_PLAIN static void barrier_wait(uint32_t barrier, int parity)
{
    emu->barrier_wait(barrier, parity);
}

struct alignas(64) TileMap {
    uint64_t words[16];
};

EMU_PLAIN static void copy_tile(uint32_t to, const TileMap &map, int column, int row, int base,
                                uint32_t full)
{
    const int at[] = {column, row, base};

    emu->copy_tile(to, &map, at, full);
}

template <int threads> EMU_PLAIN static void group_sync(int barrier)
{
    emu->group_sync(barrier, threads);
}

template <int threads> EMU_PLAIN static void group_arrive(int barrier)
{
    emu->group_arrive(barrier, threads);
}

template <int registers> static inline void take_registers()
{
}

template <int registers> static inline void leave_registers()
{
}

EMU_PLAIN static void store_shared(uint32_t to, float x)
{
    char *p = (char *)((size_t)__bss_start & ~(size_t)1023) + to;

    emu->access(p, sizeof x, EMU_WRITE, __builtin_return_address(0));
    memcpy(p, &x, sizeof x);
}

static inline void products_begin()
{
}

EMU_PLAIN static void products_commit()
{
    emu->products_commit();
}

template <int left> EMU_PLAIN static void products_wait()
{
    emu->products_wait(left);
}

template <int n> static inline void products_hold(float (*)[4])
{
}

template <int dtype, int columns>
EMU_PLAIN static void multiply_shared(float (*c)[4], uint64_t a, uint64_t b, int more)
{
    emu_product p = {};

    p.c = c;
    p.a = a;
    p.b = b;
    p.more = more != 0;
    p.is_f16 = dtype == WEIR_F16;
    p.columns = columns;
    emu->product(&p);
}

/* The thread's two rows of a are with the four lanes of its quad. */
template <int dtype, int columns>
EMU_PLAIN static void multiply_held(float (*c)[4], const uint32_t *a, uint64_t b)
{
    const emu_slot *all = emu->meet(~0u, EMU_WGMMA, a, 16);
    emu_product p = {};
    int quad = emu_lane() & ~3;

    p.c = c;
    p.b = b;
    p.is_held = p.more = p.b_turned = 1;
    p.is_f16 = dtype == WEIR_F16;
    p.columns = columns;
    for (int i = 0; i < 4; i++) {
        uint32_t theirs[4];

        memcpy(theirs, all[quad + i].bytes, sizeof theirs);
        for (int half = 0; half < 2; half++)
            for (int row = 0; row < 2; row++)
                p.held[row * 8 + half * 4 + i] = theirs[half * 2 + row];
    }
    emu->product(&p);
}
