/* Instructions that CUDA C++ has no words for; those of tensor cores are in ptx_mma.cuh and
 * ptx_hopper.cuh. All assembly is in these three files: tests/cuda/emulate has its own of the same
 * names, with which the sources run on the host. */
#pragma once

#include "weir/tensor.h"

/* The first thing that every entry does. It may be started while the kernels before it end
 * (cuda/stream/issue.c), and must touch no memory until they have; and none may end before those have,
 * since whoever comes next waits for this one alone. */
static __device__ inline void await_earlier()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
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

/* Two numbers as neighbours in memory. */
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

/* 2^x, nearly */
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
