/* c = a b + bias for any strides and types, for products that the library does not support.
 * V0: type */
#include "gemm_tiles.cuh"
#include "kernel.cuh"

enum { TILE = 16 };
/* Products of 8-bit integers are summed in 32 bits, the type of the result. */
constexpr int OUT = V0 == WEIR_I8 ? (int)WEIR_I32 : (int)V0;
typedef Type<OUT>::compute real;

/* Integers wrap. */
template <typename T> struct Sum { typedef T type; };
template <> struct Sum<int32_t> { typedef uint32_t type; };
template <> struct Sum<int64_t> { typedef uint64_t type; };
typedef Sum<real>::type sum;

static __device__ inline void one_by_one(const weir__gemm_stack &s)
{
    __shared__ sum as[TILE][TILE + 1], bs[TILE][TILE + 1];
    const weir__gemm &g = s.gemm;
    int64_t across = (g.n + TILE - 1) / TILE, down = (g.m + TILE - 1) / TILE;
    int x = threadIdx.x % TILE, y = threadIdx.x / TILE;

    for (int64_t t = blockIdx.x; t < s.batch * across * down; t += gridDim.x) {
        int64_t row = t / across % down * TILE + y, col = t % across * TILE + x;
        int64_t rest = t / across / down, a = 0, b = 0, c = 0;
        sum total = 0;

        for (int d = s.ndims - 1; d >= 0; d--) {
            a += rest % s.shape[d] * s.a_step[d];
            b += rest % s.shape[d] * s.b_step[d];
            c += rest % s.shape[d] * s.c_step[d];
            rest /= s.shape[d];
        }
        for (int64_t k = 0; k < g.k; k += TILE) {
            as[y][x] = row < g.m && k + x < g.k
                           ? (sum)load<V0>(g.a, a + row * g.a_row + (k + x) * g.a_col)
                           : (sum)0;
            bs[y][x] = k + y < g.k && col < g.n
                           ? (sum)load<V0>(g.b, b + (k + y) * g.b_row + col * g.b_col)
                           : (sum)0;
            __syncthreads();
            for (int i = 0; i < TILE; i++)
                total += as[y][i] * bs[i][x];
            __syncthreads();
        }
        if (row < g.m && col < g.n) {
            if (g.bias)
                total += (sum)load<OUT>(g.bias, col * g.bias_col);
            store<OUT>(g.c, c + row * g.c_row + col * g.c_col, (real)total);
        }
    }
}

/* 16-bit types that tensor cores support are computed by gemm_tiles.cuh. ops/gpu/matrix.c chooses by
 * the same rule. */
extern "C" __global__ void gemm(const __grid_constant__ weir__gemm_stack s)
{
    await_earlier();
#if __CUDA_ARCH__ >= 800
    if constexpr (V0 == WEIR_F16 || V0 == WEIR_BF16)
        GemmTiles<V0>::run(s);
    else
#endif
        one_by_one(s);
}
