"""Random graphs of weir's operators and PyTorch's kernels on several streams, against eager.

All values are small whole numbers whose sums bfloat16 holds exactly (up to 256), so that every order
of a sum gives the same bits, rounded once or twice: whatever algorithm a product takes, a
difference is a race or memory that was used twice. WEIR_TEST_PROGRAMS
says how many graphs run on each device. On a GPU, run it under compute-sanitizer as well.
"""

import os
import random

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

PROGRAMS = int(os.environ.get("WEIR_TEST_PROGRAMS", "6"))
DEVICES = ["cpu:cores=4", "npu:a3"] + (["cuda:0"] if torch.cuda.is_available() else [])
SIZE = 48


def small(x):
    """Whole numbers from -3 to 3."""
    return torch.remainder(x, 7) - 3


def product(a, b):
    """At most 2 * 2 * SIZE = 192, and a bias does not pass 256."""
    return torch.clamp(a, -2, 2) @ torch.clamp(b, -2, 2)


# Some of these weir has and some are PyTorch's kernels; which ones depends on the device.
ONE = [
    torch.relu,
    torch.neg,
    lambda x: x.t(),
    lambda x: small(torch.cumsum(x, 0)),
    lambda x: torch.roll(x, 5, 1),
    lambda x: torch.flip(x, [0]),
    lambda x: small(torch.logcumsumexp(torch.clamp(x, -1, 1), 1)),
    lambda x: torch.sort(x, dim=1).values,
    lambda x: x[:, : SIZE // 2].repeat(1, 2),
    lambda x: torch.cat([x[SIZE // 2 :], x[: SIZE // 2]]),
    lambda x: small(x.sum(1, keepdim=True).expand(SIZE, SIZE)),
]
TWO = [
    lambda a, b: small(product(a, b)),
    lambda a, b: small(product(a, b)),
    lambda a, b: small(product(a, b.t())),
    lambda a, b: small(
        torch.nn.functional.linear(torch.clamp(a, -2, 2), torch.clamp(b, -2, 2), b[0])
    ),
    lambda a, b: small(a + b),
    lambda a, b: small(a * b),
    torch.maximum,
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: torch.gather(a, 1, torch.argsort(b, dim=1, stable=True)),
    lambda a, b: a.index_select(0, (b[:, 0] + 3).long()),
    lambda a, b: small(a.index_add(0, (b[0] + 3).long(), b)),
]


def random_program(rng):
    """Steps [(stream or None, function, operands)] over two inputs, and which values come back."""
    steps, count = [], 2
    for _ in range(rng.randint(12, 40)):
        # Recent values more often: chains, and wide places between them.
        near = lambda: max(0, count - 1 - int(rng.expovariate(0.3)))  # noqa: E731
        stream = rng.choice([None, None, "left", "right", "third"])
        if rng.random() < 0.4:
            steps.append((stream, rng.choice(ONE), (near(),)))
        else:
            steps.append((stream, rng.choice(TWO), (near(), near())))
        count += 1
    results = sorted({count - 1, *(rng.randrange(2, count) for _ in range(rng.randint(0, 4)))})
    return steps, results


def run_program(steps, results, inputs, on_streams):
    values = list(inputs)
    for stream, function, operands in steps:
        args = [values[i] for i in operands]
        if on_streams and stream is not None:
            with weir.scope.npu_stream_switch(stream):
                values.append(function(*args))
        else:
            values.append(function(*args))
    return [values[i] for i in results]


@pytest.fixture(params=DEVICES)
def device(request):
    before = weir.get_device()
    chosen = weir.Device(request.param)
    weir.set_device(chosen)
    torch._dynamo.reset()
    yield chosen
    if request.param.startswith("cuda"):
        torch.cuda.synchronize()
    weir.set_device(before)


@pytest.mark.parametrize("placed_by", ["auto_streams", "scopes"])
def test_graphs_with_pytorch_kernels_on_several_streams_give_the_bits_of_eager(device, placed_by):
    where = "cuda" if device.name.startswith("cuda") else "cpu"
    for seed in range(PROGRAMS):
        rng = random.Random(seed)
        steps, results = random_program(rng)
        torch._dynamo.reset()
        config = weir.CompilerConfig()
        config.auto_streams = placed_by == "auto_streams"
        dtype = rng.choice([torch.float32, torch.bfloat16])
        backend = weir.get_npu_backend(compiler_config=config)
        compiled = torch.compile(
            lambda a, b: run_program(steps, results, (a, b), placed_by == "scopes"),
            backend=backend,
            fullgraph=True,
        )
        kept = []
        for _ in range(5):  # other memory each time: plans are bound anew, and captured
            inputs = [torch.randint(-3, 4, (SIZE, SIZE)).to(where, dtype) for _ in range(2)]
            with torch.no_grad():
                got = compiled(*inputs)
                want = run_program(steps, results, inputs, False)
            kept.append(got)
            for i, (g, w) in enumerate(zip(got, want)):
                assert torch.equal(g, w), f"program {seed}, result {i} of {len(want)} ({dtype})"
