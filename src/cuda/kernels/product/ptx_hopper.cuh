/* Instructions that Hopper alone has; see ptx.cuh. */
#pragma once

#include "kernel.cuh"

/* ---- barriers in shared memory: some threads arrive, others wait ---- */

static __device__ inline void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

static __device__ inline void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Makes barriers that this thread has initialised visible, also to copies of tiles. */
static __device__ inline void barriers_show()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Arrives; the round then also waits until that many bytes have arrived. */
static __device__ inline void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Waits until all have arrived in a round. Rounds are distinguished by parity; the first is
 * even. */
static __device__ inline void barrier_wait(uint32_t barrier, int parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "again%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again%=; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* ---- copies of whole tiles ---- */

/* The tensor map that the driver makes from a struct weir__code_tiled. */
struct alignas(64) TileMap {
    uint64_t words[16];
};

/* Copies a panel of a tile, from that row and column on, of the matrix that begins 16 * `base`
 * bytes after the first matrix. The barrier `full` counts the bytes that have arrived. */
static __device__ inline void copy_tile(uint32_t to, const TileMap &map, int column, int row,
                                        int base, uint32_t full)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(&map), "r"(column), "r"(row), "r"(base), "r"(full)
                 : "memory");
}

/* ---- warps and their registers ---- */

/* Waits until `threads` threads have reached the barrier, including those that only arrive and do
 * not wait. */
template <int threads> static __device__ inline void group_sync(int barrier)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

template <int threads> static __device__ inline void group_arrive(int barrier)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

template <int registers> static __device__ inline void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> static __device__ inline void leave_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

/* A store that the compiler does not move to a later point. */
static __device__ inline void store_shared(uint32_t to, float x)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}

/* ---- products ---- */

static __device__ inline void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits for all but the last `left` groups. */
template <int left> static __device__ inline void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* Keeps the compiler from moving uses of sums across a wait. */
template <int n> static __device__ inline void products_hold(float (*c)[4])
{
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])::"memory");
}

/* clang-format off */
#define SUMS(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])

/* c = a b' or, with `more`, c += a b': 64 x 16 by 16 x 128, both operands in rows along the summed
 * dim. */
#define MULTIPLY_SHARED_128(type) \
    asm volatile( \
        "{ .reg .pred p; setp.ne.b32 p, %66, 0; " \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
        "}, %64, %65, p, 1, 1, 0, 0; }" \
        : \
          SUMS(0), SUMS(1), SUMS(2), SUMS(3), \
          SUMS(4), SUMS(5), SUMS(6), SUMS(7), \
          SUMS(8), SUMS(9), SUMS(10), SUMS(11), \
          SUMS(12), SUMS(13), SUMS(14), SUMS(15) \
        : "l"(a), "l"(b), "r"(more) : "memory")

/* The same by 16 x 64. */
#define MULTIPLY_SHARED_64(type) \
    asm volatile( \
        "{ .reg .pred p; setp.ne.b32 p, %34, 0; " \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
        "}, %32, %33, p, 1, 1, 0, 0; }" \
        : \
          SUMS(0), SUMS(1), SUMS(2), SUMS(3), \
          SUMS(4), SUMS(5), SUMS(6), SUMS(7) \
        : "l"(a), "l"(b), "r"(more) : "memory")

/* c += a b: 64 x 16 by 16 x 64; a in registers, b in rows along the summed dim. */
#define MULTIPLY_HELD_64(type) \
    asm volatile( \
        "{ .reg .pred p; setp.ne.b32 p, 1, 0; " \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }" \
        : \
          SUMS(0), SUMS(1), SUMS(2), SUMS(3), \
          SUMS(4), SUMS(5), SUMS(6), SUMS(7) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory")

/* c += a b: 64 x 16 by 16 x 128; a in registers, b in rows along the summed dim. */
#define MULTIPLY_HELD_128(type) \
    asm volatile( \
        "{ .reg .pred p; setp.ne.b32 p, 1, 0; " \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1; }" \
        : \
          SUMS(0), SUMS(1), SUMS(2), SUMS(3), \
          SUMS(4), SUMS(5), SUMS(6), SUMS(7), \
          SUMS(8), SUMS(9), SUMS(10), SUMS(11), \
          SUMS(12), SUMS(13), SUMS(14), SUMS(15) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory")

/* clang-format on */

/* c = a b' or, with `more`, c += a b': 64 x 16 by 16 x `columns`, which are 64 or 128. */
template <int dtype, int columns>
static __device__ inline void multiply_shared(float (*c)[4], uint64_t a, uint64_t b, int more)
{
    if constexpr (columns == 64) {
        if constexpr (dtype == WEIR_F16)
            MULTIPLY_SHARED_64("f16");
        else
            MULTIPLY_SHARED_64("bf16");
    } else {
        if constexpr (dtype == WEIR_F16)
            MULTIPLY_SHARED_128("f16");
        else
            MULTIPLY_SHARED_128("bf16");
    }
}

/* c += a b: 64 x 16 by 16 x `columns`, which are 64 or 128. */
template <int dtype, int columns>
static __device__ inline void multiply_held(float (*c)[4], const uint32_t *a, uint64_t b)
{
    if constexpr (columns == 64) {
        if constexpr (dtype == WEIR_F16)
            MULTIPLY_HELD_64("f16");
        else
            MULTIPLY_HELD_64("bf16");
    } else {
        if constexpr (dtype == WEIR_F16)
            MULTIPLY_HELD_128("f16");
        else
            MULTIPLY_HELD_128("bf16");
    }
}
