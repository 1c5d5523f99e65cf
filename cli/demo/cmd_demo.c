/* `weir demo`: shows and measures what streams do. */
#include "../bench/harness.h"
#include "commands.h"
#include "demo/demo.h"
#include "term.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void demo_must(weir_status status)
{
    if (status)
        exit(cli_complain("demo", status));
}

void demo_headline(int number, const char *title, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("\n%s%d  %s%s\n", term_on(TERM_BOLD), number, title, term_off());
    term_paragraph(3, text);
    printf("\n");
}

void demo_verdict(bool held, const char *text)
{
    const char *mark = term_get()->unicode ? (held ? "✓" : "✗") : (held ? "ok" : "WRONG");

    printf("   %s%s%s %s\n", term_on(held ? TERM_GOOD : TERM_BAD), mark, term_off(), text);
}

/* Returns how much faster two threads compute than one, which bounds the gain of two streams: two
 * hardware threads may share a core. Takes the best of three measurements, as other programs only
 * slow a measurement down. Limited to 2: a higher ratio means that they slowed the single
 * thread. */
static double two_over_one(void)
{
    double ratio = 0;

    for (int i = 0; i < 3; i++)
        ratio = fmax(ratio, bench_fma_ratio());
    return fmin(ratio, 2);
}

void demo_watch_begin(struct demo_watch *w)
{
    w->foreign = bench_foreign_seconds();
    w->start_ns = bench_now_ns();
}

double demo_watch_end(const struct demo_watch *w)
{
    double foreign = bench_foreign_seconds() - w->foreign;

    return fmax(0, foreign / ((bench_now_ns() - w->start_ns) * 1e-9));
}

static void print_machine(weir_device *dev, struct json *j)
{
    weir_device_props p;
    double ratio;

    weir_device_get_props(dev, &p, sizeof p);
    ratio = p.threads > 1 ? two_over_one() : 1;
    if (j) {
        json_string(j, "weir", weir_version());
        json_string(j, "device", p.name);
        json_string(j, "model", p.model);
        json_int(j, "threads", p.threads);
        json_number(j, "two_threads_over_one", ratio);
        return;
    }
    printf("%sweir %s%s on device %s: %s, ", term_on(TERM_BOLD), weir_version(), term_off(), p.name,
           p.model);
    if (p.features & WEIR_FEATURE_SPLIT_CORES)
        printf("%d cube and %d vector cores", p.cores.cube, p.cores.vector);
    else
        printf("%d core%s", p.cores.cube, p.cores.cube == 1 ? "" : "s");
    printf(" on %d thread%s\n", p.threads, p.threads == 1 ? "" : "s");
    if (p.threads > 1)
        printf(
            "Two of its threads do %.2fx the arithmetic of one: two streams can gain that much.\n",
            ratio);
}

/* Times are unreliable on a machine that runs other programs: prints how much they took. */
static void print_disturbance(double share, struct json *j)
{
    if (j)
        json_number(j, "foreign_share", share);
    else if (share > DEMO_BUSY_SHARE)
        printf(
            "\nMeanwhile other programs, or the hypervisor, took %.0f %% of a core: expect better "
            "times without them.\n",
            100 * share);
}

static bool run_parts(weir_device *dev, const struct demo_page *page, struct json *j)
{
    struct demo_watch watch;
    bool fine = true;

    demo_watch_begin(&watch);
    print_machine(dev, j);
    fine &= demo_moe(dev, j);
    fine &= demo_overlap(dev, j);
    fine &= demo_lifetime(dev, j);
    fine &= demo_graph(page, j);
    fine &= demo_cards(j);
    fine &= demo_deadlock(j);
    fine &= demo_race(j);
    print_disturbance(demo_watch_end(&watch), j);
    return fine;
}

/* Redirects standard output to `file` and returns the old descriptor. With `--html -` this sends
 * the report of every part to standard error. */
static int point_stdout(int file)
{
    int was;

    fflush(stdout);
    was = dup(STDOUT_FILENO);
    dup2(file, STDOUT_FILENO);
    close(file);
    return was;
}

int weir_cmd_demo(int argc, char **argv)
{
    bool json = false, fine;
    const char *spec = NULL, *page = "weir-demo.html";
    const struct cli_option options[] = {
        {"--device", "SPEC", "the device (default: WEIR_DEVICE, or cpu)", NULL, &spec},
        {"--html", "FILE", "the timeline page (default: weir-demo.html here); - is standard output",
         NULL, &page},
        {"--json", NULL, "a JSON document instead of text", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "demo",
        .synopsis = "[--device SPEC] [--html FILE] [--json]",
        .about =
            "Runs small programs, checks their numbers and shows what happened when: a\n"
            "mixture-of-experts layer with its shared expert beside the others; two chains of\n"
            "matrix products on one stream and on two; memory freed while another stream reads\n"
            "it; a graph on three streams, on the host and on a modelled Ascend die; what streams\n"
            "bring a large model on 64 modelled dies. Then it finds a deadlock of two cards and a\n"
            "race, each with its cure, and writes a timeline page. Takes some seconds. Exit "
            "status\n"
            "1 if a number is wrong or something is not found.",
        .options = options,
        .examples = "  weir demo\n"
                    "  weir demo --device cpu:cores=1\n"
                    "  weir demo --json | jq '.overlap.forms[] | {name, ms, gain}'\n",
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    struct json j = {.out = NULL};
    struct cli_output file;
    char *document = NULL;
    int standard = -1;
    size_t size;
    weir_device *dev;

    if (status >= 0)
        return status;
    if (json && cli_is_standard(page)) {
        fputs("weir demo: standard output takes one document, --html - or --json\n", stderr);
        return EXIT_USAGE;
    }
    demo_must(weir_device_open(spec, &dev));
    if ((status = cli_output_open("demo", page, &file)) >= 0)
        return status;
    if (cli_is_standard(page))
        standard = point_stdout(dup(STDERR_FILENO));
    if (json) { /* buffered, so that a run that fails prints no partial document */
        j.out = demo_need(open_memstream(&document, &size));
        json_object(&j, NULL);
    }
    fine = run_parts(dev, &(struct demo_page){file.path, page}, json ? &j : NULL);
    if (json) {
        json_bool(&j, "fine", fine);
        json_object_end(&j);
        fclose(j.out);
        fputs(demo_need(document), stdout);
        free(document);
    }
    if (standard >= 0)
        close(point_stdout(standard));
    status = cli_output_close("demo", &file, EXIT_FINE);
    demo_must(weir_device_close(dev));
    return status ? status : fine ? EXIT_FINE : EXIT_FAILED;
}
