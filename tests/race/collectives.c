/* Collectives as syncs between ranks: two ranks of one device, each on its stream, share a
 * tensor. Whichever rank is called first, only what the collective orders is clean. */
#include "helpers.h"

#include <string.h>

struct ranks {
    struct fixture f;
    weir_group *group;
    weir_stream *s[2];
    weir_tensor *shared, *own[2];
};

static struct ranks open_ranks(weir_race_mode mode)
{
    struct ranks r = {.f = open_fixture(mode)};
    weir_device *devices[2] = {r.f.dev, r.f.dev};

    CHECK_OK(weir_group_create(devices, 2, NULL, &r.group));
    r.s[0] = r.f.a;
    r.s[1] = r.f.b;
    r.shared = new_tensor(r.s[0], 32);
    for (int i = 0; i < 2; i++) {
        r.own[i] = new_tensor(r.s[i], 32);
        CHECK_OK(touch(r.s[i], "begin", r.own[i], true));
        CHECK_OK(weir_stream_sync(r.s[i]));
    }
    return r;
}

static void close_ranks(struct ranks *r)
{
    weir_tensor_release(r->shared);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(r->own[i]);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_sync(r->s[i]));
    CHECK_OK(weir_group_destroy(r->group));
    close_fixture(&r->f);
}

static void barrier(const struct ranks *r, int rank)
{
    weir_stream *before = weir_stream_current(r->f.dev);

    CHECK_OK(weir_stream_set_current(r->s[rank]));
    CHECK_OK(weir_barrier(weir_group_rank(r->group, rank)));
    CHECK_OK(weir_stream_set_current(before));
}

static void all_reduce(const struct ranks *r, int rank)
{
    weir_stream *before = weir_stream_current(r->f.dev);

    CHECK_OK(weir_stream_set_current(r->s[rank]));
    CHECK_OK(weir_all_reduce_into(weir_group_rank(r->group, rank), r->own[rank], WEIR_REDUCE_SUM,
                                  r->own[rank]));
    CHECK_OK(weir_stream_set_current(before));
}

static void access_shared(const struct ranks *r, int rank, bool writes)
{
    CHECK_OK(touch(r->s[rank], writes ? "write" : "read", r->shared, writes));
}

TEST(race_collectives, collectives_order_the_work_before_and_after_them)
{
    void (*const calls[])(const struct ranks *, int) = {barrier, all_reduce};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct ranks r = open_ranks(WEIR_RACE_REPORT);

        access_shared(&r, 0, true);
        calls[i](&r, 0);
        calls[i](&r, 1);
        access_shared(&r, 1, true);
        CHECK_EQ(races(), 0);
        /* Rank 0 first, and far: what it does next waits for rank 1, who writes before. */
        calls[i](&r, 0);
        calls[i](&r, 0);
        access_shared(&r, 0, false);
        calls[i](&r, 1);
        access_shared(&r, 1, true);
        calls[i](&r, 1);
        access_shared(&r, 1, false);
        CHECK_EQ(races(), 0);
        close_ranks(&r);
    }
}

TEST(race_collectives, races_that_collectives_do_not_order_are_found)
{
    struct ranks r = open_ranks(WEIR_RACE_REPORT);
    weir_race found;
    char *text;

    access_shared(&r, 0, true);
    access_shared(&r, 1, false); /* no collective between */
    CHECK_EQ(races(), 1);
    barrier(&r, 0);
    access_shared(&r, 0, true);
    CHECK_EQ(races(), 1); /* rank 1 may still turn out to read before its barrier */
    barrier(&r, 1);
    CHECK_EQ(races(), 1); /* it did */
    access_shared(&r, 1, true);
    CHECK_EQ(races(), 2); /* both ranks write behind the barrier */
    barrier(&r, 1);
    access_shared(&r, 0, true);
    CHECK_EQ(races(), 3); /* before rank 0's second, like rank 1's write */
    access_shared(&r, 1, true);
    CHECK_EQ(races(), 3); /* perhaps */
    barrier(&r, 0);
    CHECK_EQ(races(), 3);
    CHECK_EQ(weir_race_list(&found, sizeof found, 1), 3);
    CHECK_STR_EQ(found.first.stream, "a");
    CHECK_STR_EQ(found.second.stream, "b");
    text = weir_race_report();
    CHECK(strstr(text, "3 races"));
    free(text);
    close_ranks(&r);
}

/* A race that is only known when the last rank calls cannot be refused any more, nor waited
 * for: that could wait for itself. It is reported. */
TEST(race_collectives, races_found_after_a_late_call_are_reported_in_every_mode)
{
    static const weir_race_mode modes[] = {WEIR_RACE_ERROR, WEIR_RACE_AUTOSYNC};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct ranks r = open_ranks(modes[i]);
        weir_race found;

        CHECK_OK(touch(r.f.c, "aside", r.shared, true));
        barrier(&r, 1);
        access_shared(&r, 1, true); /* fine if rank 0 waits for what is aside before it calls */
        CHECK_EQ(races(), 0);
        barrier(&r, 0);
        CHECK_EQ(weir_race_list(&found, sizeof found, 1), 1);
        CHECK_STR_EQ(found.first.op, "aside");
        CHECK_STR_EQ(found.second.op, "write");
        CHECK(!found.fixed);
        close_ranks(&r);
    }
}

/* A group that goes away takes its calls with it. */
TEST(race_collectives, a_destroyed_group_delays_no_finding)
{
    struct ranks r = open_ranks(WEIR_RACE_REPORT);

    barrier(&r, 0);
    access_shared(&r, 0, true);
    access_shared(&r, 1, true);
    CHECK_EQ(races(), 0);
    weir_group_abort(r.group, "enough");
    CHECK_STATUS(weir_stream_sync(r.s[0]), WEIR_ESTATE);
    CHECK_OK(weir_stream_sync(r.s[1]));
    CHECK_OK(weir_group_destroy(r.group));
    CHECK_EQ(races(), 1);
    r.group = NULL;
    weir_tensor_release(r.shared);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(r.own[i]);
    close_fixture(&r.f);
}

/* A plan with a collective in it is one. */
TEST(race_collectives, plans_order_their_ranks)
{
    struct ranks r = open_ranks(WEIR_RACE_REPORT);
    weir_plan *plan[2];

    for (int i = 0; i < 2; i++) {
        weir_tensor *out;
        weir_graph *g;

        CHECK_OK(weir_graph_create(r.f.dev, &g));
        CHECK_OK(weir_graph_begin(g));
        CHECK_OK(weir_all_reduce(weir_group_rank(r.group, i), r.own[i], WEIR_REDUCE_SUM, &out));
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, "out", out));
        CHECK_OK(weir_graph_compile(g, NULL, &plan[i]));
        weir_tensor_release(out);
        weir_graph_destroy(g);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i >= 0; i--) { /* rank 1 first: it reads what rank 0 will have written */
            weir_tensor *out = NULL;

            if (i == 0)
                access_shared(&r, 0, true);
            CHECK_OK(weir_plan_run(plan[i], r.s[i], NULL, 0, &out, 1));
            weir_tensor_release(out);
            if (i == 1)
                access_shared(&r, 1, false);
        }
        barrier(&r, 0);
        barrier(&r, 1);
    }
    CHECK_EQ(races(), 0);
    access_shared(&r, 1, true);
    access_shared(&r, 0, false);
    CHECK_EQ(races(), 1);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_stream_sync(r.s[i]));
        weir_plan_destroy(plan[i]);
    }
    close_ranks(&r);
}
