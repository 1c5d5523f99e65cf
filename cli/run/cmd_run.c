/* `weir run`: how long a graph takes, and why. */
#include "commands.h"
#include "run/run.h"

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

static int run_on(weir_device *dev, const char *spec, struct cli_ranks *ranks, bool json,
                  bool timeline, const char *html, const char *chrome)
{
    struct run_result result = {0};
    weir_device_props props;
    int status = cli_ranks_load(ranks, "run", dev);

    weir_device_get_props(dev, &props, sizeof props);
    result.device = props.name;
    result.model = props.model;
    if (status < 0)
        status = props.features & WEIR_FEATURE_REAL_TIME
                     ? run_real(ranks, dev, spec, &result)
                     : run_model(ranks, html || chrome, &result);
    if (status < 0) {
        if (cli_is_standard(html) || cli_is_standard(chrome))
            ; /* standard output has the file */
        else if (json)
            run_print_json(&result, timeline);
        else
            run_print(&result);
        status = result.prediction.run.deadlock ? EXIT_FAILED : EXIT_FINE;
        if ((html || chrome) && run_write(&result, &props, html, chrome))
            status = EXIT_FAILED;
    }
    run_result_free(&result);
    cli_ranks_free(ranks);
    return status;
}

int weir_cmd_run(int argc, char **argv)
{
    const char *spec = NULL, *html = NULL, *chrome = NULL;
    bool json = false, timeline = false;
    const struct cli_option options[] = {
        {"--device", "SPEC", "what to run on, such as npu:a3; $WEIR_DEVICE or cpu", NULL, &spec},
        {"--ranks", "N", "the same graph on N devices", NULL, NULL},
        {"--rank", "R=FILE", "the graph of rank R; once for each rank", NULL, NULL},
        {"--timeline", NULL, "with --json: when every node ran", &timeline, NULL},
        {"--html", "FILE", "write the timeline page, for a browser; - is standard output", NULL,
         &html},
        {"--trace", "FILE", "write the trace, for weir trace and Perfetto; - is standard output",
         NULL, &chrome},
        {"--json", NULL, "for machines", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "run",
        .synopsis = "FILE [--ranks N] [--device SPEC] | --rank R=FILE... [--device SPEC]",
        .about =
            "Runs a graph file and says how long it takes and why: the makespan, the same on one\n"
            "stream, what dependencies alone would take, what each engine and stream did, which\n"
            "communication nothing hides, and the steps that decided the makespan. On npu:PROFILE\n"
            "the time is modelled and a deadlock is reported; on cpu it is measured, each rank on\n"
            "a device of its own, and collectives meet in the groups that the files name.",
        .options = options,
        .examples = "  weir run examples/graphs/moe_profile.pbtxt --device npu:a3\n"
                    "  weir run examples/graphs/moe_profile.pbtxt --device npu:a3 --html moe.html\n"
                    "  weir run layer.pbtxt --device npu:910b4,policy=batch,overhead=off --json\n"
                    "  weir run --rank 0=first.pbtxt --rank 1=second.pbtxt --device npu:a2\n",
        .max_words = 1,
        .words = "FILE",
    };
    struct cli_ranks ranks = {0};
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
    if (cli_is_standard(html) && cli_is_standard(chrome)) {
        fputs("weir run: standard output takes one file, --html or --trace\n", stderr);
        cli_ranks_free(&ranks);
        return EXIT_USAGE;
    }
    if ((st = weir_device_open(spec, &dev))) {
        cli_ranks_free(&ranks);
        return cli_complain("run", st);
    }
    status = run_on(dev, spec, &ranks, json, timeline, html, chrome);
    weir_device_close(dev);
    return status;
}
