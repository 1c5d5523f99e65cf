/* `weir calibrate`: makes the profile of a real device, and tests how well it predicts graphs. */
#include "commands.h"
#include "json.h"
#include "model/calibrate.h"
#include "progress.h"
#include "term.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../bench/harness.h"
#include "base/base.h"
#include "base/file.h"

enum { CHAIN = 64, ROUNDS = 4, ATTEMPTS = 3, FILES = 256, FILE_ROUNDS = 2 };
#define GOAL 0.15 /* for compute-bound graphs */
#define BUSY 0.05 /* threshold for the share of disturbed runs, and of a core that others used */

/* The graphs that are timed. Those before AT_TESTED are used for the fit; the others are held out
 * and predicted at the end. The two groups use different matrix sizes. */
enum {
    AT_ONE,
    AT_TINY,
    AT_HOPS,
    AT_F16,
    AT_F32 = AT_F16 + 2,
    AT_BF16 = AT_F32 + 2,
    AT_TESTED = AT_BF16 + 2
};
static const struct calibration_graph known[] = {
    [AT_ONE] = {"a small graph", BODY_TINY, 1, 1, 1, WEIR_F32, false, 0},
    [AT_TINY] = {"launches", BODY_TINY, CHAIN, 1, 1, WEIR_F32, false, 0},
    [AT_HOPS] = {"events", BODY_HOPS, CHAIN, 2, 1, WEIR_F32, false, 0},
    [AT_F16] = {"matmul in f16", BODY_MATMUL, 4, 1, 288, WEIR_F16, true, 0},
    {"matmul in f16", BODY_MATMUL, 2, 1, 576, WEIR_F16, true, 0},
    [AT_F32] = {"matmul in f32", BODY_MATMUL, 4, 1, 288, WEIR_F32, true, 0},
    {"matmul in f32", BODY_MATMUL, 2, 1, 576, WEIR_F32, true, 0},
    [AT_BF16] = {"matmul in bf16", BODY_MATMUL, 4, 1, 288, WEIR_BF16, true, 0},
    {"matmul in bf16", BODY_MATMUL, 2, 1, 576, WEIR_BF16, true, 0},
    [AT_TESTED] = {"8 matmul of 160", BODY_MATMUL, 8, 1, 160, WEIR_F32, true, 0},
    {"6 matmul of 256", BODY_MATMUL, 6, 1, 256, WEIR_F32, true, 0},
    {"1 matmul of 448", BODY_MATMUL, 1, 1, 448, WEIR_F32, true, 0},
    {"8 matmul of 224, two streams", BODY_MATMUL, 8, 2, 224, WEIR_F32, true, 0},
    {"6 matmul of 256 in f16", BODY_MATMUL, 6, 1, 256, WEIR_F16, true, 0},
    {"6 matmul of 256 in bf16", BODY_MATMUL, 6, 1, 256, WEIR_BF16, true, 0},
    {"8 matmul of 224 in f16, two streams", BODY_MATMUL, 8, 2, 224, WEIR_F16, true, 0},
    {"3 layers of 256", BODY_LAYERS, 12, 1, 256, WEIR_F32, true, 0},
    {"matmul beside gelu, two streams", BODY_MIXED, 8, 2, 256, WEIR_F32, true, 0},
    {"4 experts of 224", BODY_EXPERTS, 4, 1, 224, WEIR_F32, true, 0},
    {"4 experts and a shared one, two streams", BODY_EXPERTS, 4, 2, 224, WEIR_F32, true, 0},
    {"the seed's model of 320 in f16, three streams", BODY_SEED, 4, 3, 320, WEIR_F16, true, 0},
    {"48 small operators", BODY_TINY, 48, 1, 1, WEIR_F32, false, 0},
};
enum { NKNOWN = weir__countof(known), MOST = NKNOWN + FILES };

struct outcome {
    struct calibration c;
    struct calibration_graph graphs[MOST];
    int n;
    double measured[MOST];  /* us; NaN if the device has no such kernel */
    double predicted[MOST]; /* us, from AT_TESTED on */
    struct calibration_runs runs;
    double foreign; /* share of a core that other programs used meanwhile */
    int attempts;
    const char *path; /* of the profile; NULL if it is not kept */
    const char *file; /* the same, or the temporary file for standard output */
    bool json, verify, kept;
    char scratch[64];
};

static double error_of(const struct outcome *o, int i)
{
    return o->predicted[i] / o->measured[i] - 1;
}

static double worst(const struct outcome *o)
{
    double most = 0;

    for (int i = AT_TESTED; i < o->n; i++)
        if (o->graphs[i].compute_bound && !isnan(o->measured[i]))
            most = fmax(most, fabs(error_of(o, i)));
    return most;
}

static double disturbed(const struct outcome *o)
{
    return o->runs.all ? (double)o->runs.disturbed / o->runs.all : 0;
}

/* ---- measuring and fitting ---- */

/* Measures all graphs once and keeps the least time of all rounds, as disturbances on the machine
 * are temporary. */
static weir_status measure_round(struct outcome *o, weir_device *dev, struct progress *progress,
                                 double done, double rounds)
{
    double us, one, all;
    weir_status st;

    progress_show(progress, done / rounds, "bandwidth");
    if ((st = calibration_bandwidth(dev, 1, &one)) || (st = calibration_bandwidth(dev, 0, &all)) ||
        (st = calibration_time_eager(dev, CHAIN, &us)))
        return st;
    o->c.core_gb_s = fmax(o->c.core_gb_s, one);
    o->c.memory_gb_s = fmax(o->c.memory_gb_s, all);
    o->c.launch_us = fmin(o->c.launch_us, us);
    for (int k = 0; k < o->n + AT_TESTED; k++) {
        int i = k < o->n ? k : k - o->n; /* graphs of the fit run twice: first and last */

        if (i >= NKNOWN && done >= FILE_ROUNDS)
            continue;
        progress_show(progress, (done + (1.0 + k) / (1 + o->n + AT_TESTED)) / rounds, "%s",
                      o->graphs[i].name);
        st = calibration_time(&o->graphs[i], dev, &o->runs, &us);
        if (st && (o->graphs[i].dtype == WEIR_F32 || o->graphs[i].body == BODY_FILE))
            return st;
        o->measured[i] = st ? NAN : fmin(o->measured[i], us);
    }
    return WEIR_OK;
}

static weir_status measure(struct outcome *o, weir_device *dev)
{
    struct progress progress = progress_begin();
    weir_status st = calibration_measure_sweeps(&o->c, dev, &o->runs, &progress);

    for (int round = 0; round < ROUNDS && !st; round++)
        st = measure_round(o, dev, &progress, round, ROUNDS);
    progress_end(&progress);
    return st;
}

/* Returns the gigaflops per second of one core: the geometric mean of two sizes. */
static double rate_of(const struct outcome *o, int first)
{
    double sum = 0;

    for (int i = first; i < first + 2; i++) {
        const struct calibration_graph *g = &o->graphs[i];
        double start = o->c.dispatch_us + g->nodes * o->c.graph_launch_us;
        double us = fmax(0.1 * o->measured[i], o->measured[i] - start);

        sum += log(2 * pow((double)g->n, 3) * g->nodes / us / 1e3 / o->c.cores);
    }
    return exp(sum / 2);
}

/* Returns calibration.ratio of a type: the geometric mean of two sizes. */
static double ratio_of(const struct outcome *o, int first)
{
    double sum = 0;

    for (int i = first; i < first + 2; i++) {
        const struct calibration_graph *g = &o->graphs[i];
        double us = fmax(0.1 * o->measured[i], o->measured[i] - o->c.dispatch_us) / g->nodes;
        double flops = 2 * pow((double)g->n, 3);

        sum += log(flops / fmax(1, calibration_amount_in(&o->c, SWEEP_PRODUCTS, us)));
    }
    return exp(sum / 2);
}

static void fit(struct outcome *o)
{
    static const int at[CALIBRATION_TYPES] = {AT_F16, AT_F32, AT_BF16};
    struct calibration *c = &o->c;
    const double *us = o->measured;

    c->graph_launch_us = fmax(0, (us[AT_TINY] - us[AT_ONE]) / (CHAIN - 1));
    c->dispatch_us = fmax(0, us[AT_ONE] - c->graph_launch_us);
    c->stream_us = calibration_stream_us(c);
    c->event_us = fmax(0, (us[AT_HOPS] - us[AT_TINY]) / (CHAIN - 1));
    for (int i = 0; i < CALIBRATION_TYPES; i++) {
        if (isnan(us[at[i]])) {
            c->matrix_gflops[i] = c->ratio[i] = NAN;
        } else {
            c->matrix_gflops[i] = rate_of(o, at[i]);
            c->ratio[i] = ratio_of(o, at[i]);
        }
    }
    c->vector_gflops = calibration_peak(c, SWEEP_VECTOR) / 1e3 / c->cores;
    c->memory_gb_s = calibration_peak(c, SWEEP_MEMORY) / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Computes the profile's own error from all held-out graphs. */
static void hold_out(struct outcome *o)
{
    double errors[MOST];
    int n = 0;

    for (int i = AT_TESTED; i < o->n; i++)
        if (!isnan(o->measured[i]))
            errors[n++] = fabs(error_of(o, i));
    if (!n)
        return;
    qsort(errors, (size_t)n, sizeof *errors, by_size);
    o->c.held_out = n;
    o->c.median_error = errors[n / 2];
    o->c.most_errors = errors[(int)(0.9 * (n - 1))];
    o->c.worst_error = errors[n - 1];
}

/* Loads the graph files before anything is measured, so that errors in them are reported early. */
static weir_status try_files(const struct outcome *o, weir_device *dev)
{
    weir_status st = WEIR_OK;

    for (int i = NKNOWN; i < o->n && !st; i++) {
        weir_graph *g;

        if (!(st = calibration_build(&o->graphs[i], dev, &g)))
            weir_graph_destroy(g);
    }
    return st;
}

static int calibrate(struct outcome *o, weir_device *dev)
{
    weir_device_props props;
    weir_status st;
    int status = -1;

    if ((st = try_files(o, dev))) {
        cli_complain("calibrate", st);
        return EXIT_USAGE;
    }

    weir_device_get_props(dev, &props, sizeof props);
    snprintf(o->c.device, sizeof o->c.device, "%.63s", props.name);
    o->c.cores = props.cores.cube > 1024 ? 1024 : props.cores.cube;
    o->c.memory_gib = fmax(0.001, (double)props.memory_bytes / (double)(1 << 30));
    o->c.launch_us = INFINITY;
    /* Sizes that keep a few cores busy leave many cores idle: use larger ones. */
    for (int i = AT_F16; i < AT_TESTED && o->c.cores >= CALIBRATION_MANY_CORES; i++)
        o->graphs[i].n = known[i].n * 3;
    for (int i = 0; i < o->n; i++)
        o->measured[i] = INFINITY;
    do {
        if ((st = measure(o, dev))) {
            status = cli_complain("calibrate", st);
            return st == WEIR_EUNSUPPORTED ? EXIT_USAGE : status;
        }
        fit(o);
        for (int i = AT_TESTED; i < o->n && status < 0; i++)
            status = calibration_predict(&o->c, o->scratch, &o->graphs[i], &o->predicted[i]);
    } while (status < 0 && o->verify && ++o->attempts < ATTEMPTS && worst(o) > GOAL);
    hold_out(o);
    if (status < 0 && o->file && (status = calibration_write(&o->c, o->file)) < 0)
        o->kept = true;
    return status;
}

/* ---- printing ---- */

static void print_json(const struct outcome *o)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_string(&j, "device", o->c.device);
    json_string(&j, "profile", o->path);
    json_object(&j, "figures");
    json_int(&j, "cores", o->c.cores);
    json_object(&j, "matrix_gflops_per_core");
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        json_number(&j, weir_dtype_name(calibration_types[i]), o->c.matrix_gflops[i]);
    json_object_end(&j);
    json_number(&j, "vector_gflops_per_core", o->c.vector_gflops);
    json_number(&j, "core_gb_s", o->c.core_gb_s);
    json_number(&j, "memory_gb_s", o->c.memory_gb_s);
    json_number(&j, "launch_us", o->c.launch_us);
    json_number(&j, "graph_launch_us", o->c.graph_launch_us);
    json_number(&j, "dispatch_us", o->c.dispatch_us);
    json_number(&j, "stream_us", o->c.stream_us);
    json_number(&j, "event_us", o->c.event_us);
    json_object_end(&j);
    json_array(&j, "curves");
    for (int s = 0; s < CALIBRATION_SWEEPS; s++) {
        const struct calibration_sweep *w = &o->c.sweeps[s];

        json_array(&j, NULL);
        for (int i = 0; i < w->n; i++) {
            json_object(&j, NULL);
            json_number(&j, "amount", w->amount[i]);
            json_int(&j, "nodes", w->nodes[i]);
            json_number(&j, "us", w->us[i]);
            json_number(&j, "beside_us", w->beside_us[i]);
            json_object_end(&j);
        }
        json_array_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "graphs");
    for (int i = AT_TESTED; i < o->n; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", o->graphs[i].name);
        json_bool(&j, "compute_bound", o->graphs[i].compute_bound);
        json_number(&j, "predicted_us", o->predicted[i]);
        json_number(&j, "measured_us", o->measured[i]);
        json_number(&j, "error", error_of(o, i));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_number(&j, "worst_compute_bound_error", worst(o));
    json_number(&j, "median_error", o->c.median_error);
    json_number(&j, "worst_error", o->c.worst_error);
    json_number(&j, "disturbed_runs", disturbed(o));
    json_number(&j, "foreign_share", o->foreign);
    json_object_end(&j);
}

static void print_table(const struct outcome *o)
{
    static const struct term_column columns[] = {
        {"graph", false}, {"predicted us", true}, {"measured us", true}, {"off by", true}};
    struct term_table t = {.columns = columns, .ncolumns = weir__countof(columns)};

    for (int i = AT_TESTED; i < o->n; i++) {
        char predicted[32], measured[32], error[32];

        if (isnan(o->measured[i]))
            continue;
        snprintf(predicted, sizeof predicted, "%.1f", o->predicted[i]);
        snprintf(measured, sizeof measured, "%.1f", o->measured[i]);
        snprintf(error, sizeof error, "%+.1f %%", 100 * error_of(o, i));
        term_table_add(&t, (const char *const[]){o->graphs[i].name, predicted, measured, error});
    }
    printf("\n");
    term_table_print(&t, 2);
}

/* Says who caused the preemptions: weir's own threads also preempt each other. */
static void print_disturbance(const struct outcome *o)
{
    printf("  the system preempted a thread in %.0f %% of the runs: ", 100 * disturbed(o));
    if (o->foreign > BUSY)
        printf("the machine was busy, other programs or the hypervisor used %.0f %% of a core\n",
               100 * o->foreign);
    else
        printf("for another thread of weir, as no other program used the machine\n");
}

static void print_report(const struct outcome *o)
{
    const struct calibration *c = &o->c;

    printf("%s%s%s, %d cores\n\n", term_on(TERM_BOLD), c->device, term_off(), c->cores);
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        if (c->matrix_gflops[i] > 0)
            printf("  matrix rate, %-4s %10.3f Gflop/s a core\n",
                   weir_dtype_name(calibration_types[i]), c->matrix_gflops[i]);
    printf("  vector rate       %10.3f Gflop/s a core\n", c->vector_gflops);
    printf("  memory            %10.3f GB/s one core, %.3f all\n", c->core_gb_s, c->memory_gb_s);
    printf(
        "  launch            %10.3f us, %.3f in a graph, %.3f for a graph, %.3f for each stream\n",
        c->launch_us, c->graph_launch_us, c->dispatch_us, c->stream_us);
    printf("  hop by an event   %10.3f us\n", c->event_us);
    print_table(o);
    printf("\n  of %d held-out graphs half are predicted within %.1f %%, all within "
           "%.1f %%",
           o->c.held_out, 100 * o->c.median_error, 100 * o->c.worst_error);
    printf("\n  compute-bound graphs are predicted within %.1f %%", 100 * worst(o));
    if (worst(o) > GOAL)
        printf("; the aim is %.0f %%", 100 * GOAL);
    printf("\n");
    if (disturbed(o) > BUSY)
        print_disturbance(o);
    if (o->path)
        printf("  written to %s: use it as --device npu:%s%s\n", o->path,
               strpbrk(o->path, "/.") ? "" : "./", o->path);
    else
        printf("  --out FILE keeps the profile\n");
}

static int run(struct outcome *o, weir_device *dev)
{
    weir_device_props props;
    double foreign, start;
    int file, status;

    if (o->file && weir__file_check_writable(o->file)) { /* fail before anything is measured */
        fprintf(stderr, "weir calibrate: %s\n", weir_last_error());
        return EXIT_FAILED;
    }
    weir_device_get_props(dev, &props, sizeof props);
    if (!(props.features & WEIR_FEATURE_REAL_TIME)) {
        fprintf(stderr, "weir calibrate: %s is a model: name a real device, cpu or cuda\n",
                props.name);
        return EXIT_USAGE;
    }
    if ((file = mkstemp(o->scratch)) < 0) {
        fprintf(stderr, "weir calibrate: cannot write %s: %s\n", o->scratch, strerror(errno));
        return EXIT_FAILED;
    }
    close(file);
    start = bench_now_ns();
    foreign = bench_foreign_seconds();
    status = calibrate(o, dev);
    foreign = bench_foreign_seconds() - foreign;
    o->foreign = fmax(0, foreign / ((bench_now_ns() - start) * 1e-9));
    unlink(o->scratch);
    if (status >= 0)
        return status;
    if (cli_is_standard(o->path))
        ; /* standard output gets the profile */
    else if (o->json)
        print_json(o);
    else
        print_report(o);
    return o->verify && worst(o) > GOAL ? EXIT_FAILED : EXIT_FINE;
}

int weir_cmd_calibrate(int argc, char **argv)
{
    const char *spec = NULL;
    struct outcome o = {.n = NKNOWN, .scratch = "/tmp/weir-profile-XXXXXX"};
    const struct cli_option options[] = {
        {"--device", "SPEC", "the real device: cpu or cuda; $WEIR_DEVICE or cpu", NULL, &spec},
        {"--out", "FILE", "write the profile, which npu:FILE loads; - is standard output", NULL,
         &o.path},
        {"--verify", NULL, "exit 1 if a compute-bound graph is off by more than 15 %", &o.verify,
         NULL},
        {"--json", NULL, "for machines", &o.json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "calibrate",
        .synopsis = "[--device SPEC] [--out FILE] [--verify] [GRAPH...]",
        .about = "Measures a real device (launches, events, compute rates, bandwidth), makes a\n"
                 "profile of it for the modelled device, and says how far the model is off on\n"
                 "graphs that were not used for the fit, and on those you name. Leave the\n"
                 "machine alone meanwhile.",
        .options = options,
        .examples = "  weir calibrate --device cpu --out here.profile\n"
                    "  weir calibrate --device cpu --verify layer.pbtxt\n"
                    "  weir tune layer.pbtxt --device npu:./here.profile\n",
        .max_words = FILES,
        .words = "GRAPH",
    };
    struct cli_output out;
    weir_device *dev;
    int nwords, status, written;
    weir_status st;

    if ((status = cli_parse(&usage, argc, argv, &nwords)) >= 0)
        return status;
    memcpy(o.graphs, known, sizeof known);
    for (int i = 1; i <= nwords; i++)
        o.graphs[o.n++] = (struct calibration_graph){.name = argv[i], .body = BODY_FILE};
    if ((st = weir_device_open(spec, &dev)))
        return cli_complain("calibrate", st);
    if ((status = cli_output_open("calibrate", o.path, &out)) < 0) {
        o.file = out.path;
        status = run(&o, dev); /* the profile is written even if --verify fails */
        written = cli_output_close("calibrate", &out, o.kept ? EXIT_FINE : EXIT_FAILED);
        if (!status && o.path)
            status = written;
    }
    weir_device_close(dev);
    return status;
}
