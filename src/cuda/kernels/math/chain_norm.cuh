/* The end of a chain that is a norm of its rows; see row_norm.cu, whose sums these are. The rest of
 * such a source is written for each chain. */
#pragma once

#include "chain.cuh"

enum { NONE = 255 };

/* Elements of a row from `at` on, of the weight or the bias. */
template <int layout, int type, int n>
static __device__ inline void factors(const char *data, int64_t step, int64_t at,
                                      typename Type<type>::compute *to)
{
    typedef typename Type<type>::store Store;

    if constexpr (layout == WEIR__LAYOUT_ANY) {
#pragma unroll
        for (int k = 0; k < n; k++)
            to[k] = load<type>(data, (at + k) * step);
    } else {
        Pack<Store, n> p = read<layout, n, Store>(data, &at);

#pragma unroll
        for (int k = 0; k < n; k++)
            to[k] = Type<type>::load(p.v[k]);
    }
}

template <int type, int centred, int held, int out, int weight, int bias, typename First>
static __device__ inline void norm_row(const weir__chain_norm &a, int64_t row)
{
    typedef typename Type<type>::compute real;
    typedef typename Type<type>::store Store;
    constexpr int pack = 16 / sizeof(Store);
    double mean = 0, squares = 0;
    real x[held][pack], factor;

#pragma unroll
    for (int i = 0; i < held; i++) {
        int64_t at = (int64_t)(i * blockDim.x + threadIdx.x) * pack;

        if (at < a.n) {
            Pack<Store, pack> p = First::run(a.chain, row * a.n + at);

#pragma unroll
            for (int k = 0; k < pack; k++)
                x[i][k] = Type<type>::load(p.v[k]);
        }
    }
    if constexpr (centred != 0) {
#pragma unroll
        for (int i = 0; i < held; i++) {
            real sum = 0;

#pragma unroll
            for (int k = 0; k < pack; k++)
                sum += x[i][k];
            if ((int64_t)(i * blockDim.x + threadIdx.x) * pack < a.n)
                mean += (double)sum;
        }
        mean = block_sum(mean) / (double)a.n;
    }
#pragma unroll
    for (int i = 0; i < held; i++) {
        real sum = 0;

#pragma unroll
        for (int k = 0; k < pack; k++) {
            x[i][k] -= (real)mean;
            sum += x[i][k] * x[i][k];
        }
        if ((int64_t)(i * blockDim.x + threadIdx.x) * pack < a.n)
            squares += (double)sum;
    }
    factor = (real)(1 / sqrt(block_sum(squares) / (double)a.n + a.eps));
#pragma unroll
    for (int i = 0; i < held; i++) {
        int64_t at = (int64_t)(i * blockDim.x + threadIdx.x) * pack, to = row * a.n + at;
        Pack<Store, pack> p;
        real f[pack];

        if (at >= a.n)
            continue;
#pragma unroll
        for (int k = 0; k < pack; k++)
            x[i][k] *= factor;
        if constexpr (weight != NONE) {
            factors<weight, type, pack>(a.weight, a.weight_step, at, f);
#pragma unroll
            for (int k = 0; k < pack; k++)
                x[i][k] *= f[k];
        }
        if constexpr (bias != NONE) {
            factors<bias, type, pack>(a.bias, a.bias_step, at, f);
#pragma unroll
            for (int k = 0; k < pack; k++)
                x[i][k] += f[k];
        }
#pragma unroll
        for (int k = 0; k < pack; k++)
            p.v[k] = Type<type>::pack(x[i][k]);
        write<out, pack>(a.out, &to, p);
    }
}
