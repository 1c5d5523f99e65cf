"""How attention of few queries is best cut on a GPU: parts of the keys, warps of a block, tiles under way.

    attention_cuts.py [--only PART] [--variants NAME,...] [--rounds N] [--all] [--check]

Every cut of src/cuda/kernels/product/attention_few.cu is compiled by NVRTC and runs as weir would start it: a CUDA graph of
CALLS launches of which each may begin while the one before ends. Cuts are shown as parts/warps/tiles with the median of rounds that
take turns, in microseconds a launch, the best first. cuDNN's time stands beside them where PyTorch is there. Variants change the
text. A variant without some step (the products, say) shows by the difference what that step costs. `--variants all` runs all,
`--check` runs each cut once on the fake GPU of tests/cuda, in small, and compares values.
"""

import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import statistics

import numpy

ROOT = pathlib.Path(__file__).parents[2]
KERNELS = ROOT / "src/cuda/kernels"
CALLS = 20
SHARED = 227 << 10  # of a block on Hopper
DIMS = 6

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
    "next late": ([("    if (WARPS == 8) /* there", "    if (WARPS == 9) /* there")], True),
    "next early": ([("    if (WARPS == 8) /* there", "    if (WARPS) /* there")], True),
    "no join": ([("V5 == 2 && is_last", "V5 == 9 && is_last")], False),
    "no products": ([("        take_tile(q, stages + stage", "        if (a.scale < 0)\n            take_tile(q, stages + stage")], False),
    "no fetch": ([("    if (left > 0)", "    if (left > 0 && a.scale < 0)")], False),
    "nothing": ([("        run_unit(a, u, memory);", "        if (a.scale < 0)\n            run_unit(a, u, memory);"),
                 ("V5 == 2 && is_last", "V5 == 9 && is_last")], False),
}  # fmt: skip


class Operand(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch", ctypes.c_int64 * DIMS)] + [
        (n, ctypes.c_int64) for n in ("head", "row", "col")
    ]


class Attention(ctypes.Structure):
    """struct weir__attention of src/ops/host/product/attention.h"""

    _fields_ = (
        [(n, Operand) for n in ("q", "k", "v", "mask")]
        + [("out", ctypes.c_void_p), ("dtype", ctypes.c_int), ("mask_dtype", ctypes.c_int)]
        + [("causal", ctypes.c_bool), ("rows_first", ctypes.c_bool), ("ndims", ctypes.c_int), ("shape", ctypes.c_int64 * DIMS)]
        + [(n, ctypes.c_int64) for n in ("heads", "key_heads", "lq", "lk", "d", "dv")]
        + [("scale", ctypes.c_double)]
        + [(n, ctypes.c_int64) for n in ("row_block", "key_block", "row_blocks", "splits")]
        + [("partial", ctypes.c_void_p), ("split_keys", ctypes.c_int64), ("few", ctypes.c_bool)]
    )


class Context(ctypes.Structure):
    """struct weir__code_context of src/device/code.h"""

    _fields_ = [(n, ctypes.c_void_p) for n in ("failures", "claims")] + [
        ("where", ctypes.c_uint64), ("run", ctypes.c_void_p), ("name", ctypes.c_void_p),
        ("stream", ctypes.c_void_p), ("phase", ctypes.c_uint32), ("cores", ctypes.c_uint32),
        ("counters", ctypes.c_void_p),
    ]  # fmt: skip


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint64 * 8)]


class Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)),
                ("nattributes", ctypes.c_uint)]  # fmt: skip


def _open(setting, names):
    for name in (os.environ.get(setting), *names):
        try:
            if name:
                return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit(f"none of {', '.join(names)} is here; {setting} may name one")


class Gpu:
    """The driver, by its own calls, with one stream."""

    def __init__(self):
        self.cu = _open("WEIR_LIBCUDA", ["libcuda.so.1"])
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxPushCurrent_v2", context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 1, 0)
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def call(self, name, *args):
        code = getattr(self.cu, name)(*args)
        if code:
            raise RuntimeError(f"{name} returns {code}")

    def sync(self):
        self.call("cuEventRecord", self.events[0], self.stream)
        self.call("cuEventSynchronize", self.events[0])

    def memory(self, size, value=0):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.call("cuMemsetD8Async", address, ctypes.c_ubyte(value), ctypes.c_size_t(size), self.stream)
        return address

    def free(self, address):
        self.call("cuMemFree_v2", address)

    def copy(self, address, array, back=False):
        """An array to an address, or back, through pinned memory."""
        pinned = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(array.nbytes), 3)
        ends = address, ctypes.c_uint64(pinned.value)
        if not back:
            ctypes.memmove(pinned, array.ctypes.data, array.nbytes)
        self.call("cuMemcpyAsync", *(ends[::-1] if back else ends), ctypes.c_size_t(array.nbytes), self.stream)
        self.sync()
        if back:
            ctypes.memmove(array.ctypes.data, pinned, array.nbytes)
        self.call("cuMemFreeHost", pinned)

    def load(self, image, shared):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"attention_few")
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, ctypes.c_int(shared))
        return function

    def launch(self, function, grid, threads, shared, args):
        early = Attribute(6, 0, (ctypes.c_uint64 * 8)(1))
        how = Launch((grid, 1, 1), (threads, 1, 1), shared, self.stream, ctypes.pointer(early), 1)
        params = (ctypes.c_void_p * len(args))(*(ctypes.addressof(a) for a in args))
        self.call("cuLaunchKernelEx", ctypes.byref(how), function, params, None)

    def graph(self, start):
        graph, made = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 2)
        for _ in range(CALLS):
            start()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_uint64(0))
        self.call("cuGraphDestroy", graph)
        return made

    def time(self, graph):
        took = ctypes.c_float()
        self.call("cuEventRecord", self.events[0], self.stream)
        self.call("cuGraphLaunch", graph, self.stream)
        self.call("cuEventRecord", self.events[1], self.stream)
        self.call("cuEventSynchronize", self.events[1])
        self.call("cuEventElapsedTime", ctypes.byref(took), *self.events)
        return 1e3 * took.value / CALLS


def headers():
    """(name, text) as cmake/embed_texts.cmake names them."""
    src, public = ROOT / "src", ROOT / "include"
    found = {p.name: p for e in ("cuh", "h") for p in KERNELS.rglob(f"*.{e}") if p.parent.name != "libc"}
    found |= {f"libc/{p.name}": p for p in KERNELS.rglob("libc/*.h")} | {p.name: p for p in KERNELS.rglob("libc/*.h")}
    more = [*(src / "ops/host").rglob("*.h"), src / "device/code.h", src / "comm/shown.h"]
    found |= {str(p.relative_to(src)): p for p in more}
    for p in (public / "weir").glob("*.h"):
        found[f"weir/{p.name}"] = found[p.name] = p
    return {name: path.read_text() for name, path in found.items()}


class Compiler:
    def __init__(self):
        self.rtc = _open("WEIR_LIBNVRTC", ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"])
        given = headers()
        self.names = (ctypes.c_char_p * len(given))(*(n.encode() for n in given))
        self.texts = (ctypes.c_char_p * len(given))(*(t.encode() for t in given.values()))
        self.text = (KERNELS / "product/attention_few.cu").read_text()

    def __call__(self, variant, defines):
        text, program, size = self.text, ctypes.c_void_p(), ctypes.c_size_t()
        for old, new in VARIANTS[variant][0]:
            if old not in text:
                raise RuntimeError(f"{variant}: the text has no '{old}'")
            text = text.replace(old, new)
        options = ["--gpu-architecture=sm_90a", "-default-device", "--std=c++17", "--disable-warnings", "--fmad=true"]
        options = [o.encode() for o in options + [f"-DV{i}={v}" for i, v in enumerate(defines)]]
        text = text.encode()  # which the program may read until it is compiled
        self.rtc.nvrtcCreateProgram(ctypes.byref(program), text, b"attention_few", len(self.names), self.texts, self.names)
        failed = self.rtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        get, length = ("ProgramLog", "ProgramLogSize") if failed else ("CUBIN", "CUBINSize")
        getattr(self.rtc, f"nvrtcGet{length}")(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        getattr(self.rtc, f"nvrtcGet{get}")(program, image)
        if failed:
            raise RuntimeError(f"{variant} {defines}: {image.value.decode()[:2000]}")
        return image


def steps(columns):
    return 2 * -(-columns // 32)


def stage_bytes(d, dv):
    return 16 * (32 * (steps(d) + steps(dv)) + 32)


def cuts_of(shape, every):
    """(parts, warps, stages)"""
    batch, _, key_heads, keys, d, dv = shape
    made = []
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
        a = Attention(out=self.at["out"].value, dtype=2, mask_dtype=8, ndims=1, heads=heads, key_heads=key_heads, lq=1,
                      lk=keys, d=d, dv=dv, scale=d**-0.5, splits=parts, partial=self.at["partial"].value)  # fmt: skip
        a.shape[0] = batch
        for name, h, rows, columns in (("q", heads, 1, d), ("k", key_heads, keys, d), ("v", key_heads, keys, dv)):
            operand = getattr(a, name)
            operand.data, operand.head, operand.row, operand.col = self.at[name].value, rows * columns, columns, 1
            operand.batch[0] = h * rows * columns
        return a, Context(cores=132, counters=self.at["counters"].value)

    def start(self, function, cut):
        parts, warps, stages = cut
        batch, _, key_heads, _, d, dv = self.shape
        args = self.args(parts)
        grid, shared = batch * key_heads * parts, warps * stages * stage_bytes(d, dv)
        return lambda: self.gpu.launch(function, grid, 32 * warps, shared, args)

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
    """Microseconds a call of PyTorch's fastest way, or None."""
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        batch, heads, key_heads, keys, d, dv = shape
        q, k, v = (torch.randn(batch, h, n, c, device="cuda", dtype=torch.bfloat16)
                   for h, n, c in ((heads, 1, d), (key_heads, keys, d), (key_heads, keys, dv)))  # fmt: skip
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            def call():
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=heads != key_heads)

            call()
            torch.cuda.synchronize()
            graph, took = torch.cuda.CUDAGraph(), []
            with torch.cuda.graph(graph):
                kept = [call() for _ in range(CALLS)]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(rounds + 3):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            took.append(1e3 * begin.elapsed_time(end) / CALLS)
        del kept
        return statistics.median(took[3:])
    except (ImportError, RuntimeError, AssertionError):
        return None


def defines(shape, cut):
    parts, warps, stages = cut
    return (2, 255, 0, steps(shape[4]), steps(shape[5]), 2 if parts > 1 else 0, warps, stages)


def times(gpu, starts, rounds):
    """Medians of rounds that take turns."""
    graphs, took = {key: gpu.graph(start) for key, start in starts.items()}, {key: [] for key in starts}
    for turn in range(rounds + 2):
        for key, graph in graphs.items():
            us = gpu.time(graph)
            if turn >= 2:
                took[key].append(us)
    for graph in graphs.values():
        gpu.call("cuGraphExecDestroy", graph)
    return {key: statistics.median(t) for key, t in took.items()}


def measure(gpu, name, shape, options, code):
    """All cuts of the first variant, and the best of them of the others. Whether a value was wrong."""
    case, medians, wrong = Case(gpu, shape), {}, 0
    want, cuts = case.wanted(), cuts_of(shape, options.all)
    size = sum(x.nbytes for n, x in case.values.items() if n != "q")
    print(f"{name}: {size / 1e6:.1f} MB, cuDNN {cudnn(shape, options.rounds) or 0:.2f} us", flush=True)
    for variant in options.variants:
        starts = {}
        for cut in cuts:
            shared = cut[1] * cut[2] * stage_bytes(*shape[4:])
            function = gpu.load(code[variant, defines(shape, cut)].result(), shared)
            starts[cut] = case.start(function, cut)
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
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--best", type=int, default=10, help="cuts of the first variant that the others run")
    parser.add_argument("--show", type=int, default=6, help="cuts of a line")
    parser.add_argument("--full", metavar="FILE", help="where all figures go")
    parser.add_argument("--all", action="store_true", help="cuts that are surely slow, too")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    shapes = {n: s for n, s in SHAPES.items() if options.only in n}
    if options.variants == ["all"]:
        options.variants = list(VARIANTS)
    if options.check:
        shapes = {n: (1, min(s[1], 4), min(s[2], 1), min(s[3], 256), *s[4:]) for n, s in shapes.items()}
    gpu, compiler = Gpu(), Compiler()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if not options.check else 1) as pool:
        wanted = {(v, defines(s, c)) for v in options.variants for s in shapes.values() for c in cuts_of(s, options.all)}
        code = {key: pool.submit(compiler, *key) for key in wanted}
        failed = [measure(gpu, name, shape, options, code) for name, shape in shapes.items()]
    raise SystemExit(any(failed))


if __name__ == "__main__":
    main()
