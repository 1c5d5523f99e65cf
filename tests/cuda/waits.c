/* Waits that are deferred until their stream gets work. */
#include "gpu.h"

enum { STREAMS = 150 };

/* Each stream waits for the one before and does nothing else; the last one reads what the first has
 * written. */
TEST(cuda_waits, a_long_chain_of_waits_between_streams_is_in_order)
{
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *s[STREAMS];
    weir_tensor *t = gpu_tensor(weir_stream_default(dev), WEIR_F32, 4, 1), *out;
    float got[4];

    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
    if (fake)
        fake->hold(true);
    for (int round = 2; round < 5; round++) {
        CHECK_OK(weir_stream_set_current(s[0]));
        CHECK_OK(weir_fill(t, round));
        for (int i = 1; i < STREAMS; i++)
            CHECK_OK(weir_stream_wait_stream(s[i], s[i - 1]));
        CHECK_OK(weir_stream_wait_stream(s[0], s[STREAMS - 1]));
    }
    CHECK_OK(weir_stream_set_current(s[STREAMS - 1]));
    CHECK_OK(weir_add_scalar(t, 1, &out));
    if (fake)
        fake->hold(false);
    CHECK_OK(weir_tensor_read(out, got, sizeof got));
    CHECK_NEAR(got[3], 5, 0);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(t);
    weir_tensor_release(out);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(s[i]));
    CHECK_OK(weir_device_close(dev));
}

/* Two streams wait for each other again and again, now and then with something to do between. */
TEST(cuda_waits, two_streams_that_wait_for_each_other_in_turn_are_in_order)
{
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *s[2];
    weir_tensor *t = gpu_tensor(weir_stream_default(dev), WEIR_F32, 4, 0);
    int added = 0;
    float got[4];

    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
    if (fake)
        fake->hold(true);
    for (int i = 0; i < 200; i++) {
        weir_stream *now = s[i % 2];

        CHECK_OK(weir_stream_wait_stream(now, s[(i + 1) % 2]));
        if (i % 7 == 3) {
            CHECK_OK(weir_stream_set_current(now));
            CHECK_OK(weir_fill(t, ++added));
        }
    }
    CHECK_OK(weir_stream_wait_stream(weir_stream_default(dev), s[1]));
    if (fake)
        fake->hold(false);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_tensor_read(t, got, sizeof got));
    CHECK_NEAR(got[0], added, 0);
    weir_tensor_release(t);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_destroy(s[i]));
    CHECK_OK(weir_device_close(dev));
}
