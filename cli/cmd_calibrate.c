/* `weir calibrate`: the profile of a real device, and how well it predicts graphs there. */
#include "calibrate.h"
#include "commands.h"
#include "json.h"
#include "progress.h"
#include "term.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/predict.h"

#define CLOCK_MHZ                                                             \
    100.0 /* rates are per second: the clock only divides them, and the least \
           * rate that a profile can say is one flop a cycle */
enum { CHAIN = 64, NDTYPES = 3, ROUNDS = 4 };

/* What is timed. Rates come from AT_MATMUL and AT_GELU; those from AT_TESTED on are predicted
 * in the end, and none of them is what rates come from. */
enum { AT_ONE, AT_TINY, AT_HOPS, AT_GELU, AT_MATMUL, AT_F16, AT_BF16, AT_TESTED };
static const struct calibration_graph timed[] = {
    [AT_ONE] = {"a small graph", BODY_TINY, 1, 1, WEIR_F32, 0, false},
    [AT_TINY] = {"launches", BODY_TINY, CHAIN, 1, WEIR_F32, 0, false},
    [AT_HOPS] = {"events", BODY_HOPS, CHAIN, 1, WEIR_F32, 0, false},
    [AT_GELU] = {"gelu", BODY_GELU, 8, 256, WEIR_F32, 0, true},
    [AT_MATMUL] = {"matmul", BODY_MATMUL, 4, 256, WEIR_F32, 0, true},
    [AT_F16] = {"matmul in f16", BODY_MATMUL, 4, 256, WEIR_F16, 0, true},
    [AT_BF16] = {"matmul in bf16", BODY_MATMUL, 4, 256, WEIR_BF16, 0, true},
    {"6 matmul of 288, one stream", BODY_MATMUL, 6, 288, WEIR_F32, 0, true},
    {"8 matmul of 224, two streams", BODY_MATMUL_2, 8, 224, WEIR_F32, 0, true},
    {"3 layers of 256, one stream", BODY_LAYERS, 12, 256, WEIR_F32, 0, true},
    {"matmul beside gelu, two streams", BODY_MIXED, 8, 256, WEIR_F32, 0, true},
    {"48 small operators", BODY_TINY, 48, 1, WEIR_F32, 0, false},
};
enum { NTIMED = sizeof timed / sizeof *timed };

struct outcome {
    const char *device;
    const char *path; /* of the profile; NULL if it is not kept */
    struct calibration c;
    double measured[NTIMED];      /* us; NaN where there is no such kernel */
    double predicted[NTIMED];     /* from AT_TESTED on */
    double dtype_gflops[NDTYPES]; /* all cores; NaN likewise */
    char temporary[64];
};

static const weir_dtype dtypes[NDTYPES] = {WEIR_F32, WEIR_F16, WEIR_BF16};

static int complain(weir_status st)
{
    int status = cli_complain("calibrate", st);

    return st == WEIR_EUNSUPPORTED ? EXIT_USAGE : status;
}

/* ---- the profile ---- */

static int write_profile(const struct outcome *o, const char *path)
{
    const struct calibration *c = &o->c;
    FILE *f = fopen(path, "we");
    bool wrote;

    if (!f) {
        fprintf(stderr, "weir calibrate: cannot write %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    fprintf(f, "# What `weir calibrate` measured. Links and limits of streams are the inherited\n"
               "# profile's and mean nothing here; one device has no use for them.\n");
    for (int i = 0; i < NDTYPES; i++)
        if (o->dtype_gflops[i] > 0)
            fprintf(f, "# matmul in %s: %.4g Gflop/s on all cores\n", weir_dtype_name(dtypes[i]),
                    o->dtype_gflops[i]);
    fprintf(f, "inherits 910b1\nname calibrated # %.40s\n", o->device);

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
        {"cube_flop_per_cycle", fmax(1, 1e3 * c->cube_gflops / CLOCK_MHZ), "measured: matmul, f32"},
        {"vector_flop_per_cycle", fmax(1, 1e3 * c->vector_gflops / CLOCK_MHZ),
         "measured: gelu, f32"},
        {"cube_efficiency", 1, "rates are measured"},
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
    wrote = !ferror(f);
    if (fclose(f) || !wrote) {
        fprintf(stderr, "weir calibrate: cannot write %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    return -1;
}

/* What the profile as it is now says of a graph, dispatch and all. */
static int predict(struct outcome *o, const struct calibration_graph *what, double *us)
{
    struct weir__prediction p;
    weir_device *dev;
    weir_graph *g;
    char spec[80];
    weir_status st;
    int status = write_profile(o, o->temporary);

    if (status >= 0)
        return status;
    snprintf(spec, sizeof spec, "npu:%s,compute=off", o->temporary);
    if ((st = weir_device_open(spec, &dev)))
        return complain(st);
    if (!(st = calibration_build(what, dev, &g))) {
        if (!(st = weir__predict(&g, 1, &(struct weir__predict_options){.makespan_only = true},
                                 &p))) {
            *us = (double)(p.makespan + p.dispatch) / 1e6;
            weir__prediction_fini(&p);
        }
        weir_graph_destroy(g);
    }
    if (st)
        status = complain(st);
    weir_device_close(dev);
    return status;
}

/* ---- measuring and fitting ---- */

/* The least over all rounds: others on the machine disturb for a while, not always. */
static weir_status measure(struct outcome *o, weir_device *dev)
{
    const int steps = NTIMED + 1;
    struct progress progress = progress_begin();
    weir_status st = WEIR_OK;

    for (int round = 0; round < ROUNDS && !st; round++) {
        double us, one, all, done = (double)(round * steps);

        progress_show(&progress, done / (ROUNDS * steps), "bandwidth");
        if ((st = calibration_bandwidth(dev, 1, &one)) ||
            (st = calibration_bandwidth(dev, 0, &all)) ||
            (st = calibration_time_eager(dev, CHAIN, &us)))
            break;
        o->c.core_gb_s = fmax(o->c.core_gb_s, one);
        o->c.memory_gb_s = fmax(o->c.memory_gb_s, all);
        o->c.launch_us = round ? fmin(o->c.launch_us, us) : us;
        for (int i = 0; i < NTIMED; i++) {
            progress_show(&progress, (done + 1 + i) / (ROUNDS * steps), "%s", timed[i].name);
            if ((st = calibration_time(&timed[i], dev, &us)) && timed[i].dtype == WEIR_F32)
                break;
            us = st ? NAN : us;
            st = WEIR_OK;
            o->measured[i] = round ? fmin(o->measured[i], us) : us;
        }
    }
    progress_end(&progress);
    return st;
}

static void derive(struct outcome *o)
{
    struct calibration *c = &o->c;
    const double *us = o->measured;

    c->graph_launch_us = fmax(0, (us[AT_TINY] - us[AT_ONE]) / (CHAIN - 1));
    c->dispatch_us = fmax(0, us[AT_ONE] - c->graph_launch_us);
    c->event_us = fmax(0, (us[AT_HOPS] - us[AT_TINY]) / (CHAIN - 1));
    for (int i = 0; i < NDTYPES; i++) {
        const struct calibration_graph *g = &timed[AT_MATMUL + i];

        o->dtype_gflops[i] =
            g->nodes * 2.0 * (double)(g->n * g->n * g->n) / us[AT_MATMUL + i] / 1e3;
    }
}

/* The rate of one core at which the model takes what was measured. The model's time is what
 * the rate divides, and launches, which are known. */
static int fit_rate(struct outcome *o, int at, double *rate)
{
    double known = o->c.dispatch_us + timed[at].nodes * o->c.graph_launch_us;
    double slow = CLOCK_MHZ / 1e3, modelled;
    int status;

    *rate = slow; /* so that no bandwidth is in the way */
    if ((status = predict(o, &timed[at], &modelled)) >= 0)
        return status;
    *rate = slow * (modelled - known) / fmax(0.1 * o->measured[at], o->measured[at] - known);
    return -1;
}

static int calibrate(struct outcome *o, weir_device *dev)
{
    weir_device_props props;
    weir_status st;
    int status = -1;

    weir_device_get_props(dev, &props);
    o->c.cores = props.cores.cube > 1024 ? 1024 : props.cores.cube;
    o->c.memory_gib = fmax(0.001, (double)props.memory_bytes / (double)(1 << 30));
    if ((st = measure(o, dev)))
        return complain(st);
    derive(o);
    o->c.vector_gflops = o->c.cube_gflops = CLOCK_MHZ / 1e3;
    if ((status = fit_rate(o, AT_MATMUL, &o->c.cube_gflops)) >= 0 ||
        (status = fit_rate(o, AT_GELU, &o->c.vector_gflops)) >= 0)
        return status;
    for (int i = AT_TESTED; i < NTIMED && status < 0; i++)
        status = predict(o, &timed[i], &o->predicted[i]);
    return status < 0 && o->path ? write_profile(o, o->path) : status;
}

/* ---- telling ---- */

static double error_of(const struct outcome *o, int i)
{
    return o->predicted[i] / o->measured[i] - 1;
}

static double worst(const struct outcome *o)
{
    double most = 0;

    for (int i = AT_TESTED; i < NTIMED; i++)
        if (timed[i].compute_bound)
            most = fmax(most, fabs(error_of(o, i)));
    return most;
}

static void print_json(const struct outcome *o)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_string(&j, "device", o->device);
    json_string(&j, "profile", o->path);
    json_object(&j, "figures");
    json_int(&j, "cores", o->c.cores);
    json_number(&j, "cube_gflops_per_core", o->c.cube_gflops);
    json_number(&j, "vector_gflops_per_core", o->c.vector_gflops);
    json_number(&j, "core_gb_s", o->c.core_gb_s);
    json_number(&j, "memory_gb_s", o->c.memory_gb_s);
    json_number(&j, "launch_us", o->c.launch_us);
    json_number(&j, "graph_launch_us", o->c.graph_launch_us);
    json_number(&j, "dispatch_us", o->c.dispatch_us);
    json_number(&j, "event_us", o->c.event_us);
    json_object_end(&j);
    json_object(&j, "matmul_gflops");
    for (int i = 0; i < NDTYPES; i++)
        json_number(&j, weir_dtype_name(dtypes[i]), o->dtype_gflops[i]);
    json_object_end(&j);
    json_array(&j, "graphs");
    for (int i = AT_TESTED; i < NTIMED; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", timed[i].name);
        json_bool(&j, "compute_bound", timed[i].compute_bound);
        json_number(&j, "predicted_us", o->predicted[i]);
        json_number(&j, "measured_us", o->measured[i]);
        json_number(&j, "error", error_of(o, i));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_number(&j, "worst_compute_bound_error", worst(o));
    json_object_end(&j);
}

static void print_report(const struct outcome *o)
{
    static const struct term_column columns[] = {
        {"graph", false}, {"predicted us", true}, {"measured us", true}, {"off by", true}};
    struct term_table t = {.columns = columns, .ncolumns = weir__countof(columns)};
    const struct calibration *c = &o->c;

    printf("%s%s%s, %d cores\n\n", term_on(TERM_BOLD), o->device, term_off(), c->cores);
    printf("  matrix rate       %10.3f Gflop/s a core\n", c->cube_gflops);
    printf("  vector rate       %10.3f Gflop/s a core\n", c->vector_gflops);
    printf("  memory            %10.3f GB/s one core, %.3f all\n", c->core_gb_s, c->memory_gb_s);
    printf("  launch            %10.3f us, %.3f in a graph, %.3f for a graph\n", c->launch_us,
           c->graph_launch_us, c->dispatch_us);
    printf("  hop by an event   %10.3f us\n", c->event_us);
    for (int i = 0; i < NDTYPES; i++)
        if (o->dtype_gflops[i] > 0)
            printf("  matmul in %-6s  %10.3f Gflop/s, all cores\n", weir_dtype_name(dtypes[i]),
                   o->dtype_gflops[i]);
    for (int i = AT_TESTED; i < NTIMED; i++) {
        char predicted[32], measured[32], error[32];

        snprintf(predicted, sizeof predicted, "%.1f", o->predicted[i]);
        snprintf(measured, sizeof measured, "%.1f", o->measured[i]);
        snprintf(error, sizeof error, "%+.1f %%", 100 * error_of(o, i));
        term_table_add(&t, (const char *const[]){timed[i].name, predicted, measured, error});
    }
    printf("\n");
    term_table_print(&t, 2);
    printf("\n  compute-bound graphs are predicted within %.1f %%%s\n", 100 * worst(o),
           worst(o) > 0.15 ? ": more than 15 % says that something else used the device" : "");
    if (o->path)
        printf("  written to %s: use it as --device npu:%s%s\n", o->path,
               strpbrk(o->path, "/.") ? "" : "./", o->path);
    else
        printf("  -o FILE keeps the profile\n");
}

int weir_cmd_calibrate(int argc, char **argv)
{
    const char *spec = NULL;
    bool json = false;
    struct outcome o = {.temporary = "/tmp/weir-profile-XXXXXX"};
    const struct cli_option options[] = {
        {"--device", "SPEC", "the real device: cpu or cuda; $WEIR_DEVICE or cpu", NULL, &spec},
        {"-o", "FILE", "write the profile, which npu:FILE loads", NULL, &o.path},
        {"--json", NULL, "for machines", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "calibrate",
        .synopsis = "[--device SPEC] [-o FILE]",
        .about = "Measures a real device (launches, events, compute rates, bandwidth), makes a\n"
                 "profile of it for the modelled device, and says how far the model is off on\n"
                 "graphs that were not used for the fit. Leave the machine alone meanwhile.",
        .options = options,
        .examples = "  weir calibrate --device cpu -o here.profile\n"
                    "  weir tune layer.pbtxt --device npu:./here.profile\n",
        .max_words = 0,
    };
    weir_device_props props;
    weir_device *dev;
    int nwords, file, status;
    weir_status st;

    if ((status = cli_parse(&usage, argc, argv, &nwords)) >= 0)
        return status;
    if ((st = weir_device_open(spec, &dev)))
        return cli_complain("calibrate", st);
    weir_device_get_props(dev, &props);
    if (!(props.features & WEIR_FEATURE_REAL_TIME)) {
        fprintf(stderr, "weir calibrate: %s is a model: name a real device, cpu or cuda\n",
                props.name);
        status = EXIT_USAGE;
    } else if ((file = mkstemp(o.temporary)) < 0) {
        fprintf(stderr, "weir calibrate: cannot write %s: %s\n", o.temporary, strerror(errno));
        status = EXIT_FAILED;
    } else {
        close(file);
        o.device = props.name;
        status = calibrate(&o, dev);
        unlink(o.temporary);
    }
    if (status < 0) {
        if (json)
            print_json(&o);
        else
            print_report(&o);
        status = EXIT_FINE;
    }
    weir_device_close(dev);
    return status;
}
