/* Blocks of a cluster, which run at the same time and read each other's shared memory. Hopper and
 * later; see ptx.cuh. */
#pragma once

#include "kernel.cuh"

/* Waits for all threads of the cluster. What they wrote to shared memory before is then visible to
 * all of them. From CUDA 12.8 on the fences are of shared memory alone; otherwise each thread would
 * also wait for global memory. */
static __device__ inline void cluster_sync()
{
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;\n"
                 "barrier.cluster.arrive.relaxed;\n"
                 "barrier.cluster.wait;\n"
                 "fence.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
#elif __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

/* The same at a block's end: it stays until no other block reads its shared memory. Only loads whose
 * values have been used are over. */
static __device__ inline void cluster_leave()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;\n"
                 "barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

/* Loads words from the shared memory of the cluster's block `rank`, at an address as the block's own
 * threads use it. */
static __device__ inline float4 load_four_of(unsigned rank, uint32_t address)
{
    float4 x = {0, 0, 0, 0};

#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .u32 at;\n"
                 "mapa.shared::cluster.u32 at, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [at]; }"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address), "r"(rank)
                 : "memory");
#endif
    return x;
}

static __device__ inline float2 load_two_of(unsigned rank, uint32_t address)
{
    float2 x = {0, 0};

#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .u32 at;\n"
                 "mapa.shared::cluster.u32 at, %2, %3;\n"
                 "ld.shared::cluster.v2.f32 {%0, %1}, [at]; }"
                 : "=f"(x.x), "=f"(x.y)
                 : "r"(address), "r"(rank)
                 : "memory");
#endif
    return x;
}
