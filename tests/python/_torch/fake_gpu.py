"""Compiled graphs on the fake GPU (tests/cuda/fake), whose memory is the host's: PyTorch's tensors are
the host's over memory of that GPU, so a graph is lowered for cuda and run by the sources of weir's
kernels.

    python tests/python/_torch/fake_gpu.py [part of a case's name ...]      runs cases of test_lowerings.py
    ... 20 100      attention of these head sizes

WEIR_LIBCUDA, WEIR_LIBNVRTC and WEIR_LIBCUBLASLT name build/release/tests/libfake_cuda.so.
"""

import ctypes
import sys
import time

import stand_in
import test_lowerings
import torch
from torch.utils._pytree import tree_leaves

import weir
from weir._torch import gpu, values
from weir._torch.graph import build
from weir._torch.rewrite import patterns

aten = torch.ops.aten
attend = torch.nn.functional.scaled_dot_product_attention


class FakeGpu(stand_in.Host):
    """The host in a GPU's place, with memory that is the GPU's."""

    def holds(self, tensor):
        return True

    def empty(self, shape, strides, dtype):
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if values.numel(shape) else 0
        own = weir.empty((max(span * dtype.itemsize, 1),), weir.uint8, device=self.weir)
        self.weir.synchronize()
        memory = (ctypes.c_char * (span * dtype.itemsize)).from_address(own.data_ptr())
        memory.own = own  # PyTorch keeps the one alive, and that the other
        flat = torch.frombuffer(memory, dtype=dtype) if span else torch.empty(0, dtype=dtype)
        return flat.as_strided(shape, strides)

    def moved(self, x):
        if not isinstance(x, torch.Tensor):
            return x
        return self.empty(x.shape, x.stride(), x.dtype).copy_(x)

    def scalar(self, tensor):
        return self.moved(tensor)

    def numbers(self, numbers):
        return self.moved(super().numbers(numbers))

    def issue(self, plan):
        return self._on_copies(plan.call_on)

    def issue_at(self, plan):
        return self._on_copies(plan.call_at)

    def _on_copies(self, call):
        def run(args, *layouts):
            theirs = [self.moved(x) for x in args]
            made = [x.clone() if isinstance(x, torch.Tensor) else x for x in call(theirs, *layouts)]
            for x, now in zip(args, theirs):
                if isinstance(x, torch.Tensor) and not torch.equal(x, now):
                    x.copy_(now)
            return made

        return run


def compile_on(device):
    """Makes get_npu_backend compile for this device of weir, the fake GPU."""
    weir.set_device(device)
    made = FakeGpu(weir.get_device())
    gpu.of = lambda device: made
    gpu.of_default = lambda: made
    build.from_dlpack = lambda x, device: weir.tensor(x, device=device)  # constants are copied
    return made


def as_on_a_gpu(module, *rest):
    """Puts in the operators that PyTorch has for attention on a GPU."""
    for node in module.graph.nodes:
        if node.target is not aten._scaled_dot_product_flash_attention_for_cpu.default:
            continue
        mask = node.kwargs.get("attn_mask")
        if mask is None:
            node.target = aten._scaled_dot_product_flash_attention.default
        else:
            node.target = aten._scaled_dot_product_efficient_attention.default
            node.args = (*node.args[:3], mask, False, *node.args[3:])
        node.kwargs = {k: v for k, v in node.kwargs.items() if k == "scale"}


def check(got, want):
    for a, b in zip(tree_leaves(got), tree_leaves(want), strict=True):
        near = {torch.bfloat16: 2e-2, torch.float16: 2e-3}.get(b.dtype, 2e-5)
        torch.testing.assert_close(a, b, rtol=near, atol=near)


def run(cases):
    """What is wrong in a dictionary of functions without arguments, as sentences: with PyTorch's kernels
    in place of weir's, or with other values than eager ones."""
    patterns.ENABLED = False  # or all of it would be constants
    compile_on("cuda:0")
    wrong = []
    for name, case in cases.items():
        torch._dynamo.reset()
        config = weir.CompilerConfig()
        config.post_grad_custom_pre_pass = as_on_a_gpu
        backend, began = weir.get_npu_backend(compiler_config=config), time.monotonic()
        try:
            with torch.no_grad():
                got = torch.compile(case, backend=backend, fullgraph=True)()
            check(got, case())
            if backend.coverage.fallback:
                wrong.append(f"{name}: PyTorch's {dict(backend.coverage.fallback)}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        if VERBOSE:
            print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)
    return wrong


# ---- cases ----


def named(parts):
    """Cases of test_lowerings.py whose names have one of these parts; all of them if there are none."""
    return {k: v for k, v in test_lowerings.CASES.items() if not parts or any(part in k for part in parts)}


class Heads:
    """Attention with keys of a size and values of another, in three types and with a mask or causal."""

    def __init__(self, size, columns):
        draw = torch.Generator().manual_seed(size)
        self.q, self.k, self.v = (
            torch.randn(2, 2, n, d, generator=draw) for n, d in ((5, size), (9, size), (9, columns))
        )
        self.mask = torch.rand(2, 1, 5, 9, generator=draw) < 0.7
        self.mask[..., 0] = True

    def __call__(self):
        q, k, v = self.q, self.k, self.v
        few = k[:, :, :5], v[:, :, :5]
        made = [attend(q, k, v), attend(q, k, v, self.mask, scale=0.3), attend(q, *few, is_causal=True)]
        return made + [attend(q.to(t), k.to(t), v.to(t)) for t in (torch.bfloat16, torch.float16)]


def heads(sizes):
    return {f"heads of {d}": Heads(d, d) for d in sizes}


def growing(size, lengths=(9, 13, 4)):
    """What is wrong with attention of keys of open lengths, as sentences."""
    compile_on("cuda:0")
    torch._dynamo.reset()
    config = weir.CompilerConfig()
    config.post_grad_custom_pre_pass = as_on_a_gpu
    backend = weir.get_npu_backend(compiler_config=config)
    run = torch.compile(lambda q, k, v: attend(q, k, v), backend=backend, fullgraph=True, dynamic=True)
    for length in lengths:
        tensors = [torch.randn(1, 2, n, size) for n in (5, length, length)]
        for tensor in tensors:
            torch._dynamo.mark_static(tensor, 3)
        check(run(*tensors), attend(*tensors))
    wrong = [f"PyTorch's {dict(backend.coverage.fallback)}"] if backend.coverage.fallback else []
    return wrong + [f"{len(g.elastic)} plans" for g in backend.graphs if len(g.elastic) != 1]


VERBOSE = __name__ == "__main__"  # prints each case

if VERBOSE:
    sizes = [int(x) for x in sys.argv[1:] if x.isdigit()]
    parts = [x for x in sys.argv[1:] if not x.isdigit()]
    chosen = {**(named(parts) if parts or not sizes else {}), **heads(sizes)}
    found = run(chosen)
    print("\n".join(found))
    print(f"{len(chosen) - len(found)} of {len(chosen)} passed")
    sys.exit(bool(found))
