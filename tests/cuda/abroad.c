/* Errors that cross from one GPU to another, with the copies that wait for them. */
#include "gpu.h"

/* The second GPU, or another device on the first. */
static weir_device *open_second(void)
{
    weir_device *dev;

    if (weir_device_open("cuda:1", &dev))
        CHECK_OK(weir_device_open("cuda:0", &dev));
    return dev;
}

/* IndexSelect fails on the stream. */
static void fail_on(weir_stream *s)
{
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *index = gpu_tensor(s, WEIR_I64, 3, 12);
    weir_tensor *out;
    weir_stream *before = weir_stream_current(weir_stream_device(s));

    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_index_select(table, 0, index, &out));
    CHECK_OK(weir_stream_set_current(before));
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
}

static void expect_error(weir_status st)
{
    CHECK_EQ(st, WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "operator 'IndexSelect'");
    CHECK_STR(weir_last_error(), "index 12 is out of range: 0..9");
}

TEST(cuda_abroad, what_waits_for_a_failed_stream_of_another_device_fails)
{
    weir_device *one = open_gpu("cuda:0"), *two = open_second();
    weir_stream *from = weir_stream_default(one), *to = weir_stream_default(two), *third, *apart;
    weir_tensor *x = gpu_tensor(from, WEIR_F32, 100, 1), *y = gpu_tensor(to, WEIR_F32, 100, 2);

    CHECK_OK(weir_stream_create(two, NULL, &third));
    CHECK_OK(weir_stream_create(two, NULL, &apart));
    fail_on(from);
    CHECK_OK(weir_tensor_copy(y, x));
    CHECK_OK(weir_stream_wait_stream(third, to));
    expect_error(weir_stream_sync(third)); /* through two devices and three streams */
    expect_error(weir_stream_sync(to));
    CHECK_OK(weir_stream_sync(apart));
    expect_error(weir_stream_sync(from));
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_destroy(third));
    CHECK_OK(weir_stream_destroy(apart));
    CHECK_OK(weir_device_close(two));
    CHECK_OK(weir_device_close(one));
}

/* A query that finds it over finds the error, with no sync anywhere. */
TEST(cuda_abroad, a_query_finds_the_error)
{
    weir_device *one = open_gpu("cuda:0"), *two = open_second();
    weir_stream *from = weir_stream_default(one), *to = weir_stream_default(two);
    weir_tensor *x = gpu_tensor(from, WEIR_F32, 100, 1), *y = gpu_tensor(to, WEIR_F32, 100, 2);
    bool done = false;
    weir_status st;

    fail_on(from);
    CHECK_OK(weir_tensor_copy(y, x));
    do {
        st = weir_stream_query(to, &done);
    } while (!done);
    expect_error(st);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(two));
    CHECK_OK(weir_device_close(one));
}

TEST(cuda_abroad, the_device_that_failed_may_be_gone)
{
    weir_device *one = open_gpu("cuda:0"), *two = open_second();
    weir_stream *from = weir_stream_default(one), *to = weir_stream_default(two);
    weir_tensor *x = gpu_tensor(from, WEIR_F32, 100, 1), *y = gpu_tensor(to, WEIR_F32, 100, 2);

    fail_on(from);
    CHECK_OK(weir_tensor_copy(y, x));
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(one));
    expect_error(weir_stream_sync(to));
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(two));
}

/* What was waited for before it failed is no error. */
TEST(cuda_abroad, an_error_after_the_copy_stays_where_it_is)
{
    weir_device *one = open_gpu("cuda:0"), *two = open_second();
    weir_stream *from = weir_stream_default(one), *to = weir_stream_default(two);
    weir_tensor *x = gpu_tensor(from, WEIR_F32, 100, 1), *y = gpu_tensor(to, WEIR_F32, 100, 2);
    float got[100];

    CHECK_OK(weir_tensor_copy(y, x));
    fail_on(from);
    expect_error(weir_stream_sync(from));
    CHECK_OK(weir_tensor_read(y, got, sizeof got));
    CHECK_NEAR(got[99], 1, 0);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(one));
    CHECK_OK(weir_stream_sync(to));
    CHECK_OK(weir_device_close(two));
}

TEST(cuda_abroad, gpus_that_do_not_reach_each_other_are_named)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev[2];
    weir_group *group;

    fake->apart(true);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_open(i ? "cuda:1" : "cuda:0", &dev[i]));
    CHECK_OK(weir_group_create(dev, 2, NULL, &group));
    for (int i = 0; i < 2; i++) {
        weir_tensor *x = gpu_tensor(weir_stream_default(dev[i]), WEIR_F32, 100, 1);

        CHECK_OK(weir_all_reduce_into(weir_group_rank(group, i), x, WEIR_REDUCE_SUM, x));
        weir_tensor_release(x);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(weir_stream_sync(weir_stream_default(dev[i])), WEIR_EUNSUPPORTED);
        CHECK_STR(weir_last_error(), "GPU 0 cannot read the memory of GPU 1");
    }
    CHECK_OK(weir_group_destroy(group));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_close(dev[i]));
}
