/* Common code of the tests of the race checker on a device. */
#ifndef TESTS_RACE_HELPERS_H
#define TESTS_RACE_HELPERS_H

#include "harness/test.h"
#include "weir/weir.h"

#include <stdlib.h>

struct fixture {
    weir_device *dev;
    weir_stream *a, *b, *c;
};

static inline struct fixture open_fixture(weir_race_mode mode)
{
    struct fixture f;

    CHECK_OK(weir_race_set_mode(mode));
    CHECK_OK(weir_device_open(NULL, &f.dev));
    CHECK_OK(weir_stream_create(f.dev, &(weir_stream_options){.name = "a"}, &f.a));
    CHECK_OK(weir_stream_create(f.dev, &(weir_stream_options){.name = "b"}, &f.b));
    CHECK_OK(weir_stream_create(f.dev, &(weir_stream_options){.name = "c"}, &f.c));
    return f;
}

static inline void close_fixture(struct fixture *f)
{
    CHECK_OK(weir_device_close(f->dev));
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
}

static inline weir_tensor *new_tensor(weir_stream *s, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, &n, &t));
    return t;
}

/* A kernel that touches nothing but says that it reads or writes the tensor. */
static inline weir_status touch(weir_stream *s, const char *name, weir_tensor *t, bool writes)
{
    return weir_launch_submit(
        s, &(weir_launch){.name = name, .tensors = &t, .ntensors = 1, .nreads = !writes});
}

static inline void order(weir_stream *first, weir_stream *second)
{
    CHECK_OK(weir_stream_wait_stream(second, first));
}

static inline uint64_t races(void)
{
    weir_race_stats stats;

    weir_race_get_stats(&stats, sizeof stats);
    return stats.races;
}

#endif
