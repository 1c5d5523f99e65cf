/* arange and counter-based random numbers.
 *
 * Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * 2011) turns (seed, counter) into four words. In single precision counter j
 * gives elements 4j..4j+3, in double precision 2j and 2j+1, so element i does not depend on how the
 * tensor is cut. */
#include "ops/host/move/generate.h"

#include "ops/host/math/vmath.h"
#include "ops/host/row.h"
#include "ops/tile.h"

#define CHUNK WEIR__ROW_CHUNK
#define LANES (CHUNK / 4) /* counters per batch */

/* w[k][j] is word k of counter first + j. */
static void philox(uint32_t w[4][LANES], uint64_t seed, uint64_t first)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    for (uint32_t j = 0; j < LANES; j++) {
        w[0][j] = (uint32_t)(first + j);
        w[1][j] = (uint32_t)((first + j) >> 32);
        w[2][j] = w[3][j] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int j = 0; j < LANES; j++) {
            uint64_t p0 = (uint64_t)w[0][j] * 0xD2511F53u, p1 = (uint64_t)w[2][j] * 0xCD9E8D57u;

            w[0][j] = (uint32_t)(p1 >> 32) ^ w[1][j] ^ key0;
            w[1][j] = (uint32_t)p1;
            w[2][j] = (uint32_t)(p0 >> 32) ^ w[3][j] ^ key1;
            w[3][j] = (uint32_t)p0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* 24 random bits: 0 <= u < 1, each value exact. */
static inline float unit_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* 53 random bits from two words. */
static inline double unit_f64(uint32_t high, uint32_t low)
{
    return (double)((uint64_t)(high >> 5) << 26 | low >> 6) * 0x1p-53;
}

static void uniform_f32(float *row, int64_t first, const struct weir__gen *g)
{
    uint32_t w[4][LANES];
    float low = (float)g->a, width = (float)(g->b - g->a);

    philox(w, g->seed, (uint64_t)first / 4);
    for (int j = 0; j < LANES; j++)
        for (int k = 0; k < 4; k++)
            row[4 * j + k] = low + unit_f32(w[k][j]) * width;
}

/* u[0] and u[1] are the two elements of counter first + j. */
static void units_f64(double *row, int64_t first, uint64_t seed)
{
    uint32_t w[4][LANES];

    for (int half = 0; half < 2; half++, row += CHUNK / 2) {
        philox(w, seed, (uint64_t)first / 2 + (uint64_t)half * LANES);
        for (int j = 0; j < LANES; j++) {
            row[2 * j] = unit_f64(w[0][j], w[1][j]);
            row[2 * j + 1] = unit_f64(w[2][j], w[3][j]);
        }
    }
}

static void uniform_f64(double *row, int64_t first, const struct weir__gen *g)
{
    units_f64(row, first, g->seed);
    for (int i = 0; i < CHUNK; i++)
        row[i] = g->a + row[i] * (g->b - g->a);
}

static void uniform_i64(int64_t *row, int64_t first, const struct weir__gen *g)
{
    double u[CHUNK], low = ceil(g->a), high = ceil(g->b) - 1;

    units_f64(u, first, g->seed);
    for (int i = 0; i < CHUNK; i++) {
        double x = low + floor(u[i] * (high - low + 1));

        row[i] = (int64_t)(x < high ? x : high);
    }
}

/* Box-Muller: words 0 and 1 give elements 0 and 1, words 2 and 3 the others. */
static void normal_f32(float *row, int64_t first, const struct weir__gen *g)
{
    uint32_t w[4][LANES];
    float radius[LANES], turn[LANES], sine[LANES], cosine[LANES];
    float mean = (float)g->a, deviation = (float)g->b;

    philox(w, g->seed, (uint64_t)first / 4);
    for (int pair = 0; pair < 4; pair += 2) {
        for (int j = 0; j < LANES; j++) {
            radius[j] = unit_f32(w[pair][j]) + 0x1p-24f; /* 0 < u <= 1 */
            turn[j] = unit_f32(w[pair + 1][j]);
        }
        for (int j = 0; j < LANES; j += WEIR__VF_LANES) {
            weir__vf s, c, r = weir__vf_sqrt(-2.0f * weir__vf_log(weir__vf_load(radius + j)));

            weir__vf_sincos_turns(weir__vf_load(turn + j), &s, &c);
            weir__vf_store(cosine + j,
                           weir__vf_fma(r * c, weir__vf_set(deviation), weir__vf_set(mean)));
            weir__vf_store(sine + j,
                           weir__vf_fma(r * s, weir__vf_set(deviation), weir__vf_set(mean)));
        }
        for (int j = 0; j < LANES; j++) {
            row[4 * j + pair] = cosine[j];
            row[4 * j + pair + 1] = sine[j];
        }
    }
}

static void normal_f64(double *row, int64_t first, const struct weir__gen *g)
{
    units_f64(row, first, g->seed);
    for (int i = 0; i < CHUNK; i += 2) {
        double radius = sqrt(-2 * log(row[i] + 0x1p-53)) * g->b;
        double angle = 6.28318530717958647692 * row[i + 1];

        row[i] = radius * cos(angle) + g->a;
        row[i + 1] = radius * sin(angle) + g->a;
    }
}

static void arange_f64(double *row, int64_t first, const struct weir__gen *g)
{
    for (int i = 0; i < CHUNK; i++)
        row[i] = g->a + (double)(first + i) * g->b;
}

static void arange_i64(int64_t *row, int64_t first, const struct weir__gen *g)
{
    uint64_t start = (uint64_t)(int64_t)g->a, step = (uint64_t)(int64_t)g->b;

    for (int i = 0; i < CHUNK; i++)
        row[i] = (int64_t)(start + (uint64_t)(first + i) * step);
}

/* Generates elements first..first+CHUNK-1. Returns their type. */
static weir_dtype generate(void *row, int64_t first, const struct weir__gen *g)
{
    switch (g->kind) {
    case WEIR__GEN_ARANGE_F64:
        arange_f64(row, first, g);
        return WEIR_F64;
    case WEIR__GEN_ARANGE_I64:
        arange_i64(row, first, g);
        return WEIR_I64;
    case WEIR__GEN_UNIFORM_F32:
        uniform_f32(row, first, g);
        return WEIR_F32;
    case WEIR__GEN_UNIFORM_F64:
        uniform_f64(row, first, g);
        return WEIR_F64;
    case WEIR__GEN_UNIFORM_I64:
        uniform_i64(row, first, g);
        return WEIR_I64;
    case WEIR__GEN_NORMAL_F32:
        normal_f32(row, first, g);
        return WEIR_F32;
    case WEIR__GEN_NORMAL_F64:
        break;
    }
    normal_f64(row, first, g);
    return WEIR_F64;
}

/* Stores n elements of a packed row to positions first.. of the strided tensor. */
static void put(const struct weir__gen *g, char *row, weir_dtype type, int64_t first, int64_t n)
{
    size_t from = weir__elem_size(type), to = weir__elem_size(g->dtype);
    int last = g->ndim - 1;

    while (n > 0) {
        int64_t column = first % g->shape[last], rest = first / g->shape[last];
        int64_t m = weir__min(n, g->shape[last] - column), at = column * g->stride[last];

        for (int d = last - 1; d >= 0; d--) {
            at += rest % g->shape[d] * g->stride[d];
            rest /= g->shape[d];
        }
        WEIR__ISA_NAME(weir__row_store)
        (g->data + at * (int64_t)to, g->dtype, g->stride[last], row, type, m);
        row += (size_t)m * from;
        first += m;
        n -= m;
    }
}

weir_status WEIR__ISA_NAME(weir__gen_kernel)(const void *args, const weir_block *block)
{
    const struct weir__gen *g = args;
    struct weir__range r = weir__tile_range(g->numel, CHUNK, block);

    for (int64_t first = r.begin; first < r.end; first += CHUNK)
        put(g, block->local, generate(block->local, first, g), first,
            weir__min(CHUNK, r.end - first));
    return WEIR_OK;
}
