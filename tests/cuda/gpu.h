/* A GPU for a case: a real one if the machine has one, else the fake of fake/control.h. */
#ifndef TESTS_CUDA_GPU_H
#define TESTS_CUDA_GPU_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "fake/control.h"
#include "harness/test.h"
#include "tensor/tensor.h"
#include "weir/weir.h"

static inline const struct fake_control *find_fake(void)
{
    void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    const struct fake_control *control;

    if (!library)
        FAIL("%s", dlerror());
    control = dlsym(library, FAKE_CONTROL);
    CHECK(control != NULL);
    return control;
}

/* From here on the case's GPU is the fake. Before the first call of weir. */
static inline const struct fake_control *use_fake(void)
{
    setenv("WEIR_LIBCUDA", FAKE_CUDA, 1);
    setenv("WEIR_LIBNVRTC", FAKE_CUDA, 1);
    setenv("WEIR_LIBCUBLASLT", FAKE_CUDA, 1);
    setenv("WEIR_CACHE_DIR", "/dev/null/cache", 1); /* nothing is kept */
    return find_fake();
}

/* The fake if the case has asked for it, or there is no driver; else NULL. */
static inline const struct fake_control *choose_fake(void)
{
    const char *asked = getenv("WEIR_LIBCUDA");
    void *driver;

    if (asked && !strcmp(asked, FAKE_CUDA))
        return find_fake();
    if (!(driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)))
        return use_fake();
    dlclose(driver);
    return NULL;
}

/* Opens the device; *fake is NULL on a real GPU. */
static inline weir_device *open_either(const char *spec, const struct fake_control **fake)
{
    weir_device *dev;
    weir_status st;

    *fake = choose_fake();
    st = weir_device_open(spec, &dev);
    if (!*fake && st == WEIR_EUNAVAILABLE)
        SKIP("%s", weir_last_error());
    CHECK_OK(st);
    return dev;
}

static inline weir_device *open_gpu(const char *spec)
{
    const struct fake_control *fake;

    return open_either(spec, &fake);
}

static inline weir_tensor *gpu_tensor(weir_stream *s, weir_dtype dtype, int64_t n, double value)
{
    weir_tensor *t;
    weir_stream *before = weir_stream_current(weir_stream_device(s));

    CHECK_OK(weir_tensor_empty(s, dtype, 1, &n, &t));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(t, value));
    CHECK_OK(weir_stream_set_current(before));
    return t;
}

/* How often CUDA's function was called since the watch began. */
static inline int called(const struct fake_control *fake, const char *function)
{
    int n = 0;

    for (uint64_t i = 1; fake->watched(i); i++)
        n += !strcmp(fake->watched(i), function);
    return n;
}

/* A kernel source of the test's own on `s`, under the limits in force there. */
static inline weir_status gpu_submit(weir_stream *s, const struct weir__code *code,
                                     const char *name, const void *args, size_t size,
                                     weir_tensor *uses)
{
    struct weir__kernel k = {
        .name = name,
        .fn = (weir_kernel_fn)abort, /* never called: the device compiles */
        .code = code,
        .args = args,
        .args_size = (uint32_t)size,
        .engine = WEIR_ENGINE_VECTOR,
        .blocks = 1,
        .phases = 1,
    };
    weir_status st;

    weir__light_lock(&s->dev->lock);
    k.cores = weir__stream_cores(s, WEIR_ENGINE_VECTOR, (weir_cores){0, 0});
    st = weir__submit_using(s, &k, &uses->buffer, 1, false);
    weir__light_unlock(&s->dev->lock);
    return st;
}

#endif
