/* Writes the files that `weir cann run` asks for: the timeline (WEIR_CANN_TRACE, a file) and the
 * races (WEIR_CANN_REPORTS, a directory). Each process writes its own. */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool begun, ended;

/* Adds the rank to the name: t.json becomes t.rank1.json on rank 1. */
static void own_name(const char *path, char *out, size_t size)
{
    const char *rank = getenv("RANK"), *dot = strrchr(path, '.');

    if (!rank || !*rank || !strcmp(rank, "0"))
        snprintf(out, size, "%s", path);
    else if (!dot || strchr(dot, '/'))
        snprintf(out, size, "%s.rank%s", path, rank);
    else
        snprintf(out, size, "%.*s.rank%s%s", (int)(dot - path), path, rank, dot);
}

static void write_trace(const char *path)
{
    const weir_trace *one;
    weir_trace *trace;
    weir_status st;
    char name[4096];
    size_t n;

    if (weir_trace_stop(&trace))
        return;
    own_name(path, name, sizeof name);
    one = trace;
    n = strlen(name);
    st = n > 5 && !strcmp(name + n - 5, ".html") ? weir_trace_write_html(&one, NULL, 1, name)
                                                 : weir_trace_write_chrome(trace, name);
    if (st)
        fprintf(stderr, "weir: %s\n", weir_last_error());
    weir_trace_free(trace);
}

static void write_races(const char *directory)
{
    weir_race_stats stats;
    char path[4096], *text;
    FILE *file;

    weir_race_get_stats(&stats, sizeof stats);
    snprintf(path, sizeof path, "%s/%s.%d", directory, stats.races ? "races" : "clean",
             (int)getpid());
    if (!(text = weir_race_report()))
        return;
    if ((file = fopen(path, "w"))) {
        fputs(text, file);
        fclose(file);
    }
    free(text);
}

void report_end(void)
{
    const char *trace = getenv("WEIR_CANN_TRACE"), *reports = getenv("WEIR_CANN_REPORTS");

    if (!begun || atomic_exchange(&ended, true))
        return;
    for (uint32_t i = 0; i < device_count(); i++) {
        struct device *d = device_opened((int32_t)i);

        if (d)
            weir_device_sync(d->dev);
    }
    if (trace && *trace)
        write_trace(trace);
    if (reports && *reports)
        write_races(reports);
}

void report_begin(void)
{
    const char *trace = getenv("WEIR_CANN_TRACE"), *reports = getenv("WEIR_CANN_REPORTS");

    if (((!trace || !*trace) && (!reports || !*reports)) || atomic_exchange(&begun, true))
        return;
    if (reports && *reports)
        source_want();
    if (trace && *trace && weir_trace_start(NULL))
        fprintf(stderr, "weir: %s\n", weir_last_error());
    atexit(report_end);
}

/* A forked child starts without a recording of its own. */
void report_forget(void)
{
    begun = ended = false;
}
