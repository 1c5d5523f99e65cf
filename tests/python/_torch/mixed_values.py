"""Random expressions of tensors of different types, numbers, and numbers as tensors, nested in each other:
what PyTorch's rules make of the types, and infinities, NaN, signs of zero, denormals, the least whole
numbers, complex values and tensors without elements.

    python tests/python/_torch/mixed_values.py [--seconds 60] [--first 0]

compares programs of 24 expressions with eager PyTorch until the time is over.
"""

import argparse
import itertools
import logging
import random
import time
import warnings

import torch

import weir

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WHOLES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 2e-5, torch.float64: 1e-10,
             torch.complex64: 2e-5, torch.complex128: 1e-10}  # fmt: skip

INF, NAN = float("inf"), float("nan")
NUMBERS = ["0", "1", "-1", "2", "-3", "7", "0.0", "-0.0", "0.5", "-2.5", "1.5", "True", "False", "float('inf')",
           "-float('inf')", "float('nan')", "127", "-128", "255", "100.0", "1e-40", "1e-8"]  # fmt: skip

# x, y, z: operands, tensors of any type or expressions; N, M: numbers; c: a condition; s: a tensor of one number.
TWO = """
torch.where(c, x, y)|torch.where(c, x, N)|torch.where(c, N, x)|torch.where(x > N, x, y)|torch.where(c, N, M)
x.clamp(N, M)|x.clamp(min=N)|x.clamp(max=N)|torch.clamp(x, y, z)|torch.clamp(x, min=y)|torch.clamp(x, max=s)
x.masked_fill(c, N)|x.masked_fill(c, s)|torch.addcmul(x, y, z)|torch.addcmul(x, y, z, value=N)|torch.addcmul(x, y, s)
torch.addcdiv(x, y, z, value=N)|torch.lerp(x, y, N)|torch.lerp(x, y, z)|torch.add(x, y, alpha=N)|torch.sub(x, y, alpha=N)
x + y|x - y|x * y|x / y|x + N|N - x|x * N|x / N|N / x|x + s|s - x|x * s|x / s|x // N|x % N|torch.fmod(x, N)|torch.remainder(x, y)
torch.fmod(x, y)|torch.div(x, y, rounding_mode="floor")|torch.div(x, y, rounding_mode="trunc")|torch.div(x, N, rounding_mode="trunc")
torch.maximum(x, y)|torch.minimum(x, y)|torch.fmax(x, y)|torch.fmin(x, y)|torch.atan2(x, y)|torch.copysign(x, y)|torch.copysign(x, N)
torch.hypot(x, y)|x ** N|x ** y|N ** x|x ** 2|x ** 0.5|x ** -1|x ** s|x == y|x != y|x < y|x <= N|x >= s|N == x|torch.xlogy(x, y)
torch.logaddexp(x, y)|torch.logical_xor(x, y)|torch.logical_and(x, y)|torch.logical_or(x, N)|x & y|x ^ y|torch.heaviside(x, y)
torch.floor_divide(x, y)|torch.nn.functional.threshold(x, N, M)|torch.rsub(x, y)|torch.rsub(x, N, alpha=M)|torch.true_divide(x, N)
cast(x, y)|cast(x, y) + y|torch.isclose(x, y)|torch.dist(x, y)|torch.nn.functional.mse_loss(x, y)|torch.nextafter(x, y)
torch.nn.functional.smooth_l1_loss(x, y)|torch.nn.functional.binary_cross_entropy_with_logits(x, y)|torch.outer(x[0], y[0])|torch.isin(x, y)
torch.cat([x, y])|torch.stack([x, y], 1)|torch.dot(x[0], y[0])|torch.einsum("ij,ij->i", x, y)|x @ y.t()|torch.addmm(x[:, :3], y, z.t())
torch.complex(x, y)|torch.polar(x, y)|torch.ldexp(x, y)|torch.bucketize(x, y[0].sort().values)|torch.gcd(x, y)|torch.index_add(x, 0, i, y[:2])
x.index_put((i,), cast(y[:2], x))|x.index_put((i,), cast(s, x), accumulate=True)|x.masked_scatter(c, cast(y, x))
x.scatter_reduce(1, j, cast(y, x), "amax")|x.scatter_reduce(1, j, cast(y, x), "prod")|x.gather(1, j)|x.scatter_add(1, j, cast(y, x))
x.index_fill(0, i, N)|x.index_copy(0, i, cast(y[:2], x))|x.index_reduce(0, i, cast(y[:2], x), "amin")|torch.take_along_dim(x, j, 1)
"""
ONE = """
-x|x.abs()|x.sign()|x.sgn()|torch.signbit(x)|x.ceil()|x.floor()|x.round()|x.trunc()|x.frac()|x.exp()|x.expm1()|x.log()|x.log1p()|x.log2()
x.log10()|x.sqrt()|x.rsqrt()|x.reciprocal()|x.sin()|x.cos()|x.tan()|x.tanh()|x.sigmoid()|x.erf()|x.isnan()|x.isinf()|x.isfinite()|x.isposinf()
x.relu()|F.gelu(x)|F.gelu(x, approximate="tanh")|F.silu(x)|F.hardswish(x)|F.leaky_relu(x, N)|F.elu(x, N)|F.softplus(x)|F.hardtanh(x)
F.relu6(x)|F.mish(x)|F.softsign(x)|F.logsigmoid(x)|F.hardsigmoid(x)|F.celu(x)|F.selu(x)|F.tanhshrink(x)|F.hardshrink(x)|F.softshrink(x)
x.nan_to_num()|x.nan_to_num(N, M)|x.square()|x.logit(1e-3)|x.sinh()|x.cosh()|x.asin()|x.acos()|x.atan()|x.asinh()|x.acosh()|x.atanh()|x.exp2()
x.float()|x.double()|x.half()|x.bfloat16()|x.bool()|x.sum()|x.sum(1)|x.sum(0, dtype=torch.float64)|x.mean(1)|x.prod(1)|x.amax(1)|x.amin(0)
x.argmax(1)|x.argmin(1)|x.any(1)|x.all(0)|x.var(1)|x.std(0)|x.norm()|x.logsumexp(1)|x.softmax(1)|x.log_softmax(0)|x.cumsum(1)|x.cumprod(1)
x.cummax(1).values|x.cummin(0).values|x.sort(1).values|x.argsort(1, stable=True)|x.topk(2).values|x.median()|x.median(1).values|x.mode(1).values
x.max()|x.min()|x.max(1).values|x.aminmax()[0]|x.nansum(1)|x.nanmean(0)|x.kthvalue(2, 1).values|x.logcumsumexp(1)|x.count_nonzero(1)
x.flip(1)|x.roll(1, 0)|x.tril()|x.triu(1)|x.diff()|x.diagonal()|x.trace()|x.logical_not()|~x|torch.zeros_like(x)|torch.ones_like(x) * x
F.pad(x, (1, 1), value=N)|F.pad(x[None], (1, 1), "reflect")|F.normalize(x)|F.layer_norm(x, (4,))|F.rms_norm(x, (4,))|F.glu(x)|F.softmin(x, 1)
x.real|x.imag|x.conj()|x.angle()|torch.view_as_real(x)|x.full_like(N)|x.new_full((2,), N)|x.fill(N)|x[:0].sum()|x[:0].prod()|x[:, :0].sum(1)
x[:0].mean()|x[:, :0].any(1)|x[:, :0].all(1)|x[:0] + s|x[:, :0].softmax(1)|x[:0].cumsum(0)|torch.cat([x[:0], x])|x[:, :0] @ x[:, :0].t()|x.unique().shape[0] * x
x.repeat_interleave(2, 1)|x.unfold(1, 2, 1)|torch.tensor_split(x, 2, 1)[1]|x.unsqueeze(1).expand(3, 2, 4)|cast(x, i) * 2|x.erfc()
x.erfinv()|x.lgamma()|x.digamma()|x.deg2rad()|x.rad2deg()|x.sinc()|x.round(decimals=1)|x.histc(4)|torch.linalg.vector_norm(x, 1)|torch.linalg.vector_norm(x, INF, 1)
torch.linalg.vector_norm(x, 0)|torch.linalg.vector_norm(x, -INF)|torch.linalg.vector_norm(x, 3, 0)|x.renorm(2, 0, 1.0)|x.bernoulli(0.0)|F.dropout(x, 0.5, False)
F.one_hot(cast(x, i).clamp(0, 3), 4)|F.embedding(cast(x, i).clamp(0, 2), y)|F.cross_entropy(x, i3)|F.nll_loss(x, i3)|x.var_mean(1)[1]|x.view(-1)[::3]|x.t().reshape(-1)
"""  # fmt: skip


def _split(text):
    return [e for line in text.strip().splitlines() for e in line.split("|")]


TWO, ONE = _split(TWO), _split(ONE)
CONDITIONS = ["c", "x > y", "x == N", "x.isnan()", "x.bool()", "c & (x < N)", "c[0]", "c[:, :1]"]
# What PyTorch leaves open: which of 0.0 and -0.0 is the larger one, and what a scan begins with.
UNSIGNED = ("max", "min", "clamp", "cumsum", "sort", "topk", "median", "mode", "kthvalue", "relu", "hard", "threshold")
# -inf times the 0 that it tends to: NaN in some of PyTorch's kernels.
LIMITS = ("gelu", "silu", "mish", "swish")


def cast(x, like):
    """In the type of the other; what a whole number cannot be is none of them: PyTorch's result depends on the machine."""
    if like.dtype.is_complex or like.is_floating_point() or like.dtype is torch.bool or not x.is_floating_point():
        return x.to(like.dtype)
    return x.nan_to_num(1, 50, 0).clamp(0, 100).to(like.dtype)


def values(dtype, pick, shape=(3, 4)):
    count = 1
    for n in shape:
        count *= n
    if dtype.is_complex:
        parts = [values(torch.float32, pick, shape) for _ in range(2)]
        return torch.complex(*parts).to(dtype)
    if dtype.is_floating_point:
        small = torch.finfo(dtype).smallest_normal / 4
        edges = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -2.5, 3.0, -7.0, 20.0, INF, -INF, NAN, small, -small]
        if pick.random() < 0.5:
            edges = edges[:10]
    elif dtype is torch.bool:
        edges = [True, False]
    else:
        info = torch.iinfo(dtype)
        edges = [0, 1, 2, 3, 5, -1, -2, -7, 100]
        if pick.random() < 0.5:
            edges += [info.min + 2, info.max, info.min + 1]  # PyTorch ends the process for the least number by -1
        edges = [v for v in edges if info.min <= v <= info.max]
    return torch.tensor([pick.choice(edges) for _ in range(count)], dtype=dtype).view(shape)


class Program:
    """``texts`` are expressions of ``arguments``."""

    def __init__(self, seed, count=24):
        self.pick = random.Random(seed)
        types = FLOATS + WHOLES + [torch.complex64] * (self.pick.random() < 0.2)
        self.types = [self.pick.choice(types) for _ in range(3)]
        a, b, d = (values(t, self.pick) for t in self.types)
        if self.pick.random() < 0.3:
            a = values(self.types[0], self.pick, (4, 3)).t()
        if self.pick.random() < 0.3:
            b = values(self.types[1], self.pick, (6, 4))[::2]
        self.arguments = {
            "a": a, "b": b, "d": d, "s": values(self.pick.choice(types), self.pick, ()),
            "e": values(self.pick.choice(types), self.pick, (4,)),
            "c": values(torch.bool, self.pick), "i": torch.tensor([2, 0]), "i3": torch.tensor([1, 0, 3]),
            "j": torch.tensor([[0, 3, 1, 2]] * 3),
        }  # fmt: skip
        # Whole numbers become f32 on their way.
        self.at = max(TOLERANCE.get(x.dtype, 2e-5) for x in self.arguments.values())
        self.texts = []
        for _ in range(count):
            self._add()

    def _add(self):
        for _ in range(30):
            text = self._make(self.pick.choice((1, 1, 2, 3)))
            try:
                made = self.evaluate([text])[0]
            except Exception:
                continue
            if isinstance(made, torch.Tensor) and (made.dtype in TOLERANCE or made.dtype in WHOLES):
                self.texts.append(text)
                return

    def _make(self, depth):
        r = self.pick
        if not depth:
            return r.choice("aaabbde")
        text = r.choice(TWO) if r.random() < 0.6 else r.choice(ONE)
        if depth > 1 and any(word in text for word in ("i3", "view_as_real")):
            return self._make(depth)
        names = {"x": self._make(depth - 1), "y": self._make(depth - 1 if r.random() < 0.3 else 0),
                 "z": self._make(0), "N": f"({r.choice(NUMBERS)})", "M": f"({r.choice(NUMBERS)})"}  # fmt: skip
        if "c" in _words(text):
            condition = r.choice(CONDITIONS)
            names["c"] = f"({_put(condition, {**names, 'x': 'a', 'y': 'b'})})"
        return f"({_put(text, names)})"

    def evaluate(self, texts, arguments=None):
        return self.function(texts)(*(arguments or self.arguments).values())

    def function(self, texts):
        space = {"torch": torch, "F": torch.nn.functional, "INF": INF, "cast": cast}
        exec(f"def f({', '.join(self.arguments)}):\n    return [{', '.join(texts)}]", space)
        return space["f"]

    def run(self, texts, compile):
        return compile(self.function(texts))(*(x.clone() if x.is_contiguous() else x for x in self.arguments.values()))


def _words(text):
    word, found = "", []
    for letter in text + " ":
        if letter.isalnum() or letter == "_":
            word += letter
        else:
            found += [word] if word else []
            word = ""
    return found


def _put(text, names):
    """The text with whole words replaced, but for names of attributes and keywords."""
    made, word, before = "", "", ""
    for letter in text + " ":
        if letter.isalnum() or letter == "_":
            word += letter
            continue
        made += names.get(word, word) if before not in (".", '"') else word
        made += letter
        word, before = "", letter
    return made[:-1]


def differs(got, want, text="", at=0.0):
    """A word about it, or None. ``at``: the tolerance of what it was computed from."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    if want.dtype.is_complex:
        parts = [torch.view_as_real(t.resolve_conj()) for t in (got, want)]
        # Which parts of an infinite or undefined complex number are NaN is the algorithm's.
        finite = parts[1].isfinite().all(-1, keepdim=True) & parts[0].isfinite().all(-1, keepdim=True)
        parts = [torch.where(finite, p, 0.0) for p in parts]
        return differs(*parts, text, at)
    if not want.is_floating_point():
        return None if torch.equal(got, want) else "values"
    at = max(at, TOLERANCE[want.dtype])
    if any(word in text for word in LIMITS):
        got = torch.where(want.isnan(), want, got)
    if not torch.allclose(got.double(), want.double(), rtol=at, atol=at, equal_nan=True):
        return "values"
    if any(word in text for word in UNSIGNED):
        return None
    zero = (want == 0) & (got == 0)
    return None if torch.equal(torch.signbit(got) & zero, torch.signbit(want) & zero) else "signs of zeros"


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend=weir.get_npu_backend(), fullgraph=True)


def reference(function):
    """PyTorch's own decompositions, for what they change themselves."""
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager_decomp_partition", fullgraph=True)


def try_seed(seed, count=24):
    """(expressions compared, sentences about what differs)."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = Program(seed, count)
        want = program.evaluate(program.texts)
        try:
            got = program.run(program.texts, compiled)
        except Exception as error:
            got, failed = None, error
        if got is None:
            return _alone(program, program.texts, failed, seed)
        found = [t for t, a, b in zip(program.texts, got, want, strict=True) if differs(a, b, t, program.at)]
        return len(program.texts), _alone(program, found, None, seed)[1] if found else []


def _alone(program, texts, failed, seed):
    wrong, done = [], 0
    for text in texts:
        (want,) = program.evaluate([text])
        try:
            (other,) = program.run([text], reference)
        except Exception:
            continue  # PyTorch cannot compile it
        try:
            (got,) = program.run([text], compiled)
        except Exception as error:
            wrong.append(f"seed {seed}: {text}: {type(error).__name__}: {str(error)[:300]}")
            continue
        done += 1
        word = differs(got, want, text, program.at)
        if word is None and failed is None:
            word = "values, but only beside others"
        if word and not differs(got, other, text, program.at):
            continue
        if word:
            given = {k: (str(v.dtype)[6:], v.tolist()) for k, v in program.arguments.items() if k in _words(text)}
            wrong.append(f"seed {seed}: {text}: {word}: {got.tolist()}, not {want.tolist()}; {given}")
    return done, wrong


def main():
    parser = argparse.ArgumentParser(description="expressions of mixed types against eager PyTorch")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    end, done, bad = time.time() + options.seconds, 0, 0
    for seed in itertools.count(options.first):
        if time.time() > end:
            break
        count, wrong = try_seed(seed)
        done, bad = done + count, bad + len(wrong)
        if wrong:
            print("\n".join(wrong), flush=True)
    print(f"{done} expressions of programs {options.first}..{seed - 1}, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
