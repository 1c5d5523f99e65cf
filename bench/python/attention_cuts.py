"""How attention of few queries is best cut on a GPU: parts of the keys, warps of a block, tiles under way.

    attention_cuts.py [--only PART] [--variants NAME,...] [--before FOLDER] [--cuts CUT,...] [--rounds N] [--all] [--check]

Every cut of src/cuda/kernels/product/attention_few.cu is compiled by NVRTC and runs as weir would start it: a CUDA graph of
CALLS launches of which each may begin while the one before ends. Cuts are shown as parts/warps/tiles with the median of rounds that
take turns, in microseconds a launch, the best first. cuDNN's time stands beside them where PyTorch is there. Variants change the
text. A variant without some step (the products, say) shows by the difference what that step costs. `--variants all` runs all.
Parts are combined within a cluster where weir would do so; `counted` never does. `--before FOLDER` has the sources of another
version (src and include), whose parts are counted. `--check` runs each cut once on the fake GPU of tests/cuda, in small, and compares
values.
"""

import argparse
import concurrent.futures
import os
import pathlib

import numpy
from kernel_runs import SHARED, Attention, Compiler, Context, Gpu, operands, times, torchs

# name: batch, heads, key heads, keys, d, dv
SHAPES = {
    "8 x 128, 16 heads": (8, 16, 16, 128, 128, 128),
    "8 x 128, 32 heads": (8, 32, 32, 128, 128, 128),
    "8 x 1024, 32 of 8": (8, 32, 8, 1024, 128, 128),
    "8 x 4096, 32 of 8": (8, 32, 8, 4096, 128, 128),
    "8 x 16384, 32 of 8": (8, 32, 8, 16384, 128, 128),
    "8 x 1024, 32 heads": (8, 32, 32, 1024, 128, 128),
    "1 x 4096, 32 of 8": (1, 32, 8, 4096, 128, 128),
    "8 x 4096, 192 and 128": (8, 16, 16, 4096, 192, 128),
}
# name: [(old, new)], and whether values stay right
VARIANTS = {
    "as it is": ([], True),
    "counted": ([], True),
    "whole fence": ([("__CUDACC_VER_MINOR__ >= 1208", "__CUDACC_VER_MINOR__ >= 9908")], True),
    "next late": ([("    if (WARPS == 8) /* no", "    if (WARPS == 9) /* no")], True),
    "next early": ([("    if (WARPS == 8) /* no", "    if (WARPS) /* no")], True),
    "no join": ([("        if (CLUSTER > 1) {", "        if (CLUSTER > 99) {")], False),
    "no products": ([("        take_tile(q, stages + stage", "        if (a.scale < 0)\n            take_tile(q, stages + stage")], False),
    "no fetch": ([("    if (left > 0)", "    if (left > 0 && a.scale < 0)")], False),
    "nothing": ([("        run_unit(a, u, memory);", "        if (a.scale < 0)\n            run_unit(a, u, memory);"),
                 ("        if (CLUSTER > 1) {", "        if (CLUSTER > 99) {")], False),
}  # fmt: skip


def steps(columns):
    return 2 * -(-columns // 32)


def stage_bytes(d, dv):
    return 16 * (32 * (steps(d) + steps(dv)) + 32)


def cuts(text):
    return [tuple(map(int, cut.split("/"))) for cut in text.split(",")]


def cuts_of(shape, options):
    """(parts, warps, stages)"""
    batch, _, key_heads, keys, d, dv = shape
    every, made = options.all, []
    if options.cuts:
        return [c for c in options.cuts if c[1] * c[2] * stage_bytes(d, dv) + 16 <= SHARED]
    for warps in (1, 2, 4, 8):
        for stages in (2, 3, 4, 6):
            if warps * stages * stage_bytes(d, dv) + 16 > SHARED:
                continue
            at_once = min(32 // warps, SHARED // (warps * stages * stage_bytes(d, dv) + 1024))
            for parts in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 33, 48, 64):
                blocks = batch * key_heads * parts
                if parts > 1 and keys < parts * warps * 16:
                    continue
                if not every and (blocks > 6 * 132 * at_once or (blocks < 64 and keys > parts * warps * 16)):
                    continue
                if not every and (warps == 1 or stages > 4) and blocks * warps > 132 * 16:
                    continue
                made.append((parts, warps, stages))
    return made


class Case:
    """The operands of one shape in the GPU's memory."""

    def __init__(self, gpu, shape):
        batch, heads, key_heads, keys, d, dv = self.shape = shape
        self.gpu, random = gpu, numpy.random.default_rng(0)
        sizes = dict(q=(batch, heads, 1, d), k=(batch, key_heads, keys, d), v=(batch, key_heads, keys, dv))
        # Either sign, an eighth to two.
        self.values = {n: random.integers(0, 1 << 16, s, numpy.uint16) & 0x81FF | 0x3E00 for n, s in sizes.items()}
        self.at = {n: gpu.memory(x.nbytes) for n, x in self.values.items()}
        for name, x in self.values.items():
            gpu.copy(self.at[name], x)
        self.out_size = batch * heads * dv * 2
        self.at["out"] = gpu.memory(self.out_size)
        self.at["partial"] = gpu.memory(64 * batch * heads * (dv + 2) * 4)
        self.at["counters"] = gpu.memory(4 * 2048)
        gpu.sync()

    def args(self, parts):
        batch, heads, key_heads, keys, d, dv = self.shape
        views = operands((self.at["q"].value, (heads, 1, d)), (self.at["k"].value, (key_heads, keys, d)),
                         (self.at["v"].value, (key_heads, keys, dv)))  # fmt: skip
        a = Attention(out=self.at["out"].value, dtype=2, mask_dtype=8, ndims=1, heads=heads, key_heads=key_heads, lq=1,
                      lk=keys, d=d, dv=dv, scale=d**-0.5, splits=parts, partial=self.at["partial"].value, **views)  # fmt: skip
        a.shape[0] = batch
        return a, Context(cores=132, counters=self.at["counters"].value)

    def start(self, function, cut, variant):
        parts, warps, _ = cut
        batch, _, key_heads, _, _, _ = self.shape
        args, cluster = self.args(parts), cluster_of(self.shape, cut, variant)
        grid, shared = batch * key_heads * parts, shared_bytes(self.shape, cut)
        return lambda: self.gpu.launch(function, grid, 32 * warps, shared, args, cluster)

    def wanted(self):
        """Of the first sequence and the last."""
        made = []
        for i in (0, -1):
            q, k, v = ((self.values[n][i].astype(numpy.uint32) << 16).view(numpy.float32).astype(float) for n in "qkv")
            scores = q.reshape(k.shape[0], -1, q.shape[-1]) @ k.swapaxes(1, 2) * self.shape[4] ** -0.5
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            made.append((weights / weights.sum(-1, keepdims=True) @ v).reshape(-1))
        return made

    def difference(self, want):
        got = numpy.empty((self.shape[0], self.out_size // 2 // self.shape[0]), numpy.uint16)
        self.gpu.copy(self.at["out"], got, back=True)
        got = (got.astype(numpy.uint32) << 16).view(numpy.float32)
        return max(float(numpy.abs(got[i] - w).max()) for i, w in zip((0, -1), want))

    def free(self):
        for address in self.at.values():
            self.gpu.free(address)


def cudnn(shape, rounds):
    """Microseconds a call of cuDNN's, or None."""
    try:
        import torch

        batch, heads, key_heads, keys, d, dv = shape
        q, k, v = (torch.randn(batch, h, n, c, device="cuda", dtype=torch.bfloat16)
                   for h, n, c in ((heads, 1, d), (key_heads, keys, d), (key_heads, keys, dv)))  # fmt: skip
    except (ImportError, RuntimeError, AssertionError):
        return None
    return torchs(q, k, v, False, "CUDNN_ATTENTION", rounds)


def cluster_of(shape, cut, variant):
    """Blocks of a cluster, as src/ops/gpu/attention.c has them."""
    parts, blocks = cut[0], shape[0] * shape[2] * cut[0]
    fits = parts == 2 or (1 < parts <= 8 and blocks <= 132 * 3 // 4)
    return parts if fits and variant not in ("before", "counted") else 1


def shared_bytes(shape, cut):
    _, warps, stages = cut
    row = 64 * steps(shape[5])
    return max(warps * stages * stage_bytes(*shape[4:]), 16 * (warps * (row + 40) + row + 8))


def defines(shape, cut, variant):
    parts, warps, stages = cut
    cluster = cluster_of(shape, cut, variant)
    return (2, 255, 0, steps(shape[4]), steps(shape[5]), 1 + cluster if cluster > 1 else 2 * (parts > 1), warps, stages)


def measure(gpu, name, shape, options, code):
    """All cuts of the first variant, and the best of them of the others. Whether a value was wrong."""
    case, medians, wrong = Case(gpu, shape), {}, 0
    want, cuts = case.wanted(), cuts_of(shape, options)
    size = sum(x.nbytes for n, x in case.values.items() if n != "q")
    print(f"{name}: {size / 1e6:.1f} MB, cuDNN {cudnn(shape, options.rounds) or 0:.2f} us", flush=True)
    for variant in options.variants:
        starts = {}
        for cut in cuts:
            image = code[variant, defines(shape, cut, variant)].result()
            function = gpu.load(image, "attention_few", shared_bytes(shape, cut))
            starts[cut] = case.start(function, cut, variant)
            starts[cut]()
            away = case.difference(want)
            if VARIANTS[variant][1] and not away < 0.02:
                wrong += 1
                print(f"    WRONG: {variant} {cut}: {away}", flush=True)
        if options.check:
            continue
        medians[variant] = times(gpu, starts, options.rounds)
        best = sorted((us, cut) for cut, us in medians[variant].items())
        if len(medians) == 1:
            cuts = [cut for _, cut in best[: options.best]] + [c for _, c in best[options.best :] if c[0] == 1][:2]
        line = "  ".join(f"{'/'.join(map(str, cut))} {us:.2f}" for us, cut in best[: options.show])
        print(f"    {variant:15} {size / best[0][0] / 1e6:.2f} TB/s  {line}", flush=True)
    for variant, figures in medians.items() if options.full else ():
        with open(options.full, "a") as file:
            for cut, us in figures.items():
                print(name, variant, *cut, f"{us:.2f}", sep="\t", file=file)
    case.free()
    return wrong > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PART", help="shapes with PART in their name")
    parser.add_argument("--variants", default="as it is", type=lambda s: s.split(","))
    parser.add_argument("--before", type=pathlib.Path, metavar="FOLDER", help="another version's src and include")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--best", type=int, default=10, help="cuts of the first variant that the others run")
    parser.add_argument("--show", type=int, default=6, help="cuts of a line")
    parser.add_argument("--full", metavar="FILE", help="where all figures go")
    parser.add_argument("--cuts", type=cuts, metavar="PARTS/WARPS/TILES,...", help="these cuts alone")
    parser.add_argument("--all", action="store_true", help="cuts that are surely slow, too")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    shapes = {n: s for n, s in SHAPES.items() if options.only in n}
    if options.variants == ["all"]:
        options.variants = list(VARIANTS)
    if options.check:
        shapes = {n: (1, min(s[1], 4), min(s[2], 1), min(s[3], 256), *s[4:]) for n, s in shapes.items()}
    compilers = dict.fromkeys(VARIANTS, Compiler("attention_few", {n: v[0] for n, v in VARIANTS.items()}))
    if options.before:
        compilers["before"] = Compiler("attention_few", {"before": []}, options.before)
        VARIANTS["before"] = ([], True)
        options.variants.append("before")
    gpu = Gpu()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if not options.check else 1) as pool:
        wanted = {(v, defines(s, c, v)) for v in options.variants for s in shapes.values() for c in cuts_of(s, options)}
        code = {key: pool.submit(compilers[key[0]], *key) for key in wanted}
        failed = [measure(gpu, name, shape, options, code) for name, shape in shapes.items()]
    raise SystemExit(any(failed))


if __name__ == "__main__":
    main()
