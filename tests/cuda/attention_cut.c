/* How attention with few rows is split into parts, and how the parts are combined. */
#include <string.h>

#include "gpu.h"
#include "ops/gpu/attention_cut.h"

static const struct {
    const char *what;
    int64_t units, keys, key_bytes, parts, warps;
} cuts[] = {
    {"GPT-2, 8 sequences of 16 heads", 128, 128, 512, 1, 4},
    {"Llama, 8 sequences of 32 heads", 256, 128, 512, 1, 4},
    {"8 sequences of 8 key heads", 64, 1024, 512, 2, 8},
    {"the same with more text", 64, 4096, 512, 2, 8},
    {"the longest", 64, 16384, 512, 2, 8},
    {"Llama with more text", 256, 1024, 512, 1, 4},
    {"one sequence of 8 key heads", 8, 4096, 512, 16, 8},
    {"one head", 1, 128, 512, 1, 4},
    {"one key", 1, 1, 512, 1, 4},
    {"latent attention, long rows", 128, 4096, 640, 1, 8},
    {"nothing", 0, 128, 512, 1, 4},
};

TEST(attention_cut, keys_are_cut_so_that_every_core_has_a_block)
{
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct weir__attention_cut c =
            weir__attention_find_cut(cuts[i].units, cuts[i].keys, cuts[i].key_bytes);

        test_note("%s: %lld parts, %lld warps", cuts[i].what, (long long)c.parts,
                  (long long)c.warps);
        CHECK_EQ(c.parts, cuts[i].parts);
        CHECK_EQ(c.warps, cuts[i].warps);
    }
}

/* Whatever the sizes: parts are worth their warps' tiles, and many units are not cut. */
TEST(attention_cut, parts_are_never_shorter_than_a_tile_for_each_warp)
{
    for (int64_t units = 1; units < 3000; units = units * 3 / 2 + 1)
        for (int64_t keys = 1; keys < 200000; keys = keys * 5 / 3 + 1)
            for (int64_t bytes = 64; bytes <= 1024; bytes *= 2) {
                struct weir__attention_cut c = weir__attention_find_cut(units, keys, bytes);

                test_note("%lld units, %lld keys of %lld bytes: %lld parts", (long long)units,
                          (long long)keys, (long long)bytes, (long long)c.parts);
                CHECK(c.parts == 1 || keys / c.parts >= 16 * c.warps);
                CHECK(c.parts >= 1 && c.parts <= 64);
                CHECK(c.warps == 4 || c.warps == 8);
                CHECK(c.parts == 1 || units < 4 * 132);
            }
}

static weir_tensor *random_tensor(weir_stream *s, int64_t rows)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_BF16, 3, (int64_t[]){2, rows, 64}, &t));
    CHECK_OK(weir_random_uniform(t, 1, -1, 1));
    return t;
}

/* Streams of all cores combine parts within clusters. With fewer cores those that have counters do
 * it in one launch, those that come too late in two; counters are 0 again after each. */
TEST(attention_cut, parts_give_the_same_bits_from_clusters_with_counters_and_without)
{
    enum { STREAMS = 66, TIMES = 2 };
    weir_device *dev = open_gpu("cuda:0");
    weir_tensor *q = random_tensor(weir_stream_default(dev), 1);
    weir_tensor *k = random_tensor(weir_stream_default(dev), 600);
    weir_stream *streams[STREAMS];
    uint16_t want[128], got[128];

    CHECK(weir__attention_find_cut(2, 600, 256).parts > 1);
    CHECK(weir__attention_find_cut(2, 600, 256).parts <= 8);
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < STREAMS * TIMES; i++) {
        weir_tensor *out;

        test_note("run %d", i);
        if (i < STREAMS)
            CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
        if (i == 1)
            CHECK_OK(weir_scope_push_cores((weir_cores){16, 16}));
        CHECK_OK(weir_stream_set_current(streams[i % STREAMS]));
        CHECK_OK(weir_attention(q, k, k, NULL, NULL, &out));
        CHECK_OK(weir_tensor_read(out, i ? got : want, sizeof got));
        if (i)
            CHECK_MEM_EQ(got, want, sizeof got);
        weir_tensor_release(out);
    }
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    weir_tensor_release(q);
    weir_tensor_release(k);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_close(dev));
}

/* A plan of one call. */
static weir_plan *make_plan(weir_device *dev)
{
    weir_tensor *q, *k, *out;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "q", WEIR_BF16, 3, (int64_t[]){2, 1, 64}, &q));
    CHECK_OK(weir_graph_input(g, "k", WEIR_BF16, 3, (int64_t[]){2, 600, 64}, &k));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_attention(q, k, k, NULL, NULL, &out));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "out", out));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(q);
    weir_tensor_release(k);
    weir_tensor_release(out);
    weir_graph_destroy(g);
    return plan;
}

/* With other inputs the plan's graph is captured again and takes the place of the one before. */
TEST(attention_cut, a_plan_keeps_the_clusters_of_its_launches)
{
    enum { INPUTS = 2, TIMES = 4 };
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *q = random_tensor(s, 1), *k[INPUTS] = {random_tensor(s, 600), NULL};
    weir_tensor *out;
    weir_plan *plan = make_plan(dev);
    uint16_t want[128], got[128];
    char nodes[500];

    CHECK_OK(weir_add(k[0], k[0], &k[1]));
    CHECK_OK(weir_tensor_empty(s, WEIR_BF16, 3, (int64_t[]){2, 1, 64}, &out));
    for (int i = 0; i < INPUTS * TIMES; i++) {
        weir_tensor *in[] = {q, k[i / TIMES]}, *eager;

        test_note("run %d", i);
        CHECK_OK(weir_attention(q, in[1], in[1], NULL, NULL, &eager));
        CHECK_OK(weir_tensor_read(eager, want, sizeof want));
        weir_tensor_release(eager);
        CHECK_OK(weir_plan_run(plan, s, in, 2, &out, 1));
        CHECK_OK(weir_tensor_read(out, got, sizeof got));
        CHECK_MEM_EQ(got, want, sizeof got);
        if (fake) {
            fake->launched(nodes, sizeof nodes);
            test_note("run %d: %s", i, nodes);
            CHECK(i % TIMES == 0 || strstr(nodes, "attention_few"));
            CHECK(!strstr(nodes, "attention_few") || strstr(nodes, "in clusters of 8"));
        }
    }
    weir_plan_destroy(plan);
    weir_tensor_release(q);
    weir_tensor_release(k[0]);
    weir_tensor_release(k[1]);
    weir_tensor_release(out);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_close(dev));
}
