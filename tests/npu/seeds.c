/* Random programs on several streams: every seed, policy and profile of the model gives the
 * bits that host threads give. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"
#include "weir/weir.h"

enum { SIDE = 24, TENSORS = 8, STREAMS = 4, STEPS = 60 };

struct rng {
    uint64_t state;
};

static int below(struct rng *r, int n)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

struct world {
    weir_device *dev;
    weir_stream *streams[STREAMS];
    weir_tensor *tensors[TENSORS];
    int writer[TENSORS]; /* the stream that made it */
};

static void open_world(struct world *w, const char *spec)
{
    float data[SIDE * SIDE];

    CHECK_OK(weir_device_open(spec, &w->dev));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(
            weir_stream_create(w->dev, &(weir_stream_options){.priority = i - 2}, &w->streams[i]));
    for (int t = 0; t < TENSORS; t++) {
        for (int i = 0; i < SIDE * SIDE; i++)
            data[i] = (float)((i * 7 + t * 13) % 17) / 17 - 0.5f;
        w->writer[t] = t % STREAMS;
        CHECK_OK(weir_tensor_from(w->streams[t % STREAMS], WEIR_F32, 2, (int64_t[]){SIDE, SIDE},
                                  data, &w->tensors[t]));
    }
}

/* A new tensor from two others, on a stream that waits for both. */
static void step(struct world *w, struct rng *r)
{
    int a = below(r, TENSORS), b = below(r, TENSORS), to = below(r, TENSORS);
    int s = below(r, STREAMS), kind = below(r, 5);
    weir_tensor *out;

    for (int i = 0; i < 2; i++)
        if (w->writer[i ? b : a] != s)
            CHECK_OK(weir_stream_wait_stream(w->streams[s], w->streams[w->writer[i ? b : a]]));
    CHECK_OK(weir_stream_set_current(w->streams[s]));
    if (below(r, 4) == 0)
        CHECK_OK(
            weir_stream_set_limit(w->streams[s], (weir_cores){1 + below(r, 24), 1 + below(r, 48)}));
    if (kind == 0)
        CHECK_OK(weir_matmul(w->tensors[a], w->tensors[b], &out));
    else if (kind == 1)
        CHECK_OK(weir_mul(w->tensors[a], w->tensors[b], &out));
    else if (kind == 2)
        CHECK_OK(weir_softmax(w->tensors[a], 1, &out));
    else if (kind == 3)
        CHECK_OK(weir_sub(w->tensors[a], w->tensors[b], &out));
    else
        CHECK_OK(weir_tanh(w->tensors[a], &out));
    weir_tensor_release(w->tensors[to]); /* whoever still reads it keeps its bytes */
    w->tensors[to] = out;
    w->writer[to] = s;
}

static void run(const char *spec, uint64_t seed, float *values)
{
    struct rng r = {seed};
    struct world w;

    open_world(&w, spec);
    for (int i = 0; i < STEPS; i++)
        step(&w, &r);
    CHECK_OK(weir_device_sync(w.dev));
    CHECK_OK(weir_stream_set_current(weir_stream_default(w.dev)));
    for (int t = 0; t < TENSORS; t++) {
        CHECK_OK(
            weir_tensor_read(w.tensors[t], values + t * SIDE * SIDE, SIDE * SIDE * sizeof *values));
        weir_tensor_release(w.tensors[t]);
    }
    CHECK_OK(weir_device_close(w.dev));
}

TEST(seeds, random_programs_give_the_bits_of_host_threads)
{
    static const char *const forms[] = {
        "npu:a3,seed=%d", "npu:a3,policy=batch,overhead=off,seed=%d", "npu:a2,poison=1,seed=%d",
        "npu:a3,deterministic=1,seed=%d"};
    static float want[TENSORS * SIDE * SIDE], got[TENSORS * SIDE * SIDE];

    for (int i = 0; i < 60 / TEST_SLOWDOWN; i++) {
        char spec[64];

        run("cpu:cube=24,vector=48", (uint64_t)i, want);
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            snprintf(spec, sizeof spec, forms[f], i);
            test_note("program %d on %s", i, spec);
            run(spec, (uint64_t)i, got);
            CHECK_MEM_EQ(got, want, sizeof want);
        }
    }
}
