/* Many operators over many streams, with memory freed under them. $WEIR_SOAK says how many;
 * a million takes some ten seconds. */
#include "gpu.h"

enum { STREAMS = 8, HELD = 32, N = 4096 };

struct held {
    weir_tensor *t;
    weir_stream *made_on;
    float value;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

TEST_TIMEOUT(cuda_soak, random_streams_and_frees_give_right_values_and_leak_nothing, 120)
{
    weir_device *dev = open_gpu("cuda:0");
    const char *wanted = getenv("WEIR_SOAK");
    long operators = wanted ? atol(wanted) : 10000 / TEST_SLOWDOWN;
    uint64_t state = 88172645463325252u;
    struct held held[HELD];
    weir_stream *s[STREAMS];
    weir_memory_stats stats;

    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
    for (int i = 0; i < HELD; i++)
        held[i] =
            (struct held){gpu_tensor(s[i % STREAMS], WEIR_F32, N, i), s[i % STREAMS], (float)i};
    for (long i = 0; i < operators; i++) {
        struct held *a = &held[next_random(&state) % HELD], *b = &held[next_random(&state) % HELD];
        weir_stream *on = s[next_random(&state) % STREAMS];
        weir_tensor *sum;

        CHECK_OK(weir_stream_wait_stream(on, a->made_on));
        CHECK_OK(weir_stream_set_current(on));
        CHECK_OK(weir_add_scalar(a->t, 1, &sum));
        weir_tensor_release(b->t); /* whoever uses it still */
        *b = (struct held){sum, on, a->value + 1};
        if (i % 5000 == 4999)
            CHECK_OK(weir_device_sync(dev));
    }
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < HELD; i++) {
        float values[N];

        CHECK_OK(weir_stream_set_current(held[i].made_on));
        CHECK_OK(weir_tensor_read(held[i].t, values, sizeof values));
        CHECK_NEAR(values[0], held[i].value, 0);
        CHECK_NEAR(values[N - 1], held[i].value, 0);
        weir_tensor_release(held[i].t);
    }
    weir_memory_get_stats(dev, &stats, sizeof stats);
    CHECK_EQ(stats.allocated, 0);
    CHECK_LT(stats.peak_reserved, (size_t)1 << 30);
    CHECK_EQ(stats.events_live, 0);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(s[i]));
    CHECK_OK(weir_device_close(dev));
}
