/* Instructions for which CUDA C++ has no function; those of tensor cores are in ptx_mma.cuh and
 * ptx_hopper.cuh, those of clusters in ptx_cluster.cuh. All assembly is in these four files.
 * tests/cuda/emulate has host versions of them with the same names. */
#pragma once

#include "weir/tensor.h"

/* Waits for the kernels before this one. Every entry calls it before it accesses memory, because a
 * kernel may be started before earlier ones have completed (cuda/stream/issue.c). Only statements
 * that depend on the arguments alone may come earlier. Every kernel must call it, because the next
 * kernel waits only for this one. */
static __device__ inline void await_earlier()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel start early; it waits in await_earlier() until this one has completed. */
static __device__ inline void let_next_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ inline float from_f16(uint16_t h)
{
    float f;

    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

static __device__ inline uint16_t to_f16(float f)
{
    uint16_t h;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

static __device__ inline uint16_t to_bf16(float f)
{
    uint16_t h;

    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

/* Converts two numbers and packs them into one word, `low` first in memory. */
template <int dtype> static __device__ inline uint32_t pack_two(float low, float high)
{
    uint32_t r;

    if constexpr (dtype == WEIR_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* The larger of the two; NaN if one of them is. */
static __device__ inline float max_or_nan(float a, float b)
{
    float c;

    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

/* 2^x, approximately */
static __device__ inline float exp2_fast(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- two f16 at a time, each rounded once ---- */

static __device__ inline uint32_t add_f16x2(uint32_t x, uint32_t y)
{
    uint32_t out;

    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(x), "r"(y));
    return out;
}

static __device__ inline uint32_t sub_f16x2(uint32_t x, uint32_t y)
{
    uint32_t out;

    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(x), "r"(y));
    return out;
}

static __device__ inline uint32_t mul_f16x2(uint32_t x, uint32_t y)
{
    uint32_t out;

    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(x), "r"(y));
    return out;
}

static __device__ inline uint64_t clock_ns()
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
