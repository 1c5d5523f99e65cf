/* The instructions of src/cuda/kernels/product/ptx_cluster.cuh on the host. */
#pragma once

#include "kernel.cuh"

EMU_PLAIN static void cluster_sync()
{
    emu->cluster_sync();
}

EMU_PLAIN static void cluster_leave()
{
    emu->cluster_sync();
}

EMU_PLAIN static float4 load_four_of(unsigned rank, uint32_t address)
{
    float4 x;

    emu->cluster_read(rank, address, &x, sizeof x, __builtin_return_address(0));
    return x;
}

EMU_PLAIN static float2 load_two_of(unsigned rank, uint32_t address)
{
    float2 x;

    emu->cluster_read(rank, address, &x, sizeof x, __builtin_return_address(0));
    return x;
}
