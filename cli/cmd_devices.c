/* `weir devices`: the drivers of this build and the devices they open. */
#include "commands.h"
#include "json.h"
#include "term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DRIVERS = 16, MAX_ENGINES = 8 };

static const struct {
    unsigned bit;
    const char *name, *text;
} features[] = {
    {WEIR_FEATURE_REAL_TIME, "real_time", "real time"},
    {WEIR_FEATURE_SPLIT_CORES, "split_cores", "cube and vector cores apart"},
    {WEIR_FEATURE_HOST_MEMORY, "host_memory", "reads host memory"},
    {WEIR_FEATURE_TIMING, "timing", "timed events"},
};

struct listing {
    weir_driver_info drivers[MAX_DRIVERS];
    size_t ndrivers;
    const char *default_spec;
    weir_device_props *devices;
    size_t ndevices;
    weir_engine_info engines[MAX_ENGINES];
    size_t nengines;
};

static void print_json(const struct listing *l)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_string(&j, "default", l->default_spec);
    json_array(&j, "drivers");
    for (size_t i = 0; i < l->ndrivers; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", l->drivers[i].name);
        json_string(&j, "summary", l->drivers[i].summary);
        json_bool(&j, "available", !l->drivers[i].reason);
        json_string(&j, "reason", l->drivers[i].reason);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "devices");
    for (size_t i = 0; i < l->ndevices; i++) {
        const weir_device_props *p = &l->devices[i];

        json_object(&j, NULL);
        json_string(&j, "name", p->name);
        json_string(&j, "model", p->model);
        json_object(&j, "cores");
        json_int(&j, "cube", p->cores.cube);
        json_int(&j, "vector", p->cores.vector);
        json_object_end(&j);
        json_int(&j, "threads", p->threads);
        json_int(&j, "priority_most", p->priority_most);
        json_int(&j, "priority_least", p->priority_least);
        json_int(&j, "memory_bytes", (int64_t)p->memory_bytes);
        json_array(&j, "features");
        for (size_t f = 0; f < sizeof features / sizeof *features; f++)
            if (p->features & features[f].bit)
                json_string(&j, NULL, features[f].name);
        json_array_end(&j);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "engines");
    for (size_t i = 0; i < l->nengines; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", l->engines[i].name);
        json_string(&j, "promise", l->engines[i].promise);
        json_bool(&j, "available", !l->engines[i].reason);
        json_string(&j, "reason", l->engines[i].reason);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

static void print_device(const weir_device_props *p)
{
    const char *comma = "";

    printf("\n%s%s%s\n", term_on(TERM_BOLD), p->name, term_off());
    printf("  model       %s\n", p->model);
    if (p->features & WEIR_FEATURE_SPLIT_CORES)
        printf("  cores       %d cube, %d vector\n", p->cores.cube, p->cores.vector);
    else
        printf("  cores       %d, for cube and vector alike\n", p->cores.cube);
    if (p->threads)
        printf("  threads     %d\n", p->threads);
    printf("  memory      up to %s\n", term_bytes(p->memory_bytes).text);
    printf("  priorities  %d (most urgent) to %d\n", p->priority_most, p->priority_least);
    printf("  features    ");
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (p->features & features[i].bit) {
            printf("%s%s", comma, features[i].text);
            comma = ", ";
        }
    printf("\n");
}

/* Prints the engines that connect ranks in different processes. */
static void print_engines(const struct listing *l)
{
    printf("\n%sbetween processes%s\n", term_on(TERM_BOLD), term_off());
    for (size_t i = 0; i < l->nengines; i++) {
        const weir_engine_info *e = &l->engines[i];

        printf("  %-10s  %s\n", e->name, e->promise);
        if (e->reason)
            printf("  %-10s  not here: %s\n", "", e->reason);
    }
}

static void print_text(const struct listing *l)
{
    static const struct term_column columns[] = {
        {"driver", false}, {"available", false}, {"what it runs on", false}};
    struct term_table t = {.columns = columns, .ncolumns = sizeof columns / sizeof *columns};

    for (size_t i = 0; i < l->ndrivers; i++) {
        const weir_driver_info *d = &l->drivers[i];

        term_table_add(&t, (const char *const[]){d->name, d->reason ? "no" : "yes", d->summary});
    }
    term_table_print(&t, 0);
    for (size_t i = 0; i < l->ndrivers; i++)
        if (l->drivers[i].reason) {
            char why[512];

            snprintf(why, sizeof why, "%s: %s", l->drivers[i].name, l->drivers[i].reason);
            printf("\n");
            term_paragraph(0, why);
        }
    for (size_t i = 0; i < l->ndevices; i++)
        print_device(&l->devices[i]);
    print_engines(l);
    printf("\ndefault: %s%s\n", l->default_spec,
           getenv("WEIR_DEVICE") ? " (from WEIR_DEVICE)" : "");
}

static weir_status describe(const char *spec, weir_device_props *out)
{
    weir_device *dev;
    weir_status st = weir_device_open(spec, &dev);

    if (st)
        return st;
    weir_device_get_props(dev, out, sizeof *out);
    return weir_device_close(dev);
}

static bool is_listed(const struct listing *l, const char *spec)
{
    for (size_t i = 0; i < l->ndrivers; i++)
        if (!strcmp(l->drivers[i].name, spec))
            return true;
    return false;
}

/* Describes the requested devices. If none are requested: the device that each driver opens by its
 * name alone, and the default device if it is another one. */
static weir_status describe_all(struct listing *l, char **words, int nwords)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < nwords && !st; i++)
        st = describe(words[i], &l->devices[l->ndevices++]);
    if (nwords)
        return st;
    for (size_t i = 0; i < l->ndrivers && !st; i++)
        if (!l->drivers[i].reason)
            st = describe(l->drivers[i].name, &l->devices[l->ndevices++]);
    if (!st && !is_listed(l, l->default_spec))
        st = describe(l->default_spec, &l->devices[l->ndevices++]);
    return st;
}

int weir_cmd_devices(int argc, char **argv)
{
    bool json = false;
    const struct cli_option options[] = {
        {"--json", NULL, "a JSON document instead of text", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "devices",
        .synopsis = "[--json] [SPEC...]",
        .about =
            "Lists the drivers, why one cannot be used here, and the properties of the devices\n"
            "that open: those of the given specs, or what each driver opens by default.",
        .options = options,
        .examples = "  weir devices\n"
                    "  weir devices cpu:cores=4 cpu:cube=24,vector=48\n"
                    "  weir devices --json | jq .devices[0].cores\n",
        .max_words = argc,
        .words = "SPEC",
    };
    struct listing l = {.default_spec = getenv("WEIR_DEVICE")};
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    weir_status st;

    if (status >= 0)
        return status;
    if (!l.default_spec)
        l.default_spec = "cpu";
    l.ndrivers = weir_driver_list(l.drivers, sizeof *(l.drivers), MAX_DRIVERS);
    if (l.ndrivers > MAX_DRIVERS)
        l.ndrivers = MAX_DRIVERS;
    l.nengines = weir_engine_list(l.engines, sizeof *l.engines, MAX_ENGINES);
    if (l.nengines > MAX_ENGINES)
        l.nengines = MAX_ENGINES;
    if (!(l.devices = calloc(l.ndrivers + (size_t)nwords + 1, sizeof *l.devices))) {
        fputs("weir devices: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    if ((st = describe_all(&l, argv + 1, nwords)))
        status = cli_complain("devices", st);
    else
        (json ? print_json : print_text)(&l);
    free(l.devices);
    return st ? status : EXIT_FINE;
}
