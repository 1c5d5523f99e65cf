/* Groups of more than 64 ranks, which do not fit one word of bits. */
#include "helpers.h"

enum { MANY = 100 };

/* Ranks of one device, each on a stream of its own. A
 * modelled device has not as many cores as they would hold. */
struct many {
    weir_device *dev, *devices[MANY];
    weir_stream *streams[MANY];
    weir_group *group;
};

static void many_open(struct many *m, const weir_group_options *options)
{
    weir_group_options o = options ? *options : (weir_group_options){0};

    o.mode = is_modelled() ? WEIR_COMM_SDMA : WEIR_COMM_VECTOR;
    CHECK_OK(weir_device_open(is_modelled() ? "npu:a2" : "cpu:cores=2,op_timeout=20", &m->dev));
    for (int r = 0; r < MANY; r++) {
        char tag[32];

        snprintf(tag, sizeof tag, "rank %d", r);
        m->devices[r] = m->dev;
        CHECK_OK(weir_stream_tagged(m->dev, tag, 0, &m->streams[r]));
    }
    CHECK_OK(weir_group_create(m->devices, MANY, &o, &m->group));
}

static weir_rank *many_rank(struct many *m, int r)
{
    CHECK_OK(weir_stream_set_current(m->streams[r]));
    return weir_group_rank(m->group, r);
}

static void many_close(struct many *m)
{
    CHECK_OK(weir_stream_set_current(weir_stream_default(m->dev)));
    weir_device_sync(m->dev); /* may be in error */
    CHECK_OK(weir_group_destroy(m->group));
    CHECK_OK(weir_device_close(m->dev));
}

static weir_tensor *rows_of(struct many *m, int r, int64_t n)
{
    int32_t data[2 * MANY];
    weir_tensor *x;

    for (int64_t i = 0; i < n; i++)
        data[i] = r * 1000 + (int32_t)i;
    CHECK_OK(weir_tensor_from(m->streams[r], WEIR_I32, 1, &n, data, &x));
    return x;
}

static int32_t read_at(weir_tensor *x, int64_t i)
{
    int32_t data[MANY * MANY];

    CHECK_OK(weir_tensor_read(x, data, (size_t)weir_tensor_numel(x) * sizeof *data));
    return data[i];
}

typedef weir_status (*call_fn)(weir_rank *rank, weir_tensor *x, weir_tensor **out);

static weir_status sum(weir_rank *rank, weir_tensor *x, weir_tensor **out)
{
    return weir_all_reduce(rank, x, WEIR_REDUCE_SUM, out);
}
static weir_status sum_part(weir_rank *rank, weir_tensor *x, weir_tensor **out)
{
    return weir_reduce_scatter(rank, x, WEIR_REDUCE_SUM, out);
}
static weir_status from_last(weir_rank *rank, weir_tensor *x, weir_tensor **out)
{
    return weir_broadcast(rank, x, MANY - 1, out);
}
static weir_status to_last(weir_rank *rank, weir_tensor *x, weir_tensor **out)
{
    return weir_gather_to(rank, x, MANY - 1, out);
}

/* Calls it on every rank and gives the result of rank `r`. */
static weir_tensor *call_all(struct many *m, call_fn call, int64_t n, int wanted)
{
    weir_tensor *result = NULL;

    for (int r = 0; r < MANY; r++) {
        weir_tensor *x = rows_of(m, r, n), *out;

        CHECK_OK(call(many_rank(m, r), x, &out));
        weir_tensor_release(x);
        if (r == wanted)
            result = out;
        else
            weir_tensor_release(out);
    }
    CHECK_OK(weir_device_sync(m->dev));
    return result;
}

static void check_call(struct many *m, call_fn call, int64_t n, int r, int64_t at, int32_t want)
{
    weir_tensor *out = call_all(m, call, n, r);

    CHECK_EQ(read_at(out, at), want);
    weir_tensor_release(out);
}

TEST(many, collectives_of_a_hundred_ranks_give_the_right_values)
{
    struct many m;

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    many_open(&m, NULL);
    check_call(&m, sum, 5, 3, 4, 1000 * (MANY * (MANY - 1) / 2) + 4 * MANY);
    check_call(&m, sum_part, MANY, 77, 0, 1000 * (MANY * (MANY - 1) / 2) + 77 * MANY);
    check_call(&m, weir_all_gather, 2, 64, 2 * 99 + 1, 99001);
    check_call(&m, weir_all_to_all, MANY, 70, 99, 99070);
    check_call(&m, from_last, 3, 0, 2, 99002);
    check_call(&m, to_last, 2, 99, 2 * 65, 65000);
    many_close(&m);
}

/* Each to the next but one, around. */
TEST(many, a_hundred_ranks_send_around_and_exchange_uneven_rows)
{
    struct many m;
    weir_tensor *x[MANY], *y[MANY];
    int64_t send[MANY] = {0}, recv[MANY] = {0};

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    many_open(&m, NULL);
    for (int r = 0; r < MANY; r++) {
        x[r] = rows_of(&m, r, 1);
        y[r] = rows_of(&m, r, 1);
        CHECK_OK(weir_send(many_rank(&m, r), x[r], (r + 2) % MANY));
    }
    for (int r = 0; r < MANY; r++) {
        char tag[32];
        weir_stream *other;

        snprintf(tag, sizeof tag, "receives %d", r);
        CHECK_OK(weir_stream_tagged(m.dev, tag, 0, &other));
        CHECK_OK(weir_stream_set_current(other));
        CHECK_OK(weir_recv(weir_group_rank(m.group, r), y[r], (r + MANY - 2) % MANY));
    }
    CHECK_OK(weir_device_sync(m.dev));
    CHECK_EQ(read_at(y[1], 0), 99000);
    CHECK_EQ(read_at(y[99], 0), 97000);
    for (int r = 0; r < MANY; r++) {
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
        x[r] = rows_of(&m, r, r % 3);
        memset(send, 0, sizeof send);
        for (int i = 0; i < MANY; i++)
            recv[i] = r == 98 ? i % 3 : 0;
        send[98] = r % 3;
        CHECK_OK(weir_all_to_all_counts(many_rank(&m, r), x[r], send, recv, &y[r]));
    }
    CHECK_OK(weir_device_sync(m.dev));
    CHECK_EQ(weir_tensor_numel(y[98]), 99);
    CHECK_EQ(read_at(y[98], 98), 98001);
    for (int r = 0; r < MANY; r++) {
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    many_close(&m);
}

/* More ranks than counts fit into a call. */
TEST(many, uneven_rows_of_more_than_a_hundred_ranks_are_gathered)
{
    enum { RANKS = 120 };
    weir_device *dev, *devices[RANKS];
    weir_stream *streams[RANKS];
    weir_tensor *x[RANKS], *y[RANKS];
    int32_t got[3 * RANKS];
    int64_t counts[RANKS];
    weir_group *group;

    if (is_gpu() || is_modelled())
        test_skip("it is the same everywhere");
    CHECK_OK(weir_device_open("cpu:cores=2,op_timeout=20", &dev));
    for (int r = 0; r < RANKS; r++) {
        devices[r] = dev;
        counts[r] = (r * 7) % 4;
        CHECK_OK(weir_stream_create(dev, NULL, &streams[r]));
    }
    CHECK_OK(weir_group_create(devices, RANKS, NULL, &group));
    for (int r = 0; r < RANKS; r++) {
        weir_rank *rank = weir_group_rank(group, r);

        CHECK_OK(weir_stream_set_current(streams[r]));
        CHECK_OK(weir_tensor_from(streams[r], WEIR_I32, 1, &counts[r],
                                  (int32_t[]){r * 10, r * 10 + 1, r * 10 + 2}, &x[r]));
        CHECK_OK(weir_all_gather_counts(rank, x[r], counts, &y[r]));
    }
    CHECK_OK(weir_device_sync(dev));
    for (int r = 0; r < RANKS; r++) {
        int at = 0;

        CHECK_OK(weir_tensor_read(y[r], got, (size_t)weir_tensor_numel(y[r]) * sizeof *got));
        for (int i = 0; i < RANKS; i++)
            for (int k = 0; k < counts[i]; k++)
                CHECK_EQ(got[at++], i * 10 + k);
        CHECK_EQ(weir_tensor_numel(y[r]), at);
        weir_tensor_release(x[r]);
        weir_tensor_release(y[r]);
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_group_destroy(group));
    CHECK_OK(weir_device_close(dev));
}

TEST(many, a_rank_beyond_the_64th_that_differs_or_stays_away_is_named)
{
    struct many m;

    if (is_gpu())
        test_skip("kernels of a GPU name 64 ranks at most");
    many_open(&m, NULL);
    for (int r = 0; r < MANY; r++) {
        weir_tensor *x = rows_of(&m, r, r == 81 ? 2 : 3), *out;
        weir_status st = sum(many_rank(&m, r), x, &out);

        weir_tensor_release(x);
        if (st) { /* those before it have met it already */
            CHECK_EQ(st, WEIR_ESTATE);
            break;
        }
        weir_tensor_release(out);
    }
    CHECK(weir_device_sync(m.dev));
    CHECK_EQ(weir_group_state(m.group), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "rank 81 calls AllReduce sum i32[2]");
    many_close(&m);
    if (is_modelled())
        return; /* which knows that nobody will come; that is another test's */
    many_open(&m, &(weir_group_options){.timeout_ns = INT64_C(2000000000)});
    for (int r = 0; r < MANY; r++)
        if (r != 97)
            CHECK_OK(weir_barrier(many_rank(&m, r)));
    CHECK(weir_device_sync(m.dev));
    CHECK_EQ(weir_group_state(m.group), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "rank 97 on");
    many_close(&m);
}

TEST(many, more_ranks_than_there_may_be_are_refused_with_the_number)
{
    weir_device *dev, *devices[WEIR_MAX_RANKS + 1];
    weir_group *group;

    if (!is_gpu())
        CHECK_OK(weir_device_open("cpu:cores=1", &dev));
    else
        CHECK_OK(weir_device_open("cuda:0", &dev));
    for (int r = 0; r <= WEIR_MAX_RANKS; r++)
        devices[r] = dev;
    CHECK_EQ(weir_group_create(devices, WEIR_MAX_RANKS + 1, NULL, &group), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "1025 ranks");
    if (is_gpu()) {
        CHECK_EQ(weir_group_create(devices, 65, NULL, &group), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), "at most 64");
    }
    CHECK_OK(weir_device_close(dev));
}
