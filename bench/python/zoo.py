"""Small models of transformers and diffusers, with random weights, for coverage.py and models.py.
Nothing is downloaded but the packages."""

import torch


def _transformer(config, model, **inputs):
    import transformers

    def make():
        torch.manual_seed(0)
        kind, settings = config
        built = getattr(transformers, model)(getattr(transformers, kind)(**settings)).eval()
        return built, {name: make() for name, make in inputs.items()}

    return make


def _ids(count=16, batch=1):
    return lambda: torch.arange(batch * count).reshape(batch, count) % 97


_LM = dict(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
_ROPE = dict(_LM, intermediate_size=96, num_key_value_heads=2, max_position_embeddings=256)
_LATENT = dict(
    _LM, intermediate_size=96, moe_intermediate_size=32, num_key_value_heads=4, n_routed_experts=8,
    num_experts_per_tok=2, n_shared_experts=1, q_lora_rank=32, kv_lora_rank=16,
    qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16, first_k_dense_replace=1, n_group=2,
    topk_group=1, max_position_embeddings=256,
)  # fmt: skip


def _resnet(kind, depths):
    settings = dict(layer_type=kind, depths=depths, hidden_sizes=[16, 32, 64, 128],
                    embedding_size=16)  # fmt: skip
    return _transformer(
        ("ResNetConfig", settings), "ResNetModel", pixel_values=lambda: torch.randn(1, 3, 64, 64)
    )


def _unet():
    """The network of a latent diffusion model, with attention to a text."""
    import diffusers

    torch.manual_seed(0)
    built = diffusers.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=8,
        block_out_channels=(32, 64), cross_attention_dim=48, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).eval()  # fmt: skip
    return built, {
        "sample": torch.randn(2, 4, 16, 16),
        "timestep": torch.tensor([10, 500]),
        "encoder_hidden_states": torch.randn(2, 7, 48),
    }


MODELS = {
    "llama": _transformer(("LlamaConfig", _ROPE), "LlamaForCausalLM", input_ids=_ids()),
    "qwen2-moe": _transformer(
        ("Qwen2MoeConfig", dict(_ROPE, num_experts=8, num_experts_per_tok=2,
                                moe_intermediate_size=32, shared_expert_intermediate_size=64)),
        "Qwen2MoeForCausalLM", input_ids=_ids(),
    ),  # fmt: skip
    "mixtral": _transformer(
        ("MixtralConfig", dict(_ROPE, num_local_experts=4)), "MixtralForCausalLM", input_ids=_ids()
    ),
    "deepseek-v2": _transformer(
        ("DeepseekV2Config", _LATENT), "DeepseekV2ForCausalLM", input_ids=_ids()
    ),
    "deepseek-v3": _transformer(
        ("DeepseekV3Config", _LATENT), "DeepseekV3ForCausalLM", input_ids=_ids()
    ),
    "bert": _transformer(
        ("BertConfig", dict(_LM, intermediate_size=96)), "BertModel", input_ids=_ids()
    ),
    "gpt2": _transformer(
        ("GPT2Config", dict(vocab_size=128, n_embd=64, n_layer=2, n_head=4)), "GPT2LMHeadModel",
        input_ids=_ids(),
    ),  # fmt: skip
    "vit": _transformer(
        ("ViTConfig", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=96, image_size=32, patch_size=8)),
        "ViTModel", pixel_values=lambda: torch.randn(1, 3, 32, 32),
    ),  # fmt: skip
    "whisper-encoder": _transformer(
        ("WhisperConfig", dict(d_model=64, encoder_layers=2, encoder_attention_heads=4, decoder_layers=2,
                               decoder_attention_heads=4,
                               encoder_ffn_dim=96, num_mel_bins=16, max_source_positions=50)),
        "WhisperModel", input_features=lambda: torch.randn(1, 16, 100),
    ),  # fmt: skip
    "resnet-18": _resnet("basic", [2, 2, 2, 2]),
    "resnet-50": _resnet("bottleneck", [3, 4, 6, 3]),
    "unet": _unet,
}


def make(name):
    """(module, its keyword arguments) of one model."""
    module, inputs = MODELS[name]()
    if name == "whisper-encoder":
        return module.encoder, inputs
    return module, inputs


def result(out):
    """The tensor that a model is for."""
    for name in ("logits", "last_hidden_state", "sample"):
        if hasattr(out, name):
            return getattr(out, name)
    return out
