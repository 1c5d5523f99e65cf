/* `weir demo`: what streams do, shown and measured. */
#include "commands.h"
#include "demo.h"
#include "term.h"

#include <stdio.h>
#include <stdlib.h>

void demo_must(weir_status status)
{
    if (status)
        exit(cli_complain("demo", status));
}

void demo_headline(int number, const char *title, const char *text)
{
    printf("\n%s%d  %s%s\n", term_on(TERM_BOLD), number, title, term_off());
    term_paragraph(3, text);
    printf("\n");
    fflush(stdout);
}

void demo_verdict(bool held, const char *text)
{
    const char *mark = term_get()->unicode ? (held ? "✓" : "✗") : (held ? "ok" : "WRONG");

    printf("   %s%s%s %s\n", term_on(held ? TERM_GOOD : TERM_BAD), mark, term_off(), text);
}

static void tell_machine(weir_device *dev, struct json *j)
{
    weir_device_props p;

    weir_device_get_props(dev, &p);
    if (j) {
        json_string(j, "weir", weir_version());
        json_string(j, "device", p.name);
        json_string(j, "model", p.model);
        json_int(j, "threads", p.threads);
        return;
    }
    printf("%sweir %s%s on device %s: %s, ", term_on(TERM_BOLD), weir_version(), term_off(),
           p.name, p.model);
    if (p.features & WEIR_FEATURE_SPLIT_CORES)
        printf("%d cube and %d vector cores", p.cores.cube, p.cores.vector);
    else
        printf("%d core%s", p.cores.cube, p.cores.cube == 1 ? "" : "s");
    printf(" on %d thread%s\n", p.threads, p.threads == 1 ? "" : "s");
}

static bool run_parts(weir_device *dev, struct json *j)
{
    bool fine = true;

    tell_machine(dev, j);
    fine &= demo_overlap(dev, j);
    fine &= demo_lifetime(dev, j);
    fine &= demo_moe(dev, j);
    return fine;
}

int weir_cmd_demo(int argc, char **argv)
{
    bool json = false, fine;
    const char *spec = NULL;
    const struct cli_option options[] = {
        {"--device", "SPEC", "the device (default: WEIR_DEVICE, or cpu)", NULL, &spec},
        {"--json", NULL, "a JSON document instead of text", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "demo",
        .synopsis = "[--device SPEC] [--json]",
        .about = "Runs three small programs, checks their numbers and shows what happened when: two\n"
                 "chains of matrix products on one stream and on two; memory freed while another\n"
                 "stream reads it; a mixture-of-experts layer with its shared expert beside the\n"
                 "others. Takes a few seconds. Exit status 1 if a number is wrong.",
        .options = options,
        .examples = "  weir demo\n"
                    "  weir demo --device cpu:cores=1\n"
                    "  weir demo --json | jq '.overlap.forms[] | {name, ms, gain}'\n",
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    struct json j = {.out = stdout};
    weir_device *dev;

    if (status >= 0)
        return status;
    demo_must(weir_device_open(spec, &dev));
    if (json)
        json_object(&j, NULL);
    fine = run_parts(dev, json ? &j : NULL);
    if (json) {
        json_bool(&j, "fine", fine);
        json_object_end(&j);
    }
    demo_must(weir_device_close(dev));
    return fine ? EXIT_FINE : EXIT_FAILED;
}
