"""transformers' models on a GPU: eager, inductor's modes and weir, in one process.

    gpu_models.py [--device cuda] [--rounds N] [--layers N] [--ways eager,default,...] [--small]
                  [--kernels N] [--values] [--limit SECONDS] [MODEL ...]

Prefill is 512 tokens; decode is one token of 8 sequences with a static cache of 128 or 1024. Weights
are random, in bf16. Rounds take turns; figures are medians of milliseconds a step. `--kernels` counts
the kernels of a step, of five in a row, says how fast the GPU ran and lists the N longest, `--values` compares with the model in f64. `--rounds 0`
compiles only: run that first, for several models at once, and the caches are warm. A way whose first call
takes longer than `--limit` (max-autotune, which compiles and times many kernels) is left out.
"""

import argparse
import collections
import signal
import statistics
import subprocess
import time

import torch
import transformers

import weir

_LATENT = dict(
    moe_intermediate_size=1024, n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=1,
    q_lora_rank=768, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
    first_k_dense_replace=1, n_group=4, topk_group=2,
)  # fmt: skip
MODELS = {
    "llama": ("Llama", 4096, dict(intermediate_size=11008, num_attention_heads=32, num_key_value_heads=32)),
    "qwen2-moe": (
        "Qwen2Moe", 2048,
        dict(intermediate_size=2048, num_attention_heads=16, num_key_value_heads=16, num_experts=16,
             num_experts_per_tok=4, moe_intermediate_size=1024, shared_expert_intermediate_size=2048),
    ),
    "deepseek-v3": (
        "DeepseekV3", 2048,
        dict(_LATENT, intermediate_size=2048, num_attention_heads=16, num_key_value_heads=16),
    ),
    "gpt2": ("GPT2", 2048, dict(n_head=16, n_positions=2048)),
}  # fmt: skip
PHASES = {"prefill": (1, 512, 0), "decode": (8, 1, 128), "decode-1k": (8, 1, 1024)}
WAYS = {
    "default": dict(backend="inductor"),
    "reduce-overhead": dict(backend="inductor", mode="reduce-overhead"),
    "max-autotune": dict(backend="inductor", mode="max-autotune"),
    "weir": {},
    "weir-streams": {},
}


def make(name, args):
    kind, hidden, settings = MODELS[name]
    if args.small:
        hidden, settings = 256, {
            k: v // 8 if v > 64 and k != "n_positions" else v for k, v in settings.items()
        }
    if kind == "GPT2":
        settings = dict(settings, n_embd=hidden, n_layer=args.layers)
    else:
        settings = dict(settings, hidden_size=hidden, num_hidden_layers=args.layers)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(vocab_size=4096 if args.small else 32000, **settings)
    with torch.device(args.device):
        model = getattr(transformers, f"{kind}" + ("LMHeadModel" if kind == "GPT2" else "ForCausalLM"))
        return model(config).to(torch.bfloat16).eval()


class Step:
    """One step of a model, one way; a cache of its own."""

    PROMPT = 64

    def __init__(self, model, phase, way, args):
        self.batch, tokens, self.room = PHASES[phase]
        self.ids = torch.arange(self.batch * tokens, device=args.device).reshape(self.batch, tokens)
        self.model, self.cache, self.at = model, None, 0
        if self.room:
            self.cache = transformers.StaticCache(config=model.config, max_cache_len=self.room)
            count = self.batch * self.PROMPT
            prompt = torch.arange(count, device=args.device).reshape(self.batch, self.PROMPT)
            model(input_ids=prompt, past_key_values=self.cache, use_cache=True)
            self.at = self.start = self.PROMPT
        self.run = self._compiled(way)

    def _compiled(self, way):
        if way == "eager":
            return self.model
        settings = dict(WAYS[way])
        if way.startswith("weir"):
            config = weir.CompilerConfig()
            config.auto_streams = way == "weir-streams"
            settings = dict(backend=weir.get_npu_backend(compiler_config=config))
        return torch.compile(self.model, dynamic=False, **settings)

    def __call__(self):
        if self.cache is None:
            return self.run(input_ids=self.ids, use_cache=False).logits
        if self.at == self.room:
            self.rewind()
        self.at += 1
        return self.run(input_ids=self.ids, past_key_values=self.cache, use_cache=True).logits

    def rewind(self):
        self.at = self.start
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.start)


STEPS = 5


def _speed():
    """The GPU's clock and power, as it runs."""
    asked = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip().replace(",", "")


def kernels(step, name, longest):
    began, speed = time.perf_counter(), ""
    while time.perf_counter() < began + 0.4:  # as busy as in the rounds
        for _ in range(20):
            step()
        speed = speed or _speed()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    spans = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    by_name = collections.defaultdict(list)
    for span in spans:
        by_name[span.name].append(span.device_time_total)
    total = sum(sum(t) for t in by_name.values()) / STEPS
    ends = [s.time_range.end for s in spans]
    begins = [s.time_range.start for s in spans]
    span = (max(ends) - min(begins)) / STEPS if spans else 0
    print(f"    {name}: {len(spans) / STEPS:g} kernels, {total:.0f} us of work in {span:.0f} us, {speed}", flush=True)
    for kernel, times in sorted(by_name.items(), key=lambda x: -sum(x[1]))[:longest]:
        count = len(times) / STEPS
        print(f"        {sum(times) / STEPS:8.1f} us {count:4g} x {kernel[:90]}", flush=True)


def _too_long(*_):
    raise TimeoutError("the first call takes too long")


def measure(name, phase, args, model):
    sync = torch.cuda.synchronize if args.device.startswith("cuda") else lambda: None
    steps, first = {}, {}
    torch._dynamo.reset()
    for way in args.ways:
        try:
            step = Step(model, phase, way, args)
            began = time.perf_counter()
            with torch.no_grad():
                signal.alarm(args.limit)
                try:
                    out = step().float().clone()
                finally:
                    signal.alarm(0)
                sync()
                first[way] = time.perf_counter() - began
                for _ in range(40 if args.rounds else 4):  # automatic streams have been chosen then
                    step()
                sync()
        except Exception as error:
            print(f"{name} {phase}: {way} failed: {type(error).__name__}: {str(error)[:400]}", flush=True)
            continue
        steps[way] = step, out
        print(f"{name} {phase} {way}: first call {first[way]:.1f} s", flush=True)
    if args.values:
        wide = make(name, args).double()
        wide.config._experts_implementation = "eager"  # PyTorch's grouped products have no f64
        want = Step(wide, phase, "eager", args)().double()
        for way, (_, out) in steps.items():
            far = (out.double() - want).abs()
            print(f"    {way}: difference to f64 {far.max().item():.4g}, mean {far.mean().item():.4g}", flush=True)
        del wide
    times = {way: [] for way in steps}
    for _ in range(args.rounds):
        for way, (step, _) in steps.items():
            sync()
            began = time.perf_counter()
            for _ in range(5):
                step()
            issued = time.perf_counter()
            sync()
            times[way].append((1e3 * (time.perf_counter() - began) / 5, 1e3 * (issued - began) / 5))
    if args.rounds:
        medians = {way: statistics.median(t for t, _ in ts) for way, ts in times.items()}
        host = {way: statistics.median(h for _, h in ts) for way, ts in times.items()}
        others = [t for way, t in medians.items() if not way.startswith("weir")]
        text = "  ".join(f"{way} {t:.3f} (host {host[way]:.3f})" for way, t in medians.items())
        ours = [t for way, t in medians.items() if way.startswith("weir")]
        ratio = f"  weir / best {min(ours) / min(others):.2f}" if ours and others else ""
        print(f"{name} {phase}: {text}{ratio}", flush=True)
    if args.kernels:
        for way, (step, _) in steps.items():
            if way != "eager":
                kernels(step, way, args.kernels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--ways", default="eager,default,reduce-overhead,weir", type=lambda s: s.split(","))
    parser.add_argument("--phases", default=",".join(PHASES), type=lambda s: s.split(","))
    parser.add_argument("--small", action="store_true", help="sizes for a trial without a GPU")
    parser.add_argument("--kernels", type=int, default=0, metavar="N")
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--limit", type=int, default=0, metavar="SECONDS")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    args = parser.parse_args()
    if args.device.startswith("cuda"):
        weir.set_device(weir.Device("cuda:0"))
    torch._dynamo.config.recompile_limit = 64
    signal.signal(signal.SIGALRM, _too_long)
    with torch.no_grad():
        for name in args.models or MODELS:
            model = make(name, args)
            for phase in args.phases:
                measure(name, phase, args, model)
            del model


if __name__ == "__main__":
    main()
