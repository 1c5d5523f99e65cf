/* Tensor core instructions that every supported GPU has, and asynchronous copies; see ptx.cuh. */
#pragma once

#include "kernel.cuh"

/* Starts an asynchronous copy of `bytes` bytes from global to shared memory; zeros unless
 * `there`. */
template <int bytes>
static __device__ inline void copy_bytes(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
                 "r"(there ? bytes : 0)
                 : "memory");
}

/* Starts an asynchronous copy of 16 bytes from global to shared memory; zeros unless `there`. */
static __device__ inline void copy_chunk(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

static __device__ inline void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for the thread's own copies, except the last `left` groups. */
template <int left> static __device__ inline void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* Loads four blocks of 8 x 8 elements; lane l passes the address of row l % 8 of block l / 8. */
static __device__ inline void load_blocks(uint32_t *r, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

static __device__ inline void load_blocks_turned(uint32_t *r, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* c += a b: 16 x 16 by 16 x 8. */
template <int dtype>
static __device__ inline void multiply(float *c, const uint32_t *a, const uint32_t *b)
{
    if constexpr (dtype == WEIR_F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* The same for f32 whose low 13 bits are ignored, 16 x 8 by 8 x 8. A lane's words of a are rows
 * lane / 4 and lane / 4 + 8 of column lane % 4, then the same rows of column lane % 4 + 4. Its words
 * of b are rows lane % 4 and lane % 4 + 4 of column lane / 4. */
static __device__ inline void multiply_tf32(float *c, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
