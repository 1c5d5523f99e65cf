"""How attention of f32 is best cut on a GPU: warps along rows and along keys, tiles under way, keys of a warp.

    attention_f32_cuts.py [--only PART] [--variants NAME,...] [--before FOLDER] [--rounds N] [--check]

As attention_cuts.py does for few queries: src/cuda/kernels/product/attention_wide.cu is compiled by NVRTC and runs as a CUDA graph
of launches. Cuts are shown as rows/keys/tiles/keys of a warp with the median of rounds that take turns, in microseconds a launch,
weir's own cut first, and the largest difference to f64 of some rows. Beside them stands PyTorch's memory-efficient kernel.
`--before FOLDER` has the sources of another version (src and include) with its cut. `--check` runs all once on the fake GPU of
tests/cuda, in small.
"""

import argparse
import concurrent.futures
import os
import pathlib

import numpy
from kernel_runs import SHARED, Attention, Compiler, Context, Gpu, operands, times, torchs

# name: batch, heads, rows, keys, d, dv, causal
SHAPES = {
    "f32 prefill 1024": (1, 16, 1024, 1024, 128, 128, True),
    "f32 d64 1024": (4, 12, 1024, 1024, 64, 64, False),
    "f32 d256 512": (1, 16, 512, 512, 256, 256, True),
    "f32 not causal 1024": (1, 16, 1024, 1024, 128, 128, False),
}
# (warps along rows, along keys, tiles under way, keys of a warp)
CUTS = [(4, 2, 1, 32), (4, 2, 2, 32), (4, 2, 1, 16), (4, 2, 2, 16), (4, 1, 1, 32), (4, 1, 2, 32), (2, 4, 1, 16), (2, 4, 2, 16),
        (2, 2, 1, 32), (2, 2, 2, 32), (8, 1, 1, 32)]  # fmt: skip
# name: [(old, new)]
VARIANTS = {
    "as it is": [],
    "in order": [("if (V2 && !JOINED) {", "if (false) {")],
    "8 at once": [("AT_ONCE = 4,", "AT_ONCE = COLUMNS % 64 ? 4 : 8,")],
    "8 steps": [("STEPS = 4,", "STEPS = DEPTH % 64 ? 4 : 8,")],
    "cut keys": [("most[i] = (x[i] + 0x1000u) & ~0x1fffu;", "most[i] = (n == 4 ? x[i] + 0x1000u : x[i]) & ~0x1fffu;")],
    "one block": [("BLOCKS = COLUMNS", "BLOCKS = 0 && COLUMNS")],
}


def steps(columns):
    return 2 * -(-columns // 32)


def shared_bytes(shape, cut):
    row_warps, key_warps, stages, keys = cut
    depth, columns = steps(shape[4]), steps(shape[5])
    tiles = stages * keys * key_warps * (64 * (depth + columns) + 32)
    shares = row_warps * key_warps * 16 * (64 * columns + 40) if key_warps > 1 else 0
    return max(16 * row_warps * (64 * depth + 16) + tiles, shares)


def own_cut(shape):
    """As src/ops/gpu/attention.c has it."""
    return next(c for c in ((4, 2, 2, 32), (4, 2, 1, 32)) if shared_bytes(shape, c) <= SHARED)


def cuts_of(shape, variant):
    if variant == "before":
        return [next(c for c in ((4, 1, 2, 32), (2, 1, 2, 32)) if shared_bytes(shape, c) <= SHARED)]
    own = own_cut(shape)
    fit = [c for c in CUTS if c != own and shared_bytes(shape, c) <= SHARED]
    return [own] + (fit if variant == "as it is" else [])


def defines(shape, cut, variant):
    row_warps, key_warps, stages, keys = cut
    how = 0 if variant == "before" else 2 * (stages > 1) + 4 * (keys == 32)
    return (0, 255, int(shape[6]), steps(shape[4]), steps(shape[5]), row_warps, key_warps, how)


class Case:
    """The operands of one shape in the GPU's memory."""

    def __init__(self, gpu, shape):
        self.shape, self.gpu = shape, gpu
        batch, heads, rows, keys, d, dv, _ = shape
        random = numpy.random.default_rng(0)
        sizes = {"q": (batch, heads, rows, d), "k": (batch, heads, keys, d), "v": (batch, heads, keys, dv)}
        self.values = {n: random.standard_normal(s).astype(numpy.float32) for n, s in sizes.items()}
        self.out = numpy.empty((batch, heads, rows, dv), numpy.float32)
        self.at = {n: gpu.memory(x.nbytes) for n, x in (self.values | {"out": self.out}).items()}
        for name, x in self.values.items():
            gpu.copy(self.at[name], x)
        self.rows = sorted({0, rows // 3, rows // 2 + 1, rows - 1})
        self.wanted = [self._want(i, h) for i, h in ((0, 0), (-1, -1))]

    def _want(self, i, h):
        rows, keys, d = self.shape[2:5]
        q, k, v = (self.values[n][i, h].astype(float) for n in "qkv")
        scores = q[self.rows] @ k.T * d**-0.5
        if self.shape[6]:
            scores[numpy.arange(keys) > numpy.array(self.rows)[:, None] + keys - rows] = -numpy.inf
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    def start(self, function, cut):
        batch, heads, rows, keys, d, dv, causal = self.shape
        views = operands((self.at["q"].value, (heads, rows, d)), (self.at["k"].value, (heads, keys, d)),
                         (self.at["v"].value, (heads, keys, dv)))  # fmt: skip
        a = Attention(out=self.at["out"].value, dtype=0, mask_dtype=8, causal=causal, ndims=1, heads=heads, key_heads=heads,
                      lq=rows, lk=keys, d=d, dv=dv, scale=d**-0.5, splits=1, **views)  # fmt: skip
        a.shape[0] = batch
        grid = min(batch * heads * -(-rows // (16 * cut[0])), 16 * 132)
        args, shared = (a, Context(cores=132)), shared_bytes(self.shape, cut)
        return lambda: self.gpu.launch(function, grid, 32 * cut[0] * cut[1], shared, args)

    def difference(self):
        self.gpu.copy(self.at["out"], self.out, back=True)
        found = [self.out[i, h][self.rows] for i, h in ((0, 0), (-1, -1))]
        return max(float(numpy.abs(f - w).max()) for f, w in zip(found, self.wanted))

    def torch(self, rounds):
        try:
            import torch

            q, k, v = (torch.from_numpy(self.values[n]).cuda() for n in "qkv")
        except (ImportError, RuntimeError, AssertionError):
            return 0
        return torchs(q, k, v, self.shape[6], "EFFICIENT_ATTENTION", rounds) or 0

    def free(self):
        for address in self.at.values():
            self.gpu.free(address)


def measure(gpu, name, shape, options, code):
    """Whether a value was wrong."""
    case, wrong, starts, away = Case(gpu, shape), 0, {}, {}
    for variant in options.variants:
        for cut in cuts_of(shape, variant):
            image = code[variant, defines(shape, cut, variant)].result()
            function = gpu.load(image, "attention_wide", shared_bytes(shape, cut))
            starts[variant, cut] = case.start(function, cut)
            starts[variant, cut]()
            away[variant, cut] = case.difference()
            if not away[variant, cut] < 1e-5:
                wrong += 1
                print(f"    WRONG: {variant} {cut}: {away[variant, cut]}", flush=True)
    took = {key: 0 for key in starts} if options.check else times(gpu, starts, options.rounds)
    theirs = 0 if options.check else case.torch(options.rounds)
    print(f"{name}: PyTorch's efficient kernel {theirs:.1f} us", flush=True)
    for (variant, cut), us in took.items():
        ratio = f"{us / theirs:.2f}" if theirs else "-"
        print(f"    {variant:10} {'/'.join(map(str, cut)):10} {us:7.1f} us {ratio:>5}  {away[variant, cut]:.1e}", flush=True)
    case.free()
    return wrong > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PART", help="shapes with PART in their name")
    parser.add_argument("--variants", default="all", type=lambda s: s.split(","))
    parser.add_argument("--before", type=pathlib.Path, metavar="FOLDER", help="another version's src and include")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    shapes = {n: s for n, s in SHAPES.items() if options.only in n}
    if options.variants == ["all"]:
        options.variants = list(VARIANTS)
    if options.check:
        shapes = {n: (1, 2, 150, 150, *s[4:]) for n, s in shapes.items()}
    compilers = dict.fromkeys(VARIANTS, Compiler("attention_wide", VARIANTS))
    if options.before:
        compilers["before"] = Compiler("attention_wide", {"before": []}, options.before)
        options.variants.append("before")
    gpu = Gpu()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if not options.check else 1) as pool:
        wanted = {(v, defines(s, c, v)) for v in options.variants for s in shapes.values() for c in cuts_of(s, v)}
        code = {key: pool.submit(compilers[key[0]], *key) for key in wanted}
        failed = [measure(gpu, name, shape, options, code) for name, shape in shapes.items()]
    raise SystemExit(any(failed))


if __name__ == "__main__":
    main()
