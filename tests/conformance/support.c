/* Helpers for devices, streams and random numbers. */
#include "conformance/conformance.h"

#include <stdlib.h>

/* What a driver does not do yet, and why: a part of the case's name and the reason. */
static const struct {
    const char *driver, *part, *reason;
} skips[] = {
    {"cuda", "bits.matmul", "cuBLASLt may choose another kernel for another core limit"},
    {"cuda", "bits.linear", "cuBLASLt may choose another kernel for another core limit"},
    {"cuda", "cores.limits_hold_within", "limits come in multiples of 8 cores: see tests/cuda"},
    {"null", "values.", "it computes nothing"},
    {"null", "bits.", "it computes nothing"},
    {"null", "random.", "it computes nothing"},
    {"null", "exact.", "it computes nothing"},
    {"null", "layouts.", "it computes nothing"},
    {"null", "tiles.", "it computes nothing"},
    {"null", "chains.", "it computes nothing"},
    {"null", "mixed_programs.", "it computes nothing"},
    {"null", "large.", "it computes nothing"},
    {"null", "overlap.", "it computes nothing"},
    {"null", "grouped.", "it computes nothing"},
    {"null", "views.chains", "it computes nothing"},
    {"null", "streams.work_runs_in_order", "it computes nothing"},
    {"null", "streams.events_and_wait_stream", "it computes nothing"},
    {"null", "streams.closing_a_device_with_tensors", "it computes nothing"},
    {"null", "cores.operators_obey", "it computes nothing"},
    {"null", "errors.", "its operators cannot fail"},
    {"null", "plans.", "its operators cannot fail"},
    {"null", "host_calls.", "it computes nothing"},
    {"null", "streams.callbacks_come_once", "its operators cannot fail"},
    {"null", "ready.", "it moves no bytes"},
    {"null", "transfers.every_type", "it moves no bytes"},
    {"null", "transfers.a_write", "it moves no bytes"},
    {"null", "transfers.async", "it moves no bytes"},
    {"null", "transfers.tensors_copy", "it moves no bytes"},
    {"null", "transfers.text", "it moves no bytes"},
    {"null", "transfers.wrapped", "it moves no bytes"},
    {"null", "transfers.dlpack", "it moves no bytes"},
    {NULL, NULL, NULL},
};

bool is_fake(weir_device *dev)
{
    weir_device_props props;

    weir_device_get_props(dev, &props, sizeof props);
    return !strncmp(props.model, "Fake GPU", 8);
}

static bool is_gpu(weir_device *dev)
{
    return !strncmp(weir_device_name(dev), "cuda", 4);
}

/* The fake GPU's one thread has to be woken for every command, and runs kernels thread by thread.
 * On a real one, most kernels of a random program are compiled for it alone, in 0.1 s each. */
unsigned repeats(weir_device *dev, unsigned n)
{
    return n / TEST_SLOWDOWN / (is_fake(dev) ? 10 : is_gpu(dev) ? 4 : 1);
}

/* Sanitizers do not see into kernels, which the emulator checks by itself. */
static void skip_on_fake(const char *name)
{
    static const char *const values[] = {"values.", "layouts.", "exact.", "large.",
                                         "tiles.",  "grouped.", "random."};

    if (!strncmp(name, "bits.", 5) && !getenv("WEIR_FAKE_NVRTC"))
        SKIP("the fake GPU runs one kernel at a time");
    for (size_t i = 0; i < countof(values) && TEST_SLOWDOWN > 1; i++)
        if (!strncmp(name, values[i], strlen(values[i])))
            SKIP("the build without sanitizers runs the fake GPU's kernels");
}

/* On a GPU, plans choose the algorithms of products by timing them, and calls one by one do not:
 * cases that compare their bits need a device that chooses none. */
static weir_device *open_for(const char *name)
{
    const char *asked = getenv("WEIR_DEVICE");
    char spec[200];
    weir_device *dev;
    bool exact = asked && !strncmp(asked, "cuda", 4) && !strncmp(name, "mixed_programs.", 15);

    snprintf(spec, sizeof spec, "%s,deterministic=on", asked ? asked : "");
    CHECK_OK(weir_device_open(exact ? spec : NULL, &dev));
    return dev;
}

void run_case(const char *name, void (*fn)(weir_device *dev))
{
    weir_device *dev = open_for(name);

    for (size_t i = 0; skips[i].driver; i++)
        if (!strncmp(weir_device_name(dev), skips[i].driver, strlen(skips[i].driver)) &&
            strstr(name, skips[i].part))
            SKIP("%s: %s", skips[i].driver, skips[i].reason);
    if (is_fake(dev))
        skip_on_fake(name);
    fn(dev);
    test_note("%s", "");
    CHECK_OK(weir_device_close(dev));
}

weir_device *open_another(void)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(NULL, &dev));
    return dev;
}

void need(weir_device *dev, unsigned features)
{
    static const struct {
        unsigned feature;
        const char *text;
    } texts[] = {
        {WEIR_FEATURE_REAL_TIME, "its work takes no real time"},
        {WEIR_FEATURE_SPLIT_CORES, "cube and vector share its cores"},
        {WEIR_FEATURE_HOST_MEMORY, "the host cannot reach its memory"},
        {WEIR_FEATURE_TIMING, "its events measure no time"},
    };
    weir_device_props props;

    weir_device_get_props(dev, &props, sizeof props);
    for (size_t i = 0; i < countof(texts); i++)
        if (features & ~props.features & texts[i].feature)
            SKIP("%s", texts[i].text);
}

void need_gates(weir_device *dev)
{
    need(dev, WEIR_FEATURE_HOST_MEMORY | WEIR_FEATURE_REAL_TIME);
}

weir_stream *new_stream(weir_device *dev)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    return s;
}

void order(weir_stream *first, weir_stream *later)
{
    weir_event *e;

    CHECK_OK(weir_event_create(weir_stream_device(first), NULL, &e));
    CHECK_OK(weir_event_record(e, first));
    CHECK_OK(weir_stream_wait(later, e));
    weir_event_destroy(e);
}

struct rng rng_make(const char *name, uint64_t salt)
{
    const char *base = getenv("CONFORMANCE_SEED");
    struct rng rng = {base ? strtoull(base, NULL, 0) : 1};

    for (const char *c = name; *c; c++)
        rng.state = (rng.state ^ (unsigned char)*c) * 0x100000001b3;
    rng.state += salt * 0x9e3779b97f4a7c15;
    rng_next(&rng);
    return rng;
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t x = rng->state += 0x9e3779b97f4a7c15;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

int64_t rng_int(struct rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_next(rng) % (uint64_t)(high - low + 1));
}

double rng_real(struct rng *rng, double low, double high)
{
    return low + (high - low) * ((double)(rng_next(rng) >> 11) * 0x1p-53);
}

bool rng_chance(struct rng *rng, int percent)
{
    return rng_int(rng, 0, 99) < percent;
}
