/* c = a b + bias of f16 or bf16 for any strides, on tensor cores: sums and bias in f32, rounded
 * once. A block has 64 by 64 results, each of its four warps 32 by 32. Elements go through
 * registers to shared memory one by one, since strides may be anything. The next step's elements
 * are loaded while this one is multiplied. */
#pragma once

#include "mma.cuh"
#include "ops/host/product/gemm.h"

template <int dtype> struct GemmTiles {
    enum {
        SIDE = 64,
        DEPTH = 32,
        THREADS = 128,
        PITCH = DEPTH + 8, /* rows begin at different banks */
        EACH = SIDE * DEPTH / THREADS,
    };
    typedef uint16_t half_bits;
    typedef half_bits Tile[SIDE][PITCH];
    typedef float Sums[2][4][4];

    /* SIDE rows (of a, or columns of b) by DEPTH along k. */
    struct Operand {
        const half_bits *from; /* the first row's first element */
        int64_t row, col;      /* steps, the second along k */
        int64_t rows;          /* the number of rows that exist */
    };

    /* Adjacent threads read adjacent elements. */
    static __device__ inline void place(const Operand &o, int i, int &row, int &k)
    {
        int at = i * THREADS + threadIdx.x;

        row = o.col == 1 ? at / DEPTH : at % SIDE;
        k = o.col == 1 ? at % DEPTH : at / SIDE;
    }

    static __device__ inline void fetch(const Operand &o, int64_t k0, int64_t depth,
                                        half_bits *held)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int row, k;

            place(o, i, row, k);
            held[i] = row < o.rows && k0 + k < depth ? o.from[row * o.row + (k0 + k) * o.col] : 0;
        }
    }

    static __device__ inline void put(const Operand &o, const half_bits *held, Tile &tile)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int row, k;

            place(o, i, row, k);
            tile[row][k] = held[i];
        }
    }

    static __device__ inline void add_step(const Tile &as, const Tile &bs, Sums &sums)
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        int down = warp / 2 * 32, across = warp % 2 * 32;

#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            uint32_t a[2][4], b[4];

#pragma unroll
            for (int i = 0; i < 2; i++)
                load_blocks(a[i], shared_address(
                                      &as[down + i * 16 + lane % 16][k + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 2; j++) {
                load_blocks(b, shared_address(&bs[across + j * 16 + lane / 16 * 8 + lane % 8]
                                                 [k + lane / 8 % 2 * 8]));
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    multiply<dtype>(sums[i][2 * j], a[i], b);
                    multiply<dtype>(sums[i][2 * j + 1], a[i], b + 2);
                }
            }
        }
    }

    static __device__ inline void store_sums(const weir__gemm &g, int64_t row0, int64_t col0,
                                             int64_t c, const Sums &sums)
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

        row0 += warp / 2 * 32 + lane / 4;
        col0 += warp % 2 * 32 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int64_t row = row0 + i * 16 + e / 2 * 8, col = col0 + j * 8 + e % 2;
                    float sum = sums[i][j][e];

                    if (row >= g.m || col >= g.n)
                        continue;
                    if (g.bias)
                        sum += load<dtype>(g.bias, col * g.bias_col);
                    store<dtype>(g.c, c + row * g.c_row + col * g.c_col, sum);
                }
    }

    static __device__ inline void run(const weir__gemm_stack &s)
    {
        __shared__ __align__(16) Tile as, bs;
        const weir__gemm &g = s.gemm;
        int64_t across = (g.n + SIDE - 1) / SIDE, down = (g.m + SIDE - 1) / SIDE;

        for (int64_t t = blockIdx.x; t < s.batch * across * down; t += gridDim.x) {
            int64_t row = t / across % down * SIDE, col = t % across * SIDE;
            int64_t rest = t / across / down, a = 0, b = 0, c = 0;
            half_bits next_a[EACH], next_b[EACH];
            Sums sums = {};

            for (int d = s.ndims - 1; d >= 0; d--) {
                a += rest % s.shape[d] * s.a_step[d];
                b += rest % s.shape[d] * s.b_step[d];
                c += rest % s.shape[d] * s.c_step[d];
                rest /= s.shape[d];
            }
            Operand left = {(const half_bits *)g.a + a + row * g.a_row, g.a_row, g.a_col,
                            g.m - row};
            Operand right = {(const half_bits *)g.b + b + col * g.b_col, g.b_col, g.b_row,
                             g.n - col};

            fetch(left, 0, g.k, next_a);
            fetch(right, 0, g.k, next_b);
            for (int64_t k = 0; k < g.k; k += DEPTH) {
                __syncthreads(); /* no thread reads the previous step any more */
                put(left, next_a, as);
                put(right, next_b, bs);
                __syncthreads();
                if (k + DEPTH < g.k) {
                    fetch(left, k + DEPTH, g.k, next_a);
                    fetch(right, k + DEPTH, g.k, next_b);
                }
                add_step(as, bs, sums);
            }
            store_sums(g, row, col, c, sums);
        }
    }
};
