/* From measurements to a profile: the figures that make the model take what the device took. */
#include "commands.h"
#include "model/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "graph/predict/predict.h"

const weir_dtype calibration_types[CALIBRATION_TYPES] = {WEIR_F16, WEIR_F32, WEIR_BF16};

/* Rates are per second: the clock only divides them, and the least rate that a profile can say
 * is one flop a cycle. */
#define CLOCK_MHZ 100.0

static double per_cycle(double gflops)
{
    return fmax(1, 1e3 * gflops / CLOCK_MHZ);
}

static double ratio(const struct calibration *c, int type)
{
    return c->matrix_gflops[type] > 0 && c->matrix_gflops[0] > 0
               ? c->matrix_gflops[type] / c->matrix_gflops[0]
               : 1;
}

/* The rate of half precision; of f32 where there is no other. */
static double matrix_rate(const struct calibration *c)
{
    return c->matrix_gflops[0] > 0 ? c->matrix_gflops[0] : c->matrix_gflops[1];
}

static weir_status write_profile(FILE *f, const void *user)
{
    const struct calibration *c = user;

    fprintf(f, "# What `weir calibrate` measured. Links and limits of streams are the inherited\n"
               "# profile's and mean nothing here; one device has no use for them.\n");
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
        {"cube_flop_per_cycle", per_cycle(matrix_rate(c)), "measured: matmul, f16"},
        {"cube_f32_ratio", ratio(c, 1), "measured: matmul, f32"},
        {"cube_bf16_ratio", ratio(c, 2), "measured: matmul, bf16"},
        {"cube_hf32_ratio", ratio(c, 1), "as f32"},
        {"cube_f64_ratio", ratio(c, 1) / 2, "half of f32"},
        {"cube_i32_ratio", ratio(c, 1), "as f32"},
        {"cube_i8_ratio", ratio(c, 1), "as f32"},
        {"cube_f8_ratio", 1, "as f16"},
        {"vector_flop_per_cycle", per_cycle(c->vector_gflops), "measured: gelu, f32"},
        {"vector_f32_ratio", 1, "the rate is measured in f32"},
        {"vector_f64_ratio", 0.5, "half of f32"},
        {"cube_efficiency", 1, "rates are measured"},
        {"cube_fill_k", 0, "rates are measured"},
        {"mix_efficiency", 1, "rates are measured"},
        {"cube_head_us", 0, "part of the launch"},
        {"vector_head_us", 0, "part of the launch"},
        {"vector_efficiency", 1, "rates are measured"},
        {"hbm_gib", c->memory_gib, "the device"},
        {"hbm_gb_s", fmax(c->memory_gb_s, c->core_gb_s), "measured: all cores"},
        {"hbm_efficiency", 1, "bandwidth is measured"},
        {"core_gb_s", c->core_gb_s, "measured: one core"},
        {"l2_gb_s", 1e6, "without limit: caches are part of the rates"},
        {"sdma_gb_s", c->core_gb_s, "as one core"},
        {"launch_cube_us", c->launch_us, "measured: operators issued one by one"},
        {"launch_vector_us", c->launch_us, "measured: operators issued one by one"},
        {"launch_comm_us", c->launch_us, "as the others"},
        {"launch_host_us", c->launch_us, "as the others"},
        {"graph_launch_us", c->graph_launch_us, "measured: a chain of small operators"},
        {"graph_dispatch_us", c->dispatch_us, "measured: a graph of one small operator"},
        {"event_record_us", c->event_us / 2, "measured: half of a hop between streams"},
        {"event_wait_us", c->event_us / 2, "measured: half of a hop between streams"},
    };

    for (size_t i = 0; i < weir__countof(rows); i++)
        fprintf(f, "%s %.6g # %s\n", rows[i].key, rows[i].value, rows[i].source);
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

/* The model's time is what the rate divides, and launches, which are known. */
int calibration_fit(struct calibration *c, const char *scratch,
                    const struct calibration_graph *graphs, const double *measured, int n,
                    double *rate)
{
    double slow = CLOCK_MHZ / 1e3, sum = 0;

    for (int i = 0; i < n; i++) {
        double known = c->dispatch_us + graphs[i].nodes * c->graph_launch_us, modelled;
        int status;

        *rate = slow; /* so that no bandwidth is in the way */
        if ((status = calibration_predict(c, scratch, &graphs[i], &modelled)) >= 0)
            return status;
        sum += log(slow * (modelled - known) / fmax(0.1 * measured[i], measured[i] - known));
    }
    *rate = exp(sum / n);
    return -1;
}
