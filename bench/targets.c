/* weir's targets, as ratios of medians in one run. */
#include "report.h"

#include <string.h>

/* Peers whose inputs and outputs have plain layouts, as weir's do. */
#define MATRIX_PEERS "OpenBLAS|oneDNN: plain|oneDNN: reorders counted|PyTorch"
/* The best form of each runtime and of weir: a graph built beforehand. */
#define PLAN "weir: plan"
#define SUBMITTERS "weir: 8 submitters"
/* Queued first, then run: the time of the hop alone, without the calls that queue it. */
#define QUEUED "weir: queued beforehand"

#define ON_CORES(text, work, cores, name)                                    \
    {                                                                        \
        text ", " name, work "_t" cores, "weir", NULL, MATRIX_PEERS, true, 1 \
    }
/* As fast as the fastest peer. */
#define PRODUCT_TARGETS(text, work)                                                 \
    ON_CORES(text, work, "1", "1 core"), ON_CORES(text, work, "2", "2 cores"),      \
        ON_CORES(text, work, "4", "4 cores"), ON_CORES(text, work, "8", "8 cores"), \
        ON_CORES(text, work, "16", "16 cores")
#define SUBMITTER_TARGETS(us)                                                        \
    SUBMITTER_TARGET(us, "2"), SUBMITTER_TARGET(us, "4"), SUBMITTER_TARGET(us, "8"), \
        SUBMITTER_TARGET(us, "16")
#define SUBMITTER_TARGET(us, cores)                                          \
    {                                                                        \
        "64 chains of " us " us, 8 submitters to 1, " cores " cores",        \
            "chains_64_" us "us_t" cores, SUBMITTERS, NULL, "weir", false, 1 \
    }

const struct bench_target bench_targets[] = {
    {"in-order chain", "chain", "weir", NULL, "oneTBB", false, 0.5},
    {"ping-pong against peers", "pingpong", PLAN, NULL, "peers", false, 1},
    {"ping-pong against the machine", "pingpong", QUEUED, NULL, "machine: cache-line hop", false,
     2.5},
    {"fork of 8 and join", "fork_join_8", PLAN, NULL, "oneTBB: prebuilt", false, 0.5},
    {"64 chains, queued, 1 core", "chains_64_0us_t1", "weir", NULL, "oneTBB: prebuilt", false, 2.5},
    {"64 chains, plan, 1 core", "chains_64_0us_t1", PLAN, NULL, "oneTBB: prebuilt", false, 0.7},
    {"64 chains, queued, 16 cores", "chains_64_0us_t16", "weir", NULL, "oneTBB: prebuilt", false,
     2},
    {"64 chains, plan, 16 cores", "chains_64_0us_t16", PLAN, NULL, "oneTBB: prebuilt", false, 0.7},
    {"64 chains, 8 submitters to 1, 2 cores", "chains_64_0us_t2", SUBMITTERS, NULL, "weir", false,
     1},
    {"64 chains, 8 submitters to 1, 16 cores", "chains_64_0us_t16", SUBMITTERS, NULL, "weir", false,
     1},
    SUBMITTER_TARGETS("1"),
    SUBMITTER_TARGETS("5"),
    /* Tasks fill 75 % of the cores' time, 85 % in a plan, and 50 % if they take 1 us. */
    {"64 chains of 5 us, queued, 2 cores, ns", "chains_64_5us_t2", "weir", NULL, NULL, false, 3333},
    {"64 chains of 5 us, plan, 2 cores, ns", "chains_64_5us_t2", PLAN, NULL, NULL, false, 2941},
    {"64 chains of 5 us, queued, 16 cores, ns", "chains_64_5us_t16", "weir", NULL, NULL, false,
     417},
    {"64 chains of 5 us, plan, 16 cores, ns", "chains_64_5us_t16", PLAN, NULL, NULL, false, 368},
    {"64 chains of 1 us, plan, 16 cores, ns", "chains_64_1us_t16", PLAN, NULL, NULL, false, 125},
    {"chain of 1000 nodes, ns a node", "chain_prebuilt", PLAN, NULL, NULL, false, 25},
    {"random graph, 1 thread", "dag_1000_t1", PLAN, NULL, "oneTBB: prebuilt", false, 0.5},
    {"random graph, 2 threads", "dag_1000_t2", PLAN, NULL, "oneTBB: prebuilt", false, 0.5},
    {"random graph against the machine, 1 thread", "dag_1000_t1", PLAN, NULL,
     "machine: static flags", false, 2},
    {"random graph against the machine, 2 threads", "dag_1000_t2", PLAN, NULL,
     "machine: static flags", false, 2},
    {"streams=auto, matmul chain", "streams_auto", "weir: matmul chain", NULL, NULL, true, 0.95},
    {"streams=auto, matmul forks", "streams_auto", "weir: matmul forks", NULL, NULL, true, 0.95},
    {"streams=auto, large matmul forks", "streams_auto", "weir: large matmul forks", NULL, NULL,
     true, 0.95},
    {"streams=auto, softmax forks", "streams_auto", "weir: softmax forks", NULL, NULL, true, 0.95},
    {"streams=auto, elementwise forks", "streams_auto", "weir: elementwise forks", NULL, NULL, true,
     0.95},
    {"streams=auto, tiny forks", "streams_auto", "weir: tiny forks", NULL, NULL, true, 0.95},
    {"streams=auto, experts", "streams_auto", "weir: experts", NULL, NULL, true, 0.95},
    {"compile 10,000 nodes, ms", "compile_10k", "weir: 8 streams", NULL, NULL, false, 1000},
    {"compile 100,000 to 10,000, 1 stream", "compile_100k", "weir: 1 stream", "compile_10k",
     "weir: 1 stream", false, 15},
    {"compile 100,000 to 10,000, 8 streams", "compile_100k", "weir: 8 streams", "compile_10k",
     "weir: 8 streams", false, 15},
    {"modelled kernel, ns", "model_1m", "weir", NULL, NULL, false, 1000},
    {"modelled kernels, 10 million to 1 million", "model_10m", "weir", "model_1m", "weir", false,
     1.5},
    {"overlap of two matmul chains", "overlap_matmul", "weir", NULL,
     "machine: FMA on 2 threads to 1", true, 0.97},
    {"pool, mixed sizes", "pool_mixed", "weir", NULL, "mimalloc", false, 1},
    {"pool, used on a second stream", "pool_mixed_second", "weir", "pool_mixed", "mimalloc", false,
     2},
    {"pool, host waits for the second stream", "pool_mixed_second", "weir: host syncs", NULL, NULL,
     false, 0},
    PRODUCT_TARGETS("matmul f32 1000^3", "matmul_f32_1000"),
    PRODUCT_TARGETS("matmul f32 2048^3", "matmul_f32_2048"),
    PRODUCT_TARGETS("matmul f32 4096^3", "matmul_f32_4096"),
    PRODUCT_TARGETS("matmul bf16 1000^3", "matmul_bf16_1000"),
    PRODUCT_TARGETS("matmul bf16 2048^3", "matmul_bf16_2048"),
    PRODUCT_TARGETS("matmul bf16 4096^3", "matmul_bf16_4096"),
    PRODUCT_TARGETS("matmul f16 1000^3", "matmul_f16_1000"),
    PRODUCT_TARGETS("matmul f16 2048^3", "matmul_f16_2048"),
    PRODUCT_TARGETS("matmul f16 4096^3", "matmul_f16_4096"),
    PRODUCT_TARGETS("matvec f32 4096", "matvec_f32_4096"),
    PRODUCT_TARGETS("matvec bf16 4096", "matvec_bf16_4096"),
    PRODUCT_TARGETS("matvec f16 4096", "matvec_f16_4096"),
    PRODUCT_TARGETS("attention f32 16 x 1024 x 64", "attention_f32_1024"),
    PRODUCT_TARGETS("attention bf16 16 x 1024 x 64", "attention_bf16_1024"),
    PRODUCT_TARGETS("attention f16 16 x 1024 x 64", "attention_f16_1024"),
    {"conv2d, 1 core", "conv2d_t1", "weir", NULL, MATRIX_PEERS, true, 0.95},
    {"conv2d, 2 cores", "conv2d_t2", "weir", NULL, MATRIX_PEERS, true, 0.95},
    {"add 1000x1000, 1 core", "add_1000x1000_t1", "weir", NULL, "machine: memcpy", true, 0.9},
    {"add 1000x1000, 2 cores", "add_1000x1000_t2", "weir", NULL, "machine: memcpy", true, 0.9},
    {"recording a trace, ns an operator", "trace_record", "weir", NULL, NULL, false, 50},
    {"checking for races, ns an operator", "race_check", "weir", NULL, NULL, false, 300},
    {"all-reduce 4k against Open MPI", "all_reduce_4k", "weir", NULL, "Open MPI", true, 1},
    {"all-reduce 64k against Open MPI", "all_reduce_64k", "weir", NULL, "Open MPI", true, 1},
    {"all-reduce 1m against Open MPI", "all_reduce_1m", "weir", NULL, "Open MPI", true, 1},
    {"all-reduce 16m against Open MPI", "all_reduce_16m", "weir", NULL, "Open MPI", true, 1},
    {"all-reduce 64m against Open MPI", "all_reduce_64m", "weir", NULL, "Open MPI", true, 1},
    {"reduce-scatter 4k against Open MPI", "reduce_scatter_4k", "weir", NULL, "Open MPI", true, 1},
    {"reduce-scatter 64k against Open MPI", "reduce_scatter_64k", "weir", NULL, "Open MPI", true,
     1},
    {"reduce-scatter 1m against Open MPI", "reduce_scatter_1m", "weir", NULL, "Open MPI", true, 1},
    {"reduce-scatter 16m against Open MPI", "reduce_scatter_16m", "weir", NULL, "Open MPI", true,
     1},
    {"reduce-scatter 64m against Open MPI", "reduce_scatter_64m", "weir", NULL, "Open MPI", true,
     1},
    {"all-reduce 16m against memcpy", "all_reduce_16m", "weir", NULL, "machine: memcpy", true, 0.7},
    {"all-reduce 64m against memcpy", "all_reduce_64m", "weir", NULL, "machine: memcpy", true, 0.7},
    {"reduce-scatter 16m against memcpy", "reduce_scatter_16m", "weir", NULL, "machine: memcpy",
     true, 0.7},
    {"reduce-scatter 64m against memcpy", "reduce_scatter_64m", "weir", NULL, "machine: memcpy",
     true, 0.7},
    {"idle device, % of a core", "idle_cpu", "weir", NULL, NULL, false, 0.5},
};
const size_t bench_ntargets = sizeof bench_targets / sizeof *bench_targets;

static bool is_a(const char *subject, const char *name)
{
    size_t n = strlen(name);

    return strncmp(subject, name, n) == 0 && (subject[n] == '\0' || subject[n] == ':');
}

/* Whether `subject` is one of those that `base` names. */
static bool is_base(const char *subject, const char *base)
{
    if (!strcmp(base, "peers"))
        return !is_a(subject, "weir") && !is_a(subject, "machine");
    for (;;) {
        size_t n = strcspn(base, "|");

        if (strlen(subject) == n && !strncmp(subject, base, n))
            return true;
        if (!base[n])
            return false;
        base += n + 1;
    }
}

bool bench_target_applies(const struct bench_report *r, const struct bench_target *t)
{
    for (size_t i = 0; i < r->nseries; i++)
        if (!strcmp(r->series[i].work, t->work))
            return true;
    for (size_t i = 0; i < r->nskipped; i++)
        if (!strcmp(r->skipped[i].work, t->work))
            return true;
    return false;
}

struct bench_verdict bench_judge(const struct bench_report *r, const struct bench_target *t)
{
    const struct bench_series *ours = bench_report_find(r, t->work, t->subject);
    const char *base_work = t->base_work ? t->base_work : t->work;
    struct bench_verdict v = {.measured = false};
    double best = 0;

    if (!ours)
        return v;
    v.ratio = bench_series_quantile(ours, 0.5);
    v.disturbed = ours->disturbed;
    v.measured = !t->base;
    for (size_t i = 0; t->base && i < r->nseries; i++) {
        const struct bench_series *s = &r->series[i];
        double median;

        if (!s->count || strcmp(s->work, base_work) != 0 || !is_base(s->subject, t->base))
            continue;
        median = bench_series_quantile(s, 0.5);
        if (!v.base || (t->at_least ? median > best : median < best)) {
            best = median;
            v.base = s->subject;
            v.disturbed = ours->disturbed || s->disturbed;
        }
        v.measured = true;
    }
    if (v.base)
        v.ratio /= best;
    v.met = v.measured && (t->at_least ? v.ratio >= t->limit : v.ratio <= t->limit);
    return v;
}
