/* The definitions that device/report.h needs, on the device. */
#pragma once

#include "weir/tensor.h"

#define WEIR__REPORT_FN static __device__ inline

static __device__ inline uint64_t weir__report_load(const uint64_t *p)
{
    return *(const volatile uint64_t *)p;
}

static __device__ inline void weir__report_store(uint64_t *p, uint64_t value)
{
    __threadfence_system();
    *(volatile uint64_t *)p = value;
}

static __device__ inline uint64_t weir__report_replace(uint64_t *p, uint64_t old, uint64_t value)
{
    return atomicCAS((unsigned long long *)p, (unsigned long long)old, (unsigned long long)value);
}

#include "device/report.h"
