"""The seeds' own scripts, as they are, on cpu and on the modelled NPU.

samples/ holds the code samples word for word; the snippets of the MindSpore page
have the imports they leave out before them.
"""

import glob
import pathlib
import sys

import pytest

import weir
from weir import compat

SAMPLES = pathlib.Path(__file__).parent / "samples"
DEVICES = [compat.DEFAULT_DEVICE, "npu:a3"]
try:
    import torch

    weir.Device("cuda:0").close()
    DEVICES += ["cuda:0"] * torch.cuda.is_available()
except (ImportError, weir.Error):
    pass  # there is no GPU here


@pytest.fixture(params=DEVICES)
def device(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = weir.get_device()
    weir.set_device(request.param)
    compat.install()
    if hasattr(sys.modules.get("torch"), "_dynamo"):
        sys.modules["torch"]._dynamo.reset()
    yield weir.get_device()
    weir.set_device(before)


def run(name, **changes):
    """The sample's globals and the trace of its run; ``changes`` are (old, new) text."""
    path = SAMPLES / name
    if changes:
        text = path.read_text()
        for old, new in changes.values():
            assert text.count(old) >= 1
            text = text.replace(old, new)
        path = pathlib.Path.cwd() / name
        path.write_text(text)
    with weir.trace() as trace:
        names = compat.run_script(str(path))
    return names, trace


def in_order(trace, *names):
    ops = {op["name"]: op for op in trace.ops}
    for first, second in zip(names, names[1:]):
        assert ops[first]["end_us"] <= ops[second]["start_us"], (first, second)


# ---- TorchAir ----


@pytest.mark.parametrize(
    "name", ["torchair_model.py", "torchair_pbtxt.py", "torchair_pbtxt_again.py"]
)
def test_the_model_of_two_concurrent_parts(device, name, capsys):
    torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
    names, trace = run(name)
    add_result, mm_result, mm1, add2 = names["result"]
    in1, in2, in3, in4 = (names[f"in{i}"] for i in (1, 2, 3, 4))
    assert torch.equal(add_result, in1 + in2) and torch.equal(add2, in3 + in4)
    product = in3.float() @ in4.float()
    torch.testing.assert_close(mm_result.float(), product, rtol=2e-3, atol=5e-2)
    assert torch.equal(mm1, mm_result)
    assert "Result:" in capsys.readouterr().out
    streams = {op["name"]: op["stream"] for op in trace.ops}
    assert streams["MatMul_1"] == "1" and streams["Add_3"] == "2"
    assert streams["Add_0"] == streams["MatMul_2"] == "default"
    in_order(trace, "Add_0", "MatMul_1", "Add_3")
    dumps = glob.glob("dynamo_original_graph_*_rank_0_pid_*_ts_*.pbtxt")
    assert len(dumps) == ("pbtxt" in name)
    if dumps:
        text = open(dumps[0]).read()
        for label in ("1", "2"):
            assert f's: "{label}"' in text
        assert 'input: "^Add_0"' in text and 'input: "^MatMul_1"' in text
        assert weir.Graph.loads(text).dump() == text
    weir.logger.setLevel("ERROR")


def test_core_limits_eagerly(device):
    torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
    names, trace = run("eager_limit.py")
    x = names["x"]
    want = torch.nn.functional.silu(x[:, :8]) * x[:, 8:]
    torch.testing.assert_close(names["output"], want)
    on_gpu = device.name == "cuda:0"
    assert x.is_cuda == names["output"].is_cuda == on_gpu
    assert torch.npu.get_stream_limit(names["stream"]) == {
        "cube_core_num": 8 if on_gpu else 3,  # GPUs give cores by eights
        "vector_core_num": 8,
    }
    (op,) = trace.named("Swiglu")
    assert op["stream"] == "default" and op["cores"] <= 8


def test_core_limits_in_a_graph(device):
    torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
    slip = ("super.__init__()", "super().__init__()")  # which no Python accepts
    names, _ = run("graph_limit.py", slip=slip)
    x = names["x"].npu()
    with weir.trace() as trace:
        mm_result, add_result = names["opt_model"](x)
        weir.synchronize()
    torch.testing.assert_close(mm_result, x @ x)
    assert torch.equal(add_result, x + x)
    (op,) = trace.named("Add")
    assert op["cores"] <= 12
    text = names["aclgraph_backend"].graphs[0].plans[None].graph.dump()
    add = text.split('op: "Add"')[1].split("node {")[0]
    assert "_op_aicore_num" in add and "_op_vectorcore_num" in add
    assert text.count("_op_aicore_num") == 1


def test_moving_to_the_npu(device):
    torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
    import torch_npu  # noqa: F401

    x = torch.ones(2, device="npu")
    assert x.npu() is x and x.is_npu and x.to("npu:0").sum() == 2
    assert torch.nn.Linear(2, 2).npu().to("npu").weight.shape == (2, 2)
    with pytest.raises(RuntimeError, match="npu:7"):
        x.npu("npu:7")
    assert torch.npu.is_available() and torch.npu.device_count() == 1


# ---- MindSpore ----


def race(name, **changes):
    with weir.check() as found:
        names, found.trace = run(name, **changes)
    return names, found


def placed(found, *want):
    """The operators of those (name, stream), in the order they were queued; each ends before
    the next begins."""
    ops = []
    for name, stream in want:
        stream = stream if isinstance(stream, str) else stream._stream.name
        ops.append(next(o for o in found.trace.named(name) if o["stream"] == stream and o not in ops))
    for first, second in zip(ops, ops[1:]):
        assert first["end_us"] <= second["start_us"], (first, second)
    return ops


def test_the_incorrect_sample_is_reported(device):
    names, found = race("mindspore_incorrect.py")
    (finding,) = found.races
    assert (finding["first"]["op"], finding["second"]["op"]) == ("MatMul", "Sum")
    assert finding["first"]["stream"] == "default" and finding["first"]["writes"]
    assert finding["second"]["file"].endswith("mindspore_incorrect.py")
    assert finding["second"]["line"] > finding["first"]["line"] > 0
    assert "wait" in str(found)
    placed(found, ("MatMul", "default"))  # nothing orders the two: that is the finding
    placed(found, ("Sum", names["s"]))


def test_the_correct_sample_is_clean(device):
    np = pytest.importorskip("numpy")
    names, found = race("mindspore_correct.py")
    assert found.races == []
    b = names["B"].asnumpy()
    assert names["C"].asnumpy() == pytest.approx(b.sum(), rel=1e-3)
    a = names["A"].asnumpy()
    np.testing.assert_allclose(b, a @ a, rtol=1e-3, atol=1e-4)
    placed(found, ("MatMul", "default"), ("Sum", names["s"]))


def test_the_event_sample_waits_for_the_wrong_event(device):
    _, found = race("mindspore_event.py")
    (finding,) = found.races
    assert (finding["first"]["op"], finding["second"]["op"]) == ("Sum", "Add")
    assert finding["second"]["stream"] == "default"
    right = ("\nev1.wait()", "\nev2.wait()")
    names, found = race("mindspore_event.py", right=right)
    assert found.races == []
    assert names["D"].item() == pytest.approx(names["B"].asnumpy().sum() + 1, rel=1e-3)
    placed(found, ("MatMul", "default"), ("Sum", names["s"]), ("Add", "default"))


@pytest.mark.parametrize("name", ["mindspore_not_recommended.py", "mindspore_recommended.py"])
def test_cells_and_functions_with_streams(device, name):
    names, _ = run(name)
    net = names["Net"]()
    assert net(3) is None
    assert sys.modules["mindspore"].hal.current_stream().id == 0
    if "not" in name:
        assert names["func"](3) is None
    else:
        assert names["func"](3, names["s1"]) is None and net.s1 != names["s1"]


def test_memory_lives_as_long_as_another_stream_uses_it(device):
    np = pytest.importorskip("numpy")
    names, found = race("mindspore_lifetime.py")
    assert found.races == []
    x = names["input_s0"].asnumpy()
    np.testing.assert_allclose(names["add_s1"].asnumpy(), x + 2, rtol=1e-6)
    np.testing.assert_allclose(names["add_1_s0"].asnumpy(), x + 3, rtol=1e-6)
    assert names["conv_res"].shape == (10, 32, 30, 30)
    assert "add_s0" not in names
    placed(found, ("Add", "default"), ("Conv2D", names["s1"]), ("Add", names["s1"]))
    on_default = [op for op in found.trace.named("Add") if op["stream"] == "default"]
    (add_s1,) = (op for op in found.trace.named("Add") if op["stream"] == names["s1"]._stream.name)
    assert len(on_default) == 3
    assert max(op["start_us"] for op in on_default) >= add_s1["end_us"]


def test_mindspore_as_such_scripts_use_it(device):
    np = pytest.importorskip("numpy")
    import mindspore as ms
    from mindspore import Tensor, context, nn, ops

    context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
    assert ms.get_context("mode") == ms.GRAPH_MODE
    t = Tensor([[1, 2], [3, 4]], ms.float32)
    assert isinstance(t, Tensor) and t.dtype is ms.float32 and t.astype(ms.int32).dtype is ms.int32
    assert ops.mean(t, 0).asnumpy().tolist() == [2, 3]
    assert ops.cat([t, t], axis=1).shape == (2, 4)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.body = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU())

        def construct(self, x):
            return self.body(x)

    net = Net()
    assert net(t).shape == (2, 3) and len(net.get_parameters()) == 2
    image, kernel = Tensor(np.ones((1, 1, 4, 4)), ms.float32), Tensor(np.ones((1, 1, 3, 3)), ms.float32)
    assert ops.conv2d(image, kernel, pad_mode="same").shape == (1, 1, 4, 4)
    with pytest.raises(AttributeError, match=r"mindspore.ops.matmull; the nearest is 'matmul'"):
        ops.matmull
    with pytest.raises(ModuleNotFoundError, match="weir does not provide mindspore.nnn; the nearest is 'nn'"):
        import mindspore.nnn  # noqa: F401
    with pytest.raises(ValueError, match="device_target"):
        context.set_context(device_target="TPU")
