/* `weir bench`: measures weir, its peers and the machine on the same workloads ("works") in one
 * run.
 *
 * In each round and for each work all programs take turns, so that noise on the machine affects all
 * of them alike. Each turn runs in its own process and writes JSON lines (bench/harness.h) to a
 * temporary file. */
#include "../bench/report.h"
#include "bench/products.h"
#include "bench/weir/works.h"
#include "commands.h"
#include "progress.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, ROUNDS_QUICK = 2, MAX_PEERS = 32, MAX_WORKS = 256, MAX_NAME = 48 };

static const struct bench_case weir_cases[] = {
    {"chain", 2, weir__bench_chain},
    {"chain_prebuilt", 2, weir__bench_chain_prebuilt},
    {"pingpong", 2, weir__bench_pingpong},
    {"dag_1000_t1", 1, weir__bench_dag},
    {"dag_1000_t2", 2, weir__bench_dag},
    {"fork_join_8", 2, weir__bench_fork_join},
    {"submit_wait", 2, weir__bench_submit_wait},
    BENCH_ON_CORES("chains_64_0us", weir__bench_chains),
    BENCH_ON_CORES("chains_64_1us", weir__bench_chains),
    BENCH_ON_CORES("chains_64_5us", weir__bench_chains),
    BENCH_ON_CORES("chains_64_20us", weir__bench_chains),
    {"overlap_matmul", 2, weir__bench_overlap},
    {"pool_mixed", 1, weir__bench_pool_mixed},
    {"pool_mixed_second", 1, weir__bench_pool_second},
    {"pool_small", 1, weir__bench_pool_small},
    BENCH_MATMULS(weir__bench_product),
    BENCH_MATVECS(weir__bench_product),
    BENCH_ATTENTIONS(weir__bench_attention),
    BENCH_ON_CORES("conv2d", weir__bench_conv2d),
    BENCH_ON_CORES("add_1000x1000", weir__bench_add),
    {"streams_auto", 2, weir__bench_auto},
    {"compile_1k", 1, weir__bench_compile_1k},
    {"compile_10k", 1, weir__bench_compile_10k},
    {"compile_100k", 1, weir__bench_compile_100k},
    {"trace_record", 1, weir__bench_trace},
    {"race_check", 1, weir__bench_race},
    {"model_1m", 1, weir__bench_model_1m},
    {"model_10m", 1, weir__bench_model_10m},
    {"all_reduce_4k", 2, weir__bench_collective},
    {"all_reduce_64k", 2, weir__bench_collective},
    {"all_reduce_1m", 2, weir__bench_collective},
    {"all_reduce_16m", 2, weir__bench_collective},
    {"all_reduce_64m", 2, weir__bench_collective},
    {"reduce_scatter_4k", 2, weir__bench_collective},
    {"reduce_scatter_64k", 2, weir__bench_collective},
    {"reduce_scatter_1m", 2, weir__bench_collective},
    {"reduce_scatter_16m", 2, weir__bench_collective},
    {"reduce_scatter_64m", 2, weir__bench_collective},
    {"idle_cpu", 1, weir__bench_idle},
};

struct options {
    bool json, quick, no_peers;
    const char *only;
    const char *peers;
    const char *device;
    const char *chart;
};

/* A peer program and the works it implements. */
struct peer {
    char path[PATH_MAX];
    const char *name;
    char *works; /* its --list: one per line */
};

struct run {
    struct options options;
    struct bench_report report;
    struct peer peers[MAX_PEERS];
    size_t npeers;
    char works[MAX_WORKS][MAX_NAME];
    size_t nworks;
    int turns, turns_done;
    struct progress progress;
};

/* ---- arguments ---- */

/* returns -1 to continue, or an exit status. */
static int parse(int argc, char **argv, struct options *o)
{
    const struct cli_option options[] = {
        {"--only", "WORK", "one work, or all of a kind: chain, pool, chains_64_*_t16, ...", NULL,
         &o->only},
        {"--quick", NULL, "fewer samples", &o->quick, NULL},
        {"--peers", "DIR", "where the peer programs are; bench/peers beside weir", NULL, &o->peers},
        {"--no-peers", NULL, "weir alone", &o->no_peers, NULL},
        {"--device", "cuda", "the first GPU beside its bare driver, instead of the host", NULL,
         &o->device},
        {"--chart", "FILE", "draws works by cores, as an SVG", NULL, &o->chart},
        {"--json", NULL, "for machines", &o->json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "bench",
        .synopsis = "[--quick] [--only WORK] [--peers DIR | --no-peers] [--chart FILE] [--json] | "
                    "--device cuda",
        .about =
            "Measures weir against other runtimes, libraries and the machine's own limits. "
            "Everyone\n"
            "takes turns, so that a noisy minute hits all alike; each row is a median with its\n"
            "range. Leave the machine alone meanwhile.",
        .options = options,
        .examples =
            "  make bench                      builds the peers and runs everything\n"
            "  weir bench --quick --no-peers   weir alone, in under a minute\n"
            "  weir bench --only pool --json   the memory pool, for machines\n"
            "  weir bench --only chains_64 --chart chains.svg   how chains scale with cores\n"
            "  weir bench --device cuda        the first GPU, one line per figure\n",
        .max_words = 0,
    };
    int nwords;

    return cli_parse(&usage, argc, argv, &nwords);
}

/* ---- turns ---- */

static FILE *open_output(void)
{
    FILE *f = tmpfile();

    if (!f) {
        fprintf(stderr, "weir bench: no temporary file: %s\n", strerror(errno));
        exit(1);
    }
    return f;
}

/* Runs a peer with its output going to `out`. */
static void spawn(const struct peer *p, const char *first, const char *second, FILE *out)
{
    char *const argv[] = {(char *)p->name, (char *)first, (char *)second, NULL};
    pid_t pid = fork();

    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        bench_use_all_cpus(); /* the peer sets its own limit for each work */
        execv(p->path, argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static void take_output(struct run *r, const char *source, FILE *out)
{
    char *line = NULL;
    size_t cap = 0;

    rewind(out);
    while (getline(&line, &cap, out) > 0)
        bench_report_line(&r->report, source, line);
    bench_report_end_source(&r->report);
    free(line);
    fclose(out);
}

static void show_progress(struct run *r, int round, const char *work, const char *source)
{
    progress_show(&r->progress, (double)r->turns_done++ / r->turns, "round %d: %s, %s", round + 1,
                  work, source);
}

static bool peer_has(const struct peer *p, const char *work)
{
    size_t n = strlen(work);

    for (const char *at = p->works; (at = strstr(at, work)); at += n)
        if ((at == p->works || at[-1] == '\n') && at[n] == '\n')
            return true;
    return false;
}

static const struct bench_case *weir_case(const char *work)
{
    for (size_t i = 0; i < sizeof weir_cases / sizeof *weir_cases; i++)
        if (!strcmp(weir_cases[i].work, work))
            return &weir_cases[i];
    return NULL;
}

/* Runs one work with every program. */
static void run_work(struct run *r, int round, const char *work)
{
    const struct bench_case *own = weir_case(work);
    bool quick = r->options.quick;

    if (own) {
        FILE *out = open_output();

        show_progress(r, round, work, "weir");
        bench_run_case(own, quick, fileno(out));
        take_output(r, "weir", out);
    }
    for (size_t i = 0; i < r->npeers; i++) {
        FILE *out;

        if (!peer_has(&r->peers[i], work))
            continue;
        show_progress(r, round, work, r->peers[i].name);
        out = open_output();
        spawn(&r->peers[i], quick ? "--quick" : work, quick ? work : NULL, out);
        take_output(r, r->peers[i].name, out);
    }
}

/* ---- works and peers ---- */

static void add_work(struct run *r, const char *work)
{
    if (r->options.only && !bench_work_matches(work, r->options.only))
        return;
    for (size_t i = 0; i < r->nworks; i++)
        if (!strcmp(r->works[i], work))
            return;
    if (r->nworks < MAX_WORKS)
        snprintf(r->works[r->nworks++], MAX_NAME, "%s", work);
}

static char *ask_for_works(const struct peer *p)
{
    FILE *out = open_output();
    char *text = NULL;
    size_t cap = 0;

    spawn(p, "--list", NULL, out);
    rewind(out);
    if (getdelim(&text, &cap, '\0', out) < 0) {
        free(text);
        text = NULL;
    }
    fclose(out);
    return text;
}

static int is_peer(const struct dirent *entry)
{
    return !strncmp(entry->d_name, "peer_", 5);
}

/* Builds the path of `name` in this program's directory. */
static void find_beside(const char *name, char out[static PATH_MAX])
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = '\0';
    if (strrchr(exe, '/'))
        *strrchr(exe, '/') = '\0';
    if (snprintf(out, PATH_MAX, "%s/%s", exe, name) >= PATH_MAX)
        out[0] = '\0';
}

/* returns false if the directory that the user named contains none. */
static bool find_peers(struct run *r)
{
    char beside[PATH_MAX];
    const char *dir = r->options.peers;
    struct dirent **entries;
    int count;

    if (!dir) {
        find_beside("bench/peers", beside);
        dir = beside;
    }
    count = scandir(dir, &entries, is_peer, alphasort);
    for (int i = 0; i < count; i++) {
        struct peer *p = &r->peers[r->npeers];
        int length = snprintf(p->path, sizeof p->path, "%s/%s", dir, entries[i]->d_name);

        free(entries[i]);
        if (r->npeers + 1 == MAX_PEERS || length >= (int)sizeof p->path || access(p->path, X_OK))
            continue;
        p->name = strrchr(p->path, '/') + 1;
        if ((p->works = ask_for_works(p)))
            r->npeers++;
    }
    if (count >= 0)
        free(entries);
    if (!r->npeers)
        fprintf(stderr, "weir bench: no peer programs in %s%s\n", dir,
                r->options.peers ? "" : ": measuring weir alone");
    return r->npeers || !r->options.peers;
}

/* Lists weir's works first, then those that only peers implement (the machine's limits). */
static void list_works(struct run *r)
{
    for (size_t i = 0; i < sizeof weir_cases / sizeof *weir_cases; i++)
        if (bench_case_fits(&weir_cases[i]))
            add_work(r, weir_cases[i].work);
    for (size_t i = 0; i < r->npeers; i++) {
        const char *at = r->peers[i].works;
        char work[MAX_NAME];

        for (int n; sscanf(at, "%47s%n", work, &n) == 1; at += n)
            add_work(r, work);
    }
}

/* Idling takes two seconds and does not vary: it is measured in one round only. */
static bool takes_part(const char *work, int round)
{
    return round == 0 || strcmp(work, "idle_cpu") != 0;
}

static int count_turns(const struct run *r, int rounds)
{
    int turns = 0;

    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < r->nworks; i++) {
            if (!takes_part(r->works[i], round))
                continue;
            turns += weir_case(r->works[i]) != NULL;
            for (size_t p = 0; p < r->npeers; p++)
                turns += peer_has(&r->peers[p], r->works[i]);
        }
    return turns;
}

/* ---- a GPU ---- */

/* Runs the program that measures a GPU; it is separate because it calls the driver directly. */
static int bench_gpu(const char *spec)
{
    char program[PATH_MAX];
    weir_device *dev;

    if (strcmp(spec, "cuda") && strcmp(spec, "cuda:0")) {
        fprintf(stderr, "weir bench: --device takes cuda, the first GPU, not '%s'\n", spec);
        return 2;
    }
    if (weir_device_open("cuda:0", &dev)) {
        fprintf(stderr, "weir bench: %s\n", weir_last_error());
        return 1;
    }
    (void)weir_device_close(dev);
    find_beside("bench_cuda", program);
    execl(program, program, (char *)NULL);
    fprintf(stderr, "weir bench: %s: %s; `make bench` builds it\n", program, strerror(errno));
    return 1;
}

/* returns an exit status. */
static int write_chart(const struct bench_report *report, const char *path)
{
    FILE *out = fopen(path, "w");
    bool drawn = out && bench_report_chart(report, out);

    if (!out || fclose(out)) {
        fprintf(stderr, "weir bench: %s: %s\n", path, strerror(errno));
        return 1;
    }
    if (!drawn)
        fprintf(stderr,
                "weir bench: %s is empty: no work was measured on several numbers of cores\n",
                path);
    return !drawn;
}

int weir_cmd_bench(int argc, char **argv)
{
    static struct run r;
    int rounds, status = parse(argc, argv, &r.options);
    double foreign, start;

    if (status >= 0)
        return status;
    if (r.options.device)
        return bench_gpu(r.options.device);
    bench_use_two_cpus();
    if (!r.options.no_peers && !find_peers(&r))
        return 2;
    list_works(&r);
    if (!r.nworks) {
        fprintf(stderr, "weir bench: no work is called %s\n", r.options.only);
        return 2;
    }
    rounds = r.options.quick ? ROUNDS_QUICK : ROUNDS;
    r.turns = count_turns(&r, rounds);
    r.progress = progress_begin();

    foreign = bench_foreign_seconds();
    start = bench_now_ns();
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < r.nworks; i++)
            if (takes_part(r.works[i], round))
                run_work(&r, round, r.works[i]);
    r.report.foreign_share =
        (bench_foreign_seconds() - foreign) / ((bench_now_ns() - start) * 1e-9);
    bench_report_finish(&r.report);
    progress_end(&r.progress);

    if (r.options.json)
        bench_report_print_json(&r.report, stdout);
    else
        bench_report_print(&r.report, stdout);
    if (r.options.chart && write_chart(&r.report, r.options.chart))
        status = 1;
    for (size_t i = 0; i < r.report.nskipped; i++)
        status = !strcmp(r.report.skipped[i].source, "weir") ? 1 : status;
    bench_report_free(&r.report);
    for (size_t i = 0; i < r.npeers; i++)
        free(r.peers[i].works);
    return status < 0 ? 0 : status;
}
