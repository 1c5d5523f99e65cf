/* Operators of groups: captured, and written down and read back. */
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

enum { RANKS = 2 };

/* What a rank does, as letters: r all-reduce, g all-gather, b barrier on group a; R, B on group b;
 * s and v send to and receive from the other rank; n a NonZero on all vector cores. Behind each
 * '|' it goes on on another stream. */
struct world {
    weir_device *dev[RANKS];
    weir_group *a, *b;
    weir_graph *graphs[RANKS];
};

static void open_world(struct world *w, const weir_group_options *options)
{
    for (int i = 0; i < RANKS; i++)
        CHECK_OK(weir_device_open(TEST_DEVICE, &w->dev[i]));
    weir_group_options o = options ? *options : (weir_group_options){0};

    o.name = "a";
    CHECK_OK(weir_group_create(w->dev, RANKS, &o, &w->a));
    o.name = "b";
    CHECK_OK(weir_group_create(w->dev, RANKS, &o, &w->b));
}

static void close_world(struct world *w)
{
    for (int i = 0; i < RANKS; i++)
        weir_graph_destroy(w->graphs[i]);
    CHECK_OK(weir_group_destroy(w->a));
    CHECK_OK(weir_group_destroy(w->b));
    for (int i = 0; i < RANKS; i++)
        CHECK_OK(weir_device_close(w->dev[i]));
}

static void call(struct world *w, int rank, char what, weir_tensor *x)
{
    weir_rank *a = weir_group_rank(w->a, rank), *b = weir_group_rank(w->b, rank);
    weir_tensor *out = NULL;

    switch (what) {
    case 'r':
    case 'R':
        CHECK_OK(weir_all_reduce(what == 'r' ? a : b, x, WEIR_REDUCE_SUM, &out));
        break;
    case 'g':
        CHECK_OK(weir_all_gather(a, x, &out));
        break;
    case 'b':
    case 'B':
        CHECK_OK(weir_barrier(what == 'b' ? a : b));
        break;
    case 's':
        CHECK_OK(weir_send(a, x, 1 - rank));
        break;
    case 'v':
        CHECK_OK(weir_recv(a, x, 1 - rank));
        break;
    default: {
        weir_tensor *n;

        CHECK_EQ(what, 'n');
        CHECK_OK(weir_nonzero_padded(x, &out, &n));
        weir_tensor_release(n);
    }
    }
    weir_tensor_release(out);
}

static void capture(struct world *w, int rank, const char *program)
{
    const int64_t shape[] = {1 << 20};
    weir_tensor *x;
    weir_graph *g;
    int streams = 0;

    CHECK_OK(weir_graph_create(w->dev[rank], &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, shape, &x));
    CHECK_OK(weir_graph_begin(g));
    for (; *program; program++)
        if (*program == '|') {
            CHECK_OK(weir_scope_push_stream(streams++ ? "third" : "second", 0));
        } else {
            call(w, rank, *program, x);
        }
    while (streams-- > 0)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_end(g));
    weir_tensor_release(x);
    w->graphs[rank] = g;
}

/* The graphs' report, which must be that of the files they are dumped to as well. */
static weir_check_report *check_both(struct world *w)
{
    weir_check_report *report, *again;
    char paths[RANKS][64];
    const char *list[RANKS];

    for (int i = 0; i < RANKS; i++) {
        char *text = weir_graph_dump(w->graphs[i]);
        FILE *file;

        snprintf(paths[i], sizeof paths[i], "/tmp/weir-groups-XXXXXX");
        CHECK((file = fdopen(mkstemp(paths[i]), "wb")));
        CHECK_EQ(fwrite(text, 1, strlen(text), file), strlen(text));
        CHECK_EQ(fclose(file), 0);
        free(text);
        list[i] = paths[i];
    }
    CHECK_OK(weir_check_graphs(w->graphs, RANKS, NULL, &report));
    CHECK_OK(weir_check_files(w->dev[0], list, RANKS, NULL, &again));
    CHECK_EQ(report->nerrors, again->nerrors);
    for (size_t i = 0; i < report->nerrors; i++)
        CHECK_STR_EQ(report->findings[i].text, again->findings[i].text);
    weir_check_free(again);
    for (int i = 0; i < RANKS; i++)
        unlink(paths[i]);
    return report;
}

static weir_check_report *check_programs(const char *zero, const char *one,
                                         const weir_group_options *options)
{
    struct world w;
    weir_check_report *report;

    open_world(&w, options);
    capture(&w, 0, zero);
    capture(&w, 1, one);
    report = check_both(&w);
    close_world(&w);
    return report;
}

TEST(check_groups, programs_that_fit_are_clean)
{
    static const char *const programs[][2] = {
        {"r", "r"}, {"rgb", "rgb"}, {"rRbB", "rRbB"}, {"s", "v"}, {"sv", "vs"},
    };

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        test_note("%s beside %s", programs[i][0], programs[i][1]);
        weir_check_report *report = check_programs(programs[i][0], programs[i][1], NULL);

        CHECK_EQ(report->nerrors, 0);
        weir_check_free(report);
    }
}

TEST(check_groups, calls_of_one_group_must_fit)
{
    weir_check_report *report = check_programs("rg", "gr", NULL);
    const weir_finding *f = find(report, WEIR_FINDING_COLLECTIVE_ORDER);

    CHECK(f && f->is_error);
    CHECK_STR(f->text, "number 1 of collective 'group a'");
    CHECK_STR(f->text, "rank 0 calls AllReduce");
    CHECK_STR(f->text, "rank 1 calls AllGather");
    CHECK_EQ(f->nnodes, 2);
    weir_check_free(report);
}

TEST(check_groups, a_collective_that_one_rank_lacks_is_found)
{
    weir_check_report *report = check_programs("rr", "r", NULL);
    const weir_finding *f = find(report, WEIR_FINDING_COLLECTIVE_ORDER);

    CHECK(f && f->is_error);
    CHECK_STR(f->text, "'group a' is issued 2 times by rank 0 but 1 times by rank 1");
    weir_check_free(report);
}

/* Each of the two waits on its only stream for what comes next on the other's. */
TEST(check_groups, two_groups_in_different_orders)
{
    static const char *const programs[][2] = {{"rR", "Rr"}, {"bB", "Bb"}, {"sv", "sv"}};

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        test_note("%s beside %s", programs[i][0], programs[i][1]);
        weir_check_report *report = check_programs(programs[i][0], programs[i][1], NULL);

        CHECK_GT(report->nerrors, 0);
        weir_check_free(report);
    }
}

/* In vector mode a collective keeps its cores until all are there, and NonZero wants all. */
TEST(check_groups, cores_are_held_in_vector_mode_only)
{
    weir_check_report *report = check_programs("r|R|n", "r|R|n", NULL);
    const weir_finding *f = find(report, WEIR_FINDING_CORE_DEADLOCK);

    CHECK(f && f->is_error);
    weir_check_free(report);
    report = check_programs("r|R|n", "r|R|n", &(weir_group_options){.mode = WEIR_COMM_SDMA});
    CHECK(!find(report, WEIR_FINDING_CORE_DEADLOCK));
    CHECK_EQ(report->nerrors, 0);
    weir_check_free(report);
}

/* One rank alone is checked, and said to be only one. */
TEST(check_groups, ranks_missing_from_the_program_are_reported)
{
    struct world w;
    weir_check_report *report;
    const weir_finding *f;

    open_world(&w, NULL);
    capture(&w, 0, "rs");
    capture(&w, 1, "rv");
    CHECK_OK(weir_check_graphs(w.graphs, 1, NULL, &report));
    CHECK_EQ(report->nerrors, 0);
    CHECK((f = find(report, WEIR_FINDING_COLLECTIVE_ORDER)));
    CHECK_STR(f->text, "in group 'a' of 2 ranks, but the program of 1 has 1 of them");
    weir_check_free(report);
    close_world(&w);
}
