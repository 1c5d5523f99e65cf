/* Checks of weir on a GPU: races, and groups for which it has no collectives. */
#include "gpu.h"
#include "weir/comm.h"
#include "weir/race.h"

TEST(cuda_checks, an_unordered_write_after_a_read_is_a_race)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *one = weir_stream_default(dev), *two;
    weir_tensor *x = gpu_tensor(one, WEIR_F32, 1024, 1), *y;
    weir_race found[2];

    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = "two"}, &two));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_race_set_mode(WEIR_RACE_REPORT));
    CHECK_OK(weir_neg(x, &y));
    CHECK_OK(weir_stream_set_current(two));
    CHECK_OK(weir_add_into(x, x, x));
    CHECK_EQ(weir_race_list(found, sizeof *found, 2), 1);
    CHECK_STR_EQ(found[0].first.op, "Neg");
    CHECK_STR_EQ(found[0].second.op, "Add");
    CHECK_STR_EQ(found[0].second.stream, "two");
    CHECK_STR(found[0].second.device, "cuda");
    CHECK_OK(weir_race_set_mode(WEIR_RACE_ERROR));
    CHECK_OK(weir_add_into(x, x, x));
    CHECK_OK(weir_stream_set_current(one));
    CHECK_STATUS(weir_add_into(x, x, x), WEIR_ERACE);
    CHECK_OK(weir_stream_wait_stream(one, two));
    CHECK_OK(weir_add_into(x, x, x));
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_destroy(two));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_checks, a_group_of_a_gpu_and_a_host_is_refused)
{
    weir_device *devices[2] = {open_gpu("cuda:0"), NULL};
    weir_group *group;

    CHECK_OK(weir_device_open("cpu", &devices[1]));
    CHECK_STATUS(weir_group_create(devices, 2, NULL, &group), WEIR_EUNSUPPORTED);
    CHECK_STR(weir_last_error(), "rank 0 is on cuda:0, rank 1 on cpu");
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_device_close(devices[i]));
}
