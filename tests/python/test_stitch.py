"""Graphs that are weir's in parts, as on a GPU, with the host in the GPU's place."""

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")


class Host:
    """What weir._torch.gpu.Gpu is for a GPU: PyTorch's tensors are there when they are returned."""

    def __init__(self, weir_device):
        self.weir, self.device = weir_device, torch.device("cpu")
        self.entered, self.used = [], 0

    def holds(self, tensor):
        return tensor.device == self.device

    def empty(self, shape, strides, dtype):
        return torch.empty_strided(shape, strides, dtype=dtype)

    def issue(self, plan):
        return plan.call_on

    def begin(self, caller):
        return None

    def end(self, caller, before):
        caller.set_current()

    def enter(self, stream):
        stream.synchronize()
        stream.set_current()
        self.entered.append((stream.name, stream.get_limit(), weir._C.scope_depth()))

    def use(self, tensor, stream=None):
        self.used += 1

    def settle(self):
        pass


@pytest.fixture
def host(monkeypatch):
    from weir._torch import gpu

    torch._dynamo.reset()
    made = Host(weir.get_device())
    monkeypatch.setattr(gpu, "of", lambda device: made)
    monkeypatch.setattr(gpu, "of_default", lambda: made)
    return made


def test_a_pytorch_without_cuda_is_told(monkeypatch):
    from weir._torch import gpu

    class Device:
        name, dlpack_device = "cuda:0", (2, 0)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotImplementedError, match="cuda:0 is a GPU, and PyTorch .* has no CUDA"):
        gpu.of(Device())


def compiled(function, *args, **options):
    backend = weir.get_npu_backend()
    run = torch.compile(function, backend=backend, fullgraph=True, **options)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(*args), function(*args))
    return backend


def steps(backend):
    (graph,) = backend.graphs
    (made,) = graph.plans.values()
    return [(type(s).__name__, s.tag, s.waits) for s in made.steps]


def test_a_graph_that_is_all_weirs_is_one_plan(host):
    backend = compiled(lambda x: torch.relu(x) @ x, torch.randn(8, 8))
    assert not host.entered and not backend.coverage.fallback


def test_plans_end_where_an_operator_is_pytorchs(host):
    def f(x):
        y = torch.relu(x) + 1
        z = torch.cumsum(y, 0)
        return z * y, z

    backend = compiled(f, torch.randn(8, 8))
    assert [name for name, _, _ in steps(backend)] == ["PlanStep", "CallStep", "PlanStep"]
    assert dict(backend.coverage.fallback) == {"aten.cumsum.default": 1}
    assert backend.coverage.native.total() == 3


def test_streams_wait_for_what_they_use_and_no_more(host):
    def f(x):
        with weir.scope.npu_stream_switch("side"):
            a = torch.cumsum(x * 2, 0)
        b = torch.cumsum(x + 1, 0)
        return a + b, b

    backend = compiled(f, torch.randn(8, 8))
    made = steps(backend)
    assert [(name, tag) for name, tag, _ in made] == [
        ("PlanStep", "side"), ("CallStep", "side"),
        ("PlanStep", None), ("CallStep", None), ("PlanStep", None),
    ]
    assert [waits for _, _, waits in made] == [set(), set(), set(), set(), {1}]
    assert host.used == 2  # a, at each run
    assert {name for name, _, _ in host.entered} == {"side", "default"}


def test_explicit_waits_tokens_and_events(host):
    def f(x):
        a = torch.cumsum(x, 0)
        token = weir.ops.record()
        with weir.scope.npu_stream_switch("side"):
            weir.ops.wait([token])
            b = torch.cumprod(x, 0)
            weir.scope.npu_wait_tensor(b, a)
            c = torch.cumsum(b, 1)
        return a, c

    made = steps(compiled(f, torch.randn(4, 4)))
    assert [waits for _, _, waits in made] == [set(), {0}, {0}]


def test_core_limits_hold_for_pytorchs_kernels(host, split):
    host.weir = split

    def f(x):
        with weir.scope.limit_core_num(4, 8):
            return torch.cumsum(x * 2, 0)

    backend = compiled(f, torch.randn(4, 4))
    (graph,) = backend.graphs
    (made,) = graph.plans.values()
    assert [s.cores for s in made.steps] == [None, (4, 8)]
    assert host.entered[0][2] == 0 and host.entered[1][2] == 1  # inside the scope


def test_views_several_results_constants_and_arguments(host):
    table = torch.arange(12.0).reshape(3, 4)

    def f(x, n):
        a, b = torch.split(x, 2, 0)
        c = torch.cumsum(b.t(), 1)
        d, where = torch.cummax(a, 0)
        e = torch.sort(torch.cat((c.t(), d)), dim=0)
        return e.values + table[0], where, x, c.t()[0], table * 2, e.indices, n + 1

    compiled(f, torch.randn(4, 4), 3, dynamic=False)


def test_sizes_that_change_and_types_that_weir_has_not(host):
    def f(x):
        return torch.cumsum(x.to(torch.int16), 0).to(torch.float32) * 2 + x

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 3):
            x = torch.arange(float(n * n)).reshape(n, n)
            torch.testing.assert_close(run(x), f(x))
        x = torch.arange(12.0).reshape(3, 4).t()
        torch.testing.assert_close(run(x), f(x))


def test_arguments_that_are_written_to_and_random_numbers(host):
    def f(x):
        x.add_(1)
        return torch.cumsum(x, 0) + torch.rand(4).sum() * 0

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(run(a), f(b))
    torch.testing.assert_close(a, b)


def test_gradients(host):
    def f(x):
        return torch.cumsum(torch.relu(x) * 2, 0).sum()

    x = torch.randn(4, 4, requires_grad=True)
    torch.compile(f, backend=weir.get_npu_backend())(x).backward()
    got, x.grad = x.grad, None
    f(x).backward()
    torch.testing.assert_close(got, x.grad)
