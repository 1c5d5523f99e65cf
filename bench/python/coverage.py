"""The share of each model's operators that weir runs, and the operators it does not run.

    python bench/python/coverage.py [--training] [--bfloat16] [MODEL ...]

Needs transformers and diffusers (`make test-models` installs them). Also compares values with
eager ones."""

import argparse
import collections
import logging
import warnings

import torch
import zoo

import weir


def made(name, dtype):
    module, inputs = zoo.make(name)
    return module.to(dtype), {
        n: x.to(dtype) if x.is_floating_point() else x for n, x in inputs.items()
    }


def forward(name, dtype):
    module, inputs = made(name, dtype)
    backend = weir.get_npu_backend()
    torch._dynamo.reset()
    with torch.no_grad():
        want = zoo.result(module(**inputs))
        got = zoo.result(torch.compile(module, backend=backend)(**inputs))
    return backend, float((got - want).abs().max())


def step(name, dtype):
    module, inputs = made(name, dtype)
    backend = weir.get_npu_backend()
    torch._dynamo.reset()
    zoo.result(torch.compile(module, backend=backend)(**inputs)).float().square().mean().backward()
    got = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
    module.zero_grad(set_to_none=True)
    zoo.result(module(**inputs)).float().square().mean().backward()
    # What a result that nobody uses is made of has no gradient eagerly, and zeros compiled.
    pairs = [(got[n], p.grad) for n, p in module.named_parameters() if n in got]
    return backend, max(float((a if b is None else a - b).abs().max()) for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--training", action="store_true", help="forward and backward")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(zoo.MODELS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rest, dtype = collections.Counter(), torch.bfloat16 if options.bfloat16 else torch.float32
    for name in options.models or zoo.MODELS:
        try:
            backend, difference = (step if options.training else forward)(name, dtype)
        except Exception as error:  # one model's failure does not hide the others
            text = (str(error).splitlines() or [""])[0]
            print(f"{name:16s} failed: {type(error).__name__}: {text[:120]}", flush=True)
            continue
        cover = backend.coverage
        total = cover.native.total() + cover.fallback.total()
        share = 100 * cover.native.total() / max(total, 1)
        print(f"{name:16s} {share:5.1f}% of {total:4d} operators, difference {difference:.1e}, "
              f"{len(backend.graphs)} graph(s)", flush=True)  # fmt: skip
        rest.update(cover.fallback)
    for name, count in rest.most_common():
        print(f"  {count:5d}  {name}")


if __name__ == "__main__":
    main()
