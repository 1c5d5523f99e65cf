/* Common code of the tests of collectives: a group with its own devices. */
#ifndef TESTS_COMM_HELPERS_H
#define TESTS_COMM_HELPERS_H

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "harness/gate.h"
#include "harness/test.h"
#include "weir/weir.h"

enum { MAX_WORLD = 4 };

struct world {
    int n;
    weir_device *dev[MAX_WORLD];
    weir_group *group;
    weir_rank *rank[MAX_WORLD];
};

/* The suite runs once on `cpu`, each case on the cores it names, and once on each other device
 * that WEIR_DEVICE names (devices.txt). */
static inline bool runs_on(const char *driver)
{
    const char *spec = getenv("WEIR_DEVICE");

    return spec && !strncmp(spec, driver, strlen(driver));
}

static inline bool is_modelled(void)
{
    return runs_on("npu");
}

static inline bool is_gpu(void)
{
    return runs_on("cuda");
}

static inline const char *spec_or_given(const char *spec)
{
    return is_modelled() || is_gpu() ? getenv("WEIR_DEVICE") : spec;
}

/* For cases whose kernels wait for the host, or that are about threads. */
static inline void needs_threads(void)
{
    if (is_modelled())
        test_skip("a modelled device runs kernels when the host waits for them");
    if (is_gpu())
        test_skip("a GPU runs no functions of the host");
}

/* On GPUs the ranks take turns with the first two, if there are two. They have the case's own
 * timeout: any other would count while the fake GPU compiles a kernel. */
static inline weir_device *open_rank(const char *spec, int rank)
{
    const char *timeout = strstr(spec, ",op_timeout=");
    char gpu[80];
    weir_device *dev;

    if (!is_gpu()) {
        CHECK_OK(weir_device_open(spec_or_given(spec), &dev));
        return dev;
    }
    snprintf(gpu, sizeof gpu, "cuda:1%s", timeout ? timeout : "");
    if (rank % 2 && !weir_device_open(gpu, &dev))
        return dev;
    snprintf(gpu, sizeof gpu, "%s%s", spec_or_given(spec), timeout ? timeout : "");
    CHECK_OK(weir_device_open(gpu, &dev));
    return dev;
}

/* n devices of the spec and a group over them. */
static inline void world_open(struct world *w, int n, const char *spec,
                              const weir_group_options *options)
{
    w->n = n;
    for (int i = 0; i < n; i++)
        w->dev[i] = open_rank(spec, i);
    CHECK_OK(weir_group_create(w->dev, n, options, &w->group));
    for (int i = 0; i < n; i++)
        CHECK((w->rank[i] = weir_group_rank(w->group, i)));
}

static inline void world_close(struct world *w)
{
    for (int i = 0; i < w->n; i++)
        weir_device_sync(w->dev[i]); /* may be in error */
    CHECK_OK(weir_group_destroy(w->group));
    for (int i = 0; i < w->n; i++)
        CHECK_OK(weir_device_close(w->dev[i]));
}

static inline weir_tensor *tensor_of(weir_device *dev, weir_dtype dtype, int ndim,
                                     const int64_t *shape, const void *data)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), dtype, ndim, shape, data, &t));
    return t;
}

/* n floats: first, first + step, ... */
static inline weir_tensor *ramp(weir_device *dev, int64_t n, double first, double step)
{
    float *data = malloc((size_t)(n + 1) * sizeof *data);
    weir_tensor *t;

    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(first + step * (double)i);
    t = tensor_of(dev, WEIR_F32, 1, &n, data);
    free(data);
    return t;
}

static inline float first_of(weir_tensor *t)
{
    size_t bytes = (size_t)weir_tensor_numel(t) * sizeof(float);
    float *data = malloc(bytes), first;

    CHECK_OK(weir_tensor_read(t, data, bytes));
    first = data[0];
    free(data);
    return first;
}

static inline void pass_by(void *user, weir_status status)
{
    (void)user;
    (void)status;
}

/* Work queued on a stream of its own is over: threads have looked at what was queued before. */
static inline void let_others_pass(weir_device *dev)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    for (int i = 0; i < 100; i++)
        CHECK_OK(weir_stream_callback(s, pass_by, NULL));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_destroy(s));
}

static inline void gate_callback(void *user, weir_status status)
{
    (void)status;
    gate_kernel(&user, NULL);
}

/* On a GPU, which runs no functions of the host, it is a callback. */
static inline void submit_gate(weir_stream *s, weir_engine engine, struct gate *g)
{
    if (is_gpu()) {
        CHECK_OK(weir_stream_callback(s, gate_callback, g));
        return;
    }
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "gate",
                                                  .fn = gate_kernel,
                                                  .args = &g,
                                                  .args_size = sizeof g,
                                                  .engine = engine}));
}

static inline void wait_gate(struct gate *g, int arrived)
{
    while (atomic_load(&g->arrived) < arrived)
        pause_us(50);
}

/* What a stream that submit_failure was called for says. */
static inline weir_status failure_status(void)
{
    return is_gpu() ? WEIR_ERANGE : WEIR_EKERNEL;
}

static inline weir_status failing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_EKERNEL;
}

/* The operator `broken` fails on the stream; on a GPU it is IndexSelect. */
static inline void submit_failure(weir_stream *s)
{
    if (is_gpu()) {
        weir_device *dev = weir_stream_device(s);
        weir_stream *before = weir_stream_current(dev);
        weir_tensor *x, *index, *y;

        CHECK_OK(weir_stream_set_current(s));
        CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){1}, (float[]){1}, &x));
        CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, (int64_t[]){1}, (int64_t[]){7}, &index));
        CHECK_OK(weir_index_select(x, 0, index, &y));
        CHECK_OK(weir_stream_set_current(before));
        weir_tensor_release(x);
        weir_tensor_release(index);
        weir_tensor_release(y);
        return;
    }
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "broken", .fn = failing_kernel}));
}

/* A stream of its own, current from here on. */
static inline weir_stream *fresh_stream(weir_device *dev)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    CHECK_OK(weir_stream_wait_stream(s, weir_stream_default(dev)));
    CHECK_OK(weir_stream_set_current(s));
    return s;
}

#endif
