"""Attention kernels of src/cuda/kernels without weir, for the programs beside this one: sources or variants of their text are
compiled by NVRTC and started by the driver's own calls, many launches as one CUDA graph."""

import ctypes
import os
import pathlib
import statistics

ROOT = pathlib.Path(__file__).parents[2]
CALLS = 20  # launches of a graph
SHARED = 227 << 10  # of a block on Hopper
DIMS = 6


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

    def load(self, image, name, shared):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, ctypes.c_int(shared))
        return function

    def launch(self, function, grid, threads, shared, args, cluster=1):
        early = Attribute(6, 0, (ctypes.c_uint64 * 8)(1))
        blocks = Attribute(4, 0, (ctypes.c_uint64 * 8)(cluster | 1 << 32, 1))
        attributes = (Attribute * 2)(early, blocks)
        how = Launch((grid, 1, 1), (threads, 1, 1), shared, self.stream, attributes, 1 + (cluster > 1))
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


def headers(root):
    """(name, text) as cmake/embed_texts.cmake names them."""
    src, public, kernels = root / "src", root / "include", root / "src/cuda/kernels"
    found = {p.name: p for e in ("cuh", "h") for p in kernels.rglob(f"*.{e}") if p.parent.name != "libc"}
    found |= {f"libc/{p.name}": p for p in kernels.rglob("libc/*.h")} | {p.name: p for p in kernels.rglob("libc/*.h")}
    more = [*(src / "ops/host").rglob("*.h"), src / "device/code.h", src / "comm/shown.h"]
    found |= {str(p.relative_to(src)): p for p in more}
    for p in (public / "weir").glob("*.h"):
        found[f"weir/{p.name}"] = found[p.name] = p
    return {name: path.read_text() for name, path in found.items()}


class Compiler:
    """A kernel of the sources in `root`, with its variants: {name: [(old, new)]}, in the kernel's text or a header's."""

    def __init__(self, name, variants, root=ROOT):
        self.rtc = _open("WEIR_LIBNVRTC", ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"])
        self.name, self.texts = name, {}
        given = headers(root) | {"": (root / "src/cuda/kernels/product" / f"{name}.cu").read_text()}
        for variant, changes in variants.items():
            texts = dict(given)
            for old, new in changes:
                holders = [n for n, text in texts.items() if old in text]
                if not holders:
                    raise RuntimeError(f"{variant}: no text has '{old}'")
                texts |= {n: texts[n].replace(old, new) for n in holders}
            text = texts.pop("").encode()
            names = (ctypes.c_char_p * len(texts))(*(n.encode() for n in texts))
            self.texts[variant] = text, names, (ctypes.c_char_p * len(texts))(*(t.encode() for t in texts.values()))

    def __call__(self, variant, defines):
        text, names, texts = self.texts[variant]
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = ["--gpu-architecture=sm_90a", "-default-device", "--std=c++17", "--disable-warnings", "--fmad=true"]
        options = [o.encode() for o in options + [f"-DV{i}={v}" for i, v in enumerate(defines)]]
        self.rtc.nvrtcCreateProgram(ctypes.byref(program), text, self.name.encode(), len(names), texts, names)
        failed = self.rtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        get, length = ("ProgramLog", "ProgramLogSize") if failed else ("CUBIN", "CUBINSize")
        getattr(self.rtc, f"nvrtcGet{length}")(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        getattr(self.rtc, f"nvrtcGet{get}")(program, image)
        if failed:
            raise RuntimeError(f"{variant} {defines}: {image.value.decode()[:2000]}")
        return image


def operands(q, k, v):
    """struct weir__attention's views of three packed operands (heads, rows, columns), at these addresses."""
    made = []
    for address, (heads, rows, columns) in (q, k, v):
        operand = Operand(data=address, head=rows * columns, row=columns, col=1)
        operand.batch[0] = heads * rows * columns
        made.append(operand)
    return dict(zip("qkv", made))


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


def torchs(q, k, v, causal, backend, rounds):
    """Microseconds a call of one of PyTorch's ways on tensors of the GPU, or None."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    try:
        with sdpa_kernel([getattr(SDPBackend, backend)]):

            def call():
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
                )

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
    except RuntimeError:
        return None
