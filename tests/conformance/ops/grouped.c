/* Products of groups whose ends are data: sizes that tiles do not fit, and ends that are wrong. */
#include "conformance/conformance.h"

#include <stdlib.h>

/* Small whole numbers, of which sums are exact in every type. */
static int number(int64_t i)
{
    return (int)((uint64_t)i * 2654435761u >> 20) % 3 - 1;
}

static weir_tensor *numbers(weir_device *dev, weir_dtype dtype, int ndim, const int64_t *shape)
{
    weir_stream *s = weir_stream_default(dev);
    int64_t n = 1;
    weir_tensor *t, *made;
    float *values;

    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    CHECK((values = malloc((size_t)(n + 1) * sizeof *values)));
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)number(i);
    CHECK_OK(weir_tensor_from(s, WEIR_F32, ndim, shape, values, &t));
    CHECK_OK(weir_cast(t, dtype, &made));
    weir_tensor_release(t);
    free(values);
    return made;
}

static float *read_floats(weir_tensor *t, int64_t n)
{
    float *values = malloc((size_t)(n + 1) * sizeof *values);
    weir_tensor *wide;

    CHECK(values);
    CHECK_OK(weir_cast(t, WEIR_F32, &wide));
    CHECK_OK(weir_tensor_read(wide, values, (size_t)n * sizeof *values));
    weir_tensor_release(wide);
    return values;
}

/* Rows are cut at `ends`; b is in rows of k where `turned`. */
static void check_rows(weir_device *dev, weir_dtype dtype, int64_t m, int64_t k, int64_t n,
                       int groups, const int64_t *ends, bool turned)
{
    weir_stream *s = weir_stream_default(dev);
    int64_t count = groups, begin = 0, shape[3] = {groups, turned ? n : k, turned ? k : n};
    weir_tensor *a = numbers(dev, dtype, 2, (int64_t[]){m, k}), *b = numbers(dev, dtype, 3, shape);
    weir_tensor *at, *out, *view = b;
    float *got;

    test_note("%s [%lld, %lld] by [%d, %lld, %lld]", weir_dtype_name(dtype), (long long)m,
              (long long)k, groups, (long long)k, (long long)n);
    if (turned)
        CHECK_OK(weir_tensor_transpose(b, 1, 2, &view));
    CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, &count, ends, &at));
    CHECK_OK(weir_grouped_matmul(a, view, at, NULL, &out));
    got = read_floats(out, m * n);
    for (int g = 0; g <= groups; begin = g < groups ? ends[g] : m, g++)
        for (int64_t i = begin; i < (g < groups ? ends[g] : m); i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t want = 0;

                for (int64_t q = 0; q < (g < groups ? k : 0); q++)
                    want +=
                        number(i * k + q) * number(g * k * n + (turned ? j * k + q : q * n + j));
                if (got[i * n + j] != (float)want)
                    FAIL("row %lld, column %lld is %g, not %lld", (long long)i, (long long)j,
                         (double)got[i * n + j], (long long)want);
            }
    free(got);
    if (turned)
        weir_tensor_release(view);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(at);
    weir_tensor_release(out);
}

/* What a layer's weights get as gradients: both operands are cut along the rows that they lie in.
 */
static void check_depth(weir_device *dev, weir_dtype dtype, int64_t m, int64_t k, int64_t n,
                        int groups, const int64_t *ends)
{
    weir_stream *s = weir_stream_default(dev);
    int64_t count = groups, begin = 0;
    weir_tensor *a = numbers(dev, dtype, 2, (int64_t[]){k, m}), *turned;
    weir_tensor *b = numbers(dev, dtype, 2, (int64_t[]){k, n}), *at, *out;
    float *got;

    test_note("%s [%lld, %lld] by [%lld, %lld]", weir_dtype_name(dtype), (long long)m, (long long)k,
              (long long)k, (long long)n);
    CHECK_OK(weir_tensor_transpose(a, 0, 1, &turned));
    CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, &count, ends, &at));
    CHECK_OK(weir_grouped_matmul(turned, b, at, NULL, &out));
    got = read_floats(out, groups * m * n);
    for (int g = 0; g < groups; begin = ends[g++])
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t want = 0;

                for (int64_t q = begin; q < ends[g]; q++)
                    want += number(q * m + i) * number(q * n + j);
                if (got[(g * m + i) * n + j] != (float)want)
                    FAIL("group %d, row %lld, column %lld is %g, not %lld", g, (long long)i,
                         (long long)j, (double)got[(g * m + i) * n + j], (long long)want);
            }
    free(got);
    weir_tensor_release(a);
    weir_tensor_release(turned);
    weir_tensor_release(b);
    weir_tensor_release(at);
    weir_tensor_release(out);
}

CONFORMANCE(grouped, depth_that_is_cut_gives_a_product_for_each_group)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F16, WEIR_BF16};
    static const int64_t ends[] = {0, 1, 70, 70, 199};

    for (size_t i = 0; i < countof(types); i++) {
        check_depth(dev, types[i], 40, 203, 136, 5, ends);
        check_depth(dev, types[i], 136, 199, 64, 5, ends);
        check_depth(dev, types[i], 7, 199, 9, 5, ends);
    }
}

CONFORMANCE(grouped, groups_of_no_one_and_odd_numbers_of_rows_give_exact_sums)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F16, WEIR_BF16};
    static const int64_t ends[] = {0, 1, 1, 8, 25, 42, 42}, long_ends[] = {3, 3, 140, 283};
    static const int64_t longer_ends[] = {200, 450, 690};
    int64_t many[70];

    for (int i = 0; i < 70; i++)
        many[i] = i < 40 ? i / 3 : i / 2;
    for (size_t i = 0; i < countof(types); i++) {
        check_rows(dev, types[i], 42, 40, 56, 7, ends, false);
        check_rows(dev, types[i], 45, 40, 56, 7, ends, true); /* rows of no group */
        check_rows(dev, types[i], 42, 13, 7, 7, ends, true);
        check_rows(dev, types[i], 290, 72, 136, 4, long_ends, i % 2);
        check_rows(dev, types[i], 40, 16, 24, 70, many, true);
        check_rows(dev, types[i], 700, 72, 264, 3, longer_ends, i != 2);
    }
}

CONFORMANCE(grouped, ends_that_fall_or_lie_beyond_the_rows_are_errors_with_their_range)
{
    static const struct {
        int64_t ends[3];
        const char *range;
    } rows[] = {{{2, 5, 9}, "5..8"}, {{2, 1, 8}, "2..8"}, {{-1, 4, 8}, "0..8"}};
    weir_tensor *a = numbers(dev, WEIR_BF16, 2, (int64_t[]){8, 16});
    weir_tensor *b = numbers(dev, WEIR_BF16, 3, (int64_t[]){3, 16, 8});

    for (size_t i = 0; i < countof(rows); i++) {
        weir_stream *s = new_stream(dev);
        int64_t three = 3;
        weir_tensor *at, *out;

        CHECK_OK(weir_device_sync(dev));
        CHECK_OK(weir_stream_set_current(s));
        CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, &three, rows[i].ends, &at));
        CHECK_OK(weir_grouped_matmul(a, b, at, NULL, &out));
        CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), "GroupedMatMul");
        CHECK_STR(weir_last_error(), rows[i].range);
        weir_tensor_release(at);
        weir_tensor_release(out);
        CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
        CHECK_OK(weir_stream_destroy(s));
    }
    weir_tensor_release(a);
    weir_tensor_release(b);
}
