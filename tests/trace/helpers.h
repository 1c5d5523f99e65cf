/* Common code of the tests of traces. */
#ifndef TESTS_TRACE_HELPERS_H
#define TESTS_TRACE_HELPERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/test.h"
#include "weir/weir.h"

static inline weir_device *open_device(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

static inline weir_stream *tagged(weir_device *dev, const char *tag, int priority)
{
    weir_stream *s;

    CHECK_OK(weir_stream_tagged(dev, tag, priority, &s));
    return s;
}

/* A kernel that takes its time. */
static inline weir_status busy_kernel(const void *args, const weir_block *block)
{
    long us = *(const long *)args;

    (void)block;
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
    return WEIR_OK;
}

static inline void submit_busy(weir_stream *s, const char *name, unsigned blocks, long us)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = name,
                                                  .fn = busy_kernel,
                                                  .args = &us,
                                                  .args_size = sizeof us,
                                                  .blocks = blocks}));
}

/* Kernels that do nothing, quickly. */
static inline void submit_empty(weir_stream *s, const char *name, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = name}));
}

static inline weir_trace *stop_trace(weir_trace_data *data)
{
    weir_trace *t;

    CHECK_OK(weir_trace_stop(&t));
    weir_trace_get(t, data, sizeof *data);
    return t;
}

/* The n-th operator of that name. */
static inline const weir_trace_op *find_op(const weir_trace_data *d, const char *name, int n)
{
    for (size_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].name, name) && !n--)
            return &d->ops[i];
    FAIL("no operator '%s' in the trace of %zu", name, d->nops);
}

/* The whole file, with a zero behind it; free() it. */
static inline char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *text;

    CHECK(f);
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    CHECK((text = calloc(1, *size + 1)));
    CHECK_EQ(fread(text, 1, *size, f), *size);
    fclose(f);
    return text;
}

/* What holds in every trace. */
void check_trace(const weir_trace_data *d);

#endif
