"""Copies, shapes, lists, what depends on values, and random numbers against PyTorch."""
import math

import pytest
import torch

from aclnn import call
from samples import FLOAT, INT, TYPES, close, empty_like, layouts, make

COVERED = set()


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
        call("Linspace", 1, 9, 1, out[:1])
        close(out[:1], torch.linspace(1, 9, 1, dtype=dtype))
        call("Linspace", 1, 9, 5, out)
        close(out, torch.linspace(1, 9, 5, dtype=dtype))
    for dtype in TYPES["ALL"]:
        out = torch.empty(3, 4, dtype=dtype)
        call("Eye", 3, 4, out)
        close(out, torch.eye(3, 4).to(dtype))
    COVERED.update({"Arange", "Range", "Linspace", "Eye"})


def test_triangles_and_orders():
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
    COVERED.update({"Tril", "Triu", "InplaceTril", "InplaceTriu", "Permute", "Flip", "Roll"})


def test_repeats_and_parts():
    for dtype in TYPES["ALL"]:
        for x in layouts((3, 4, 5), dtype):
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
    many = [make((2, 3), torch.float32) for _ in range(150)]
    out = torch.empty(300, 3)
    call("Cat", many, 0, out)
    close(out, torch.cat(many))
    index = torch.tensor([[0, 3], [2, 1]])
    out = torch.empty(2, 2, 4, dtype=torch.int64)
    call("OneHot", index, 4, torch.tensor([1]), torch.tensor([0]), -1, out)
    close(out, torch.nn.functional.one_hot(index, 4))
    COVERED.update({"Repeat", "RepeatInterleaveIntWithDim", "RepeatInterleaveInt", "Cat", "Stack",
                    "SplitWithSize", "Slice", "OneHot"})


def test_paddings():
    for dtype in TYPES["ALL"]:
        for x in layouts((3, 4, 5), dtype):
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
    COVERED.add("ConstantPadNd")


def lists(dtype, low=1, high=3):
    return [make(s, dtype, low, high) for s in ((3, 4), (5,), (2, 2, 2))]


def test_foreach_of_one_and_two_lists():
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


def test_foreach_of_more():
    for dtype in FLOAT:
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


def test_results_whose_size_depends_on_values():
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


def test_places_and_repeats():
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
    COVERED.update({"SearchSorted", "SearchSorteds", "Bucketize", "RepeatInterleave", "RepeatInterleaveWithDim",
                    "RepeatInterleaveTensor"})


def test_reductions_by_index():
    for dtype in (torch.float32, torch.int64):
        x = make((3, 5), dtype, -9, 9)
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
    COVERED.update({"ScatterReduce", "InplaceScatterReduce", "IndexAddV2", "InplaceFillDiagonal", "IsInTensorScalar",
                    "IsInScalarTensor", "AddRelu", "InplaceAddRelu"})


def test_losses_and_scales():
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
    COVERED.update({"LeftShifts", "Logit", "LogitGrad", "MaskedScale", "LogSigmoid", "KlDivTargetBackward",
                    "AmpUpdateScale", "RotaryPositionEmbeddingV2"})
