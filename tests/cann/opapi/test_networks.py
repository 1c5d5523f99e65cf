"""Activations, losses, norms and matrices against PyTorch's own, gradients against autograd."""
import pytest
import torch
from torch.nn import functional as F

from aclnn import call
from samples import FLOAT, TYPES, close, empty_like, layouts, make

COVERED = set()


def stats(dtype, *shape):
    """Where means and the like go: f32, or f64 beside f64."""
    return torch.empty(*shape, dtype=torch.float64 if dtype == torch.float64 else torch.float32)


def grad_of(fn, x, g):
    x = x.double().detach().requires_grad_()
    y = fn(x)
    y.backward(g.double())
    return x.grad


# name: (function, operands after self, how to call PyTorch)
ACTIVATIONS = {
    "LeakyRelu": ((0.1,), lambda x: F.leaky_relu(x, 0.1)),
    "Elu": ((1.5, 1.0, 1.0), lambda x: F.elu(x, 1.5)),
    "Celu": ((1.5,), lambda x: F.celu(x, 1.5)),
    "Threshold": ((0.5, 2.0), lambda x: F.threshold(x, 0.5, 2.0)),
    "Hardtanh": ((-1.0, 1.5), lambda x: F.hardtanh(x, -1.0, 1.5)),
    "Softplus": ((2.0, 3.0), lambda x: F.softplus(x, 2.0, 3.0)),
    "Softshrink": ((0.5,), lambda x: F.softshrink(x, 0.5)),
    "Hardshrink": ((0.5,), lambda x: F.hardshrink(x, 0.5)),
    "GeluV2": ((1,), lambda x: F.gelu(x, approximate="tanh")),
    "Glu": ((-1,), lambda x: F.glu(x, -1)),
    "SwiGlu": ((-1,), lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
    "GeluMul": (("tanh",), lambda x: F.gelu(x.chunk(2, -1)[0], approximate="tanh") * x.chunk(2, -1)[1]),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    operands, reference = ACTIVATIONS[name]
    COVERED.add(name)
    for dtype in FLOAT:
        for x in layouts((3, 4, 6), dtype, -4, 4):
            want = reference(x.double())
            out = empty_like(want, dtype, strided=True)
            call(name, x, *operands, out)
            close(out, want, 3, f"{name} {dtype}")
            if name in ("LeakyRelu", "Elu", "Celu", "Threshold", "Hardtanh"):
                y = x.clone()
                call(f"Inplace{name}", y, *operands)
                close(y, want, 3)
                COVERED.add(f"Inplace{name}")


# name: (operands between grad and out with X for self and Y for the output, function)
GRADIENTS = {
    "GeluBackward": (("X",), F.gelu),
    "GeluBackwardV2": (("X", "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "FastGeluBackward": (("X",), lambda x: x * torch.sigmoid(1.702 * x)),
    "SigmoidBackward": (("Y",), torch.sigmoid), "TanhBackward": (("Y",), torch.tanh),
    "SiluBackward": (("X",), F.silu), "ThresholdBackward": (("X", 0.5), lambda x: F.threshold(x, 0.5, 0)),
    "LeakyReluBackward": (("X", 0.1, False), lambda x: F.leaky_relu(x, 0.1)),
    "EluBackward": ((1.5, 1.0, 1.0, False, "X"), lambda x: F.elu(x, 1.5)),
    "SoftplusBackward": (("X", 2.0, 3.0), lambda x: F.softplus(x, 2.0, 3.0)),
    "MishBackward": (("X",), F.mish), "LogSigmoidBackward": (("X", None), F.logsigmoid),
    "SoftshrinkBackward": (("X", 0.5), lambda x: F.softshrink(x, 0.5)),
    "HardshrinkBackward": (("X", 0.5), lambda x: F.hardshrink(x, 0.5)),
    "HardsigmoidBackward": (("X",), F.hardsigmoid), "HardswishBackward": (("X",), F.hardswish),
    "HardswishBackwardV2": (("X",), F.hardswish),
    "HardtanhBackward": (("X", -1.0, 1.5), lambda x: F.hardtanh(x, -1.0, 1.5)),
    "GluBackward": (("X", -1), lambda x: F.glu(x, -1)),
    "SwiGluGrad": (("X", -1), lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
    "SoftmaxBackward": (("Y", 1), lambda x: F.softmax(x, 1)),
    "LogSoftmaxBackward": (("Y", 1), lambda x: F.log_softmax(x, 1)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    operands, reference = GRADIENTS[name]
    COVERED.add(name)
    for dtype in FLOAT:
        for x in layouts((3, 4, 6), dtype, -4, 4):
            y = reference(x.double()).to(dtype)
            g = make(tuple(y.shape), dtype)
            want = grad_of(reference, x, g)
            out = empty_like(x, strided=True)
            args = [x if a == "X" else y if a == "Y" else a for a in operands]
            call(name, g, *args, out)
            # PyTorch's own 1/6 is one of f32
            close(out, want, 100 if name == "HardsigmoidBackward" else 8, f"{name} {dtype}")


def test_elu_backward_of_the_result():
    x = make((20,), torch.float32)
    g = make((20,), torch.float32)
    y = F.elu(x, 1.5)
    out = empty_like(x)
    call("EluBackward", g, 1.5, 1.0, 1.0, True, y, out)
    close(out, grad_of(lambda t: F.elu(t, 1.5), x, g), 4)


def test_gated_gelu():
    for dtype in FLOAT:
        for left in (False, True):
            for approximate, text in ((0, "none"), (1, "tanh")):
                x = make((3, 8), dtype)

                def reference(t):
                    a, b = t.chunk(2, -1)
                    return F.gelu(a, approximate=text) * b if left else F.gelu(b, approximate=text) * a

                want = reference(x.double())
                out, gelu = empty_like(want, dtype), empty_like(want, dtype)
                call("GeGluV3", x, -1, approximate, left, out, gelu)
                close(out, want, 3)
                g = make((3, 4), dtype)
                dx = empty_like(x)
                call("GeGluV3Backward", g, x, gelu, -1, approximate, left, dx)
                close(dx, grad_of(reference, x, g), 8)
    COVERED.update({"GeGluV3", "GeGluV3Backward"})


def test_prelu_and_log_sigmoid():
    for dtype in FLOAT:
        x, w = make((2, 3, 4), dtype), make((3,), dtype)
        out = empty_like(x)
        call("Prelu", x, w, out)
        close(out, F.prelu(x.double(), w.double()), 2)
        call("Prelu", x, w[:1], out)
        close(out, F.prelu(x.double(), w[:1].double()), 2)
        buffer = empty_like(x)
        call("LogSigmoidForward", x, out, buffer)
        close(out, F.logsigmoid(x.double()), 3)
    COVERED.update({"Prelu", "LogSigmoidForward"})


LOSSES = {
    "MseLoss": (F.mse_loss, ()), "L1Loss": (F.l1_loss, ()), "SmoothL1Loss": (F.smooth_l1_loss, (0.5,)),
    "SoftMarginLoss": (F.soft_margin_loss, ()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name):
    reference, more = LOSSES[name]
    named = {"beta": more[0]} if more else {}
    COVERED.update({name, f"{name}Backward"})
    for dtype in FLOAT:
        for code, text in enumerate(("none", "mean", "sum")):
            x, t = make((3, 4), dtype), make((3, 4), dtype)
            if name == "SoftMarginLoss":
                t = t.sign() + (t == 0).to(dtype)
            fn = lambda v: reference(v, t.double(), reduction=text, **named)  # noqa: E731
            want = fn(x.double())
            out = empty_like(want, dtype)
            call(name, x, t, code, *more, out)
            close(out, want, 8, f"{name} {dtype} {text}")
            g = make(tuple(want.shape), dtype)
            dx = empty_like(x)
            call(f"{name}Backward", g, x, t, code, *more, dx)
            close(dx, grad_of(fn, x, g), 8)


def test_kl_divergence():
    for dtype in FLOAT:
        for log_target in (False, True):
            for code, text in enumerate(("none", "mean", "sum")):
                x, t = make((3, 4), dtype, -3, 0), make((3, 4), dtype, 0.1, 1)
                fn = lambda v: F.kl_div(v, t.double(), reduction=text, log_target=log_target)  # noqa: E731
                want = fn(x.double())
                out = empty_like(want, dtype)
                call("KlDiv", x, t, code, log_target, out)
                close(out, want, 8)
                g, dx = make(tuple(want.shape), dtype), empty_like(x)
                call("KlDivBackward", g, x, t, code, log_target, dx)
                close(dx, grad_of(fn, x, g), 8)
    COVERED.update({"KlDiv", "KlDivBackward"})


def test_binary_cross_entropy():
    for dtype in FLOAT:
        for weight in (None, make((4,), dtype, 0.5, 2)):
            for code, text in enumerate(("none", "mean", "sum")):
                t = make((3, 4), dtype, 0, 1)
                w = weight.double() if weight is not None else None
                p = make((3, 4), dtype, 0.1, 0.9)
                fn = lambda v: F.binary_cross_entropy(v, t.double(), w, reduction=text)  # noqa: E731
                want = fn(p.double())
                out = empty_like(want, dtype)
                call("BinaryCrossEntropy", p, t, weight, code, out)
                close(out, want, 8)
                g, dx = make(tuple(want.shape), dtype), empty_like(p)
                call("BinaryCrossEntropyBackward", g, p, t, weight, code, dx)
                close(dx, grad_of(fn, p, g), 16)
                for pos in (None, make((4,), dtype, 0.5, 2)):
                    x = make((3, 4), dtype)
                    pw = pos.double() if pos is not None else None
                    fn = lambda v: F.binary_cross_entropy_with_logits(  # noqa: E731
                        v, t.double(), w, reduction=text, pos_weight=pw)
                    want = fn(x.double())
                    out = empty_like(want, dtype)
                    call("BinaryCrossEntropyWithLogits", x, t, weight, pos, code, out)
                    close(out, want, 8)
                    call("BinaryCrossEntropyWithLogitsBackward", g, x, t, weight, pos, code, dx)
                    close(dx, grad_of(fn, x, g), 8)
    COVERED.update({"BinaryCrossEntropy", "BinaryCrossEntropyBackward",
                    "BinaryCrossEntropyWithLogits", "BinaryCrossEntropyWithLogitsBackward"})


@pytest.mark.parametrize("two_dims", (False, True))
def test_negative_log_likelihood(two_dims):
    shape = (2, 5, 3, 4) if two_dims else (6, 5)
    names = ("NLLLoss2d", "NLLLoss2dBackward") if two_dims else ("NLLLoss", "NLLLossBackward")
    COVERED.update(names)
    for dtype in FLOAT:
        for weight in (None, make((5,), dtype, 0.5, 2)):
            for code, text in enumerate(("none", "mean", "sum")):
                x = F.log_softmax(make(shape, dtype), 1)
                t = torch.randint(0, 5, shape[:1] + shape[2:])
                t.view(-1)[1] = -100
                w = weight.double() if weight is not None else None
                fn = lambda v: F.nll_loss(v, t, w, reduction=text)  # noqa: E731
                want = fn(x.double())
                out, total = empty_like(want, dtype), torch.empty((), dtype=dtype)
                call(names[0], x, t, weight, code, -100, out, total)
                close(out, want, 8)
                used = (t != -100).double() if w is None else torch.where(
                    t == -100, torch.zeros((), dtype=torch.float64), w[t.clamp_min(0)])
                if text != "none":
                    close(total, used.sum(), 4)
                g, dx = make(tuple(want.shape), dtype), empty_like(x)
                call(names[1], g, x, t, weight, code, -100, total, dx)
                close(dx, grad_of(fn, x, g), 16)


def test_cross_entropy():
    x, t = make((6, 5), torch.float32), torch.randint(0, 5, (6,))
    p = F.softmax(make((6, 5), torch.float32), 1)
    loss, dx = torch.empty(6), empty_like(x)
    call("SoftmaxCrossEntropyWithLogits", x, p, loss, dx)
    close(loss, F.cross_entropy(x, p, reduction="none"), 2)
    close(dx, grad_of(lambda v: F.cross_entropy(v, p.double(), reduction="sum"), x, torch.tensor(1.)), 2)
    for text in ("none", "mean", "sum"):
        for smoothing in (0.0, 0.1):
            want = F.cross_entropy(x, t, reduction=text, label_smoothing=smoothing)
            out, logp = empty_like(want), empty_like(x)
            call("CrossEntropyLoss", x, t, None, text, -100, smoothing, 0.0, False, out, logp, None, None)
            close(out, want, 2)
            close(logp, F.log_softmax(x, 1), 2)
    COVERED.update({"SoftmaxCrossEntropyWithLogits", "CrossEntropyLoss"})


def test_softmax():
    for dtype in FLOAT:
        for x in layouts((3, 4, 5), dtype):
            for dim in (0, 1, -1):
                for name, reference in (("Softmax", F.softmax), ("LogSoftmax", F.log_softmax)):
                    out = empty_like(x, strided=True)
                    call(name, x, dim, out)
                    close(out, reference(x.double(), dim), 4)
        x = make((3, 4), dtype)
        out = empty_like(x, torch.float32)
        call("Softmax", x, -1, out)
        close(out, F.softmax(x.double(), -1), 2)
        mask = make((2, 1, 4, 6), torch.bool)
        x = make((2, 3, 4, 6), dtype)
        want = F.softmax((x.double() * 0.5).masked_fill(mask, -10000), -1)
        out = empty_like(x)
        call("ScaledMaskedSoftmax", x, mask, 0.5, False, out)
        close(out, want, 4)
        g, dx = make((2, 3, 4, 6), dtype), empty_like(x)
        call("ScaledMaskedSoftmaxBackward", g, out, mask, 0.5, False, dx)
        close(dx, grad_of(lambda v: F.softmax((v * 0.5).masked_fill(mask, -10000), -1), x, g), 8)
    COVERED.update({"Softmax", "LogSoftmax", "ScaledMaskedSoftmax", "ScaledMaskedSoftmaxBackward"})


def test_layer_norm():
    for dtype in FLOAT:
        for affine in (False, True):
            x = make((2, 3, 4, 5), dtype)
            w, b = (make((4, 5), dtype), make((4, 5), dtype)) if affine else (None, None)
            wd, bd = (w.double(), b.double()) if affine else (None, None)
            fn = lambda v: F.layer_norm(v, (4, 5), wd, bd, 1e-5)  # noqa: E731
            out = empty_like(x, strided=True)
            mean, rstd = stats(dtype, 2, 3, 1, 1), stats(dtype, 2, 3, 1, 1)
            call("LayerNorm", x, (4, 5), w, b, 1e-5, out, mean, rstd)
            close(out, fn(x.double()), 6)
            flat = x.double().flatten(2)
            close(mean, flat.mean(-1).view(2, 3, 1, 1), 100 if dtype != torch.float64 else 1)
            g = make((2, 3, 4, 5), dtype)
            dx, dw, db = empty_like(x), torch.empty(4, 5, dtype=dtype), torch.empty(4, 5, dtype=dtype)
            call("LayerNormBackward", g, x, (4, 5), mean, rstd, w, b, (True, affine, affine), dx,
                 dw if affine else None, db if affine else None)
            close(dx, grad_of(fn, x, g), 16)
            if affine:
                close(dw, grad_of(lambda v: F.layer_norm(x.double(), (4, 5), v, bd), w, g), 16)
                close(db, grad_of(lambda v: F.layer_norm(x.double(), (4, 5), wd, v), b, g), 16)
    out = torch.empty(3, 4)
    x = make((3, 4), torch.float32)
    call("FastLayerNorm", x, (4,), None, None, 1e-5, out, None, None)
    close(out, F.layer_norm(x, (4,)), 2)
    y, m, r, s = torch.empty(3, 4), torch.empty(3, 1), torch.empty(3, 1), torch.empty(3, 4)
    w, b = make((4,), torch.float32), make((4,), torch.float32)
    call("AddLayerNorm", x, out, w, b, None, 1e-5, True, y, m, r, s)
    close(s, x + out)
    close(y, F.layer_norm(x + out, (4,), w, b), 2)
    COVERED.update({"LayerNorm", "LayerNormBackward", "FastLayerNorm", "AddLayerNorm"})


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def test_rms_norm():
    for dtype in FLOAT:
        x, x2, w = make((2, 3, 8), dtype), make((2, 3, 8), dtype), make((8,), dtype)
        xd, wd = x.double(), w.double()
        y, rstd = empty_like(x, strided=True), stats(dtype, 2, 3, 1)
        call("RmsNorm", x, w, 1e-6, y, rstd)
        close(y, rms(xd, wd), 4)
        close(rstd, torch.rsqrt(xd.pow(2).mean(-1, keepdim=True) + 1e-6), 10)
        g, dx, dw = make((2, 3, 8), dtype), empty_like(x), stats(dtype, 8)
        call("RmsNormGrad", g, x, rstd, w, dx, dw)
        close(dx, grad_of(lambda v: rms(v, wd), x, g), 16)
        close(dw, grad_of(lambda v: rms(xd, v), w, g), 16)
        call("GemmaRmsNorm", x, w, 1e-6, y, rstd)
        close(y, rms(xd, wd + 1), 4)
        total = (x.float() + x2.float()).to(dtype) if dtype != torch.float64 else x + x2
        s = empty_like(x)
        call("AddRmsNorm", x, x2, w, 1e-6, y, rstd, s)
        close(s, total)
        close(y, rms(total.double(), wd), 4)
        y32 = empty_like(x, torch.float32)
        if dtype != torch.float64:
            call("AddRmsNormCast", x, x2, w, 1e-6, y32, y, rstd, s)
            close(y, rms(total.double(), wd), 4)
            close(y32, y.double())
        a, b = x.clone(), x2.clone()
        call("InplaceAddRmsNorm", a, b, w, 1e-6, rstd)
        close(b, total)
        close(a, rms(total.double(), wd), 4)
    COVERED.update({"RmsNorm", "RmsNormGrad", "GemmaRmsNorm", "AddRmsNorm", "AddRmsNormCast",
                    "InplaceAddRmsNorm"})


def test_group_and_batch_norm():
    for dtype in FLOAT:
        x, w, b = make((2, 6, 3, 4), dtype), make((6,), dtype), make((6,), dtype)
        wd, bd = w.double(), b.double()
        fn = lambda v: F.group_norm(v, 3, wd, bd, 1e-5)  # noqa: E731
        out, mean, rstd = empty_like(x), stats(dtype, 2, 3), stats(dtype, 2, 3)
        call("GroupNorm", x, w, b, 2, 6, 12, 3, 1e-5, out, mean, rstd)
        close(out, fn(x.double()), 6)
        g, dx, dw, db = make(tuple(x.shape), dtype), empty_like(x), empty_like(w), empty_like(b)
        call("GroupNormBackward", g, x, mean, rstd, w, 2, 6, 12, 3, (True, True, True), dx, dw, db)
        close(dx, grad_of(fn, x, g), 16)
        close(dw, grad_of(lambda v: F.group_norm(x.double(), 3, v, bd), w, g), 16)
        close(db, grad_of(lambda v: F.group_norm(x.double(), 3, wd, v), b, g), 16)
        call("GroupNormSilu", x, w, b, 3, 1e-5, out, mean, rstd)
        close(out, F.silu(fn(x.double())), 6)
        for training in (True, False):
            t = stats(dtype, 0).dtype
            rm, rv = make((6,), t), make((6,), t, 0.5, 2)
            rmd, rvd = rm.double().clone(), rv.double().clone()
            want = F.batch_norm(x.double(), rmd, rvd, wd, bd, training, 0.1, 1e-5)
            save_mean, save_inv = stats(dtype, 6), stats(dtype, 6)
            before = rm.clone(), rv.clone()
            call("BatchNorm", x, w, b, rm, rv, training, 0.1, 1e-5, out, save_mean, save_inv)
            close(out, want, 6)
            close(rm, rmd, 100)
            close(rv, rvd, 100)
            fn = lambda v: F.batch_norm(v, before[0].double(), before[1].double(), wd, bd, training)  # noqa: E731
            call("BatchNormBackward", g, x, w, before[0], before[1], save_mean, save_inv, training,
                 1e-5, (True, True, True), dx, dw, db)
            close(dx, grad_of(fn, x, g), 16)
            close(db, g.double().sum((0, 2, 3)), 16)
    COVERED.update({"GroupNorm", "GroupNormBackward", "GroupNormSilu", "BatchNorm",
                    "BatchNormBackward"})


def test_matrix_products():
    for dtype in TYPES["NUMBER"]:
        exact = lambda t: t.double() if t.is_floating_point() else t.long()  # noqa: E731
        a, b = make((4, 6), dtype), make((5, 6), dtype).t()
        out = empty_like(torch.empty(4, 5), dtype)
        before = b.clone()
        call("TransMatmulWeight", b)
        assert torch.equal(b, before)
        for name in ("Mm", "Matmul", "MatmulWeightNz"):
            call(name, a, b, out, 1)
            close(out, (exact(a) @ exact(b)).to(dtype), 4)
        a, b = make((2, 3, 4, 6), dtype), make((3, 6, 5), dtype)
        out = torch.empty(2, 3, 4, 5, dtype=dtype)
        for name in ("Matmul", "BatchMatMul", "BatchMatMulWeightNz"):
            call(name, a, b, out, 1)
            close(out, (exact(a) @ exact(b)).to(dtype), 4)
        v = make((6,), dtype)
        out = torch.empty(3, 6 - 2, dtype=dtype)
        call("Mv", a[0, 0], v, out[0], 0)
        close(out[0], (exact(a[0, 0]) @ exact(v)).to(dtype), 4)
        dot = torch.empty((), dtype=dtype)
        call("Dot", v, v, dot)
        close(dot, (exact(v) @ exact(v)).to(dtype), 4)
        for beta, alpha in ((1, 1), (2, 3), (0, 1)):
            m1, m2 = make((4, 6), dtype), make((6, 5), dtype)
            for self in (make((4, 5), dtype), make((5,), dtype)):
                want = (beta * exact(self) + alpha * (exact(m1) @ exact(m2))).to(dtype)
                out = torch.empty(4, 5, dtype=dtype)
                for name in ("Addmm", "AddmmWeightNz"):
                    call(name, self, m1, m2, beta, alpha, out, 1)
                    close(out, want, 8, f"{name} {dtype}")
            self = make((4, 5), dtype)
            want = (beta * exact(self) + alpha * (exact(m1) @ exact(m2))).to(dtype)
            call("InplaceAddmm", self, m1, m2, beta, alpha, 1)
            close(self, want, 8)
            b1, b2 = make((3, 4, 6), dtype), make((3, 6, 5), dtype)
            self = make((3, 4, 5), dtype)
            want = (beta * exact(self) + alpha * (exact(b1) @ exact(b2))).to(dtype)
            out = torch.empty(3, 4, 5, dtype=dtype)
            call("Baddbmm", self, b1, b2, beta, alpha, out, 1)
            close(out, want, 8)
            call("InplaceBaddbmm", self, b1, b2, beta, alpha, 1)
            close(self, want, 8)
            if dtype.is_floating_point:
                self, out = make((4, 5), dtype), torch.empty(4, 5, dtype=dtype)
                want = beta * exact(self) + alpha * (exact(b1) @ exact(b2)).sum(0)
                call("Addbmm", self, b1, b2, beta, alpha, out, 1)
                close(out, want, 16)
            self, out = make((4,), dtype), torch.empty(4, dtype=dtype)
            call("Addmv", self, m1, v, alpha, beta, out, 1)
            close(out, (beta * exact(self) + alpha * (exact(m1) @ exact(v))).to(dtype), 8)
            self, out = make((4, 6), dtype), torch.empty(4, 6, dtype=dtype)
            u = make((4,), dtype)
            want = (beta * exact(self) + alpha * torch.outer(exact(u), exact(v))).to(dtype)
            call("Addr", self, u, v, beta, alpha, out)
            close(out, want, 8)
            call("InplaceAddr", self, u, v, beta, alpha)
            close(self, want, 8)
    COVERED.add("TransMatmulWeight")
    COVERED.update({"Mm", "Matmul", "MatmulWeightNz", "BatchMatMul", "BatchMatMulWeightNz", "Mv", "Dot",
                    "Addmm", "AddmmWeightNz", "InplaceAddmm", "Baddbmm", "InplaceBaddbmm", "Addbmm",
                    "Addmv", "Addr", "InplaceAddr"})


def test_sums_of_integers_take_the_whole_part_of_their_factors():
    self, m1, m2, v = (torch.randint(-9, 9, shape) for shape in ((4, 5), (4, 6), (6, 5), (6,)))
    for beta, alpha in ((0.2, 0.6), (2.7, -1.2)):
        for name in ("Addmm", "AddmmWeightNz"):
            out = torch.empty(4, 5, dtype=torch.int64)
            call(name, self, m1, m2, beta, alpha, out, 1)
            assert torch.equal(out, torch.addmm(self, m1, m2, beta=beta, alpha=alpha))
        out = torch.empty(1, 4, 5, dtype=torch.int64)
        call("Baddbmm", self[None], m1[None], m2[None], beta, alpha, out, 1)
        assert torch.equal(out[0], torch.addmm(self, m1, m2, beta=beta, alpha=alpha))
        out = torch.empty(4, dtype=torch.int64)
        call("Addmv", self[:, 0], m1, v, alpha, beta, out, 1)
        assert torch.equal(out, torch.addmv(self[:, 0], m1, v, beta=beta, alpha=alpha))


def test_cross_products():
    for dtype in TYPES["NUMBER"]:
        for shape, other, dim in (((4, 3), (4, 3), 1), ((3, 5), (3, 1), 0), ((2, 3, 4), (3, 4), -2)):
            for a in layouts(shape, dtype):
                b, out = make(other, dtype), torch.empty(shape, dtype=dtype)
                call("LinalgCross", a, b, dim, out)
                more = torch.float64 if dtype.is_floating_point else torch.int64
                want = torch.linalg.cross(a.to(more), b.to(more).expand(shape), dim=dim)
                close(out, want.to(dtype), 8)
    COVERED.add("LinalgCross")


def test_fused_and_triangular():
    x, w, b = make((4, 6), torch.float32), make((6, 5), torch.float32), make((5,), torch.float32)
    x3 = make((4, 5), torch.float32)
    y = x @ w + b
    for kind, want in (("", y), ("add", y + x3), ("mul", y * x3), ("gelu_erf", F.gelu(y)),
                       ("gelu_tanh", F.gelu(y, approximate="tanh")), ("relu", F.relu(y))):
        out = torch.empty(4, 5)
        call("FusedMatmul", x, w, b, x3, kind, 1, out)
        close(out, want, 4)
    a = make((2, 4, 4), torch.float32) + 5 * torch.eye(4)
    rhs = make((2, 4, 3), torch.float32)
    for upper in (False, True):
        for transposed in (False, True):
            for unit in (False, True):
                out, m = torch.empty(2, 4, 3), torch.empty(2, 4, 4)
                call("TriangularSolve", rhs, a, upper, transposed, unit, out, m)
                want = torch.triangular_solve(rhs, a, upper, transposed, unit)[0]
                close(out, want, 500 if unit else 8)
    COVERED.update({"FusedMatmul", "TriangularSolve"})
