/* Measures AscendCL's calls and weir's own: both phases of aclnnAdd on 4 elements and weir_add; a
 * captured graph of 1000 nodes and the plan of the same operators.
 *
 *     bench_cann [ROUNDS]
 *
 * The two take turns. It prints medians of the wall time and of the instructions that the calling
 * thread executes. The number of instructions is the same on a busy machine. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_ops.h"
#include "cann.h"

enum { CALLS = 2000, BATCH = 64, NODES = 1000, RUNS = 20, MOST = 1000 };

#define TRY(call)                                                                   \
    do {                                                                            \
        int error_ = (int)(call);                                                   \
        if (error_) {                                                               \
            fprintf(stderr, "%s: %d: %s %s\n", #call, error_, aclGetRecentErrMsg(), \
                    weir_last_error());                                             \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

struct bench {
    int counter; /* of instructions; -1: the machine tells none */
    weir_stream *stream;
    aclrtStream handle;
    int64_t n;
    float *memory[3];
    aclTensor *tensor[3];
    aclScalar *one;
    weir_tensor *x, *y;
    aclmdlRI graph;
    weir_plan *plan;
};

static double wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double instructions(const struct bench *b)
{
    long long value = 0;

    return b->counter >= 0 && read(b->counter, &value, sizeof value) == sizeof value ? (double)value
                                                                                     : 0;
}

static void acl_add(struct bench *b)
{
    aclOpExecutor *executor;
    uint64_t bytes;

    TRY(aclnnAddGetWorkspaceSize(b->tensor[0], b->tensor[1], b->one, b->tensor[2], &bytes,
                                 &executor));
    TRY(aclnnAdd(NULL, bytes, executor, b->handle));
}

static void adds_by_acl(struct bench *b)
{
    for (int i = 0; i < CALLS; i++) {
        acl_add(b);
        if (i % BATCH == BATCH - 1)
            TRY(aclrtSynchronizeStream(b->handle));
    }
    TRY(aclrtSynchronizeStream(b->handle));
}

static void adds_by_weir(struct bench *b)
{
    for (int i = 0; i < CALLS; i++) {
        weir_tensor *z;

        TRY(weir_add(b->x, b->y, &z));
        weir_tensor_release(z);
        if (i % BATCH == BATCH - 1)
            TRY(weir_stream_sync(b->stream));
    }
    TRY(weir_stream_sync(b->stream));
}

static void runs_by_acl(struct bench *b)
{
    for (int i = 0; i < RUNS; i++) {
        TRY(aclmdlRIExecuteAsync(b->graph, b->handle));
        TRY(aclrtSynchronizeStream(b->handle));
    }
}

static void runs_by_weir(struct bench *b)
{
    for (int i = 0; i < RUNS; i++) {
        TRY(weir_plan_run(b->plan, b->stream, NULL, 0, NULL, 0));
        TRY(weir_stream_sync(b->stream));
    }
}

static void prepare(struct bench *b)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .exclude_kernel = 1};
    weir_compile_options options = {.size = sizeof options, .mode = WEIR_COMPILE_REDUCE_OVERHEAD};
    float unit = 1, zeros[4] = {0};
    weir_graph *graph;
    weir_device *dev;

    b->counter = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    b->n = 4;
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&b->handle));
    TRY(weir_cann_stream(b->handle, &b->stream));
    dev = weir_stream_device(b->stream);
    b->one = aclCreateScalar(&unit, ACL_FLOAT);
    for (int i = 0; i < 3; i++) {
        TRY(aclrtMalloc((void **)&b->memory[i], sizeof zeros, ACL_MEM_MALLOC_HUGE_FIRST));
        TRY(aclrtMemset(b->memory[i], sizeof zeros, 0, sizeof zeros));
        b->tensor[i] =
            aclCreateTensor(&b->n, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &b->n, 1, b->memory[i]);
    }
    TRY(weir_stream_set_current(b->stream));
    TRY(weir_tensor_from(b->stream, WEIR_F32, 1, &b->n, zeros, &b->x));
    TRY(weir_tensor_from(b->stream, WEIR_F32, 1, &b->n, zeros, &b->y));
    TRY(aclmdlRICaptureBegin(b->handle, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < NODES; i++)
        acl_add(b);
    TRY(aclmdlRICaptureEnd(b->handle, &b->graph));
    TRY(weir_graph_create(dev, &graph));
    TRY(weir_graph_begin(graph));
    for (int i = 0; i < NODES; i++) {
        weir_tensor *v[3];

        for (int k = 0; k < 3; k++)
            TRY(weir_cann_tensor(b->memory[k], WEIR_F32, 1, &b->n, NULL, &v[k]));
        TRY(weir_add_into(v[0], v[1], v[2]));
        for (int k = 0; k < 3; k++)
            weir_tensor_release(v[k]);
    }
    TRY(weir_graph_end(graph));
    TRY(weir_graph_compile(graph, &options, &b->plan));
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

static void compare(struct bench *b, const char *what, int count, const char *names[2],
                    void (*run[2])(struct bench *), int rounds)
{
    static double ns[2][MOST], done[2][MOST];
    double time[2], work[2];

    for (int i = -1; i < rounds; i++) /* the first of each warms up */
        for (int k = 0; k < 2; k++) {
            double from = wall_ns(), before = instructions(b);

            run[k](b);
            if (i >= 0) {
                done[k][i] = (instructions(b) - before) / count;
                ns[k][i] = (wall_ns() - from) / count;
            }
        }
    for (int k = 0; k < 2; k++) {
        time[k] = median(ns[k], rounds);
        work[k] = median(done[k], rounds);
        printf("%-30s %-22s %10.1f ns", what, names[k], time[k]);
        if (b->counter >= 0)
            printf(" %10.0f instructions", work[k]);
        printf("\n");
    }
    printf("%-30s %-22s %10.2f   ", what, "ratio", time[0] / time[1]);
    if (b->counter >= 0)
        printf(" %10.2f", work[0] / work[1]);
    printf("\n");
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 31;
    struct bench b = {0};

    if (rounds < 1 || rounds > MOST) {
        fprintf(stderr, "bench_cann [ROUNDS]: 1 to %d\n", MOST);
        return 2;
    }
    prepare(&b);
    if (b.counter < 0)
        printf("this machine counts no instructions\n");
    compare(&b, "add of 4 elements", CALLS, (const char *[]){"aclnnAdd, both phases", "weir_add"},
            (void (*[])(struct bench *)){adds_by_acl, adds_by_weir}, rounds);
    compare(&b, "node of a graph of 1000", RUNS * NODES,
            (const char *[]){"aclmdlRIExecuteAsync", "weir_plan_run"},
            (void (*[])(struct bench *)){runs_by_acl, runs_by_weir}, rounds);
    return 0;
}
