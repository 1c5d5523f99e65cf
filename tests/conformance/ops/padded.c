/* Coordinates of non-zero elements, padded with rows of -1, whatever the memory contained. */
#include "conformance/conformance.h"

#include <stdlib.h>

/* Leaves memory of the size that is no zeros and no -1, for the next to get. */
static void soil(weir_device *dev, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_I64, 1, &n, &t));
    CHECK_OK(weir_fill(t, 77));
    weir_tensor_release(t);
}

static void check_padded(weir_device *dev, int64_t rows, int64_t columns, int percent)
{
    struct rng rng = rng_make("padded", (uint64_t)(rows * 1000 + columns * 101 + percent));
    weir_tensor *x, *exact, *padded, *count;
    int64_t *want, *got, n, known;
    struct array a;

    test_note("%lld x %lld, %d %%", (long long)rows, (long long)columns, percent);
    array_init(&a, WEIR_F32, 2, (int64_t[]){rows, columns});
    for (int64_t i = 0; i < array_numel(&a); i++)
        a.at[i] = rng_chance(&rng, percent);
    x = upload(weir_stream_default(dev), &a, LAYOUT_PLAIN, &rng);
    array_free(&a);
    CHECK_OK(weir_nonzero(x, &exact));
    soil(dev, rows * columns * 2);
    CHECK_OK(weir_nonzero_padded(x, &padded, &count));
    n = weir_tensor_shape(exact)[0];
    want = malloc((size_t)n * 16 + 1);
    got = malloc((size_t)(rows * columns) * 16);
    CHECK(want && got);
    CHECK_OK(weir_tensor_read(exact, want, (size_t)n * 16));
    CHECK_OK(weir_tensor_read(padded, got, (size_t)(rows * columns) * 16));
    CHECK_OK(weir_tensor_read(count, &known, sizeof known));
    CHECK_EQ(known, n);
    CHECK_MEM_EQ(got, want, (size_t)n * 16);
    for (int64_t i = 2 * n; i < 2 * rows * columns; i++)
        CHECK_EQ(got[i], -1);
    free(want);
    free(got);
    weir_tensor_release(x);
    weir_tensor_release(exact);
    weir_tensor_release(padded);
    weir_tensor_release(count);
}

CONFORMANCE(tiles, rows_without_coordinates_are_minus_one)
{
    static const int percents[] = {0, 3, 60, 100};

    for (size_t i = 0; i < countof(percents); i++) {
        check_padded(dev, 1, 1, percents[i]);
        check_padded(dev, 7, 5, percents[i]);
        check_padded(dev, 90, 33, percents[i]);
    }
}
