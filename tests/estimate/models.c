/* Model descriptions: what a config.json says, and what it lacks. */
#include <math.h>
#include <string.h>

#include "graph/estimate/estimate.h"
#include "harness/test.h"

/* Sizes as published with each model; parameters in billions, all and of a token. */
static const struct {
    const char *config;
    double all, active;
} models[] = {
    {"{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":128256,"
     "\"intermediate_size\":14336}",
     8.03, 8.03},
    {"{\"model_type\":\"qwen2\",\"hidden_size\":3584,\"num_hidden_layers\":28,"
     "\"num_attention_heads\":28,\"num_key_value_heads\":4,\"vocab_size\":152064,"
     "\"intermediate_size\":18944,\"sliding_window\":131072,\"use_sliding_window\":false}",
     7.62, 7.62},
    {"{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"num_hidden_layers\":48,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":128,\"vocab_size\":151936,"
     "\"intermediate_size\":6144,\"moe_intermediate_size\":768,\"num_experts\":128,"
     "\"num_experts_per_tok\":8}",
     30.5, 3.3},
    {"{\"model_type\":\"mixtral\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":32000,"
     "\"intermediate_size\":14336,\"num_local_experts\":8,\"num_experts_per_tok\":2}",
     46.7, 12.9},
    {"{\"model_type\":\"deepseek_v2\",\"hidden_size\":5120,\"num_hidden_layers\":60,"
     "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"vocab_size\":102400,"
     "\"intermediate_size\":12288,\"moe_intermediate_size\":1536,\"first_k_dense_replace\":1,"
     "\"n_routed_experts\":160,\"n_shared_experts\":2,\"num_experts_per_tok\":6,"
     "\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,"
     "\"v_head_dim\":128}",
     236, 21},
    {"{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"num_hidden_layers\":61,"
     "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"vocab_size\":129280,"
     "\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"first_k_dense_replace\":3,"
     "\"n_routed_experts\":256,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"
     "\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,"
     "\"v_head_dim\":128,\"num_nextn_predict_layers\":1}",
     671, 37},
    {"{\"model_type\":\"gpt_oss\",\"hidden_size\":2880,\"num_hidden_layers\":36,"
     "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,\"vocab_size\":201088,"
     "\"intermediate_size\":2880,\"num_local_experts\":128,\"experts_per_token\":4,"
     "\"sliding_window\":128}",
     117, 5.1},
};

TEST(models, every_family_has_the_parameters_that_its_authors_say)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct weir__llm m;

        CHECK_OK(weir__llm_parse(models[i].config, strlen(models[i].config), "config", &m));
        test_note("%s: %.2f and %.2f", m.family, weir__llm_parameters(&m, false) / 1e9,
                  weir__llm_parameters(&m, true) / 1e9);
        CHECK(fabs(weir__llm_parameters(&m, false) / models[i].all / 1e9 - 1) < 0.02);
        /* what counts as active is told with and without the embedding */
        CHECK(fabs(weir__llm_parameters(&m, true) / models[i].active / 1e9 - 1) < 0.2);
    }
}

TEST(models, every_family_runs_on_every_profile)
{
    static const char *const profiles[] = {"a2", "a3", "310p", "950dt", "h800"};

    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t p = TEST_THREADS_WATCHED ? 4 : 0; p < sizeof profiles / sizeof *profiles; p++) {
            struct weir__estimate e;
            struct weir__deploy d;
            struct weir__llm m;
            weir_device *dev;
            char spec[64];

            snprintf(spec, sizeof spec, "npu:%s", profiles[p]);
            CHECK_OK(weir_device_open(spec, &dev));
            CHECK_OK(weir__llm_parse(models[i].config, strlen(models[i].config), "config", &m));
            weir__deploy_init(&d);
            d.ranks = 8;
            d.tp = 4;
            d.batch = 4;
            test_note("%s on %s", m.family, spec);
            CHECK_OK(weir__estimate_model(dev, &m, &d, &e));
            CHECK(e.tpot_ms > 0 && e.ttft_ms > e.tpot_ms && e.memory.weights > 0);
            CHECK(e.decode.nparts > 5 && e.decode.nbars > 5);
            CHECK(e.error > 0);
            weir__estimate_fini(&e);
            CHECK_OK(weir_device_close(dev));
        }
}

TEST(models, configs_that_say_too_little_are_refused_with_the_key)
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
    };
    struct weir__llm m;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_note("row %zu", i);
        CHECK_EQ(weir__llm_parse(rows[i].text, strlen(rows[i].text), "config", &m), WEIR_EPARSE);
        CHECK_STR(weir_last_error(), rows[i].part);
    }
}
