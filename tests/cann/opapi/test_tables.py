"""Reductions, order, shapes, indices, lists and random numbers against PyTorch."""
import math
import pathlib
import subprocess
import sys

import pytest
import torch

from aclnn import call
from samples import FLOAT, INT, TYPES, close, empty_like, layouts, make

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


def test_copies_casts_and_fills():
    for a in TYPES["ALL"]:
        for b in TYPES["ALL"]:
            for x in layouts((3, 4), a, 0, 3):
                out = empty_like(x, b, strided=True)
                call("Cast", x, b, out)
                close(out, x.to(b))
                out = empty_like(x, b)
                call("InplaceCopy", out, x)
                close(out, x.to(b))
        out = torch.empty(5, 3, 4, dtype=a)
        call("InplaceCopy", out, x)
        close(out, x.to(a).expand(5, 3, 4))
        for out in layouts((3, 4), a):
            out = out.clone()
            call("InplaceZero", out)
            close(out, torch.zeros_like(out))
            call("InplaceOne", out)
            close(out, torch.ones_like(out))
            call("InplaceFillScalar", out, 2)
            close(out, torch.full_like(out, 2))
            call("InplaceFillTensor", out, torch.tensor(1, dtype=a))
            close(out, torch.ones_like(out))
    COVERED.update({"Cast", "InplaceCopy", "InplaceZero", "InplaceOne", "InplaceFillScalar",
                    "InplaceFillTensor"})


def test_ranges():
    for dtype in TYPES["NUMBER"]:
        out = torch.empty(5, dtype=dtype)
        for name in ("Arange", "Range"):
            call(name, 2, 12, 2, out)
            close(out, torch.arange(2, 12, 2, dtype=dtype))
        if dtype.is_floating_point:
            call("Arange", 0.5, 3.0, 0.5, out)
            close(out, torch.arange(0.5, 3.0, 0.5, dtype=torch.float64))
        call("Linspace", 1, 9, 5, out)
        close(out, torch.linspace(1, 9, 5, dtype=dtype))
    for dtype in TYPES["ALL"]:
        out = torch.empty(3, 4, dtype=dtype)
        call("Eye", 3, 4, out)
        close(out, torch.eye(3, 4).to(dtype))
    COVERED.update({"Arange", "Range", "Linspace", "Eye"})


def test_shapes():
    for dtype in TYPES["ALL"]:
        for x in layouts((3, 4, 5), dtype):
            for diagonal in (-1, 0, 2):
                for name, reference in (("Tril", torch.tril), ("Triu", torch.triu)):
                    out = empty_like(x, strided=True)
                    call(name, x, diagonal, out)
                    close(out, reference(x, diagonal))
                    y = x.clone()
                    call(f"Inplace{name}", y, diagonal)
                    close(y, out)
            for dims in ((2, 0, 1), (1, 2, 0)):
                want = x.permute(dims)
                out = empty_like(want)
                call("Permute", x, dims, out)
                close(out, want)
            out = empty_like(x)
            call("Flip", x, (0, 2), out)
            close(out, x.flip((0, 2)))
            call("Roll", x, (1, -2), (0, 2), out)
            close(out, x.roll((1, -2), (0, 2)))
            call("Roll", x, (7,), (), out)
            close(out, x.roll(7))
            for repeats in ((2, 1, 3), (2, 2, 2, 2), (1, 1, 1)):
                want = x.repeat(repeats)
                out = empty_like(want)
                call("Repeat", x, repeats, out)
                close(out, want)
            want = x.repeat_interleave(3, 1)
            out = empty_like(want)
            call("RepeatInterleaveIntWithDim", x, 3, 1, 12, out)
            close(out, want)
            want = x.repeat_interleave(2)
            out = empty_like(want)
            call("RepeatInterleaveInt", x, 2, 120, out)
            close(out, want)
            y = make((3, 2, 5), dtype)
            want = torch.cat((x, y, x), 1)
            out = empty_like(want)
            call("Cat", (x, torch.empty(0, dtype=dtype), y, x), 1, out)
            close(out, want)
            for dim in (0, 1, -1):
                want = torch.stack((x, x), dim)
                out = empty_like(want)
                call("Stack", (x, x), dim, out)
                close(out, want)
            parts = [torch.empty(3, n, 5, dtype=dtype) for n in (1, 3)]
            call("SplitWithSize", x, (1, 3), 1, parts)
            close(parts[0], x[:, :1])
            close(parts[1], x[:, 1:])
            want = x[:, 1:4:2]
            out = empty_like(want)
            call("Slice", x, 1, 1, 4, 2, out)
            close(out, want)
            value = 7 if dtype != torch.bool else True
            for pad in ((1, 2), (1, 0, 2, 3), (-1, 2, 0, 1, 1, 1)):
                want = torch.nn.functional.pad(x, pad, value=value)
                out = empty_like(want)
                call("ConstantPadNd", x, pad, value, out)
                close(out, want)
            if not dtype.is_floating_point:
                continue
            for name, mode in (("ReflectionPad", "reflect"), ("ReplicationPad", "replicate")):
                for n, pad in ((1, (2, 1)), (2, (2, 1, 1, 3))):
                    z = x if n == 1 else x.unsqueeze(0)
                    want = torch.nn.functional.pad(z.double(), pad, mode=mode)
                    out = empty_like(want, dtype)
                    call(f"{name}{n}d", z, pad, out)
                    close(out, want)
                z = make((1, 2, 3, 4, 5), dtype)
                want = torch.nn.functional.pad(z.double(), (1, 2, 1, 1, 2, 0), mode=mode)
                out = empty_like(want, dtype)
                call(f"{name}3d", z, (1, 2, 1, 1, 2, 0), out)
                close(out, want)
                COVERED.update({f"{name}{n}d" for n in (1, 2, 3)})
    many = [make((2, 3), torch.float32) for _ in range(150)]
    out = torch.empty(300, 3)
    call("Cat", many, 0, out)
    close(out, torch.cat(many))
    index = torch.tensor([[0, 3], [2, 1]])
    out = torch.empty(2, 2, 4, dtype=torch.int64)
    call("OneHot", index, 4, torch.tensor([1]), torch.tensor([0]), -1, out)
    close(out, torch.nn.functional.one_hot(index, 4))
    COVERED.update({"Tril", "Triu", "InplaceTril", "InplaceTriu", "Permute", "Flip", "Roll", "Repeat",
                    "RepeatInterleaveIntWithDim", "RepeatInterleaveInt", "Cat", "Stack",
                    "SplitWithSize", "Slice", "ConstantPadNd", "OneHot"})


def test_reading_by_index():
    for dtype in TYPES["ALL"]:
        for x in layouts((6, 4, 5), dtype):
            for it in (torch.int64, torch.int32):
                i = torch.randint(0, 6, (2, 3), dtype=it)
                out = torch.empty(2, 3, 4, 5, dtype=dtype)
                call("Embedding", x, i, out)
                close(out, x[i.long()])
                for name in ("IndexSelect", "GatherV2"):
                    want = x.index_select(0, i[0].long())
                    out = empty_like(want)
                    call(name, x, 0, i[0], out)
                    close(out, want)
                g = torch.randint(0, 4, (5, 3, 2), dtype=it)
                want = x.gather(1, g.long())
                out = empty_like(want)
                call("Gather", x, 1, g, out)
                close(out, want)
            i = torch.randint(-100, 100, (7,)) % 120 - 60
            want = x.take(i)
            out = empty_like(want)
            call("Take", x, i, out)
            close(out, want)
            a, b = torch.randint(-6, 6, (2, 3)), torch.randint(-5, 5, (3,))
            for indices, want in (((a,), x[a]), ((None, a % 4), x[:, a % 4]),
                                  ((a, None, b), x[a, :, b]), ((a, a % 4), x[a, a % 4]),
                                  ((a, a % 4, b), x[a, a % 4, b]), ((None, None, b), x[:, :, b])):
                out = empty_like(want)
                call("Index", x, [torch.empty(0, dtype=dtype) if t is None else t for t in indices], out)
                close(out, want)
    COVERED.update({"Embedding", "IndexSelect", "GatherV2", "Gather", "Take", "Index"})


def test_writing_by_index():
    for dtype in TYPES["ALL"]:
        x = make((6, 4), dtype)
        i = torch.stack([torch.randperm(6)[:3] for _ in range(4)], 1)
        src = make((3, 4), dtype)
        want = x.scatter(0, i, src)
        out = empty_like(x, strided=True)
        call("Scatter", x, 0, i, src, 0, out)
        close(out, want)
        y = x.clone()
        call("InplaceScatter", y, 0, i, src, 0)
        close(y, want)
        value = 3 if dtype != torch.bool else True
        call("ScatterValue", x, 0, i, value, 0, out)
        close(out, x.scatter(0, i, value))
        y = x.clone()
        call("InplaceScatterValue", y, 0, i, value, 0)
        close(y, out)
        y = x.clone()
        call("IndexFill", x, 1, torch.tensor([0, 2]), value, out)
        close(out, x.index_fill(1, torch.tensor([0, 2]), value))
        call("InplaceIndexFill", y, 1, torch.tensor([0, 2]), value)
        close(y, out)
        y = x.clone()
        call("IndexFillTensor", x, 1, (0, 2), value, out)
        close(out, y.index_fill(1, torch.tensor([0, 2]), value))
        call("InplaceIndexFillTensor", y, 1, (0, 2), value)
        close(y, out)
        rows = torch.tensor([4, 0])
        call("IndexCopy", x, 0, rows, src[:2], out)
        close(out, x.index_copy(0, rows, src[:2]))
        y = x.clone()
        call("InplaceIndexCopy", y, 0, rows, src[:2])
        close(y, out)
        y = x.clone()
        call("InplacePut", y, torch.tensor([3, -1]), src[0, :2], False)
        close(y, x.clone().put_(torch.tensor([3, -1]), src[0, :2]))
        y = x.clone()
        call("ScatterNdUpdate", y, torch.tensor([[1], [5]]), src[:2])
        z = x.clone()
        z[[1, 5]] = src[:2]
        close(y, z)
        y, z = x.clone(), x.clone()
        call("IndexPutImpl", y, [rows, torch.empty(0, dtype=dtype)], src[:2], False, False)
        z[rows] = src[:2]
        close(y, z)
        y, z = x.t().contiguous().t(), x.clone()
        call("IndexPutImpl", y, [torch.empty(0, dtype=dtype), torch.tensor([-1, 2])], src[0, :1], False, False)
        z[:, [-1, 2]] = src[0, :1]
        close(y, z)
        if dtype == torch.bool:
            continue
        many = torch.randint(0, 6, (9, 4))
        src = make((9, 4), dtype, -2, 2)
        want = wide(x).scatter_add(0, many, wide(src)).to(dtype)
        call("ScatterAdd", x, 0, many, src, out)
        close(out, want, 8)
        call("Scatter", x, 0, many, src, 1, out)
        close(out, want, 8)
        rows = torch.randint(0, 6, (9,))
        call("IndexAdd", x, 0, rows, src, 2, out)
        close(out, wide(x).index_add(0, rows, wide(src), alpha=2).to(dtype), 8)
        y = x.clone()
        call("IndexPutImpl", y, [rows], src, True, False)
        close(y, wide(x).index_put((rows,), wide(src), accumulate=True).to(dtype), 8)
    g = make((3, 2, 4), torch.float32)
    i = torch.tensor([[0, 2], [2, 5], [1, 2]])
    for freq in (False, True):
        out = torch.empty(6, 4)
        call("EmbeddingDenseBackward", g, i, 6, 1, freq, out)
        close(out, torch.ops.aten.embedding_dense_backward(g, i, 6, 1, freq), 2)
    COVERED.update({"Scatter", "InplaceScatter", "ScatterValue", "InplaceScatterValue", "IndexFill",
                    "InplaceIndexFill", "IndexFillTensor", "InplaceIndexFillTensor", "IndexCopy",
                    "InplaceIndexCopy", "InplacePut", "ScatterNdUpdate", "IndexPutImpl", "ScatterAdd",
                    "IndexAdd", "EmbeddingDenseBackward"})


def test_an_index_out_of_range_is_an_error():
    # in a process of its own: the stream stays in error
    code = ("import torch; from aclnn import Error, call\n"
            "try: call('Scatter', torch.zeros(3), 0, torch.tensor([5]), torch.ones(1), 0, torch.empty(3))\n"
            "except Error as e: print('refused:', e)\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent,
                          capture_output=True, text=True, timeout=60)
    assert "refused:" in done.stdout, done.stdout + done.stderr


def test_foreach():
    def lists(dtype, low=1, high=3):
        return [make(s, dtype, low, high) for s in ((3, 4), (5,), (2, 2, 2))]

    unary = {"Abs": torch.abs, "Neg": torch.neg, "Exp": torch.exp, "Log": torch.log, "Sqrt": torch.sqrt,
             "Rsqrt": torch.rsqrt, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Sign": torch.sign,
             "Reciprocal": torch.reciprocal, "Sin": torch.sin, "Cos": torch.cos, "Tan": torch.tan,
             "Asin": torch.asin, "Acos": torch.acos, "Atan": torch.atan, "Sinh": torch.sinh,
             "Cosh": torch.cosh, "Erf": torch.erf, "Erfc": torch.erfc, "Expm1": torch.expm1,
             "Log1p": torch.log1p, "Log2": torch.log2, "Log10": torch.log10, "Copy": lambda x: x}
    binary = {"Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "Maximum": torch.maximum,
              "Minimum": torch.minimum, "Add": torch.add, "Sub": torch.sub}
    for dtype in FLOAT:
        for name, reference in unary.items():
            xs = lists(dtype, 0.1, 0.9)
            outs = [empty_like(x) for x in xs]
            call(f"Foreach{name}", xs, outs)
            for x, out in zip(xs, outs):
                close(out, reference(x.double()), 4, name)
            COVERED.add(f"Foreach{name}")
        for name, reference in binary.items():
            xs, ys = lists(dtype), lists(dtype)
            outs = [empty_like(x) for x in xs]
            if name in ("Add", "Sub"):
                call(f"Foreach{name}ListV2", xs, ys, 2.0, outs)
                want = [reference(x.double(), y.double(), alpha=2) for x, y in zip(xs, ys)]
                for out, w in zip(outs, want):
                    close(out, w, 4)
                call(f"Foreach{name}List", xs, ys, torch.tensor([2.0]), outs)
                COVERED.update({f"Foreach{name}ListV2", f"Foreach{name}List"})
            else:
                call(f"Foreach{name}List", xs, ys, outs)
                want = [reference(x.double(), y.double()) for x, y in zip(xs, ys)]
                COVERED.add(f"Foreach{name}List")
            for out, w in zip(outs, want):
                close(out, w, 4)
            two = torch.tensor(2.0, dtype=torch.float64)
            for form, value in (("Scalar", torch.tensor([2.0])), ("ScalarV2", 2.0), ("ScalarList", (2.0,) * 3)):
                call(f"Foreach{name}{form}", xs, value, outs)
                for x, out in zip(xs, outs):
                    close(out, reference(x.double(), two), 4)
                COVERED.add(f"Foreach{name}{form}")
        xs, ys, zs = lists(dtype), lists(dtype), lists(dtype)
        for name, reference in (("Addcmul", torch.addcmul), ("Addcdiv", torch.addcdiv)):
            for form, value in (("Scalar", torch.tensor([0.5])), ("ScalarV2", 0.5),
                                ("ScalarList", torch.tensor([0.5, 0.5, 0.5]))):
                outs = [empty_like(x) for x in xs]
                call(f"Foreach{name}{form}", xs, ys, zs, value, outs)
                for x, y, z, out in zip(xs, ys, zs, outs):
                    close(out, reference(x.double(), y.double(), z.double(), value=0.5), 4)
                COVERED.add(f"Foreach{name}{form}")
        outs = [empty_like(x) for x in xs]
        call("ForeachLerpScalar", xs, ys, 0.25, outs)
        for x, y, out in zip(xs, ys, outs):
            close(out, torch.lerp(x.double(), y.double(), 0.25), 4)
        call("ForeachLerpList", xs, ys, [z / 4 for z in zs], outs)
        for x, y, z, out in zip(xs, ys, zs, outs):
            close(out, torch.lerp(x.double(), y.double(), (z / 4).double()), 4)
        norms = [torch.empty((), dtype=dtype) for _ in xs]
        call("ForeachNorm", xs, 2.0, norms)
        for x, out in zip(xs, norms):
            close(out, x.double().norm(), 4)
        call("ForeachPowScalarAndTensor", 2.0, xs, outs)
        for x, out in zip(xs, outs):
            close(out, 2 ** x.double(), 4)
        for mode, reference in ((1, torch.round), (2, torch.floor), (3, torch.ceil), (5, torch.trunc),
                                (7, torch.frac)):
            call("ForeachRoundOffNumberV2", xs, mode, outs)
            for x, out in zip(xs, outs):
                close(out, reference(x), 2)
        scaled, found = [x.clone() for x in xs], torch.zeros(1)
        call("ForeachNonFiniteCheckAndUnscale", scaled, found, torch.tensor([0.5]))
        assert found.item() == 0
        for x, out in zip(xs, scaled):
            close(out, x.double() / 2, 2)
        scaled[1][2] = math.inf
        call("ForeachNonFiniteCheckAndUnscale", scaled, found, torch.tensor([0.5]))
        assert found.item() == 1
        call("ForeachZeroInplace", scaled)
        assert all(bool((x == 0).all()) for x in scaled)
    COVERED.update({"ForeachLerpScalar", "ForeachLerpList", "ForeachNorm", "ForeachPowScalarAndTensor",
                    "ForeachRoundOffNumberV2", "ForeachNonFiniteCheckAndUnscale", "ForeachZeroInplace"})


@pytest.mark.parametrize("amsgrad", (False, True))
def test_adamw_is_pytorchs(amsgrad):
    p, g = make((5, 4), torch.float32), make((5, 4), torch.float32)
    m, v, top = (torch.zeros(5, 4) for _ in range(3))
    q = torch.nn.Parameter(p.clone())
    theirs = torch.optim.AdamW([q], lr=0.1, amsgrad=amsgrad, weight_decay=0.02, foreach=False)
    for step in range(3):
        q.grad = g * (step + 1)
        theirs.step()
        call("ApplyAdamWV2", p, m, v, top if amsgrad else None, g * (step + 1),
             torch.tensor([float(step)]), 0.1, 0.9, 0.999, 0.02, 1e-8, amsgrad, False)
        close(p, q.detach(), 4)
    COVERED.add("ApplyAdamWV2")


def test_what_depends_on_values():
    x = torch.tensor([[0.0, 1, 2], [0, 0, 3]])
    # the callers learn the size from the tensor object, which this wrapper destroys: only values
    out = torch.full((6, 2), -1)
    call("Nonzero", x, out)
    assert out[:3].tolist() == [[0, 1], [0, 2], [1, 2]]
    out = torch.full((2, 6), -1)
    call("NonzeroV2", x, out)
    assert out.view(-1)[:6].tolist() == [0, 0, 1, 1, 2, 2]
    got = torch.full((6,), -1.0)
    call("MaskedSelect", x, x > 1, got)
    assert got[:2].tolist() == [2, 3]
    COVERED.update({"Nonzero", "NonzeroV2", "MaskedSelect"})


def test_random_numbers():
    for dtype in FLOAT:
        x, y = torch.empty(40000, dtype=dtype), torch.empty(40000, dtype=dtype)
        call("InplaceUniform", x, -1.0, 3.0, 7, 0)
        call("InplaceUniform", y, -1.0, 3.0, 7, 0)
        assert torch.equal(x, y) and x.min() >= -1 and x.max() <= 3
        assert abs(x.double().mean() - 1) < 0.05 and abs(x.double().std() - 4 / 12**0.5) < 0.05
        call("InplaceUniform", y, -1.0, 3.0, 7, 12)
        assert not torch.equal(x, y)
        call("InplaceNormal", x, 1.0, 2.0, 3, 4)
        assert abs(x.double().mean() - 1) < 0.06 and abs(x.double().std() - 2) < 0.06
        mean, std = make((40000,), dtype, 5, 5), make((40000,), dtype, 0.5, 0.5)
        for name, a, b in (("NormalFloatFloat", 5.0, 0.5), ("NormalFloatTensor", 5.0, std),
                           ("NormalTensorFloat", mean, 0.5), ("NormalTensorTensor", mean, std)):
            call(name, a, b, 1, 2, x)
            assert abs(x.double().mean() - 5) < 0.05 and abs(x.double().std() - 0.5) < 0.05
            COVERED.add(name)
        call("DropoutDoMask", torch.ones(40, dtype=dtype), torch.full((16,), 0x0F, dtype=torch.uint8),
             0.5, x[:40])
        assert x[:40].tolist() == [2, 2, 2, 2, 0, 0, 0, 0] * 5
        mask = torch.zeros(5000, dtype=torch.uint8)
        out = torch.empty(40000, dtype=dtype)
        call("DropoutV3", torch.ones(40000, dtype=dtype), None, 0.25, 5, 6, out, mask)
        kept = (out != 0)
        assert abs(kept.double().mean() - 0.75) < 0.02
        close(out[kept], torch.full_like(out[kept], 1 / 0.75))
        bits = ((mask.unsqueeze(1) >> torch.arange(8)) & 1).flatten().bool()
        assert torch.equal(bits, kept)
    mask = torch.zeros(5008, dtype=torch.uint8)
    for name, more in (("DropoutGenMask", ()), ("DropoutGenMaskV2", (torch.float32,))):
        call(name, (200, 200), 0.25, 1, 2, *more, mask)
        bits = ((mask.unsqueeze(1) >> torch.arange(8)) & 1).flatten()[:40000]
        assert abs(bits.double().mean() - 0.75) < 0.02
    for dtype in TYPES["ALL"]:
        x = torch.empty(20000, dtype=dtype)
        call("InplaceBernoulli", x, 0.3, 1, 2)
        assert abs(x.double().mean() - 0.3) < 0.02
        call("InplaceBernoulliTensor", x, torch.full((20000,), 0.6), 1, 2)
        assert abs(x.double().mean() - 0.6) < 0.02
        call("InplaceRandomWithoutFromTo", x, 1, 2)
        assert x.double().std() > 0
    for dtype in INT:
        x = torch.empty(20000, dtype=dtype)
        call("InplaceRandom", x, 2, 9, 1, 2)
        assert sorted(set(x.tolist())) == list(range(2, 9))
        p = torch.empty(100, dtype=dtype)
        call("Randperm", 100, 1, 2, p)
        assert sorted(p.tolist()) == list(range(100))
    weights = torch.tensor([[0.0, 1, 3], [1, 0, 0]])
    out = torch.empty(2, 4000, dtype=torch.int64)
    call("Multinomial", weights, 4000, True, 1, 2, out)
    assert (out[1] == 0).all() and (out[0] > 0).all()
    assert abs((out[0] == 2).double().mean() - 0.75) < 0.04
    out = torch.empty(2, dtype=torch.int64)
    call("Multinomial", weights[0] + 0.01, 2, False, 1, 2, out)
    assert len(set(out.tolist())) == 2
    COVERED.update({"InplaceUniform", "InplaceNormal", "DropoutDoMask", "DropoutV3", "DropoutGenMask",
                    "DropoutGenMaskV2", "InplaceBernoulli", "InplaceBernoulliTensor", "InplaceRandom",
                    "InplaceRandomWithoutFromTo", "Randperm", "Multinomial"})


def test_places_repeats_and_reductions_by_index():
    for dtype in (torch.float32, torch.int64):
        s = make((3, 7), dtype, -9, 9).sort(-1).values
        x = make((3, 5), dtype, -9, 9)
        for right in (False, True):
            out = torch.empty(3, 5, dtype=torch.int64)
            call("SearchSorted", s, x, False, right, None, out)
            close(out, torch.searchsorted(s, x, right=right))
            call("SearchSorted", s[0], x, False, right, None, out)
            close(out, torch.searchsorted(s[0], x, right=right))
            call("Bucketize", x, s[0], False, right, out)
            close(out, torch.bucketize(x, s[0], right=right))
            one = torch.empty((), dtype=torch.int64)
            call("SearchSorteds", s[0], 2, False, right, None, one)
            close(one, torch.searchsorted(s[0], 2, right=right))
        repeats = torch.tensor([2, 0, 3])
        want = x.repeat_interleave(repeats, 0)
        out = empty_like(want)
        call("RepeatInterleaveWithDim", x, repeats, 0, 5, out)
        close(out, want)
        want = s[:, 0].repeat_interleave(repeats)
        out = empty_like(want)
        call("RepeatInterleave", s[:, 0].contiguous(), repeats, 5, out)
        close(out, want)
        places = torch.empty(5, dtype=torch.int64)
        call("RepeatInterleaveTensor", repeats, 5, places)
        close(places, torch.repeat_interleave(repeats))
        i, src = torch.randint(0, 3, (6, 5)), make((6, 5), dtype, 1, 3)
        for code, text in ((1, "sum"), (2, "prod"), (3, "amax"), (4, "amin")):
            for include in (True, False):
                if not include and dtype == torch.int64 and code > 2:
                    continue
                want = x.scatter_reduce(0, i, src, text, include_self=include)
                out = empty_like(x)
                call("ScatterReduce", x, 0, i, src, code, include, out)
                close(out, want, 4)
                y = x.clone()
                call("InplaceScatterReduce", y, 0, i, src, code, include)
                close(y, want, 4)
        out = empty_like(x)
        call("IndexAddV2", x, 0, torch.tensor([2, 0]), x[:2].contiguous(), 2, 0, out)
        close(out, x.index_add(0, torch.tensor([2, 0]), x[:2], alpha=2))
        for shape in ((4, 4), (7, 3), (3, 5)):
            for wrap in (False, True):
                y, z = make(shape, dtype), None
                z = y.clone().fill_diagonal_(9, wrap)
                call("InplaceFillDiagonal", y, 9, wrap)
                close(y, z)
        got = torch.empty(3, 5, dtype=torch.bool)
        for invert in (False, True):
            call("IsInTensorScalar", x, 2, False, invert, got)
            close(got, torch.isin(x, 2, invert=invert))
            one = torch.empty((), dtype=torch.bool)
            call("IsInScalarTensor", 2, x, False, invert, one)
            close(one, torch.isin(2, x, invert=invert))
        out = empty_like(x)
        call("AddRelu", x, x, 2, out)
        close(out, torch.relu(3 * x), 2)
        y = x.clone()
        call("InplaceAddRelu", y, x, 2)
        close(y, torch.relu(3 * x), 2)
    out = torch.empty(3, 4, dtype=torch.int64)
    call("LeftShifts", torch.full((3, 4), 3), 2, out)
    close(out, torch.full((3, 4), 12))
    p, g = make((3, 4), torch.float32, 0.1, 0.9), make((3, 4), torch.float32)
    out = empty_like(p)
    call("Logit", p, -1.0, out)
    close(out, torch.logit(p), 2)
    call("Logit", p, 0.3, out)
    close(out, torch.logit(p, 0.3), 2)
    call("LogitGrad", p, g, 0.3, out)
    close(out, torch.ops.aten.logit_backward(g, p, 0.3), 2)
    mask = make((3, 4), torch.bool)
    call("MaskedScale", p, mask.to(torch.uint8), 2.0, out)
    close(out, p * mask * 2)
    call("LogSigmoid", p, out)
    close(out, torch.nn.functional.logsigmoid(p), 2)
    t = make((3, 4), torch.float32, 0.1, 1).requires_grad_()
    for log_target in (False, True):
        t.grad = None
        torch.nn.functional.kl_div(p, t, reduction="mean", log_target=log_target).backward()
        call("KlDivTargetBackward", torch.tensor(1.0), p, t.detach(), 1, log_target, out)
        close(out, t.grad, 2)
    scale, tracker = torch.tensor([4.0]), torch.tensor([1], dtype=torch.int32)
    for found, want in ((0.0, (8.0, 0)), (1.0, (2.0, 0))):
        s, k = scale.clone(), tracker.clone()
        call("AmpUpdateScale", s, k, torch.tensor([found]), 2.0, 0.5, 2, s, k)
        assert (s.item(), k.item()) == want
    x, cos = make((2, 5, 3, 8), torch.float32), make((1, 5, 1, 8), torch.float32)
    a, b = torch.empty_like(x), torch.empty_like(x)
    call("RotaryPositionEmbedding", x, cos, cos, 0, a)
    call("RotaryPositionEmbeddingV2", x, cos, cos, 0, None, b)
    close(b, a)
    COVERED.update({"SearchSorted", "SearchSorteds", "Bucketize", "RepeatInterleave", "RepeatInterleaveWithDim",
                    "RepeatInterleaveTensor", "ScatterReduce", "InplaceScatterReduce", "IndexAddV2",
                    "InplaceFillDiagonal", "IsInTensorScalar", "IsInScalarTensor", "AddRelu", "InplaceAddRelu",
                    "LeftShifts", "Logit", "LogitGrad", "MaskedScale", "LogSigmoid", "KlDivTargetBackward",
                    "AmpUpdateScale", "RotaryPositionEmbeddingV2"})
