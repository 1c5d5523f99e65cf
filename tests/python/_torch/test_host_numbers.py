"""Where the values of a graph on a GPU are: a number that is moved to the host is there for results, tensors of the host
and sizes, and stays on the GPU if only that uses it. Graphs are traced with fake tensors; no GPU is needed."""

import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import weir
from stand_in import host  # noqa: F401
from test_stitch import stitched
from weir._torch import coverage
from weir._torch.graph import places
from weir._torch.mixed.program import Stitched
from weir._torch.mixed.steps import CallStep, PlanStep
from weir._torch.mixed.stitch import Stitcher


def on_gpu(x):
    """x.cuda(), which needs a GPU."""
    return torch.ops.aten._to_copy.default(x, device=torch.device("cuda", 0))


class Gpu:
    """A GPU on which graphs are made and never run."""

    def __init__(self):
        self.weir, self.device = weir.get_device(), torch.device("cuda", 0)

    def holds(self, tensor):
        return tensor.device == self.device


class Made:
    """The steps of a function, and the devices of its results as PyTorch and as the steps have them. ``arguments`` are
    (sizes, device)."""

    def __init__(self, function, *arguments):
        with FakeTensorMode():
            given = [torch.empty(shape, device=device) for shape, device in arguments]
            module = make_fx(function)(*given)
        module.graph.eliminate_dead_code()
        stitcher = Stitcher(module, Gpu(), coverage.Coverage(), lambda built: None)
        self.steps = stitcher.stitch(given).steps
        self.calls = [str(s.op) for s in self.steps if isinstance(s, CallStep)]
        self.plans = [s for s in self.steps if isinstance(s, PlanStep)]
        self.want = [places.traced(n).device for n in stitcher.leaves]
        self.got = [stitcher.env[stitcher.bases[n]].device for n in stitcher.leaves]
        native = stitcher.coverage.native
        self.weirs = {op.split(".")[1] for op in native}


ON_GPU, NUMBER, ON_HOST = ((3, 4), "cuda"), ((), "cpu"), ((3,), "cpu")

# What of a function's operators is PyTorch's; the rest is weir's.
ON_THE_HOST = {
    "a result": (lambda x: x.sum().cpu() * 2, [ON_GPU], {"_to_copy", "mul"}),
    "results of a chain": (lambda x: (x.sum().cpu() * 2 + 1).sqrt(), [ON_GPU], {"_to_copy", "mul", "add", "sqrt"}),
    "a stack": (lambda x: torch.stack([x.sum().cpu(), x.mean().cpu()]), [ON_GPU], {"_to_copy", "stack"}),
    "with a tensor of the host": (lambda x, y: x.sum().cpu() * 2 + y, [ON_GPU, ON_HOST], {"_to_copy", "mul", "add"}),
    "a view": (lambda x: x.sum().cpu().view(1) + 1, [ON_GPU], {"_to_copy", "view", "add"}),
    "a view that is a result": (lambda x: x.sum().cpu().reshape(1), [ON_GPU], {"_to_copy", "view"}),
    "a view of an argument": (lambda x, n: (x * n, n.reshape(1) * 2), [ON_GPU, NUMBER], {"mul", "view"}),
    "several results": (lambda x: x.sum().cpu().sort(), [ON_GPU], {"_to_copy", "sort"}),
    "both": (lambda x: (lambda n: (x * n, n))(x.sum().cpu() + 1), [ON_GPU], {"_to_copy", "add", "mul"}),
}


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_a_number_of_the_host_is_there_for(name):
    function, arguments, pytorchs = ON_THE_HOST[name]
    made = Made(function, *arguments)
    assert made.got == made.want
    assert {op.split(".")[1] for op in made.calls} == pytorchs


def test_a_number_that_only_the_gpu_uses_stays_there():
    made = Made(lambda x: x * (x.sum().cpu() * 2 + 1).sqrt(), ON_GPU)
    assert not made.calls and len(made.plans) == 1 and made.got == made.want
    made = Made(lambda x: x + on_gpu(x.mean().cpu() * 2), ON_GPU)
    assert not made.calls and made.got == made.want


def test_a_number_that_a_long_chain_makes_is_followed_to_its_end():
    def chain(x):
        n = x.sum().cpu()
        for _ in range(1500):
            n = n + 1
        return n, x + 1

    made = Made(chain, ON_GPU)
    assert made.got == made.want and len(made.calls) == 1501


class Program:
    """Random operators of values on the GPU and the host, those that PyTorch refuses left out."""

    STEPS = [
        lambda x, y: x.sum(), lambda x, y: x.cpu(), lambda x, y: x.sum().cpu(), lambda x, y: on_gpu(x), lambda x, y: x * 2,
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: torch.maximum(x, y), lambda x, y: x.reshape(-1),
        lambda x, y: x.view(1), lambda x, y: torch.stack([x, y]), lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: x.max(0).values, lambda x, y: x.logcumsumexp(0), lambda x, y: torch.fill(x, y), lambda x, y: x[..., None],
    ]  # fmt: skip

    def __init__(self, seed):
        self.pick, self.steps = random.Random(seed), []
        arguments = [torch.empty(shape, device=device) for shape, device in (ON_GPU, NUMBER, ON_HOST)]
        values = list(arguments)
        while len(values) < 14:
            step = self.pick.randrange(len(self.STEPS)), self.pick.randrange(len(values)), self.pick.randrange(len(values))
            try:
                values.append(self.STEPS[step[0]](values[step[1]], values[step[2]]))
                self.steps.append(step)
            except (RuntimeError, IndexError, TypeError):
                pass
        self.results = self.pick.sample(range(3, 14), 3)

    def __call__(self, *arguments):
        values = list(arguments)
        for step, first, second in self.steps:
            values.append(self.STEPS[step](values[first], values[second]))
        return [values[at] * 1 for at in self.results]


def test_results_of_random_graphs_are_where_pytorch_has_them():
    calls = plans = 0
    for seed in range(60):
        with FakeTensorMode():
            program = Program(seed)
        made = Made(program, ON_GPU, NUMBER, ON_HOST)
        assert made.got == made.want, seed
        calls, plans = calls + len(made.calls), plans + len(made.plans)
    assert calls > 100 and plans > 40


def test_a_constant_of_the_host_that_is_a_result_is_made_there(host):  # noqa: F811
    """The host in the GPU's place holds all but numbers of f64."""
    for function in (
        lambda x: (x * 2, torch.tensor(3.0, dtype=torch.float64)),
        lambda x: (x * 2, torch.ones((), dtype=torch.float64)),
    ):
        torch._dynamo.reset()
        backend = weir.get_npu_backend()
        x = torch.randn(3)
        with torch.no_grad():
            got = torch.compile(function, backend=backend, fullgraph=True)(x)
        torch.testing.assert_close(got, function(x))
        assert isinstance(stitched(backend), Stitched)
