/* Copies from one GPU to another, and errors that they carry over. */
#include "gpu.h"

#include <string.h>

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

TEST(cuda_abroad, a_wait_for_a_failed_stream_of_another_device_fails)
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
TEST(cuda_abroad, a_query_reports_the_error_of_the_other_device)
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

TEST(cuda_abroad, the_device_that_failed_may_be_closed)
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
TEST(cuda_abroad, an_error_after_the_copy_does_not_cross_to_the_other_device)
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

static void open_apart(const struct fake_control *fake, weir_device *dev[2])
{
    fake->apart(true);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_open(i ? "cuda:1" : "cuda:0", &dev[i]));
}

TEST(cuda_abroad, gpus_that_do_not_reach_each_other_are_named)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev[2];
    weir_group *group;

    open_apart(fake, dev);
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

enum { ROWS = 1201, COLUMNS = 1103, ALL = ROWS * COLUMNS }; /* more than a stream's stage */

static weir_tensor *matrix(weir_stream *s, bool turned, const int32_t *values)
{
    weir_tensor *t, *view;
    int64_t shape[] = {turned ? COLUMNS : ROWS, turned ? ROWS : COLUMNS};

    CHECK_OK(weir_tensor_from(s, WEIR_I32, 2, shape, values, &t));
    if (!turned)
        return t;
    CHECK_OK(weir_tensor_transpose(t, 0, 1, &view));
    weir_tensor_release(t);
    return view;
}

/* Packed and turned views to packed and turned views; the source goes at once, and its memory is
 * written by whoever comes next. */
static void copy_all_views(weir_device *one, weir_device *two)
{
    weir_stream *from = weir_stream_default(one), *to = weir_stream_default(two);
    int32_t *in = malloc(ALL * sizeof *in), *out = malloc(ALL * sizeof *out);

    CHECK(in && out);
    for (int i = 0; i < ALL; i++)
        in[i] = i;
    for (int k = 0; k < 4; k++) {
        weir_tensor *src, *dst, *next;

        test_note("source %s, destination %s", k & 1 ? "turned" : "packed",
                  k & 2 ? "turned" : "packed");
        memset(out, 0xff, ALL * sizeof *out);
        src = matrix(from, k & 1, in);
        dst = matrix(to, k & 2, out);
        CHECK_OK(weir_tensor_copy(dst, src));
        weir_tensor_release(src);
        next = matrix(from, false, out);
        CHECK_OK(weir_tensor_read(dst, out, ALL * sizeof *out));
        for (int i = 0; i < ALL; i++)
            if (out[i] != (k & 1 ? i % COLUMNS * ROWS + i / COLUMNS : i))
                FAIL("element %d is %d", i, out[i]);
        weir_tensor_release(dst);
        weir_tensor_release(next);
    }
    free(in);
    free(out);
}

TEST(cuda_abroad, views_of_any_strides_are_copied)
{
    weir_device *one = open_gpu("cuda:0"), *two = open_second();

    copy_all_views(one, two);
    CHECK_OK(weir_device_close(one));
    CHECK_OK(weir_device_close(two));
}

TEST(cuda_abroad, copies_between_gpus_that_do_not_reach_each_other_go_through_the_host)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev[2];
    char live[200];

    open_apart(fake, dev);
    copy_all_views(dev[0], dev[1]);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_close(dev[i]));
    fake->live(live, sizeof live);
    CHECK_EQ(strlen(live), 0);
}

TEST(cuda_abroad, errors_cross_through_the_host_as_well)
{
    const struct fake_control *fake = use_fake();

    for (int failing = 0; failing < 2; failing++) {
        weir_device *dev[2];
        weir_tensor *x, *y;

        test_note("the %s's stream fails", failing ? "destination" : "source");
        open_apart(fake, dev);
        x = gpu_tensor(weir_stream_default(dev[0]), WEIR_F32, 100, 1);
        y = gpu_tensor(weir_stream_default(dev[1]), WEIR_F32, 100, 2);
        fail_on(weir_stream_default(dev[failing]));
        CHECK_OK(weir_tensor_copy(y, x));
        for (int i = 0; i < 2; i++)
            expect_error(weir_stream_sync(weir_stream_default(dev[i])));
        weir_tensor_release(x);
        weir_tensor_release(y);
        for (int i = 0; i < 2; i++)
            CHECK_OK(weir_device_close(dev[i]));
    }
}

/* Whatever call fails, the memory between the two is neither lost nor freed too early. */
TEST(cuda_abroad, any_call_of_a_copy_through_the_host_may_fail)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev[2];
    weir_tensor *x, *y;
    float got[100];
    uint64_t before, n = 0;
    int failed = 0;

    open_apart(fake, dev);
    x = gpu_tensor(weir_stream_default(dev[0]), WEIR_F32, 100, 1);
    y = gpu_tensor(weir_stream_default(dev[1]), WEIR_F32, 100, 2);
    CHECK_OK(weir_tensor_copy(y, x));
    do {
        for (int i = 0; i < 2; i++)
            CHECK_OK(weir_device_sync(dev[i]));
        before = fake->calls();
        fake->fail_call(++n, 1);
        failed += weir_tensor_copy(y, x) != WEIR_OK;
        fake->fail_call(0, 0);
        for (int i = 0; i < 2; i++)
            CHECK_OK(weir_device_sync(dev[i]));
    } while (n <= fake->calls() - before);
    CHECK_GT(failed, 4);
    CHECK_OK(weir_tensor_read(y, got, sizeof got));
    CHECK_NEAR(got[99], 1, 0);
    weir_tensor_release(x);
    weir_tensor_release(y);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_close(dev[i]));
}
