"""Models of the sizes that people run, on the host: eager PyTorch, inductor and weir, in one process.

    whole_models.py [--threads N] [--rounds N] [--type float32|bfloat16] [--ways eager,inductor,weir]
                    [--float64] [MODEL ...]

Architectures and sizes are published ones where the name says so, weights are random: nothing is
downloaded but transformers and diffusers. Rounds take turns; figures are medians of milliseconds a
step, and of seconds of the first call. `--float64` compares values with the model in float64. On a
machine that others use, run it at real-time priority (chrt -r 1).
"""

import argparse
import copy
import statistics
import time
import warnings

import torch
import transformers as hub

import weir


def _text(batch, count):
    return torch.arange(batch * count).reshape(batch, count) % 1000


def _image(batch=1, side=224):
    return dict(pixel_values=torch.randn(batch, 3, side, side))


def _language(kind, **settings):
    def make():
        config = getattr(hub, f"{kind}Config")(**settings)
        return getattr(hub, f"{kind}ForCausalLM")(config), dict(input_ids=_text(1, 128), use_cache=False)

    return make


def _qwen():
    return _language("Qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                     num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)()  # fmt: skip


def _qwen_token():
    """One token behind 100 others in a static cache."""
    model, _ = _qwen()
    cache = hub.StaticCache(config=model.config, max_cache_len=256)
    return model, dict(input_ids=_text(1, 1) + 5, past_key_values=cache, use_cache=True)


def _unet():
    import diffusers

    model = diffusers.UNet2DConditionModel(
        sample_size=32, block_out_channels=(128, 256, 512), layers_per_block=1, cross_attention_dim=512,
        attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    return model, dict(sample=torch.randn(1, 4, 32, 32), timestep=torch.tensor([10]),
                       encoder_hidden_states=torch.randn(1, 77, 512))  # fmt: skip


def _whisper():
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = hub.WhisperConfig(d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072)
    return WhisperEncoder(config), dict(input_features=torch.randn(1, 80, 3000))


_SMALL = dict(vocab_size=32000, hidden_size=512, num_attention_heads=8, num_key_value_heads=4)
MODELS = {
    "qwen2-0.5b": _qwen,
    "qwen2-0.5b-token": _qwen_token,
    "gpt2": lambda: (hub.GPT2LMHeadModel(hub.GPT2Config()), dict(input_ids=_text(1, 128), use_cache=False)),
    "bert-base": lambda: (hub.BertModel(hub.BertConfig()), dict(input_ids=_text(4, 128))),
    "t5-small": lambda: (hub.T5EncoderModel(hub.T5Config()), dict(input_ids=_text(2, 128))),
    "clip-text": lambda: (hub.CLIPTextModel(hub.CLIPTextConfig()), dict(input_ids=_text(2, 77))),
    "mixtral-8-layers": _language("Mixtral", **_SMALL, intermediate_size=1024, num_hidden_layers=8),
    "gemma2-8-layers": _language("Gemma2", **_SMALL, intermediate_size=2048, num_hidden_layers=8, head_dim=64),
    "mamba-8-layers": _language("Mamba", vocab_size=32000, hidden_size=512, num_hidden_layers=8),
    "vit-base": lambda: (hub.ViTModel(hub.ViTConfig()), _image(2)),
    "swin-tiny": lambda: (hub.SwinModel(hub.SwinConfig()), _image()),
    "resnet-50": lambda: (hub.ResNetModel(hub.ResNetConfig()), _image()),
    "convnext-tiny": lambda: (hub.ConvNextModel(hub.ConvNextConfig()), _image()),
    "segformer": lambda: (hub.SegformerModel(hub.SegformerConfig()), _image(side=256)),
    "whisper-small": _whisper,
    "wav2vec2-6-layers": lambda: (
        hub.Wav2Vec2Model(hub.Wav2Vec2Config(num_hidden_layers=6)), dict(input_values=torch.randn(1, 48000))),
    "unet": _unet,
}  # fmt: skip


def to_type(inputs, dtype):
    return {name: x.to(dtype) if torch.is_tensor(x) and x.is_floating_point() else x for name, x in inputs.items()}


def compiled(model, way):
    if way == "eager":
        return model
    return torch.compile(model, dynamic=False, backend=weir.get_npu_backend() if way == "weir" else "inductor")


def first_of(result):
    return result if torch.is_tensor(result) else result[0]


def measure(name, args, dtype):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model, inputs = model.eval().to(dtype), to_type(inputs, dtype)
    cache = inputs.get("past_key_values")
    if cache is not None:
        model(input_ids=_text(1, 100), past_key_values=cache, use_cache=True)

    def run(way):
        if cache is not None:
            for layer in cache.layers:
                layer.cumulative_length.fill_(100)
        return first_of(way(**inputs))

    wanted = run(model).double()
    if args.float64:
        if cache is not None:
            raise SystemExit(f"whole_models: {name} has a cache of its type: leave --float64 out")
        wanted = first_of(copy.deepcopy(model).double()(**to_type(inputs, torch.float64)))
    ways, off, first = {}, {}, {}
    for way in args.ways.split(","):
        ways[way] = compiled(model, way)
        begun = time.perf_counter()
        off[way] = (run(ways[way]).double() - wanted).abs().max().item()
        first[way] = time.perf_counter() - begun
    times = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, call in ways.items():
            run(call)
            begun = time.perf_counter()
            run(call)
            times[way].append((time.perf_counter() - begun) * 1e3)
    step = {way: statistics.median(t) for way, t in times.items()}
    others = [t for way, t in step.items() if way != "weir"]
    ratio = f"  ratio {step['weir'] / min(others):.2f}" if others and "weir" in step else ""
    print(f"{name:18} {str(dtype)[6:]:9}" +
          "".join(f"  {way} {step[way]:7.1f} ms ({first[way]:.1f} s, {off[way]:.1e})" for way in ways) + ratio,
          flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--type", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--ways", default="eager,inductor,weir")
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()

    for name in args.models:
        if name not in MODELS:
            parser.error(f"there is no model {name!r}; there are {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    hub.logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    weir.set_device(f"cpu:cores={args.threads}")
    with torch.no_grad():
        for name in args.models or MODELS:
            measure(name, args, getattr(torch, args.type))


if __name__ == "__main__":
    main()
