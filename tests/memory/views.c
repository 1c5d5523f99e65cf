/* Typed views by offset into memory whose bounds weir knows. */
#include "helpers.h"

#include "weir/view.h"

static weir_tensor *bytes_of(weir_stream *s, int64_t n)
{
    weir_tensor *t = NULL;

    CHECK_OK(weir_tensor_empty(s, WEIR_U8, 1, &n, &t));
    return t;
}

TEST(views, a_view_by_offset_reads_and_writes_the_tensors_own_bytes)
{
    weir_device *dev;
    weir_tensor *all, *row, *column;
    int64_t shape[2] = {2, 4}, n = 2, stride = 4;
    float values[8] = {0, 1, 2, 3, 4, 5, 6, 7}, got[2];

    CHECK_OK(weir_device_open("cpu", &dev));
    all = bytes_of(weir_stream_default(dev), 1024);
    CHECK_OK(weir_tensor_view(all, 64, WEIR_F32, 2, shape, NULL, &row));
    CHECK_PTR_EQ(weir_tensor_data(row), (char *)weir_tensor_data(all) + 64);
    CHECK_OK(weir_tensor_write(row, values, sizeof values));
    CHECK_OK(weir_tensor_view(all, 64 + 3 * sizeof(float), WEIR_F32, 1, &n, &stride, &column));
    weir_tensor_release(all); /* the views hold the bytes */
    CHECK_OK(weir_tensor_read(column, got, sizeof got));
    CHECK_NEAR(got[0], 3, 0);
    CHECK_NEAR(got[1], 7, 0);
    weir_tensor_release(row);
    weir_tensor_release(column);
    CHECK_OK(weir_device_close(dev));
}

TEST(views, a_view_that_reaches_outside_or_is_not_aligned_is_refused)
{
    weir_device *dev;
    weir_tensor *all, *half, *t;
    int64_t n = 4, far = INT64_MAX / 2, negative = -1, two[2] = {2, 2}, steps[2] = {1, 2};

    CHECK_OK(weir_device_open("cpu", &dev));
    all = bytes_of(weir_stream_default(dev), 16);
    CHECK_OK(weir_tensor_view(all, 0, WEIR_F32, 1, &n, NULL, &t));
    weir_tensor_release(t);
    CHECK_STATUS(weir_tensor_view(all, 4, WEIR_F32, 1, &n, NULL, &t), WEIR_ERANGE);
    CHECK_PTR_EQ(t, NULL);
    CHECK_STATUS(weir_tensor_view(all, SIZE_MAX, WEIR_U8, 0, NULL, NULL, &t), WEIR_ERANGE);
    CHECK_STATUS(weir_tensor_view(all, 2, WEIR_F32, 0, NULL, NULL, &t), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_view(all, 0, WEIR_F32, 1, &n, &far, &t), WEIR_ESHAPE);
    CHECK_STATUS(weir_tensor_view(all, 0, WEIR_F32, 1, &n, &negative, &t), WEIR_ESHAPE);
    CHECK_STATUS(weir_tensor_view(NULL, 0, WEIR_F32, 1, &n, NULL, &t), WEIR_EINVAL);
    CHECK_OK(weir_tensor_view(all, 0, WEIR_F32, 2, two, steps, &half));
    CHECK_STATUS(weir_tensor_view(half, 0, WEIR_F32, 1, &n, NULL, &t), WEIR_ESHAPE);
    weir_tensor_release(half);
    weir_tensor_release(all);
    CHECK_OK(weir_device_close(dev));
}
