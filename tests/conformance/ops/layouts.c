/* Elementwise operators on operands that lie in memory each in its own way: broadcast along any
 * dims, turned, sliced, with short and with long rows. Values are such that every result is exact.
 */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

/* Rows of a few elements, of a tile and one more, and dims that a block's share cuts in two. */
static const struct {
    int ndim;
    int64_t shape[5];
} cases[] = {
    {2, {5000, 3}},         {2, {70, 131}},       {2, {33, 1030}},      {3, {129, 40, 4}},
    {3, {9, 65, 33}},       {3, {40, 9, 40}},     {4, {7, 3, 40, 5}},   {4, {13, 2, 3, 64}},
    {5, {3, 2, 11, 31, 2}}, {5, {2, 9, 8, 9, 8}}, {4, {1, 2048, 1, 8}},
};

static int64_t any_value(weir_dtype dtype, struct rng *rng)
{
    return rng_int(rng, 0, dtype == WEIR_BOOL ? 1 : 60);
}

/* An array that broadcasts to the case's shape. */
static void make_operand(struct array *a, weir_dtype dtype, size_t which, struct rng *rng)
{
    int64_t shape[WEIR_MAX_DIMS];

    for (int d = 0; d < cases[which].ndim; d++)
        shape[d] = rng_chance(rng, 30) ? 1 : cases[which].shape[d];
    array_init(a, dtype, cases[which].ndim, shape);
    for (int64_t i = 0; i < array_numel(a); i++)
        a->at[i] = (double)any_value(dtype, rng);
}

static weir_tensor *operand(weir_device *dev, const struct array *a, struct rng *rng)
{
    return upload(weir_stream_default(dev), a, (enum layout)rng_int(rng, 0, LAYOUT_BOTH), rng);
}

static weir_tensor *output(weir_device *dev, weir_dtype dtype, size_t which, struct rng *rng)
{
    return make_view(weir_stream_default(dev), dtype, cases[which].ndim, cases[which].shape,
                     (enum layout)rng_int(rng, 0, LAYOUT_BOTH), rng, NULL);
}

static double at(const struct array *a, const int64_t *index)
{
    return a->at[array_place(a, a->ndim, index)];
}

static void check(weir_tensor *out, const struct array *expected, size_t which, const char *what)
{
    struct array got;

    download(out, &got);
    test_note("%s to %s, case %zu", what, weir_dtype_name(expected->dtype), which);
    CHECK_EQ(array_numel(&got), array_numel(expected));
    CHECK_MEM_EQ(got.at, expected->at, (size_t)array_numel(&got) * sizeof *got.at);
    array_free(&got);
}

/* maximum(a, b), a where b is larger than 20, a copied, and a in another type. */
static void check_case(weir_device *dev, weir_dtype dtype, size_t which, struct rng *rng)
{
    weir_dtype other = (weir_dtype)rng_int(rng, 0, WEIR_DTYPE_COUNT - 1);
    struct array a, b, larger, picked, copied, cast;
    weir_tensor *ta, *tb, *out, *some, *wide;
    int64_t index[WEIR_MAX_DIMS] = {0};
    int64_t i = 0;

    make_operand(&a, dtype, which, rng);
    make_operand(&b, dtype, which, rng);
    array_init(&larger, dtype, cases[which].ndim, cases[which].shape);
    array_init(&picked, dtype, cases[which].ndim, cases[which].shape);
    array_init(&copied, dtype, cases[which].ndim, cases[which].shape);
    array_init(&cast, other, cases[which].ndim, cases[which].shape);
    do {
        double x = at(&a, index), y = at(&b, index);

        larger.at[i] = x > y ? x : y;
        picked.at[i] = y > 20 ? x : y;
        copied.at[i] = x;
        cast.at[i++] = other == WEIR_BOOL ? x != 0 : x;
    } while (step_index(cases[which].ndim, cases[which].shape, index));

    ta = operand(dev, &a, rng);
    tb = operand(dev, &b, rng);
    /* Both may be broadcast along the same dim, which shapes alone could not say. */
    CHECK_OK(weir_tensor_expand(ta, cases[which].ndim, cases[which].shape, &wide));
    out = output(dev, dtype, which, rng);
    CHECK_OK(weir_maximum_into(wide, tb, out));
    check(out, &larger, which, "maximum");
    CHECK_OK(weir_copy_into(ta, out));
    check(out, &copied, which, "copy_into");
    if (dtype != WEIR_BOOL) {
        CHECK_OK(weir_gt_scalar(tb, 20, &some));
        weir_tensor_release(out);
        CHECK_OK(weir_where(some, wide, tb, &out));
        check(out, &picked, which, "where");
        weir_tensor_release(some);
    }
    weir_tensor_release(out);
    CHECK_OK(weir_cast(wide, other, &out));
    check(out, &cast, which, "cast");
    weir_tensor_release(wide);
    weir_tensor_release(out);
    weir_tensor_release(ta);
    weir_tensor_release(tb);
    array_free(&a);
    array_free(&b);
    array_free(&larger);
    array_free(&picked);
    array_free(&copied);
    array_free(&cast);
}

static void check_types(weir_device *dev, weir_dtype first, weir_dtype last)
{
    for (int type = first; type <= (int)last; type++)
        for (size_t which = 0; which < countof(cases); which++)
            for (unsigned salt = 0; salt < 1 + repeats(dev, 3); salt++) {
                struct rng rng = rng_make("layouts", (uint64_t)type * 1000 + which * 10 + salt);

                if (is_fake(dev) && ((size_t)type + which) % 3)
                    continue;
                test_note("%s, case %zu, salt %u", weir_dtype_name((weir_dtype)type), which, salt);
                check_case(dev, (weir_dtype)type, which, &rng);
            }
}

/* Few types a case: a GPU's kernels are compiled for each. */
CONFORMANCE(layouts, floats_of_any_layout_give_the_reference)
{
    check_types(dev, WEIR_F32, WEIR_F16);
}

CONFORMANCE(layouts, half_and_double_floats_of_any_layout_give_the_reference)
{
    check_types(dev, WEIR_BF16, WEIR_F64);
}

CONFORMANCE(layouts, integers_of_any_layout_give_the_reference)
{
    check_types(dev, WEIR_I64, WEIR_I32);
}

CONFORMANCE(layouts, small_integers_of_any_layout_give_the_reference)
{
    check_types(dev, WEIR_I8, WEIR_BOOL);
}

/* ---- softmax of rows that lie side by side ---- */

static const struct {
    int64_t outer, n, inner; /* softmax along the second */
} softmaxes[] = {{1, 1, 300},   {3, 7, 45}, {2, 100, 130}, {1, 1025, 17},
                 {1, 9000, 19}, {40, 5, 1}, {2, 0, 32}};

static void check_softmax(const struct array *x, const struct array *y, int64_t n, int64_t inner,
                          double tolerance)
{
    for (int64_t row = 0; n && row < array_numel(x) / n; row++) {
        int64_t first = row / inner * n * inner + row % inner;
        double top = -INFINITY, sum = 0;

        for (int64_t i = 0; i < n; i++)
            top = fmax(top, x->at[first + i * inner]);
        for (int64_t i = 0; i < n; i++)
            sum += exp(x->at[first + i * inner] - top);
        for (int64_t i = 0; i < n; i++) {
            double expected = exp(x->at[first + i * inner] - top) / sum;

            CHECK_NEAR(y->at[first + i * inner], expected, tolerance * expected + 1e-7);
        }
    }
}

CONFORMANCE(layouts, softmax_along_any_dim)
{
    static const double tolerances[] = {
        [WEIR_F32] = 1e-5, [WEIR_F16] = 2e-3, [WEIR_BF16] = 1e-2, [WEIR_F64] = 1e-12};

    for (int type = WEIR_F32; type <= WEIR_F64; type++)
        for (size_t k = 0; k < 2 * countof(softmaxes); k++) {
            int64_t n = softmaxes[k / 2].n, inner = softmaxes[k / 2].inner;
            int64_t shape[] = {softmaxes[k / 2].outer, n, inner};
            struct rng rng = rng_make("softmax", (uint64_t)type * 100 + k);
            struct array x, y;
            weir_tensor *in, *out;

            test_note("%s, case %zu, %s", weir_dtype_name((weir_dtype)type), k / 2,
                      k % 2 ? "sliced and turned" : "plain");
            array_init(&x, (weir_dtype)type, 3, shape);
            for (int64_t i = 0; i < array_numel(&x); i++)
                x.at[i] = round_to((weir_dtype)type, rng_real(&rng, -4, 4));
            in = upload(weir_stream_default(dev), &x, k % 2 ? LAYOUT_BOTH : LAYOUT_PLAIN, &rng);
            CHECK_OK(weir_softmax(in, 1, &out));
            download(out, &y);
            check_softmax(&x, &y, n, inner, tolerances[type]);
            array_free(&x);
            array_free(&y);
            weir_tensor_release(in);
            weir_tensor_release(out);
        }
}

/* A row without a finite sum is no number as a whole, and spoils none beside it. */
CONFORMANCE(layouts, softmax_keeps_rows_side_by_side_apart)
{
    enum { N = 6, WIDTH = 40 };
    const int64_t shape[] = {N, WIDTH};
    struct rng rng = rng_make("softmax apart", 0);
    struct array x, y;
    weir_tensor *in, *out;

    array_init(&x, WEIR_F32, 2, shape);
    x.at[3 * WIDTH + 5] = NAN;
    x.at[2 * WIDTH + 17] = INFINITY;
    for (int64_t i = 0; i < N; i++)
        x.at[i * WIDTH + 38] = -INFINITY;
    x.at[4 * WIDTH + 39] = -INFINITY;
    in = upload(weir_stream_default(dev), &x, LAYOUT_PLAIN, &rng);
    CHECK_OK(weir_softmax(in, 0, &out));
    download(out, &y);
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < WIDTH; j++) {
            double got = y.at[i * WIDTH + j];

            test_note("row %lld, element %lld", (long long)j, (long long)i);
            if (j == 5 || j == 17 || j == 38)
                CHECK(isnan(got));
            else if (j == 39)
                CHECK_NEAR(got, i == 4 ? 0 : 1.0 / (N - 1), 1e-7);
            else
                CHECK_NEAR(got, 1.0 / N, 1e-7);
        }
    array_free(&x);
    array_free(&y);
    weir_tensor_release(in);
    weir_tensor_release(out);
}
