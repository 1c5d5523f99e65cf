/* The instructions of src/cuda/kernels/product/ptx_mma.cuh on the host. */
#pragma once

#include "kernel.cuh"

template <int bytes> EMU_PLAIN static void copy_bytes(uint32_t to, const void *from, bool there)
{
    emu->copy(to, from, bytes, there ? bytes : 0);
}

EMU_PLAIN static void copy_chunk(uint32_t to, const void *from, bool there)
{
    emu->copy(to, from, 16, there ? 16 : 0);
}

EMU_PLAIN static void copies_commit()
{
    emu->copies_commit();
}

template <int left> EMU_PLAIN static void copies_wait()
{
    emu->copies_wait(left);
}

static inline char *emu_shared(uint32_t address)
{
    return (char *)((size_t)__bss_start & ~(size_t)1023) + address;
}

/* A lane's two elements of block b are of row lane / 4; turned, of that column. */
EMU_PLAIN static void emu_load_blocks(uint32_t *r, uint32_t address, bool turned)
{
    const emu_slot *all = emu->meet(~0u, EMU_LDMATRIX, &address, sizeof address);
    int lane = emu_lane();

    for (int b = 0; b < 4; b++) {
        uint16_t pair[2];

        for (int i = 0; i < 2; i++) {
            int row = turned ? lane % 4 * 2 + i : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + i;
            uint32_t at;
            const char *p;

            memcpy(&at, all[b * 8 + row].bytes, sizeof at);
            p = emu_shared(at) + column * 2;
            emu->access(p, 2, EMU_READ, __builtin_return_address(0));
            memcpy(&pair[i], p, 2);
        }
        r[b] = pair[0] | (uint32_t)pair[1] << 16;
    }
}

static inline void load_blocks(uint32_t *r, uint32_t address)
{
    emu_load_blocks(r, address, false);
}

static inline void load_blocks_turned(uint32_t *r, uint32_t address)
{
    emu_load_blocks(r, address, true);
}

template <int dtype> static inline float emu_half(uint32_t pair, int which)
{
    return Type<dtype>::load((uint16_t)(pair >> 16 * which));
}

/* a: words of rows lane / 4 and + 8, columns 2 (lane % 4) and the next, then those + 8;
 * b: the same of columns lane / 4 and rows 2 (lane % 4). */
template <int dtype> EMU_PLAIN static void multiply(float *c, const uint32_t *a, const uint32_t *b)
{
    struct {
        uint32_t a[4], b[2];
    } own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, theirs[EMU_WARP];
    const emu_slot *all = emu->meet(~0u, EMU_MMA, &own, sizeof own);
    int lane = emu_lane();

    for (int i = 0; i < EMU_WARP; i++)
        memcpy(&theirs[i], all[i].bytes, sizeof own);
    for (int i = 0; i < 4; i++) {
        int row = lane / 4, column = lane % 4 * 2 + i % 2;
        double sum = c[i];

        for (int k = 0; k < 16; k++) {
            int quad = k % 8 / 2;

            sum += (double)emu_half<dtype>(theirs[row * 4 + quad].a[k / 8 * 2 + i / 2], k % 2) *
                   (double)emu_half<dtype>(theirs[column * 4 + quad].b[k / 8], k % 2);
        }
        c[i] = (float)sum;
    }
}

EMU_PLAIN static void multiply_tf32(float *c, const uint32_t *a, const uint32_t *b)
{
    struct {
        uint32_t a[4], b[2];
    } own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, theirs[EMU_WARP];
    const emu_slot *all = emu->meet(~0u, EMU_MMA, &own, sizeof own);
    int lane = emu_lane();

    for (int i = 0; i < EMU_WARP; i++)
        memcpy(&theirs[i], all[i].bytes, sizeof own);
    for (int i = 0; i < 4; i++) {
        int row = lane / 4, column = lane % 4 * 2 + i % 2;
        double sum = c[i];

        for (int k = 0; k < 8; k++)
            sum += (double)__uint_as_float(theirs[row * 4 + k % 4].a[k / 4 * 2 + i / 2] & ~0x1fffu) *
                   (double)__uint_as_float(theirs[column * 4 + k % 4].b[k / 4] & ~0x1fffu);
        c[i] = (float)sum;
    }
}
