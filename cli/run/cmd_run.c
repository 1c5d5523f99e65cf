/* `weir run`: reports how long a graph takes, and why. */
#include "commands.h"
#include "run/run.h"
#include "run/run_job.h"

#include <stdio.h>
#include <stdlib.h>

void run_result_free(struct run_result *r)
{
    for (size_t i = 0; i < r->nstreams && !r->modelled; i++)
        free((char *)r->streams[i].name);
    for (size_t i = 0; i < r->nspans && !r->modelled; i++)
        free((char *)r->spans[i].name);
    free(r->streams);
    free(r->ranks);
    free(r->spans);
    free(r->path);
    weir__prediction_fini(&r->prediction);
}

int run_complain(weir_status status)
{
    return cli_refuse_graph("run", status);
}

struct output {
    bool json, timeline;
    const char *html, *chrome;
};

static int tell(const struct run_result *r, const weir_device_props *props,
                const struct output *out)
{
    int status = r->prediction.run.deadlock ? EXIT_FAILED : EXIT_FINE;

    if (cli_is_standard(out->html) || cli_is_standard(out->chrome))
        ; /* standard output gets the file */
    else if (out->json)
        run_print_json(r, out->timeline);
    else
        run_print(r);
    if ((out->html || out->chrome) && run_write(r, props, out->html, out->chrome))
        status = EXIT_FAILED;
    return status;
}

/* If ranks are processes, only rank 0 prints. */
static int run_on(weir_device *dev, const char *spec, struct cli_ranks *ranks,
                  const struct run_job *job, const struct output *out)
{
    struct run_result result = {0};
    weir_device_props props;
    int status = cli_ranks_load(ranks, "run", dev);

    weir_device_get_props(dev, &props, sizeof props);
    result.device = props.name;
    result.model = props.model;
    if (status < 0)
        status = props.features & WEIR_FEATURE_REAL_TIME
                     ? run_real(ranks, dev, spec, job, &result)
                     : run_model(ranks, out->html || out->chrome, &result);
    if (status < 0)
        status = job->self ? EXIT_FINE : tell(&result, &props, out);
    run_result_free(&result);
    return status;
}

int weir_cmd_run(int argc, char **argv)
{
    const char *spec = NULL;
    struct output out = {0};
    bool joins = false;
    const struct cli_option options[] = {
        {"--device", "SPEC", "what to run on, such as npu:a3; $WEIR_DEVICE or cpu", NULL, &spec},
        {"--ranks", "N", "the same graph on N devices", NULL, NULL},
        {"--rank", "R=FILE", "the graph of rank R; once for each rank", NULL, NULL},
        {"--timeline", NULL, "with --json: when every node ran", &out.timeline, NULL},
        {"--html", "FILE", "write the timeline page, for a browser; - is standard output", NULL,
         &out.html},
        {"--trace", "FILE", "write the trace, for weir trace and Perfetto; - is standard output",
         NULL, &out.chrome},
        {"--join", NULL, "this process is one rank, as torchrun, mpirun or srun started it", &joins,
         NULL},
        {"--json", NULL, "for machines", &out.json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "run",
        .synopsis = "FILE [--ranks N] [--device SPEC] | --rank R=FILE... [--device SPEC]",
        .about =
            "Runs a graph file and says how long it takes and why: the makespan, the same on one\n"
            "stream, what dependencies alone would take, what each engine and stream did, which\n"
            "communication is exposed, and the steps that decided the makespan. On npu:PROFILE\n"
            "the time is modelled and a deadlock is reported; on cpu it is measured, each rank on\n"
            "a device of its own, and collectives meet in the groups that the files name. Under\n"
            "weir launch each process is a rank, and rank 0 prints the result.",
        .options = options,
        .examples = "  weir run examples/graphs/moe_profile.pbtxt --device npu:a3\n"
                    "  weir run examples/graphs/moe_profile.pbtxt --device npu:a3 --html moe.html\n"
                    "  weir run layer.pbtxt --device npu:910b4,policy=batch,overhead=off --json\n"
                    "  weir run --rank 0=first.pbtxt --rank 1=second.pbtxt --device npu:a2\n"
                    "  weir launch -n 2 weir run layer.pbtxt\n",
        .max_words = 1,
        .words = "FILE",
    };
    struct cli_ranks ranks = {0};
    struct run_job job = {0};
    weir_device *dev;
    int nwords, status;
    weir_status st;

    if ((status = cli_ranks_take(&ranks, "run", &argc, argv)) < 0 &&
        (status = cli_parse(&usage, argc, argv, &nwords)) < 0)
        status = cli_ranks_words(&ranks, "run", nwords, argv + 1);
    if (status >= 0) {
        cli_ranks_free(&ranks);
        return status;
    }
    if (cli_is_standard(out.html) && cli_is_standard(out.chrome)) {
        fputs("weir run: standard output takes one file, --html or --trace\n", stderr);
        cli_ranks_free(&ranks);
        return EXIT_USAGE;
    }
    if ((st = weir_device_open(spec, &dev))) {
        cli_ranks_free(&ranks);
        return cli_complain("run", st);
    }
    status = joins || run_job_is_set() ? run_job_join(&job, dev, &ranks) : -1;
    if (status < 0)
        status = run_on(dev, spec, &ranks, &job, &out);
    cli_ranks_free(&ranks);
    run_job_leave(&job);
    weir_device_close(dev);
    return status;
}
