/* All-reduces of many bytes and ranks, in two rounds: each rank reduces a slice, then all read it.
 */
#include "procs/kids.h"

static float value_of(int rank, int64_t i)
{
    return (float)((i * 7919 + rank * 104729) % 10007) / 977.0f - 3.0f;
}

/* In the order of the ranks, as every rank must have it, bit for bit. */
static float expected(int ranks, int64_t i, weir_reduce how)
{
    float sum = value_of(0, i);

    for (int r = 1; r < ranks; r++) {
        float v = value_of(r, i);

        sum = how == WEIR_REDUCE_MAX ? (v > sum ? v : sum) : sum + v;
    }
    return how == WEIR_REDUCE_MEAN ? sum / (float)ranks : sum;
}

static void fill(float *data, int64_t n, int rank)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = value_of(rank, i);
}

static void compare(weir_tensor *t, int64_t n, int ranks, weir_reduce how)
{
    float *data = malloc((size_t)n * sizeof *data);

    CHECK_OK(weir_tensor_read(t, data, (size_t)n * sizeof *data));
    for (int64_t i = 0; i < n; i++) {
        float want = expected(ranks, i, how);

        if (memcmp(&data[i], &want, sizeof want))
            FAIL("element %lld is %.9g, not %.9g", (long long)i, (double)data[i], (double)want);
    }
    free(data);
}

SCENARIO(rounds)
{
    /* from below where rounds begin, with slices that are not alike, to several blocks */
    static const int64_t sizes[] = {65535, 65536, 65537, 100003, 300000};
    static const weir_reduce hows[] = {WEIR_REDUCE_SUM, WEIR_REDUCE_MAX, WEIR_REDUCE_MEAN};
    weir_device *dev;
    weir_group *g = join(&dev, NULL);
    weir_rank *self = weir_group_self(g);
    int me = weir_rank_index(self), ranks = weir_group_size(g);
    weir_stream *s = weir_stream_default(dev);

    for (int k = 0; k < 5; k++) {
        int64_t n = sizes[k];
        weir_plan *plan = plan_of_sums(self, dev, n, 1);
        float *data = malloc((size_t)n * sizeof *data);
        weir_tensor *x, *y, *out;

        fill(data, n, me);
        for (int how = 0; how < 3; how++) {
            test_note("rank %d, %lld elements, reduction %d", me, (long long)n, how);
            CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, &n, data, &x));
            CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, &n, &y));
            CHECK_OK(weir_all_reduce(self, x, hows[how], &out));
            CHECK_OK(weir_all_reduce_into(self, x, hows[how], y));
            CHECK_OK(weir_all_reduce_into(self, x, hows[how], x)); /* what others read stays */
            compare(out, n, ranks, hows[how]);
            compare(y, n, ranks, hows[how]);
            compare(x, n, ranks, hows[how]);
            weir_tensor_release(x);
            weir_tensor_release(y);
            weir_tensor_release(out);
        }
        for (int turn = 0; turn < 3; turn++) { /* some ranks by a plan, others not */
            CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, &n, data, &x));
            out = NULL;
            if ((me + turn) % 2)
                CHECK_OK(weir_plan_run(plan, s, &x, 1, &out, 1));
            else
                CHECK_OK(weir_all_reduce(self, x, WEIR_REDUCE_SUM, &out));
            compare(out, n, ranks, WEIR_REDUCE_SUM);
            weir_tensor_release(x);
            weir_tensor_release(out);
        }
        weir_plan_destroy(plan);
        free(data);
    }
    leave(g, dev);
}

TEST(procs, large_reductions_in_rounds_give_the_bits_of_one_rank)
{
    for (int ranks = 3; ranks <= (TEST_SANITIZED ? 4 : 6); ranks++)
        kids_run(ranks, "rounds", NULL);
}

/* On several streams at once, with a sub-group: rounds of one call wait for no other call. */
SCENARIO(rounds_beside)
{
    enum { N = 70000, STREAMS = 3, TURNS = 12 };
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *sub;
    int me = weir_rank_index(weir_group_self(g)), order[] = {3, 1, 0, 2};
    weir_stream *streams[STREAMS];
    weir_tensor *x, *out[STREAMS];
    float *data = malloc(N * sizeof *data);

    CHECK_OK(weir_group_split(g, order, 4, NULL, &sub));
    fill(data, N, me);
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){N}, data, &x));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < STREAMS; i++) {
            CHECK_OK(weir_stream_set_current(streams[(i + me * (turn % 2)) % STREAMS]));
            CHECK_OK(
                weir_all_reduce(weir_group_self(i == 1 ? sub : g), x, WEIR_REDUCE_MAX, &out[i]));
        }
        for (int i = 0; i < STREAMS; i++) {
            compare(out[i], N, 4, WEIR_REDUCE_MAX);
            weir_tensor_release(out[i]);
        }
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    weir_tensor_release(x);
    free(data);
    CHECK_OK(weir_group_destroy(sub));
    leave(g, dev);
}

TEST(procs, reductions_in_rounds_on_several_streams_give_the_values)
{
    kids_run(4, "rounds_beside", NULL);
}

static const char *const large[] = {"KID_LARGE=1", NULL};

TEST(procs, a_rank_that_is_lost_in_rounds_is_named_by_all_others)
{
    lose_one(4, 1, KILL, large, 700);
    lose_one(4, 3, STOP, large, 1500);
    lose_one(5, 0, KILL, large, 3000);
    lose_one(4, 2, TERMINATE, large, 100);
    losses_report("shm, in rounds");
}
