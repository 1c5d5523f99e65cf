/* Properties of every estimate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

/* Two streams may interleave better with a little more work on one of them. */
#define SLACK 0.98

static weir_device *open_a3(void)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("npu:a3", &dev));
    return dev;
}

static struct weir__estimate quick(weir_device *dev, const struct weir__deploy *d)
{
    struct weir__llm m = deepseek();
    struct weir__estimate e;

    CHECK_OK(weir__estimate_quick(dev, &m, d, &e));
    return e;
}

TEST(answers, larger_batches_and_longer_prompts_are_never_faster)
{
    weir_device *dev = open_a3();

    for (int place = 0; place < 3; place++) {
        double before = 0;
        struct weir__deploy d = deploy(64, 2, (enum weir__placement)place);

        for (; d.batch <= 128; d.batch *= 2) {
            struct weir__estimate e = quick(dev, &d);

            CHECK(e.tpot_ms >= before * SLACK);
            before = e.tpot_ms;
        }
        d.batch = 16;
        for (before = 0, d.prompt = 1024; d.prompt <= 65536; d.prompt *= 4) {
            struct weir__estimate e = quick(dev, &d);

            CHECK(e.tpot_ms >= before * SLACK);
            before = e.tpot_ms;
        }
    }
    CHECK_OK(weir_device_close(dev));
}

/* Expected largest of n normal values: 0.56, 1.54, 2.07, 2.51 for 2, 10, 32 and 100. */
TEST(answers, the_busiest_of_more_dies_with_fewer_experts_has_more_load)
{
    struct weir__deploy d = deploy(2, 1, WEIR__PLACE_SINGLE);
    struct weir__llm m = deepseek();
    double before = 1;

    CHECK_NEAR(weir__last_of(1), 0, 0);
    CHECK_NEAR(weir__last_of(2), 0.56, 0.04);
    CHECK_NEAR(weir__last_of(10), 1.54, 0.02);
    CHECK_NEAR(weir__last_of(32), 2.07, 0.02);
    CHECK_NEAR(weir__last_of(100), 2.51, 0.02);
    for (d.ranks = 2; d.ranks <= 512; d.ranks *= 2) {
        double more = weir__deploy_imbalance(&m, &d, false);

        CHECK(more > before);
        before = more;
    }
    d.imbalance = 1.5;
    CHECK_NEAR(weir__deploy_imbalance(&m, &d, false), 1.5, 0);
}

TEST(answers, cores_for_attention_leave_some_for_experts)
{
    struct weir__deploy d = deploy(64, 8, WEIR__PLACE_TWO);
    struct weir__llm m = deepseek();
    weir_device *dev = open_a3();

    d.cube = 24;
    d.vector = 40;
    CHECK_STATUS(weir__deploy_complete(dev, &m, &d), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "leave none for experts");
    d.cube = 8;
    d.placement = WEIR__PLACE_SINGLE;
    CHECK_STATUS(weir__deploy_complete(dev, &m, &d), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "only two microbatches");
    CHECK_OK(weir_device_close(dev));
}

TEST(answers, parallelism_divides_the_weights_among_dies)
{
    struct weir__profile p;
    struct weir__llm m = deepseek();
    struct weir__estimate_memory one, some;
    struct weir__deploy d = deploy(1, 1, WEIR__PLACE_SINGLE);

    CHECK_OK(weir__profile_load("a3", &p));
    weir__estimate_find_memory(&m, &d, &p, &one);
    CHECK(one.weights > 650e9 && one.weights < 700e9);
    CHECK_EQ((int)one.most_batch, 0);
    d.ranks = d.tp = 16;
    weir__estimate_find_memory(&m, &d, &p, &some);
    CHECK(some.weights < one.weights / 14);
    d.tp = 1;
    weir__estimate_find_memory(&m, &d, &p, &some); /* experts alone are shared */
    CHECK(some.weights > one.weights / 16 && some.weights < one.weights / 10);
    d.pp = 16;
    weir__estimate_find_memory(&m, &d, &p, &some);
    CHECK(some.weights < one.weights / 14);
    d = deploy(64, 8, WEIR__PLACE_SINGLE);
    d.quant = WEIR__QUANT_BF16;
    weir__estimate_find_memory(&m, &d, &p, &one);
    d.quant = WEIR__QUANT_W4A8;
    weir__estimate_find_memory(&m, &d, &p, &some);
    CHECK(some.weights < one.weights / 2 && some.most_batch > one.most_batch);
}

TEST(answers, deployments_that_do_not_divide_are_refused)
{
    static const struct {
        uint32_t ranks, tp, pp, ep;
        const char *part;
    } rows[] = {
        {8, 3, 1, 0, "tp x pp 3 does not divide the ranks 8"},
        {8, 2, 8, 0, "tp x pp 16 does not divide the ranks 8"},
        {96, 96, 1, 0, "tp 96 does not divide the heads 128"},
        {8, 1, 1, 3, "ep 3 does not divide the ranks of a stage 8"},
        {128, 1, 128, 0, "pp 128 is more than the 61 layers"},
    };
    struct weir__llm m = deepseek();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir__deploy d = deploy(rows[i].ranks, 1, WEIR__PLACE_SINGLE);

        d.tp = rows[i].tp;
        d.pp = rows[i].pp;
        d.ep = rows[i].ep;
        CHECK_EQ(weir__deploy_check(&m, &d), WEIR_EINVAL);
        CHECK_STR(weir_last_error(), rows[i].part);
    }
}

/* An option that could change nothing is a question that was meant for another model. */
TEST(answers, options_for_parts_that_a_model_lacks_are_refused)
{
    static const struct {
        struct weir__deploy d;
        const char *part;
    } rows[] = {
        {{.prolog = true}, "llama has no latent attention: leave out --prolog"},
        {{.spread = true}, "llama has no latent attention: leave out --spread"},
        {{.prefetch = true}, "llama has no experts: leave out --prefetch"},
        {{.placement = WEIR__PLACE_SHARED}, "has no shared expert: leave out --placement shared"},
        {{.accept = 0.5}, "has no layer that drafts: leave out --mtp"},
        {{.ep = 2}, "has no experts: leave out --ep"},
    };
    struct weir__search_options options = {.max_batch = 1};
    struct weir__candidate *c;
    weir_device *dev = open_a3();
    size_t n, tried;
    struct weir__llm m = {.family = "llama",
                          .hidden = 64,
                          .layers = 2,
                          .heads = 4,
                          .kv_heads = 4,
                          .head_dim = 16,
                          .vocab = 99,
                          .dense_dim = 64,
                          .dense_layers = 2};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir__deploy d = rows[i].d;

        test_note("row %zu", i);
        d.ranks = 2;
        d.tp = d.pp = 1;
        d.batch = d.prompt = 4;
        CHECK_EQ(weir__deploy_check(&m, &d), WEIR_EINVAL);
        CHECK_STR(weir_last_error(), rows[i].part);
        if (d.ep > 1)
            continue; /* a search tries its own */
        CHECK_STATUS(weir__estimate_search(dev, &m, &d, &options, &c, &n, &tried), WEIR_EINVAL);
        CHECK_STR(weir_last_error(), rows[i].part);
    }
    CHECK_OK(weir_device_close(dev));
}

/* Dies that share heads send some of their tokens each to experts, and need the rows of all of them
 * for the next layer: gathered, or summed with the parts of a shared expert. */
TEST(answers, rows_come_back_to_all_dies_of_a_replica)
{
    static const struct {
        uint32_t tp, ep;
        double shared;
        const char *has, *has_not;
    } rows[] = {
        {4, 0, 2048, "moe_reduce", "moe_gather"},
        {4, 0, 0, "moe_gather", "moe_reduce"},
        {4, 1, 0, "moe_reduce", "moe_gather"},
        {1, 0, 2048, "combine", "moe_reduce"},
    };
    weir_device *dev = open_a3();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir__deploy d = deploy(8, 8, WEIR__PLACE_SINGLE);
        struct weir__llm m = deepseek();
        struct weir__text text = {0};
        const char *layer;

        d.tp = rows[i].tp;
        d.ep = rows[i].ep;
        m.shared_dim = rows[i].shared;
        CHECK_OK(weir__estimate_graph(&m, &d, &(struct weir__model_step){.layers = 5},
                                      &dev->model->profile, &text));
        test_note("row %zu", i);
        CHECK((layer = strstr(text.data, "L4.gate")));
        CHECK_STR(layer, rows[i].has);
        CHECK(!strstr(layer, rows[i].has_not));
        weir__text_free(&text);
    }
    CHECK_OK(weir_device_close(dev));
}

/* A few layers stand for all of them. */
TEST(answers, the_quick_estimate_agrees_with_that_of_all_layers)
{
    struct weir__llm m = deepseek();
    weir_device *dev = open_a3();

    for (int place = 0; place < 3; place++) {
        struct weir__deploy d = deploy(64, 32, (enum weir__placement)place);
        struct weir__estimate whole, few = quick(dev, &d);

        CHECK_OK(weir__estimate_model(dev, &m, &d, &whole));
        test_note("%s: %.3f and %.3f ms", weir__placement_names[place], whole.tpot_ms, few.tpot_ms);
        CHECK(fabs(few.tpot_ms / whole.tpot_ms - 1) < 0.01);
        CHECK(fabs(few.ttft_ms / whole.ttft_ms - 1) < 0.02);
        weir__estimate_fini(&whole);
    }
    CHECK_OK(weir_device_close(dev));
}

/* The step as a file says the same on `weir run`, and written again it is the same file. */
TEST(answers, the_step_is_an_ordinary_graph)
{
    struct weir__deploy d = deploy(64, 32, WEIR__PLACE_TWO);
    struct weir__llm m = deepseek();
    struct weir__text text = {0};
    weir_device *dev = open_a3();
    struct weir__prediction p;
    struct weir__estimate e;
    weir_graph *g, *again;
    char *dump, *second;

    CHECK_OK(weir__estimate_model(dev, &m, &d, &e));
    CHECK_OK(
        weir__estimate_graph(&m, &e.d, &(struct weir__model_step){0}, &dev->model->profile, &text));
    CHECK_OK(weir_graph_load(dev, text.data, text.size, "step", &g));
    CHECK_OK(weir__predict(&g, 1, &(struct weir__predict_options){0}, &p));
    CHECK(!p.run.deadlock);
    CHECK_NEAR((double)(p.makespan + p.dispatch) / 1e6, e.decode.us, 0.01);
    weir__prediction_fini(&p);
    CHECK((dump = weir_graph_dump(g)));
    CHECK_OK(weir_graph_load(dev, dump, strlen(dump), "again", &again));
    CHECK((second = weir_graph_dump(again)));
    CHECK_STR_EQ(dump, second);
    free(dump);
    free(second);
    weir_graph_destroy(again);
    weir_graph_destroy(g);
    weir__text_free(&text);
    weir__estimate_fini(&e);
    CHECK_OK(weir_device_close(dev));
}

TEST(answers, a_search_proposes_only_deployments_within_memory_and_limits)
{
    struct weir__deploy d = deploy(16, 1, WEIR__PLACE_SINGLE);
    struct weir__search_options options = {.tpot_ms = 60,
                                           .max_batch = TEST_THREADS_WATCHED ? 1 : 4};
    struct weir__llm m = deepseek();
    struct weir__candidate *c;
    weir_device *dev = open_a3();
    size_t n, tried;

    CHECK_OK(weir__estimate_search(dev, &m, &d, &options, &c, &n, &tried));
    CHECK(n > 3 && tried >= n);
    CHECK(c[0].pareto);
    for (size_t i = 0; i < n; i++) {
        struct weir__estimate_memory memory;

        weir__estimate_find_memory(&m, &c[i].d, &dev->model->profile, &memory);
        CHECK(c[i].tpot_ms <= 60 && c[i].d.batch <= memory.most_batch);
        CHECK(!i || c[i].rate <= c[i - 1].rate);
    }
    weir__free(c);
    options.tpot_ms = 0.01;
    CHECK_OK(weir__estimate_search(dev, &m, &d, &options, &c, &n, &tried));
    CHECK_EQ(n, 0);
    weir__free(c);
    CHECK_OK(weir_device_close(dev));
}
