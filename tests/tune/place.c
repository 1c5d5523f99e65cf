/* streams=auto on a modelled device: never slower than one stream or than streams by hand, the same
 * bits, and what the program says stays. */
#include "helpers.h"

#include "graph/predict/place.h"

/* ---- graphs of real operators ---- */

static void input(struct program *p, const char *name, int rows, int columns)
{
    p->size += (size_t)snprintf(p->text + p->size, sizeof p->text - p->size,
                                "node { name: \"%s\" op: \"Placeholder\""
                                " attr { key: \"dtype\" value { s: \"f16\" } }"
                                " attr { key: \"shape\" value { list { i: %d i: %d } } } }\n",
                                name, rows, columns);
    CHECK_LT(p->size, sizeof p->text);
}

/* Where a node goes by hand; "" and 0 for nowhere. */
struct hand {
    const char *stream;
    int cube, vector;
};

static void node(struct program *p, const char *name, const char *op, const char *a, const char *b,
                 struct hand hand)
{
    char marks[256] = "";

    if (hand.stream && *hand.stream)
        snprintf(marks, sizeof marks, " attr { key: \"_user_stream_label\" value { s: \"%s\" } }",
                 hand.stream);
    if (hand.cube)
        snprintf(marks + strlen(marks), sizeof marks - strlen(marks),
                 " attr { key: \"_op_aicore_num\" value { i: %d } }", hand.cube);
    if (hand.vector)
        snprintf(marks + strlen(marks), sizeof marks - strlen(marks),
                 " attr { key: \"_op_vectorcore_num\" value { i: %d } }", hand.vector);
    p->size += (size_t)snprintf(p->text + p->size, sizeof p->text - p->size,
                                "node { name: \"%s\" op: \"%s\" input: \"%s\"%s%s%s%s }\n", name,
                                op, a, b ? " input: \"" : "", b ? b : "", b ? "\"" : "", marks);
    CHECK_LT(p->size, sizeof p->text);
}

static void output(struct program *p, const char *name)
{
    p->size += (size_t)snprintf(p->text + p->size, sizeof p->text - p->size,
                                "node { name: \"out\" op: \"NetOutput\" input: \"%s\" }\n", name);
}

/* Picoseconds of the plan that the options ask for. */
static uint64_t plan_ps(weir_graph *g, const weir_compile_options *options)
{
    struct weir__predict_options how = {
        .compile = &(weir_compile_options){.cores = options->cores},
        .makespan_only = true,
        .memory = true,
        .fused = options->mode == WEIR_COMPILE_MAX_AUTOTUNE,
    };
    struct weir__prediction p;
    uint64_t ps;

    CHECK_OK(weir__predict(&g, 1, &how, &p));
    CHECK(!p.run.deadlock);
    ps = p.makespan + p.streams;
    weir__prediction_fini(&p);
    return ps;
}

static weir_graph *placed(weir_device *dev, const char *text, const weir_compile_options *options)
{
    struct weir__text notes = {0};
    weir_graph *g = load(dev, text);

    CHECK(weir__place_wanted(g, options));
    CHECK_OK(weir__place(&g, options, &notes));
    CHECK(strstr(notes.data, "expected"));
    weir__text_free(&notes);
    return g;
}

/* ---- layers, with streams by hand ---- */

struct hands {
    struct hand keys, values, shared, up;
};

/* Queries, keys and values; then experts beside a shared one. */
static void layer(struct program *p, int rows, const struct hands *h)
{
    const struct hand none = {"", 0, 0};
    char name[32], up[32], act[32], sum[32] = "shared.down";

    input(p, "x", rows, 2048);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"wq", "wk", "wv", "wo"};

        input(p, names[i], 2048, 2048);
    }
    input(p, "w1", 2048, 1024);
    input(p, "w2", 1024, 2048);
    node(p, "norm", "Softmax", "x", NULL, none);
    node(p, "q", "MatMul", "norm", "wq", none);
    node(p, "k", "MatMul", "norm", "wk", h->keys);
    node(p, "v", "MatMul", "norm", "wv", h->values);
    node(p, "qk", "Mul", "q", "k", none);
    node(p, "soft", "Softmax", "qk", NULL, none);
    node(p, "attend", "Mul", "soft", "v", none);
    node(p, "o", "MatMul", "attend", "wo", none);
    node(p, "norm2", "Softmax", "o", NULL, none);
    node(p, "shared.gate", "MatMul", "norm2", "w1", h->shared);
    node(p, "shared.up", "MatMul", "norm2", "w1", h->shared);
    node(p, "shared.act", "Silu", "shared.gate", NULL, h->shared);
    node(p, "shared.mul", "Mul", "shared.act", "shared.up", h->shared);
    node(p, "shared.down", "MatMul", "shared.mul", "w2", h->shared);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "gate.%d", i);
        snprintf(up, sizeof up, "up.%d", i);
        snprintf(act, sizeof act, "act.%d", i);
        node(p, name, "MatMul", "norm2", "w1", none);
        node(p, up, "MatMul", "norm2", "w1", h->up);
        node(p, act, "Silu", name, NULL, none);
        snprintf(name, sizeof name, "mul.%d", i);
        node(p, name, "Mul", act, up, none);
        snprintf(act, sizeof act, "down.%d", i);
        node(p, act, "MatMul", name, "w2", none);
        snprintf(name, sizeof name, "sum.%d", i);
        node(p, name, "Add", act, sum, none);
        snprintf(sum, sizeof sum, "%s", name);
    }
    output(p, sum);
}

TEST(place, a_layer_is_no_slower_than_on_one_stream_or_on_streams_by_hand)
{
    static const struct hands hands[] = {
        {.keys = {NULL, 0, 0}},
        {.shared = {"shared", 0, 0}},
        {.shared = {"shared", 8, 16}},
        {.keys = {"k", 0, 0}, .values = {"v", 0, 0}},
        {.keys = {"k", 12, 0}, .values = {"v", 12, 0}, .shared = {"k", 12, 24}},
        {.up = {"up", 0, 0}},
        {{"k", 0, 0}, {"v", 0, 0}, {"k", 0, 0}, {"v", 0, 0}},
    };
    static const int rows[] = {8, 512, 4096};
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3,compute=off", &dev));
    for (size_t r = 0; r < weir__countof(rows); r++)
        for (int mode = 0; mode <= WEIR_COMPILE_REDUCE_OVERHEAD; mode++) {
            weir_compile_options options = {.mode = (weir_compile_mode)mode,
                                            .streams = WEIR_STREAMS_AUTO};
            struct program p = {.size = 0};
            weir_graph *g;
            uint64_t found;

            layer(&p, rows[r], &hands[0]);
            g = placed(dev, p.text, &options);
            found = plan_ps(g, &options);
            weir_graph_destroy(g);
            for (size_t i = 0; i < weir__countof(hands); i++) {
                test_note("%d rows, mode %d, hand %zu", rows[r], mode, i);
                p.size = 0;
                layer(&p, rows[r], &hands[i]);
                g = load(dev, p.text);
                CHECK_LE(found, plan_ps(g, &options));
                if (!i && rows[r] == 8) /* launches alone can hide behind each other */
                    CHECK_LT(found, plan_ps(g, &options) * 9 / 10);
                weir_graph_destroy(g);
            }
        }
    weir_device_close(dev);
}

/* ---- chance ---- */

static unsigned draw(unsigned *state, unsigned n)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % n;
}

static void random_graph(struct program *p, unsigned seed, bool by_hand)
{
    static const char *const ops[] = {"MatMul", "Add", "Mul", "Silu", "Softmax"};
    static const char *const labels[] = {"left", "right"};
    unsigned s = seed * 7919 + 1, n = 4 + draw(&s, 20);
    int rows = 16 << draw(&s, 5);
    char name[16], a[16], b[16];

    p->size = 0;
    input(p, "n0", rows, 256);
    input(p, "n1", rows, 256);
    input(p, "w", 256, 256);
    for (unsigned i = 2; i < n + 2; i++) {
        unsigned op = draw(&s, 5), first = draw(&s, i), second = draw(&s, i);
        unsigned label = draw(&s, 8), cores = draw(&s, 6);
        struct hand hand = {label < 2 ? labels[label] : "", cores == 0 ? 8 : 0, cores == 0 ? 8 : 0};

        snprintf(name, sizeof name, "n%u", i);
        snprintf(a, sizeof a, "n%u", i == n + 1 ? i - 1 : first);
        snprintf(b, sizeof b, "n%u", second);
        node(p, name, ops[op], a,
             op == 0  ? "w"
             : op < 3 ? b
                      : NULL,
             by_hand ? hand : (struct hand){"", 0, 0});
    }
    output(p, name);
}

TEST(place, random_graphs_are_no_slower_and_keep_what_the_program_says)
{
    weir_device *dev;
    int faster = 0;

    CHECK_OK(weir_device_open("npu:a3,compute=off", &dev));
    for (unsigned seed = 0; seed < 36 / TEST_SLOWDOWN_ALONE + 4; seed++) {
        weir_compile_options options = {.mode = (weir_compile_mode)(seed % 2),
                                        .streams = WEIR_STREAMS_AUTO};
        bool by_hand = seed % 3 == 0;
        struct program p;
        weir_graph *one, *g, *again;
        char *text, *same;

        test_note("seed %u", seed);
        random_graph(&p, seed, by_hand);
        one = load(dev, p.text);
        g = placed(dev, p.text, &options);
        again = placed(dev, p.text, &options);
        text = weir_graph_dump(g);
        same = weir_graph_dump(again);
        CHECK_STR_EQ(text, same);
        CHECK_LE(plan_ps(g, &options), plan_ps(one, &options));
        faster += plan_ps(g, &options) < plan_ps(one, &options);
        for (int v = 0; v < one->nnodes && by_hand; v++)
            for (int u = 0; u < g->nnodes; u++) {
                const struct weir__marks *was = &one->nodes[v].marks, *is = &g->nodes[u].marks;

                if (strcmp(one->nodes[v].name, g->nodes[u].name) != 0)
                    continue;
                if (was->stream)
                    CHECK_STR_EQ(one->labels[was->stream], g->labels[is->stream]);
                if (was->limit.cube)
                    CHECK_EQ(was->limit.cube, is->limit.cube);
            }
        free(text);
        free(same);
        weir_graph_destroy(again);
        weir_graph_destroy(g);
        weir_graph_destroy(one);
    }
    CHECK_GE(faster, 3);
    weir_device_close(dev);
}

/* ---- plans ---- */

static weir_tensor *run(weir_device *dev, const char *text, weir_stream_placement streams,
                        uint64_t *ns)
{
    weir_graph *g = load(dev, text);
    weir_tensor *in[8], *out[2] = {NULL, NULL};
    weir_plan *plan;
    uint64_t began;

    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.streams = streams}, &plan));
    for (size_t i = 0; i < weir_graph_input_count(g); i++) {
        const struct weir__view *view = &g->values[g->inputs[i]].view;
        uint16_t *bits;

        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), view->dtype, view->ndim, view->shape,
                                   &in[i]));
        bits = (uint16_t *)weir_tensor_data(in[i]);
        for (int64_t k = 0; k < weir__view_numel(view); k++)
            bits[k] = (uint16_t)(0x2c00 + (k * 37 + (int64_t)i * 11) % 1024);
    }
    for (int round = 0; round < 2; round++) {
        began = weir_device_now(dev);
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), in, weir_graph_input_count(g),
                               &out[round], 1));
        CHECK_OK(weir_device_sync(dev));
        *ns = weir_device_now(dev) - began;
    }
    weir_tensor_release(out[0]);
    for (size_t i = 0; i < weir_graph_input_count(g); i++)
        weir_tensor_release(in[i]);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    return out[1];
}

TEST(place, plans_give_the_bits_of_one_stream_and_take_no_longer)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3", &dev));
    for (unsigned seed = 0; seed < 24 / TEST_SLOWDOWN_ALONE + 2; seed++) {
        struct program p;
        weir_tensor *one, *several;
        uint64_t one_ns, several_ns;
        size_t bytes;

        test_note("seed %u", seed);
        random_graph(&p, seed, false);
        one = run(dev, p.text, WEIR_STREAMS_EXPLICIT, &one_ns);
        several = run(dev, p.text, WEIR_STREAMS_AUTO, &several_ns);
        bytes = (size_t)weir__view_numel(&one->view) * 2;
        CHECK(!memcmp(weir_tensor_data(one), weir_tensor_data(several), bytes));
        CHECK_LE(several_ns, one_ns + one_ns / 50); /* chains are priced a little otherwise */
        weir_tensor_release(one);
        weir_tensor_release(several);
    }
    weir_device_close(dev);
}

TEST(place, no_limit_is_chosen_under_one_of_the_graph)
{
    weir_compile_options options = {.streams = WEIR_STREAMS_AUTO, .cores = "8|16"};
    struct program p = {.size = 0};
    weir_device *dev;
    weir_graph *g;

    CHECK_OK(weir_device_open("npu:a3,compute=off", &dev));
    layer(&p, 512, &(struct hands){.keys = {NULL, 0, 0}});
    g = placed(dev, p.text, &options);
    for (int v = 0; v < g->nnodes; v++) {
        CHECK_EQ(g->nodes[v].marks.limit.cube, 0);
        CHECK_EQ(g->nodes[v].marks.limit.vector, 0);
    }
    weir_graph_destroy(g);
    weir_device_close(dev);
}
