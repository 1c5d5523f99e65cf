/* Groups of some of the ranks, and messages among more than two. */
#include <stdlib.h>

#include "helpers.h"

enum { RANKS = 4 };

/* Of the case, which has a process of its own. */
static bool one_name; /* both halves have the same */
static bool warns;    /* the finding is no error */
static bool by_file;  /* graphs are written and read again, so that names are all that is known */

struct world {
    weir_device *dev[RANKS];
    weir_group *all, *half[2]; /* ranks 0 and 1, ranks 2 and 3 */
    weir_graph *graphs[RANKS];
};

static void open_world(struct world *w)
{
    for (int i = 0; i < RANKS; i++)
        CHECK_OK(weir_device_open(TEST_DEVICE, &w->dev[i]));
    CHECK_OK(weir_group_create(w->dev, RANKS, &(weir_group_options){.name = "all"}, &w->all));
    CHECK_OK(weir_group_create(w->dev, 2, &(weir_group_options){.name = one_name ? "half" : "left"},
                               &w->half[0]));
    CHECK_OK(weir_group_create(
        w->dev + 2, 2, &(weir_group_options){.name = one_name ? "half" : "right"}, &w->half[1]));
}

static void close_world(struct world *w)
{
    for (int i = 0; i < RANKS; i++)
        weir_graph_destroy(w->graphs[i]);
    CHECK_OK(weir_group_destroy(w->all));
    CHECK_OK(weir_group_destroy(w->half[0]));
    CHECK_OK(weir_group_destroy(w->half[1]));
    for (int i = 0; i < RANKS; i++)
        CHECK_OK(weir_device_close(w->dev[i]));
}

/* Letters: a and h are all-reduces of all ranks and of the rank's half; a digit sends to that rank,
 * and behind '<' receives from it; s and r do so with the other one of the half; n is a NonZero on
 * all vector cores. Behind '|' it goes on on another stream. */
static void capture(struct world *w, int rank, const char *program)
{
    weir_rank *all = weir_group_rank(w->all, rank);
    weir_rank *half = weir_group_rank(w->half[rank / 2], rank % 2);
    weir_tensor *x, *y, *out, *n;
    weir_graph *g;
    int streams = 0;

    CHECK_OK(weir_graph_create(w->dev[rank], &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){1 << 20}, &x));
    CHECK_OK(weir_graph_input(g, "y", WEIR_F32, 1, (int64_t[]){1 << 20}, &y));
    CHECK_OK(weir_graph_begin(g));
    for (; *program; program++) {
        out = NULL;
        if (*program == '|')
            CHECK_OK(weir_scope_push_stream(streams++ ? "third" : "second", 0));
        else if (*program == 'a' || *program == 'h')
            CHECK_OK(weir_all_reduce(*program == 'a' ? all : half, x, WEIR_REDUCE_SUM, &out));
        else if (*program == 's')
            CHECK_OK(weir_send(half, x, 1 - rank % 2));
        else if (*program == 'r')
            CHECK_OK(weir_recv(half, y, 1 - rank % 2));
        else if (*program == '<')
            CHECK_OK(weir_recv(all, y, *++program - '0'));
        else if (*program == 'n') {
            CHECK_OK(weir_nonzero_padded(x, &out, &n));
            weir_tensor_release(n);
        } else
            CHECK_OK(weir_send(all, x, *program - '0'));
        weir_tensor_release(out);
    }
    while (streams-- > 0)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_end(g));
    weir_tensor_release(x);
    weir_tensor_release(y);
    w->graphs[rank] = g;
    if (by_file) {
        char *text = weir_graph_dump(g);

        CHECK_OK(weir_graph_load(w->dev[rank], text, strlen(text), "test", &w->graphs[rank]));
        free(text);
        weir_graph_destroy(g);
    }
}

/* NULL: nothing of that kind is found; else what an error of it says. */
static void expect(const char *const *programs, weir_finding_kind kind, const char *part)
{
    struct world w;
    weir_check_report *report;
    const weir_finding *f;

    open_world(&w);
    for (int i = 0; i < RANKS; i++)
        capture(&w, i, programs[i]);
    CHECK_OK(weir_check_graphs(w.graphs, RANKS, NULL, &report));
    f = find(report, kind);
    test_note("%s %s %s %s: %s", programs[0], programs[1], programs[2], programs[3],
              f ? f->text : "nothing");
    if (part) {
        CHECK(f && f->is_error == !warns);
        CHECK_STR(f->text, part);
    } else {
        CHECK(!f);
    }
    weir_check_free(report);
    close_world(&w);
}
#define EXPECT(kind, part, ...) expect((const char *const[]){__VA_ARGS__}, kind, part)

TEST(check_subgroups, halves_and_all_in_one_order_are_clean)
{
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "aha", "aha", "aha", "aha");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "hha", "hha", "a", "a");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "h|a", "a|h", "ha", "ha");
}

TEST(check_subgroups, a_half_and_all_in_different_orders_wait_for_each_other)
{
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "different orders", "ah", "ha", "a", "a");
}

TEST(check_subgroups, a_call_that_one_of_a_half_lacks_names_its_rank)
{
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "1 times by rank 3", "a", "a", "ahh", "ah");
}

TEST(check_subgroups, a_ring_that_sends_first_waits_for_itself)
{
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "different orders", "1<3", "2<0", "3<1", "0<2");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "1<3", "<02", "3<1", "<20");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "1|<3", "2|<0", "3|<1", "0|<2");
}

TEST(check_subgroups, a_message_that_nobody_receives_is_found)
{
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "0 times by rank 2", "2", "a", "a", "a");
}

TEST(check_subgroups, cores_that_halves_hold_are_explored)
{
    EXPECT(WEIR_FINDING_CORE_DEADLOCK, "", "h|a|n", "h|a|n", "h|a|n", "h|a|n");
    EXPECT(WEIR_FINDING_CORE_DEADLOCK, NULL, "han", "han", "han", "han");
}

/* ---- messages within a half ---- */

static void messages_within_halves(void)
{
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "sra", "rsa", "sra", "rsa");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "s|ra", "s|ra", "s|ra", "s|ra");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "different orders", "a", "a", "sra", "sra");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "different orders", "as", "ra", "a", "a");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "0 times by rank 3", "ah", "ah", "ahs", "ah");
}

TEST(check_subgroups, messages_within_a_half_are_explored)
{
    messages_within_halves();
}
TEST(check_subgroups, messages_within_a_half_are_explored_in_files)
{
    by_file = true;
    messages_within_halves();
}
TEST(check_subgroups, messages_within_halves_of_one_name_are_distinguished)
{
    one_name = true;
    messages_within_halves();
}

/* ---- halves of one name ---- */

TEST(check_subgroups, groups_of_one_name_created_in_one_process_are_distinguished)
{
    one_name = true;
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "aha", "aha", "aha", "aha");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "hha", "hha", "ha", "ha");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "different orders", "ah", "ha", "ah", "ah");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "1 times by rank 3", "ah", "ah", "ahh", "ah");
}

/* Whoever is with whom. */
TEST(check_subgroups, groups_of_one_name_in_files_are_clean_if_every_partition_is)
{
    one_name = by_file = true;
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "aha", "aha", "aha", "aha");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, NULL, "h|a", "a|h", "ha", "ha");
}

TEST(check_subgroups, groups_of_one_name_in_files_fail_if_every_partition_does)
{
    one_name = by_file = true;
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "different orders", "ah", "ha", "ha", "ha");
}

TEST(check_subgroups, groups_of_one_name_in_files_get_a_warning_if_some_partition_fails)
{
    one_name = by_file = warns = true;
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "in 2 of 3 ways", "ah", "ah", "ha", "ha");
    EXPECT(WEIR_FINDING_COLLECTIVE_ORDER, "in 2 of 3 ways", "hha", "hha", "ha", "ha");
}
