/* Reading model descriptions (config.json), complete and incomplete. */
#include <math.h>
#include <string.h>

#include "configs.h"
#include "helpers.h"

static struct weir__llm parse(const struct published_config *c)
{
    struct weir__llm m;

    CHECK_OK(weir__llm_parse(c->text, strlen(c->text), c->name, &m));
    return m;
}

TEST(models, every_published_config_has_the_parameters_that_its_authors_say)
{
    for (size_t i = 0; i < PUBLISHED_CONFIGS; i++) {
        const struct published_config *c = &published_configs[i];
        struct weir__llm m = parse(c);

        test_note("%s: %.2f and %.2f, %.0f dense, %.0f sliding", c->name,
                  weir__llm_parameters(&m, false) / 1e9, weir__llm_parameters(&m, true) / 1e9,
                  m.dense_layers, m.window_layers);
        CHECK(fabs(weir__llm_parameters(&m, false) / c->all / 1e9 - 1) < 0.01);
        /* what counts as active is told with and without the embedding */
        CHECK(fabs(weir__llm_parameters(&m, true) / c->active / 1e9 - 1) < 0.2);
        CHECK_EQ((int)m.dense_layers, (int)c->dense);
        CHECK_EQ((int)m.window_layers, (int)c->sliding);
    }
}

/* All weights of a model lie somewhere, and a sequence's cache has what the known formulas say. */
TEST(models, the_estimate_of_memory_counts_every_parameter_and_token)
{
    struct weir__profile p;

    CHECK_OK(weir__profile_load("a3", &p));
    for (size_t i = 0; i < PUBLISHED_CONFIGS; i++) {
        const struct published_config *c = &published_configs[i];
        struct weir__llm m = parse(c);
        struct weir__estimate_memory one, shared;
        struct weir__deploy d = deploy(1, 1, WEIR__PLACE_SINGLE);
        double tokens, full;

        test_note("%s", c->name);
        d.quant = WEIR__QUANT_BF16;
        d.prompt = 100;
        d.output = 28; /* as long as the shortest window, so that all layers have all of it */
        weir__estimate_find_memory(&m, &d, &p, &one);
        tokens = d.prompt + d.output;
        CHECK_NEAR(one.cache, c->cache * tokens, 1);
        CHECK(fabs(one.weights / (2 * weir__llm_parameters(&m, false)) - 1) < 1e-6);
        /* and no more than the window where there is one */
        d.prompt = 1e5;
        tokens = d.prompt + d.output;
        full = c->cache / m.layers * (m.layers - c->sliding);
        weir__estimate_find_memory(&m, &d, &p, &one);
        CHECK_NEAR(one.cache, full * tokens + c->cache / m.layers * c->sliding * m.window, 1);
        /* shared by two dies each way, no weight is lost, and all but rows of half precision
         * that every die has are halved */
        for (int how = 0; how < 3; how++) {
            d = deploy(2, 2, WEIR__PLACE_SINGLE);
            d.quant = WEIR__QUANT_BF16;
            d.tp = how == 0 ? 2 : 1;
            d.pp = how == 1 ? 2 : 1;
            weir__estimate_find_memory(&m, &d, &p, &shared);
            CHECK(2 * shared.weights >= 2 * weir__llm_parameters(&m, false) * (1 - 1e-9));
            if (how < 2)
                CHECK(2 * shared.weights <=
                      2.2 * weir__llm_parameters(&m, false) + 4 * m.vocab * m.hidden);
        }
    }
}

/* A layer that drafts has weights and a cache. */
TEST(models, drafting_takes_memory)
{
    struct weir__deploy d = deploy(32, 8, WEIR__PLACE_SINGLE);
    struct weir__estimate_memory without, with;
    struct weir__llm m = deepseek();
    struct weir__profile p;

    CHECK_OK(weir__profile_load("a3", &p));
    weir__estimate_find_memory(&m, &d, &p, &without);
    d.accept = 0.7;
    weir__estimate_find_memory(&m, &d, &p, &with);
    CHECK_NEAR(with.cache / without.cache, 62.0 / 61, 1e-9);
    /* attention, 8 of 256 experts, the shared one and the product of two rows: 0.68 GB */
    CHECK_NEAR((with.weights - without.weights) / 1e9, 0.68, 0.03);
}

TEST(models, every_family_runs_on_every_profile)
{
    static const char *const profiles[] = {"a2", "a3", "310p", "950dt", "h800"};

    for (size_t i = 0; i < PUBLISHED_CONFIGS; i++)
        for (size_t p = TEST_THREADS_WATCHED ? 4 : 0; p < sizeof profiles / sizeof *profiles; p++) {
            struct weir__estimate e;
            struct weir__llm m = parse(&published_configs[i]);
            struct weir__deploy d;
            weir_device *dev;
            char spec[64];

            snprintf(spec, sizeof spec, "npu:%s", profiles[p]);
            CHECK_OK(weir_device_open(spec, &dev));
            weir__deploy_init(&d);
            d.ranks = 8;
            d.tp = 2;
            d.batch = 4;
            test_note("%s on %s", published_configs[i].name, spec);
            CHECK_OK(weir__estimate_model(dev, &m, &d, &e));
            CHECK(e.tpot_ms > 0 && e.ttft_ms > e.tpot_ms && e.memory.weights > 0);
            CHECK(e.decode.nparts > 5 && e.decode.nbars > 5);
            CHECK(e.error > 0);
            weir__estimate_fini(&e);
            CHECK_OK(weir_device_close(dev));
        }
}

#define SIZES                                                                                   \
    "\"hidden_size\":4096,\"num_hidden_layers\":2,\"num_attention_heads\":32,\"vocab_size\":9," \
    "\"intermediate_size\":9"

/* Layers that have no experts may be named one by one, or come every so often. */
TEST(models, layers_without_experts_are_counted_as_the_config_names_them)
{
    static const struct {
        const char *part;
        double dense;
    } rows[] = {
        {"\"model_type\":\"qwen2_moe\",\"decoder_sparse_step\":2", 24},
        {"\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":[0,1,2]", 3},
        {"\"model_type\":\"deepseek_v3\",\"first_k_dense_replace\":3,\"moe_layer_freq\":1", 3},
        /* experts in 4, 6, ... 46 */
        {"\"model_type\":\"deepseek_v3\",\"first_k_dense_replace\":3,\"moe_layer_freq\":2", 26},
        {"\"model_type\":\"glm4_moe\",\"moe_layer_freq\":[0,0,1,1,0]", 3},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir__llm m;
        char text[400];

        snprintf(text, sizeof text,
                 "{%s,\"hidden_size\":64,\"num_hidden_layers\":48,\"num_attention_heads\":4,"
                 "\"vocab_size\":9,\"intermediate_size\":9,\"num_experts\":8,"
                 "\"num_experts_per_tok\":2}",
                 rows[i].part);
        test_note("row %zu", i);
        CHECK_OK(weir__llm_parse(text, strlen(text), "config", &m));
        CHECK_EQ((int)m.dense_layers, (int)rows[i].dense);
    }
}

/* Of a model of several modes the text part counts, wherever it stands. */
TEST(models, the_text_part_of_a_model_of_several_modes_says_what_it_is)
{
    static const char *const texts[] = {
        "{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"mistral\"," SIZES "}}",
        "{\"text_config\":{\"model_type\":\"mistral\"," SIZES "},\"model_type\":\"mistral3\"}",
    };
    struct weir__llm m;

    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir__llm_parse(texts[i], strlen(texts[i]), "config", &m));
        CHECK_STR_EQ(m.family, "mistral");
    }
}

TEST(models, configs_that_lack_a_key_are_refused_with_its_name)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "config:1"},
        {"[]", "config:1"},
        {"{}", "hidden_size is 0"},
        {"{\"hidden_size\":-4096}", "hidden_size is -4096"},
        {"{\"hidden_size\":4096,\"num_hidden_layers\":2}", "num_attention_heads"},
        {"{\"hidden_size\":4096,\"num_hidden_layers\":2,\"num_attention_heads\":32}", "vocab_size"},
        {"{\"hidden_size\":4096,\"num_hidden_layers\":2,\"num_attention_heads\":32,"
         "\"vocab_size\":9,\"num_experts\":8,\"intermediate_size\":9,\"num_experts_per_tok\":9}",
         "num_experts_per_tok is 9, of 8 experts"},
        {"{\"hidden_size\":4096,\"num_hidden_layers\":2,\"num_attention_heads\":32,"
         "\"vocab_size\":9,\"intermediate_size\":9,\"kv_lora_rank\":9}",
         "qk_rope_head_dim"},
        {"{\"hidden_size\":4096", "config:1"},
        {"{\"model_type\":\"gemma2\"}", "model_type 'gemma2' is unknown"},
        {"{\"model_type\":\"qwen3\",\"layer_types\":[\"full_attention\",\"linear_attention\"]}",
         "layer_types has an entry that is neither"},
        {"{" SIZES "}", "model_type '' is unknown"},
        {"{\"model_type\":\"llama\",\"num_key_value_heads\":5," SIZES "}",
         "num_key_value_heads is 5: it must divide the 32"},
        {"{\"model_type\":\"llama\",\"num_key_value_heads\":64," SIZES "}",
         "num_key_value_heads is 64: it must be present and in 1..32"},
        {"{\"model_type\":\"llama\",\"num_key_value_heads\":1.5," SIZES "}",
         "num_key_value_heads is 1.5, not a whole number"},
        {"{\"model_type\":\"mixtral\",\"num_local_experts\":-8," SIZES "}",
         "num_local_experts is -8: it must be absent"},
        {"{\"model_type\":\"deepseek_v3\",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
         "\"first_k_dense_replace\":3," SIZES "}",
         "first_k_dense_replace is 3: it must be absent or in 1..2"},
        {"{\"model_type\":\"deepseek_v3\",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
         "\"n_shared_experts\":-1,\"moe_intermediate_size\":8," SIZES "}",
         "size of the shared experts is -8"},
    };
    struct weir__llm m;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_note("row %zu", i);
        CHECK_EQ(weir__llm_parse(rows[i].text, strlen(rows[i].text), "config", &m), WEIR_EPARSE);
        CHECK_STR(weir_last_error(), rows[i].part);
    }
}
