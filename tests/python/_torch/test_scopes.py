"""Scopes, waits and core limits of compiled functions, and the graphs that they become."""

import glob
import os

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

from compiling import compiled, fresh, same  # noqa: E402,F401


class Seed(torch.nn.Module):
    def forward(self, in1, in2, in3, in4):
        add_result = torch.add(in1, in2)
        with weir.scope.npu_stream_switch("1"):
            weir.scope.npu_wait_tensor(in4, add_result)
            mm_result = torch.mm(in3, in4)
        mm1 = torch.mm(in3, in4)
        with weir.scope.npu_stream_switch("2"):
            weir.scope.npu_wait_tensor(in4, mm_result)
            add2 = torch.add(in3, in4)
        return add_result, mm_result, mm1, add2


def edges(text):
    """{node: control inputs} and {node: stream} of a dump."""
    controls, streams = {}, {}
    for block in text.split("node {")[1:]:
        name = block.split('name: "')[1].split('"')[0]
        controls[name] = [part.split('"')[0] for part in block.split('input: "^')[1:]]
        if "_user_stream_label" in block:
            streams[name] = block.split("_user_stream_label")[1].split('s: "')[1].split('"')[0]
    return controls, streams


@pytest.mark.parametrize("spec", ["cpu:cube=24,vector=48", "npu:a3"])
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_scopes_and_waits_reach_the_graph(spec, mode):
    before = weir.get_device()
    weir.set_device(spec)
    try:
        model, backend = compiled(Seed(), mode=mode)
        inputs = [torch.randn(64, 64) for _ in range(4)]
        with weir.trace() as t:
            got = model(*inputs)
        same(got, Seed()(*inputs), 1e-4)
        plan = backend.graphs[0].plans[None].plan
        assert plan.stats()["streams"] == 3 and backend.coverage.fallback.total() == 0
        controls, streams = edges(backend.graphs[0].plans[None].graph.dump())
        assert controls["MatMul_1"] == ["Add_0"] and "MatMul_1" in controls["Add_3"]
        assert streams == {"MatMul_1": "1", "Add_3": "2"}
        ops = {op["name"]: op for op in t.ops}
        assert ops["Add_0"]["end_us"] <= ops["MatMul_1"]["start_us"]
        assert ops["MatMul_1"]["end_us"] <= ops["Add_3"]["start_us"]
        if mode == "reduce-overhead":
            assert [ops[n]["stream"] for n in ("MatMul_1", "MatMul_2", "Add_3")] == [
                "1",
                "default",
                "2",
            ]
    finally:
        weir.set_device(before)


def test_dumps_are_named_as_torchair_names_them(tmp_path):
    model, backend = compiled(
        Seed(), debug__graph_dump__type="pbtxt", debug__graph_dump__path=str(tmp_path)
    )
    model(*[torch.randn(8, 8) for _ in range(4)])
    (original,) = glob.glob(
        str(tmp_path / f"dynamo_original_graph_*_rank_0_pid_{os.getpid()}_ts_*.pbtxt")
    )
    (optimized,) = glob.glob(str(tmp_path / "dynamo_optimized_graph_*.pbtxt"))
    assert weir.Graph.loads(open(optimized).read()).compile().stats()["nodes"] == 4
    text = open(original).read()
    controls, streams = edges(text)
    assert controls["MatMul_1"] == ["Add_0"] and "MatMul_1" in controls["Add_3"]
    assert streams["MatMul_1"] == "1" and streams["Add_3"] == "2" and "MatMul_2" not in streams
    assert weir.Graph.loads(text).dump() == text


def test_possible_deadlocks_and_conflicts_are_reported_before_a_run(caplog):
    with caplog.at_level("WARNING", logger="weir"):
        model, backend = compiled(Seed(), debug__deadlock_check=True)
        model(*[torch.randn(8, 8) for _ in range(4)])
        assert backend.graphs[0].findings == [] and caplog.records == []
        model, backend = compiled(
            Seed(), debug__deadlock_check=True, ge_config__enable_single_stream=True
        )
        with pytest.raises(ValueError, match="stream label"):
            model(*[torch.randn(8, 8) for _ in range(4)])
    assert {f["kind"] for f in backend.graphs[0].findings} == {"conflict"}
    assert "conflict" in caplog.text


def test_dumps_as_python(tmp_path):
    model, _ = compiled(
        Seed(), debug__graph_dump__type="py", debug__graph_dump__path=str(tmp_path)
    )
    model(*[torch.randn(8, 8) for _ in range(4)])
    (path,) = tmp_path.glob("dynamo_original_graph_*.py")
    assert "torch.ops.aten.mm.default" in path.read_text()


def test_nested_scopes_and_core_limits(split):
    def model(x):
        with weir.scope.limit_core_num(6, 12):
            with weir.scope.npu_stream_switch("a", -1):
                y = torch.add(x, x)
                with weir.scope.limit_core_num(2, 3):
                    z = torch.mul(x, x)
        return y, z, torch.sub(x, 1.0)

    f, backend = compiled(model, mode="reduce-overhead")
    x = torch.randn(1 << 20)
    with weir.trace() as t:
        same(f(x), model(x))
    ops = {op["name"].split("_")[0]: op for op in t.ops}
    assert (ops["Add"]["stream"], ops["Add"]["cores"]) == ("a", 12)
    assert (ops["Mul"]["stream"], ops["Mul"]["cores"]) == ("a", 3)
    assert ops["Sub"]["stream"] == "default" and ops["Sub"]["cores"] > 12


def test_a_core_limit_that_the_device_lacks_is_refused(split):
    def model(x):
        with weir.scope.limit_core_num(25, 48):
            return x + x

    with pytest.raises(Exception, match="25.*1..24"):
        compiled(model)[0](torch.ones(4))
    assert weir._C.scope_depth() == 0


def test_single_stream_conflicts_with_labels():
    with pytest.raises(ValueError, match="stream label.*1"):
        compiled(Seed(), ge_config__enable_single_stream=True)[0](
            *[torch.randn(4, 4) for _ in range(4)]
        )


def test_unpaired_scopes_are_errors():
    def never_left(x):
        weir.scope.npu_stream_switch("1").__enter__()
        return x + 1

    def never_entered(x):
        weir.scope.npu_stream_switch("1").__exit__(None, None, None)
        return x + 1

    with pytest.raises(RuntimeError, match="npu_stream_switch was entered and never left"):
        compiled(never_left)[0](torch.ones(2))
    assert weir._C.scope_depth() == 0
    with pytest.raises(RuntimeError, match="npu_stream_switch is left without its enter"):
        compiled(never_entered)[0](torch.ones(2))


def test_tokens_and_tagged_events_order_a_graph():
    event = weir.ops.npu_create_tagged_event("in a graph")

    def model(x):
        y = x @ x
        token = weir.ops.record()
        with weir.scope.npu_stream_switch("side"):
            weir.ops.wait([token])
            z = torch.add(x, 1)
            weir.ops.npu_tagged_event_record(event)
        weir.ops.npu_tagged_event_wait(event)
        weir.ops.npu_record_tagged_stream(x, "side")
        return y, z, x * 2

    f, backend = compiled(model, mode="reduce-overhead")
    x = torch.randn(32, 32)
    with weir.trace() as t:
        same(f(x), (x @ x, x + 1, x * 2), 1e-4)
    ops = {op["name"].split("_")[0]: op for op in t.ops}
    assert ops["MatMul"]["end_us"] <= ops["Add"]["start_us"]
    assert ops["Add"]["end_us"] <= ops["Mul"]["start_us"]
    weir.ops.npu_destroy_tagged_event(event)
