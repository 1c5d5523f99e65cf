/* Measures small graphs on a real device. */
#include "model/calibrate.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "graph/build/graph.h"

/* Runs are short and many, so that some are undisturbed even on a shared machine. */
enum { RUNS_LEAST = 5, RUNS_MOST = 200, WARM_UP = 2 };
#define LONGEST_US 5e4 /* time limit of all runs of a graph, after RUNS_LEAST runs */
#define SWEEP_US 6e3   /* the same for a graph of a sweep; there are many of these */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static bool goes_on(int run, double began, double longest)
{
    return run < WARM_UP + RUNS_LEAST || (run < WARM_UP + RUNS_MOST && now_us() - began < longest);
}

/* Returns how often the system has preempted a thread of this process. */
static long preemptions(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) ? 0 : u.ru_nivcsw;
}

/* ---- graphs ---- */

struct bench {
    weir_device *dev;
    weir_graph *graph;
    weir_plan *plan;
    weir_tensor **in, **out;
    size_t nin, nout;
};

static weir_status open_bench(struct bench *b, const struct calibration_graph *what,
                              weir_device *dev)
{
    weir_compile_options as_issued = {.mode = WEIR_COMPILE_REDUCE_OVERHEAD};
    weir_status st;

    *b = (struct bench){.dev = dev};
    if ((st = calibration_build(what, dev, &b->graph)) ||
        (st = weir_graph_compile(b->graph, &as_issued, &b->plan)))
        return st;
    b->nin = (size_t)b->graph->ninputs;
    b->nout = (size_t)b->graph->noutputs;
    b->in = calloc(b->nin + 1, sizeof *b->in);
    b->out = calloc(b->nout + 1, sizeof *b->out);
    if (!b->in || !b->out)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < b->nin && !st; i++) {
        const struct weir__view *v = &b->graph->values[b->graph->inputs[i]].view;
        bool real = v->dtype == WEIR_F32 || v->dtype == WEIR_F16 || v->dtype == WEIR_BF16 ||
                    v->dtype == WEIR_F64;

        if (!(st = weir_tensor_empty(weir_stream_default(dev), v->dtype, v->ndim, v->shape,
                                     &b->in[i])))
            st = weir_fill(b->in[i], real ? 1.0 / 256 : 0); /* no infinities, no subnormals */
    }
    return st ? st : weir_device_sync(dev);
}

static void close_bench(struct bench *b)
{
    for (size_t i = 0; b->in && i < b->nin; i++)
        if (b->in[i])
            weir_tensor_release(b->in[i]);
    for (size_t i = 0; b->out && i < b->nout; i++)
        if (b->out[i])
            weir_tensor_release(b->out[i]);
    free(b->in);
    free(b->out);
    weir_plan_destroy(b->plan);
    weir_graph_destroy(b->graph);
}

static weir_status run_once(struct bench *b, double *us, bool *disturbed)
{
    long before = preemptions();
    double start = now_us();
    weir_status st =
        weir_plan_run(b->plan, weir_stream_default(b->dev), b->in, b->nin, b->out, b->nout);

    if (!st)
        st = weir_device_sync(b->dev);
    *us = now_us() - start;
    *disturbed = preemptions() != before;
    return st;
}

weir_status calibration_time(const struct calibration_graph *what, weir_device *dev,
                             struct calibration_runs *runs, double *us)
{
    double longest = what->body == BODY_SWEEP ? SWEEP_US : LONGEST_US;
    double began = now_us(), best[2] = {0, 0};
    struct bench b;
    weir_status st = open_bench(&b, what, dev);

    for (int i = 0; goes_on(i, began, longest) && !st; i++) {
        bool disturbed;
        double took;

        if ((st = run_once(&b, &took, &disturbed)) || i < WARM_UP)
            continue;
        runs->all++;
        runs->disturbed += disturbed;
        if (best[disturbed] <= 0 || took < best[disturbed])
            best[disturbed] = took;
    }
    *us = best[0] > 0 ? best[0] : best[1];
    close_bench(&b);
    return st;
}

/* ---- single operators ---- */

/* Negates a matrix `n` times and waits. Sets *us to the time of one in the shortest of a few
 * runs. */
static weir_status time_negations(weir_device *dev, int64_t side, int n, int cores, double *us)
{
    const int64_t shape[2] = {side, side};
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *a, *out;
    bool pushed = false;
    double began = now_us();
    weir_status st;

    *us = 0;
    if ((st = weir_tensor_empty(s, WEIR_F32, 2, shape, &a)))
        return st;
    if ((st = weir_tensor_empty(s, WEIR_F32, 2, shape, &out))) {
        weir_tensor_release(a);
        return st;
    }
    if (!(st = weir_fill(a, 1)) && cores)
        pushed = !(st = weir_scope_push_cores((weir_cores){cores, cores}));
    for (int run = 0; goes_on(run, began, LONGEST_US) && !st; run++) {
        double start = now_us(), took;

        for (int i = 0; i < n && !st; i++)
            st = weir_neg_into(a, out);
        if (!st)
            st = weir_device_sync(dev);
        took = (now_us() - start) / n;
        if (run == WARM_UP || (run > WARM_UP && took < *us))
            *us = took;
    }
    if (pushed && weir_scope_pop(WEIR_SCOPE_CORES) && !st)
        st = WEIR_ESTATE;
    weir_tensor_release(a);
    weir_tensor_release(out);
    return st;
}

weir_status calibration_time_eager(weir_device *dev, int n, double *us)
{
    return time_negations(dev, 1, n, 0, us);
}

weir_status calibration_bandwidth(weir_device *dev, int cores, double *gb_s)
{
    const int64_t side = 2048; /* reads 16 MiB and writes 16 MiB */
    double us = 0;
    weir_status st = time_negations(dev, side, 1, cores, &us);

    *gb_s = us > 0 ? 2.0 * (double)(side * side) * 4 / us / 1e3 : 0;
    return st;
}
