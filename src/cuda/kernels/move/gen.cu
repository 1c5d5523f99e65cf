/* arange and counter-based random numbers (Philox-4x32-10): element i depends on the seed and i
 * alone. V0: type; V1: kind */
#include "kernel.cuh"
#include "ops/host/move/generate.h"

static __device__ inline uint4 philox(uint64_t seed, uint64_t counter)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint4 w = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)w.x * 0xD2511F53u, p1 = (uint64_t)w.z * 0xCD9E8D57u;

        w = {(uint32_t)(p1 >> 32) ^ w.y ^ key0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ w.w ^ key1,
             (uint32_t)p0};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return w;
}

static __device__ inline float unit_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static __device__ inline double unit_f64(uint32_t high, uint32_t low)
{
    return (double)((uint64_t)(high >> 5) << 26 | low >> 6) * 0x1p-53;
}

static __device__ inline double unit_at(const weir__gen &g, int64_t i)
{
    uint4 w = philox(g.seed, (uint64_t)i / 2);

    return i & 1 ? unit_f64(w.z, w.w) : unit_f64(w.x, w.y);
}

static __device__ inline float normal_f32(const weir__gen &g, int64_t i)
{
    uint4 w = philox(g.seed, (uint64_t)i / 4);
    float u = unit_f32(i & 2 ? w.z : w.x) + 0x1p-24f, turn = unit_f32(i & 2 ? w.w : w.y);
    float r = sqrtf(-2.0f * logf(u)), s, c;

    sincospif(2 * turn, &s, &c);
    return fmaf(r * (i & 1 ? s : c), (float)g.b, (float)g.a);
}

static __device__ inline double normal_f64(const weir__gen &g, int64_t i)
{
    double radius = sqrt(-2 * log(unit_at(g, i & ~1ll) + 0x1p-53)) * g.b;
    double angle = 6.28318530717958647692 * unit_at(g, i | 1);

    return radius * (i & 1 ? sin(angle) : cos(angle)) + g.a;
}

static __device__ inline Type<V0>::store element(const weir__gen &g, int64_t i)
{
    switch (V1) {
    case WEIR__GEN_ARANGE_F64:
        return convert<V0, WEIR_F64>(g.a + (double)i * g.b);
    case WEIR__GEN_ARANGE_I64:
        return convert<V0, WEIR_I64>(
            (int64_t)((uint64_t)(int64_t)g.a + (uint64_t)i * (uint64_t)(int64_t)g.b));
    case WEIR__GEN_UNIFORM_F32: {
        uint4 w = philox(g.seed, (uint64_t)i / 4);
        uint32_t word = i & 2 ? (i & 1 ? w.w : w.z) : (i & 1 ? w.y : w.x);

        return convert<V0, WEIR_F32>((float)g.a + unit_f32(word) * (float)(g.b - g.a));
    }
    case WEIR__GEN_UNIFORM_F64:
        return convert<V0, WEIR_F64>(g.a + unit_at(g, i) * (g.b - g.a));
    case WEIR__GEN_UNIFORM_I64: {
        double low = ceil(g.a), high = ceil(g.b) - 1;
        double x = low + floor(unit_at(g, i) * (high - low + 1));

        return convert<V0, WEIR_I64>((int64_t)(x < high ? x : high));
    }
    case WEIR__GEN_NORMAL_F32:
        return convert<V0, WEIR_F32>(normal_f32(g, i));
    default:
        return convert<V0, WEIR_F64>(normal_f64(g, i));
    }
}

extern "C" __global__ void gen(const __grid_constant__ weir__gen g)
{
    await_earlier();
    for (int64_t i = thread_index(); i < g.numel; i += thread_count()) {
        int64_t rest = i, at = 0;

        for (int d = g.ndim - 1; d >= 0; d--) {
            at += rest % g.shape[d] * g.stride[d];
            rest /= g.shape[d];
        }
        ((Type<V0>::store *)g.data)[at] = element(g, i);
    }
}
