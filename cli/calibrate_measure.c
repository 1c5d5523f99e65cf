/* What a real device takes for small graphs, through the public API alone. */
#include "calibrate.h"

#include <time.h>

/* Runs are short and many, so that on a machine that others use some are undisturbed. */
enum { RUNS_LEAST = 9, RUNS_MOST = 100, WARM_UP = 2 };
#define LONGEST_US 1e5 /* of all runs, once there are enough */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static bool goes_on(int run, double began)
{
    return run < WARM_UP + RUNS_LEAST ||
           (run < WARM_UP + RUNS_MOST && now_us() - began < LONGEST_US);
}

/* ---- graphs ---- */

/* *y becomes op(*y, w). The caller's handle is given up. */
static weir_status advance(enum calibration_body body, int i, weir_tensor *w, weir_tensor **y)
{
    weir_tensor *next = NULL;
    weir_status st;

    switch (body) {
    case BODY_MATMUL:
    case BODY_MATMUL_2:
        st = weir_matmul(*y, w, &next);
        break;
    case BODY_GELU:
        st = weir_gelu(*y, &next);
        break;
    case BODY_LAYERS:
        st = i % 4 == 1   ? weir_gelu(*y, &next)
             : i % 4 == 3 ? weir_add(*y, w, &next)
                          : weir_matmul(*y, w, &next);
        break;
    default:
        st = weir_neg(*y, &next);
        break;
    }
    weir_tensor_release(*y);
    *y = next;
    return st;
}

/* A chain from x on stream `tag`; NULL for the caller's. */
static weir_status chain(const struct calibration_graph *what, enum calibration_body body,
                         const char *tag, int nodes, weir_tensor *x, weir_tensor *w,
                         weir_tensor **y)
{
    static const char *const hops[] = {"calibrate:1", "calibrate:2"};
    weir_status st = WEIR_OK;

    *y = weir_tensor_retain(x);
    for (int i = 0; i < nodes && !st; i++) {
        const char *on = what->body == BODY_HOPS ? hops[i % 2] : tag;

        if (on && (st = weir_scope_push_stream(on, 0)))
            break;
        st = advance(body, i, w, y);
        if (on && weir_scope_pop(WEIR_SCOPE_STREAM) && !st)
            st = WEIR_ESTATE;
    }
    return st;
}

static weir_status capture(const struct calibration_graph *what, weir_tensor *x, weir_tensor *w,
                           weir_tensor **y, weir_tensor **z)
{
    bool two = what->body == BODY_MATMUL_2 || what->body == BODY_MIXED;
    enum calibration_body first = what->body == BODY_MIXED ? BODY_MATMUL : what->body;
    enum calibration_body second = what->body == BODY_MIXED ? BODY_GELU : what->body;
    weir_status st;

    if (what->cores && (st = weir_scope_push_cores((weir_cores){what->cores, what->cores})))
        return st;
    st = chain(what, first, two ? "calibrate:1" : NULL, two ? what->nodes / 2 : what->nodes, x, w,
               y);
    if (!st && two)
        st = chain(what, second, "calibrate:2", what->nodes / 2, x, w, z);
    if (what->cores && weir_scope_pop(WEIR_SCOPE_CORES) && !st)
        st = WEIR_ESTATE;
    return st;
}

weir_status calibration_build(const struct calibration_graph *what, weir_device *dev,
                              weir_graph **out)
{
    const int64_t shape[2] = {what->n, what->n};
    weir_tensor *x = NULL, *w = NULL, *y = NULL, *z = NULL;
    weir_graph *g;
    weir_status st;

    *out = NULL;
    if ((st = weir_graph_create(dev, &g)))
        return st;
    if (!(st = weir_graph_input(g, "x", what->dtype, 2, shape, &x)) &&
        !(st = weir_graph_input(g, "w", what->dtype, 2, shape, &w)) &&
        !(st = weir_graph_begin(g))) {
        weir_status ended;

        st = capture(what, x, w, &y, &z);
        ended = weir_graph_end(g);
        st = st ? st : ended;
    }
    if (!st)
        st = weir_graph_output(g, "y", y);
    if (!st && z)
        st = weir_graph_output(g, "z", z);
    weir_tensor *const made[] = {x, w, y, z};

    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (made[i])
            weir_tensor_release(made[i]);
    if (st)
        weir_graph_destroy(g);
    else
        *out = g;
    return st;
}

static weir_status run_plan(weir_plan *plan, weir_device *dev, weir_tensor *const *in,
                            weir_tensor **out, size_t nout, double *us)
{
    double start = now_us();
    weir_status st = weir_plan_run(plan, weir_stream_default(dev), in, 2, out, nout);

    if (!st)
        st = weir_device_sync(dev);
    *us = now_us() - start;
    return st;
}

weir_status calibration_time(const struct calibration_graph *what, weir_device *dev, double *us)
{
    weir_compile_options as_issued = {.mode = "reduce-overhead"};
    const int64_t shape[2] = {what->n, what->n};
    weir_tensor *in[2] = {NULL, NULL}, *out[2] = {NULL, NULL};
    weir_graph *g;
    weir_plan *plan = NULL;
    weir_status st = calibration_build(what, dev, &g);
    double start = now_us();

    *us = 0;
    if (st)
        return st;
    st = weir_graph_compile(g, &as_issued, &plan);
    for (int i = 0; i < 2 && !st; i++)
        if (!(st = weir_tensor_empty(weir_stream_default(dev), what->dtype, 2, shape, &in[i])))
            st = weir_fill(in[i], 1.0 / (double)what->n);
    for (int i = 0; goes_on(i, start) && !st; i++) {
        double took;

        st = run_plan(plan, dev, in, out, weir_graph_output_count(g), &took);
        if (i == WARM_UP || (i > WARM_UP && took < *us))
            *us = took;
    }
    for (int i = 0; i < 2; i++) {
        if (in[i])
            weir_tensor_release(in[i]);
        if (out[i])
            weir_tensor_release(out[i]);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    return st;
}

/* ---- operators by themselves ---- */

/* Negates a matrix `n` times and waits; the shortest of a few such runs, of each. */
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
    for (int run = 0; goes_on(run, began) && !st; run++) {
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
    const int64_t side = 2048; /* 16 MiB each way */
    double us = 0;
    weir_status st = time_negations(dev, side, 1, cores, &us);

    *gb_s = us > 0 ? 2.0 * (double)(side * side) * 4 / us / 1e3 : 0;
    return st;
}
