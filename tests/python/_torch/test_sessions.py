"""One compiled function, called again and again with what changes in between."""

import ctypes
import gc
import os
import threading

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import programs  # noqa: E402
import sessions  # noqa: E402

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 4))


@pytest.fixture(autouse=True)
def fresh():
    programs.quiet()
    torch._dynamo.reset()


def test_random_sessions_equal_eager_ones():
    found = []
    for seed in range(COUNT):
        found += sessions.try_seed(seed)[1]
    assert not found, "\n".join(found)


def write_both(a, v):
    v.add_(1)
    a.add_(3)
    return a * 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("detached", [False, True])
def test_written_views_may_have_another_offset_at_the_next_call(dynamic, detached):
    run = torch.compile(write_both, backend="weir", dynamic=dynamic)

    def make(offset, rows):
        base = torch.arange(3.0 * rows).view(rows, 3)
        a = base[offset : offset + 4]
        return [x.detach() if detached else x for x in (a, a[3])] + [base]

    for offset, rows in ((1, 6), (2, 6), (0, 4), (3, 9)):
        (a, v, ours), (b, w, theirs) = make(offset, rows), make(offset, rows)
        assert torch.equal(run(a, v), write_both(b, w))
        assert torch.equal(ours, theirs)


def arithmetic(x, s):
    return x / s, x * s, x + s


@pytest.mark.parametrize("backend", ["eager", "weir"])
@pytest.mark.parametrize("numbers", [(2.5, 0.0, -0.0, 3.0, -0.0, 0.0), (0.0, -0.0, 0.0), (-0.0, 0.0, -0.0)])
def test_zero_and_minus_zero_are_distinguished(backend, numbers):
    """Where sizes are open. Else a number is a constant to PyTorch, whose guards take the two for one."""
    x = torch.tensor([1.0, -2.0, -0.0])
    run = torch.compile(arithmetic, backend=backend, dynamic=True)
    for s in numbers:
        for got, want in zip(run(x, s), arithmetic(x, s)):
            assert torch.equal(got.view(torch.int32), want.view(torch.int32)), s


ALIKE = [0.0, -0.0, 0, False, 1, True, 1.0, 2**53 + 1, float(2**53), float("nan"), float("inf")]


def test_numbers_that_python_takes_for_equal_are_not_shared():
    """All pairs, as constants of one graph, which computes once what it says twice."""
    texts = [f"torch.full((2,), {n!r}), x * {n!r}, x / {n!r}, x == {n!r}" for n in ALIKE]
    texts += [f"torch.full((2,), complex({a}, {b}))" for a in (0.0, -0.0) for b in (0.0, -0.0)]
    space = {"torch": torch, "nan": float("nan"), "inf": float("inf")}
    exec(f"def function(x):\n    return [{', '.join(texts)}]", space)
    x = torch.tensor([1.5, -2.0], dtype=torch.float64)
    got, want = torch.compile(space["function"], backend="weir")(x), space["function"](x)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and torch.equal(a.isnan(), b.isnan())
        a, b = (t.masked_fill(t.isnan(), 0).view(-1) for t in (a, b))
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_graph_with_number_arguments_is_built_for_each_number():
    graph = torch.fx.Graph()
    x, s = graph.placeholder("x"), graph.placeholder("s")
    y = graph.call_function(torch.ops.aten.mul.Tensor, (x, s))
    graph.output([y])
    example = torch.tensor([1.5, -2.0])
    x.meta["val"], s.meta["val"], y.meta["val"] = example, 2.5, example * 2.5
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    run = weir.get_npu_backend()._compile(module, [example, 2.5], inference=True)
    for number in (2.5, *ALIKE[:2], 1.0, True, float("nan"), 2.5, 3.5):
        (got,) = run([example, number])
        torch.testing.assert_close(got, example * number, equal_nan=True, rtol=0, atol=0)
        if number == number:
            assert torch.equal(got.signbit(), (example * number).signbit())


def test_a_view_of_arithmetic_with_a_number_is_a_view():
    def both(x, s):
        y = x * s
        return y, y.t()

    run = torch.compile(both, backend="weir", dynamic=True)
    for n in (4, 5):
        y, turned = run(torch.ones(n, 3), 2.0)
        y.zero_()
        assert not turned.any()


def test_threads_may_make_the_first_calls_of_open_sizes_at_once():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x, y):
        return [x * 2 + y, y.sum(0)]

    module = make_fx(function, tracing_mode="symbolic")(torch.ones(5, 7), torch.ones(5, 7))
    examples = [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"]
    wrong = []
    for _ in range(10):
        run = weir.get_npu_backend()._compile(module, examples, inference=True)
        start = threading.Barrier(3)

        def work(n, run=run, start=start):
            start.wait()
            x = torch.full((n, 7), float(n))
            try:
                got = run([x, x])
                wrong.extend(n for a, b in zip(got, function(x, x)) if not torch.equal(a, b))
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(5 + i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_small_argument_is_not_copied_to_memory_that_queued_work_still_writes():
    run = torch.compile(lambda x: (x * 3,), backend="weir", dynamic=False)
    one = weir.ones((1,))
    kept = []
    for i in range(6):  # an argument that moves is copied from the fourth call on
        gate = threading.Event()

        def late(inputs, outputs, gate=gate):
            gate.wait(10)
            ctypes.memset(outputs[0], 0, 32)

        for _ in range(4):
            weir.host_call("late", late, [one], [(weir.float32, (8,))])
        opener = threading.Timer(0.02, gate.set)
        opener.start()
        kept.append(torch.full((8,), float(i)))
        with torch.no_grad():
            (got,) = run(kept[-1])
        opener.join()
        assert torch.equal(got, kept[-1] * 3)


@pytest.mark.parametrize("device", ["cpu", "npu:a3"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_index_out_of_range_fails_one_call_and_no_later_one(device, dynamic):
    before = weir.get_device()
    weir.set_device(weir.Device(device))
    try:
        run = torch.compile(lambda x, i: (x + 1).index_select(0, i), backend="weir", dynamic=dynamic)
        other = torch.compile(lambda x: x * 3, backend="weir")
        for n in (4, 5):
            x = torch.arange(3.0 * n).view(n, 3)
            for _ in range(3):
                with pytest.raises(weir.InvalidError, match="index 99"):
                    run(x, torch.tensor([0, 99]))
                assert torch.equal(run(x, torch.tensor([0, 2])), (x + 1)[[0, 2]])
                assert torch.equal(other(x), x * 3)
    finally:
        weir.set_device(before)


def test_dropout_of_no_elements_is_pytorchs():
    run = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="weir", dynamic=True)
    for n in (3, 0):
        x = torch.ones(n, 4, dtype=torch.bfloat16)
        assert run(x).shape == x.shape


def test_a_backend_keeps_no_graph_that_pytorch_has_freed():
    backend = weir.get_npu_backend()
    for number in range(3):
        torch._dynamo.reset()
        gc.collect()
        run = torch.compile(lambda x, n=number: x + n, backend=backend)
        run(torch.ones(2))
        assert len(backend.graphs) == 1
