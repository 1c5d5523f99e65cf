/* Random elementwise chains in plans, where devices fuse them, give the bits that the operators
 * give one by one: every type, operands that are packed, sliced at odd places, turned, spread
 * along rows and columns, results used again as they are, reshaped, by rows, cast or normalised. */
#include "conformance/conformance.h"

#include <stdlib.h>

enum { BASES = 4, VALUES = 40, OUTPUTS = 6 };

static const weir_dtype types[] = {WEIR_F32, WEIR_F16, WEIR_BF16, WEIR_F64, WEIR_I64,
                                   WEIR_I32, WEIR_I8,  WEIR_U8,   WEIR_BOOL};

/* What a chain is made of: its operands are views of these, larger on all sides. */
struct chain {
    uint64_t salt;
    int64_t rows, cols;
    weir_dtype type[BASES];
    int nsteps, noutputs;
};

/* Values of the chain's shape, the newest last. */
struct pool {
    weir_tensor *at[VALUES];
    int n;
};

static weir_tensor *sliced(weir_tensor *x, int dim, int64_t start, int64_t count, int64_t step)
{
    weir_tensor *out;

    CHECK_OK(weir_tensor_slice(x, dim, start, start + count * step - (count ? step - 1 : 0), step,
                               &out));
    return out;
}

/* rows x cols, or what broadcasts to it, out of a larger base. */
static weir_tensor *view_of(weir_tensor *base, int64_t rows, int64_t cols, struct rng *rng)
{
    static const int64_t starts[] = {0, 0, 1, 3, 8};
    const int64_t *size = weir_tensor_shape(base);
    bool turned = size[0] >= cols && size[1] >= 2 * rows + 3 && rng_chance(rng, 30);
    int64_t row_step = rng_int(rng, 1, 2), col_step = !turned && rng_chance(rng, 20) ? 2 : 1;
    weir_tensor *whole = weir_tensor_retain(base), *some, *view;

    if (turned) {
        weir_tensor_release(whole);
        CHECK_OK(weir_tensor_transpose(base, 0, 1, &whole));
    }
    some = sliced(whole, 0, rng_int(rng, 0, 2), rng_chance(rng, 30) ? 1 : rows, row_step);
    view = sliced(some, 1, turned ? 0 : starts[rng_int(rng, 0, 4)], rng_chance(rng, 15) ? 1 : cols,
                  col_step);
    weir_tensor_release(whole);
    weir_tensor_release(some);
    return view;
}

static weir_tensor *shaped(weir_tensor *x, int64_t rows, int64_t cols)
{
    weir_tensor *out;

    CHECK_OK(weir_tensor_reshape(x, 2, (int64_t[]){rows, cols}, &out));
    return out;
}

/* An operand of the type: a value of the chain, the first row of one, or a view of a base. */
static weir_tensor *operand(const struct chain *c, const struct pool *p, weir_tensor *const *bases,
                            weir_dtype type, struct rng *rng)
{
    int from = (int)rng_int(rng, 0, BASES - 1), at = p->n - 1;
    weir_tensor *x, *out;

    while (at >= 0 && (weir_tensor_dtype(p->at[at]) != type || rng_chance(rng, 30)))
        at--;
    if (at >= 0 && rng_chance(rng, 65))
        return c->rows && rng_chance(rng, 8) ? sliced(p->at[at], 0, 0, 1, 1)
                                             : weir_tensor_retain(p->at[at]);
    x = view_of(bases[from], c->rows, c->cols, rng);
    if (weir_tensor_dtype(x) == type)
        return x;
    CHECK_OK(weir_cast(x, type, &out));
    weir_tensor_release(x);
    return out;
}

static weir_tensor *unary(weir_tensor *x, weir_dtype type, struct rng *rng)
{
    static weir_status (*const real[])(weir_tensor *, weir_tensor **) = {
        weir_exp, weir_sigmoid, weir_tanh, weir_gelu, weir_silu, weir_sqrt};
    static weir_status (*const any[])(weir_tensor *, weir_tensor **) = {weir_neg, weir_abs,
                                                                        weir_relu, weir_copy};
    weir_tensor *out;

    if (!weir_dtype_is_float(type) && rng_chance(rng, 20))
        CHECK_OK(weir_bitwise_not(x, &out));
    else if (type == WEIR_BOOL)
        CHECK_OK(weir_copy(x, &out));
    else if (rng_chance(rng, 25))
        CHECK_OK(weir_clamp(x, -3, 5, &out));
    else if (rng_chance(rng, 25))
        CHECK_OK(weir_pow_scalar(x, 2, &out));
    else if (rng_chance(rng, 25))
        CHECK_OK(weir_mul_scalar(x, 3, &out));
    else if (weir_dtype_is_float(type) && rng_chance(rng, 60))
        CHECK_OK(real[rng_int(rng, 0, countof(real) - 1)](x, &out));
    else
        CHECK_OK(any[rng_int(rng, 0, countof(any) - 1)](x, &out));
    return out;
}

static weir_tensor *binary(weir_tensor *a, weir_tensor *b, weir_dtype type, struct rng *rng)
{
    static weir_status (*const number[])(weir_tensor *, weir_tensor *, weir_tensor **) = {
        weir_add, weir_sub, weir_mul, weir_div, weir_maximum, weir_minimum};
    static weir_status (*const any[])(weir_tensor *, weir_tensor *, weir_tensor **) = {
        weir_maximum, weir_minimum, weir_eq, weir_lt, weir_ge};
    static weir_status (*const bits[])(weir_tensor *, weir_tensor *, weir_tensor **) = {
        weir_bitwise_and, weir_bitwise_or, weir_bitwise_xor, weir_bitwise_left_shift,
        weir_bitwise_right_shift};
    weir_tensor *out;

    if (!weir_dtype_is_float(type) && rng_chance(rng, 35))
        CHECK_OK(bits[rng_int(rng, 0, type == WEIR_BOOL ? 2 : 4)](a, b, &out));
    else if (type != WEIR_BOOL && rng_chance(rng, 80))
        CHECK_OK(number[rng_int(rng, 0, countof(number) - 1)](a, b, &out));
    else
        CHECK_OK(any[rng_int(rng, 0, countof(any) - 1)](a, b, &out));
    return out;
}

/* Rows of the newest value, normalised; NULL if it has none that can be. */
static weir_tensor *normed(const struct chain *c, const struct pool *p, weir_tensor *const *bases,
                           struct rng *rng)
{
    weir_tensor *x = p->n ? p->at[p->n - 1] : NULL, *weight = NULL, *row, *out;
    bool centred = rng_chance(rng, 50), weighted = rng_chance(rng, 60);

    if (!x || !weir_dtype_is_float(weir_tensor_dtype(x)) || !c->rows ||
        weir_tensor_numel(x) != c->rows * c->cols)
        return NULL;
    for (int i = 0; i < BASES && weighted && !weight; i++)
        if (weir_tensor_dtype(bases[i]) == weir_tensor_dtype(x)) {
            weir_tensor *first = sliced(bases[i], 0, 0, 1, 1);

            row = sliced(first, 1, rng_int(rng, 0, 1) * 8, c->cols, 1);
            CHECK_OK(weir_tensor_reshape(row, 1, (int64_t[]){c->cols}, &weight));
            weir_tensor_release(first);
            weir_tensor_release(row);
        }
    if (centred)
        CHECK_OK(weir_layer_norm(x, weight, rng_chance(rng, 50) ? weight : NULL, 1e-5, &out));
    else
        CHECK_OK(weir_rms_norm(x, weight, 1e-5, &out));
    weir_tensor_release(weight);
    return out;
}

/* One more value; it may be smaller than the chain's shape, where everything was broadcast. */
static weir_tensor *step(const struct chain *c, const struct pool *p, weir_tensor *const *bases,
                         struct rng *rng)
{
    weir_dtype type = rng_chance(rng, 70) ? c->type[0] : c->type[rng_int(rng, 0, BASES - 1)];
    weir_tensor *a, *b, *mask, *out;

    if (rng_chance(rng, 12) && (out = normed(c, p, bases, rng)))
        return out;
    if (weir_dtype_is_float(type) && c->type[0] == type && rng_chance(rng, 15)) {
        a = view_of(bases[0], c->rows, 2 * c->cols, rng);
        if (weir_tensor_shape(a)[1] % 2 == 0) {
            CHECK_OK(weir_swiglu(a, 1, &out));
            weir_tensor_release(a);
            return out;
        }
        weir_tensor_release(a);
    }
    a = operand(c, p, bases, type, rng);
    if (rng_chance(rng, 35)) {
        out = unary(a, type, rng);
        weir_tensor_release(a);
        return out;
    }
    b = operand(c, p, bases, type, rng);
    if (rng_chance(rng, 20)) {
        mask = operand(c, p, bases, WEIR_BOOL, rng);
        CHECK_OK(weir_where(mask, a, b, &out));
        weir_tensor_release(mask);
    } else if (rng_chance(rng, 20)) {
        weir_tensor *sum = binary(a, b, type, rng);

        CHECK_OK(weir_cast(sum, types[rng_int(rng, 0, countof(types) - 1)], &out));
        weir_tensor_release(sum);
    } else {
        out = binary(a, b, type, rng);
    }
    weir_tensor_release(a);
    weir_tensor_release(b);
    return out;
}

/* The same for the same chain, eager or captured. Gives the newest values and releases the rest. */
static void build(const struct chain *c, weir_tensor *const *bases, weir_tensor **out)
{
    struct rng rng = rng_make("chain", c->salt);
    struct pool p = {.n = 0};

    while (p.n < c->nsteps) {
        weir_tensor *x = step(c, &p, bases, &rng);

        if (weir_tensor_numel(x) == c->rows * c->cols && rng_chance(&rng, 10)) {
            weir_tensor *flat = shaped(x, 1, c->rows * c->cols), *twice;

            CHECK_OK(weir_maximum(flat, flat, &twice));
            weir_tensor_release(x);
            weir_tensor_release(flat);
            x = shaped(twice, c->rows, c->cols);
            weir_tensor_release(twice);
        }
        p.at[p.n++] = x;
    }
    for (int i = 0; i < c->noutputs; i++)
        out[i] = weir_tensor_retain(p.at[p.n - 1 - i]);
    while (p.n)
        weir_tensor_release(p.at[--p.n]);
}

static struct chain random_chain(struct rng *rng)
{
    static const int64_t rows[] = {0, 1, 2, 7, 33, 70}, cols[] = {1, 3, 8, 30, 64, 129, 1000};
    struct chain c = {
        .salt = rng_next(rng),
        .rows = rows[rng_int(rng, 0, countof(rows) - 1)],
        .cols = cols[rng_int(rng, 0, countof(cols) - 1)],
        .nsteps = (int)rng_int(rng, 2, 24),
    };

    for (int i = 0; i < BASES; i++)
        c.type[i] = types[rng_int(rng, 0, countof(types) - 1)];
    c.noutputs = (int)rng_int(rng, 1, c.nsteps < OUTPUTS ? c.nsteps : OUTPUTS);
    return c;
}

static void make_bases(weir_stream *s, const struct chain *c, struct rng *rng, weir_tensor **bases)
{
    for (int i = 0; i < BASES; i++) {
        struct array a;

        array_init(&a, c->type[i], 2, (int64_t[]){2 * c->rows + 3, 4 * c->cols + 16});
        for (int64_t k = 0; k < array_numel(&a); k++)
            a.at[k] = c->type[i] == WEIR_BOOL           ? (double)rng_int(rng, 0, 1)
                      : weir_dtype_is_float(c->type[i]) ? rng_real(rng, -4, 4)
                                                        : (double)rng_int(rng, 0, 9);
        bases[i] = upload(s, &a, LAYOUT_PLAIN, rng);
        array_free(&a);
    }
}

static weir_plan *plan_of(weir_device *dev, const struct chain *c, weir_tensor *const *bases)
{
    static const char *const names[OUTPUTS] = {"a", "b", "c", "d", "e", "f"};
    weir_tensor *in[BASES], *out[OUTPUTS];
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < BASES; i++)
        CHECK_OK(weir_graph_input(g, (char[]){(char)('w' + i), 0}, c->type[i], 2,
                                  weir_tensor_shape(bases[i]), &in[i]));
    CHECK_OK(weir_graph_begin(g));
    build(c, in, out);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < c->noutputs; i++)
        CHECK_OK(weir_graph_output(g, names[i], out[i]));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i < BASES; i++)
        weir_tensor_release(in[i]);
    for (int i = 0; i < c->noutputs; i++)
        weir_tensor_release(out[i]);
    weir_graph_destroy(g);
    return plan;
}

CONFORMANCE(chains, in_plans_give_the_bits_of_the_operators_one_by_one)
{
    struct rng rng = rng_make("chains", 0);
    weir_stream *s = weir_stream_default(dev);

    for (unsigned trial = 0; trial < 2 + repeats(dev, 22); trial++) {
        struct chain c = random_chain(&rng);
        weir_tensor *bases[BASES], *want[OUTPUTS], *got[OUTPUTS] = {0};
        weir_plan *plan;

        test_note("chain %u: %d steps of %lld x %lld", trial, c.nsteps, (long long)c.rows,
                  (long long)c.cols);
        make_bases(s, &c, &rng, bases);
        build(&c, bases, want);
        plan = plan_of(dev, &c, bases);
        CHECK_OK(weir_plan_run(plan, s, bases, BASES, got, (size_t)c.noutputs));
        for (int i = 0; i < c.noutputs; i++) {
            check_same(want[i], got[i]);
            weir_tensor_release(want[i]);
            weir_tensor_release(got[i]);
        }
        for (int i = 0; i < BASES; i++)
            weir_tensor_release(bases[i]);
        CHECK_OK(weir_device_sync(dev));
        weir_plan_destroy(plan);
    }
}
