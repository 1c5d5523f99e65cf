/* PoCL through the OpenCL ICD: command queues and events on its CPU device.
 * Native kernels, plain C functions, are the cheapest commands it has. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include "gemm.h"

#include <CL/cl.h>
#include <stdio.h>
#include <string.h>

enum {
    CHAIN = 5000,
    HOPS = 2000,
    FORKS = 100,
    FORK_WIDTH = 8,
    WAITS = 200,
    MAX_PLATFORMS = 16,
};

static cl_command_queue queues[FORK_WIDTH];

static void check(cl_int error, const char *what)
{
    if (!error)
        return;
    fprintf(stderr, "peer_pocl: %s: OpenCL error %d\n", what, error);
    exit(1);
}

/* The CPU device of the platform that calls itself Portable Computing Language. */
static cl_device_id find_pocl(void)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint count = 0;

    if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &count))
        return NULL;
    for (cl_uint i = 0; i < count && i < MAX_PLATFORMS; i++) {
        cl_device_id device = NULL;
        char name[128] = "";

        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
        if (strstr(name, "Portable") &&
            !clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL))
            return device;
    }
    return NULL;
}

static bool start(const struct bench *b)
{
    cl_device_id device = find_pocl();
    cl_context context;
    cl_int error;

    if (!device) {
        bench_skip(b, "no PoCL CPU device");
        return false;
    }
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    for (int i = 0; i < FORK_WIDTH; i++) {
        queues[i] = clCreateCommandQueue(context, device, 0, &error);
        check(error, "clCreateCommandQueue");
    }
    return true;
}

static void CL_CALLBACK empty(void *args)
{
    (void)args;
}

/* `after` and `event` may be NULL. */
static void enqueue(cl_command_queue queue, void(CL_CALLBACK *fn)(void *), void *arg,
                    const cl_event *after, cl_event *event)
{
    check(clEnqueueNativeKernel(queue, fn, &arg, sizeof arg, 0, NULL, NULL, after ? 1 : 0, after,
                                event),
          "clEnqueueNativeKernel");
}

static double chain_once(void *ctx)
{
    double begin = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < CHAIN; i++)
        enqueue(queues[0], empty, NULL, NULL, NULL);
    check(clFinish(queues[0]), "clFinish");
    return (bench_now_ns() - begin) / CHAIN;
}

static double hops_once(void *ctx)
{
    static cl_event events[HOPS];
    double begin = bench_now_ns(), took;

    (void)ctx;
    for (int i = 0; i < HOPS; i++) {
        enqueue(queues[i & 1], empty, NULL, i ? &events[i - 1] : NULL, &events[i]);
        clFlush(queues[i & 1]);
    }
    check(clFinish(queues[(HOPS - 1) & 1]), "clFinish");
    took = (bench_now_ns() - begin) / HOPS;
    for (int i = 0; i < HOPS; i++)
        clReleaseEvent(events[i]);
    return took;
}

static double forks_once(void *ctx)
{
    double begin = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < FORKS; i++) {
        cl_event events[FORK_WIDTH];

        for (int j = 0; j < FORK_WIDTH; j++) {
            enqueue(queues[j], empty, NULL, NULL, &events[j]);
            clFlush(queues[j]);
        }
        check(clWaitForEvents(FORK_WIDTH, events), "clWaitForEvents");
        for (int j = 0; j < FORK_WIDTH; j++)
            clReleaseEvent(events[j]);
    }
    return (bench_now_ns() - begin) / FORKS;
}

static double waits_once(void *ctx)
{
    double begin = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < WAITS; i++) {
        enqueue(queues[0], empty, NULL, NULL, NULL);
        check(clFinish(queues[0]), "clFinish");
    }
    return (bench_now_ns() - begin) / WAITS;
}

static void chain(struct bench *b)
{
    if (start(b))
        bench_sample(b, "PoCL", "ns", 3, chain_once, NULL);
}

static void pingpong(struct bench *b)
{
    if (start(b))
        bench_sample(b, "PoCL", "ns", 3, hops_once, NULL);
}

static void fork_join(struct bench *b)
{
    if (start(b))
        bench_sample(b, "PoCL", "ns", 3, forks_once, NULL);
}

static void submit_wait(struct bench *b)
{
    if (start(b))
        bench_sample(b, "PoCL", "ns", 3, waits_once, NULL);
}

#ifdef PEER_OPENBLAS
static void CL_CALLBACK run_gemm(void *args)
{
    gemm_run(*(struct gemm **)args);
}

static double chains(void *ctx, int count)
{
    struct gemm *work = ctx;
    double begin = bench_now_ns();

    for (int i = 0; i < 2 * GEMM_CHAIN; i++) {
        cl_command_queue queue = queues[count == 1 ? 0 : i & 1];

        enqueue(queue, run_gemm, &work[i & 1], NULL, NULL);
        clFlush(queue);
    }
    for (int i = 0; i < count; i++)
        check(clFinish(queues[i]), "clFinish");
    return bench_now_ns() - begin;
}

static void overlap(struct bench *b)
{
    struct gemm work[2] = {gemm_make(), gemm_make()};

    if (start(b))
        gemm_overlap(b, "PoCL", chains, work);
}
#endif

static void idle(struct bench *b)
{
    if (!start(b))
        return;
    chain_once(NULL);
    bench_idle_share(b, "PoCL");
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        {"chain", 2, chain},
        {"pingpong", 2, pingpong},
        {"fork_join_8", 2, fork_join},
        {"submit_wait", 2, submit_wait},
#ifdef PEER_OPENBLAS
        {"overlap_matmul", 2, overlap},
#endif
        {"idle_cpu", 1, idle},
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
