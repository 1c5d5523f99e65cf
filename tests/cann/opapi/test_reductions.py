"""Reductions, extremes, order and running sums against PyTorch."""
import math

import pytest
import torch

from aclnn import call
from samples import TYPES, close, empty_like, layouts, make

COVERED = set()


def wide(t):
    return t.double() if t.is_floating_point() else t


@pytest.mark.parametrize("dims", ((), (0,), (1, -1), (0, 1, 2)))
@pytest.mark.parametrize("keep", (False, True))
def test_reductions(dims, keep):
    over = dims if dims else (0, 1, 2)
    for dtype in TYPES["ALL"]:
        for x in layouts((3, 4, 5), dtype):
            sum_type = dtype if dtype.is_floating_point else torch.int64
            want = wide(x).sum(over, keepdim=keep)
            out = empty_like(want, sum_type)
            call("ReduceSum", x, dims, keep, sum_type, out)
            close(out, want, 4)
            if dtype != torch.bool:
                mean_type = dtype if dtype.is_floating_point else torch.float32
                out = empty_like(want, mean_type)
                call("Mean", x, dims, keep, mean_type, out)
                close(out, x.double().mean(over, keepdim=keep), 4)
            for name, reference in (("Amax", torch.amax), ("Amin", torch.amin)):
                out = empty_like(want, dtype)
                call(name, x, dims, keep, out)
                close(out, reference(x, over, keepdim=keep))
            low, high = empty_like(want, dtype), empty_like(want, dtype)
            call("Aminmax", x, dims, keep, low, high)
            close(low, torch.amin(x, over, keepdim=keep))
            close(high, torch.amax(x, over, keepdim=keep))
            for name, reference in (("All", torch.all), ("Any", torch.any)):
                out = empty_like(want, torch.bool)
                call(name, x, dims, keep, out)
                close(out, reference(x, dim=over, keepdim=keep))
            if not dtype.is_floating_point:
                continue
            for p in (2.0, 1.0, 0.0, 3.0, math.inf, -math.inf):
                out = empty_like(want, dtype)
                want_norm = torch.linalg.vector_norm(x.double(), p, over, keepdim=keep)
                call("Norm", x, p, dims, keep, out)
                close(out, want_norm, 8)
                call("LinalgVectorNorm", x, p, dims, keep, dtype, out)
                close(out, want_norm, 8)
            call("LogSumExp", x, dims, keep, out)
            close(out, torch.logsumexp(x.double(), over, keepdim=keep), 4)
            y = x.clone()
            y[1, 2, 3] = math.nan
            call("ReduceNansum", y, dims, keep, dtype, out)
            close(out, torch.nansum(y.double(), over, keepdim=keep), 4)
            for correction in (0, 1):
                var = torch.var(x.double(), over, correction=correction, keepdim=keep)
                a, b = empty_like(var, dtype), empty_like(var, dtype)
                call("VarCorrection", x, dims, correction, keep, a)
                close(a, var, 8)
                call("Std", x, dims, correction, keep, a)
                close(a, var.sqrt(), 8)
                call("VarMean", x, dims, correction, keep, a, b)
                close(a, var, 8)
                close(b, x.double().mean(over, keepdim=keep), 4)
                call("StdMeanCorrection", x, dims, correction, keep, a, b)
                close(a, var.sqrt(), 8)
    COVERED.update({"ReduceSum", "Mean", "Amax", "Amin", "Aminmax", "All", "Any", "Norm",
                    "LinalgVectorNorm", "LogSumExp", "ReduceNansum", "VarCorrection", "Std", "VarMean",
                    "StdMeanCorrection"})


def test_reductions_of_nothing():
    x = torch.empty(0, 3)
    out = torch.empty((), dtype=torch.bool)
    call("All", x, (), False, out)
    assert bool(out)
    call("Any", x, (), False, out)
    assert not bool(out)
    total = torch.full((3,), 7.0)
    call("ReduceSum", x, (0,), False, torch.float32, total)
    assert total.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dim", (0, 1, -1))
def test_extremes_and_order(dim):
    for dtype in TYPES["ALL"]:
        for x in layouts((4, 6, 5), dtype, -50, 50):
            for name, reference in (("ArgMax", torch.argmax), ("ArgMin", torch.argmin)):
                if dtype == torch.bool:
                    continue
                value = x.amax(dim) if name == "ArgMax" else x.amin(dim)
                out = empty_like(value, torch.int64)
                call(name, x, dim, False, out)
                assert torch.equal(x.gather(dim, out.unsqueeze(dim)).squeeze(dim), value)
            for name, reference in (("MaxDim", torch.amax), ("MinDim", torch.amin)):
                want = reference(x, dim, keepdim=True)
                values, at = empty_like(want), empty_like(want, torch.int64)
                call(name, x, dim, True, values, at)
                close(values, want)
                assert torch.equal(x.gather(dim, at), want)
            low, high = empty_like(want.squeeze(dim)), empty_like(want.squeeze(dim))
            call("AminmaxDim", x, dim, False, low, high)
            close(low, x.amin(dim))
            close(high, x.amax(dim))
            for descending in (False, True):
                values, at = empty_like(x), empty_like(x, torch.int64)
                call("Sort", x, True, dim, descending, values, at)
                want, places = torch.sort(x, stable=True, dim=dim, descending=descending)
                close(values, want)
                assert torch.equal(at, places)
                call("Argsort", x, dim, descending, at)
                assert torch.equal(x.gather(dim, at), want)
            if dtype == torch.bool:
                continue
            for largest in (False, True):
                want, _ = torch.topk(x, 3, dim, largest)
                values, at = empty_like(want), empty_like(want, torch.int64)
                call("Topk", x, 3, dim, largest, True, values, at)
                close(values, want)
                assert torch.equal(x.gather(dim, at), want)
            want = torch.kthvalue(x, 2, dim).values
            values, at = empty_like(want), empty_like(want, torch.int64)
            call("Kthvalue", x, 2, dim, False, values, at)
            close(values, want)
            want = torch.median(x, dim).values
            call("MedianDim", x, dim, False, values, at)
            close(values, want)
    COVERED.update({"ArgMax", "ArgMin", "MaxDim", "MinDim", "AminmaxDim", "Sort", "Argsort", "Topk",
                    "Kthvalue", "MedianDim"})


def test_whole_reductions():
    for dtype in TYPES["ALL"]:
        x = make((4, 6), dtype, -50, 50)
        out, other = torch.empty((), dtype=dtype), torch.empty((), dtype=dtype)
        call("Max", x, out)
        close(out, x.max())
        call("Min", x, out)
        close(out, x.min())
        call("AminmaxAll", x, out, other)
        close(out, x.min())
        close(other, x.max())
        if dtype != torch.bool:
            call("Median", x, out)
            close(out, torch.median(x))
        same = torch.empty(1, dtype=torch.bool)
        call("Equal", x, x.clone(), same)
        assert bool(same)
        y = x.clone()
        y[0, 0] = not y[0, 0] if dtype == torch.bool else 99
        call("Equal", x, y, same)
        assert not bool(same)
        call("Trace", x[:, :4], torch.empty((), dtype=torch.int64) if not dtype.is_floating_point else out)
        if dtype.is_floating_point:
            close(out, x[:, :4].double().trace(), 2)
    COVERED.update({"Max", "Min", "AminmaxAll", "Median", "Equal", "Trace"})


@pytest.mark.parametrize("dim", (0, 1, -1))
def test_scans(dim):
    for dtype in TYPES["ALL"]:
        for x in layouts((3, 4, 5), dtype, -2, 2):
            kind = dtype if dtype.is_floating_point else torch.int64
            out = empty_like(x, kind)
            call("Cumsum", x, dim, kind, out)
            close(out, wide(x).cumsum(dim), 4)
            call("Cumprod", x, dim, kind, out)
            close(out, wide(x).cumprod(dim), 4)
            want = wide(x).prod(dim)
            got = empty_like(want, kind)
            call("ProdDim", x, dim, False, kind, got)
            close(got, want, 4)
            whole = torch.empty((), dtype=kind)
            call("Prod", x[0, :2], kind, whole)
            close(whole, wide(x[0, :2]).prod(), 4)
            if dtype == torch.bool:
                continue
            for name, reference in (("Cummax", torch.cummax), ("Cummin", torch.cummin)):
                want, places = reference(x, dim)
                values, at = empty_like(x), empty_like(x, torch.int64)
                call(name, x, dim, values, at)
                close(values, want)
                assert torch.equal(at, places)
    COVERED.update({"Cumsum", "Cumprod", "Cummax", "Cummin", "Prod", "ProdDim"})
