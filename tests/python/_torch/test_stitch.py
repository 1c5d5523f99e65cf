"""Graphs that are weir's in parts, as on a GPU, with the host in the GPU's place."""

import re

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import programs  # noqa: E402
from stand_in import host  # noqa: E402, F401
from weir._torch.mixed.program import Stitched  # noqa: E402
from weir._torch.mixed.steps import CallStep, Value  # noqa: E402


def test_a_pytorch_without_cuda_is_reported(monkeypatch):
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


def stitched(backend):
    (graph,) = backend.graphs
    (made,) = graph.plans.values()
    return made


def steps(backend):
    return [(type(s).__name__, s.tag, s.waits) for s in stitched(backend).steps]


def lines(backend):
    """The function as it is written, with plain names for what is bound."""
    source = re.sub(r"\b(plan|call|order|constant|given)\d+\b", r"\1", stitched(backend).source)
    return [line.strip() for line in source.splitlines()]


def test_a_graph_that_is_all_weirs_is_one_plan(host):
    backend = compiled(lambda x: torch.relu(x) @ x, torch.randn(8, 8))
    assert not host.entered and not backend.coverage.fallback


def test_plans_end_where_an_operator_is_pytorchs(host):
    def f(x):
        y = torch.relu(x) + 1
        z = torch.logcumsumexp(y, 0)
        return z * y, z

    backend = compiled(f, torch.randn(8, 8))
    assert [name for name, _, _ in steps(backend)] == ["PlanStep", "CallStep", "PlanStep"]
    assert dict(backend.coverage.fallback) == {"aten.logcumsumexp.default": 1}
    assert backend.coverage.native.total() == 3
    assert lines(backend) == [
        "def run(args):",
        "(v1, ) = plan((args[0], ))",
        "v2 = call(v1, 0)",
        "if v2 is not None and v2.stride() != (8, 1, ): v2 = laid_out(v2, (8, 1, ))",
        "(v3, ) = plan((v2, v1, ))",
        "del v1",
        "return [v3, v2, ]",
    ]
    assert not host.entered and not host.orders  # all of it on the stream that is current


def test_streams_wait_for_what_they_use_and_no_more(host):
    def f(x):
        with weir.scope.npu_stream_switch("side"):
            a = torch.logcumsumexp(x * 2, 0)
        b = torch.logcumsumexp(x + 1, 0)
        return a + b, b

    backend = compiled(f, torch.randn(8, 8))
    made = steps(backend)
    assert [(name, tag) for name, tag, _ in made] == [
        ("PlanStep", "side"), ("CallStep", "side"),
        ("PlanStep", None), ("CallStep", None), ("PlanStep", None),
    ]
    assert [waits for _, _, waits in made] == [set(), set(), set(), set(), {1}]
    assert host.used == 2  # a, at each run
    assert {name for name, _, _ in host.entered} == {"side"}
    assert lines(backend)[1:] == [
        "streams = Streams(gpu, priorities)",
        "try:",
        "streams.enter('side', None)",
        "(v1, ) = plan((args[0], ))",
        "v2 = call(v1, 0)",
        "if v2 is not None and v2.stride() != (8, 1, ): v2 = laid_out(v2, (8, 1, ))",
        "streams.mark(1)",
        "del v1",
        "streams.go_home()",
        "(v3, ) = plan((args[0], ))",
        "v4 = call(v3, 0)",
        "if v4 is not None and v4.stride() != (8, 1, ): v4 = laid_out(v4, (8, 1, ))",
        "del v3",
        "streams.wait(1)",
        "gpu.use(v2)",
        "(v5, ) = plan((v2, v4, ))",
        "del v2",
        "finally:",
        "streams.close()",
        "return [v5, v4, ]",
    ]
    # At each run: the side comes after the caller's, which goes on after it twice.
    assert host.orders == ["after", "before", "before"] * 2


def test_explicit_waits_tokens_and_events(host):
    def f(x):
        a = torch.logcumsumexp(x, 0)
        token = weir.ops.record()
        with weir.scope.npu_stream_switch("side"):
            weir.ops.wait([token])
            b = torch.logcumsumexp(x, 0)
            weir.scope.npu_wait_tensor(b, a)
            c = torch.logcumsumexp(b, 1)
        return a, c

    made = steps(compiled(f, torch.randn(4, 4)))
    assert [waits for _, _, waits in made] == [set(), {0}, {0}]


def test_core_limits_hold_for_pytorchs_kernels(host, split):
    host.weir = split

    def f(x):
        with weir.scope.limit_core_num(4, 8):
            return torch.logcumsumexp(x * 2, 0)

    backend = compiled(f, torch.randn(4, 4))
    assert [s.cores for s in stitched(backend).steps] == [None, (4, 8)]
    assert host.entered == [("default", (24, 48), 1)] * 2  # inside the scope
    assert host.orders == ["after", "before"] * 2
    assert host.used == 4  # by each run: what the plan made, there, and the result, at home


def test_a_stream_left_with_its_limit_is_pytorchs_again(host, split):
    host.weir = split

    def f(x):
        with weir.scope.limit_core_num(4, 8):
            a = torch.logcumsumexp(x, 0)
        b = torch.logcumsumexp(a, 0)
        with weir.scope.limit_core_num(2, 4):
            c = torch.logcumsumexp(b, 1)
        with weir.scope.npu_stream_switch("side"):
            d = torch.logcumsumexp(x, 1)
        return b, c, d

    backend = compiled(f, torch.randn(4, 4))
    made = stitched(backend).steps
    assert [s.place for s in made] == [
        (None, (4, 8)), (None, None), (None, (2, 4)), ("side", None),
    ]  # fmt: skip
    assert [len(s.foreign) for s in made] == [0, 1, 1, 0]
    assert not any(s.waits for s in made)  # one stream is in order whatever its cores
    # Under each limit and outside of it again, at once or at the end.
    limited, free = ("default", 1), ("default", 0)
    assert host.asked == [limited, free, limited, ("side", 0), free] * 2
    assert [line for line in lines(backend) if line.startswith("gpu.use")][2:] == [
        "gpu.use(v3)", "gpu.use(v4)",  # b is of the caller's own
    ]  # fmt: skip


def test_arguments_may_have_names_that_are_python_keywords(host):
    x = torch.zeros(2, 2)
    given, made = Value.like(0, x), Value.like(1, x, 0)
    call = CallStep(None, None, [given], torch.ops.aten.uniform.default, (given,),
                    {"from": 3.0, "to": 4.0, "generator": None}, made)  # fmt: skip
    run = Stitched(host, [call], {}, [], 1, [("made", (1, call.place))]).run
    (got,) = run([x])
    assert 3 <= got.min() and got.max() <= 4 and x.tolist() == [[0, 0], [0, 0]]


def test_a_limit_of_the_current_stream_is_pytorchs_too(host, split):
    host.weir = split
    run = torch.compile(lambda x: torch.logcumsumexp(x * 2, 0), backend=weir.get_npu_backend())
    x = torch.randn(4, 4)
    want = torch.logcumsumexp(x * 2, 0)
    with torch.no_grad():
        torch.testing.assert_close(run(x), want)
        assert not host.entered and not host.used
        weir.default_stream().set_limit(2, 4)
        torch.testing.assert_close(run(x), want)
        weir.default_stream().reset_limit()
        assert host.entered == [("default", (2, 4), 0)] and host.used == 1
        with weir.scope.limit_core_num(4, 8):  # of the caller's
            torch.testing.assert_close(run(x), want)
    assert [depth for _, _, depth in host.entered] == [0, 1]
    # Under the limit, and then under the stream's own, whatever the scopes say.
    assert host.asked == [("default", depth) for depth in (0, 1, 1, 2)]
    assert host.orders == ["after", "before"] * 2


def test_traces_show_pytorchs_work(host):
    def f(x):
        return torch.logcumsumexp(torch.relu(x), 0) * 2

    backend = compiled(f, torch.randn(4, 4))
    assert not host.works  # nobody looked
    x = torch.randn(4, 4)
    with weir.trace():
        torch.testing.assert_close(stitched(backend).run([x]), [f(x)])
    assert host.works == ["PyTorch: aten.logcumsumexp.default", None]


def test_an_operator_that_fails_leaves_the_streams_as_they_were(host):
    def f(x):
        with weir.scope.npu_stream_switch("side"):
            return torch.multinomial(x, 1)

    run = torch.compile(f, backend=weir.get_npu_backend())
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="probability"):
                run(-torch.eye(3))
            assert weir.current_stream() == weir.default_stream()
        assert run(torch.eye(3)).tolist() == [[0], [1], [2]]


def test_views_several_results_constants_and_arguments(host):
    table = torch.arange(12.0).reshape(3, 4)

    def f(x, n):
        a, b = torch.split(x, 2, 0)
        c = torch.logcumsumexp(b.t(), 1)
        d, where = torch.frexp(a)
        e = torch.sort(torch.cat((c.t(), d)), dim=0)
        return e.values + table[0], where, x, c.t()[0], table * 2, e.indices, n + 1

    compiled(f, torch.randn(4, 4), 3, dynamic=False)


def test_sizes_that_change_and_types_that_weir_has_not(host):
    def f(x):
        return torch.cumprod(x.to(torch.int16), 0).to(torch.float32) * 2 + x

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 3):
            x = torch.arange(float(n * n)).reshape(n, n)
            torch.testing.assert_close(run(x), f(x))
        x = torch.arange(12.0).reshape(3, 4).t()
        torch.testing.assert_close(run(x), f(x))


def test_operators_that_check_and_those_that_ask_only_for_a_shape(host):
    def f(x):
        return torch.linalg.cholesky(x @ x.t()) * 2 + torch.zeros_like(x)

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend)
    x = torch.randn(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(run(x), f(x))
        with pytest.raises(torch.linalg.LinAlgError, match="positive-definite"):
            run(torch.zeros(4, 4))
        torch.testing.assert_close(run(x), f(x))
    assert sorted(backend.coverage.fallback) == [
        "aten._linalg_check_errors.default", "aten.linalg_cholesky_ex.default",
    ]


@pytest.mark.parametrize("like", [torch.zeros_like, torch.ones_like, lambda x: x.new_zeros(3)])
def test_results_like_another_tensor_have_its_strides(host, like):
    def f(x):
        y = torch.logcumsumexp(x, 0).t()
        return like(y), like(y[:, ::2]), like(x[0].expand(4, 6)), like(y) + 1

    x = torch.randn(4, 6)
    with torch.no_grad():
        got = torch.compile(f, backend=weir.get_npu_backend())(x)
    for mine, want in zip(got, f(x)):
        torch.testing.assert_close(mine, want, check_stride=True)


def test_arguments_that_are_written_to_and_random_numbers(host):
    def f(x):
        x.add_(1)
        return torch.logcumsumexp(x, 0) + torch.rand(4).sum() * 0

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(run(a), f(b))
    torch.testing.assert_close(a, b)


def test_gradients(host):
    def f(x):
        return torch.logcumsumexp(torch.relu(x) * 2, 0).sum()

    x = torch.randn(4, 4, requires_grad=True)
    torch.compile(f, backend=weir.get_npu_backend())(x).backward()
    got, x.grad = x.grad, None
    f(x).backward()
    torch.testing.assert_close(got, x.grad)


@pytest.mark.parametrize("dynamic", [True, False])
def test_returned_views_have_the_layout_of_eager_ones(host, dynamic):
    def function(x, n):
        x[n:].mul_(2)
        y = torch.logcumsumexp(x, 0) + 1
        z = torch.logcumsumexp(y.t(), 0)
        return x[n:], y[:, 1:], y, x, z[1:], y.t(), torch.chunk(x, 2), torch.fft.fft(x)[n:]

    run = torch.compile(function, backend=weir.get_npu_backend(), dynamic=dynamic, fullgraph=True)
    for n in (4, 6):
        make = lambda: (torch.arange(10.0 * n).view(2 * n, 5)[1 : n + 1], n // 2)  # noqa: E731
        got, want = programs.call(run, make()), programs.call(function, make())
        assert programs.compare(got, want) == []
