/* Analysis of traces: sums, critical paths, and the graphs and pages made of them. */
#include "helpers.h"

#include <unistd.h>

/* Two streams on one device of two cores: a, then b on the other stream after a, then c for
 * which b's core had to get free, then d on its stream, queued late. Times in us. */
static const char story[] =
    "{\"weir\":{\"trace\":1,\"dropped\":3,\"devices\":[{\"name\":\"cpu\",\"cube\":2,\"vector\":2,"
    "\"split\":false,\"real_time\":true,\"rank\":0}],"
    "\"streams\":[{\"name\":\"one\",\"device\":0,\"priority\":0},"
    "{\"name\":\"two\",\"device\":0,\"priority\":-1}]},\"traceEvents\":["
#define OP(name, tid, ts, dur, queued, ready)                                                   \
    "{\"ph\":\"X\",\"cat\":\"op\",\"pid\":1,\"tid\":" #tid ",\"name\":\"" name "\",\"ts\":" #ts \
    ",\"dur\":" #dur ",\"args\":{\"seq\":" #ts ",\"engine\":\"cube\",\"blocks\":1,\"cores\":1," \
    "\"queued\":" #queued ",\"ready\":" #ready "}}"
#define PART(i, op, core, ts, dur)                                                             \
    ",{\"ph\":\"X\",\"cat\":\"part\",\"pid\":2,\"tid\":" #core ",\"ts\":" #ts ",\"dur\":" #dur \
    ",\"args\":{\"part\":" #i ",\"op\":" #op ",\"blocks\":1}}"
    OP("a", 1, 10, 10, 1, 1) "," OP("c", 1, 50, 10, 2, 20) "," OP("d", 1, 70, 10, 65, 65) "," OP(
        "b", 2, 20, 30, 3, 20) ",{\"ph\":\"X\",\"cat\":\"wait\",\"pid\":1,\"tid\":2,\"ts\":5,"
                               "\"dur\":15,\"args\":{\"op\":3,"
                               "\"source_op\":0,\"source_stream\":0}}" PART(0, 0, 1, 10, 10)
                                   PART(1, 1, 2, 50, 10) PART(2, 2, 1, 70, 10)
                                       PART(3, 3, 2, 20, 30) "]}";

static weir_trace *load_story(void)
{
    weir_trace *t;

    CHECK_OK(weir_trace_parse(story, strlen(story), "story", &t));
    return t;
}

TEST(trace_says, each_step_of_the_critical_path_says_why_it_started_late)
{
    static const struct {
        const char *name;
        weir_trace_cause cause;
    } want[] = {{"a", WEIR_TRACE_CAUSE_HOST},
                {"b", WEIR_TRACE_CAUSE_SYNC},
                {"c", WEIR_TRACE_CAUSE_CORES},
                {"d", WEIR_TRACE_CAUSE_HOST}};
    weir_trace *t = load_story();
    weir_trace_step *steps;
    weir_trace_data d;
    size_t n;

    weir_trace_get(t, &d, sizeof d);
    check_trace(&d);
    CHECK_OK(weir_trace_critical_path(t, &steps, &n));
    CHECK_EQ(n, 4);
    for (size_t i = 0; i < n; i++) {
        CHECK_STR_EQ(d.ops[steps[i].op].name, want[i].name);
        CHECK_EQ(steps[i].cause, want[i].cause);
    }
    free(steps);
    weir_trace_free(t);
}

TEST(trace_says, a_trace_made_by_the_caller_is_analysed_alike)
{
    weir_trace *t = load_story(), *copy, *none;
    weir_trace_op wrong[4];
    weir_trace_data d, e;

    weir_trace_get(t, &d, sizeof d);
    CHECK_OK(weir_trace_make(&d, &copy));
    CHECK_EQ(d.nops, 4);
    memcpy(wrong, d.ops, sizeof wrong);
    wrong[2].stream = 9;
    d.ops = wrong;
    CHECK_STATUS(weir_trace_make(&d, &none), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "operator 2");
    CHECK(!none);
    wrong[2].stream = 0;
    wrong[3].ended_ns = 0;
    CHECK_STATUS(weir_trace_make(&d, &none), WEIR_EINVAL);
    weir_trace_get(copy, &e, sizeof e);
    check_trace(&e);
    CHECK_EQ(e.nops, 4);
    CHECK_STR_EQ(e.ops[3].name, "b");
    CHECK_STR_EQ(e.streams[1].name, "two");
    weir_trace_free(t);
    weir_trace_free(copy);
}

TEST(trace_says, a_trace_says_how_long_a_run_took_and_how_busy_cores_were)
{
    weir_trace *t = load_story(), *empty;
    weir_trace_summary sum;
    weir_trace_data d;

    weir_trace_get(t, &d, sizeof d);
    CHECK_EQ(d.dropped, 3);
    CHECK_OK(weir_trace_summarise(t, &sum, sizeof sum));
    CHECK_EQ(sum.first_ns, 10000);
    CHECK_EQ(sum.last_ns, 80000);
    CHECK_NEAR(sum.serial_ns, 60000, 0);
    CHECK_NEAR(sum.critical_ns, 60000, 0);
    CHECK_NEAR(sum.cube_use, 60.0 / (2 * 70), 1e-12);
    CHECK_NEAR(sum.vector_use, 0, 0);
    weir_trace_free(t);

    CHECK_OK(weir_trace_start(NULL));
    empty = stop_trace(&d);
    CHECK_EQ(d.nops, 0);
    CHECK_OK(weir_trace_summarise(empty, &sum, sizeof sum));
    CHECK_EQ(sum.last_ns, 0);
    weir_trace_free(empty);
}

TEST(trace_says, paths_of_real_runs_go_forward_in_time)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *s[3] = {tagged(dev, "a", 0), tagged(dev, "b", 0), tagged(dev, "c", 0)};
    weir_trace_step *steps;
    weir_trace_data d;
    weir_trace *t;
    size_t n;

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < 30; i++) {
        submit_busy(s[i % 3], "op", 1 + (unsigned)i % 3, 30);
        if (i % 4 == 0)
            CHECK_OK(weir_stream_wait_stream(s[(i + 1) % 3], s[i % 3]));
    }
    CHECK_OK(weir_device_sync(dev));
    t = stop_trace(&d);
    check_trace(&d);
    CHECK_OK(weir_trace_critical_path(t, &steps, &n));
    CHECK_GT(n, 1);
    for (size_t i = 1; i < n; i++)
        CHECK_LE(d.ops[steps[i - 1].op].started_ns, d.ops[steps[i].op].started_ns);
    for (size_t i = 0; i < d.nops; i++)
        CHECK_LE(d.ops[i].ended_ns, d.ops[steps[n - 1].op].ended_ns);
    free(steps);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

static const char *temp_path(char *path, const char *name)
{
    const char *dir = getenv("TMPDIR");

    snprintf(path, 256, "%s/weir-says-%ld-%s", dir ? dir : "/tmp", (long)getpid(), name);
    return path;
}

/* A trace becomes a graph, the graph runs, and its trace has the same operators on the same
 * streams in the same order. */
TEST(trace_says, a_trace_written_as_a_graph_replays_in_the_same_time)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_trace *t = load_story(), *again;
    weir_trace_data d;
    weir_graph *g;
    weir_plan *plan;
    char path[256];
    const weir_trace_op *a, *b;

    CHECK_STATUS(weir_trace_write_graph(t, 1, temp_path(path, "g.pbtxt")), WEIR_ERANGE);
    CHECK_OK(weir_trace_write_graph(t, 0, path));
    weir_trace_free(t);
    CHECK_OK(weir_graph_load_file(dev, path, &g));
    remove(path);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), NULL, 0, NULL, 0));
    CHECK_OK(weir_device_sync(dev));
    again = stop_trace(&d);
    check_trace(&d);
    a = find_op(&d, "a_0", 0);
    b = find_op(&d, "b_3", 0);
    CHECK_LE(a->ended_ns, b->started_ns);
    CHECK_GE(b->ended_ns - b->started_ns, 30000);
    CHECK_LE(find_op(&d, "c_1", 0)->ended_ns, find_op(&d, "d_2", 0)->started_ns);
    weir_trace_free(again);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(trace_says, the_page_loads_nothing_from_elsewhere)
{
    weir_trace *t = load_story();
    const weir_trace *three[3] = {t, t, t};
    static const char *const titles[] = {"</script><b>", "second"};
    char path[256], *text;
    size_t size;
    FILE *f;

    CHECK_STATUS(weir_trace_write_html(three, NULL, 3, "/dev/null"), WEIR_EINVAL);
    CHECK_STATUS(weir_trace_write_html(three, NULL, 0, "/dev/null"), WEIR_EINVAL);
    CHECK_STATUS(weir_trace_write_html(three, NULL, 1, "/no/such/page.html"), WEIR_EIO);
    CHECK_OK(weir_trace_write_html(three, titles, 2, temp_path(path, "p.html")));
    CHECK((f = fopen(path, "rb")));
    CHECK((text = calloc(1, 1 << 20)));
    size = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    remove(path);
    CHECK_GT(size, 10000);
    CHECK(strstr(text, "\\u003c/script>") && !strstr(text, "</script><b>"));
    CHECK(!strstr(text, "http://") && !strstr(text, "https://") && !strstr(text, "src="));
    CHECK(strstr(text, "\"names\":[\"a\",\"c\",\"d\",\"b\"]"));
    free(text);
    weir_trace_free(t);
}
