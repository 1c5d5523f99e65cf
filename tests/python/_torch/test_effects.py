"""Operators that do more than give values, in compiled functions."""

import pathlib
import re
import subprocess
import sys
import threading

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import programs  # noqa: E402

HERE = pathlib.Path(__file__).parent
seen = []


@torch.library.custom_op("weir_test::raise_by", mutates_args=("x",))
def raise_by(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("weir_test::count", mutates_args=())
def count() -> torch.Tensor:
    seen.append("count")
    return torch.tensor([float(len(seen))])


@torch.library.custom_op("weir_test::note", mutates_args=())
def note(x: torch.Tensor) -> torch.Tensor:
    seen.append(x.sum().item())
    return x.clone()


raise_by.register_fake(lambda x, by: None)
count.register_fake(lambda: torch.empty(1))
note.register_fake(torch.empty_like)


@pytest.fixture(autouse=True)
def fresh():
    programs.quiet()
    torch._dynamo.reset()
    seen.clear()


def numbers():
    return (torch.arange(12.0).view(3, 4),)


def check(function, make=numbers, calls=2, **options):
    """The function does the same compiled: results, what it leaves, and in which order."""
    config = weir.CompilerConfig()
    config.auto_streams = True
    backend = weir.get_npu_backend(compiler_config=config)
    run = torch.compile(function, backend=backend, fullgraph=True, **options)
    for seed in range(calls):
        done = []
        for one in (run, function):
            torch.manual_seed(seed)
            seen.clear()
            done.append((programs.call(one, make()), list(seen), torch.rand(1)))
        (got, order, random), (want, wanted_order, wanted_random) = done
        assert programs.compare(got, want) == []
        assert order == wanted_order and random == wanted_random
    return backend


def test_operators_of_others_run_in_order_and_write_where_they_say():
    def function(x):
        y = x + 1
        raise_by(y[1:], 2.0)
        raise_by(x, 3.0)
        with weir.scope.npu_stream_switch("side"):
            a = note(x * 2)
        b = note(x * 3)
        with weir.scope.npu_stream_switch("other"):
            c = note(x * 4)
        return y, x, a + b, c, x + count(), count()

    check(function)


def test_random_numbers_and_the_generators_state_equal_eager_ones():
    def function(x):
        with weir.scope.npu_stream_switch("side"):
            y = torch.nn.functional.dropout(x, 0.5)
        z = torch.rand_like(x) + torch.randn(3, 4)
        with weir.scope.npu_stream_switch("other"):
            w = x[torch.randperm(3)] * torch.bernoulli(torch.full((3, 4), 0.5))
        return y, z, w, x.clone().uniform_()

    check(function)


def test_branches_and_loops_are_run():
    from torch._higher_order_ops.map import map as over

    def function(x):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        i, z = torch._higher_order_ops.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x)
        )
        return y, i, z, over(lambda row: row * 2 + 1, x)

    backend = check(function)
    assert "cond" in backend.coverage.fallback and "while_loop" in backend.coverage.fallback


def test_running_statistics_are_kept():
    models = [torch.nn.BatchNorm1d(4) for _ in range(2)]
    run = torch.compile(models[0], backend=weir.get_npu_backend(), fullgraph=True)
    for n in range(3):
        x = torch.arange(12.0).view(3, 4) * (n + 1)
        torch.testing.assert_close(run(x), models[1](x))
    for mine, theirs in zip(*(m.state_dict().values() for m in models)):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    "function, why",
    [
        (lambda x: (x[x > 2] + 1, x.nonzero()), "is known only while the graph runs"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(), "quantized"),
        (lambda x: torch._foreach_mul([x + i for i in range(65)], 2), "65 tensors, more than 64"),
    ],
)
def test_a_graph_that_weir_cannot_run_runs_in_pytorch_with_a_message(function, why, caplog):
    with torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ), caplog.at_level("WARNING", logger="weir"):
        check(function)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "weir"]
    assert re.search("runs as PyTorch's own.*" + why, said), said


def test_many_outputs_of_one_operator_are_their_own_calls():
    """Also where several threads are in the same graph."""

    def function(x):
        return torch.histogramdd(x, [2, 2, 2, 2, 2])

    run = torch.compile(function, backend=weir.get_npu_backend(), fullgraph=True)
    inputs = [torch.rand(7, 5) * (i + 1) for i in range(4)]
    run(inputs[0])
    wrong = []

    def many(x):
        want = programs.call(function, (x,))
        with weir.stream(weir.Stream()):
            for _ in range(50):
                wrong.extend(programs.compare(programs.call(run, (x,)), want))

    threads = [threading.Thread(target=many, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_collectives_meet_those_of_the_other_rank(tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no collectives")
    script = HERE.parent / "compat" / "samples" / "collectives.py"
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), tmp_path / "meet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        said = [rank.communicate(timeout=200) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [out.strip() for out, _ in said] == ["right", "right"], said


def test_unused_numbers_among_results_do_not_prevent_a_plan():
    import operator

    from weir._torch import effects
    from weir._torch.graph.places import Unsupported

    def graph(which):
        made = torch.fx.Graph()
        q = made.placeholder("q")
        op = torch.ops.aten._scaled_dot_product_flash_attention.default
        call = made.call_function(op, (q, q, q))
        made.output(made.call_function(operator.getitem, (call, which)))
        return torch.fx.GraphModule({}, made)

    effects.check(graph(0))
    with pytest.raises(Unsupported, match="known only while the graph runs"):
        effects.check(graph(4))  # the length of the longest query
