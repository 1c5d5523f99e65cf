/* Checks of graph files: faults that only the text shows, and files that are no programs. */
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

#define KERNEL(name, rest) "node { name: '" name "' op: 'Kernel' " rest " }\n"
#define ON(stream) "attr { key: '_user_stream_label' value { s: '" stream "' } } "
#define MEETS(name) "attr { key: 'collective' value { s: '" name "' } } "
#define BLOCKS(n) "attr { key: 'blocks' value { i: " #n " } } "

struct files {
    char paths[4][64];
    const char *ptrs[4];
    size_t n;
};

static void add_file(struct files *f, const char *data, size_t size)
{
    FILE *file;
    int fd;

    snprintf(f->paths[f->n], sizeof f->paths[f->n], "/tmp/weir-check-XXXXXX");
    CHECK_GE(fd = mkstemp(f->paths[f->n]), 0);
    CHECK(file = fdopen(fd, "wb"));
    CHECK_EQ(fwrite(data, 1, size, file), size);
    CHECK_EQ(fclose(file), 0);
    f->ptrs[f->n] = f->paths[f->n];
    f->n++;
}

static weir_check_options options; /* of the case, which has a process of its own */

static weir_status check_files(struct files *f, weir_check_report **report)
{
    weir_device *dev;
    weir_status st;

    CHECK_OK(weir_device_open(TEST_DEVICE, &dev));
    st = weir_check_files(dev, f->ptrs, f->n, &options, report);
    for (size_t i = 0; i < f->n; i++)
        unlink(f->paths[i]);
    CHECK_OK(weir_device_close(dev));
    return st;
}

static weir_check_report *check_two(const char *a, const char *b)
{
    struct files f = {.n = 0};
    weir_check_report *report;

    add_file(&f, a, strlen(a));
    if (b)
        add_file(&f, b, strlen(b));
    CHECK_OK(check_files(&f, &report));
    return report;
}

static const weir_finding *only(const weir_check_report *report, weir_finding_kind kind)
{
    const weir_finding *f = find(report, kind);

    CHECK_EQ(report->nfindings, 1);
    CHECK(f && f->is_error);
    CHECK(report->exhaustive);
    return f;
}

TEST(files, a_cycle_through_stream_order_is_found)
{
    weir_check_report *report =
        check_two(KERNEL("a", "input: '^d' " ON("1")) KERNEL("b", ON("1"))
                      KERNEL("c", "input: '^b' " ON("2")) KERNEL("d", ON("2")),
                  NULL);
    const weir_finding *f = only(report, WEIR_FINDING_EVENT_CYCLE);

    CHECK_EQ(f->ncycle, 4);
    CHECK(names(f, "a") && names(f, "b") && names(f, "c") && names(f, "d"));
    weir_check_free(report);
}

TEST(files, a_cycle_of_control_inputs_is_found)
{
    weir_check_report *report =
        check_two(KERNEL("a", "input: '^b' ") KERNEL("b", "input: '^a' ") KERNEL("c", ""), NULL);
    const weir_finding *f = only(report, WEIR_FINDING_EVENT_CYCLE);

    CHECK_EQ(f->ncycle, 2);
    CHECK(!names(f, "c"));
    weir_check_free(report);
}

TEST(files, order_in_a_file_without_streams_means_nothing)
{
    weir_check_report *report =
        check_two(KERNEL("a", "input: '^c' ") KERNEL("b", "") KERNEL("c", "input: '^b' "), NULL);

    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
}

TEST(files, a_wait_for_nothing_is_found_with_its_place)
{
    weir_check_report *report =
        check_two(KERNEL("a", "") KERNEL("b", "input: '^a' input: '^ghost' "), NULL);
    const weir_finding *f = only(report, WEIR_FINDING_UNRECORDED_EVENT);

    CHECK_STR(f->text, "ghost");
    CHECK_STR(f->text, ":2:");
    CHECK_STR_EQ(f->remedy.node, "b");
    weir_check_free(report);
}

TEST(files, collectives_in_different_orders_are_found)
{
    const char *ab = KERNEL("x", MEETS("a") ON("1")) KERNEL("y", MEETS("b") ON("1"));
    const char *ba = KERNEL("y", MEETS("b") ON("1")) KERNEL("x", MEETS("a") ON("1"));
    const char *apart = KERNEL("y", MEETS("b") ON("1")) KERNEL("x", MEETS("a") ON("2"));
    weir_check_report *report = check_two(ab, ba);
    const weir_finding *f = only(report, WEIR_FINDING_COLLECTIVE_ORDER);

    CHECK_EQ(f->ncycle, 4);
    CHECK(names(f, "x") && names(f, "y"));
    weir_check_free(report);

    report = check_two(ab, apart);
    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
    report = check_two(ab, ab);
    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
}

TEST(files, collectives_that_one_rank_lacks_are_found)
{
    weir_check_report *report =
        check_two(KERNEL("x", MEETS("a")) KERNEL("y", MEETS("a")), KERNEL("x", MEETS("a")));
    const weir_finding *f = only(report, WEIR_FINDING_COLLECTIVE_ORDER);

    CHECK_STR(f->text, "2 times by rank 0 but 1 times by rank 1");
    CHECK(names(f, "y"));
    weir_check_free(report);
    report = check_two(KERNEL("x", MEETS("a")), KERNEL("x", MEETS("b")));
    CHECK_EQ(report->nerrors, 2);
    weir_check_free(report);
    report = check_two(KERNEL("x", MEETS("a")), NULL); /* one rank meets nobody */
    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
}

/* Ready streams compete; a rank without cores for one more block stands still. */
TEST(files, a_plain_operator_may_complete_a_deadlock_cycle)
{
    const char *left = KERNEL("rs", BLOCKS(48) MEETS("rs") ON("1")) KERNEL("plain", ON("2"))
        KERNEL("dc", BLOCKS(8) MEETS("dc") ON("2"));
    const char *right = KERNEL("dc", BLOCKS(48) MEETS("dc") ON("1")) KERNEL("plain", ON("2"))
        KERNEL("rs", BLOCKS(8) MEETS("rs") ON("2"));
    weir_check_report *report = check_two(left, right);
    const weir_finding *f = find(report, WEIR_FINDING_CORE_DEADLOCK);

    CHECK_EQ(report->nerrors, 2);
    CHECK(f && names(f, "plain"));
    weir_check_free(report);
}

/* ---- what is no program ---- */

static void refused(const char *data, size_t size, weir_status want)
{
    struct files f = {.n = 0};
    weir_check_report *report = (void *)&f;

    add_file(&f, data, size);
    test_note("%.60s", data);
    CHECK_STATUS(check_files(&f, &report), want);
    CHECK(!report);
    CHECK_STR(weir_last_error(), "weir-check-"); /* it names the file */
    CHECK_GT(strlen(weir_last_error()), 30);
}

static void refused_text(const char *text, weir_status want)
{
    refused(text, strlen(text), want);
}

TEST(files, a_file_that_is_not_a_graph_is_refused_with_a_message)
{
    static const char zeros[100];

    refused_text("node { name: 'a' ", WEIR_EPARSE);
    refused_text("}{", WEIR_EPARSE);
    refused_text("\x7f"
                 "ELF\x01\x02",
                 WEIR_EPARSE);
    refused(zeros, sizeof zeros, WEIR_EPARSE);
    refused_text(KERNEL("a", "input: 'nobody' "), WEIR_EINVAL); /* data of nobody is no event */
    refused_text(KERNEL("a", "") KERNEL("a", ""), WEIR_EINVAL);
    refused_text("node { name: 'a' op: 'Krenel' }", WEIR_EINVAL);
    refused_text(KERNEL("a", BLOCKS(-4)), WEIR_EINVAL);
    refused_text(KERNEL("a", BLOCKS(99999999999)), WEIR_EINVAL);
    refused_text(KERNEL("a", "attr { key: 'engine' value { s: 'warp' } } "), WEIR_EINVAL);
    refused_text(KERNEL("a", "attr { key: 'class' value { s: 'gold' } } "), WEIR_EINVAL);
    refused_text(KERNEL("a", "attr { key: 'gang' value { s: 'perhaps' } } "), WEIR_EINVAL);
    refused_text(KERNEL("a", "attr { key: '_user_stream_priority' value { i: 9 } } "), WEIR_EINVAL);
    refused_text(KERNEL("a", "attr { key: 'us' value { f: nan } } "), WEIR_EINVAL);
}

TEST(files, missing_files_and_bad_counts_of_ranks_are_refused)
{
    const char *const missing[] = {"/nonexistent/graph.pbtxt"};
    const char *const folder[] = {"/"};
    weir_graph *none[1] = {NULL};
    weir_check_report *report;
    weir_device *dev;

    CHECK_OK(weir_device_open(TEST_DEVICE, &dev));
    CHECK_STATUS(weir_check_files(dev, missing, 1, NULL, &report), WEIR_EIO);
    CHECK_STR(weir_last_error(), "/nonexistent/graph.pbtxt");
    CHECK_STATUS(weir_check_files(dev, folder, 1, NULL, &report), WEIR_EIO);
    CHECK_STATUS(weir_check_files(dev, missing, 0, NULL, &report), WEIR_EINVAL);
    CHECK_STATUS(weir_check_files(dev, missing, 1 << 20, NULL, &report), WEIR_EINVAL);
    CHECK_STATUS(weir_check_graphs(none, 1, NULL, &report), WEIR_EINVAL);
    CHECK(!report);
    weir_check_free(NULL);
    CHECK_OK(weir_device_close(dev));
}

TEST(files, an_empty_file_is_a_program_that_does_nothing)
{
    weir_check_report *report = check_two("", NULL);

    CHECK_EQ(report->nfindings, 0);
    CHECK_EQ(report->noperators, 0);
    weir_check_free(report);
}

/* Many timings: the rule takes over, in bounded time, and says so. */
TEST(files, with_too_many_timings_the_rule_of_sums_decides)
{
    char tight[16384], fits[16384];
    size_t at = 0, to = 0;
    weir_check_report *report;

    for (int s = 0; s < 14; s++)
        for (int i = 0; i < 3; i++) {
            static const char node[] =
                KERNEL("n%d_%d", "attr { key: 'blocks' value { i: %d } } "
                                 "attr { key: 'gang' value { b: true } } "
                                 "attr { key: 'collective' value { s: 'c%d' } } "
                                 "attr { key: '_user_stream_label' value { s: 's%d' } } "
                                 "attr { key: '_user_stream_priority' value { i: %d } } ");

            at += (size_t)snprintf(tight + at, sizeof tight - at, node, s, i, 4, s, s, s % 3);
            to += (size_t)snprintf(fits + to, sizeof fits - to, node, s, i, 3, s, s, s % 3);
        }
    CHECK_LT(at, sizeof tight - 1);
    options.max_states = 3000;
    report = check_two(tight, tight);
    CHECK(!report->exhaustive);
    CHECK_GT(report->nerrors, 0);
    CHECK_STR(report->findings[0].text, "56 vector cores");
    CHECK_GT(report->findings[0].nnodes, 10);
    weir_check_free(report);
    report = check_two(fits, fits); /* 14 x 3 = 42: no timing matters */
    CHECK(report->exhaustive);
    CHECK_EQ(report->nerrors, 0);
    weir_check_free(report);
}
