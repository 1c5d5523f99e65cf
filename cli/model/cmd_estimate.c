/* `weir estimate`: predicts how fast a language model will be on a modelled device. */
#include "model/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "ranks.h"

enum { MOST_CORES = 65535 }; /* of one kind on a die */

/* The texts of the options, before they are checked. */
struct words {
    const char *spec, *ranks, *tp, *ep, *pp, *batch, *prompt, *output, *quant, *placement, *mtp;
    const char *cores, *imbalance, *jitter, *ttft, *tpot, *most, *graph, *prefill_graph;
    const char *chunk, *serve, *prefill_ranks, *rate, *html;
    bool search, json, prefetch, prolog, spread;
};

static int bad_value(const char *option, const char *value, const char *what)
{
    fprintf(stderr, "weir estimate: %s is '%s', not %s\n", option, value, what);
    return EXIT_USAGE;
}

/* returns  -1, or the exit status after printing an error. */
static int read_number(const char *option, const char *value, double least, double most,
                       double *out)
{
    char *end, what[64];

    if (!value)
        return -1;
    *out = strtod(value, &end);
    if (end != value && !*end && *out >= least && *out <= most)
        return -1;
    snprintf(what, sizeof what, "a number in %g..%g", least, most);
    return bad_value(option, value, what);
}

/* The same for a whole number. */
static int read_whole(const char *option, const char *value, double least, double most, double *out)
{
    int status = read_number(option, value, least, most, out);

    return status < 0 && value && *out != floor(*out) ? bad_value(option, value, "a whole number")
                                                      : status;
}

static int read_count(const char *option, const char *value, uint32_t *out)
{
    double number = *out;
    int status = read_whole(option, value, 1, 1e6, &number);

    *out = (uint32_t)number;
    return status;
}

static int read_name(const char *option, const char *value, const char *const *names, int n,
                     int *out)
{
    char what[80] = "one of";

    if (!value)
        return -1;
    for (int i = 0; i < n; i++) {
        if (!strcmp(value, names[i])) {
            *out = i;
            return -1;
        }
        snprintf(what + strlen(what), sizeof what - strlen(what), " %s", names[i]);
    }
    return bad_value(option, value, what);
}

/* Reads cube and vector cores, such as "16+32". */
static int read_cores(const char *value, struct weir__deploy *d)
{
    unsigned long cube, vector = 0;
    char *end;

    if (!value)
        return -1;
    cube = strtoul(value, &end, 10);
    if (*end == '+')
        vector = strtoul(end + 1, &end, 10);
    /* strtoul accepts signs and blanks, which are invalid in a count. */
    if (strspn(value, "0123456789+") != strlen(value) || strstr(value, "++") || *end || !cube ||
        !vector || cube > MOST_CORES || vector > MOST_CORES)
        return bad_value("--attention-cores", value, "cube and vector cores such as 16+32");
    d->cube = (unsigned)cube;
    d->vector = (unsigned)vector;
    return -1;
}

static int read_deploy(const struct words *w, struct weir__deploy *d)
{
    int quant = WEIR__QUANT_BF16, placement = WEIR__PLACE_SINGLE, status;

    weir__deploy_init(d);
    if ((status = read_count("--ranks", w->ranks, &d->ranks)) >= 0 ||
        (status = read_count("--tp", w->tp, &d->tp)) >= 0 ||
        (status = read_count("--ep", w->ep, &d->ep)) >= 0 ||
        (status = read_count("--pp", w->pp, &d->pp)) >= 0 ||
        (status = read_whole("--batch", w->batch, 1, 1e6, &d->batch)) >= 0 ||
        (status = read_whole("--prompt", w->prompt, 1, 1e7, &d->prompt)) >= 0 ||
        (status = read_whole("--output", w->output, 0, 1e7, &d->output)) >= 0 ||
        (status = read_whole("--chunk", w->chunk, 1, 1e6, &d->chunk)) >= 0 ||
        (status = read_number("--mtp", w->mtp, 0, 1, &d->accept)) >= 0 ||
        (status = read_cores(w->cores, d)) >= 0 ||
        (status = read_number("--imbalance", w->imbalance, 1, 100, &d->imbalance)) >= 0 ||
        (status = read_number("--jitter", w->jitter, 0, 1, &d->jitter)) >= 0 ||
        (status = read_name("--quant", w->quant, weir__quant_names, 4, &quant)) >= 0 ||
        (status = read_name("--placement", w->placement, weir__placement_names, 3, &placement)) >=
            0)
        return status;
    d->quant = (enum weir__quant)quant;
    d->placement = (enum weir__placement)placement;
    d->prefetch = w->prefetch;
    d->prolog = w->prolog;
    d->spread = w->spread;
    return -1;
}

static weir_status write_text(FILE *f, const void *user)
{
    const struct weir__text *text = user;

    (void)fwrite(text->data, 1, text->size, f); /* the caller checks for errors at the end */
    return WEIR_OK;
}

static int write_graph(const struct estimate_job *job, bool prefill, const char *wanted)
{
    struct weir__text text = {0};
    struct cli_output out;
    weir_status st;
    int status;

    if (!wanted)
        return EXIT_FINE;
    if ((status = cli_output_open("estimate", wanted, &out)) >= 0)
        return status;
    if (!(st = weir__estimate_graph(&job->llm, &job->d,
                                    &(struct weir__model_step){.prefill = prefill},
                                    &job->dev->model->profile, &text)))
        st = weir__file_write(out.path, write_text, &text);
    weir__text_free(&text);
    return cli_output_close("estimate", &out, st ? cli_complain("estimate", st) : EXIT_FINE);
}

static int estimate_once(struct estimate_job *job, const struct words *w)
{
    struct weir__estimate e;
    weir_status st = weir__estimate_model(job->dev, &job->llm, &job->d, &e);
    int status;

    if (st)
        return st == WEIR_EINVAL ? (cli_complain("estimate", st), EXIT_USAGE)
                                 : cli_complain("estimate", st);
    job->as_asked = job->d.placement == e.d.placement;
    job->d = e.d;
    if (cli_is_standard(w->graph) || cli_is_standard(w->prefill_graph))
        ; /* standard output gets the graph */
    else if (job->json)
        estimate_print_json(job, &e);
    else
        estimate_print(job, &e);
    weir__estimate_fini(&e);
    status = write_graph(job, false, w->graph);
    return status ? status : write_graph(job, true, w->prefill_graph);
}

/* True for a graph file (of weir, or a dump of a compiled model); false for a config.json. */
static bool is_graph(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && (!strcmp(dot, ".pbtxt") || !strcmp(dot, ".txt"));
}

static int estimate(struct estimate_job *job, const struct words *w)
{
    bool graph = is_graph(job->path);
    weir_status st = graph ? WEIR_OK : weir__llm_load(job->path, &job->llm);
    int status;

    if (st) {
        cli_complain("estimate", st);
        return EXIT_USAGE;
    }
    if (graph && (w->search || w->serve || w->graph || w->prefill_graph)) {
        fprintf(stderr,
                "weir estimate: %s is a graph: only a config.json can be searched, served "
                "and written as one\n",
                job->path);
        return EXIT_USAGE;
    }
    if ((status = cli_open_model("estimate", w->spec, "npu:a3", &job->dev)) >= 0)
        return status;
    status = graph       ? estimate_file(job)
             : w->search ? estimate_search(job)
             : w->serve  ? estimate_serve(job)
                         : estimate_once(job, w);
    weir_device_close(job->dev);
    return status;
}

/* Reads the values of the options, then estimates. */
static int run(struct words *w, const char *path)
{
    struct estimate_job job = {.max_batch = 512};
    int status;

    if (cli_is_standard(w->graph) && cli_is_standard(w->prefill_graph)) {
        fputs("weir estimate: standard output takes one file, --graph or --prefill-graph\n",
              stderr);
        return EXIT_USAGE;
    }
    job.path = path;
    job.json = w->json;
    if ((status = read_deploy(w, &job.d)) >= 0 ||
        (status = read_number("--ttft", w->ttft, 0.001, 1e9, &job.ttft)) >= 0 ||
        (status = read_number("--tpot", w->tpot, 0.001, 1e9, &job.tpot)) >= 0 ||
        (status = read_whole("--max-batch", w->most, 1, 1e6, &job.max_batch)) >= 0 ||
        (status = read_count("--prefill-ranks", w->prefill_ranks, &job.prefill_ranks)) >= 0 ||
        (status = read_number("--rate", w->rate, 1e-6, 1e6, &job.rate)) >= 0)
        return status;
    if (w->search && w->serve) {
        fputs("weir estimate: --search and --serve cannot be combined: give one of them\n", stderr);
        return EXIT_USAGE;
    }
    job.html = w->html;
    job.requests = w->serve;
    return estimate(&job, w);
}

int weir_cmd_estimate(int argc, char **argv)
{
    struct words w = {0};
    const struct cli_option options[] = {
        {"--device", "SPEC", "the modelled device of each rank; npu:a3", NULL, &w.spec},
        {"--ranks", "N", "dies in all; 1", NULL, &w.ranks},
        {"--tp", "N", "dies that share the heads; 1", NULL, &w.tp},
        {"--pp", "N", "stages of layers; 1", NULL, &w.pp},
        {"--ep", "N", "dies that share the experts; all of a stage", NULL, &w.ep},
        {"--batch", "N", "sequences of one replica (tp x pp dies); 1", NULL, &w.batch},
        {"--prompt", "N", "tokens of a prompt; 1024", NULL, &w.prompt},
        {"--output", "N", "tokens of an answer; 256", NULL, &w.output},
        {"--quant", "TYPE", "bf16, w8a8, w4a8 or fp8", NULL, &w.quant},
        {"--placement", "HOW", "single, shared (expert on its stream) or microbatch (two)", NULL,
         &w.placement},
        {"--attention-cores", "C+V", "of microbatches: cube and vector cores; the best of three",
         NULL, &w.cores},
        {"--prefetch", NULL, "bring experts' weights to the second level beside dispatch",
         &w.prefetch, NULL},
        {"--prolog", NULL, "MLA: what the cache gets on a stream of its own", &w.prolog, NULL},
        {"--spread", NULL, "MLA prefill: heads over all dies, tokens for the rest", &w.spread,
         NULL},
        {"--chunk", "N", "tokens of prompts that ride with each decode step; none", NULL, &w.chunk},
        {"--mtp", "SHARE", "draft one token a step; the share that is accepted", NULL, &w.mtp},
        {"--imbalance", "X", "load of the fullest die's experts, of the mean; by their number",
         NULL, &w.imbalance},
        {"--jitter", "X", "by how much dies differ before an exchange, of the mean; 0.0094", NULL,
         &w.jitter},
        {"--graph", "FILE", "write the decode step as a graph file; - is standard output", NULL,
         &w.graph},
        {"--prefill-graph", "FILE", "write the prefill as a graph file", NULL, &w.prefill_graph},
        {"--search", NULL, "find parallelism, batch, placement and core limits", &w.search, NULL},
        {"--ttft", "MS", "with --search: the most until the first token", NULL, &w.ttft},
        {"--tpot", "MS", "with --search: the most between tokens", NULL, &w.tpot},
        {"--max-batch", "N", "with --search or --serve: the largest batch; 512", NULL, &w.most},
        {"--html", "FILE", "with --search or --serve: charts; - is standard output", NULL, &w.html},
        {"--serve", "FILE", "requests as they arrive, a JSON object a line", NULL, &w.serve},
        {"--prefill-ranks", "N", "with --serve: of the ranks, those that only take prompts", NULL,
         &w.prefill_ranks},
        {"--rate", "X", "with --serve: arrivals come X times faster; 1", NULL, &w.rate},
        {"--json", NULL, "for machines", &w.json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "estimate",
        .synopsis = "MODEL [--device SPEC] [--ranks N] [options]",
        .about = "Says how fast a language model will be: time to the first token, time between "
                 "tokens,\n"
                 "tokens a second, what bounds each part of a layer, and what fits into memory, "
                 "with the\n"
                 "range that the profile's error leaves. MODEL is a config.json as Hugging Face "
                 "has it\n"
                 "(Llama, Qwen2 and 3, Qwen-MoE, Mixtral, DeepSeek-V2, V3 and R1, GPT-OSS), or a "
                 "graph\n"
                 "file (.pbtxt), such as a compiled model's dump. --search finds the deployments "
                 "that\n"
                 "decode most under limits of latency; --serve takes requests as they arrive\n"
                 "({\"timestamp\": ms, \"input_length\": n, \"output_length\": n, \"hash_ids\": "
                 "[...]}).",
        .options = options,
        .examples =
            "  weir estimate config.json --device npu:a3 --ranks 320 --quant w8a8 --batch 48 \\\n"
            "      --prompt 4096 --mtp 0.7 --placement microbatch\n"
            "  weir estimate config.json --ranks 16 --tp 8 --graph step.pbtxt\n"
            "  weir estimate config.json --ranks 32 --quant w8a8 --search --tpot 50 --html s.html\n"
            "  weir estimate config.json --ranks 64 --quant w8a8 --serve trace.jsonl --chunk 512\n"
            "  weir estimate config.json --ranks 64 --serve trace.jsonl --prefill-ranks 32\n",
        .max_words = 1,
        .words = "FILE",
    };
    int nwords, status;

    if ((status = cli_parse(&usage, argc, argv, &nwords)) >= 0)
        return status;
    if (!nwords) {
        fputs("weir estimate: which model? Name its config.json\ntry: weir estimate --help\n",
              stderr);
        return EXIT_USAGE;
    }
    return run(&w, argv[1]);
}
