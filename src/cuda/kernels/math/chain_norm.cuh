/* The last step of a chain that ends in a norm of its rows. The sums are computed as in
 * row_norm.cu. The rest of such a source is generated for each chain. */
#pragma once

#include "chain.cuh"

enum { NONE = 255 };

/* A row of weights or biases, in chunks like the row of elements. It is loaded early, so that the
 * load overlaps the sums. */
template <int layout, int type, int held> struct Factors {
    static constexpr int pack = 16 / sizeof(typename Type<type>::store);
    Pack<typename Type<type>::store, pack> chunk[held];

    __device__ inline Factors(const char *data, int64_t step, int64_t n)
    {
        typedef typename Type<type>::store Store;

#pragma unroll
        for (int i = 0; i < held; i++) {
            int64_t at = (int64_t)(i * blockDim.x + threadIdx.x) * pack;

            if (at >= n)
                continue;
            if constexpr (layout == WEIR__LAYOUT_ANY) {
#pragma unroll
                for (int k = 0; k < pack; k++)
                    chunk[i].v[k] = ((const Store *)data)[(at + k) * step];
            } else {
                chunk[i] = read<layout, pack, Store>(data, &at);
            }
        }
    }

    __device__ inline typename Type<type>::compute at(int i, int k) const
    {
        return Type<type>::load(chunk[i].v[k]);
    }
};
template <int type, int held> struct Factors<NONE, type, held> {
    __device__ inline Factors(const char *, int64_t, int64_t) {}
};

template <int type, int centred, int held, int out, int weight, int bias, typename First>
static __device__ inline void norm_row(const weir__chain_norm &a, int64_t row, int turn)
{
    typedef typename Type<type>::compute real;
    typedef typename Type<type>::store Store;
    constexpr int pack = 16 / sizeof(Store);
    double mean = 0, squares = 0;
    real x[held][pack], factor;
    Factors<weight, type, held> weights(a.weight, a.weight_step, a.n);
    Factors<bias, type, held> biases(a.bias, a.bias_step, a.n);

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
        mean = block_sum_at(1, mean) / (double)a.n;
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
    squares = block_sum_at(centred ? 0 : turn, squares);
    factor = (real)(1 / sqrt(squares / (double)a.n + a.eps));
#pragma unroll
    for (int i = 0; i < held; i++) {
        int64_t at = (int64_t)(i * blockDim.x + threadIdx.x) * pack, to = row * a.n + at;
        Pack<Store, pack> p;

        if (at >= a.n)
            continue;
#pragma unroll
        for (int k = 0; k < pack; k++)
            x[i][k] *= factor;
        if constexpr (weight != NONE) {
#pragma unroll
            for (int k = 0; k < pack; k++)
                x[i][k] *= weights.at(i, k);
        }
        if constexpr (bias != NONE) {
#pragma unroll
            for (int k = 0; k < pack; k++)
                x[i][k] += biases.at(i, k);
        }
#pragma unroll
        for (int k = 0; k < pack; k++)
            p.v[k] = Type<type>::pack(x[i][k]);
        write<out, pack>(a.out, &to, p);
    }
}
