"""Operators of floats on random views (strided, turned, expanded, at any offset), and updates in place whose input may
overlap their output, give PyTorch's values. WEIR_TEST_PROGRAMS is how many hundred operators are tried on each device."""

import math
import os
import random

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
F = torch.nn.functional

COUNT = 100 * int(os.environ.get("WEIR_TEST_PROGRAMS", 4))
EXACT = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}
UNARY = {"exp": torch.exp, "neg": torch.neg, "relu": torch.relu, "sigmoid": torch.sigmoid, "silu": F.silu, "tanh": torch.tanh,
         "gelu": F.gelu, "abs": torch.abs, "sin": torch.sin}  # fmt: skip
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
REDUCED = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}


def tensor(device, x):
    """A tensor of weir with the values of PyTorch's, which may be of a type that NumPy lacks."""
    return weir.from_dlpack(x.contiguous().clone(), weir.Device("cpu")).to(device)


def values(x):
    x = x.to(weir.Device("cpu")).contiguous()
    return torch.from_dlpack(x).clone().reshape(x.shape)


def close(x, y, looser=1):
    within = EXACT[y.dtype] * looser
    return x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x.double(), y.double(), rtol=within, atol=within)


class Views:
    def __init__(self, seed, device):
        self.pick, self.device = random.Random(seed), device
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = self.pick.choice(list(EXACT))

    def made(self, *shape):
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.dtype)

    def whole(self):
        x = self.made(self.pick.choice((24, 60, 400, 3000)))
        return tensor(self.device, x), x

    def view(self, pair):
        """The same part of both."""
        (w, t), pick = pair, self.pick
        sizes, left = [], t.numel()
        for _ in range(pick.choice((0, 1, 1, 2, 3))):
            sizes.append(pick.choice([n for n in (1, 2, 3, 5, 8, 17, 33) if n <= left]))
            left //= sizes[-1]
        sizes.insert(pick.randint(0, len(sizes)), left)
        start = pick.randint(0, t.numel() - math.prod(sizes))
        w, t = (x[start : start + math.prod(sizes)].reshape(sizes) for x in (w, t))
        for _ in range(pick.choice((0, 1, 2, 3))):
            d = pick.randrange(t.ndim)
            begin = pick.randrange(t.shape[d])
            key = (*[slice(None)] * d, slice(begin, pick.randint(begin + 1, t.shape[d]), pick.choice((1, 1, 2, 3))))
            order = pick.sample(range(t.ndim), t.ndim)
            if pick.random() < 0.5:
                w, t = w[key], t[key]
            elif t.shape[d] == 1 and pick.random() < 0.5:
                grown = [3 if i == d else n for i, n in enumerate(t.shape)]
                w, t = w.expand(grown), t.expand(grown)
            else:
                w, t = w.permute(order), t.permute(order)
        return w, t

    def other(self, t):
        """Another operand, which is broadcast along some dims and turned in memory."""
        order = self.pick.sample(range(t.ndim), t.ndim)
        sizes = [n if self.pick.random() < 0.7 else 1 for n in t.shape]
        x = self.made(*[sizes[d] for d in order])
        back = [order.index(d) for d in range(t.ndim)]
        return tensor(self.device, x).permute(back), x.permute(back)

    def step(self):
        """(its text, whether the values are right)"""
        pick, pair = self.pick, self.whole()
        w, t = self.view(pair)
        wide, d = t.double(), pick.randrange(t.ndim)
        kind = pick.choice(("unary", "binary", "reduce", "softmax", "norm", "matmul", "sort", "concat", "where", "update", "update"))
        text = f"{kind} {self.dtype} {tuple(t.shape)} {t.stride()} dim {d}"
        if kind == "unary":
            name = pick.choice(list(UNARY))
            return f"{name} {text}", close(values(getattr(weir, name)(w)), UNARY[name](wide).to(self.dtype), 4)
        if kind == "reduce":
            name, dims = pick.choice(list(REDUCED)), sorted(pick.sample(range(t.ndim), pick.randint(1, t.ndim)))
            want = REDUCED[name](wide, dims, keepdim=True).to(self.dtype)
            return f"{name} {text} {dims}", close(values(getattr(weir, name)(w, dims, True)), want, 4 + math.sqrt(t.numel()) / 4)
        if kind == "softmax":
            return text, close(values(weir.softmax(w, d)), wide.softmax(d).to(self.dtype), 2)
        if kind == "norm":
            weight = self.made(t.shape[-1])
            want = wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
            return text, close(values(weir.rms_norm(w, tensor(self.device, weight), 1e-6)), want.to(self.dtype), 8)
        if kind == "matmul" and t.ndim > 1:
            b = self.made(t.shape[-1], 7)
            want = (wide @ b.double()).to(self.dtype)
            return text, close(values(weir.matmul(w, tensor(self.device, b))), want, 4 + 2 * math.sqrt(t.shape[-1]))
        if kind == "sort":
            want = t.sort(dim=d, stable=True)
            found = weir.sort(w, d)
            return text, torch.equal(values(found[0]), want[0]) and torch.equal(values(found[1]), want[1])
        if kind == "concat":
            return text, torch.equal(values(weir.concat([w, w], d)), torch.cat((t, t), d))
        b = self.other(t)
        if kind == "where":
            return text, torch.equal(values(weir.where(w > b[0], w, b[0])), torch.where(t > b[1], t, b[1]))
        name = pick.choice(list(BINARY))
        if kind != "update":
            want = BINARY[name](wide, b[1].double()).to(self.dtype)
            return f"{name} {text}", close(values(getattr(weir, name)(w, b[0])), want, 2)
        return f"{name} {text}", self.update(name, pair, w, t, b)

    def update(self, name, pair, w, t, b):
        """Writes to the view: of itself and another, or of a part that overlaps it, which may be refused."""
        if any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape)):
            return True
        rows = t.shape[0] - 1
        to, t_to, operands, t_operands = w, t, (w, b[0]), (t, b[1])
        if rows and self.pick.random() < 0.5:
            to, t_to, operands, t_operands = w[1:], t[1:], (w[:rows],) * 2, (t[:rows],) * 2
        want = BINARY[name](*(x.double() for x in t_operands)).to(self.dtype)
        try:
            getattr(weir, name)(*operands, out=to)
        except ValueError as error:
            return "overlaps" in str(error) and torch.equal(values(pair[0]), pair[1])
        t_to.copy_(want)
        return close(values(pair[0]), pair[1], 2)


@pytest.mark.parametrize("spec", ["cpu:cube=2,vector=4", "npu:a3"])
def test_operators_of_floats_on_views_give_pytorchs_values(spec):
    device, wrong = weir.Device(spec), []
    before = weir.get_device()
    weir.set_device(device)
    try:
        for seed in range(COUNT):
            text, right = Views(seed, device).step()
            if not right:
                wrong.append(f"seed {seed}: {text}")
    finally:
        weir.set_device(before)
    assert not wrong, "\n".join(wrong[:10])
