/* Derives a profile from measurements: its figures make the model take the measured times. */
#include "commands.h"
#include "model/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "graph/predict/predict.h"

const weir_dtype calibration_types[CALIBRATION_TYPES] = {WEIR_F16, WEIR_F32, WEIR_BF16};

/* Rates are measured per second, so the clock only converts them. It is low because a profile
 * cannot express less than one flop per cycle. */
#define CLOCK_MHZ 100.0

static double per_cycle(double gflops)
{
    return fmax(1, 1e3 * gflops / CLOCK_MHZ);
}

/* Returns the factor from flops in the sweeps' type to flops in f16 that take the same time. */
static double in_halves(const struct calibration *c)
{
    double base = c->ratio[c->base];

    return c->ratio[0] > 0 && base > 0 ? c->ratio[0] / base : 1;
}

/* Returns the rate of a type relative to that of f16. */
static double ratio(const struct calibration *c, int type)
{
    return c->ratio[type] > 0 && c->ratio[0] > 0
               ? fmin(1000, fmax(0.001, c->ratio[type] / c->ratio[0]))
               : 1;
}

/* Returns rate / other, at most 1. */
static double share_of(double rate, double other)
{
    return rate > 0 && other > rate ? fmax(0.01, rate / other) : 1;
}

/* Returns the rate of f16, or that of f32 if there are no f16 kernels. */
static double matrix_rate(const struct calibration *c)
{
    return c->matrix_gflops[0] > 0 ? c->matrix_gflops[0] : c->matrix_gflops[1];
}

static void write_curve(FILE *f, const struct calibration *c, int sweep, bool beside)
{
    static const struct {
        const char *key, *source;
    } rows[CALIBRATION_SWEEPS] = {
        [SWEEP_MEMORY] = {"hbm_curve", "neg, f32"},
        [SWEEP_ROWS] = {"row_curve", "softmax, f16"},
        [SWEEP_WEIGHTS] = {"weight_curve", "matmul of 16 rows, f16"},
        [SWEEP_PRODUCTS] = {"cube_curve", "square matmul, f16"},
        [SWEEP_DEPTH] = {"depth_curve", "matmul of 256 rows and 512 columns, f16"},
        [SWEEP_ATTENTION] = {"mix_curve", "attention of 16 heads, f16"},
        [SWEEP_VECTOR] = {"vector_curve", "gelu, f32"},
    };
    bool of_memory = sweep == SWEEP_MEMORY || sweep == SWEEP_ROWS || sweep == SWEEP_WEIGHTS;
    struct weir__curve curve;

    calibration_curve(
        c, sweep, sweep == SWEEP_DEPTH ? 1 : calibration_peak(c, of_memory ? SWEEP_MEMORY : sweep),
        beside, &curve);
    if (!curve.n)
        return;
    for (int i = 0; i < curve.n && (sweep == SWEEP_PRODUCTS || sweep == SWEEP_ATTENTION); i++)
        curve.x[i] *= in_halves(c);
    fprintf(f, "%s%s ", rows[sweep].key, beside ? "_beside" : "");
    for (int i = 0; i < curve.n; i++)
        fprintf(f, "%s%.9g:%.9g", i ? "," : "", curve.x[i], curve.y[i]);
    fprintf(f, " # measured: %s, %s\n", rows[sweep].source,
            beside ? "four streams" : "one after the other");
}

/* Converts the flops per microsecond of all cores to the gigaflops per second of one. */
static double of_core(const struct calibration *c, double flops_us)
{
    return flops_us / 1e3 / c->cores;
}

static weir_status write_profile(FILE *f, const void *user)
{
    const struct calibration *c = user;
    double bandwidth = calibration_peak(c, SWEEP_MEMORY);
    double vector_peak = calibration_peak(c, SWEEP_VECTOR);
    double matrix_peak = in_halves(c) * calibration_peak(c, SWEEP_PRODUCTS);
    double mix_peak = in_halves(c) * calibration_peak(c, SWEEP_ATTENTION);
    bool curves = c->sweeps[SWEEP_MEMORY].n > 0;
    double gb_s = curves ? bandwidth / 1e3 : fmax(c->memory_gb_s, c->core_gb_s);

    fprintf(f, "# Measured by `weir calibrate`. Links and limits of streams are inherited;\n"
               "# they have no meaning for a single device.\n");
    fprintf(f, "inherits 910b1\nname calibrated # %.40s\n", c->device);

    const struct {
        const char *key;
        double value;
        const char *source;
    } rows[] = {
        {"cube_cores", c->cores, "the device"},
        {"vector_cores", c->cores, "the device"},
        {"shared_cores", 1, "matrix and vector operators run on the same cores"},
        {"host_cores", 1, "the host thread"},
        {"sdma_channels", 1, "copies run one at a time"},
        {"clock_mhz", CLOCK_MHZ, "a unit: rates are measured per second"},
        {"cube_flop_per_cycle",
         per_cycle(curves ? fmax(of_core(c, matrix_peak), of_core(c, mix_peak)) : matrix_rate(c)),
         "measured: matmul, f16"},
        {"cube_f32_ratio", ratio(c, 1), "measured: matmul, f32"},
        {"cube_bf16_ratio", ratio(c, 2), "measured: matmul, bf16"},
        {"cube_hf32_ratio", ratio(c, 1), "as f32"},
        {"cube_f64_ratio", ratio(c, 1) / 2, "half of f32"},
        {"cube_i32_ratio", ratio(c, 1), "as f32"},
        {"cube_i8_ratio", ratio(c, 1), "as f32"},
        {"cube_f8_ratio", 1, "as f16"},
        {"vector_flop_per_cycle", per_cycle(curves ? of_core(c, vector_peak) : c->vector_gflops),
         "measured: gelu, f32"},
        {"vector_f32_ratio", 1, "the rate is measured in f32"},
        {"vector_f64_ratio", 0.5, "half of f32"},
        {"cube_efficiency", share_of(matrix_peak, mix_peak), "measured: products"},
        {"cube_fill_k", 0, "rates are measured"},
        {"mix_efficiency", share_of(mix_peak, matrix_peak), "measured: attention"},
        {"cube_head_us", 0, "part of the launch"},
        {"vector_head_us", 0, "part of the launch"},
        {"vector_efficiency", 1, "rates are measured"},
        {"hbm_gib", c->memory_gib, "the device"},
        {"hbm_gb_s", gb_s, "measured: all cores"},
        {"hbm_efficiency", 1, "bandwidth is measured"},
        {"core_gb_s", fmax(c->core_gb_s, gb_s / c->cores), "measured: one core"},
        {"l2_gb_s", 1e6, "without limit: caches are part of the rates"},
        {"sdma_gb_s", c->core_gb_s, "as one core"},
        {"launch_cube_us", c->launch_us, "measured: operators issued one by one"},
        {"launch_vector_us", c->launch_us, "measured: operators issued one by one"},
        {"launch_comm_us", c->launch_us, "as the others"},
        {"launch_host_us", c->launch_us, "as the others"},
        {"graph_launch_us", curves ? 0 : c->graph_launch_us,
         curves ? "part of the curves" : "measured: a chain of small operators"},
        {"graph_dispatch_us", c->dispatch_us, "measured: a graph of one small operator"},
        {"graph_stream_us", c->stream_us, "measured: small operators on four streams"},
        {"event_record_us", c->event_us / 2, "measured: half of a hop between streams"},
        {"event_wait_us", c->event_us / 2, "measured: half of a hop between streams"},
        {"error", c->held_out ? fmin(1, c->most_errors) : 0.15,
         c->held_out ? "measured: 9 of 10 held-out graphs are within it"
                     : "guessed: not yet compared"},
    };

    for (size_t i = 0; i < weir__countof(rows); i++)
        fprintf(f, "%s %.6g # %s\n", rows[i].key, rows[i].value, rows[i].source);
    for (int i = 0; i < CALIBRATION_SWEEPS; i++)
        for (int beside = 0; beside < 2; beside++)
            write_curve(f, c, i, beside);
    if (c->held_out)
        fprintf(f,
                "# Of %d held-out graphs, half are within %.1f %%, all within "
                "%.1f %%.\n",
                c->held_out, 100 * c->median_error, 100 * c->worst_error);
    return WEIR_OK;
}

int calibration_write(const struct calibration *c, const char *path)
{
    if (!weir__file_write(path, write_profile, c))
        return -1;
    fprintf(stderr, "weir calibrate: %s\n", weir_last_error());
    return EXIT_FAILED;
}

int calibration_predict(const struct calibration *c, const char *scratch,
                        const struct calibration_graph *what, double *us)
{
    struct weir__prediction p;
    weir_device *dev;
    weir_graph *g;
    char spec[80];
    weir_status st;
    int status = calibration_write(c, scratch);

    if (status >= 0)
        return status;
    snprintf(spec, sizeof spec, "npu:%s,compute=off", scratch);
    if ((st = weir_device_open(spec, &dev)))
        return cli_complain("calibrate", st);
    if (!(st = calibration_build(what, dev, &g))) {
        if (!(st = weir__predict(&g, 1, &(struct weir__predict_options){.makespan_only = true},
                                 &p))) {
            *us = (double)(p.makespan + p.dispatch) / 1e6;
            weir__prediction_fini(&p);
        }
        weir_graph_destroy(g);
    }
    if (st)
        status = cli_complain("calibrate", st);
    weir_device_close(dev);
    return status;
}
