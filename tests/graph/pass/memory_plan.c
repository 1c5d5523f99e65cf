/* The memory plan: sound, tight, and proved again by check.c. */
#include <stdlib.h>

#include "base/lock.h"
#include "graph/pass/memory.h"
#include "graph/pass/synthetic.h"
#include "harness/test.h"

enum { GRAPHS = 2000 / TEST_SLOWDOWN_ALONE };

static struct synthetic_options some_options(uint64_t seed, int max_nodes)
{
    struct rng r = {seed};

    return (struct synthetic_options){
        .seed = seed,
        .nodes = 1 + rng_below(&r, max_nodes),
        .streams = 1 + rng_below(&r, 8),
        .reads = 1 + rng_below(&r, 3),
        .window = rng_below(&r, 12),
        .in_place = rng_percent(&r, 50) ? 20 : 0,
        .scratch = rng_percent(&r, 50) ? 20 : 0,
        .control = rng_percent(&r, 50) ? 20 : 0,
        .dead = rng_percent(&r, 30) ? 30 : 0,
        .runs = rng_below(&r, 8),
        .sizes = 1 + rng_below(&r, 40),
    };
}

/* ---- what shares with what, by brute force ---- */

struct thing {
    int64_t size, offset;
    int def, last;
    bool *used_by; /* by node */
};

struct things {
    struct thing *at;
    int n;
    bool *conflict; /* n x n */
};

static struct thing *add_thing(struct things *t, const struct synthetic *s, int64_t size,
                               int64_t offset, int def)
{
    t->at[t->n] = (struct thing){.size = (size + 63) / 64 * 64,
                                 .offset = offset,
                                 .def = def,
                                 .last = def,
                                 .used_by = calloc((size_t)s->g.nnodes, 1)};
    t->at[t->n].used_by[def] = true;
    return &t->at[t->n++];
}

static void find_value(struct things *t, const struct synthetic *s, int value)
{
    const weir_graph *g = &s->g;
    struct thing *thing;

    for (int i = 0; i < g->noutputs; i++)
        if (g->outputs[i].operand.value == value) {
            CHECK(!weir__value_in_arena(&s->c, value));
            return;
        }
    if (!s->c.live[g->values[value].node])
        return;
    CHECK(weir__value_in_arena(&s->c, value));
    thing = add_thing(t, s, weir__view_numel(&g->values[value].view), s->c.offset[value],
                      g->values[value].node);
    for (int v = 0; v < g->nnodes; v++)
        for (int i = 0; i < g->nodes[v].nin && s->c.live[v]; i++)
            if (g->nodes[v].in[i].value == value) {
                thing->used_by[v] = true;
                thing->last = v;
            }
}

static bool over_before(const struct thing *a, const struct thing *b, const bool *before, int n)
{
    for (int u = 0; u < n; u++)
        if (a->used_by[u] && !before[u * n + b->def])
            return false;
    return true;
}

static struct things find_things(const struct synthetic *s)
{
    int n = s->g.nnodes;
    struct things t = {.at = calloc((size_t)(2 * n), sizeof *t.at)};
    bool *before = synthetic_closure(s, -1);

    for (int i = 0; i < s->g.nvalues; i++)
        find_value(&t, s, i);
    for (int v = 0; v < n; v++)
        if (s->c.live[v] && s->c.scratch_size[v])
            add_thing(&t, s, s->c.scratch_size[v], s->c.scratch_offset[v], v);
    t.conflict = calloc((size_t)t.n * (size_t)t.n + 1, 1);
    for (int a = 0; a < t.n; a++)
        for (int b = 0; b < t.n; b++)
            t.conflict[a * t.n + b] = a != b && !over_before(&t.at[a], &t.at[b], before, n) &&
                                      !over_before(&t.at[b], &t.at[a], before, n);
    free(before);
    return t;
}

static void free_things(struct things *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->at[i].used_by);
    free(t->at);
    free(t->conflict);
}

static int64_t live_bound(const struct things *t, int nnodes)
{
    int64_t most = 0;

    for (int v = 0; v < nnodes; v++) {
        int64_t sum = 0;

        for (int i = 0; i < t->n; i++)
            if (t->at[i].def <= v && v <= t->at[i].last)
                sum += t->at[i].size;
        most = weir__max(most, sum);
    }
    return most;
}

static void check_sound(const struct things *t, const struct weir__compile *c)
{
    for (int a = 0; a < t->n; a++) {
        const struct thing *x = &t->at[a];

        CHECK_EQ(x->offset % 64, 0);
        CHECK_LE(x->offset + x->size, c->arena_bytes);
        for (int b = 0; b < a; b++) {
            const struct thing *y = &t->at[b];

            if (t->conflict[a * t->n + b])
                CHECK(x->offset + x->size <= y->offset || y->offset + y->size <= x->offset);
        }
    }
}

/* ---- three known heuristics ---- */

/* The lowest gap for `i` among those placed (offset >= 0), or the smallest. */
static int64_t gap_for(const struct things *t, const int64_t *offset, int i, bool lowest)
{
    int64_t best = -1, best_room = INT64_MAX;

    /* A gap begins at 0 or where something ends. */
    for (int k = -1; k < t->n; k++) {
        int64_t at = k < 0 ? 0 : offset[k] + t->at[k].size, room = INT64_MAX - 1;
        bool blocked = k >= 0 && (offset[k] < 0 || !t->conflict[i * t->n + k]);

        for (int o = 0; o < t->n && !blocked; o++) {
            if (offset[o] < 0 || !t->conflict[i * t->n + o])
                continue;
            if (offset[o] + t->at[o].size > at)
                room = weir__min(room, offset[o] - at);
        }
        if (blocked || room < t->at[i].size)
            continue;
        if (best < 0 || (lowest ? at < best : room < best_room)) {
            best = at;
            best_room = room;
        }
    }
    return best;
}

static void place(const struct things *t, int64_t *offset, int i, bool lowest, int64_t *top)
{
    offset[i] = gap_for(t, offset, i, lowest);
    *top = weir__max(*top, offset[i] + t->at[i].size);
}

static int largest_left(const struct things *t, const int64_t *offset, int v)
{
    int best = -1;

    for (int i = 0; i < t->n; i++)
        if (offset[i] < 0 && (v < 0 || (t->at[i].def <= v && v <= t->at[i].last)) &&
            (best < 0 || t->at[i].size > t->at[best].size))
            best = i;
    return best;
}

static int64_t greedy_by_size(const struct things *t, int64_t *offset)
{
    int64_t top = 0;

    memset(offset, -1, (size_t)t->n * sizeof *offset);
    for (int i; (i = largest_left(t, offset, -1)) >= 0;)
        place(t, offset, i, false, &top);
    return top;
}

static int64_t greedy_by_breadth(const struct things *t, int64_t *offset, int nnodes)
{
    int64_t *breadth = calloc((size_t)nnodes, sizeof *breadth), top = 0;

    memset(offset, -1, (size_t)t->n * sizeof *offset);
    for (int i = 0; i < t->n; i++)
        for (int v = t->at[i].def; v <= t->at[i].last; v++)
            breadth[v] += t->at[i].size;
    for (int round = 0; round < nnodes; round++) {
        int widest = 0;

        for (int v = 1; v < nnodes; v++)
            if (breadth[v] > breadth[widest])
                widest = v;
        for (int i; (i = largest_left(t, offset, widest)) >= 0;)
            place(t, offset, i, false, &top);
        breadth[widest] = -1;
    }
    free(breadth);
    return top;
}

static int64_t by_definition(const struct things *t, int64_t *offset, int nnodes)
{
    int64_t top = 0;

    memset(offset, -1, (size_t)t->n * sizeof *offset);
    for (int v = 0; v < nnodes; v++)
        for (int i = 0; i < t->n; i++)
            if (t->at[i].def == v)
                place(t, offset, i, true, &top);
    return top;
}

static int64_t best_of_three(const struct things *t, int nnodes)
{
    int64_t *offset = calloc((size_t)t->n + 1, sizeof *offset);
    int64_t best = greedy_by_size(t, offset);

    best = weir__min(best, greedy_by_breadth(t, offset, nnodes));
    best = weir__min(best, by_definition(t, offset, nnodes));
    free(offset);
    return best;
}

/* ---- cases ---- */

TEST(memory_plan, memory_is_shared_only_after_its_last_use_and_is_near_the_best_known)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct synthetic_options o = some_options((uint64_t)i, 60);
        struct synthetic s;
        struct things t;

        test_note("seed %d: %d nodes, %d streams", i, o.nodes, o.streams);
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        CHECK_OK(weir__pass_memory(&s.c));
        CHECK_OK(weir__pass_check(&s.c));
        t = find_things(&s);
        check_sound(&t, &s.c);
        CHECK_EQ(s.c.lower_bound, live_bound(&t, o.nodes));
        CHECK_GE(s.c.arena_bytes, s.c.lower_bound);
        CHECK_LE(10 * (int64_t)s.c.arena_bytes, 11 * best_of_three(&t, o.nodes));
        free_things(&t);
        synthetic_fini(&s);
    }
}

TEST(memory_plan, the_arena_of_larger_graphs_is_near_the_best_known)
{
    for (int i = 0; i < (TEST_THREADS_WATCHED ? 1 : 12 / TEST_SLOWDOWN); i++) {
        struct synthetic_options o = some_options((uint64_t)i, 1);
        struct synthetic s;
        struct things t;

        test_note("seed %d", i);
        o.nodes = 300;
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        CHECK_OK(weir__pass_memory(&s.c));
        CHECK_OK(weir__pass_check(&s.c));
        t = find_things(&s);
        check_sound(&t, &s.c);
        CHECK_LE(10 * (int64_t)s.c.arena_bytes, 11 * best_of_three(&t, o.nodes));
        free_things(&t);
        synthetic_fini(&s);
    }
}

/* The ways taken for graphs with too many conflicts, forced on small ones. */
static void check_effort(struct weir__memory_effort effort)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct synthetic_options o = some_options((uint64_t)i, 60);
        struct synthetic s;
        struct things t;

        test_note("seed %d: %d nodes, %d streams", i, o.nodes, o.streams);
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        CHECK_OK(weir__memory_plan(&s.c, effort));
        CHECK_OK(weir__pass_check(&s.c));
        t = find_things(&s);
        check_sound(&t, &s.c);
        free_things(&t);
        synthetic_fini(&s);
    }
}

TEST(memory_plan, placement_in_definition_order_shares_memory_only_after_its_last_use)
{
    check_effort((struct weir__memory_effort){-1, INT64_MAX});
}

TEST(memory_plan, the_sweep_shares_memory_only_after_its_last_use)
{
    check_effort((struct weir__memory_effort){-1, -1});
}

static void plan_large(int nodes, int streams, int window)
{
    struct synthetic_options o = {.seed = 1,
                                  .nodes = nodes,
                                  .streams = streams,
                                  .window = window,
                                  .reads = 2,
                                  .runs = 5,
                                  .sizes = 1000};
    struct synthetic s;

    synthetic_init(&s, &o);
    synthetic_syncs(&s);
    CHECK_OK(weir__pass_memory(&s.c));
    CHECK_OK(weir__pass_check(&s.c));
    CHECK_GE(s.c.arena_bytes, s.c.lower_bound);
    synthetic_fini(&s);
}

/* With short lifetimes, with long ones, and with ever longer ones: each takes another
 * algorithm. What they take is measured by `weir bench` (compile_10k, compile_100k). */
TEST_TIMEOUT(memory_plan, a_hundred_thousand_nodes_share_memory_only_after_its_last_use, 600)
{
    static const int windows[] = {8, 100, 0};

    for (int streams = 1; streams <= 8; streams *= 8)
        for (size_t i = 0; i < weir__countof(windows); i++) {
            test_note("%d streams, window %d", streams, windows[i]);
            plan_large(100000 / TEST_SLOWDOWN_ALONE, streams, windows[i]);
        }
}
