"""transformers' models on the host: eager, inductor and weir, in one process, rounds taking turns.

    host_models.py [--threads N] [--rounds N] [--size tiny|small] [--ways eager,inductor,weir,weir-streams]
                   [--phases prefill,decode] [--values] [--launches] [--cpu-time] [--urgent] [MODEL ...]
    host_models.py --predict          one stream and automatic ones on npu:a3, in its own time

Prefill is 64 tokens; decode is one token with a static cache of 128. Weights are random, in float32.
Each round runs every way once, in turn; figures are medians of milliseconds a step, and medians of
the ratios of each round, which other work on the machine disturbs less. With several threads each way first
waits until those of the one before have gone to sleep, and runs a step that is not measured. `--values` compares with the
model in float64, `--launches` counts what a step launches, `--cpu-time` measures what the process
uses of the cores, not the time that passes; use it with one thread on a busy machine.
`--urgent` gives all threads a real-time priority for the seconds that are measured, so that other
work on the machine waits (root alone may), and shows both times.
"""

import argparse
import gc
import os
import pathlib
import statistics
import time
import warnings

import torch
import transformers

import weir

_LATENT = dict(n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1,
               n_group=2, topk_group=1)  # fmt: skip


def _sizes(size):
    """hidden size, layers, tokens of a prompt."""
    return {"tiny": (64, 2, 16), "small": (256, 4, 64), "medium": (512, 4, 128)}[size]


def _settings(name, hidden, layers):
    """(kind of model, its settings)."""
    common = dict(vocab_size=1024, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=8,
                  max_position_embeddings=4096)  # fmt: skip
    grouped = dict(common, intermediate_size=hidden * 11 // 4, num_key_value_heads=4)
    return {
        "llama": ("Llama", grouped),
        "qwen2-moe": ("Qwen2Moe", dict(
            grouped, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=hidden,
            shared_expert_intermediate_size=hidden * 2)),
        "deepseek-v3": ("DeepseekV3", dict(
            common, **_LATENT, intermediate_size=hidden * 2, moe_intermediate_size=hidden,
            num_key_value_heads=8, q_lora_rank=hidden // 2, kv_lora_rank=hidden // 4,
            qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32)),
        "gpt2": ("GPT2", dict(vocab_size=1024, n_embd=hidden, n_layer=layers, n_head=8, n_positions=4096)),
        "bert": ("Bert", dict(common, intermediate_size=hidden * 4)),
        "resnet-18": ("ResNet", dict(
            layer_type="basic", depths=[2, 2, 2, 2], embedding_size=hidden // 8,
            hidden_sizes=[hidden // 8, hidden // 4, hidden // 2, hidden])),
    }[name]  # fmt: skip


MODELS = ["llama", "qwen2-moe", "deepseek-v3", "gpt2", "bert", "resnet-18"]
_WITHOUT_TEXT = {"bert": "BertModel", "resnet-18": "ResNetModel"}
WAYS = ["eager", "inductor", "weir", "weir-streams"]


def make(name, size):
    hidden, layers, _ = _sizes(size)
    kind, settings = _settings(name, hidden, layers)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**settings)
    model = _WITHOUT_TEXT.get(name) or f"{kind}" + ("LMHeadModel" if kind == "GPT2" else "ForCausalLM")
    return getattr(transformers, model)(config).eval()


def phases_of(name):
    return ["prefill"] if name in _WITHOUT_TEXT else ["prefill", "decode"]


def compiled(model, way):
    """(what to call, weir's backend if it is that)."""
    if way == "eager":
        return model, None
    if way == "inductor":
        return torch.compile(model, dynamic=False), None
    config = weir.CompilerConfig()
    config.auto_streams = way == "weir-streams"
    backend = weir.get_npu_backend(compiler_config=config)
    return torch.compile(model, backend=backend, dynamic=False), backend


class Step:
    """One step of a model, one way, with a cache of its own."""

    ROOM, START = 128, 64

    def __init__(self, model, name, phase, way, size):
        _, _, tokens = _sizes(size)
        self.cache = None
        if name == "resnet-18":
            self.inputs = dict(pixel_values=torch.randn(1, 3, tokens, tokens))
        else:
            count = tokens if phase == "prefill" else 1
            self.inputs = dict(input_ids=torch.arange(count)[None] * 7 % 1024)
            if name != "bert":
                self.inputs["use_cache"] = phase == "decode"
        if phase == "decode":
            self.cache = transformers.StaticCache(config=model.config, max_cache_len=self.ROOM)
            prompt = torch.arange(self.START)[None]
            model(input_ids=prompt, past_key_values=self.cache, use_cache=True)
            self.inputs["past_key_values"] = self.cache
            self.at = self.START
        self.run, self.backend = compiled(model, way)

    def __call__(self):
        if self.cache is not None:
            if self.at == self.ROOM:
                self.at = self.START
                for layer in self.cache.layers:
                    layer.cumulative_length.fill_(self.at)
            self.at += 1
        out = self.run(**self.inputs)
        return out.logits if hasattr(out, "logits") else out.last_hidden_state

    def launches(self):
        plans = [p for g in self.backend.graphs for made in g.plans.values() for p in _plans(made)]
        return " + ".join(str(p.stats()["launches"]) for p in plans)

    def streams(self):
        """Whether automatic streams stayed."""
        made = [m for g in self.backend.graphs for m in g.plans.values()]
        return any(getattr(m, "several", False) for m in made)


def _plans(made):
    made = getattr(made, "chosen", None) or made
    made = getattr(made, "plan", made) if not hasattr(made, "plans") else made
    return getattr(made, "plans", ())


# PyTorch's second thread looks for work for milliseconds after a step: it would run beside the next
# way's step and count as its processor time.
SETTLE_S = 0.02


def _urgent(on):
    """Every thread of the process before all others, or as usual again."""
    for task in pathlib.Path("/proc/self/task").iterdir():
        policy = os.SCHED_RR if on else os.SCHED_OTHER
        os.sched_setscheduler(int(task.name), policy, os.sched_param(1 if on else 0))


def _rounds(steps, count, settle):
    """[(passed, processor time)] of each way's steps in ms, taking turns."""
    times = {way: [] for way in steps}
    for _ in range(count):
        for way, step in steps.items():
            if settle:
                time.sleep(SETTLE_S)
                step()
            passed, used = time.perf_counter(), time.process_time()
            step()
            used = time.process_time() - used
            times[way].append((1e3 * (time.perf_counter() - passed), 1e3 * used))
    return times


def _row(times):
    text = "  ".join(f"{way} {statistics.median(t):8.3f}" for way, t in times.items())
    for a, b in (("weir", "inductor"), ("weir", "eager"), ("weir-streams", "weir")):
        if a in times and b in times:
            text += f"  {a}/{b} {statistics.median(x / y for x, y in zip(times[a], times[b])):.2f}"
    return text


def measure(name, phase, args):
    torch._dynamo.reset()
    steps, first, outs = {}, {}, {}
    model = make(name, args.size)
    for way in args.ways:
        torch.manual_seed(1)
        step = Step(model, name, phase, way, args.size)
        began = time.perf_counter()
        outs[way] = step().clone()
        first[way] = time.perf_counter() - began
        for _ in range(24):
            step()
        steps[way] = step
    gc.collect()
    if args.urgent:
        _urgent(True)
    times = _rounds(steps, args.rounds, args.threads > 1)
    if args.urgent:
        _urgent(False)
    passed, used = ({way: [t[i] for t in ts] for way, ts in times.items()} for i in (0, 1))
    print(f"{name:12} {phase:8} {_row(used if args.cpu_time else passed)}", flush=True)
    if args.urgent:
        print(f"{'':4}processor time:  {_row(used)}", flush=True)
    print(" " * 22 + "first call " + "  ".join(f"{w} {t:.2f} s" for w, t in first.items()), flush=True)
    if args.launches:
        for way, step in steps.items():
            if step.backend:
                print(f"{'':22}{way}: {step.launches()} launches"
                      + (", several streams" if step.streams() else ""), flush=True)  # fmt: skip
    if args.values:
        wide = make(name, args.size).double()
        if hasattr(wide, "set_experts_implementation"):
            wide.set_experts_implementation("eager")  # the grouped product has no float64
        torch.manual_seed(1)
        exact = Step(wide, name, phase, "eager", args.size)
        if "pixel_values" in exact.inputs:
            exact.inputs = {n: x.double() for n, x in exact.inputs.items()}
        want = exact()
        text = "  ".join(f"{w} {(o.double() - want).abs().max().item():.3g}" for w, o in outs.items())
        print(f"{'':22}max difference to float64: {text}", flush=True)


def predict(args):
    """Virtual time of a step on npu:a3, on one stream and on those the compiler chooses."""
    print("predicted on npu:a3, microseconds a step: one stream, automatic streams")
    for name in args.models or MODELS:
        for phase in phases_of(name):
            took, streams = {}, 0
            for way in ("weir", "weir-streams"):
                weir.set_device("npu:a3")
                torch._dynamo.reset()
                torch.manual_seed(1)
                step = Step(make(name, args.size), name, phase, way, args.size)
                for _ in range(3):
                    step()
                with weir.trace() as trace:
                    step()
                ops = trace.ops
                took[way] = max(o["end_us"] for o in ops) - min(o["start_us"] for o in ops)
                streams = len({o["stream"] for o in ops})
            print(f"{name:12} {phase:8} {took['weir']:9.1f} {took['weir-streams']:9.1f}"
                  f"  gain {took['weir'] / took['weir-streams']:.2f}  {streams} streams", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--size", default="small", choices=["tiny", "small", "medium"])
    parser.add_argument("--ways", default="eager,inductor,weir", type=lambda s: s.split(","))
    parser.add_argument("--phases", default="prefill,decode", type=lambda s: s.split(","))
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--urgent", action="store_true")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch._dynamo.config.recompile_limit = 64
    torch.set_num_threads(args.threads)
    with torch.no_grad():
        if args.predict:
            predict(args)
            return
        weir.set_device(f"cpu:cores={args.threads}")
        for name in args.models or MODELS:
            for phase in phases_of(name):
                if phase in args.phases:
                    measure(name, phase, args)


if __name__ == "__main__":
    main()
