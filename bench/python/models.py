"""Whole models, beside PyTorch's own ways, and what a token costs as text grows.

    python bench/python/models.py [--threads N] [--rounds N] [--json] [MODEL ...]
    python bench/python/models.py --growth [--lengths 12,62,150,1000]

Each model of zoo.py runs eagerly, compiled by inductor (where there is a compiler for it) and by
weir, in one process, rounds taking turns; medians. `--growth` generates tokens with a cache that
grows and with one of fixed length, both compiled by weir. Weights are random. On a busy machine the
figures mean nothing.
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


def _llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=8192,
    )  # fmt: skip
    return config, LlamaForCausalLM(config).eval()


def _tokens(run, cache, start, count):
    """Milliseconds of each of some tokens behind `start`."""
    out = run(input_ids=torch.arange(start)[None] % 512, past_key_values=cache, use_cache=True)
    times = []
    for _ in range(count):
        token = out.logits[:, -1:].argmax(-1)
        began = time.perf_counter()
        out = run(input_ids=token, past_key_values=cache, use_cache=True)
        times.append(1e3 * (time.perf_counter() - began))
    return times[len(times) // 4 :]


def growth(lengths, count=24):
    from transformers import DynamicCache, StaticCache

    config, module = _llama()
    rows = []
    with torch.no_grad():
        growing = torch.compile(module, backend=weir.get_npu_backend(), dynamic=True)
        _tokens(growing, DynamicCache(config=config), 8, 4)
        for length in lengths:
            fixed = torch.compile(_llama()[1], backend=weir.get_npu_backend())
            ways = {
                "growing": lambda: _tokens(growing, DynamicCache(config=config), length, count),
                "fixed": lambda: _tokens(
                    fixed, StaticCache(config=config, max_cache_len=length + count), length, count
                ),
                "eager": lambda: _tokens(module, DynamicCache(config=config), length, count),
            }
            medians = {way: statistics.median(run() + run()) for way, run in ways.items()}
            rows.append({"tokens": length, **medians})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--lengths", default="12,62,150,1000")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(zoo.MODELS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.growth:
        rows = growth([int(n) for n in options.lengths.split(",")])
    else:
        rows = [{"model": m, **compare(m, options.rounds)} for m in options.models or zoo.MODELS]
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    for row in rows:
        print("  ".join(f"{k} {v:.2f} ms" if isinstance(v, float) else f"{v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
