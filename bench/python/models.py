"""Whole models, beside PyTorch's own ways, and the cost of a token as text grows.

    python bench/python/models.py [--threads N] [--rounds N] [--json] [MODEL ...]
    python bench/python/models.py --growth [--lengths 12,62,150,1000] [--count N] [--cpu-time]
                                  [--device cuda] [--large]

Each model of zoo.py runs eagerly, compiled by inductor (where there is a compiler for it) and by
weir, in one process, rounds taking turns; medians. `--growth` generates tokens with a cache that
grows and with one of fixed length, both compiled by weir; with small layers in f32, or on a GPU and
with --large with layers of 4096 in bf16; each token is waited for. Weights are random. `--threads` is
for PyTorch and weir. On a busy machine the figures mean nothing, but for those of --cpu-time.
"""

import argparse
import json
import statistics
import time

import torch
import zoo

import weir


def _compiled(module, backend, **options):
    torch._dynamo.reset_code_caches() if hasattr(torch._dynamo, "reset_code_caches") else None
    return torch.compile(module, backend=backend, **options)


def _ways(name):
    module, inputs = zoo.make(name)
    yield "eager", lambda: module(**inputs)
    for way, backend in (("inductor", "inductor"), ("weir", weir.get_npu_backend())):
        run = _compiled(zoo.make(name)[0], backend)
        try:
            run(**inputs)
        except Exception as error:  # no compiler, say
            print(f"{name}: {way} is left out: {str(error).splitlines()[0][:90]}")
            continue
        yield way, lambda run=run: run(**inputs)


def compare(name, rounds):
    """Median milliseconds by way."""
    with torch.no_grad():
        ways = dict(_ways(name))
        times = {way: [] for way in ways}
        for _ in range(rounds):
            for way, run in ways.items():
                began = time.perf_counter()
                run()
                times[way].append(1e3 * (time.perf_counter() - began))
    return {way: statistics.median(t) for way, t in times.items()}


# ---- text that grows ----


_SMALL = dict(hidden_size=256, intermediate_size=688, num_attention_heads=8, num_key_value_heads=4)
_LARGE = dict(hidden_size=4096, intermediate_size=11008, num_attention_heads=32, num_key_value_heads=32)


def _llama(device, large):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes, dtype = (_LARGE, torch.bfloat16) if large else (_SMALL, torch.float32)
    config = LlamaConfig(
        vocab_size=512, num_hidden_layers=4, max_position_embeddings=8192, **sizes
    )
    with torch.device(device):
        return config, LlamaForCausalLM(config).to(dtype).eval()


class _Text:
    """A text that grows by a token at each step."""

    def __init__(self, run, cache, start, clock, device):
        self.run, self.cache, self.clock, self.times = run, cache, clock, []
        self.out = self._feed(torch.arange(start, device=device)[None] % 512)

    def _feed(self, tokens):
        return self.run(input_ids=tokens, past_key_values=self.cache, use_cache=True)

    def step(self):
        token = self.out.logits[:, -1:].argmax(-1)
        token.tolist()  # as a loop that looks for the end of the text does
        began = self.clock()
        self.out = self._feed(token)
        self.out.logits[0, 0, 0].item()
        self.times.append(1e3 * (self.clock() - began))


def growth(lengths, count, clock, device, large):
    """Milliseconds of a token behind texts of these lengths, and of the whole text: with a cache that
    grows and one of fixed length, both compiled by weir, and with PyTorch's own kernels."""
    from transformers import DynamicCache, StaticCache

    # The fixed one is to be fixed: nothing that another length has made dynamic.
    torch._dynamo.config.automatic_dynamic_shapes = False
    torch._dynamo.config.recompile_limit = 64
    config, module = _llama(device, large)
    rows = []

    def begin(run, cache, length):
        return _Text(run, cache, length, clock, device)

    with torch.no_grad():
        growing = torch.compile(module, backend=weir.get_npu_backend(), dynamic=True)
        begin(growing, DynamicCache(config=config), 8).step()
        for length in lengths:
            fixed = torch.compile(module, backend=weir.get_npu_backend(), dynamic=False)
            longest = length + count + 1
            texts = {
                "growing": begin(growing, DynamicCache(config=config), length),
                "fixed": begin(fixed, StaticCache(config=config, max_cache_len=longest), length),
                "eager": begin(module, DynamicCache(config=config), length),
            }
            for _ in range(count):
                for text in texts.values():
                    text.step()
            row = {way: statistics.median(text.times[2:]) for way, text in texts.items()}
            row |= {f"{way} whole": sum(text.times[1:]) for way, text in texts.items()}
            rows.append({"tokens": length, **row})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--lengths", default="12,62,150,1000")
    parser.add_argument("--count", type=int, default=40, help="tokens behind each length")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, on a busy machine")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of --growth")
    parser.add_argument("--large", action="store_true", help="--growth with layers of 4096 in bf16")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(zoo.MODELS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    on_gpu = options.device == "cuda"
    weir.set_device(weir.Device("cuda:0") if on_gpu else f"cpu:cores={options.threads}")
    if options.growth:
        clock = time.process_time if options.cpu_time else time.perf_counter
        lengths = [int(n) for n in options.lengths.split(",")]
        rows = growth(lengths, options.count, clock, options.device, on_gpu or options.large)
    else:
        rows = [{"model": m, **compare(m, options.rounds)} for m in options.models or zoo.MODELS]
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    for row in rows:
        print("  ".join(f"{k} {v:.2f} ms" if isinstance(v, float) else f"{v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
