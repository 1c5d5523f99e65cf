/* streams=auto uses several streams only where that saves time. */
#include <stdlib.h>

#include "base/lock.h"
#include "graph/pass/streams.h"
#include "graph/pass/synthetic.h"
#include "harness/test.h"

enum { GRAPHS = 400 / TEST_SLOWDOWN_ALONE };

/* On a device of `cores` cores. Costs: below 10 us a node takes one core, above it is cut
 * into blocks. */
static void place(struct synthetic *s, int cores)
{
    s->dev.props.cores = (weir_cores){cores, cores};
    s->dev.props.threads = cores;
    s->c.options.streams = WEIR_STREAMS_AUTO;
    CHECK_OK(weir__pass_streams(&s->c));
    CHECK_OK(weir__pass_sync(&s->c));
}

static void independent(struct synthetic *s, int nodes, double us)
{
    struct synthetic_options o = {.nodes = nodes, .streams = 1};

    synthetic_init(s, &o);
    for (int v = 0; v < nodes; v++)
        synthetic_set_us(s, v, us);
}

/* Node v of `chains` chains, side by side in the program. */
static void chains(struct synthetic *s, int nchains, int length, double us)
{
    int n = nchains * length, (*edges)[2] = calloc((size_t)n, sizeof *edges), count = 0;

    independent(s, n, us);
    for (int v = nchains; v < n; v++, count++) {
        edges[count][0] = v - nchains;
        edges[count][1] = v;
    }
    synthetic_set_edges(s, (const int(*)[2])edges, count);
    free(edges);
}

TEST(streams_auto, two_chains_of_narrow_nodes_get_two_streams)
{
    struct synthetic s;

    chains(&s, 2, 40, 9);
    place(&s, 2);
    CHECK_EQ(s.c.nstreams, 2);
    CHECK_STR_EQ(s.c.streams[1].tag, "auto:1");
    CHECK_EQ(s.c.streams[1].nnodes, 40);
    CHECK_EQ(s.c.nsyncs, 0);
    CHECK_EQ(s.c.njoins, 1);
    CHECK_STR(s.c.notes.data, "stream auto:1: 40 nodes, without it ");
    synthetic_fini(&s);
}

TEST(streams_auto, no_more_streams_are_made_than_cores_can_use)
{
    struct synthetic s;

    chains(&s, 6, 30, 9);
    place(&s, 3);
    CHECK_EQ(s.c.nstreams, 3);
    synthetic_fini(&s);
}

TEST(streams_auto, nodes_that_fill_all_cores_are_not_split)
{
    struct synthetic s;

    chains(&s, 2, 20, 1000);
    place(&s, 2);
    CHECK_EQ(s.c.nstreams, 1);
    CHECK_STR(s.c.notes.data, "nothing is split");
    synthetic_fini(&s);
}

TEST(streams_auto, overlap_that_gains_less_than_its_syncs_cost_is_not_used)
{
    struct synthetic s;

    chains(&s, 2, 10, 0.1);
    place(&s, 2);
    CHECK_EQ(s.c.nstreams, 1);
    synthetic_fini(&s);
}

TEST(streams_auto, engines_that_share_no_cores_overlap)
{
    struct weir__op cube;
    struct synthetic s;

    chains(&s, 2, 10, 1000);
    cube = *s.g.nodes[0].op;
    cube.engine = WEIR_ENGINE_CUBE;
    for (int v = 0; v < s.g.nnodes; v += 2)
        s.g.nodes[v].op = &cube;
    s.dev.props.cores = (weir_cores){24, 48};
    s.dev.props.features = WEIR_FEATURE_SPLIT_CORES;
    s.c.options.streams = WEIR_STREAMS_AUTO;
    CHECK_OK(weir__pass_streams(&s.c));
    CHECK_EQ(s.c.nstreams, 2);
    synthetic_fini(&s);
}

/* 0 is what products 1, 2 and 3 read; 4 follows 2; 5 reads 4 and 3, 6 reads 5 and 1. */
TEST(streams_auto, siblings_get_several_streams_even_without_a_predicted_gain)
{
    static const int edges[][2] = {{0, 1}, {0, 2}, {0, 3}, {2, 4}, {4, 5}, {3, 5}, {5, 6}, {1, 6}};
    static const int streams[] = {0, 0, 1, 2, 1, 1, 0};
    struct weir__op cube;
    struct synthetic s;

    independent(&s, 7, 1); /* far too short to be worth a sync */
    synthetic_set_edges(&s, edges, sizeof edges / sizeof *edges);
    cube = *s.g.nodes[0].op;
    cube.engine = WEIR_ENGINE_CUBE;
    for (int v = 1; v <= 3; v++)
        s.g.nodes[v].op = &cube;
    s.dev.props.cores = (weir_cores){8, 8};
    s.c.options.streams = WEIR_STREAMS_SIBLINGS;
    CHECK_OK(weir__pass_streams(&s.c));
    CHECK_EQ(s.c.nstreams, 3);
    for (int v = 0; v < 7; v++)
        CHECK_EQ(s.c.stream[v], streams[v]);
    CHECK_STR(s.c.notes.data, "streams=siblings: ");
    synthetic_fini(&s);
}

TEST(streams_auto, labels_and_super_kernels_stay_where_they_are)
{
    struct synthetic_options o = {.nodes = 60, .streams = 3, .reads = 1, .window = 6, .us = 9};
    struct synthetic s;

    for (int i = 0; i < GRAPHS; i++) {
        test_note("seed %d", i);
        o.seed = (uint64_t)i;
        synthetic_init(&s, &o);
        for (int v = 0; v < o.nodes; v += 7)
            s.g.nodes[v].marks.super_kernel = 0;
        place(&s, 4);
        for (int v = 0; v < o.nodes; v++) {
            int label = s.g.nodes[v].marks.stream;

            if (label)
                CHECK_STR_EQ(s.c.streams[s.c.stream[v]].tag, s.g.labels[label]);
            else if (s.g.nodes[v].marks.super_kernel >= 0)
                CHECK_EQ(s.c.stream[v], 0);
            else
                CHECK(!s.c.stream[v] || !strncmp(s.c.streams[s.c.stream[v]].tag, "auto:", 5));
        }
        synthetic_fini(&s);
    }
}

/* ---- against Nimble's assignment ---- */

static bool *all_movable(const struct synthetic *s)
{
    bool *movable = calloc((size_t)s->g.nnodes, 1);

    memcpy(movable, s->c.live, (size_t)s->g.nnodes);
    return movable;
}

/* What the placement costs: time, and a price for each sync. */
static double price(struct synthetic *s, const int *stream, int nstreams)
{
    struct weir__compile t = s->c;
    struct weir__estimates e;
    size_t n = (size_t)s->g.nnodes;
    double ns;

    t.nstreams = nstreams;
    t.streams = calloc((size_t)nstreams, sizeof *t.streams);
    t.stream = malloc(n * sizeof *t.stream);
    t.position = malloc(n * sizeof *t.position);
    t.order = malloc(n * sizeof *t.order);
    memcpy(t.stream, stream, n * sizeof *t.stream);
    weir__streams_number(&t);
    t.syncs = t.joins = NULL;
    t.nsyncs = t.njoins = 0;
    CHECK_OK(weir__pass_sync(&t));
    CHECK_OK(weir__estimates_init(&e, &s->g));
    CHECK_OK(weir__simulate(&t, &e, &ns));
    ns += WEIR__AUTO_SYNC_NS * (t.nsyncs + t.njoins);
    weir__estimates_fini(&e);
    free(t.streams);
    free(t.stream);
    free(t.position);
    free(t.order);
    weir__free(t.sync_first);
    weir__free(t.syncs);
    weir__free(t.joins);
    return ns;
}

TEST(streams_auto, placement_never_predicts_worse_than_one_stream_or_nimble)
{
    int better = 0;

    for (int i = 0; i < GRAPHS; i++) {
        struct rng r = {(uint64_t)i};
        struct synthetic_options o = {
            .seed = (uint64_t)i,
            .nodes = 2 + rng_below(&r, 400),
            .streams = 1,
            .reads = 1 + rng_below(&r, 2),
            .window = rng_below(&r, 20),
            .us = 1 + rng_below(&r, 10),
        };
        int *one, *nimble, nchains;
        struct synthetic s;
        bool *movable;

        test_note("seed %d", i);
        synthetic_init(&s, &o);
        one = calloc((size_t)o.nodes, sizeof *one);
        nimble = calloc((size_t)o.nodes, sizeof *nimble);
        place(&s, 1 + rng_below(&r, 8));
        movable = all_movable(&s);
        CHECK_OK(weir__place_chains(&s.c, movable, 1, WEIR__AUTO_STREAMS, nimble, &nchains));
        double mine = price(&s, s.c.stream, s.c.nstreams), alone = price(&s, one, 1);

        CHECK(mine <= alone);
        CHECK(mine <= price(&s, nimble, 1 + WEIR__AUTO_STREAMS) || s.c.nstreams == 1);
        better += s.c.nstreams > 1;
        free(movable);
        free(nimble);
        free(one);
        synthetic_fini(&s);
    }
    CHECK_GT(better, GRAPHS / 10);
}

/* The fewest chains that edges of the reduction can be joined to, by trying all. */
static int most_joined(const bool *needed, int n, int v, unsigned taken)
{
    int best;

    if (v == n)
        return 0;
    best = most_joined(needed, n, v + 1, taken);
    for (int b = v + 1; b < n; b++)
        if (needed[v * n + b] && !(taken >> b & 1)) {
            int with = 1 + most_joined(needed, n, v + 1, taken | 1u << b);

            best = with > best ? with : best;
        }
    return best;
}

TEST(streams_auto, chains_keep_all_concurrency_with_the_fewest_crossings)
{
    for (int i = 0; i < 4 * GRAPHS; i++) {
        struct rng r = {(uint64_t)i};
        struct synthetic_options o = {.seed = (uint64_t)i,
                                      .nodes = 2 + rng_below(&r, 8),
                                      .streams = 1,
                                      .reads = 2,
                                      .control = 30};
        int n = o.nodes, nchains, stream[16];
        bool needed[16 * 16] = {0}, before[16 * 16] = {0}, *movable;
        struct synthetic s;

        test_note("seed %d", i);
        synthetic_init(&s, &o);
        synthetic_streams(&s);
        movable = all_movable(&s);
        CHECK_OK(weir__place_chains(&s.c, movable, 1, WEIR__AUTO_STREAMS, stream, &nchains));
        for (int v = 0; v < n; v++)
            for (int k = s.c.edges.first[v]; k < s.c.edges.first[v + 1]; k++)
                needed[s.c.edges.preds[k] * n + v] = before[s.c.edges.preds[k] * n + v] = true;
        for (int k = 0; k < n; k++)
            for (int a = 0; a < n; a++)
                for (int b = 0; b < n; b++)
                    if (before[a * n + k] && before[k * n + b]) {
                        before[a * n + b] = true;
                        needed[a * n + b] = false;
                    }
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++)
                CHECK(stream[a] != stream[b] || before[a * n + b]);
        CHECK_EQ(nchains, n - most_joined(needed, n, 0, 0));
        free(movable);
        synthetic_fini(&s);
    }
}

/* ---- size ---- */

TEST_TIMEOUT(streams_auto, a_hundred_thousand_nodes_are_placed_on_several_streams, 600)
{
    struct synthetic_options o = {
        .seed = 1, .nodes = 100000, .streams = 1, .reads = 2, .window = 50, .us = 9};
    struct synthetic s;

    synthetic_init(&s, &o);
    place(&s, 4);
    CHECK_GT(s.c.nstreams, 1);
    synthetic_fini(&s);
}

/* ---- when memory runs out ---- */

static int countdown;

static void *failing_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    (void)align;
    return countdown-- == 0 ? NULL : malloc(size);
}

static void plain_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

TEST(streams_auto, placement_survives_any_failed_allocation)
{
    const weir_allocator failing = {failing_alloc, plain_free, NULL};
    weir_status st = WEIR_ENOMEM;

    CHECK_OK(weir_allocator_set(&failing));
    for (int failed = 0; st; failed++) {
        struct synthetic s;

        countdown = -1;
        chains(&s, 3, 8, 9);
        s.dev.props.threads = 4;
        s.c.options.streams = WEIR_STREAMS_AUTO;
        countdown = failed;
        st = weir__pass_streams(&s.c);
        if (st)
            CHECK_EQ(st, WEIR_ENOMEM);
        synthetic_fini(&s);
    }
    CHECK_OK(weir_allocator_set(NULL));
}
