"""Random expressions of numbers at the edges of their types give what eager PyTorch gives.

WEIR_TEST_PROGRAMS is how many programs of them; 9 are one of each type.
"""

import os
import random

import pytest

from compiling import compiled, fresh  # noqa: F401

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
WHOLES = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]
COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 9))
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-10}

NUMBERS = ["0", "1", "-1", "3", "-3", "127", "300", "2**24 + 1", "2**53 + 1", "2**62 + 1", "0.1", "-2.5",
           "1e9", "0.0", "True", "float('inf')", "float('nan')"]  # fmt: skip
EXPRESSIONS = """
x + y|x - y|x * y|x + N|x - N|N - x|x * N|x / N|x // N|x % N|torch.add(x, y, alpha=N)|torch.sub(x, y, alpha=N)
x == N|x != N|x < N|x <= N|x > N|x >= N|x == y|x < y|x >= y|torch.maximum(x, y)|torch.minimum(x, y)
-x|x.abs()|torch.relu(x)|x.sign()|x.round()|x ** 2|x ** 3|x ** 0.5|x ** -0.5|x.clamp(-1, 2)|x.clamp(min=N)|x.clamp(3, -3)
x.masked_fill(x == y, N)|torch.where(x == y, x, N)|torch.where(x > y, x, y)|torch.fill(x, N)|torch.full_like(x, N) + x
x.sum()|x.sum(1)|x.bool().sum(0, dtype=torch.int32)|x.cumsum(1)|x.amax(0)|x.amin(1)|x.max(1).values|x.min(1).values
x.argmax(1)|x.argmin(0)|x.max(0).indices|x.min(1).indices|x.any(1)|x.all()|x.sort(1, stable=True).values
x.sort(1, stable=True, descending=True).indices|x.topk(2).values|x.flip(0) + y|x.t() * 2|x[:, 1:] - y[:, :-1]
x[:0].sum(0)|x[:0].sum(1)|x[torch.tensor([-1, 0])]|x.index_fill(0, torch.tensor([1]), N)|x.tril(1)|x.double() + N
x.scatter(1, torch.tensor([[0], [2], [1]]), N)|x.scatter_add(1, torch.tensor([[0, 0, 2]]), y[:1, :3])
torch.nn.functional.pad(x, (1, 0), value=N)|torch.cat([x, y[:1]])|torch.stack([x, y]).sum(0)|x.bool()|x.bool() * y
x.to(torch.bfloat16)|x.half() + y|x + y.float()|x * torch.tensor(3)|x + torch.tensor(1.5)|x.float().softmax(1)
x & y|x \\| y|x ^ y|~x|x.logical_not()|torch.logical_and(x, y)|x @ y.t()
"""
EXPRESSIONS = [e.replace("\0", "|") for line in EXPRESSIONS.replace("\\|", "\0").strip().splitlines()
               for e in line.split("|")]  # fmt: skip


def values(dtype, pick):
    if dtype.is_floating_point:
        # None so large that the order of a sum decides whether it overflows.
        edges = [0.0, -0.0, 0.1, 0.3, 1.5, 2.5, -2.5, 3.0, 250.0, float("inf"), -float("inf"), float("nan")]
    elif dtype is torch.bool:
        edges = [True, False]
    else:
        info = torch.iinfo(dtype)
        edges = [info.min, info.max, info.max - 1, 0, 1, 3, 7, 2**24 + 1, 2**53 + 1, -1, -7]
        edges = [v for v in edges if info.min <= v <= info.max]
    return torch.tensor([[pick.choice(edges) for _ in range(4)] for _ in range(3)], dtype=dtype)


def evaluate(text, x, y):
    return eval(text, {"torch": torch, "x": x, "y": y})


def works(text, x, y):
    try:
        evaluate(text, x, y)
        return True
    except (RuntimeError, TypeError, IndexError, OverflowError, ValueError):
        return False


def differs(got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return True
    if not want.is_floating_point():
        return not torch.equal(got, want)
    at = TOLERANCE[want.dtype]
    return not torch.allclose(got.double(), want.double(), rtol=at, atol=at, equal_nan=True)


def try_seed(seed):
    """Sentences about what differs."""
    pick = random.Random(seed)
    dtype = (FLOATS + WHOLES)[seed % 9]
    x, y = values(dtype, pick), values(dtype, pick)
    # The host's PyTorch rounds what is added to f16 first, which is infinite for large numbers.
    numbers = [n for n in NUMBERS if dtype is not torch.float16 or not 1000 < eval(n) < 2**63]
    texts = [e.replace("N", f"({pick.choice(numbers)})") for e in pick.sample(EXPRESSIONS, 16)]
    texts = [t for t in texts if works(t, x, y)]
    space = {"torch": torch}
    exec(f"def function(x, y):\n    return [{', '.join(texts)}]", space)
    torch._dynamo.reset()
    run, _ = compiled(space["function"])
    with torch.no_grad():
        got = run(x.clone(), y.clone())
    return [
        f"seed {seed}: {text} of {x.tolist()} and {y.tolist()} ({dtype}): {a.tolist()}, not {b.tolist()}"
        for text, a, b in zip(texts, got, space["function"](x, y), strict=True)
        if differs(a, b)
    ]


def test_random_expressions_give_what_eager_ones_give():
    wrong = [text for seed in range(COUNT) for text in try_seed(seed)]
    assert not wrong, "\n".join(wrong[:20])
