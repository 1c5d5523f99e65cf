/* Tuned graphs: never slower, the best of all placements where those can be counted, free of
 * deadlocks, and what the written file says. */
#include "helpers.h"
#include <unistd.h>

#include "weir/check.h"

static struct weir__tuned tune(weir_graph *g, bool relabel)
{
    struct weir__tuned t;

    CHECK_OK(weir__tune(&g, 1, &(struct weir__tune_options){.relabel = relabel}, &t));
    return t;
}

/* The written graph loads again and takes what was promised. */
static void check_reload(weir_device *dev, const struct weir__tuned *t)
{
    char *text = weir_graph_dump(t->graphs[0]), *again;
    weir_graph *g = load(dev, text);

    CHECK_EQ(makespan(&g, 1), t->after);
    again = weir_graph_dump(g);
    CHECK_STR_EQ(again, text);
    weir_graph_destroy(g);
    free(text);
    free(again);
}

/* Graphs that torch.compile dumps have such nodes: they are not run, and divided by zero once. */
TEST(tune, a_node_whose_result_nobody_needs_takes_no_time)
{
    weir_device *dev = open_model();
    weir_graph *g =
        load(dev, "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { s: 'f32' } }"
                  " attr { key: 'shape' value { list { i: 64 i: 64 } } } }\n"
                  "node { name: 'unused' op: 'MatMul' input: 'x' input: 'x' }\n"
                  "node { name: 'used' op: 'MatMul' input: 'x' input: 'x' }\n"
                  "node { name: 'out' op: 'NetOutput' input: 'used' }\n");
    struct weir__tuned t = tune(g, true);

    CHECK_GT(t.before, 0);
    CHECK_EQ(t.after, t.before);
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    weir_device_close(dev);
}

/* ---- the published example ---- */

/* V20-C40-V20 beside V30-C20-V20; the longer one is first in the file. */
static void vector_and_cube(struct program *p, const char *one, const char *two)
{
    kernel(p, "b1", "vector", 48, 30, NULL, two);
    kernel(p, "a1", "vector", 48, 20, NULL, one);
    kernel(p, "b2", "cube", 24, 20, "b1", two);
    kernel(p, "a2", "cube", 24, 40, "a1", one);
    kernel(p, "b3", "vector", 48, 20, "b2", two);
    kernel(p, "a3", "vector", 48, 20, "a2", one);
}

TEST(tune, two_streams_of_vector_and_cube_are_ordered)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    weir_graph *g;
    struct weir__tuned t;

    vector_and_cube(&p, "one", "two");
    g = load(dev, p.text);
    t = tune(g, false);
    CHECK_EQ(t.before, US(110));
    CHECK_LE(t.after, US(100));
    CHECK_GT(t.nchanges, 0);
    CHECK_EQ(t.changes[t.nchanges - 1].then, t.after);
    for (int i = 0; i < t.nchanges; i++)
        CHECK_NE(t.changes[i].kind, WEIR__TUNE_STREAM); /* labels stay */
    CHECK_EQ(t.check_errors, 0);
    check_reload(dev, &t);
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(tune, a_graph_without_labels_gets_streams)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    weir_graph *g;
    struct weir__tuned t;
    bool streams = false;

    vector_and_cube(&p, NULL, NULL);
    g = load(dev, p.text);
    t = tune(g, false);
    CHECK_EQ(t.before, US(150));
    CHECK_LE(t.after, US(100));
    for (int i = 0; i < t.nchanges; i++)
        streams |= t.changes[i].kind == WEIR__TUNE_STREAM;
    CHECK(streams);
    CHECK_STR(t.verdict, "instead of");
    check_reload(dev, &t);
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* ---- where streams do not pay ---- */

/* The same program: a second stream gains 50 us of 150. `us` is what a stream costs the host. */
static int streams_where_one_costs(double us)
{
    char path[] = "/tmp/weir-streams-XXXXXX.profile", spec[128];
    struct program p = {.size = 0};
    int fd = mkstemps(path, 8), found = 0;
    struct weir__tuned t;
    weir_device *dev;
    weir_graph *g;

    CHECK(fd >= 0);
    CHECK(dprintf(fd,
                  "inherits a3\nname streams # test\ngraph_stream_us %g # test\n"
                  "graph_launch_us 0 # test\nevent_record_us 0 # test\nevent_wait_us 0 # test\n",
                  us) > 0);
    close(fd);
    snprintf(spec, sizeof spec, "npu:%s", path);
    CHECK_OK(weir_device_open(spec, &dev));
    vector_and_cube(&p, NULL, NULL);
    g = load(dev, p.text);
    t = tune(g, false);
    CHECK_EQ(t.before, US(150));
    for (int i = 0; i < t.nchanges; i++)
        found += t.changes[i].kind == WEIR__TUNE_STREAM;
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
    unlink(path);
    return found;
}

TEST(tune, a_stream_that_costs_the_host_more_than_it_gains_is_not_proposed)
{
    CHECK_GT(streams_where_one_costs(5), 0);
    CHECK_EQ(streams_where_one_costs(80), 0);
}

TEST(tune, a_saturated_cube_engine_is_reported)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    weir_graph *g;
    struct weir__tuned t;

    for (int i = 0; i < 6; i++) {
        char name[16];

        snprintf(name, sizeof name, "mm%d", i);
        kernel(&p, name, "cube", 24, 10, NULL, NULL);
    }
    g = load(dev, p.text);
    t = tune(g, false);
    CHECK_EQ(t.nchanges, 0);
    CHECK_EQ(t.after, t.before);
    CHECK_STR(t.verdict, "streams do not pay");
    CHECK_STR(t.verdict, "cube is already full");
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(tune, a_graph_that_is_one_chain_is_reported)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    weir_graph *g;
    struct weir__tuned t;

    kernel(&p, "a", "cube", 4, 10, NULL, NULL);
    kernel(&p, "b", "vector", 4, 10, "a", NULL);
    kernel(&p, "c", "cube", 4, 10, "b", NULL);
    g = load(dev, p.text);
    t = tune(g, true);
    CHECK_EQ(t.nchanges, 0);
    CHECK_STR(t.verdict, "one chain");
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* ---- against all placements ---- */

static unsigned seed;

static unsigned draw(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % n;
}

/* Kernels of random engines and sizes, some after one or two of those before. */
static void random_program(struct program *p, int n)
{
    static const char *const engines[] = {"cube", "vector", "mix"};

    p->size = 0;
    for (int i = 0; i < n; i++) {
        char name[16], after[48] = "";

        snprintf(name, sizeof name, "k%c", 'a' + i);
        if (i && draw(3))
            snprintf(after, sizeof after, "k%c", 'a' + (int)draw((unsigned)i));
        kernel(p, name, engines[draw(3)], 1 + (int)draw(48), 5 + draw(40), after[0] ? after : NULL,
               NULL);
    }
}

static uint64_t best_placement(weir_graph *g, const int *labels, int node, int used)
{
    uint64_t best = UINT64_MAX, ps;

    if (node == g->nnodes)
        return makespan(&g, 1);
    for (int s = 0; s <= used + 1 && s < 4; s++) {
        g->nodes[node].marks.stream = labels[s];
        ps = best_placement(g, labels, node + 1, s > used ? s : used);
        best = ps < best ? ps : best;
    }
    return best;
}

TEST(tune, the_result_is_no_worse_than_the_best_of_all_placements)
{
    static const char *const names[] = {"", "x", "y", "z"};
    weir_device *dev = open_model();

    for (int i = 0; i < 12 / TEST_SLOWDOWN; i++) {
        struct program p;
        int labels[4] = {0};
        weir_graph *g, *all;
        struct weir__tuned t;
        uint64_t best;

        seed = (unsigned)i + 1;
        test_note("program %d", i);
        random_program(&p, 5);
        g = load(dev, p.text);
        all = load(dev, p.text);
        for (int s = 1; s < 4; s++)
            labels[s] = weir__graph_label(all, names[s]);
        best = best_placement(all, labels, 0, 0);
        t = tune(g, false);
        CHECK_LE(t.after, best);
        CHECK_LE(t.bound.ps, t.after);
        check_reload(dev, &t);
        weir__tuned_fini(&t);
        weir_graph_destroy(g);
        weir_graph_destroy(all);
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(tune, the_result_is_never_slower_and_is_the_same_for_the_same_seed)
{
    weir_device *dev = open_model();

    for (int i = 0; i < 3; i++) {
        struct program p;
        weir_graph *g;
        struct weir__tuned t, again;
        char *one, *two;

        seed = (unsigned)i + 100;
        test_note("program %d", i);
        random_program(&p, 14);
        g = load(dev, p.text);
        t = tune(g, false);
        again = tune(g, false);
        CHECK_LE(t.after, t.before);
        CHECK_EQ(t.before, makespan(&g, 1)); /* the input is as it was */
        one = weir_graph_dump(t.graphs[0]);
        two = weir_graph_dump(again.graphs[0]);
        CHECK_STR_EQ(one, two);
        check_reload(dev, &t);
        free(one);
        free(two);
        weir__tuned_fini(&t);
        weir__tuned_fini(&again);
        weir_graph_destroy(g);
    }
    CHECK_OK(weir_device_close(dev));
}

/* ---- what stays ---- */

TEST(tune, labels_stay_unless_they_may_change)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    weir_graph *g;
    struct weir__tuned t;

    kernel(&p, "a", "cube", 12, 50, NULL, "mine");
    kernel(&p, "b", "vector", 24, 50, NULL, "mine");
    g = load(dev, p.text);
    t = tune(g, false);
    CHECK_EQ(t.after, US(100));
    weir__tuned_fini(&t);
    t = tune(g, true);
    CHECK_EQ(t.after, US(50));
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

static bool stop_at_once(void *user, const struct weir__tune_progress *p)
{
    (void)p;
    return ++*(int *)user < 4;
}

TEST(tune, a_stopped_search_keeps_the_best_so_far)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    weir_graph *g;
    struct weir__tuned t;
    int asked = 0;

    random_program(&p, 14);
    g = load(dev, p.text);
    CHECK_OK(
        weir__tune(&g, 1, &(struct weir__tune_options){.poll = stop_at_once, .user = &asked}, &t));
    CHECK_EQ(t.ended, WEIR__TUNE_STOPPED);
    CHECK_EQ(asked, 4);
    CHECK_LE(t.after, t.before);
    check_reload(dev, &t);
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* ---- several ranks ---- */

/* Two gangs that together need more vector cores than there are: apart they deadlock with
 * policy=hold, one after the other they do not. */
TEST(tune, no_proposal_can_deadlock)
{
    static const char gang[] = "node {\n name: \"%s\"\n op: \"Kernel\"\n"
                               " attr { key: \"engine\" value { s: \"vector\" } }\n"
                               " attr { key: \"blocks\" value { i: 32 } }\n"
                               " attr { key: \"us_per_block\" value { f: 20 } }\n"
                               " attr { key: \"gang\" value { b: true } }\n"
                               " attr { key: \"collective\" value { s: \"%s\" } }\n}\n";
    weir_device *dev = open_model();
    struct program p = {.size = 0};
    weir_graph *g, *both[2], *tuned[2];
    struct weir__tuned t;
    weir_check_report *report;

    p.size = (size_t)snprintf(p.text, sizeof p.text, gang, "one", "x");
    p.size += (size_t)snprintf(p.text + p.size, sizeof p.text - p.size, gang, "two", "y");
    kernel(&p, "mm", "cube", 24, 40, NULL, NULL);
    g = load(dev, p.text);
    both[0] = both[1] = g;
    CHECK_OK(weir__tune(both, 2, &(struct weir__tune_options){.seed = 1}, &t));
    CHECK_LT(t.after, t.before); /* beside the matrix operator */
    CHECK_EQ(t.ngraphs, 1);
    tuned[0] = tuned[1] = t.graphs[0];
    CHECK_EQ(makespan(tuned, 2), t.after);
    CHECK_OK(weir_check_graphs(tuned, 2, NULL, &report));
    CHECK_EQ(report->nerrors, 0);
    CHECK_EQ(t.check_errors, 0);
    weir_check_free(report);
    weir__tuned_fini(&t);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

static bool stop_after_some(void *user, const struct weir__tune_progress *p)
{
    (void)user;
    return p->tried < 300; /* each of them is checked as well */
}

/* The published deadlock, from the example's own files. */
TEST(tune, a_graph_that_deadlocks_gets_one_that_cannot)
{
    weir_device *dev;
    weir_graph *g[2], *tuned[2];
    struct weir__tuned t;
    weir_check_report *report;

    CHECK_OK(weir_device_open("npu:a2", &dev));
    CHECK_OK(weir_graph_load_file(dev, DEADLOCK_DIR "/rank0.pbtxt", &g[0]));
    CHECK_OK(weir_graph_load_file(dev, DEADLOCK_DIR "/rank1.pbtxt", &g[1]));
    CHECK_OK(weir__tune(
        g, 2, &(struct weir__tune_options){.relabel = true, .poll = stop_after_some}, &t));
    CHECK(t.before == WEIR__TUNE_NEVER);
    CHECK(t.after != WEIR__TUNE_NEVER);
    CHECK_EQ(t.check_errors, 0);
    CHECK_EQ(t.ngraphs, 2);
    for (int r = 0; r < 2; r++)
        tuned[r] = t.graphs[t.graph_of[r]];
    CHECK_EQ(makespan(tuned, 2), t.after);
    CHECK_OK(weir_check_graphs(tuned, 2, NULL, &report));
    CHECK_EQ(report->nerrors, 0);
    weir_check_free(report);
    weir__tuned_fini(&t);
    for (int r = 0; r < 2; r++)
        weir_graph_destroy(g[r]);
    CHECK_OK(weir_device_close(dev));
}

TEST(tune, a_device_of_real_time_is_refused)
{
    struct program p = {.size = 0};
    weir_device *dev;
    weir_graph *g;
    struct weir__tuned t;

    CHECK_OK(weir_device_open("cpu:cores=2", &dev));
    kernel(&p, "a", "vector", 1, 1, NULL, NULL);
    g = load(dev, p.text);
    CHECK_STATUS(weir__tune(&g, 1, &(struct weir__tune_options){.seed = 0}, &t), WEIR_EUNSUPPORTED);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
