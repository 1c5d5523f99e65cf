/* Without a GPU the device is listed with the reason, and opening it says so. */
#include "gpu.h"

static const char *reason_of(const char *name)
{
    weir_driver_info rows[8];
    size_t n = weir_driver_list(rows, sizeof *rows, 8);

    for (size_t i = 0; i < n && i < 8; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].reason ? rows[i].reason : "";
    return NULL;
}

TEST(unavailable, a_missing_driver_is_named_as_the_reason)
{
    weir_device *dev;

    setenv("WEIR_LIBCUDA", "/nonexistent/libcuda.so", 1);
    CHECK(reason_of("cuda") != NULL);
    CHECK(strstr(reason_of("cuda"), "there is no NVIDIA driver") != NULL);
    CHECK_STATUS(weir_device_open("cuda:0", &dev), WEIR_EUNAVAILABLE);
    CHECK(strstr(weir_last_error(), "cuda:0") != NULL);
    CHECK(strstr(weir_last_error(), "/nonexistent/libcuda.so") != NULL);
}

/* The C library is a library, but no driver: its first missing function is named. */
TEST(unavailable, a_library_that_lacks_a_function_is_named_with_it)
{
    setenv("WEIR_LIBCUDA", "libc.so.6", 1);
    CHECK(strstr(reason_of("cuda"), "has no cuInit") != NULL);
}

/* As on a machine with a GPU. */
TEST(unavailable, a_case_that_asks_for_the_fake_has_it_though_there_is_a_driver)
{
    const struct fake_control *fake;
    weir_device *dev;

    CHECK(dlopen(STUB_DRIVER, RTLD_NOW | RTLD_LOCAL) != NULL);
    CHECK(use_fake() != NULL);
    dev = open_either("cuda:0", &fake);
    CHECK(fake != NULL);
    CHECK_OK(weir_device_close(dev));
}
