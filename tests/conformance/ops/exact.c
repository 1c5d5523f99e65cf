/* Results that must be exact: integers of 64 bits, which the doubles of the other cases cannot
 * hold, and one rounding where one is promised. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

static weir_tensor *longs(weir_device *dev, int64_t n, const int64_t *values)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I64, 1, &n, values, &t));
    return t;
}

/* Reads, compares and releases. */
static void expect(weir_tensor *t, int64_t n, const int64_t *want)
{
    size_t size;
    int64_t *got = read_bytes(t, &size);

    CHECK_EQ(size, (size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(got[i], want[i]);
    free(got);
    weir_tensor_release(t);
}

#define MAX INT64_MAX
#define MIN INT64_MIN
#define BIG (((int64_t)1 << 53) + 1) /* no double */

CONFORMANCE(exact, long_integers_wrap_and_keep_every_bit)
{
    weir_tensor *a = longs(dev, 5, (int64_t[]){MAX, MIN, BIG, -BIG, 7}), *out;
    weir_tensor *b = longs(dev, 5, (int64_t[]){1, -1, 1, BIG, 0});

    CHECK_OK(weir_add(a, b, &out));
    expect(out, 5, (int64_t[]){MIN, MAX, BIG + 1, 0, 7});
    CHECK_OK(weir_sub(a, b, &out));
    expect(out, 5, (int64_t[]){MAX - 1, MIN + 1, BIG - 1, -2 * BIG, 7});
    CHECK_OK(weir_mul(a, b, &out));
    expect(out, 5, (int64_t[]){MAX, MIN, BIG, (int64_t)(0 - (uint64_t)BIG * (uint64_t)BIG), 0});
    CHECK_OK(weir_div(a, b, &out));
    expect(out, 5, (int64_t[]){MAX, MIN, BIG, -1, 0});
    CHECK_OK(weir_neg(a, &out));
    expect(out, 5, (int64_t[]){-MAX, MIN, -BIG, BIG, -7});
    CHECK_OK(weir_abs(a, &out));
    expect(out, 5, (int64_t[]){MAX, MIN, BIG, BIG, 7});
    CHECK_OK(weir_maximum(a, b, &out));
    expect(out, 5, (int64_t[]){MAX, -1, BIG, BIG, 7});
    CHECK_OK(weir_relu(a, &out));
    expect(out, 5, (int64_t[]){MAX, 0, BIG, 0, 7});
    CHECK_OK(weir_copy(a, &out));
    expect(out, 5, (int64_t[]){MAX, MIN, BIG, -BIG, 7});
    weir_tensor_release(a);
    weir_tensor_release(b);
}

CONFORMANCE(exact, long_integers_have_64_bits_to_combine_and_shift)
{
    weir_tensor *a = longs(dev, 5, (int64_t[]){MAX, MIN, BIG, -BIG, -1}), *out;
    weir_tensor *b = longs(dev, 5, (int64_t[]){MIN, 63, -1, 64, MIN});

    CHECK_OK(weir_bitwise_and(a, b, &out));
    expect(out, 5, (int64_t[]){0, 0, BIG, 64, MIN});
    CHECK_OK(weir_bitwise_or(a, b, &out));
    expect(out, 5, (int64_t[]){-1, MIN + 63, -1, -BIG, -1});
    CHECK_OK(weir_bitwise_xor(a, b, &out));
    expect(out, 5, (int64_t[]){-1, MIN + 63, -BIG - 1, -BIG - 64, MAX});
    CHECK_OK(weir_bitwise_not(a, &out));
    expect(out, 5, (int64_t[]){MIN, MAX, -BIG - 1, BIG - 1, 0});
    /* by MIN, 63, -1, 64 and MIN */
    CHECK_OK(weir_bitwise_left_shift(a, b, &out));
    expect(out, 5, (int64_t[]){0, 0, 0, 0, 0});
    CHECK_OK(weir_bitwise_right_shift(a, b, &out));
    expect(out, 5, (int64_t[]){0, -1, 0, -1, -1});
    CHECK_OK(weir_bitwise_left_shift_scalar(a, 11, &out));
    expect(out, 5, (int64_t[]){-2048, 0, 2048, -2048, -2048});
    CHECK_OK(weir_bitwise_right_shift_scalar(a, 63, &out));
    expect(out, 5, (int64_t[]){0, -1, 0, -1, -1});
    CHECK_OK(weir_bitwise_left_shift_scalar(a, 64, &out));
    expect(out, 5, (int64_t[]){0, 0, 0, 0, 0});
    CHECK_OK(weir_bitwise_and_scalar(a, -16, &out));
    expect(out, 5, (int64_t[]){MAX - 15, MIN, BIG - 1, -BIG - 15, -16});
    weir_tensor_release(a);
    weir_tensor_release(b);
}

CONFORMANCE(exact, long_integers_reduce_and_sort_by_every_bit)
{
    weir_tensor *a = longs(dev, 4, (int64_t[]){BIG, BIG + 1, -BIG, BIG - 1}), *out, *places;
    weir_tensor *wrap = longs(dev, 2, (int64_t[]){MAX, 2});

    CHECK_OK(weir_sum(a, NULL, 0, false, &out));
    expect(out, 1, (int64_t[]){2 * BIG});
    CHECK_OK(weir_sum(wrap, NULL, 0, false, &out));
    expect(out, 1, (int64_t[]){MIN + 1});
    CHECK_OK(weir_max(a, NULL, 0, false, &out));
    expect(out, 1, (int64_t[]){BIG + 1});
    CHECK_OK(weir_min(a, NULL, 0, false, &out));
    expect(out, 1, (int64_t[]){-BIG});
    CHECK_OK(weir_argmax(a, 0, false, &out));
    expect(out, 1, (int64_t[]){1});
    CHECK_OK(weir_sort(a, 0, false, &out, &places));
    expect(out, 4, (int64_t[]){-BIG, BIG - 1, BIG, BIG + 1});
    expect(places, 4, (int64_t[]){2, 3, 0, 1});
    CHECK_OK(weir_topk(a, 2, 0, true, &out, &places));
    expect(out, 2, (int64_t[]){BIG + 1, BIG});
    expect(places, 2, (int64_t[]){1, 0});
    CHECK_OK(weir_matmul(a, a, &out)); /* 1-d by 1-d */
    expect(out, 1, (int64_t[]){(int64_t)(4 * (uint64_t)BIG * (uint64_t)BIG + 2)});
    weir_tensor_release(a);
    weir_tensor_release(wrap);
}

CONFORMANCE(exact, long_integers_are_scanned_by_every_bit)
{
    weir_tensor *a = longs(dev, 5, (int64_t[]){BIG, MAX, MAX, MIN, MIN}), *out, *places;

    CHECK_OK(weir_cumsum(a, 0, &out));
    expect(out, 5, (int64_t[]){BIG, MIN + BIG - 1, BIG - 2, MIN + BIG - 2, BIG - 2});
    CHECK_OK(weir_cumprod(a, 0, &out));
    expect(out, 5, (int64_t[]){BIG, MAX - BIG + 1, BIG, MIN, 0});
    CHECK_OK(weir_cummax(a, 0, &out, &places));
    expect(out, 5, (int64_t[]){BIG, MAX, MAX, MAX, MAX});
    expect(places, 5, (int64_t[]){0, 1, 2, 2, 2});
    CHECK_OK(weir_cummin(a, 0, &out, &places));
    expect(out, 5, (int64_t[]){BIG, BIG, BIG, MIN, MIN});
    expect(places, 5, (int64_t[]){0, 0, 0, 3, 4});
    weir_tensor_release(a);
}

/* Rows of several tiles and chunks, and so many rows side by side that a GPU has a thread for each:
 * along a row, and along a column. */
CONFORMANCE(exact, scans_of_long_and_of_many_rows_are_made_element_by_element)
{
    static const struct {
        int64_t shape[2];
        int dim;
    } cases[] = {{{1, 9000}, 1}, {{3, 2500}, 1}, {{2500, 3}, 0}, {{40, 130}, 0}, {{18, 8200}, 0}};

    for (size_t i = 0; i < countof(cases); i++) {
        const int64_t *shape = cases[i].shape, numel = shape[0] * shape[1];
        int64_t next = cases[i].dim ? 1 : shape[1], *x, *sum, *best, *place;
        weir_tensor *t, *out, *places;

        CHECK((x = calloc(4 * (size_t)numel, sizeof *x)));
        sum = x + numel;
        best = sum + numel;
        place = best + numel;
        for (int64_t k = 0; k < numel; k++) {
            int64_t j = cases[i].dim ? k % shape[1] : k / shape[1];

            x[k] = k * 7919 % 1009 - 500;
            sum[k] = x[k] + (j ? sum[k - next] : 0);
            place[k] = j && x[k] < best[k - next] ? place[k - next] : j;
            best[k] = x[k + (place[k] - j) * next];
        }
        test_note("case %zu", i);
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I64, 2, shape, x, &t));
        CHECK_OK(weir_cumsum(t, cases[i].dim, &out));
        expect(out, numel, sum);
        CHECK_OK(weir_cummax(t, cases[i].dim, &out, &places));
        expect(out, numel, best);
        expect(places, numel, place);
        weir_tensor_release(t);
        free(x);
    }
}

CONFORMANCE(exact, long_integers_cast_by_wrapping_or_rounding)
{
    weir_tensor *a = longs(dev, 4, (int64_t[]){MAX, MIN, BIG, -1}), *out, *back;
    struct array got;

    CHECK_OK(weir_cast(a, WEIR_I32, &out));
    CHECK_OK(weir_cast(out, WEIR_I64, &back));
    expect(back, 4, (int64_t[]){-1, 0, 1, -1});
    weir_tensor_release(out);
    CHECK_OK(weir_cast(a, WEIR_U8, &out));
    CHECK_OK(weir_cast(out, WEIR_I64, &back));
    expect(back, 4, (int64_t[]){255, 0, 1, 255});
    weir_tensor_release(out);
    CHECK_OK(weir_cast(a, WEIR_F64, &out));
    download(out, &got);
    CHECK_NEAR(got.at[0], 0x1p63, 0);
    CHECK_NEAR(got.at[2], 0x1p53, 0);
    array_free(&got);
    CHECK_OK(weir_cast(out, WEIR_I64, &back)); /* 2^63 is out of range and saturates */
    expect(back, 4, (int64_t[]){MAX, MIN, BIG - 1, -1});
    weir_tensor_release(out);
    weir_tensor_release(a);
}

CONFORMANCE(exact, long_integers_are_generated_and_compared_exactly)
{
    weir_tensor *a, *b, *out, *wide;

    CHECK_OK(weir_arange(weir_stream_default(dev), WEIR_I64, 3, 0x1p53, 1, &a));
    CHECK_OK(weir_copy(a, &out));
    expect(out, 3, (int64_t[]){BIG - 1, BIG, BIG + 1});
    b = longs(dev, 3, (int64_t[]){BIG, BIG, BIG});
    CHECK_OK(weir_lt(a, b, &out));
    CHECK_OK(weir_cast(out, WEIR_I64, &wide));
    weir_tensor_release(out);
    expect(wide, 3, (int64_t[]){1, 0, 0});
    CHECK_OK(weir_eq(a, b, &out));
    CHECK_OK(weir_cast(out, WEIR_I64, &wide));
    weir_tensor_release(out);
    expect(wide, 3, (int64_t[]){0, 1, 0});
    CHECK_OK(weir_clamp(b, 0, 0x1p54, &out));
    expect(out, 3, (int64_t[]){BIG, BIG, BIG});
    weir_tensor_release(a);
    weir_tensor_release(b);
}

CONFORMANCE(exact, numbers_are_compared_in_the_type_of_the_tensor)
{
    static const weir_dtype types[] = {WEIR_F16, WEIR_BF16, WEIR_F32, WEIR_F64};

    for (size_t i = 0; i < countof(types); i++) {
        double values[] = {0.1, 0.3};
        int64_t n = countof(values);
        weir_tensor *wide, *x, *out, *whole;

        test_note("%s", weir_dtype_name(types[i]));
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F64, 1, &n, values, &wide));
        CHECK_OK(weir_cast(wide, types[i], &x));
        CHECK_OK(weir_eq_scalar(x, 0.1, &out));
        CHECK_OK(weir_cast(out, WEIR_I64, &whole));
        weir_tensor_release(out);
        expect(whole, 2, (int64_t[]){1, 0});
        CHECK_OK(weir_gt_scalar(x, 0.3, &out));
        CHECK_OK(weir_cast(out, WEIR_I64, &whole));
        weir_tensor_release(out);
        expect(whole, 2, (int64_t[]){0, 0});
        weir_tensor_release(x);
        weir_tensor_release(wide);
    }
}

/* Just above and below the middle between two half numbers, where a stop at f32 would
 * land on the middle itself and then go to the even side. */
CONFORMANCE(exact, casts_to_half_types_round_once)
{
    static const struct {
        weir_dtype dtype;
        double unit;
    } rows[] = {{WEIR_F16, 0x1p-10}, {WEIR_BF16, 0x1p-7}};

    for (size_t i = 0; i < countof(rows); i++) {
        double unit = rows[i].unit, near = 0x1p-40;
        double values[] = {1 + unit / 2 + near, 1 + 1.5 * unit - near, -1 - unit / 2 - near};
        double want[] = {1 + unit, 1 + unit, -1 - unit};
        int64_t n = countof(values);
        weir_tensor *wide, *half;
        struct array got;

        test_note("%s", weir_dtype_name(rows[i].dtype));
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F64, 1, &n, values, &wide));
        CHECK_OK(weir_cast(wide, rows[i].dtype, &half));
        download(half, &got);
        for (int64_t k = 0; k < n; k++)
            CHECK_NEAR(got.at[k], want[k], 0);
        array_free(&got);
        weir_tensor_release(wide);
        weir_tensor_release(half);
    }
}

/* Whole numbers, whose sums f32, or of i8 i32, holds exactly in any order: the result is the sum
 * with its bias, rounded once. */
static void check_product(weir_device *dev, weir_dtype dtype, int64_t m, int64_t n, int64_t k,
                          struct rng *rng)
{
    struct array a, b, bias, got;
    enum layout layouts[] = {rng_chance(rng, 50) ? LAYOUT_PLAIN : LAYOUT_TURNED,
                             rng_chance(rng, 50) ? LAYOUT_PLAIN : LAYOUT_TURNED};
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *ta, *tb, *tbias, *out;
    weir_dtype sums = dtype == WEIR_I8 ? WEIR_I32 : dtype;
    int least = dtype == WEIR_I8 ? 128 : 6;

    array_init(&a, dtype, 2, (int64_t[]){m, k});
    array_init(&b, dtype, 2, (int64_t[]){k, n});
    array_init(&bias, sums, 1, &n);
    for (int64_t i = 0; i < m * k; i++)
        a.at[i] = (double)rng_int(rng, -least, least - 1);
    for (int64_t i = 0; i < k * n; i++)
        b.at[i] = (double)rng_int(rng, -least, least - 1);
    for (int64_t i = 0; i < n; i++)
        bias.at[i] = (double)rng_int(rng, -100, 100);
    ta = upload(s, &a, layouts[0], rng);
    tb = upload(s, &b, layouts[1], rng);
    tbias = upload(s, &bias, LAYOUT_PLAIN, rng);
    CHECK_OK(weir_matmul_bias(ta, tb, tbias, &out));
    download(out, &got);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias.at[j];

            for (int64_t l = 0; l < k; l++)
                sum += a.at[i * k + l] * b.at[l * n + j];
            CHECK_NEAR(got.at[i * n + j], round_to(sums, sum), 0);
        }
    array_free(&a);
    array_free(&b);
    array_free(&bias);
    array_free(&got);
    weir_tensor_release(ta);
    weir_tensor_release(tb);
    weir_tensor_release(tbias);
    weir_tensor_release(out);
}

CONFORMANCE(exact, products_of_half_types_and_their_bias_are_rounded_once)
{
    static const int64_t sizes[][3] = {{8, 8, 2},    {48, 48, 48},   {33, 17, 31},   {64, 40, 96},
                                       {24, 33, 32}, {25, 19, 4},    {40, 96, 300},  {70, 33, 1061},
                                       {1, 40, 512}, {16, 64, 2000}, {130, 72, 129}, {2, 64, 33},
                                       {4, 300, 48}, {5, 2100, 17},  {12, 700, 65},  {9, 1000, 16}};
    struct rng rng = rng_make("products", 0);

    for (size_t i = 0; i < countof(sizes); i++)
        for (int half = 0; half < 2; half++)
            for (unsigned again = 0; again < repeats(dev, 4) + 1; again++) {
                test_note("%s, %lld x %lld x %lld", half ? "f16" : "bf16", (long long)sizes[i][0],
                          (long long)sizes[i][1], (long long)sizes[i][2]);
                check_product(dev, half ? WEIR_F16 : WEIR_BF16, sizes[i][0], sizes[i][1],
                              sizes[i][2], &rng);
            }
}

CONFORMANCE(exact, products_of_bytes_are_whole_sums)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 70, 300},   {4, 33, 64},    {12, 100, 65},
                                       {13, 17, 3},  {30, 40, 1100}, {5, 600, 130},  {400, 9, 20},
                                       {26, 33, 16}, {48, 48, 2100}, {390, 33, 2100}};
    struct rng rng = rng_make("bytes", 0);

    for (size_t i = 0; i < countof(sizes); i++)
        for (unsigned again = 0; again < repeats(dev, 4) + 1; again++) {
            test_note("%lld x %lld x %lld", (long long)sizes[i][0], (long long)sizes[i][1],
                      (long long)sizes[i][2]);
            check_product(dev, WEIR_I8, sizes[i][0], sizes[i][1], sizes[i][2], &rng);
        }
}

/* Every number of 16 bits: the result is the nearest one, or so close to the middle between two
 * that f32 cannot tell; its sign is the number's. */
CONFORMANCE(exact, tanh_of_every_number_of_16_bits_is_rounded_once)
{
    enum { ALL = 65536 };
    static uint16_t numbers[ALL], got[ALL];
    static double x[ALL], y[ALL];
    static const struct {
        weir_dtype dtype;
        int digits, least; /* of the significand; the smallest exponent */
    } types[] = {{WEIR_BF16, 8, -126}, {WEIR_F16, 11, -14}};

    for (int i = 0; i < ALL; i++)
        numbers[i] = (uint16_t)i;
    for (size_t k = 0; k < countof(types); k++) {
        weir_tensor *t, *out;
        int64_t n = ALL;

        CHECK_OK(weir_tensor_from(weir_stream_default(dev), types[k].dtype, 1, &n, numbers, &t));
        CHECK_OK(weir_tanh(t, &out));
        CHECK_OK(weir_tensor_read(out, got, sizeof got));
        decode(types[k].dtype, numbers, ALL, x);
        decode(types[k].dtype, got, ALL, y);
        for (int i = 0; i < ALL; i++) {
            double want = tanh(x[i]), step;
            int exponent;

            frexp(want, &exponent);
            exponent = exponent - 1 < types[k].least ? types[k].least : exponent - 1;
            step = ldexp(1, exponent - types[k].digits + 1);
            test_note("%s: tanh(%g) is %g, not %g", weir_dtype_name(types[k].dtype), x[i], want,
                      y[i]);
            CHECK(isnan(x[i]) ? isnan(y[i]) : fabs(y[i] - want) <= 0.505 * step);
            CHECK(isnan(x[i]) || signbit(x[i]) == signbit(y[i]));
        }
        weir_tensor_release(t);
        weir_tensor_release(out);
    }
}

/* GPUs make NaN with all bits set. */
CONFORMANCE(exact, a_nan_of_any_bits_among_values_of_attention_stays_in_its_column)
{
    static const uint32_t bits[] = {0x7fffffff, 0xffffffff, 0x7fc00000, 0x7f800001};
    enum { ROWS = 40, COLUMNS = 32 };
    const int64_t shape[] = {1, ROWS, COLUMNS};
    float values[ROWS * COLUMNS] = {0}, got[ROWS * COLUMNS];
    weir_tensor *q, *v, *out;

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 3, shape, values, &q));
    for (size_t i = 0; i < countof(bits); i++) {
        test_note("%x", (unsigned)bits[i]);
        memcpy(&values[3 * COLUMNS + 5], &bits[i], sizeof bits[i]);
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 3, shape, values, &v));
        CHECK_OK(weir_attention(q, q, v, NULL, NULL, &out));
        CHECK_OK(weir_tensor_read(out, got, sizeof got));
        for (int j = 0; j < ROWS * COLUMNS; j++)
            CHECK_EQ(isnan(got[j]) != 0, j % COLUMNS == 5);
        weir_tensor_release(v);
        weir_tensor_release(out);
    }
    weir_tensor_release(q);
}
