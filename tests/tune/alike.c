/* Ranks that share a graph are predicted as one: the same as if each had its own copy. */
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

enum { RANKS = 4, NODES = 60, TRIALS = TEST_THREADS_WATCHED ? 3 : 25 };

/* Kernels on three streams, some of them collectives, after random earlier ones. */
static void write_random(struct weir__text *t, unsigned *seed)
{
    static const char *const engines[] = {"cube", "vector", "mix", "sdma"};
    static const char *const meets[] = {"all_reduce", "dispatch", "combine"};

    for (int i = 0; i < NODES; i++) {
        bool comm = rand_r(seed) % 5 == 0;
        const char *engine = comm ? "vector" : engines[rand_r(seed) % 4];
        /* by what all stream labels hold, ranks agree on the order of their collectives */
        int stream = comm ? 0 : rand_r(seed) % 3;

        weir__text_add(t, "node { name: \"k%d\" op: \"Kernel\"", i);
        if (i && rand_r(seed) % 2)
            weir__text_add(t, " input: \"^k%d\"", rand_r(seed) % i);
        weir__text_add(t, " attr { key: \"engine\" value { s: \"%s\" } }", engine);
        weir__text_add(t, " attr { key: \"blocks\" value { i: %d } }", 1 + rand_r(seed) % 16);
        weir__text_add(t, " attr { key: \"bytes\" value { i: %d } }", 1 + rand_r(seed) % 90000000);
        if (comm)
            weir__text_add(t, " attr { key: \"collective\" value { s: \"%s\" } }",
                           meets[rand_r(seed) % 3]);
        if (stream)
            weir__text_add(t, " attr { key: \"_user_stream_label\" value { s: \"s%d\" } }", stream);
        weir__text_add(t, " }\n");
    }
}

TEST(alike, ranks_that_share_a_graph_behave_like_ranks_with_copies_of_it)
{
    struct weir__predict_options options = {.parts = true};
    unsigned seed = 11;
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3", &dev));
    for (int trial = 0; trial < TRIALS; trial++) {
        weir_graph *one[RANKS], *each[RANKS];
        struct weir__prediction shared, copies;
        struct weir__text text = {0};

        write_random(&text, &seed);
        for (int r = 0; r < RANKS; r++) {
            CHECK_OK(weir_graph_load(dev, text.data, text.size, "random", &each[r]));
            one[r] = each[0];
        }
        CHECK_OK(weir__predict(one, RANKS, &options, &shared));
        CHECK_OK(weir__predict(each, RANKS, &options, &copies));
        test_note("trial %d", trial);
        CHECK_EQ(shared.ngraphs, 1);
        CHECK_EQ(copies.ngraphs, RANKS);
        CHECK_EQ(shared.makespan, copies.makespan);
        CHECK_EQ(shared.critical, copies.critical);
        CHECK_EQ(shared.run.nranks, RANKS);
        CHECK_EQ(shared.run.nparts, copies.run.nparts);
        CHECK_EQ(shared.run.deadlock, copies.run.deadlock);
        for (int r = 0; r < RANKS; r++) {
            CHECK_EQ(shared.run.ranks[r].exposed_ps, copies.run.ranks[r].exposed_ps);
            CHECK_EQ(shared.run.streams[r][0].busy_ps, copies.run.streams[r][0].busy_ps);
            for (int v = 0; v < NODES; v++) {
                CHECK_EQ(shared.run.spans[r][v].start, copies.run.spans[r][v].start);
                CHECK_EQ(shared.run.spans[r][v].end, copies.run.spans[r][v].end);
            }
        }
        weir__prediction_fini(&shared);
        weir__prediction_fini(&copies);
        for (int r = 0; r < RANKS; r++)
            weir_graph_destroy(each[r]);
        weir__text_free(&text);
    }
    CHECK_OK(weir_device_close(dev));
}
