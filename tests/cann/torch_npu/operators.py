"""Random operator calls on .npu() tensors, held against PyTorch on the CPU.

    weir cann run -- python tests/cann/torch_npu/operators.py [--seed N] [--rounds N]

Needs torch and torch_npu; `make test-cann` installs them. Ends with 1 if a value differs or a call fails.
"""
import argparse
import random
import sys

import torch
import torch_npu  # noqa: F401
from torch.nn import functional as F

FLOAT = (torch.float32, torch.float16, torch.bfloat16)
INT = (torch.int64, torch.int32)
TOLERANCE = {torch.float32: 2e-4, torch.float16: 8e-3, torch.bfloat16: 5e-2, torch.float64: 1e-9}


def values(shape, dtype, low=-2.0, high=2.0):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape) * (high - low) + low).to(dtype)
    return torch.randint(int(low), int(high) + 1, shape, dtype=dtype)


def shape():
    return tuple(random.randint(1, 6) for _ in range(random.randint(1, 4)))


def tensor(dtype, low=-2.0, high=2.0, of=None):
    """Contiguous, turned or sliced."""
    of = of or shape()
    kind = random.randrange(3)
    if kind == 1 and len(of) > 1:
        return values(of[:-2] + (of[-1], of[-2]), dtype, low, high).transpose(-1, -2)
    if kind == 2:
        return values(of[:-1] + (of[-1] * 2,), dtype, low, high)[..., ::2]
    return values(of, dtype, low, high)


def floats():
    return random.choice(FLOAT)


def numbers():
    return random.choice(FLOAT + INT)


UNARY = "neg abs relu exp sigmoid tanh sin cos tan atan erf expm1 floor ceil round trunc sign square".split()
UNARY_POSITIVE = "log sqrt rsqrt log2 log10 log1p reciprocal".split()
BINARY = "add sub mul div maximum minimum eq ne lt le gt ge".split()
CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


@case
def unary():
    name = random.choice(UNARY)
    x = tensor(floats())
    return name, lambda x: getattr(torch, name)(x), (x,)


@case
def unary_positive():
    name = random.choice(UNARY_POSITIVE)
    return name, lambda x: getattr(torch, name)(x), (tensor(floats(), 0.5, 4),)


@case
def unary_in_place():
    name = random.choice("neg_ exp_ sigmoid_ tanh_ sin_ floor_ zero_ relu_".split())
    return name, lambda x: getattr(x.clone(), name)(), (tensor(floats()),)


@case
def binary():
    name, of = random.choice(BINARY), shape()
    a, b = numbers(), numbers()
    y = tensor(b, 1, 3, of[random.randint(0, len(of) - 1):])
    return name, lambda x, y: getattr(torch, name)(x, y), (tensor(a, 1, 3, of), y)


@case
def binary_scalar():
    name, s = random.choice(BINARY[:4] + BINARY[6:]), random.choice((2, 3, 1.5))
    return f"{name} scalar", lambda x: getattr(torch, name)(x, s), (tensor(numbers(), 1, 3),)


@case
def division():
    mode, dtype = random.choice(("floor", "trunc", None)), random.choice((torch.float32,) + INT)
    return f"div {mode}", lambda x, y: torch.div(x, y, rounding_mode=mode), (
        tensor(dtype, -9, 9, (3, 4)), tensor(dtype, 1, 4, (4,)))


@case
def remainders():
    fn, dtype = random.choice((torch.remainder, torch.fmod, torch.floor_divide)), random.choice((torch.float32,) + INT)
    return fn.__name__, fn, (tensor(dtype, -9, 9, (3, 4)), tensor(dtype, 1, 4, (4,)))


@case
def logic():
    fn = random.choice((torch.logical_and, torch.logical_or, torch.logical_xor))
    of = shape()
    return fn.__name__, fn, (tensor(torch.bool, of=of), tensor(torch.bool, of=of))


@case
def bits():
    fn, of = random.choice((torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor)), shape()
    dtype = random.choice(INT + (torch.bool,))
    return fn.__name__, fn, (tensor(dtype, 0, 60, of), tensor(dtype, 0, 60, of))


@case
def powers():
    p = random.choice((2, 3, 0.5, -1.0))
    return f"pow {p}", lambda x: torch.pow(x, p), (tensor(floats(), 0.5, 2),)


@case
def clamps():
    low, high = sorted(random.sample((-1.0, -0.5, 0.0, 0.5, 1.0), 2))
    return "clamp", lambda x: torch.clamp(x, low, high), (tensor(floats()),)


@case
def where():
    of, dtype = shape(), numbers()
    return "where", torch.where, (tensor(torch.bool, of=of), tensor(dtype, of=of), tensor(dtype, of=of))


@case
def lerp():
    of, w = shape(), random.random()
    return "lerp", lambda a, b: torch.lerp(a, b, w), (tensor(torch.float32, of=of), tensor(torch.float32, of=of))


@case
def addc():
    fn, of = random.choice((torch.addcmul, torch.addcdiv)), shape()
    return fn.__name__, lambda a, b, c: fn(a, b, c, value=0.5), tuple(tensor(torch.float32, 1, 2, of) for _ in range(3))


@case
def sums():
    of = shape()
    dim, keep = random.randrange(len(of)), random.random() < 0.5
    name = random.choice(("sum", "mean", "amax", "amin", "prod", "logsumexp", "std", "var", "norm"))
    dtype = torch.float32 if name in ("prod", "std", "var") else floats()
    if name in ("std", "var") and of[dim] < 2:
        name = "sum"
    return f"{name} dim", lambda x: getattr(torch, name)(x, dim=dim, keepdim=keep), (tensor(dtype, of=of),)


@case
def whole_sums():
    name = random.choice(("sum", "mean", "max", "min"))
    return name, lambda x: getattr(torch, name)(x), (tensor(floats()),)


@case
def all_any():
    name, of = random.choice(("all", "any")), shape()
    dim = random.randrange(len(of))
    return name, lambda x: getattr(torch, name)(x, dim=dim), (tensor(torch.bool, of=of),)


@case
def extremes():
    of, name = shape(), random.choice(("max", "min"))
    dim = random.randrange(len(of))
    return f"{name} dim", lambda x: getattr(torch, name)(x, dim=dim).values, (tensor(floats(), of=of),)


@case
def order():
    of, down = shape(), random.random() < 0.5
    dim = random.randrange(len(of))
    return "sort", lambda x: torch.sort(x, dim=dim, descending=down).values, (tensor(floats(), of=of),)


@case
def topk():
    of = shape()
    k = random.randint(1, of[-1])
    return "topk", lambda x: torch.topk(x, k).values, (tensor(floats(), of=of),)


@case
def cumulative():
    of = shape()
    dim = random.randrange(len(of))
    return "cumsum", lambda x: torch.cumsum(x, dim), (tensor(random.choice((torch.float32,) + INT), of=of),)


@case
def products():
    b, m, k, n = (random.randint(1, 9) for _ in range(4))
    dtype = floats()
    kind = random.choice(("mm", "bmm", "matmul", "addmm", "linear", "baddbmm"))
    a, w = tensor(dtype, -1, 1, (m, k)), tensor(dtype, -1, 1, (k, n))
    if kind == "mm":
        return kind, torch.mm, (a, w)
    if kind == "addmm":
        return kind, torch.addmm, (tensor(dtype, of=(n,)), a, w)
    if kind == "linear":
        return kind, F.linear, (tensor(dtype, -1, 1, (b, m, k)), tensor(dtype, -1, 1, (n, k)), tensor(dtype, of=(n,)))
    x, y = tensor(dtype, -1, 1, (b, m, k)), tensor(dtype, -1, 1, (b, k, n))
    if kind == "baddbmm":
        return kind, torch.baddbmm, (tensor(dtype, of=(b, m, n)), x, y)
    return kind, getattr(torch, kind), (x, y)


@case
def activations():
    fn = random.choice((F.gelu, F.silu, F.elu, F.leaky_relu, F.hardswish, F.hardsigmoid, F.softplus, F.mish,
                        F.hardtanh, F.logsigmoid))
    return fn.__name__, fn, (tensor(floats()),)


@case
def softmaxes():
    of, fn = shape(), random.choice((F.softmax, F.log_softmax))
    dim = random.randrange(len(of))
    return fn.__name__, lambda x: fn(x, dim), (tensor(floats(), of=of),)


@case
def norms():
    of = shape()
    n = of[-1]
    return "layer_norm", lambda x, w, b: F.layer_norm(x, (n,), w, b), (
        tensor(torch.float32, of=of), tensor(torch.float32, of=(n,)), tensor(torch.float32, of=(n,)))


@case
def group_norm():
    return "group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (
        tensor(torch.float32, of=(2, 4, 3, 3)), tensor(torch.float32, of=(4,)), tensor(torch.float32, of=(4,)))


@case
def convolutions():
    stride, padding, groups = random.choice((1, 2)), random.choice((0, 1)), random.choice((1, 2))
    return "conv2d", lambda x, w, b: F.conv2d(x, w, b, stride, padding, 1, groups), (
        values((2, 4, 7, 8), torch.float32), values((6, 4 // groups, 3, 2), torch.float32), values((6,), torch.float32))


@case
def reading():
    dtype = numbers()
    x = tensor(dtype, of=(6, 4, 5))
    i = torch.randint(0, 4, (3,))
    kind = random.choice(("select", "index", "gather", "embedding", "slice", "index2"))
    g = torch.randint(0, 4, (6, 3, 5))
    fn = {"select": lambda x, i, g: x.index_select(1, i), "index": lambda x, i, g: x[:, i],
          "gather": lambda x, i, g: x.gather(1, g), "embedding": lambda x, i, g: F.embedding(i, x[:, :, 0]),
          "slice": lambda x, i, g: x[1:5, ::2, 1:] + 0, "index2": lambda x, i, g: x[i, :, i]}[kind]
    return f"reading {kind}", fn, (x, i, g)


@case
def writing():
    dtype = numbers()
    i = torch.tensor([3, 0])
    kind = random.choice(("fill", "copy", "put", "scatter", "masked", "add"))
    src = tensor(dtype, of=(2, 5))
    fn = {"fill": lambda x, i, s: x.index_fill(0, i, 2), "copy": lambda x, i, s: x.index_copy(0, i, s),
          "put": lambda x, i, s: x.clone().index_put_((i,), s),
          "scatter": lambda x, i, s: x.scatter(0, i.view(2, 1).expand(2, 5), s),
          "masked": lambda x, i, s: x.masked_fill(x > 0, 3), "add": lambda x, i, s: x.index_add(0, i, s)}[kind]
    return f"writing {kind}", fn, (values((6, 5), dtype), i, src)


@case
def shapes():
    dtype = numbers()
    kind = random.choice(("cat", "stack", "permute", "repeat", "flip", "roll", "tril", "pad", "split", "expand"))
    fn = {"cat": lambda x: torch.cat((x, x), 1), "stack": lambda x: torch.stack((x, x), 1),
          "permute": lambda x: x.permute(2, 0, 1).contiguous(), "repeat": lambda x: x.repeat(2, 1, 3),
          "flip": lambda x: x.flip(0, 2), "roll": lambda x: x.roll(2, 1), "tril": lambda x: x.tril(-1),
          "pad": lambda x: F.pad(x, (1, 2, 0, 1)), "split": lambda x: x.split(2, 1)[0] * 1,
          "expand": lambda x: x[:, :1].expand(3, 7, 5).contiguous()}[kind]
    return kind, fn, (tensor(dtype, of=(3, 4, 5)),)


@case
def making():
    kind = random.choice(("arange", "full", "zeros", "eye", "linspace"))
    fn = {"arange": lambda x: torch.arange(1, 20, 3, device=x.device), "full": lambda x: torch.full((3, 4), 2.5, device=x.device),
          "zeros": lambda x: torch.zeros_like(x), "eye": lambda x: torch.eye(4, 5, device=x.device),
          "linspace": lambda x: torch.linspace(0, 1, 7, device=x.device)}[kind]
    return kind, fn, (tensor(torch.float32),)


@case
def casts():
    a, b = numbers(), numbers()
    return f"to {b}", lambda x: x.to(b), (tensor(a),)


@case
def finding():
    return "nonzero", lambda x: torch.nonzero(x), (tensor(torch.int64, 0, 1),)


@case
def masked_select():
    return "masked_select", lambda x: x[x > 0], (tensor(torch.float32),)


@case
def losses():
    kind = random.choice(("mse", "l1", "smooth", "bce", "cross", "nll"))
    t = torch.randint(0, 5, (6,))
    fn = {"mse": lambda x, y, t: F.mse_loss(x, y), "l1": lambda x, y, t: F.l1_loss(x, y),
          "smooth": lambda x, y, t: F.smooth_l1_loss(x, y),
          "bce": lambda x, y, t: F.binary_cross_entropy_with_logits(x, y),
          "cross": lambda x, y, t: F.cross_entropy(x, t), "nll": lambda x, y, t: F.nll_loss(x.log_softmax(1), t)}[kind]
    return f"{kind} loss", fn, (values((6, 5), torch.float32), values((6, 5), torch.float32, 0, 1), t)


@case
def gradients():
    """Of a small network, by autograd."""
    def fn(x, w, b, t):
        leaves = [v.detach().clone().requires_grad_() for v in (x, w, b)]
        h = F.silu(F.layer_norm(leaves[0] @ leaves[1] + leaves[2], (6,)))
        loss = F.cross_entropy(F.gelu(h) * h.sigmoid() + h.tanh(), t) + h.pow(2).mean()
        loss.backward()
        return torch.cat([v.grad.flatten() for v in leaves])
    return "gradient", fn, (values((4, 5), torch.float32), values((5, 6), torch.float32), values((6,), torch.float32),
                            torch.randint(0, 6, (4,)))


def difference(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    if not want.dtype.is_floating_point:
        return None if torch.equal(got, want) else "other values"
    t = TOLERANCE[want.dtype]
    if torch.allclose(got.double(), want.double(), rtol=t, atol=t, equal_nan=True):
        return None
    return f"off by {(got.double() - want.double()).abs().max().item():g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--case", choices=CASES)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    bad, n = {}, 0
    for _ in range(args.rounds):
        for name in [args.case] if args.case else CASES:
            what, fn, operands = CASES[name]()
            n += 1
            try:
                got = fn(*(x.npu() for x in operands)).cpu()
            except RuntimeError as e:  # torch_npu runs nothing more after one
                print(f"FAILED {name}: {what}: {e}\n{n} calls, the last one was refused")
                return 1
            error = difference(got, fn(*operands))
            if error:
                kinds = ", ".join(f"{x.dtype} {tuple(x.shape)}/{x.stride()}" for x in operands)
                bad.setdefault(f"{name}: {what}: {error}", kinds)
    for text, kinds in bad.items():
        print(f"FAILED {text} ({kinds})")
    print(f"{n} calls, {len(bad)} kinds of failure")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
