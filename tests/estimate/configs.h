/* Config files as their authors published them, with all the keys that say nothing about sizes. */
#ifndef TESTS_ESTIMATE_CONFIGS_H
#define TESTS_ESTIMATE_CONFIGS_H

struct published_config {
    const char *name, *text;
    double all, active;    /* parameters in billions, all and of a token */
    double cache;          /* bytes of a token in half precision, if all layers see everything */
    double dense, sliding; /* layers without experts; that have a window */
};

#define QWEN3_TAIL                                                                          \
    "\"attention_bias\": false, \"attention_dropout\": 0.0, \"bos_token_id\": 151643, "     \
    "\"eos_token_id\": 151645, \"hidden_act\": \"silu\", \"initializer_range\": 0.02, "     \
    "\"max_position_embeddings\": 40960, \"rms_norm_eps\": 1e-06, \"rope_scaling\": null, " \
    "\"rope_theta\": 1000000, \"sliding_window\": null, \"use_sliding_window\": false, "    \
    "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"use_cache\": true, "

static const struct published_config published_configs[] = {
    {"Llama-3.1-8B",
     "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, "
     "\"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008, 128009], "
     "\"hidden_act\": \"silu\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
     "\"max_position_embeddings\": 131072, \"mlp_bias\": false, \"model_type\": \"llama\", "
     "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
     "\"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 8.0, "
     "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
     "\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, "
     "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
     "\"transformers_version\": \"4.42.3\", \"use_cache\": true, \"vocab_size\": 128256}",
     8.03, 8.03, 131072, 32, 0},
    {"Llama-3.1-70B",
     "{\"model_type\": \"llama\", \"hidden_size\": 8192, \"intermediate_size\": 28672, "
     "\"num_attention_heads\": 64, \"num_hidden_layers\": 80, \"num_key_value_heads\": 8, "
     "\"vocab_size\": 128256, \"tie_word_embeddings\": false}",
     70.55, 70.55, 327680, 80, 0},
    {"Llama-2-7B", /* no num_key_value_heads: as many as heads */
     "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 11008, "
     "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"vocab_size\": 32000}",
     6.74, 6.74, 524288, 32, 0},
    {"Mistral-7B-v0.1",
     "{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
     "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
     "\"sliding_window\": 4096, \"vocab_size\": 32000, \"tie_word_embeddings\": false}",
     7.24, 7.24, 131072, 32, 32},
    {"Qwen2.5-0.5B",
     "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, "
     "\"max_window_layers\": 24, \"num_attention_heads\": 14, \"num_hidden_layers\": 24, "
     "\"num_key_value_heads\": 2, \"sliding_window\": 32768, \"tie_word_embeddings\": true, "
     "\"use_mrope\": false, \"use_sliding_window\": false, \"vocab_size\": 151936}",
     0.494, 0.494, 12288, 24, 0},
    {"Qwen2.5-7B",
     "{\"model_type\": \"qwen2\", \"hidden_size\": 3584, \"intermediate_size\": 18944, "
     "\"max_window_layers\": 28, \"num_attention_heads\": 28, \"num_hidden_layers\": 28, "
     "\"num_key_value_heads\": 4, \"sliding_window\": 131072, \"tie_word_embeddings\": false, "
     "\"use_sliding_window\": false, \"vocab_size\": 152064}",
     7.62, 7.62, 57344, 28, 0},
    {"Qwen3-8B",
     "{" QWEN3_TAIL "\"model_type\": \"qwen3\", \"head_dim\": 128, \"hidden_size\": 4096, "
     "\"intermediate_size\": 12288, \"max_window_layers\": 36, \"num_attention_heads\": 32, "
     "\"num_hidden_layers\": 36, \"num_key_value_heads\": 8, \"vocab_size\": 151936}",
     8.19, 8.19, 147456, 36, 0},
    {"Qwen3-30B-A3B",
     "{" QWEN3_TAIL "\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 1, "
     "\"head_dim\": 128, \"hidden_size\": 2048, \"intermediate_size\": 6144, "
     "\"max_window_layers\": 48, \"mlp_only_layers\": [], \"moe_intermediate_size\": 768, "
     "\"norm_topk_prob\": true, \"num_attention_heads\": 32, \"num_experts\": 128, "
     "\"num_experts_per_tok\": 8, \"num_hidden_layers\": 48, \"num_key_value_heads\": 4, "
     "\"output_router_logits\": false, \"router_aux_loss_coef\": 0.001, \"vocab_size\": 151936}",
     30.53, 3.34, 98304, 0, 0},
    {"Qwen3-235B-A22B",
     "{" QWEN3_TAIL "\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 1, "
     "\"head_dim\": 128, \"hidden_size\": 4096, \"intermediate_size\": 12288, "
     "\"mlp_only_layers\": [], \"moe_intermediate_size\": 1536, \"num_attention_heads\": 64, "
     "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 94, "
     "\"num_key_value_heads\": 4, \"vocab_size\": 151936}",
     235.1, 22.2, 192512, 0, 0},
    {"Qwen2-57B-A14B",
     "{\"model_type\": \"qwen2_moe\", \"decoder_sparse_step\": 1, \"hidden_size\": 3584, "
     "\"intermediate_size\": 18944, \"max_window_layers\": 28, \"mlp_only_layers\": [], "
     "\"moe_intermediate_size\": 2560, \"num_attention_heads\": 28, \"num_experts\": 64, "
     "\"num_experts_per_tok\": 8, \"num_hidden_layers\": 28, \"num_key_value_heads\": 4, "
     "\"shared_expert_intermediate_size\": 20480, \"sliding_window\": 65536, "
     "\"tie_word_embeddings\": false, \"use_sliding_window\": false, \"vocab_size\": 151936}",
     57.4, 14.2, 57344, 0, 0},
    {"Mixtral-8x7B",
     "{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
     "\"num_attention_heads\": 32, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 32, "
     "\"num_key_value_heads\": 8, \"num_local_experts\": 8, \"router_aux_loss_coef\": 0.02, "
     "\"sliding_window\": null, \"tie_word_embeddings\": false, \"vocab_size\": 32000}",
     46.7, 12.9, 131072, 0, 0},
    {"Mixtral-8x22B",
     "{\"model_type\": \"mixtral\", \"hidden_size\": 6144, \"intermediate_size\": 16384, "
     "\"num_attention_heads\": 48, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 56, "
     "\"num_key_value_heads\": 8, \"num_local_experts\": 8, \"vocab_size\": 32768}",
     140.6, 39.1, 229376, 0, 0},
    {"DeepSeek-V2-Lite",
     "{\"model_type\": \"deepseek_v2\", \"aux_loss_alpha\": 0.001, \"ep_size\": 1, "
     "\"first_k_dense_replace\": 1, \"hidden_size\": 2048, \"intermediate_size\": 10944, "
     "\"kv_lora_rank\": 512, \"moe_intermediate_size\": 1408, \"moe_layer_freq\": 1, "
     "\"n_group\": 1, \"n_routed_experts\": 64, \"n_shared_experts\": 2, "
     "\"norm_topk_prob\": false, \"num_attention_heads\": 16, \"num_experts_per_tok\": 6, "
     "\"num_hidden_layers\": 27, \"num_key_value_heads\": 16, \"q_lora_rank\": null, "
     "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"routed_scaling_factor\": 1.0, "
     "\"topk_group\": 1, \"topk_method\": \"greedy\", \"v_head_dim\": 128, "
     "\"vocab_size\": 102400}",
     15.7, 2.66, 31104, 1, 0},
    {"DeepSeek-V2",
     "{\"model_type\": \"deepseek_v2\", \"first_k_dense_replace\": 1, \"hidden_size\": 5120, "
     "\"intermediate_size\": 12288, \"kv_lora_rank\": 512, \"moe_intermediate_size\": 1536, "
     "\"moe_layer_freq\": 1, \"n_group\": 8, \"n_routed_experts\": 160, \"n_shared_experts\": 2, "
     "\"num_attention_heads\": 128, \"num_experts_per_tok\": 6, \"num_hidden_layers\": 60, "
     "\"num_key_value_heads\": 128, \"q_lora_rank\": 1536, \"qk_nope_head_dim\": 128, "
     "\"qk_rope_head_dim\": 64, \"topk_group\": 3, \"v_head_dim\": 128, \"vocab_size\": 102400}",
     235.7, 21.4, 69120, 1, 0},
    {"DeepSeek-R1",
     "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"auto_map\": {\"AutoConfig\": "
     "\"configuration_deepseek.DeepseekV3Config\"}, \"aux_loss_alpha\": 0.001, "
     "\"ep_size\": 1, \"first_k_dense_replace\": 3, \"hidden_size\": 7168, "
     "\"intermediate_size\": 18432, \"kv_lora_rank\": 512, \"model_type\": \"deepseek_v3\", "
     "\"moe_intermediate_size\": 2048, \"moe_layer_freq\": 1, \"n_group\": 8, "
     "\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"norm_topk_prob\": true, "
     "\"num_attention_heads\": 128, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 61, "
     "\"num_key_value_heads\": 128, \"num_nextn_predict_layers\": 1, \"q_lora_rank\": 1536, "
     "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"quantization_config\": "
     "{\"activation_scheme\": \"dynamic\", \"fmt\": \"e4m3\", \"quant_method\": \"fp8\", "
     "\"weight_block_size\": [128, 128]}, \"rope_scaling\": {\"beta_fast\": 32, \"factor\": 40, "
     "\"mscale\": 1.0, \"type\": \"yarn\"}, \"routed_scaling_factor\": 2.5, "
     "\"scoring_func\": \"sigmoid\", \"tie_word_embeddings\": false, \"topk_group\": 4, "
     "\"topk_method\": \"noaux_tc\", \"v_head_dim\": 128, \"vocab_size\": 129280}",
     671.0, 37.6, 70272, 3, 0},
    {"gpt-oss-20b",
     "{\"model_type\": \"gpt_oss\", \"attention_bias\": true, \"experts_per_token\": 4, "
     "\"head_dim\": 64, \"hidden_size\": 2880, \"initial_context_length\": 4096, "
     "\"intermediate_size\": 2880, \"layer_types\": [\"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"full_attention\"], \"num_attention_heads\": 64, "
     "\"num_experts_per_tok\": 4, \"num_hidden_layers\": 24, \"num_key_value_heads\": 8, "
     "\"num_local_experts\": 32, \"quantization_config\": {\"modules_to_not_convert\": "
     "[\"model.layers.*.self_attn\", \"lm_head\"], \"quant_method\": \"mxfp4\"}, "
     "\"sliding_window\": 128, \"swiglu_limit\": 7.0, \"tie_word_embeddings\": false, "
     "\"vocab_size\": 201088}",
     20.9, 3.6, 49152, 0, 12},
    {"gpt-oss-120b", /* without layer_types */
     "{\"model_type\": \"gpt_oss\", \"head_dim\": 64, \"hidden_size\": 2880, "
     "\"intermediate_size\": 2880, \"num_attention_heads\": 64, \"num_experts_per_tok\": 4, "
     "\"num_hidden_layers\": 36, \"num_key_value_heads\": 8, \"num_local_experts\": 128, "
     "\"sliding_window\": 128, \"vocab_size\": 201088}",
     116.8, 5.1, 73728, 0, 18},
    {"Kimi-K2",
     "{\"model_type\": \"kimi_k2\", \"first_k_dense_replace\": 1, \"hidden_size\": 7168, "
     "\"intermediate_size\": 18432, \"kv_lora_rank\": 512, \"moe_intermediate_size\": 2048, "
     "\"n_group\": 1, \"n_routed_experts\": 384, \"n_shared_experts\": 1, "
     "\"num_attention_heads\": 64, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 61, "
     "\"num_key_value_heads\": 64, \"num_nextn_predict_layers\": 0, \"q_lora_rank\": 1536, "
     "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"topk_group\": 1, "
     "\"v_head_dim\": 128, \"vocab_size\": 163840}",
     1026, 32.9, 70272, 1, 0},
};

enum { PUBLISHED_CONFIGS = sizeof published_configs / sizeof *published_configs };

#endif
