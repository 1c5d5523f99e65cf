/* Findings about a graph that need no run. */
#include <stdlib.h>

#include "helpers.h"

#define KERNEL(name, rest) "node { name: '" name "' op: 'Kernel' " rest " }\n"
#define S(key, value) "attr { key: '" key "' value { s: '" value "' } } "
#define I(key, value) "attr { key: '" key "' value { i: " #value " } } "
#define GANG "attr { key: 'gang' value { b: true } } "
#define ON(stream) S("_user_stream_label", stream)

static void clean(const char *text)
{
    weir_check_report *report = check_text(text);

    if (report->nfindings)
        FAIL("%s", report->findings[0].text);
    weir_check_free(report);
}

/* The only finding, which is of that kind; its texts contain these. */
static void only(const char *text, weir_finding_kind kind, bool is_error, const char *node,
                 const char *part)
{
    weir_check_report *report = check_text(text);
    const weir_finding *f = find(report, kind);

    CHECK_EQ(report->nfindings, 1);
    CHECK(f);
    CHECK_EQ(f->is_error, is_error);
    CHECK_EQ(report->nerrors, is_error);
    CHECK(!node || names(f, node));
    CHECK_STR(f->text, part);
    weir_check_free(report);
}

TEST(settings, plain_programs_are_clean)
{
    clean(KERNEL("a", ""));
    clean(KERNEL("a", I("blocks", 1000) ON("1")) KERNEL("b", I("blocks", 1000) ON("2")));
    clean(KERNEL("a", I("blocks", 40) ON("1") I("_op_vectorcore_num", 40))
              KERNEL("b", I("blocks", 40) ON("2")));
    clean(KERNEL("a", I("blocks", 24) S("engine", "mix") GANG ON("1")));
}

TEST(settings, more_cores_than_exist_is_an_error_with_a_limit)
{
    weir_check_report *report = check_text(KERNEL("wide", I("blocks", 64) GANG));
    const weir_finding *f = find(report, WEIR_FINDING_LIMIT);

    CHECK_EQ(report->nerrors, 1);
    CHECK(f && f->is_error);
    CHECK_STR(f->text, "64 vector cores");
    CHECK_STR(f->text, "48 vector cores");
    CHECK_STR_EQ(f->remedy.node, "wide");
    CHECK_EQ(f->remedy.vector, 48);
    weir_check_free(report);

    clean(KERNEL("wide", I("blocks", 64) GANG I("_op_vectorcore_num", 48)));
    clean(KERNEL("plain", I("blocks", 64))); /* runs in waves */
    only(KERNEL("fixed", I("blocks", 30) S("engine", "cube") "attr { key: 'us' value { f: 5 } }"),
         WEIR_FINDING_LIMIT, true, "fixed", "30 cube cores");
    only(KERNEL("mixed", I("blocks", 25) S("engine", "mix") GANG), WEIR_FINDING_LIMIT, true,
         "mixed", "25 cube and 50 vector cores");
    only(KERNEL("static", I("blocks", 64) GANG S("class", "static")), WEIR_FINDING_LIMIT, true,
         "static", "never start");
}

TEST(settings, cores_of_a_plain_host_take_blocks_in_turns)
{
    const char *const text = KERNEL("wide", I("blocks", 64) GANG ON("1"))
        KERNEL("fixed", I("blocks", 30) "attr { key: 'us' value { f: 5 } }" ON("2"));
    weir_check_report *report;
    weir_device *dev;
    weir_graph *g;

    CHECK_OK(weir_device_open("cpu:cores=2", &dev));
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "test", &g));
    CHECK_OK(weir_check_graphs((weir_graph *[]){g}, 1, NULL, &report));
    CHECK_EQ(report->nerrors, 0);
    weir_check_free(report);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(settings, limits_that_are_out_of_range_are_errors)
{
    only(KERNEL("a", I("_op_vectorcore_num", 49)), WEIR_FINDING_LIMIT, true, "a", "1..48");
    only(KERNEL("a", S("engine", "cube") I("_op_aicore_num", 25)), WEIR_FINDING_LIMIT, true, "a",
         "1..24");
    clean(KERNEL("a", I("_op_vectorcore_num", 48)));
}

/* By class and engine, as the support table says. */
TEST(settings, limits_without_effect_are_warnings)
{
    static const char *const ignores[] = {"atb", "aicpu", "static"};
    static const char *const obeys[] = {"ascendc", "tbe", "hccl", "mc2"};
    char text[512];

    for (size_t i = 0; i < sizeof ignores / sizeof *ignores; i++) {
        snprintf(text, sizeof text, KERNEL("k", S("class", "%s") I("_op_vectorcore_num", 8)),
                 ignores[i]);
        only(text, WEIR_FINDING_LIMIT, false, "k", ignores[i]);
    }
    for (size_t i = 0; i < sizeof obeys / sizeof *obeys; i++) {
        snprintf(text, sizeof text, KERNEL("k", S("class", "%s") I("_op_vectorcore_num", 8)),
                 obeys[i]);
        clean(text);
    }
    only(KERNEL("k", S("class", "tbe") S("engine", "cube") I("_op_aicore_num", 8)),
         WEIR_FINDING_LIMIT, false, "k", "tbe");
    only(KERNEL("k", S("engine", "host") I("_op_vectorcore_num", 8)), WEIR_FINDING_LIMIT, false,
         "k", "host");
    only(KERNEL("k", S("engine", "cube") I("_op_vectorcore_num", 8)), WEIR_FINDING_LIMIT, false,
         "k", "cube cores");
    clean(KERNEL("k", S("engine", "cube") I("_op_vectorcore_num", 8) I("_op_aicore_num", 4)));
}

/* The largest limit is looked for among operators that obey one. */
TEST(settings, operators_that_ignore_limits_get_another_remedy)
{
    const char *card =
        KERNEL("rs", I("blocks", 40) GANG S("collective", "rs") ON("1") S("class", "atb"))
            KERNEL("dc", I("blocks", 40) GANG S("collective", "dc") ON("2") S("class", "atb"));
    struct ranks r;
    weir_check_report *report;

    ranks_open(&r, TEST_DEVICE);
    ranks_add(&r, card);
    r.graphs[r.n++] = r.graphs[0];
    report = ranks_check(&r, NULL);
    CHECK_EQ(report->nerrors, 2); /* under both policies */
    for (size_t i = 0; i < 2; i++) {
        const weir_remedy *m = &report->findings[i].remedy;

        CHECK_EQ(m->vector, 0);
        CHECK(m->node); /* which runs after the other */
        CHECK_STR(m->text, "run after");
    }
    weir_check_free(report);
    r.n = 1;
    ranks_add(&r, KERNEL("rs", I("blocks", 40) GANG S("collective", "rs") ON("1")) KERNEL(
                      "dc", "input: '^rs' " I("blocks", 40) GANG S("collective", "dc") ON("2")));
    weir_graph_destroy(r.graphs[0]);
    r.graphs[0] = r.graphs[1];
    report = ranks_check(&r, NULL);
    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
    r.n = 1;
    ranks_close(&r);
}

TEST(settings, single_stream_conflicts_with_labels)
{
    const weir_check_options single = {.single_stream = true};
    weir_check_report *report;
    const weir_finding *f;
    struct ranks r;

    ranks_open(&r, TEST_DEVICE);
    ranks_add(&r, KERNEL("a", ON("side")) KERNEL("b", ""));
    report = ranks_check(&r, &single);
    f = find(report, WEIR_FINDING_CONFLICT);
    CHECK(f && f->is_error);
    CHECK_STR(f->text, "single_stream");
    CHECK_STR(f->text, "side");
    CHECK(names(f, "a") && !names(f, "b"));
    weir_check_free(report);
    ranks_close(&r);
}

TEST(settings, streams_in_a_super_kernel_conflict)
{
    only(KERNEL("a", ON("1") S("_super_kernel_scope", "sk"))
             KERNEL("b", ON("2") S("_super_kernel_scope", "sk")),
         WEIR_FINDING_CONFLICT, false, "b", "sk");
    clean(KERNEL("a", ON("1") S("_super_kernel_scope", "sk")
                          S("_super_kernel_options", "stream-fusion=1"))
              KERNEL("b", ON("2") S("_super_kernel_scope", "sk")
                              S("_super_kernel_options", "stream-fusion=1")));
    clean(KERNEL("a", ON("1") S("_super_kernel_scope", "sk"))
              KERNEL("b", ON("1") S("_super_kernel_scope", "sk")));
}

TEST(settings, more_streams_than_the_device_has)
{
    size_t size = 2000 * 128, at = 0;
    char *text = malloc(size);
    weir_check_report *report;
    const weir_finding *f;

    CHECK(text);
    for (int i = 0; i < 1024; i++)
        at += (size_t)snprintf(text + at, size - at, KERNEL("n%d", ON("s%d")), i, i);
    report = check_text(text);
    f = find(report, WEIR_FINDING_STREAM_COUNT);
    CHECK(f && f->is_error);
    CHECK_STR(f->text, "1025 streams");
    weir_check_free(report);
    *strstr(text, KERNEL("n1023", ON("s1023"))) = 0;
    clean(text);
    free(text);
}

/* ---- races ---- */

#define INPUT(name)                                                                \
    "node { name: '" name "' op: 'Data' attr { key: 'dtype' value { s: 'f32' } } " \
    "attr { key: 'shape' value { list { i: 4 i: 4 } } } }\n"

TEST(settings, writes_that_only_the_file_orders_are_races)
{
    const char *both =
        INPUT("x") INPUT("y") "node { name: 'w1' op: 'CopyInto' input: 'x' input: 'y' " ON(
            "1") "}\n"
                 "node { name: 'w2' op: 'CopyInto' input: 'x' input: 'y' " ON("2") "}\n";
    const char *ordered =
        INPUT("x") INPUT("y") "node { name: 'w1' op: 'CopyInto' input: 'x' input: 'y' " ON(
            "1") "}\n"
                 "node { name: 'w2' op: 'CopyInto' input: 'x' input: 'y' input: '^w1' " ON(
                     "2") "}\n";
    const char *one =
        INPUT("x") INPUT("y") "node { name: 'w1' op: 'CopyInto' input: 'x' input: 'y' " ON(
            "1") "}\n"
                 "node { name: 'w2' op: 'CopyInto' input: 'x' input: 'y' " ON("1") "}\n";

    only(both, WEIR_FINDING_RACE, false, "w2", "w1");
    clean(ordered);
    clean(one);
}
