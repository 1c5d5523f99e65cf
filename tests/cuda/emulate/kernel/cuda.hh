/* What NVRTC knows by itself: CUDA's words, for a kernel source that is compiled for the host.
 * Every source is compiled with the thread sanitizer's calls, whose functions are here: each access
 * to memory is shown to the emulator. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../table.h"

#define EMU_PLAIN __attribute__((noinline, no_sanitize("thread")))
#define EMU_HIDDEN __attribute__((visibility("hidden")))

#define __device__
#define __global__
#define __host__
#define __grid_constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline

static const emu_table *emu;

/* ---- accesses ---- */

#define EMU_ACCESS(name, size, how)                                                          \
    extern "C" EMU_HIDDEN EMU_PLAIN void name(void *p)                                       \
    {                                                                                        \
        emu->access(p, size, how, __builtin_return_address(0));                              \
    }
#define EMU_ACCESSES(size)                                  \
    EMU_ACCESS(__tsan_read##size, size, EMU_READ)           \
    EMU_ACCESS(__tsan_write##size, size, EMU_WRITE)         \
    EMU_ACCESS(__tsan_volatile_read##size, size, EMU_ATOMIC) \
    EMU_ACCESS(__tsan_volatile_write##size, size, EMU_ATOMIC) \
    EMU_ACCESS(__tsan_unaligned_read##size, size, EMU_READ) \
    EMU_ACCESS(__tsan_unaligned_write##size, size, EMU_WRITE)
EMU_ACCESSES(1)
EMU_ACCESSES(2)
EMU_ACCESSES(4)
EMU_ACCESSES(8)
EMU_ACCESSES(16)

extern "C" EMU_HIDDEN EMU_PLAIN void __tsan_read_range(void *p, size_t size)
{
    emu->access(p, size, EMU_READ, __builtin_return_address(0));
}

extern "C" EMU_HIDDEN EMU_PLAIN void __tsan_write_range(void *p, size_t size)
{
    emu->access(p, size, EMU_WRITE, __builtin_return_address(0));
}

extern "C" EMU_HIDDEN EMU_PLAIN void __tsan_init()
{
}

extern "C" EMU_HIDDEN EMU_PLAIN void __tsan_func_entry(void *)
{
}

extern "C" EMU_HIDDEN EMU_PLAIN void __tsan_func_exit()
{
}

/* ---- where the thread is ---- */

EMU_PLAIN __attribute__((const)) static emu_dim emu_thread()
{
    return emu->at->thread;
}

EMU_PLAIN __attribute__((const)) static emu_dim emu_block()
{
    return emu->at->block;
}

EMU_PLAIN __attribute__((const)) static emu_dim emu_block_dim()
{
    return emu->at->block_dim;
}

EMU_PLAIN __attribute__((const)) static emu_dim emu_grid_dim()
{
    return emu->at->grid_dim;
}

#define threadIdx emu_thread()
#define blockIdx emu_block()
#define blockDim emu_block_dim()
#define gridDim emu_grid_dim()

/* ---- vectors and bits ---- */

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(8) float2 {
    float x, y;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}

template <typename To, typename From> static inline To emu_as(From x)
{
    To y;

    static_assert(sizeof x == sizeof y, "");
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

static inline float __uint_as_float(unsigned x)
{
    return emu_as<float>(x);
}

static inline float __int_as_float(int x)
{
    return emu_as<float>(x);
}

static inline unsigned __float_as_uint(float x)
{
    return emu_as<unsigned>(x);
}

static inline double __longlong_as_double(long long x)
{
    return emu_as<double>(x);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

/* ---- arithmetic ---- */

template <typename T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}

template <typename T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}

#define EMU_MATH(name)                  \
    static inline double name(double x) \
    {                                   \
        return __builtin_##name(x);     \
    }                                   \
    static inline float name(float x)   \
    {                                   \
        return __builtin_##name##f(x);  \
    }
EMU_MATH(exp)
EMU_MATH(log)
EMU_MATH(sqrt)
EMU_MATH(fabs)
EMU_MATH(tanh)
EMU_MATH(sin)
EMU_MATH(cos)
EMU_MATH(erfc)
EMU_MATH(ceil)
EMU_MATH(floor)

static inline double pow(double a, double b)
{
    return __builtin_pow(a, b);
}

static inline float pow(float a, float b)
{
    return __builtin_powf(a, b);
}

#define sqrtf __builtin_sqrtf
#define logf __builtin_logf
#define fmaf __builtin_fmaf
#define fmaxf __builtin_fmaxf
#define fminf __builtin_fminf
#define fabsf __builtin_fabsf
#define copysignf __builtin_copysignf

static inline float __expf(float x)
{
    return exp(x);
}

static inline float __fdividef(float a, float b)
{
    return a / b;
}

static inline void sincospif(float x, float *s, float *c)
{
    *s = (float)sin(3.14159265358979323846 * (double)x);
    *c = (float)cos(3.14159265358979323846 * (double)x);
}

/* ---- threads that meet ---- */

EMU_PLAIN static void __syncthreads()
{
    emu->sync_block();
}

EMU_PLAIN static int __syncthreads_or(int own)
{
    return emu->sync_block_or(own);
}

EMU_PLAIN static void __syncwarp(unsigned mask = ~0u)
{
    emu->sync_warp(mask);
}

/* Slots are read here, where nothing is shown to the emulator. */
template <typename T> EMU_PLAIN static T emu_meet(unsigned mask, T own, int from)
{
    const emu_slot *all = emu->meet(mask, EMU_SHUFFLE, &own, sizeof own);
    T x;

    static_assert(sizeof own <= EMU_SLOT_BYTES, "");
    memcpy(&x, all[from].bytes, sizeof x);
    return x;
}

EMU_PLAIN static int emu_lane()
{
    return (int)(emu->at->thread.x % EMU_WARP);
}

template <typename T> static inline T __shfl_sync(unsigned mask, T own, int lane, int width = 32)
{
    return emu_meet(mask, own, (emu_lane() & -width) + (lane & (width - 1)));
}

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T own, int bits, int width = 32)
{
    int lane = emu_lane(), from = lane ^ bits;

    return emu_meet(mask, own, from < (lane & -width) + width ? from : lane);
}

template <typename T> static inline T __shfl_up_sync(unsigned mask, T own, unsigned by, int width = 32)
{
    int lane = emu_lane(), from = lane - (int)by;

    return emu_meet(mask, own, from >= (lane & -width) ? from : lane);
}

template <typename T> static inline T __shfl_down_sync(unsigned mask, T own, unsigned by, int width = 32)
{
    int lane = emu_lane(), from = lane + (int)by;

    return emu_meet(mask, own, from < (lane & -width) + width ? from : lane);
}

/* The lanes of the mask whose value equals this one. */
EMU_PLAIN static unsigned emu_match(unsigned mask, int meeting, uint64_t own, uint64_t wanted)
{
    const emu_slot *all = emu->meet(mask, meeting, &own, sizeof own);
    unsigned found = 0;

    for (int i = 0; i < EMU_WARP; i++)
        if (mask >> i & 1 && !memcmp(all[i].bytes, &wanted, sizeof wanted))
            found |= 1u << i;
    return found;
}

static inline unsigned __ballot_sync(unsigned mask, int own)
{
    return emu_match(mask, EMU_VOTE, own != 0, 1);
}

static inline int __any_sync(unsigned mask, int own)
{
    return __ballot_sync(mask, own) != 0;
}

static inline unsigned __match_any_sync(unsigned mask, unsigned own)
{
    return emu_match(mask, EMU_MATCH, own, own);
}

/* ---- memory ---- */

EMU_PLAIN static void __threadfence()
{
    emu->fence();
}

EMU_PLAIN static void __threadfence_system()
{
    emu->fence();
}

template <typename T> EMU_PLAIN static T atomicAdd(T *p, T x)
{
    T old;

    emu->access(p, sizeof *p, EMU_ATOMIC, __builtin_return_address(0));
    old = *p;
    *p = old + x;
    return old;
}

static inline unsigned atomicAdd(unsigned *p, int x)
{
    return atomicAdd(p, (unsigned)x);
}

template <typename T> EMU_PLAIN static T atomicExch(T *p, T x)
{
    T old;

    emu->access(p, sizeof *p, EMU_ATOMIC, __builtin_return_address(0));
    old = *p;
    *p = x;
    return old;
}

/* Reports lie in memory that the host reads meanwhile. */
template <typename T> EMU_PLAIN static T atomicCAS(T *p, T old, T x)
{
    emu->access(p, sizeof *p, EMU_ATOMIC, __builtin_return_address(0));
    __atomic_compare_exchange_n(p, &old, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
}

/* Shared memory is what the module has beside constants; its addresses are places there. */
extern "C" char __bss_start[] EMU_HIDDEN, _end[] EMU_HIDDEN;

static inline size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)p - ((size_t)__bss_start & ~(size_t)1023);
}

/* ---- the entry ---- */

template <typename... P> struct emu_entry;
template <typename... P> struct emu_entry<void (*)(P...)> {
    static constexpr int n = sizeof...(P);
    static constexpr size_t sizes[4] = {sizeof(P)...};
};

template <typename A> EMU_PLAIN static void emu_call(void (*entry)(A), void **p)
{
    entry(*(A *)p[0]);
}

template <typename A, typename B> EMU_PLAIN static void emu_call(void (*entry)(A, B), void **p)
{
    entry(*(A *)p[0], *(B *)p[1]);
}

template <typename A, typename B, typename C>
EMU_PLAIN static void emu_call(void (*entry)(A, B, C), void **p)
{
    entry(*(A *)p[0], *(B *)p[1], *(C *)p[2]);
}

EMU_PLAIN static void emu_start(const emu_table *table)
{
    emu = table;
}
