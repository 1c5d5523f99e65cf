/* The published case: two cards of 48 vector cores, reduceScatter on 16, dispatchCombine on
 * 24, and NonZero, which takes what is left and needs all. */
#include <pthread.h>

#include "helpers.h"

static void add_node(char *text, size_t size, const char *name, int blocks, const char *collective,
                     int limit)
{
    size_t at = strlen(text);

    at += (size_t)snprintf(text + at, size - at,
                           "node { name: '%s' op: 'Kernel' "
                           "attr { key: 'engine' value { s: 'vector' } } "
                           "attr { key: 'blocks' value { i: %d } } "
                           "attr { key: 'us_per_block' value { f: 10 } } "
                           "attr { key: 'gang' value { b: true } } "
                           "attr { key: '_user_stream_label' value { s: '%s' } } ",
                           name, blocks, name);
    if (*collective)
        at += (size_t)snprintf(text + at, size - at,
                               "attr { key: 'collective' value { s: '%s' } } ", collective);
    if (limit)
        at += (size_t)snprintf(text + at, size - at,
                               "attr { key: '_op_vectorcore_num' value { i: %d } } ", limit);
    snprintf(text + at, size - at, "}\n");
}

/* Both cards, with NonZero limited to that many cores; 0 leaves it as it is. */
static void add_cards(struct ranks *r, int limit)
{
    for (int card = 0; card < 2; card++) {
        char text[4096] = "";

        add_node(text, sizeof text, card ? "dispatch_combine" : "reduce_scatter", card ? 24 : 16,
                 card ? "dc" : "rs", 0);
        add_node(text, sizeof text, "non_zero", 48, "", limit);
        add_node(text, sizeof text, card ? "reduce_scatter" : "dispatch_combine", card ? 16 : 24,
                 card ? "rs" : "dc", 0);
        ranks_add(r, text);
    }
}

static size_t count_errors(int limit, unsigned policies)
{
    struct ranks r;
    weir_check_report *report;
    size_t n;

    ranks_open(&r, TEST_DEVICE);
    add_cards(&r, limit);
    report = ranks_check(&r, &(weir_check_options){.policies = policies});
    CHECK(report->exhaustive);
    n = report->nerrors;
    weir_check_free(report);
    ranks_close(&r);
    return n;
}

TEST(seed003, the_seed_deadlock_is_found_described_and_remedied)
{
    struct ranks r;
    weir_check_report *report;
    const weir_finding *f;

    ranks_open(&r, TEST_DEVICE);
    add_cards(&r, 0);
    report = ranks_check(&r, NULL);
    CHECK_EQ(report->nerrors, 1);
    CHECK_EQ(report->nfindings, 1);
    CHECK_EQ(report->nranks, 2);
    CHECK_EQ(report->noperators, 6);
    f = &report->findings[0];
    CHECK_EQ(f->kind, WEIR_FINDING_CORE_DEADLOCK);
    CHECK(f->is_error);
    CHECK_EQ(f->policy, WEIR_POLICY_HOLD);
    CHECK(names(f, "reduce_scatter") && names(f, "dispatch_combine") && names(f, "non_zero"));
    CHECK_EQ(f->nnodes, 3);
    CHECK_EQ(f->nsteps, 4); /* two on each card */
    CHECK_STR(f->steps[0], "rank 0: reduce_scatter");
    CHECK_STR(f->steps[0], "16 vector cores");
    CHECK_STR(f->steps[1], "takes the 32 vector cores that are left");
    CHECK_STR(f->steps[3], "takes the 24 vector cores that are left");
    CHECK_EQ(f->ncycle, 5);
    CHECK_STR_EQ(f->remedy.node, "non_zero");
    CHECK_EQ(f->remedy.vector, 32);
    CHECK_EQ(f->remedy.safe_vector, 8);
    CHECK_EQ(f->remedy.cube, 0);
    CHECK_EQ(f->remedy.safe_cube, 0);
    CHECK_STR(f->remedy.text, "limit non_zero to 32 vector cores");
    weir_check_free(report);
    ranks_close(&r);
}

TEST(seed003, the_seed_program_deadlocks_down_to_33_cores_and_never_below)
{
    CHECK_EQ(count_errors(48, 0), 1);
    CHECK_EQ(count_errors(33, 0), 1);
    CHECK_EQ(count_errors(33, WEIR_POLICY_HOLD), 1);
    CHECK_EQ(count_errors(33, WEIR_POLICY_BATCH), 0);
    for (int limit = 1; limit <= 32; limit++)
        CHECK_EQ(count_errors(limit, 0), 0);
}

TEST(seed003, a_remedy_that_breaks_the_rule_of_two_streams_is_a_warning)
{
    struct ranks r;
    weir_check_report *report;
    const weir_finding *f;

    ranks_open(&r, TEST_DEVICE);
    add_cards(&r, 32);
    report = ranks_check(&r, NULL);
    CHECK_EQ(report->nerrors, 0);
    CHECK_EQ(report->nfindings, 1); /* once, not once a rank */
    f = find(report, WEIR_FINDING_LIMIT);
    CHECK(f && !f->is_error);
    CHECK(names(f, "non_zero") && names(f, "dispatch_combine"));
    weir_check_free(report);
    ranks_close(&r);

    ranks_open(&r, TEST_DEVICE);
    add_cards(&r, 8); /* 24 + 16 + 8 = 48: not even that */
    report = ranks_check(&r, NULL);
    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
    ranks_close(&r);
}

/* Three operators on one card in one order cannot wait for another card. */
TEST(seed003, an_order_between_the_three_collectives_is_free_of_deadlock)
{
    struct ranks r;
    weir_check_report *report;
    const char *card =
        "node { name: 'rs' op: 'Kernel' attr { key: 'blocks' value { i: 16 } }"
        " attr { key: 'gang' value { b: true } } attr { key: 'collective' value { s: 'rs' } }"
        " attr { key: '_user_stream_label' value { s: 'a' } } }"
        "node { name: 'nz' op: 'Kernel' input: '^rs' attr { key: 'blocks' value { i: 48 } }"
        " attr { key: 'gang' value { b: true } }"
        " attr { key: '_user_stream_label' value { s: 'b' } } }"
        "node { name: 'dc' op: 'Kernel' input: '^nz' attr { key: 'blocks' value { i: 24 } }"
        " attr { key: 'gang' value { b: true } } attr { key: 'collective' value { s: 'dc' } }"
        " attr { key: '_user_stream_label' value { s: 'c' } } }";

    ranks_open(&r, TEST_DEVICE);
    ranks_add(&r, card);
    ranks_add(&r, card);
    report = ranks_check(&r, NULL);
    CHECK_EQ(report->nfindings, 0);
    weir_check_free(report);
    ranks_close(&r);
}

static void *check_often(void *graphs)
{
    for (int i = 0; i < 20; i++) {
        weir_check_report *report;

        CHECK_OK(weir_check_graphs(graphs, 2, NULL, &report));
        CHECK_EQ(report->nerrors, 1);
        CHECK_EQ(report->findings[0].remedy.vector, 32);
        weir_check_free(report);
    }
    return NULL;
}

TEST(seed003, may_be_checked_by_several_threads_at_once)
{
    pthread_t threads[3];
    struct ranks r;

    ranks_open(&r, TEST_DEVICE);
    add_cards(&r, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, check_often, r.graphs), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ranks_close(&r);
}
