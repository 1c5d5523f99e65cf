/* The waits between streams are those that are needed, and no others. */
#include <stdlib.h>

#include "graph/pass/synthetic.h"
#include "harness/test.h"

enum { GRAPHS = 4000 / TEST_SLOWDOWN_ALONE };

static struct synthetic_options some_options(uint64_t seed, int max_nodes)
{
    struct rng r = {seed};

    return (struct synthetic_options){
        .seed = seed,
        .nodes = 1 + rng_below(&r, max_nodes),
        .streams = 1 + rng_below(&r, 8),
        .reads = 1 + rng_below(&r, 3),
        .window = rng_below(&r, 8),
        .in_place = rng_percent(&r, 50) ? 20 : 0,
        .control = rng_percent(&r, 50) ? 20 : 0,
        .dead = rng_percent(&r, 50) ? 30 : 0,
        .runs = rng_below(&r, 5),
    };
}

static bool edges_ordered(const struct synthetic *s, const bool *before)
{
    int n = s->g.nnodes;

    for (int v = 0; v < n; v++)
        for (int i = s->c.edges.first[v]; i < s->c.edges.first[v + 1]; i++)
            if (s->c.live[v] && s->c.live[s->c.edges.preds[i]] &&
                !before[s->c.edges.preds[i] * n + v])
                return false;
    return true;
}

/* Orders every edge; the order is the closure of edges and streams, no more; without any
 * one sync some edge is not ordered. The last two make the set the transitive
 * reduction, which no smaller set with the same order exists beside. */
static void check_minimal(const struct synthetic *s)
{
    int n = s->g.nnodes;
    bool *before = synthetic_closure(s, -1);

    CHECK(edges_ordered(s, before));
    free(before);
    for (int v = 0; v < n; v++)
        for (int i = s->c.sync_first[v]; i < s->c.sync_first[v + 1]; i++) {
            int from = weir__node_at(&s->c, s->c.syncs[i].stream, s->c.syncs[i].position);
            bool is_edge = false;

            for (int e = s->c.edges.first[v]; e < s->c.edges.first[v + 1]; e++)
                is_edge |= s->c.edges.preds[e] == from;
            CHECK(is_edge);
            before = synthetic_closure(s, i);
            CHECK(!edges_ordered(s, before));
            free(before);
        }
}

TEST(sync, syncs_order_every_edge_and_none_is_redundant)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct synthetic_options o = some_options((uint64_t)i, 40);
        struct synthetic s;

        test_note("seed %d: %d nodes, %d streams", i, o.nodes, o.streams);
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        check_minimal(&s);
        synthetic_fini(&s);
    }
}

/* The closure of stream order and all edges, for graphs of at most 64 nodes: bit b of
 * after[a] says that a is before b. */
static void close_bits(uint64_t *after, int n)
{
    for (int a = n - 1; a >= 0; a--)
        for (int b = a + 1; b < n; b++)
            if (after[a] >> b & 1)
                after[a] |= after[b];
}

static void stream_bits(const struct synthetic *s, uint64_t *after)
{
    for (int v = 0; v < s->g.nnodes; v++) {
        after[v] = 0;
        for (int b = v + 1; b < s->g.nnodes; b++)
            if (s->c.live[v] && s->c.live[b] && s->c.stream[v] == s->c.stream[b])
                after[v] |= UINT64_C(1) << b;
    }
}

struct pair {
    int from, to;
};

/* Whether some `left` of the pairs from `next` on, with those chosen, give `want`. */
static bool some_subset(const struct pair *pairs, int npairs, int next, int left,
                        const uint64_t *chosen, const uint64_t *want, int n)
{
    uint64_t closed[64], more[64];

    if (!left) {
        memcpy(closed, chosen, (size_t)n * sizeof *closed);
        close_bits(closed, n);
        return memcmp(closed, want, (size_t)n * sizeof *closed) == 0;
    }
    for (int i = next; i + left <= npairs; i++) {
        memcpy(more, chosen, (size_t)n * sizeof *more);
        more[pairs[i].from] |= UINT64_C(1) << pairs[i].to;
        if (some_subset(pairs, npairs, i + 1, left - 1, more, want, n))
            return true;
    }
    return false;
}

/* No set of fewer waits, of whatever nodes, gives the same order. */
static void check_minimum(const struct synthetic *s)
{
    int n = s->g.nnodes, npairs = 0;
    uint64_t want[64], base[64];
    struct pair pairs[64];

    stream_bits(s, base);
    memcpy(want, base, sizeof want);
    for (int v = 0; v < n; v++)
        for (int i = s->c.edges.first[v]; i < s->c.edges.first[v + 1]; i++)
            if (s->c.live[v] && s->c.live[s->c.edges.preds[i]])
                want[s->c.edges.preds[i]] |= UINT64_C(1) << v;
    close_bits(want, n);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if ((want[a] & ~base[a]) >> b & 1)
                pairs[npairs++] = (struct pair){a, b};
    for (int size = 0; size < s->c.nsyncs; size++)
        CHECK(!some_subset(pairs, npairs, 0, size, base, want, n));
}

TEST(sync, no_smaller_set_of_syncs_gives_the_same_order)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct synthetic_options o = some_options((uint64_t)i, 7);
        struct synthetic s;

        test_note("seed %d: %d nodes, %d streams", i, o.nodes, o.streams);
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        check_minimum(&s);
        synthetic_fini(&s);
    }
}

/* The caller's stream is joined with all others, and each join is needed. */
static bool all_over(const struct synthetic *s, const bool *before, int skip)
{
    const struct weir__compile *c = &s->c;
    int n = s->g.nnodes;

    for (int v = 0; v < n; v++) {
        bool over = !c->live[v] || c->stream[v] == 0;

        for (int b = 0; b < n; b++)
            over |= c->live[b] && c->stream[b] == 0 && before[v * n + b];
        for (int i = 0; i < c->njoins; i++) {
            int last = weir__node_at(c, c->joins[i].stream, c->joins[i].position);

            over |= i != skip && (last == v || before[v * n + last]);
        }
        if (!over)
            return false;
    }
    return true;
}

TEST(sync, the_end_waits_for_every_stream_not_yet_ordered)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct synthetic_options o = some_options((uint64_t)i, 40);
        struct synthetic s;
        bool *before;

        test_note("seed %d", i);
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        before = synthetic_closure(&s, -1);
        CHECK(all_over(&s, before, -1));
        for (int k = 0; k < s.c.njoins; k++)
            CHECK(!all_over(&s, before, k));
        free(before);
        synthetic_fini(&s);
    }
}

TEST(sync, reach_agrees_with_the_closure)
{
    for (int i = 0; i < GRAPHS / 4; i++) {
        struct synthetic_options o = some_options((uint64_t)i, 40);
        struct weir__reach r;
        struct synthetic s;
        bool *before;

        test_note("seed %d", i);
        synthetic_init(&s, &o);
        synthetic_syncs(&s);
        CHECK_OK(weir__reach_init(&r, &s.c));
        before = synthetic_closure(&s, -1);
        for (int a = 0; a < o.nodes; a++)
            for (int b = 0; b < o.nodes; b++)
                if (s.c.live[a] && s.c.live[b])
                    CHECK_EQ(weir__reach_before(&r, &s.c, a, b), before[a * o.nodes + b]);
        free(before);
        weir__reach_fini(&r);
        synthetic_fini(&s);
    }
}
