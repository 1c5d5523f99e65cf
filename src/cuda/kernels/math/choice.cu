/* Chooses the experts of each token.
 * V0: type; V1: type of the bias; V2: sigmoid, else softmax; V3: experts are in groups, and only
 * some groups are chosen */
#include "elementwise.cuh"
#include "ops/host/math/choice.h"

typedef Type<V0>::compute real;

/* A score and its index. NaN is the largest score. Of equal scores the one with the lower index
 * wins. */
struct Best {
    real p;
    int at;
};

static __device__ inline bool beats(Best a, Best b)
{
    if (a.at < 0 || b.at < 0)
        return a.at >= 0;
    if (a.p != a.p || b.p != b.p)
        return a.p != a.p && (b.p == b.p || a.at < b.at);
    return a.p > b.p || (a.p == b.p && a.at < b.at);
}

static __device__ inline Best warp_best(Best b)
{
    for (int step = 16; step; step >>= 1) {
        Best other = {__shfl_xor_sync(~0u, b.p, step), __shfl_xor_sync(~0u, b.at, step)};

        if (beats(other, b))
            b = other;
    }
    return b;
}

/* Returns the best of the n scores that are worse than `last`; the best of all if last.at < 0. All
 * threads get the result. */
static __device__ inline Best next_best(const real *s, int n, Best last)
{
    Best best = {0, -1};

    for (int j = threadIdx.x; j < n; j += 32) {
        Best x = {s[j], j};

        if ((last.at < 0 || beats(last, x)) && beats(x, best))
            best = x;
    }
    return warp_best(best);
}

/* Computes the score of each group, then removes the experts of the groups that were not chosen. */
static __device__ inline void leave_groups(const weir__choice &a, real *s, real *groups)
{
    int size = (int)(a.n / a.groups), n = (int)a.groups;
    Best last = {0, -1};

    for (int g = threadIdx.x; g < n; g += 32) {
        Best first = {0, -1}, second = {0, -1};

        for (int j = g * size; j < (g + 1) * size; j++) {
            Best x = {s[j], j};

            if (beats(x, first)) {
                second = first;
                first = x;
            } else if (beats(x, second)) {
                second = x;
            }
        }
        groups[g] = a.best_two ? first.p + second.p : first.p;
    }
    __syncwarp();
    for (int i = 0; i < a.group_k; i++)
        last = next_best(groups, n, last);
    for (int j = threadIdx.x; j < a.n; j += 32) {
        Best own = {groups[j / size], j / size};

        if (beats(last, own))
            s[j] = (real)a.outside;
    }
    __syncwarp();
}

/* Computes a token's scores into p. */
static __device__ inline void read_scores(const weir__choice &a, int64_t token, real *p)
{
    int n = (int)a.n;
    real top = -(real)__int_as_float(0x7f800000), sum = 0;

    for (int j = threadIdx.x; j < n; j += 32) {
        real x = load<V0>(a.in, token * a.in_row + j * a.in_step);

        p[j] = V2 ? sigmoid<false>(x) : x;
        top = larger(top, x);
    }
    if constexpr (V2 != 0)
        return;
    for (int step = 16; step; step >>= 1)
        top = larger(top, __shfl_xor_sync(~0u, top, step));
    for (int j = threadIdx.x; j < n; j += 32)
        sum += p[j] = exp(p[j] - top);
    sum = (real)1 / warp_sum(sum);
    for (int j = threadIdx.x; j < n; j += 32)
        p[j] *= sum;
}

extern "C" __global__ void choice(const __grid_constant__ weir__choice a)
{
    await_earlier();
    extern __shared__ __align__(16) char memory[];
    real *p = (real *)memory, *s = p + a.n, *groups = s + a.n;

    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        Best last = {0, -1};
        real sum = 0;

        __syncwarp();
        read_scores(a, token, p);
        for (int j = threadIdx.x; j < a.n; j += 32)
            s[j] = a.bias ? p[j] + (real)load<V1>(a.bias, j * a.bias_step) : p[j];
        __syncwarp();
        if constexpr (V3 != 0)
            leave_groups(a, s, groups);
        for (int64_t k = 0; k < a.k; k++) {
            last = next_best(s, (int)a.n, last);
            sum += p[last.at];
            if (threadIdx.x == 0) {
                ((real *)a.weights)[token * a.weights_row + k * a.weights_step] = p[last.at];
                a.experts[token * a.experts_row + k * a.experts_step] = last.at;
            }
        }
        __syncwarp();
        for (int64_t k = threadIdx.x; k < a.k; k += 32) {
            real *w = (real *)a.weights + token * a.weights_row + k * a.weights_step;

            *w = (a.renormalise ? *w / (sum + (real)a.eps) : *w) * (real)a.scale;
        }
    }
}
