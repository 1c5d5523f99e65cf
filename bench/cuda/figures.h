/* Measuring for figures.c, and the bare driver. */
#ifndef BENCH_CUDA_FIGURES_H
#define BENCH_CUDA_FIGURES_H

#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "weir/weir.h"

enum { ROUNDS = 11, ROUNDS_ONCE = 41 };

static inline void check(weir_status st)
{
    if (st) {
        fprintf(stderr, "%s: %s\n", weir_status_name(st), weir_last_error());
        exit(1);
    }
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline void print_figure(const char *work, const char *subject, const char *unit,
                                double *rounds, int n)
{
    qsort(rounds, (size_t)n, sizeof *rounds, by_value);
    printf("%-24s %-44s %10.3f %s\n", work, subject, rounds[n / 2], unit);
    fflush(stdout);
}

/* The host's time for `n` calls. It does not include the wait after them. */
#define MEASURE(work, subject, unit, n, body, sync)                        \
    do {                                                                   \
        double rounds_[ROUNDS];                                            \
        for (int r_ = 0; r_ < ROUNDS; r_++) {                              \
            uint64_t began_;                                               \
            (void)(sync);                                                  \
            began_ = weir__clock_ns();                                     \
            body;                                                          \
            rounds_[r_] = (double)(weir__clock_ns() - began_) / 1e3 / (n); \
            (void)(sync);                                                  \
        }                                                                  \
        print_figure(work, subject, unit, rounds_, ROUNDS);                \
    } while (0)

/* The time of one call and its wait, divided by the number of operators in the call. */
#define IN_ROUNDS(count, work, subject, unit, n, body, sync)               \
    do {                                                                   \
        double rounds_[count];                                             \
        for (int r_ = 0; r_ < (count); r_++) {                             \
            uint64_t began_;                                               \
            (void)(sync);                                                  \
            began_ = weir__clock_ns();                                     \
            body;                                                          \
            (void)(sync);                                                  \
            rounds_[r_] = (double)(weir__clock_ns() - began_) / 1e3 / (n); \
        }                                                                  \
        print_figure(work, subject, unit, rounds_, count);                 \
    } while (0)
#define END_TO_END(...) IN_ROUNDS(ROUNDS, __VA_ARGS__)

/* The same for a single call. The GPU's clock frequency differs nearly every time. */
#define ONCE(work, subject, body, sync) IN_ROUNDS(ROUNDS_ONCE, work, subject, "us", 1, body, sync)

/* `times` calls queued in a row and waited for at the end. */
#define THROUGHPUT(work, subject, unit, times, body, sync) \
    END_TO_END(work, subject, unit, times, for (int i_ = 0; i_ < (times); i_++) body, sync)

struct bare {
    const struct weir__cuda_api *api;
    weir__cu_context context;
    weir__cu_stream stream[2];
    weir__cu_event event[2];
    weir__cu_function empty, add;
};

/* limits.c, moe.c, kernels.c and chains.c */
void limits(struct bare *b, weir_device *dev);
void power(weir_device *dev);
void moe_layer(weir_device *dev);
/* A run without limits and one with, as text and as a page. */
void moe_trace(weir_device *dev, const char *path);
void operators(weir_device *dev);
void chains(weir_device *dev);

static inline void bare_check(weir__cu_result r)
{
    if (r) {
        fprintf(stderr, "the driver: %s\n", weir__cuda_error(r).text);
        exit(1);
    }
}

static inline int bare_sync(struct bare *b)
{
    return b->api->cu.context_sync();
}

static inline void bare_open(struct bare *b, weir_device *dev)
{
    static const char text[] =
        "extern \"C\" __global__ void empty() {}\n"
        "extern \"C\" __global__ void add(const float4 *x, float4 *y)\n"
        "{ float4 a = x[0], b = x[0]; y[0] = make_float4(a.x+b.x, a.y+b.y, a.z+b.z, a.w+b.w); }";
    const char *options[] = {"--gpu-architecture=sm_90"};
    weir__cu_module module;
    void *program;
    char *image;
    size_t size;

    b->api = weir__cuda_api_get();
    b->context = weir__cuda_of(dev)->gpu.context;
    bare_check(b->api->cu.context_push(b->context));
    bare_check(b->api->nvrtc.create(&program, text, "empty", 0, NULL, NULL));
    bare_check(b->api->nvrtc.compile(program, 1, options));
    bare_check(b->api->nvrtc.cubin_size(program, &size));
    image = malloc(size);
    bare_check(b->api->nvrtc.cubin(program, image));
    bare_check(b->api->cu.module_load(&module, image));
    bare_check(b->api->cu.module_function(&b->empty, module, "empty"));
    bare_check(b->api->cu.module_function(&b->add, module, "add"));
    free(image);
    for (int i = 0; i < 2; i++) {
        bare_check(b->api->cu.stream_create(&b->stream[i], CU_STREAM_NON_BLOCKING, 0));
        bare_check(b->api->cu.event_create(&b->event[i], CU_EVENT_DISABLE_TIMING));
    }
}

static inline weir_tensor *random_matrix(weir_stream *s, weir_dtype dtype, int64_t rows,
                                         int64_t cols)
{
    weir_tensor *t;

    check(weir_tensor_empty(s, dtype, 2, (int64_t[]){rows, cols}, &t));
    check(weir_random_normal(t, (uint64_t)(rows * 31 + cols), 0, 0.02));
    return t;
}

#endif
