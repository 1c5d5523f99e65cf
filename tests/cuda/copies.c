/* Copies in which the host takes part. */
#include <string.h>

#include "gpu.h"

enum { COUNT = 3 << 20 }; /* three times what the stage of a stream holds */

/* The first element that is not `value`, else -1. */
static int64_t find_other(const float *values, float value)
{
    for (int64_t i = 0; i < COUNT; i++)
        if (values[i] != value)
            return i;
    return -1;
}

TEST(cuda_copies, a_copy_that_fails_half_way_leaves_the_callers_memory_alone)
{
    const struct fake_control *fake = use_fake();
    size_t size = COUNT * sizeof(float);
    float *values = malloc(size);
    uint64_t calls, failed = 0;
    weir_device *dev;

    CHECK(values != NULL);
    CHECK_OK(weir_device_open("cuda:0", &dev));
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *t = gpu_tensor(s, WEIR_F32, COUNT, 1);
    CHECK_OK(weir_tensor_read(t, values, size));
    calls = fake->calls();
    CHECK_OK(weir_tensor_read_async(t, values, size));
    calls = fake->calls() - calls;
    CHECK_OK(weir_stream_sync(s));
    for (uint64_t n = 1; n <= calls; n++) {
        bool whole;

        memset(values, 0, size);
        fake->hold(true);
        fake->fail_call(n, 1);
        whole = weir_tensor_read_async(t, values, size) == WEIR_OK;
        fake->fail_call(0, 0);
        failed += !whole;
        if (!whole)
            memset(values, 0, size); /* it is the caller's again */
        fake->hold(false);
        CHECK_OK(weir_stream_sync(s));
        CHECK_EQ(find_other(values, whole ? 1 : 0), -1);
    }
    CHECK_GT(failed, 3); /* some of them after the first part was queued */
    free(values);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
}
