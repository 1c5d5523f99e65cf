/* The checker finds every way in which a plan can be wrong. */
#include <stdlib.h>

#include "graph/pass/memory.h"
#include "graph/pass/synthetic.h"
#include "harness/test.h"

enum { GRAPHS = 500 / TEST_SLOWDOWN };

static void plan(struct synthetic *s, uint64_t seed)
{
    struct rng r = {seed};
    struct synthetic_options o = {
        .seed = seed,
        .nodes = 2 + rng_below(&r, 40),
        .streams = 2 + rng_below(&r, 6),
        .reads = 2,
        .window = 8,
        .in_place = 10,
        .scratch = 20,
        .control = 10,
        .sizes = 8,
    };

    test_note("seed %d", (int)seed);
    synthetic_init(s, &o);
    synthetic_syncs(s);
    CHECK_OK(weir__pass_memory(&s->c));
    CHECK_OK(weir__pass_check(&s->c));
}

/* Takes sync i out of the list. */
static void remove_sync(struct weir__compile *c, int i)
{
    memmove(c->syncs + i, c->syncs + i + 1, (size_t)(c->nsyncs - i - 1) * sizeof *c->syncs);
    c->nsyncs--;
    for (int v = 0; v <= c->g->nnodes; v++)
        if (c->sync_first[v] > i)
            c->sync_first[v]--;
}

TEST(plan_check, a_missing_sync_is_found)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct rng r = {(uint64_t)i};
        struct synthetic s;

        plan(&s, (uint64_t)i);
        if (s.c.nsyncs) {
            remove_sync(&s.c, rng_below(&r, s.c.nsyncs));
            CHECK_STATUS(weir__pass_check(&s.c), WEIR_EINTERNAL);
        }
        synthetic_fini(&s);
    }
}

TEST(plan_check, a_missing_join_is_found)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct synthetic s;

        plan(&s, (uint64_t)i);
        if (s.c.njoins) {
            s.c.njoins--;
            CHECK_STATUS(weir__pass_check(&s.c), WEIR_EINTERNAL);
            CHECK_STR(weir_last_error(), "the end does not wait");
        }
        synthetic_fini(&s);
    }
}

TEST(plan_check, a_wait_for_a_later_node_is_found)
{
    struct synthetic s;
    int v;

    plan(&s, 1);
    CHECK_GT(s.c.nsyncs, 0);
    for (v = 0; s.c.sync_first[v + 1] == 0; v++)
        ;
    s.c.syncs[0] = (struct weir__sync){s.c.stream[v], s.c.position[v]};
    CHECK_STATUS(weir__pass_check(&s.c), WEIR_EINTERNAL);
    synthetic_fini(&s);
}

/* Whether values a and b are ever alive at once, by the plan's own clocks. */
static bool conflict(const struct synthetic *s, const bool *before, int a, int b)
{
    int n = s->g.nnodes, def = s->g.values[b].node;

    for (int v = 0; v < n; v++) {
        bool uses = v == s->g.values[a].node;

        for (int i = 0; i < s->g.nodes[v].nin; i++)
            uses |= s->g.nodes[v].in[i].value == a;
        if (uses && !before[v * n + def])
            return true;
    }
    return false;
}

TEST(plan_check, any_two_values_in_the_same_bytes_are_judged_as_by_brute_force)
{
    int wrong = 0, fine = 0;

    for (int i = 0; i < GRAPHS; i++) {
        struct rng r = {(uint64_t)i};
        struct synthetic s;
        bool *before;

        plan(&s, (uint64_t)i);
        before = synthetic_closure(&s, -1);
        /* Everything apart, then two values moved together. */
        s.c.arena_bytes = 0;
        for (int v = 0; v < s.g.nnodes; v++) {
            s.c.scratch_offset[v] = (int64_t)s.c.arena_bytes;
            s.c.arena_bytes += (size_t)s.c.scratch_size[v];
        }
        for (int value = 0; value < s.g.nvalues; value++) {
            if (s.c.offset[value] < 0)
                continue;
            s.c.offset[value] = (int64_t)s.c.arena_bytes;
            s.c.arena_bytes += 64 * 8;
        }
        int a = rng_below(&r, s.g.nvalues), b = rng_below(&r, s.g.nvalues);

        if (a != b && s.c.offset[a] >= 0 && s.c.offset[b] >= 0) {
            bool bad = conflict(&s, before, a, b) && conflict(&s, before, b, a);

            s.c.offset[a] = s.c.offset[b];
            CHECK_STATUS(weir__pass_check(&s.c), bad ? WEIR_EINTERNAL : WEIR_OK);
            wrong += bad;
            fine += !bad;
        }
        free(before);
        synthetic_fini(&s);
    }
    CHECK_GT(wrong, 10);
    CHECK_GT(fine, 10);
}

TEST(plan_check, bytes_outside_the_arena_are_found)
{
    struct synthetic s;
    int value;

    plan(&s, 1);
    for (value = 0; s.c.offset[value] < 0; value++)
        ;
    s.c.offset[value] = (int64_t)s.c.arena_bytes;
    CHECK_STATUS(weir__pass_check(&s.c), WEIR_EINTERNAL);
    CHECK_STR(weir_last_error(), "not in the arena");
    synthetic_fini(&s);
}

/* ---- when memory runs out ---- */

static int countdown, outstanding;

static void *counted_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    (void)align;
    if (countdown-- == 0)
        return NULL;
    outstanding++;
    return malloc(size);
}

static void counted_free(void *user, void *ptr)
{
    (void)user;
    outstanding--;
    free(ptr);
}

static weir_status all_passes(struct weir__compile *c, struct weir__memory_effort effort)
{
    weir_status st;

    if (!(st = weir__pass_streams(c)) && !(st = weir__pass_sync(c)) &&
        !(st = weir__memory_plan(c, effort)))
        st = weir__pass_check(c);
    return st;
}

/* Fails each allocation in turn until the passes succeed. */
static void fail_each(struct weir__memory_effort effort)
{
    const weir_allocator counted = {counted_alloc, counted_free, NULL};
    struct synthetic_options o = {
        .seed = 3, .nodes = 120, .streams = 4, .reads = 2, .scratch = 20, .in_place = 10};
    weir_status st = WEIR_ENOMEM;
    int failed = 0;

    CHECK_OK(weir_allocator_set(&counted));
    for (; st; failed++) {
        struct synthetic s;

        countdown = -1;
        synthetic_init(&s, &o);
        countdown = failed;
        st = all_passes(&s.c, effort);
        if (st)
            CHECK_EQ(st, WEIR_ENOMEM);
        synthetic_fini(&s);
        CHECK_EQ(outstanding, 0);
    }
    CHECK_GT(failed, 20);
    CHECK_OK(weir_allocator_set(NULL));
}

TEST(plan_check, passes_survive_any_failed_allocation)
{
    fail_each((struct weir__memory_effort){INT64_MAX, 0});
    fail_each((struct weir__memory_effort){-1, INT64_MAX});
    fail_each((struct weir__memory_effort){-1, -1});
}
