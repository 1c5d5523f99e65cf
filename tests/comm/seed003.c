/* The two-card program that locks up where collectives and gangs hold cores while they wait:
 * reduceScatter on 16 vector cores, dispatchCombine on 24, NonZero on all 48, on two devices
 * that issue them in different orders. Here it always ends. */
#include "helpers.h"

enum { ROWS = 1 << 15 };

struct card {
    weir_stream *scatter, *moe, *compute;
    weir_tensor *x, *experts, *weights, *mask;
};

static void make_card(struct card *c, weir_device *dev)
{
    static float data[ROWS];
    static int32_t experts[512];
    static float weights[512];

    for (int i = 0; i < ROWS; i++)
        data[i] = (float)(i % 3);
    for (int i = 0; i < 512; i++) {
        experts[i] = i % 4;
        weights[i] = 1;
    }
    CHECK_OK(weir_stream_tagged(dev, "scatter", 0, &c->scatter));
    CHECK_OK(weir_stream_tagged(dev, "moe", 0, &c->moe));
    CHECK_OK(weir_stream_tagged(dev, "compute", 0, &c->compute));
    CHECK_OK(weir_stream_set_limit(c->scatter, (weir_cores){-1, 16}));
    CHECK_OK(weir_stream_set_limit(c->moe, (weir_cores){-1, 24}));
    c->x = tensor_of(dev, WEIR_F32, 2, (int64_t[]){512, ROWS / 512}, data);
    c->mask = tensor_of(dev, WEIR_F32, 1, (int64_t[]){ROWS}, data);
    c->experts = tensor_of(dev, WEIR_I32, 2, (int64_t[]){512, 1}, experts);
    c->weights = tensor_of(dev, WEIR_F32, 2, (int64_t[]){512, 1}, weights);
    CHECK_OK(weir_device_sync(dev));
}

static void free_card(struct card *c)
{
    weir_tensor_release(c->x);
    weir_tensor_release(c->experts);
    weir_tensor_release(c->weights);
    weir_tensor_release(c->mask);
}

static void scatter(weir_rank *rank, struct card *c)
{
    weir_tensor *y;

    CHECK_OK(weir_stream_set_current(c->scatter));
    CHECK_OK(weir_reduce_scatter(rank, c->x, WEIR_REDUCE_SUM, &y));
    weir_tensor_release(y);
}

static void dispatch_combine(weir_rank *rank, struct card *c)
{
    weir_tensor *rows, *counts, *positions, *y;

    CHECK_OK(weir_stream_set_current(c->moe));
    CHECK_OK(weir_moe_dispatch(rank, c->x, c->experts, 4, 1024, &rows, &counts, &positions));
    CHECK_OK(weir_moe_combine(rank, rows, c->experts, 4, positions, c->weights, &y));
    weir_tensor_release(rows);
    weir_tensor_release(counts);
    weir_tensor_release(positions);
    weir_tensor_release(y);
}

/* As NonZero: 48 blocks that meet. */
static weir_status gang_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_OK;
}

static void nonzero(struct card *c)
{
    CHECK_OK(weir_launch_submit(c->compute, &(weir_launch){.name = "NonZero",
                                                           .fn = gang_kernel,
                                                           .engine = WEIR_ENGINE_VECTOR,
                                                           .blocks = 48,
                                                           .phases = 2,
                                                           .gang = true,
                                                           .tensors = &c->mask,
                                                           .ntensors = 1}));
}

TEST(seed003, the_two_card_program_runs_to_the_end)
{
    int rounds = 300 / TEST_SLOWDOWN;

    if (is_gpu())
        needs_threads();
    for (int seed = 1; seed <= 4; seed++) {
        struct world w;
        struct card card[2];
        char spec[80];
        weir_group *moe;

        snprintf(spec, sizeof spec, "cpu:cube=24,vector=48,threads=%d,jitter=%d", 1 + seed % 3,
                 seed);
        world_open(&w, 2, spec, &(weir_group_options){.name = "scatter"});
        CHECK_OK(weir_group_create(w.dev, 2, &(weir_group_options){.name = "moe"}, &moe));
        for (int r = 0; r < 2; r++)
            make_card(&card[r], w.dev[r]);
        for (int i = 0; i < rounds / 4; i++)
            for (int r = 0; r < 2; r++) { /* card 0 begins with one, card 1 with the other */
                if (r == 0)
                    scatter(w.rank[r], &card[r]);
                else
                    dispatch_combine(weir_group_rank(moe, r), &card[r]);
                nonzero(&card[r]);
                if (r == 0)
                    dispatch_combine(weir_group_rank(moe, r), &card[r]);
                else
                    scatter(w.rank[r], &card[r]);
                nonzero(&card[r]);
            }
        for (int r = 0; r < 2; r++) {
            CHECK_OK(weir_device_sync(w.dev[r]));
            free_card(&card[r]);
        }
        CHECK_OK(weir_group_destroy(moe));
        world_close(&w);
    }
}

static const char *const ranks[2] = {
    "node { name: \"reduce_scatter\" op: \"Kernel\" attr { key: \"blocks\" value { i: 16 } }"
    " attr { key: \"us_per_block\" value { f: 20 } } attr { key: \"gang\" value { b: true } }"
    " attr { key: \"collective\" value { s: \"rs\" } }"
    " attr { key: \"_user_stream_label\" value { s: \"comm\" } } }"
    "node { name: \"nonzero\" op: \"Kernel\" attr { key: \"blocks\" value { i: 48 } }"
    " attr { key: \"us_per_block\" value { f: 20 } } attr { key: \"gang\" value { b: true } } }"
    "node { name: \"dispatch_combine\" op: \"Kernel\" attr { key: \"blocks\" value { i: 24 } }"
    " attr { key: \"us_per_block\" value { f: 20 } } attr { key: \"gang\" value { b: true } }"
    " attr { key: \"collective\" value { s: \"dc\" } }"
    " attr { key: \"_user_stream_label\" value { s: \"moe\" } } }",
    "node { name: \"dispatch_combine\" op: \"Kernel\" attr { key: \"blocks\" value { i: 24 } }"
    " attr { key: \"us_per_block\" value { f: 20 } } attr { key: \"gang\" value { b: true } }"
    " attr { key: \"collective\" value { s: \"dc\" } }"
    " attr { key: \"_user_stream_label\" value { s: \"moe\" } } }"
    "node { name: \"nonzero\" op: \"Kernel\" attr { key: \"blocks\" value { i: 48 } }"
    " attr { key: \"us_per_block\" value { f: 20 } } attr { key: \"gang\" value { b: true } } }"
    "node { name: \"reduce_scatter\" op: \"Kernel\" attr { key: \"blocks\" value { i: 16 } }"
    " attr { key: \"us_per_block\" value { f: 20 } } attr { key: \"gang\" value { b: true } }"
    " attr { key: \"collective\" value { s: \"rs\" } }"
    " attr { key: \"_user_stream_label\" value { s: \"comm\" } } }",
};

TEST(seed003, the_two_card_program_as_graph_files_runs_to_the_end)
{
    struct world w;
    weir_plan *plans[2];
    weir_graph *g;

    world_open(&w, 2, "cpu:cube=24,vector=48,jitter=7", NULL);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(weir_graph_load(w.dev[r], ranks[r], strlen(ranks[r]), "card", &g));
        CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.ranks = &w.rank[r], .nranks = 1},
                                    &plans[r]));
        weir_graph_destroy(g);
    }
    for (int i = 0; i < 40 / TEST_SLOWDOWN; i++)
        for (int r = 0; r < 2; r++)
            CHECK_OK(weir_plan_run(plans[r], weir_stream_default(w.dev[r]), NULL, 0, NULL, 0));
    for (int r = 0; r < 2; r++) {
        CHECK_OK(weir_device_sync(w.dev[r]));
        weir_plan_destroy(plans[r]);
    }
    world_close(&w);
}
