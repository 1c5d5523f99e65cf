/* Launches by rows: norms, softmax, reductions, slices, concatenation and rotary embeddings in one
 * launch with elementwise operators. Values are the bits of the operators one by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/compile.h"
#include "graph/plan/plan.h"
#include "harness/test.h"
#include "weir/weir.h"

enum { POOL = 6, MOST = 320, STEPS = 14, INPUTS = 5 };

struct shape {
    int64_t a, b;
    weir_dtype dtype;
};

static uint64_t next(uint64_t *r, uint64_t n)
{
    *r ^= *r << 13;
    *r ^= *r >> 7;
    *r ^= *r << 17;
    return (*r >> 11) % n;
}

static int64_t last_of(const weir_tensor *t)
{
    return weir_tensor_shape(t)[2];
}

/* y takes the place of *x. */
static void replace(weir_tensor **x, weir_tensor *y)
{
    weir_tensor_release(*x);
    *x = y;
}

/* A result of x whose rows are seen as two halves, if their length is even. */
static weir_tensor *step_of_halves(uint64_t *r, const struct shape *s, weir_tensor *x,
                                   weir_tensor *y, weir_tensor *const *extra)
{
    const int inner[] = {0, 1, 3, 2};
    int64_t n = last_of(x);
    weir_tensor *z, *w;

    if (n % 2) {
        CHECK_OK(weir_mul(x, y, &z));
        return z;
    }
    if (next(r, 3) == 0) {
        CHECK_OK(weir_swiglu(x, 2, &z));
        return z;
    }
    CHECK_OK(weir_tensor_reshape(x, 4, (const int64_t[]){s->a, s->b, 2, n / 2}, &w));
    if (next(r, 2) && n % 4 == 0) {
        weir_tensor *cosines, *sines;

        CHECK_OK(weir_tensor_slice(extra[1], 1, 0, n / 4, 1, &cosines));
        CHECK_OK(weir_tensor_slice(extra[2], 1, 0, n / 4, 1, &sines));
        CHECK_OK(weir_rotary(w, cosines, sines, next(r, 2), &z));
        weir_tensor_release(cosines);
        weir_tensor_release(sines);
    } else { /* turned inside the row */
        weir_tensor *turned;

        CHECK_OK(weir_tensor_permute(w, inner, &turned));
        CHECK_OK(weir_copy(turned, &z));
        weir_tensor_release(turned);
    }
    replace(&w, z);
    CHECK_OK(weir_tensor_reshape(w, 3, (const int64_t[]){s->a, s->b, n}, &z));
    weir_tensor_release(w);
    return z;
}

/* x normed with a weight that is an input, or that every row needs whole. */
static weir_tensor *norm_of(uint64_t *r, weir_tensor *x, weir_tensor *const *extra)
{
    weir_tensor *z, *w;

    CHECK_OK(weir_tensor_slice(extra[0], 0, 0, last_of(x), 1, &w));
    if (next(r, 2)) {
        CHECK_OK(weir_tanh(w, &z));
        replace(&w, z);
    }
    if (next(r, 2))
        CHECK_OK(weir_rms_norm(x, w, 1e-5, &z));
    else
        CHECK_OK(weir_layer_norm(x, w, next(r, 2) ? w : NULL, 1e-5, &z));
    weir_tensor_release(w);
    return z;
}

/* One more result of the pool's tensors, all [a, b, something]. */
static weir_tensor *step(uint64_t *r, const struct shape *s, weir_tensor *const *pool,
                         weir_tensor *const *extra)
{
    weir_tensor *x = pool[next(r, POOL)], *y = pool[next(r, POOL)], *z, *w;
    int64_t n = last_of(x), from;
    const int swap[] = {1, 0, 2};

    if (last_of(y) != n && last_of(y) != 1)
        y = x;
    switch (next(r, 15)) {
    case 0:
        CHECK_OK(weir_add(x, y, &z));
        return z;
    case 1:
        CHECK_OK(weir_sub(y, x, &z));
        return z;
    case 2:
        CHECK_OK(weir_tanh(x, &z));
        return z;
    case 3: /* a mask of another type */
        CHECK_OK(weir_gt(x, y, &w));
        CHECK_OK(weir_where(w, x, y, &z));
        weir_tensor_release(w);
        return z;
    case 4:
        return norm_of(r, x, extra);
    case 5:
        CHECK_OK(weir_softmax(x, next(r, 4) ? 2 : 1, &z));
        return z;
    case 6:
        CHECK_OK(weir_mean(x, (const int[]){2}, 1, true, &z));
        return z;
    case 7:
        CHECK_OK((next(r, 2) ? weir_max : weir_sum)(x, (const int[]){2}, 1, true, &z));
        return z;
    case 8:
        from = (int64_t)next(r, (uint64_t)n);
        CHECK_OK(weir_tensor_slice(x, 2, from, n, 1 + (int64_t)next(r, 2), &w));
        CHECK_OK(weir_sigmoid(w, &z));
        weir_tensor_release(w);
        return z;
    case 9:
        if (n + last_of(y) > MOST)
            y = x;
        if (n + last_of(y) > MOST) {
            CHECK_OK(weir_abs(x, &z));
            return z;
        }
        CHECK_OK(weir_concat((weir_tensor *[]){x, y}, 2, 2, &z));
        return z;
    case 10:
        CHECK_OK(weir_cast(x, s->dtype == WEIR_BF16 ? WEIR_F32 : WEIR_BF16, &w));
        CHECK_OK(weir_cast(w, s->dtype, &z));
        weir_tensor_release(w);
        return z;
    case 11: /* rows of another: what crosses them must not be in the launch */
        CHECK_OK(weir_tensor_permute(x, swap, &w));
        CHECK_OK(weir_copy(w, &z));
        weir_tensor_release(w);
        CHECK_OK(weir_tensor_permute(z, swap, &w));
        weir_tensor_release(z);
        CHECK_OK(weir_mul(w, x, &z));
        weir_tensor_release(w);
        return z;
    case 12: /* a row for all of them */
        CHECK_OK(weir_max(x, (const int[]){1}, 1, true, &w));
        CHECK_OK(weir_add(x, w, &z));
        weir_tensor_release(w);
        return z;
    default:
        return step_of_halves(r, s, x, y, extra);
    }
}

/* The same operators for the same seed: in[0..1] are the pool's first, the rest extra. */
static void build(uint64_t seed, const struct shape *s, weir_tensor *const *in, weir_tensor **pool)
{
    uint64_t r = seed * 0x9e3779b97f4a7c15u + 1;

    for (int i = 0; i < POOL; i++)
        pool[i] = weir_tensor_retain(in[i % 2]);
    for (int i = 0; i < STEPS; i++) {
        weir_tensor *z = step(&r, s, pool, in + 2);

        replace(&pool[next(&r, POOL)], z);
    }
    for (int i = 0; i < POOL; i++) { /* results are tensors of their own */
        weir_tensor *z;

        CHECK_OK(weir_copy(pool[i], &z));
        replace(&pool[i], z);
    }
}

static size_t bytes_of(const weir_tensor *t)
{
    size_t n = weir_dtype_size(weir_tensor_dtype(t));

    for (int d = 0; d < weir_tensor_ndim(t); d++)
        n *= (size_t)weir_tensor_shape(t)[d];
    return n;
}

/* Compiles and runs what the seed says; how many values its launches by rows keep. */
static int compare(weir_device *dev, uint64_t seed)
{
    static const int64_t lengths[] = {1, 2, 6, 16, 31, 64, 100};
    static const int64_t rows[] = {1, 2, 5, 16, 37, 64, 300};
    static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F64};
    uint64_t r = seed + 77;
    struct shape s = {1 + (int64_t)next(&r, 3), rows[next(&r, 7)], types[seed % 3]};
    const int64_t shapes[INPUTS][3] = {{s.a, s.b, lengths[next(&r, 7)]},
                                       {s.a, s.b, lengths[next(&r, 7)]},
                                       {MOST},
                                       {s.b, MOST},
                                       {s.b, MOST}};
    const int ndims[INPUTS] = {3, 3, 1, 2, 2};
    weir_tensor *in[INPUTS], *gin[INPUTS], *want[POOL], *gout[POOL], *out[POOL] = {NULL};
    int kept = 0;
    weir_graph *g;
    weir_plan *plan;

    test_note("seed %d", (int)seed);
    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < INPUTS; i++) {
        char name[16];

        snprintf(name, sizeof name, "in%d", i);
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), s.dtype, ndims[i], shapes[i], &in[i]));
        CHECK_OK(weir_random_normal(in[i], seed * 8 + (uint64_t)i, 0, 1));
        CHECK_OK(weir_graph_input(g, name, s.dtype, ndims[i], shapes[i], &gin[i]));
    }
    build(seed, &s, in, want);
    CHECK_OK(weir_graph_begin(g));
    build(seed, &s, gin, gout);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < POOL; i++) {
        char name[16];

        snprintf(name, sizeof name, "out%d", i);
        CHECK_OK(weir_graph_output(g, name, gout[i]));
    }
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int v = 0; v < plan->graph->nnodes; v++)
        if (plan->c.live[v] && plan->c.rows[plan->c.leader[v]] && plan->graph->nodes[v].nout)
            kept += plan->c.slot[plan->graph->nodes[v].out[0].value] >= 0;
    for (int run = 0; run < 2; run++) {
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), in, INPUTS, out, POOL));
        for (int i = 0; i < POOL; i++) {
            size_t bytes = bytes_of(want[i]);
            char *a = malloc(bytes), *b = malloc(bytes);

            CHECK(a && b);
            CHECK_OK(weir_tensor_read(want[i], a, bytes));
            CHECK_OK(weir_tensor_read(out[i], b, bytes));
            if (memcmp(a, b, bytes))
                test_note("seed %d, result %d:\n%s", (int)seed, i, weir_plan_list(plan));
            CHECK_MEM_EQ(a, b, bytes);
            free(a);
            free(b);
        }
    }
    for (int i = 0; i < POOL; i++) {
        weir_tensor_release(want[i]);
        weir_tensor_release(gout[i]);
        weir_tensor_release(out[i]);
    }
    for (int i = 0; i < INPUTS; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(gin[i]);
    }
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    return kept;
}

TEST_TIMEOUT(fuse_rows, random_graphs_give_the_bits_of_the_operators_one_by_one, 240)
{
    static const char *const specs[] = {"cpu:cores=1", "cpu:cores=4,threads=2", "npu:a3"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        weir_device *dev;
        int kept = 0;

        CHECK_OK(weir_device_open(specs[i], &dev));
        for (uint64_t seed = 1; seed <= 300 / TEST_SLOWDOWN; seed++)
            kept += compare(dev, seed);
        test_note("%s", specs[i]);
        CHECK(kept > 300 / TEST_SLOWDOWN);
        CHECK_OK(weir_device_close(dev));
    }
}
