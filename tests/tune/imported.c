/* Programs made of profiles: they take as long as the profile did, and promise nothing that a
 * profile cannot know. */
#include <unistd.h>

#include "helpers.h"
#include "trace/write/graph_write.h"

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

struct text {
    char data[1 << 16];
    size_t size;
};

static void span(struct text *t, const char *name, const char *tid, double ts, double us, int grid)
{
    t->size += (size_t)snprintf(t->data + t->size, sizeof t->data - t->size,
                                "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,"
                                "\"tid\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"device\":0,"
                                "\"grid\":[%d,1,1]}}",
                                t->size ? ","
                                        : "{\"deviceProperties\":[{\"id\":0,\"numSms\":132}],"
                                          "\"traceEvents\":[",
                                name, tid, ts, us, grid);
    CHECK_LT(t->size, sizeof t->data);
}

static weir_trace *finish(struct text *t)
{
    weir_trace *trace;

    t->size += (size_t)snprintf(t->data + t->size, sizeof t->data - t->size, "]}");
    CHECK_OK(weir_trace_parse(t->data, t->size, "test.json", &trace));
    return trace;
}

static const char *file_of(char path[256], int rank)
{
    const char *dir = getenv("TMPDIR");

    snprintf(path, 256, "%s/weir-test-%ld-%d.pbtxt", dir ? dir : "/tmp", (long)getpid(), rank);
    return path;
}

/* The graph of the trace's first device, for `spec`. */
static weir_graph *import(const weir_trace *t, weir_device *dev)
{
    char path[256];
    weir_graph *g;

    CHECK_OK(weir_trace_write_graph(t, 0, file_of(path, 0)));
    CHECK_OK(weir_graph_load_file(dev, path, &g));
    remove(path);
    return g;
}

static uint64_t span_ps(const weir_trace *t)
{
    weir_trace_summary s;

    CHECK_OK(weir_trace_summarise(t, &s, sizeof s));
    return (uint64_t)(s.last_ns - s.first_ns) * 1000;
}

/* Streams with pauses, short and long kernels, of few cores and of more than there are. */
static void make_random(struct text *t, uint64_t seed)
{
    int nstreams = 1 + (int)(next(&seed) % 4);

    t->size = 0;
    for (int s = 0; s < nstreams; s++) {
        double at = (double)(next(&seed) % 50);
        char tid[16];

        snprintf(tid, sizeof tid, "%d", s + 7);
        for (int i = 0; i < 20; i++) {
            double us = 0.5 + (double)(next(&seed) % 400) / 10;
            char name[32];

            snprintf(name, sizeof name, "%s%d", next(&seed) % 3 ? "add" : "gemm", i);
            span(t, name, tid, at, us, 1 << next(&seed) % 10);
            at += us + (double)(next(&seed) % 3 ? 0 : next(&seed) % 30);
        }
    }
}

TEST(imported, a_profile_run_unchanged_takes_as_long_as_it_did_on_any_device)
{
    static const char *const specs[] = {"npu:a3", "npu:h800", "npu:910b4", "npu:a3,policy=batch"};
    static struct text text;

    for (size_t d = 0; d < weir__countof(specs); d++) {
        weir_device *dev;

        CHECK_OK(weir_device_open(specs[d], &dev));
        for (uint64_t seed = 1; seed <= 25; seed++) {
            weir_graph *g;
            weir_trace *t;
            double ratio;

            make_random(&text, seed);
            t = finish(&text);
            g = import(t, dev);
            ratio = (double)makespan(&g, 1) / (double)span_ps(t);
            test_note("seed %d on %s: %.4f of the profile", (int)seed, specs[d], ratio);
            CHECK(ratio > 0.98 && ratio < 1.02);
            weir_graph_destroy(g);
            weir_trace_free(t);
        }
        CHECK_OK(weir_device_close(dev));
    }
}

/* Eight kernels that follow each other on two streams by turns, with no wait that says so. */
TEST(imported, operators_not_known_to_be_independent_stay_in_order)
{
    static struct text text;
    weir_device *dev = open_model();
    struct weir__tune_options options = {.relabel = true, .budget_s = 1};
    struct weir__tuned tuned;
    weir_graph *g;
    weir_trace *t;

    text.size = 0;
    for (int i = 0; i < 8; i++)
        span(&text, "add", i % 2 ? "7" : "8", 10 * i, 10, 4);
    t = finish(&text);
    g = import(t, dev);
    CHECK_EQ(makespan(&g, 1), US(80));
    CHECK_OK(weir__tune(&g, 1, &options, &tuned));
    CHECK_EQ(tuned.after, US(80));
    CHECK_EQ(tuned.nmeasured, 8);
    weir__tuned_fini(&tuned);
    weir_graph_destroy(g);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(imported, collectives_of_two_profiles_meet)
{
    static struct text text;
    weir_device *dev = open_model();
    struct weir__graph_rank ranks[2];
    weir_graph *graphs[2];
    weir_trace *traces[2];
    char paths[2][256];

    for (int r = 0; r < 2; r++) { /* rank 0 comes first and waits: 70 of its 100 us */
        text.size = 0;
        span(&text, "gemm", "7", 0, r ? 80 : 10, 132);
        span(&text, "ncclDevKernel_AllGather_RING_LL()", "7", r ? 80 : 10, r ? 30 : 100, 4);
        span(&text, "add", "7", 110, 5, 132);
        traces[r] = finish(&text);
        ranks[r] = (struct weir__graph_rank){.trace = traces[r], .path = file_of(paths[r], r)};
    }
    CHECK_OK(weir__trace_write_graphs(ranks, 2));
    CHECK_EQ(ranks[0].met, 1);
    CHECK_EQ(ranks[0].alone, 0);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(weir_graph_load_file(dev, paths[r], &graphs[r]));
        remove(paths[r]);
    }
    CHECK_EQ(makespan(graphs, 2), US(115));
    for (int r = 0; r < 2; r++) {
        weir_graph_destroy(graphs[r]);
        weir_trace_free(traces[r]);
    }
    CHECK_OK(weir_device_close(dev));
}

static void replace_in_file(const char *path, const char *from, const char *to)
{
    char text[1 << 14], *at;
    FILE *f = fopen(path, "r");
    size_t n;

    CHECK(f);
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    CHECK((at = strstr(text, from)));
    CHECK((f = fopen(path, "w")));
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
}

/* Ranks 0 and 1 have a group, ranks 2 and 3 another; then all meet. What one rank alone has, or has
 * more often than the others, meets nobody. */
TEST(imported, collectives_of_some_of_the_ranks_meet_among_those)
{
    static const double ready[] = {10, 40, 20, 60}, met[] = {40, 40, 60, 60};
    static struct text text;
    weir_device *dev = open_model();
    struct weir__graph_rank ranks[4];
    struct weir__prediction p;
    weir_check_report *report;
    weir_graph *graphs[4];
    weir_trace *traces[4];
    char paths[4][256];

    for (int r = 0; r < 4; r++) {
        const char *group =
            r < 2 ? "ncclDevKernel_AllReduce_group_1" : "ncclDevKernel_AllReduce_group_2";

        text.size = 0;
        span(&text, "gemm", "7", 0, ready[r], 132);
        span(&text, group, "7", ready[r], met[r] + 5 - ready[r], 4);
        span(&text, "ncclDevKernel_AllGather", "7", met[r] + 5, 73 - met[r] - 5, 4);
        if (r == 3)
            span(&text, "ncclDevKernel_Broadcast_group_9", "7", 73, 2, 4);
        for (int i = 0; i < (r == 0 ? 2 : r == 1); i++)
            span(&text, "ncclDevKernel_SendRecv_group_8", "7", 73 + i, 1, 4);
        traces[r] = finish(&text);
        ranks[r] = (struct weir__graph_rank){.trace = traces[r], .path = file_of(paths[r], r)};
    }
    CHECK_OK(weir__trace_write_graphs(ranks, 4));
    for (int r = 0; r < 4; r++) {
        CHECK_EQ(ranks[r].met, 2);
        CHECK_EQ(ranks[r].alone, r == 0 ? 2 : r != 2);
    }
    for (int faster = 0; faster < 2; faster++) {
        if (faster) /* rank 1 comes 30 us earlier, so that its group is through at 15 */
            replace_in_file(paths[1], "f: 40 ", "f: 10 ");
        for (int r = 0; r < 4; r++)
            CHECK_OK(weir_graph_load_file(dev, paths[r], &graphs[r]));
        CHECK_OK(weir__predict(graphs, 4, &(struct weir__predict_options){0}, &p));
        CHECK(!p.run.deadlock);
        CHECK_EQ(p.makespan, US(75));
        CHECK_EQ(p.run.spans[0][1].end, US(faster ? 15 : 45));
        CHECK_EQ(p.run.spans[1][1].end, US(faster ? 15 : 45));
        CHECK_EQ(p.run.spans[2][1].end, US(65));
        CHECK_EQ(p.run.spans[0][2].end, US(73));
        weir__prediction_fini(&p);
        CHECK_OK(weir_check_graphs(graphs, 4, NULL, &report));
        test_note("%s", report->nfindings ? report->findings[0].text : "clean");
        CHECK_EQ(report->nfindings, 0);
        weir_check_free(report);
        for (int r = 0; r < 4; r++)
            weir_graph_destroy(graphs[r]);
    }
    /* without a member the group waits for ever, and both say so */
    for (int r = 0; r < 4; r++)
        CHECK_OK(weir_graph_load_file(dev, paths[r == 1 ? 2 : r], &graphs[r]));
    CHECK_OK(weir__predict(graphs, 4, &(struct weir__predict_options){0}, &p));
    CHECK(p.run.deadlock);
    weir__prediction_fini(&p);
    CHECK_OK(weir_check_graphs(graphs, 4, NULL, &report));
    CHECK(report->nfindings > 0);
    weir_check_free(report);
    for (int r = 0; r < 4; r++) {
        weir_graph_destroy(graphs[r]);
        weir_trace_free(traces[r]);
        remove(paths[r]);
    }
    CHECK_OK(weir_device_close(dev));
}

/* Clocks of devices begin whenever; the first operator begins at once. */
TEST(imported, a_trace_of_weir_runs_again_from_its_first_operator)
{
    const weir_trace_device devices[] = {{.name = "cpu", .model = ""}};
    const weir_trace_stream streams[] = {{.name = "default"}, {.name = "other"}};
    const weir_trace_wait waits[] = {{.stream = 1, .source_stream = 0, .op = 1, .source_op = 0}};
    const weir_trace_op ops[] = {
        {.name = "a",
         .scope = "",
         .engine = WEIR_ENGINE_CUBE,
         .blocks = 1,
         .cores = 1,
         .started_ns = 5000000,
         .ended_ns = 5030000},
        {.name = "b",
         .scope = "",
         .stream = 1,
         .engine = WEIR_ENGINE_CUBE,
         .blocks = 1,
         .cores = 1,
         .started_ns = 5031000,
         .ended_ns = 5050000,
         .first_wait = 0,
         .nwaits = 1},
    };
    weir_device *dev = open_model();
    weir_graph *g;
    weir_trace *t;

    CHECK_OK(weir_trace_make(&(weir_trace_data){.devices = devices,
                                                .ndevices = 1,
                                                .streams = streams,
                                                .nstreams = 2,
                                                .ops = ops,
                                                .nops = 2,
                                                .waits = waits,
                                                .nwaits = 1},
                             &t));
    g = import(t, dev);
    CHECK_EQ(makespan(&g, 1), US(50));
    weir_graph_destroy(g);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}
