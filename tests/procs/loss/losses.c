#define _GNU_SOURCE
#include "procs/loss/losses.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "harness/test.h"

#define MOST_MS 1000.0
/* Of the processors' time, taken by other programs: more, and the machine is busy. */
#define BUSY 0.1

const struct loss_way loss_ways[HOWS] = {
    [KILL] = {SIGKILL, "died", "killed"},
    [STOP] = {SIGSTOP, "is stopped", "stopped"},
    [TERMINATE] = {SIGTERM, "died", "terminated"},
    [CUT] = {0, "is gone: its connection was cut", "cut off"},
};

static struct {
    double *ms;
    int n, room;
} times[HOWS];
static double began_s, began_own_s, began_all_s;

int64_t clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t number_after(const char *text, const char *before)
{
    int64_t number = 0;

    while ((text = strstr(text, before))) {
        text += strlen(before);
        number = strtoll(text, NULL, 10);
    }
    return number;
}

/* Seconds of processors that this process and those it has waited for have taken. */
static double own_seconds(void)
{
    double s = 0;

    for (int i = 0; i < 2; i++) {
        struct rusage r;

        getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &r);
        s += (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
             1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    }
    return s;
}

/* Seconds in which a processor of this machine had something to do. */
static double all_seconds(void)
{
    FILE *file = fopen("/proc/stat", "r");
    double t[8] = {0}, s = 0;

    if (file && fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3],
                       &t[4], &t[5], &t[6], &t[7]) == 8)
        for (int i = 0; i < 8; i++)
            s += i == 3 || i == 4 ? 0 : t[i]; /* idle, and waiting for a disk */
    if (file)
        fclose(file);
    return s / (double)sysconf(_SC_CLK_TCK);
}

/* The share of the processors that other programs took since the first run. */
static double others_share(void)
{
    double wall = 1e-9 * (double)clock_now() - began_s;
    double others = all_seconds() - began_all_s - (own_seconds() - began_own_s);

    return others < 0 ? 0 : others / wall / (double)sysconf(_SC_NPROCESSORS_ONLN);
}

void losses_begin(void)
{
    if (began_s > 0)
        return;
    began_s = 1e-9 * (double)clock_now();
    began_own_s = own_seconds();
    began_all_s = all_seconds();
}

int losses_runs(int usual)
{
    return getenv("WEIR_SOAK") ? atoi(getenv("WEIR_SOAK")) : usual;
}

unsigned losses_seed(unsigned usual)
{
    unsigned seed = getenv("WEIR_SOAK") ? (unsigned)time(NULL) : usual;

    printf("seed %u\n", seed);
    return seed;
}

void losses_add(enum how how, int64_t lost_ns, const char *text)
{
    int64_t said_ns = number_after(text, "error at ");
    double ms = 1e-6 * (double)(said_ns - lost_ns);

    CHECK(lost_ns > 0 && said_ns > 0);
    /* One that did not wait for the lost rank any more would have learned of another loss. */
    if (said_ns < lost_ns)
        FAIL("the error is %lld ns older than the loss: %s", (long long)(lost_ns - said_ns), text);
    if (times[how].n == times[how].room) {
        times[how].room = 2 * times[how].room + 64;
        times[how].ms = realloc(times[how].ms, (size_t)times[how].room * sizeof(double));
        CHECK(times[how].ms);
    }
    times[how].ms[times[how].n++] = ms;
    if (ms > MOST_MS)
        printf("%.0f ms after a rank was %s: %s\n", ms, loss_ways[how].name, text);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts them. Returns the longest. */
static double print_row(FILE *to, const char *name, double *ms, int n)
{
    int late = 0;

    qsort(ms, (size_t)n, sizeof *ms, compare);
    for (int i = 0; i < n; i++)
        late += ms[i] > MOST_MS;
    fprintf(to, "  %-12s %7d %9.1f %9.1f %9.1f %6d\n", name, n, ms[n / 2],
            ms[(n * 99 + 99) / 100 - 1], ms[n - 1], late);
    return ms[n - 1];
}

static double print_table(FILE *to, const char *title, double share)
{
    double *all = NULL, worst = 0;
    int n = 0;

    for (int way = 0; way < HOWS; way++)
        n += times[way].n;
    if (!n || !(all = malloc((size_t)n * sizeof *all)))
        return 0;
    n = 0;
    fprintf(to, "%s; other programs took %.0f %% of the processors\n", title, 100 * share);
    fprintf(to, "  %-12s %7s %9s %9s %9s %6s\n", "a rank is", "errors", "median ms", "p99 ms",
            "worst ms", "> 1 s");
    for (int way = 0; way < HOWS; way++)
        if (times[way].n) {
            memcpy(all + n, times[way].ms, (size_t)times[way].n * sizeof *all);
            n += times[way].n;
            print_row(to, loss_ways[way].name, times[way].ms, times[way].n);
        }
    worst = print_row(to, "any of these", all, n);
    free(all);
    return worst;
}

void losses_report(const char *title)
{
    const char *path = getenv("WEIR_SOAK_TABLE");
    FILE *file = path ? fopen(path, "a") : NULL;
    double share = others_share(), worst;

    CHECK(!path || file);
    if (file) {
        print_table(file, title, share);
        CHECK(!fclose(file));
    }
    worst = print_table(stdout, title, share);
    for (int way = 0; way < HOWS; way++) {
        free(times[way].ms);
        memset(&times[way], 0, sizeof times[way]);
    }
    began_s = 0;
    if (getenv("WEIR_SOAK") && worst > MOST_MS && share < BUSY)
        FAIL("%s: a rank was named after %.0f ms on a machine that was not busy", title, worst);
}
