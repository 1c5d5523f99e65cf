/* Every collective against a reference in double: types, operators, world sizes, odd and
 * empty sizes, both modes. Values are chosen so that every step is exact in every type. */
#include "helpers.h"

#include "base/half.h"

static const weir_dtype types[] = {WEIR_F32, WEIR_F16, WEIR_BF16, WEIR_F64,
                                   WEIR_I64, WEIR_I32, WEIR_I8,   WEIR_U8};
static const int64_t sizes[] = {0, 1, 5, 63, 64, 1000, 4099};

/* Element i of rank r; small, so that sums and means of four are exact. */
static double value(int r, int64_t i, weir_dtype dtype)
{
    int v = (int)((i * 7 + r * 13) % 23) * 4;

    return dtype == WEIR_U8 ? v % 61 / 4 * 4 : (double)(v - 44) / (dtype == WEIR_I8 ? 2 : 1);
}

static void put(void *data, weir_dtype dtype, int64_t i, double x)
{
    switch (dtype) {
    case WEIR_F32:
        ((float *)data)[i] = (float)x;
        break;
    case WEIR_F16:
        ((uint16_t *)data)[i] = weir__f32_to_f16((float)x);
        break;
    case WEIR_BF16:
        ((uint16_t *)data)[i] = weir__f32_to_bf16((float)x);
        break;
    case WEIR_F64:
        ((double *)data)[i] = x;
        break;
    case WEIR_I64:
        ((int64_t *)data)[i] = (int64_t)x;
        break;
    case WEIR_I32:
        ((int32_t *)data)[i] = (int32_t)x;
        break;
    case WEIR_I8:
        ((int8_t *)data)[i] = (int8_t)x;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)x;
    }
}

static weir_tensor *input(weir_device *dev, int r, weir_dtype dtype, int64_t n)
{
    char *data = malloc((size_t)n * 8 + 8);
    weir_tensor *t;

    for (int64_t i = 0; i < n; i++)
        put(data, dtype, i, value(r, i, dtype));
    t = tensor_of(dev, dtype, 1, &n, data);
    free(data);
    return t;
}

/* The tensor holds want(r, i) in every element. */
static void check(weir_tensor *t, int64_t n, const double *want)
{
    weir_dtype dtype = weir_tensor_dtype(t);
    size_t elem = weir_dtype_size(dtype), bytes = (size_t)n * elem;
    char *got = malloc(bytes + 1), *expected = malloc(bytes + 8);

    CHECK_EQ(weir_tensor_numel(t), n);
    CHECK_OK(weir_tensor_read(t, got, bytes));
    for (int64_t i = 0; i < n; i++)
        put(expected, dtype, i, want[i]);
    CHECK_MEM_EQ(got, expected, bytes);
    free(got);
    free(expected);
}

static double reduce(weir_reduce op, int n, int64_t i, weir_dtype dtype)
{
    double x = value(0, i, dtype);

    for (int r = 1; r < n; r++) {
        double y = value(r, i, dtype);

        x = op == WEIR_REDUCE_MAX    ? (x > y ? x : y)
            : op == WEIR_REDUCE_MIN  ? (x < y ? x : y)
            : op == WEIR_REDUCE_PROD ? x * y
                                     : x + y;
    }
    if (op == WEIR_REDUCE_MEAN) {
        x /= n;
        if (dtype >= WEIR_I64) /* toward zero, as integers divide */
            x = (double)(int64_t)x;
        if (dtype == WEIR_F32)
            x = (double)((float)(x * n) / (float)n);
    }
    /* What narrow integers wrap to. */
    if ((op == WEIR_REDUCE_SUM || op == WEIR_REDUCE_PROD) && dtype == WEIR_I8)
        x = (int8_t)(int64_t)x;
    if ((op == WEIR_REDUCE_SUM || op == WEIR_REDUCE_PROD) && dtype == WEIR_U8)
        x = (uint8_t)(int64_t)x;
    return x;
}

static void check_reductions(struct world *w, weir_dtype dtype, weir_reduce op, int64_t n)
{
    weir_tensor *x[MAX_WORLD], *all[MAX_WORLD], *part[MAX_WORLD];
    int64_t whole = n * w->n;
    double *want = malloc((size_t)(whole + 1) * sizeof *want);

    test_note("%s, operation %d, %lld elements, %d ranks", weir_dtype_name(dtype), op, (long long)n,
              w->n);
    for (int r = 0; r < w->n; r++) {
        x[r] = input(w->dev[r], r, dtype, whole);
        CHECK_OK(weir_all_reduce(w->rank[r], x[r], op, &all[r]));
        CHECK_OK(weir_reduce_scatter(w->rank[r], x[r], op, &part[r]));
        CHECK_OK(weir_all_reduce_into(w->rank[r], x[r], op, x[r]));
    }
    for (int64_t i = 0; i < whole; i++)
        want[i] = reduce(op, w->n, i, dtype);
    for (int r = 0; r < w->n; r++) {
        check(all[r], whole, want);
        check(part[r], n, want + r * n);
        check(x[r], whole, want); /* in place */
        weir_tensor_release(x[r]);
        weir_tensor_release(all[r]);
        weir_tensor_release(part[r]);
    }
    free(want);
}

static void all_reductions(int n, const weir_group_options *options)
{
    struct world w = {0};

    world_open(&w, n, "cpu:cores=2,threads=1", options);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int op = WEIR_REDUCE_SUM; op <= WEIR_REDUCE_PROD; op++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                check_reductions(&w, types[t], (weir_reduce)op, sizes[s]);
    world_close(&w);
}

TEST(values, reductions_of_1_rank_give_the_right_values)
{
    all_reductions(1, NULL);
}
TEST(values, reductions_of_2_ranks_give_the_right_values)
{
    all_reductions(2, NULL);
}
TEST(values, reductions_of_3_ranks_give_the_right_values)
{
    all_reductions(3, &(weir_group_options){.mode = WEIR_COMM_SDMA});
}
TEST(values, reductions_of_4_ranks_give_the_right_values)
{
    all_reductions(4, NULL);
}

static void check_moves(struct world *w, weir_dtype dtype, int64_t n)
{
    weir_tensor *x[MAX_WORLD], *whole[MAX_WORLD], *gathered[MAX_WORLD], *root[MAX_WORLD],
        *exchanged[MAX_WORLD];
    int64_t all = n * w->n;
    double *want = malloc((size_t)(all + 1) * sizeof *want);
    int from = w->n - 1;

    test_note("%s, %lld elements, %d ranks", weir_dtype_name(dtype), (long long)n, w->n);
    for (int r = 0; r < w->n; r++) {
        x[r] = input(w->dev[r], r, dtype, n);
        whole[r] = input(w->dev[r], r, dtype, all);
        CHECK_OK(weir_all_gather(w->rank[r], x[r], &gathered[r]));
        CHECK_OK(weir_broadcast(w->rank[r], x[r], from, &root[r]));
        CHECK_OK(weir_all_to_all(w->rank[r], whole[r], &exchanged[r]));
        CHECK_OK(weir_broadcast_into(w->rank[r], x[r], 0, x[r]));
        CHECK_OK(weir_barrier(w->rank[r]));
    }
    for (int r = 0; r < w->n; r++) {
        for (int64_t i = 0; i < all; i++)
            want[i] = value((int)(i / (n ? n : 1)), i % (n ? n : 1), dtype);
        check(gathered[r], all, want);
        for (int64_t i = 0; i < all; i++)
            want[i] = value((int)(i / (n ? n : 1)), r * n + i % (n ? n : 1), dtype);
        check(exchanged[r], all, want);
        for (int64_t i = 0; i < n; i++)
            want[i] = value(from, i, dtype);
        check(root[r], n, want);
        for (int64_t i = 0; i < n; i++)
            want[i] = value(0, i, dtype);
        check(x[r], n, want);
        weir_tensor_release(x[r]);
        weir_tensor_release(whole[r]);
        weir_tensor_release(gathered[r]);
        weir_tensor_release(root[r]);
        weir_tensor_release(exchanged[r]);
    }
    free(want);
}

TEST(values, collectives_that_move_data_give_the_right_values_on_1_to_4_ranks)
{
    for (int n = 1; n <= MAX_WORLD; n++) {
        struct world w;

        world_open(&w, n, "cpu:cores=2,threads=1",
                   &(weir_group_options){.mode = n == 2 ? WEIR_COMM_SDMA : WEIR_COMM_VECTOR});
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                check_moves(&w, types[t], sizes[s]);
        world_close(&w);
    }
}

/* Rank i sends (i + 2 j) % 4 rows of 3 to rank j; some send nothing. */
TEST(values, uneven_rows_are_exchanged_by_their_counts)
{
    struct world w;

    for (int n = 1; n <= MAX_WORLD; n++) {
        weir_tensor *x[MAX_WORLD], *y[MAX_WORLD];

        world_open(&w, n, "cpu:cores=2", NULL);
        for (int r = 0; r < n; r++) {
            int64_t send[MAX_WORLD], recv[MAX_WORLD], rows = 0, at = 0;
            float data[64];

            for (int j = 0; j < n; j++) {
                send[j] = (r + 2 * j) % 4;
                recv[j] = (j + 2 * r) % 4;
                for (int64_t i = 0; i < 3 * send[j]; i++)
                    data[at++] = (float)(100 * r + 10 * j + i);
                rows += send[j];
            }
            x[r] = tensor_of(w.dev[r], WEIR_F32, 2, (int64_t[]){rows, 3}, data);
            CHECK_OK(weir_all_to_all_counts(w.rank[r], x[r], send, recv, &y[r]));
        }
        for (int r = 0; r < n; r++) {
            float got[64];
            int64_t at = 0;

            CHECK_OK(weir_tensor_read(y[r], got, (size_t)weir_tensor_numel(y[r]) * sizeof *got));
            for (int j = 0; j < n; j++)
                for (int64_t i = 0; i < 3 * ((j + 2 * r) % 4); i++)
                    CHECK_NEAR(got[at++], 100 * j + 10 * r + (double)i, 0);
            CHECK_EQ(at, weir_tensor_numel(y[r]));
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
        }
        world_close(&w);
    }
}

/* Both directions at once, on two streams each. */
TEST(values, a_message_arrives_with_its_values)
{
    struct world w;
    weir_tensor *x[2], *y[2];
    weir_stream *s[2];

    world_open(&w, 2, "cpu:cores=2", NULL);
    for (int64_t n = 0; n < 3000; n = 2 * n + 1) {
        for (int r = 0; r < 2; r++) {
            x[r] = ramp(w.dev[r], n, 1000 * (r + 1), 1);
            y[r] = ramp(w.dev[r], n, 0, 0);
            s[r] = fresh_stream(w.dev[r]);
            CHECK_OK(weir_send(w.rank[r], x[r], 1 - r));
            CHECK_OK(weir_stream_set_current(weir_stream_default(w.dev[r])));
            CHECK_OK(weir_recv(w.rank[r], y[r], 1 - r));
        }
        for (int r = 0; r < 2; r++) {
            float *got = malloc((size_t)(n + 1) * sizeof *got);

            CHECK_OK(weir_tensor_read(y[r], got, (size_t)n * sizeof *got));
            for (int64_t i = 0; i < n; i++)
                CHECK_NEAR(got[i], 1000.0 * (2 - r) + (double)i, 0);
            free(got);
            CHECK_OK(weir_stream_sync(s[r]));
            CHECK_OK(weir_stream_destroy(s[r]));
            weir_tensor_release(x[r]);
            weir_tensor_release(y[r]);
        }
    }
    world_close(&w);
}

TEST(values, a_strided_view_is_packed_before_it_is_sent)
{
    struct world w;
    weir_tensor *x[2], *turned[2], *y[2];

    world_open(&w, 2, "cpu:cores=2", NULL);
    for (int r = 0; r < 2; r++) {
        float data[6] = {1, 2, 3, 4, 5, 6}, want[6] = {2, 8, 4, 10, 6, 12};

        x[r] = tensor_of(w.dev[r], WEIR_F32, 2, (int64_t[]){2, 3}, data);
        CHECK_OK(weir_tensor_transpose(x[r], 0, 1, &turned[r]));
        CHECK_OK(weir_all_reduce(w.rank[r], turned[r], WEIR_REDUCE_SUM, &y[r]));
        if (r == 1)
            for (int i = 0; i < 2; i++) {
                float got[6];

                CHECK_OK(weir_tensor_read(y[i], got, sizeof got));
                CHECK_MEM_EQ(got, want, sizeof got);
            }
    }
    for (int r = 0; r < 2; r++) {
        weir_tensor_release(x[r]);
        weir_tensor_release(turned[r]);
        weir_tensor_release(y[r]);
    }
    world_close(&w);
}
