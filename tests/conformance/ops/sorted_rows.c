/* Sorted rows and the k largest of a row, for lengths around the sizes at which a GPU changes its
 * algorithm. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

enum { EVERY = TEST_SLOWDOWN > 1 ? 2 : 1 }; /* every so many-th type is tried */

/* NaN is larger than any number. */
static int after_of(double a, double b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

/* In order, equal ones as they were, and each element once. */
static void check_order(const struct array *in, const struct array *values,
                        const struct array *places, bool descending)
{
    int64_t n = in->shape[1], k = values->shape[1];
    char *seen = malloc((size_t)n);

    CHECK(seen);
    for (int64_t row = 0; row < in->shape[0]; row++) {
        const double *x = in->at + row * n, *at = places->at + row * k;
        int64_t beyond = 0;

        memset(seen, 0, (size_t)n);
        for (int64_t i = 0; i < k; i++) {
            int64_t from = (int64_t)at[i];
            double y = values->at[row * k + i];

            CHECK(from >= 0 && from < n && !seen[from]);
            seen[from] = 1;
            CHECK(isnan(y) ? isnan(x[from]) : y == x[from]);
            if (i) {
                double before = x[(int64_t)at[i - 1]];

                CHECK(!(descending ? after_of(y, before) : after_of(before, y)));
                CHECK(after_of(y, before) || after_of(before, y) || at[i - 1] < at[i]);
            }
        }
        for (int64_t i = 0; i < n && k; i++) /* none of those left out comes before the last */
            if (!seen[i]) {
                double last = x[(int64_t)at[k - 1]];

                beyond += descending ? after_of(x[i], last) : after_of(last, x[i]);
            }
        CHECK_EQ(beyond, 0);
    }
    free(seen);
}

/* Sorted up or down, or the k largest alone; a stretch of a longer row where it is sorted down. */
static void sort_rows(weir_device *dev, weir_dtype dtype, const int64_t shape[2], int way,
                      int64_t values_from)
{
    int64_t k = way == 1 ? shape[1] < 100 ? shape[1] : 100 : shape[1];
    struct rng rng = rng_make("order", (unsigned)(shape[1] * 3 + way));
    struct array in, values, places;
    weir_tensor *x, *y[2];

    test_note("%lld of %lld, %s", (long long)k, (long long)shape[1], weir_dtype_name(dtype));
    array_init(&in, dtype, 2, shape);
    for (int64_t j = 0; j < array_numel(&in); j++)
        in.at[j] = !weir_dtype_is_float(dtype) ? (double)rng_int(&rng, 0, values_from)
                   : rng_chance(&rng, 1)       ? (double)NAN
                                               : round_to(dtype, rng_real(&rng, -2, 2));
    x = upload(weir_stream_default(dev), &in, way == 2 ? LAYOUT_SLICED : LAYOUT_PLAIN, &rng);
    if (way == 1)
        CHECK_OK(weir_topk(x, k, 1, true, &y[0], &y[1]));
    else
        CHECK_OK(weir_sort(x, 1, way == 2, &y[0], &y[1]));
    download(y[0], &values);
    download(y[1], &places);
    check_order(&in, &values, &places, way > 0);
    array_free(&in);
    array_free(&values);
    array_free(&places);
    weir_tensor_release(x);
    weir_tensor_release(y[0]);
    weir_tensor_release(y[1]);
}

static const weir_dtype sorted_types[] = {WEIR_F32, WEIR_F16, WEIR_I64, WEIR_U8, WEIR_F64};

CONFORMANCE(tiles, order_of_long_rows)
{
    static const int64_t shapes[][2] = {{3, 2049}, {2, 9000}, {1, 20480}};

    for (size_t t = 0; t < countof(sorted_types); t += EVERY)
        for (int i = 0; i < (int)countof(shapes); i++)
            sort_rows(dev, sorted_types[t], shapes[i], i, 200);
}

/* Names of few experts, too: most of their digits are the same. */
CONFORMANCE(tiles, order_of_rows_at_the_borders_of_warps_and_blocks)
{
    static const int64_t lengths[] = {1, 32, 33, 65, 128, 129, 256, 257, 1025, 2048};

    for (size_t t = 0; t < countof(sorted_types); t += EVERY)
        for (int i = 0; i < (int)countof(lengths); i++) {
            int64_t shape[] = {lengths[i] < 130 ? 19 : 2, lengths[i]};

            sort_rows(dev, sorted_types[t], shape, (i + (int)t) % 3, i % 2 ? 7 : 200);
        }
}

/* Each entry once, experts ascending, those of one expert as they were, and where experts end. */
static void check_experts(weir_device *dev, int64_t m, int64_t n, int64_t most)
{
    struct rng rng = rng_make("experts", (unsigned)(m + n));
    int32_t *experts = malloc((size_t)(m + 1) * sizeof *experts),
            *ends = malloc((size_t)n * sizeof *ends);
    int64_t *order = malloc((size_t)(m + 1) * sizeof *order);
    int64_t *places = malloc((size_t)(m + 1) * sizeof *places);
    weir_tensor *x, *y[3];

    CHECK(experts && ends && order && places);
    test_note("%lld entries, %lld experts", (long long)m, (long long)n);
    for (int64_t i = 0; i < m; i++)
        experts[i] = (int32_t)rng_int(&rng, 0, most);
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I32, 1, &m, experts, &x));
    CHECK_OK(weir_expert_order(x, n, 3, &y[0], &y[1], &y[2]));
    CHECK_OK(weir_tensor_read(y[0], order, (size_t)m * sizeof *order));
    CHECK_OK(weir_tensor_read(y[1], places, (size_t)m * sizeof *places));
    CHECK_OK(weir_tensor_read(y[2], ends, (size_t)n * sizeof *ends));
    CHECK_EQ(ends[n - 1], m);
    for (int64_t i = 0; i < m; i++) {
        int64_t first = experts[i] ? ends[experts[i] - 1] : 0;

        CHECK(places[i] >= first && places[i] < ends[experts[i]]);
        CHECK_EQ(order[places[i]], i / 3);
        order[places[i]] = -1; /* nobody else's */
    }
    for (int64_t e = 0; e < n; e++)
        CHECK(ends[e] >= (e ? ends[e - 1] : 0));
    for (int64_t i = m - 1; i >= 0; i--) { /* the last of an expert stands last */
        CHECK_EQ(places[i], ends[experts[i]] - 1);
        ends[experts[i]]--;
    }
    free(experts);
    free(ends);
    free(order);
    free(places);
    weir_tensor_release(x);
    for (int i = 0; i < 3; i++)
        weir_tensor_release(y[i]);
}

CONFORMANCE(tiles, order_of_entries_by_expert_around_the_shares_of_blocks)
{
    static const int64_t sizes[][3] = {{1, 1, 0},          {31, 300, 299},     {33, 2, 1},
                                       {1024, 7, 6},       {1025, 256, 255},   {3000, 256, 3},
                                       {2500, 2049, 2048}, {1100, 4100, 4099}, {70, 4096, 0}};

    for (size_t i = 0; i < countof(sizes); i++)
        check_experts(dev, sizes[i][0], sizes[i][1], sizes[i][2]);
}

CONFORMANCE(tiles, order_of_entries_with_an_expert_out_of_range_is_an_error)
{
    enum { M = 1500 };
    static int64_t experts[M];
    int64_t m = M;

    for (int i = 0; i < 3; i++) {
        weir_stream *s = new_stream(dev);
        weir_tensor *x, *y[3];

        experts[M - 1] = i == 0 ? 4 : i == 1 ? -1 : 3;
        CHECK_OK(weir_stream_set_current(s));
        CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, &m, experts, &x));
        CHECK_OK(weir_expert_order(x, 4, 1, &y[0], &y[1], &y[2]));
        CHECK_STATUS(weir_stream_sync(s), i < 2 ? WEIR_ERANGE : WEIR_OK);
        if (i < 2)
            CHECK_STR(weir_last_error(), i == 0 ? "4" : "-1");
        weir_tensor_release(x);
        for (int j = 0; j < 3; j++)
            weir_tensor_release(y[j]);
        CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
        CHECK_OK(weir_stream_destroy(s));
    }
}
