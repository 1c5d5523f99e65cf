/* Opening, describing and closing devices. */
#include "helpers.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(device, bad_specs_name_the_bad_part)
{
    static const struct {
        const char *spec, *part;
    } rows[] = {
        {"", "does not begin with a device name"},
        {":cores=1", "does not begin with a device name"},
        {"tpu", "no device 'tpu'"},
        {"cpu:", "ends after ':'"},
        {"cpu:cores", "cores= is not a whole number"},
        {"cpu:cores=", "without a value"},
        {"cpu:cores=0", "cores=0 is not a whole number in 1..1024"},
        {"cpu:cores=-3", "cores=-3"},
        {"cpu:cores=2x", "cores=2x"},
        {"cpu:cores=99999999999999999999", "is not a whole number"},
        {"cpu:cores=2,cores=3", "twice"},
        {"cpu:colour=2", "unknown option 'colour'"},
        {"cpu:cube=4", "'cube' needs 'vector' as well"},
        {"cpu:cores=4,cube=2,vector=2", "either the first or the other two"},
        {"cpu:memory=much", "memory=much is not a size"},
        {"cpu:memory=0", "memory=0 is not a size"},
        {"cpu:memory=99999999999t", "is not a size"},
        {"cpu:poison=maybe", "poison=maybe is not one of"},
        {"cpu:,", "without a name"},
        {"cpu:=3", "without a name"},
    };
    static char huge[2000];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_device *dev = (weir_device *)1;

        test_note("spec '%s'", rows[i].spec);
        CHECK_STATUS(weir_device_open(rows[i].spec, &dev), WEIR_ESPEC);
        CHECK_STR(weir_last_error(), rows[i].part);
        CHECK_PTR_EQ(dev, NULL);
    }
    memset(huge, 'c', sizeof huge - 1);
    weir_device *dev;
    CHECK_STATUS(weir_device_open(huge, &dev), WEIR_ESPEC);
}

TEST(device, properties_say_what_was_opened)
{
    weir_device *dev = open_device("cpu:cube=24,vector=48,memory=64m");
    weir_device_props p;

    weir_device_get_props(dev, &p, sizeof p);
    CHECK_STR_EQ(p.name, "cpu:cube=24,vector=48,memory=64m");
    CHECK_EQ(p.cores.cube, 24);
    CHECK_EQ(p.cores.vector, 48);
    CHECK_EQ(p.memory_bytes, 64 << 20);
    CHECK(p.features & WEIR_FEATURE_SPLIT_CORES);
    CHECK_GE(p.threads, 1);
    CHECK_LE(p.threads, 72);
    CHECK_NE(p.model[0], 0);
    CHECK_OK(weir_device_close(dev));
    dev = open_device("cpu:cores=1");
    weir_device_get_props(dev, &p, sizeof p);
    CHECK_EQ(p.threads, 1);
    CHECK(!(p.features & WEIR_FEATURE_SPLIT_CORES));
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_device_close(NULL));
}

TEST(device, the_default_comes_from_the_environment)
{
    weir_device *a, *b;
    weir_device_props p;

    setenv("WEIR_DEVICE", "cpu:cores=3", 1);
    CHECK_OK(weir_device_default(&a));
    CHECK_OK(weir_device_default(&b));
    CHECK_PTR_EQ(a, b);
    weir_device_get_props(a, &p, sizeof p);
    CHECK_EQ(p.cores.cube, 3);
    setenv("WEIR_DEVICE", "nonsense", 1);
    CHECK_STATUS(weir_device_open(NULL, &b), WEIR_ESPEC);
    CHECK_STR(weir_last_error(), "nonsense");
}

TEST(device, a_child_of_fork_has_a_default_of_its_own)
{
    weir_tensor *x, *y;
    weir_device *dev;
    int status;
    pid_t pid;

    if (TEST_SANITIZED)
        SKIP("a sanitizer's own locks may be held by another thread at the fork");
    setenv("WEIR_DEVICE", "cpu:cores=2", 1);
    CHECK_OK(weir_device_default(&dev));
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 0, NULL, &(float){2}, &x));
    CHECK_OK(weir_neg(x, &y));
    CHECK_OK(weir_device_sync(dev));
    CHECK((pid = fork()) >= 0);
    if (pid == 0) {
        weir_device *own, *again;
        weir_tensor *a, *b;
        float got = 0;

        alarm(20);
        if (weir_device_default(&own) || weir_device_default(&again) || own == dev ||
            own != again ||
            weir_tensor_from(weir_stream_default(own), WEIR_F32, 0, NULL, &(float){3}, &a) ||
            weir_neg(a, &b) || weir_tensor_read(b, &got, sizeof got))
            _exit(1);
        _exit(got == -3 ? 0 : 2);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

TEST(device, close_waits_for_work_in_flight)
{
    weir_device *dev = open_device("cpu:jitter=9");
    atomic_int counter = 0;
    static int slots[3000];

    for (int i = 0; i < 3000; i++)
        submit_ticket(i % 2 ? weir_stream_default(dev) : new_stream(dev, 0), &counter, &slots[i]);
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(atomic_load(&counter), 3000);
}

TEST(device, close_refuses_while_things_are_held)
{
    weir_device *dev = open_device("cpu");
    weir_buffer *b;
    weir_event *e;
    weir_tensor *t;

    CHECK_OK(weir_buffer_alloc(weir_stream_default(dev), 1000, &b));
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    weir_buffer_free(b);
    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1 event(s)");
    weir_event_destroy(e);
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 0, NULL, &t));
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1 tensor(s)");
    weir_tensor_release(t);
    CHECK_OK(weir_launch_submit(weir_stream_default(dev), &(weir_launch){0})); /* still works */
    CHECK_OK(weir_device_close(dev));
}

TEST(device, several_devices_are_independent)
{
    weir_device *dev[5];
    struct gate g = {0};

    for (int i = 0; i < 5; i++)
        dev[i] = open_device("cpu:cores=1");
    submit_gate(weir_stream_default(dev[0]), &g);
    for (int i = 1; i < 5; i++) {
        CHECK_OK(weir_launch_submit(weir_stream_default(dev[i]), &(weir_launch){0}));
        CHECK_OK(weir_device_sync(dev[i]));
    }
    open_gate(&g);
    for (int i = 0; i < 5; i++)
        CHECK_OK(weir_device_close(dev[i]));
}

TEST(device, copies_between_devices_keep_order_on_both)
{
    weir_device *a = open_device("cpu:jitter=1"), *b = open_device("cpu:jitter=2");
    int64_t n = 1000;

    for (int round = 0; round < 300; round++) {
        static int32_t in[1000], out[1000];
        weir_tensor *x, *y;

        for (int i = 0; i < n; i++)
            in[i] = round * 1000 + i;
        CHECK_OK(weir_tensor_from(weir_stream_default(a), WEIR_I32, 1, &n, in, &x));
        CHECK_OK(weir_tensor_empty(weir_stream_default(b), WEIR_I32, 1, &n, &y));
        CHECK_OK(weir_tensor_copy(y, x));
        weir_tensor_release(x); /* at once: the copy has not run yet */
        CHECK_OK(weir_tensor_empty(weir_stream_default(a), WEIR_I32, 1, &n, &x));
        memset(in, 0xee, sizeof in);
        CHECK_OK(weir_tensor_write(x, in, sizeof in));
        CHECK_OK(weir_tensor_read(y, out, sizeof out));
        for (int i = 0; i < n; i++)
            CHECK_EQ(out[i], round * 1000 + i);
        weir_tensor_release(x);
        weir_tensor_release(y);
    }
    CHECK_OK(weir_device_close(a));
    CHECK_OK(weir_device_close(b));
}
