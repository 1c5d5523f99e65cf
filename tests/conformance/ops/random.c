/* Random numbers: seeds, ranges and moments. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

enum { N = 100000 };

static weir_tensor *empty(weir_device *dev, weir_dtype dtype, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_current(dev), dtype, 1, &n, &t));
    return t;
}

static void check_moments(weir_tensor *t, double mean, double deviation)
{
    double sum = 0, square = 0, low = INFINITY, high = -INFINITY, n;
    struct array a;

    download(t, &a);
    n = (double)array_numel(&a);
    for (int64_t i = 0; i < array_numel(&a); i++) {
        sum += a.at[i] / n;
        square += (a.at[i] - mean) * (a.at[i] - mean) / n;
        low = fmin(low, a.at[i]);
        high = fmax(high, a.at[i]);
    }
    /* Six deviations of the estimates, and the rounding of the narrowest type. */
    CHECK_NEAR(sum, mean, deviation * (6 / sqrt(n) + 4e-3));
    CHECK_NEAR(sqrt(square), deviation, deviation * (6 / sqrt(n) + 4e-3));
    array_free(&a);
}

CONFORMANCE(random, uniform_numbers_fill_their_range_evenly)
{
    for (int type = WEIR_F32; type <= WEIR_F64; type++) {
        weir_tensor *t = empty(dev, (weir_dtype)type, N);
        struct array a;

        test_note("%s", weir_dtype_name((weir_dtype)type));
        CHECK_OK(weir_random_uniform(t, 5, -2, 3));
        check_moments(t, 0.5, 5 / sqrt(12));
        download(t, &a);
        for (int64_t i = 0; i < N; i++)
            CHECK(a.at[i] >= -2 && a.at[i] <= 3);
        array_free(&a);
        weir_tensor_release(t);
    }
}

CONFORMANCE(random, uniform_integers_reach_both_ends)
{
    for (int type = WEIR_I64; type <= WEIR_U8; type++) {
        weir_tensor *t = empty(dev, (weir_dtype)type, N);
        struct array a;
        int seen[10] = {0};

        test_note("%s", weir_dtype_name((weir_dtype)type));
        CHECK_OK(weir_random_uniform(t, 11, 0, 10));
        download(t, &a);
        for (int64_t i = 0; i < N; i++) {
            CHECK(a.at[i] >= 0 && a.at[i] < 10);
            seen[(int)a.at[i]]++;
        }
        for (int i = 0; i < 10; i++)
            CHECK_NEAR(seen[i], N / 10.0, 6 * sqrt(N / 10.0));
        array_free(&a);
        weir_tensor_release(t);
    }
}

CONFORMANCE(random, normal_numbers_have_their_moments)
{
    for (int type = WEIR_F32; type <= WEIR_F64; type++) {
        weir_tensor *t = empty(dev, (weir_dtype)type, N);

        test_note("%s", weir_dtype_name((weir_dtype)type));
        CHECK_OK(weir_random_normal(t, 3, 1.5, 2));
        check_moments(t, 1.5, 2);
        weir_tensor_release(t);
    }
}

CONFORMANCE(random, a_seed_gives_the_same_numbers_in_any_layout)
{
    struct rng rng = rng_make("random", 1);
    int64_t shape[] = {37, 5, 11};
    weir_tensor *plain =
        make_view(weir_stream_default(dev), WEIR_F32, 3, shape, LAYOUT_PLAIN, &rng, NULL);
    size_t size;
    void *want, *got;

    CHECK_OK(weir_random_normal(plain, 42, 0, 1));
    want = read_bytes(plain, &size);
    for (int layout = LAYOUT_SLICED; layout <= LAYOUT_BOTH; layout++) {
        weir_tensor *view = make_view(weir_stream_default(dev), WEIR_F32, 3, shape,
                                      (enum layout)layout, &rng, NULL);

        test_note("layout %d", layout);
        CHECK_OK(weir_random_normal(view, 42, 0, 1));
        got = read_bytes(view, NULL);
        CHECK_MEM_EQ(got, want, size);
        free(got);
        weir_tensor_release(view);
    }
    CHECK_OK(weir_random_normal(plain, 43, 0, 1));
    got = read_bytes(plain, NULL);
    CHECK(memcmp(got, want, size));
    free(got);
    free(want);
    weir_tensor_release(plain);
}
