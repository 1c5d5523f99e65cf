"""Operators of PyTorch that are several of weir's: eager's values, and no kernel of PyTorch's."""

import pytest
import torch
import torch.nn.functional as F

import weir
from weir._torch.rewrite import patterns

X = torch.randn(2, 6, 9, 8, generator=torch.Generator().manual_seed(0))
ROW, PLACE = torch.tensor([3, -1, 0, 3]), torch.tensor([1, 1, -2, 0])
WHOLE = torch.arange(-6, 6)
BITS = torch.tensor([0, 1, -1, 255, -256, 1 << 31, -(1 << 63), (1 << 63) - 1, 5, 64, -3, 1 << 40])
LONG = torch.randn(2, 5000, generator=torch.Generator().manual_seed(1))

TIES = torch.tensor([[3, 0, 3, 0], [-5, 7, -5, 7], [2, 2, 2, 2]])
EXTREMES = torch.tensor([-(1 << 63), (1 << 63) - 1, -(1 << 63), 0])
BYTES = torch.randint(-128, 128, (2, 24, 40), generator=torch.Generator().manual_seed(2), dtype=torch.int8)
IDS = torch.randint(-2, 258, (32768,), generator=torch.Generator().manual_seed(3))


def of_whole_types(function):
    return tuple(function(TIES.to(t)) for t in (torch.int64, torch.int32, torch.int8, torch.uint8))


CASES = {
    "sin and cos": lambda: (torch.sin(X), torch.cos(X)),
    "max_pool2d": lambda: F.max_pool2d(X, 3, 2, 1),
    "pools rounded up": lambda: (
        F.max_pool2d(X, 2, 2, 1, ceil_mode=True),
        F.max_pool2d(X, (2, 3), (3, 2), ceil_mode=True),
        F.avg_pool2d(X, (4, 3), (3, 2), (2, 1), ceil_mode=True),
        F.avg_pool2d(X, (4, 3), (3, 2), (2, 1), ceil_mode=True, count_include_pad=False),
        F.avg_pool2d(X, 3, 2, 1, ceil_mode=True, divisor_override=-5),
    ),
    "pools of rows and of boxes": lambda: (
        F.max_pool1d(X[0], 3, 2, 1, ceil_mode=True),
        F.avg_pool1d(X[0], 5, 3, 2, ceil_mode=True, count_include_pad=False),
        F.max_pool3d(X, 2, 2, 1, ceil_mode=True),
        F.avg_pool3d(X, 3, 2, 1, ceil_mode=True),
    ),
    "avg_pool2d without the padding": lambda: F.avg_pool2d(X, 3, 1, 1, count_include_pad=False),
    "max_pool2d, dilated": lambda: F.max_pool2d(X, (2, 3), (1, 2), 0, (2, 1)),
    "avg_pool2d": lambda: F.avg_pool2d(X, 2),
    "avg_pool2d, padded": lambda: F.avg_pool2d(X, 3, 1, 1),
    "adaptive_avg_pool2d": lambda: (
        F.adaptive_avg_pool2d(X, 1), F.adaptive_avg_pool2d(X, (3, 4)),
    ),
    "batch_norm": lambda: F.batch_norm(
        X, torch.arange(6.0), torch.arange(6.0) + 1, torch.ones(6), torch.zeros(6)
    ),
    "group_norm": lambda: F.group_norm(X, 3, torch.arange(6.0), torch.ones(6)),
    "conv1d": lambda: F.conv1d(X[0], torch.ones(4, 9, 3), torch.ones(4), 2, 1),
    "pad": lambda: F.pad(X, (1, 2, 0, -3), value=7.0),
    "cumsum": lambda: (torch.cumsum(X, 2), torch.cumsum(WHOLE, 0)),
    "scans of long rows": lambda: (LONG.cumsum(1), LONG.cumsum(0), LONG.t().cumsum(0), LONG.cummax(1),
                                   LONG.cummin(1), (LONG / 9).cumprod(1)),
    "scans into other types": lambda: (
        WHOLE.cumsum(0, dtype=torch.int8), (X > 0).cumsum(-1), X.half().cumsum(1, dtype=torch.float32),
        WHOLE.to(torch.uint8).cumprod(0),
    ),
    "histc": lambda: torch.histc((torch.arange(20) % 7).float(), 7, 0, 6),
    "histc of many numbers": lambda: (
        torch.histc(IDS.float(), 256, 0, 255), torch.histc(LONG, 4096, -2, 2), torch.histc(X[0].transpose(0, 2), 3, -1, 1.5),
        torch.histc(torch.tensor([1.0, float("nan"), float("inf")]), 1, 0, 2), torch.histc(X[:0], 5, 0, 1),
    ),
    "index": lambda: (X[PLACE], X[:, ROW], X[PLACE, ROW]),
    "index of inner dims": lambda: (
        X[:, torch.tensor([[0], [1]]), torch.tensor([2, -1, 0])],
        X[:, :, torch.tensor([[1, 2], [3, -1]])],
        F.interpolate(X, scale_factor=2.0),
    ),
    "index_put": lambda: X.index_put((PLACE[:2],), X[:2] * 2, accumulate=True),
    "index_put of a permutation": lambda: torch.zeros(4).index_put(
        (torch.tensor([2, 0, 3, 1]),), torch.arange(4.0)
    ),
    "index_copy": lambda: X.index_copy(2, torch.tensor([4, 1]), X[:, :, :2] * 3),
    "scatter": lambda: (
        torch.zeros(3, 5).scatter(1, torch.tensor([[1], [0], [4]]), 2.0),
        torch.zeros(5).scatter(0, torch.tensor([4, 2]), torch.tensor([1.0, 3.0])),
    ),
    "slice_scatter": lambda: X.slice_scatter(X[:, 1:3] * 2, 1, 2, 4),
    "select_scatter": lambda: X.select_scatter(X[:, 0] * 2, 1, -1),
    "bits of bool": lambda: ((X > 0) & (X < 1), (X > 0) | (X < -1), (X > 0) ^ (X > 1), ~(X > 0)),
    "bits of whole numbers": lambda: (
        WHOLE & 6, 6 | WHOLE, WHOLE ^ BITS, ~WHOLE, WHOLE << 62, WHOLE >> 1, WHOLE & BITS,
        BITS << WHOLE, BITS >> WHOLE, 1 << WHOLE, -9 >> WHOLE, WHOLE & (1 << 62), WHOLE > BITS & 1,
        WHOLE.to(torch.int8) << WHOLE, WHOLE.to(torch.uint8) & -2, (WHOLE > 0) | 4,
    ),
    "truth of numbers": lambda: (
        torch.logical_and(WHOLE, BITS), torch.logical_or(X, X > 1), torch.logical_xor(WHOLE, X[0, 0, 0, 0]),
        torch.logical_not(WHOLE), WHOLE.any(), WHOLE.all(0), WHOLE.to(torch.uint8).any(),
    ),
    "floor division": lambda: (WHOLE // 4, WHOLE // 5),
    "remainder": lambda: (WHOLE % 4, WHOLE % 5),
    "masked_fill": lambda: X.masked_fill(X > 0, -3.0),
    "tril and triu": lambda: (torch.tril(X, -1), torch.triu(X > 0, 2)),
    "gelu by tanh": lambda: F.gelu(X, approximate="tanh"),
    "max and min of a dim": lambda: (torch.max(X, 1), torch.min(X, -1, keepdim=True)),
    "max and min of a dim, whole numbers": lambda: of_whole_types(
        lambda x: (torch.max(x, 1), torch.min(x, 0), torch.min(x, -1, keepdim=True))
    ),
    "argmax and argmin": lambda: (
        X.argmax(), X.argmin(), X.argmax(1), X.argmin(-1, keepdim=True), X.half().argmin(0),
        EXTREMES.argmin(), EXTREMES.argmax(), of_whole_types(lambda x: (x.argmin(), x.argmin(0), x.argmax(1))),
    ),
    "topk": lambda: (
        X.topk(3), X.topk(2, 1, largest=False), X.topk(6, 1), LONG.topk(7), LONG.topk(300, largest=False),
        TIES.topk(1, largest=False)[0], EXTREMES.topk(3)[0],
    ),
    "sort of whole numbers": lambda: (
        of_whole_types(lambda x: torch.sort(x, dim=1, stable=True)), LONG.sort(1), LONG.argsort(0),
        torch.sort(BITS, stable=True, descending=True),
    ),
    "products of int8": lambda: (
        torch._int_mm(BYTES[0], BYTES[1].T), torch._int_mm(BYTES[0].T, BYTES[1]),
        torch._int_mm(torch.full((17, 512), -128, dtype=torch.int8), torch.full((512, 8), -128, dtype=torch.int8)),
    ),
    "any and all": lambda: ((X > 2).any(), (X > -1).all(1), (X > 2).any(-1)),
    "var": lambda: (X.var(1), X.var((1, 2), correction=0), X.std(-1), X.std()),
    "fill": lambda: (
        torch.ops.aten.fill.Scalar(X, 2.0), torch.ops.aten.fill.Tensor(WHOLE, X[0, 0, 0, 0].long()),
    ),
    "sort": lambda: torch.sort(X, dim=1, descending=True, stable=True),
    "complex rotary": lambda: torch.view_as_real(
        torch.view_as_complex(X.reshape(2, 6, 9, 4, 2))
        * torch.polar(torch.ones(9, 4), torch.arange(36.0).reshape(9, 4))
    ),
}


def everything():
    return [case() for case in CASES.values()]


@pytest.mark.parametrize("device", ["cpu", "npu:a3"])
def test_values_are_eagers_and_kernels_are_weirs(device, monkeypatch):
    monkeypatch.setattr(patterns, "ENABLED", False)  # or all of it would be constants
    weir.set_device(device)
    try:
        torch._dynamo.reset()
        backend = weir.get_npu_backend()
        with torch.no_grad():
            all_got = torch.compile(everything, backend=backend, fullgraph=True)()
        for name, got, want in zip(CASES, all_got, everything(), strict=True):
            torch.testing.assert_close(
                got, want, rtol=2e-5, atol=2e-5, msg=lambda m, name=name: f"{name}: {m}"
            )
        assert not backend.coverage.fallback
    finally:
        weir.set_device("cpu")
