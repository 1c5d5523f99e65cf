"""What TorchAir and torch_npu take inside and around compiled functions."""

import importlib.metadata
import warnings

import pytest

import weir
from weir import compat, configs

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")


@pytest.fixture(autouse=True)
def fresh(split):
    torch._dynamo.reset()


def compiled(function, **options):
    backend = weir.get_npu_backend()
    return torch.compile(function, backend=backend, fullgraph=True, **options), backend


def nodes(backend):
    """{name: (stream, inputs)} of the only graph."""
    found = {}
    for block in backend.graphs[0].plans[None].graph.dump().split("node {")[1:]:
        name = block.split('name: "')[1].split('"')[0]
        stream = block.split("_user_stream_label")[1].split('s: "')[1].split('"')[0] \
            if "_user_stream_label" in block else None  # fmt: skip
        found[name] = stream, [p.split('"')[0] for p in block.split('input: "')[1:]]
    return found


def test_a_stream_waits_for_tensors():
    def model(x):
        y = x @ x
        with weir.scope.npu_stream_switch("side"):
            weir.ops.wait([y])
            z = x + 1
        return y, z

    run, backend = compiled(model)
    x = torch.randn(8, 8)
    with weir.trace() as trace:
        torch.testing.assert_close(run(x), model(x))
    assert nodes(backend)["Wait_1"] == ("side", ["MatMul_0"])
    ops = {op["name"].split("_")[0]: op for op in trace.ops}
    assert ops["MatMul"]["end_us"] <= ops["Add"]["start_us"]
    with pytest.raises(ValueError, match="tokens made by record, and tensors, not int"):
        weir.ops.wait([3])
    weir.ops.wait([weir.ones((2,)), torch.ones(2)])


def test_streams_and_events_inside_a_traced_function():
    def model(a, b):
        s, event = weir.npu.Stream(priority=-1), weir.npu.Event()
        r = torch.add(a, 2)
        event.record()
        with weir.npu.stream(s):
            event.wait()
            q = torch.mul(r, 3)
            assert weir.npu.current_stream().tag == s.tag
            done = s.record_event()
        m = a @ b
        weir.npu.current_stream().wait_event(done)
        t = weir.npu.Stream()
        t.wait_stream(weir.npu.current_stream())
        with t:
            n = torch.sub(m, 1)
        weir.npu.default_stream().wait_stream(t)
        return q, m, n

    run, backend = compiled(model)
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    for _ in range(2):
        got = run(a, b)
        torch.testing.assert_close(got, ((a + 2) * 3, a @ b, a @ b - 1))
    found = nodes(backend)
    (sub,) = [name for name in found if name.startswith("Sub")]
    side, other = found["Mul_3"][0], found[sub][0]
    assert side and other and side != other and found["MatMul_5"][0] is None
    assert found["Wait_2"] == (side, ["Record_1"]) and found["Wait_6"] == (None, ["Record_4"])
    assert len(backend.graphs) == 1 and backend.graphs[0].plans[None].plan.stats()["streams"] == 3


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.side, self.ready = weir.npu.Stream(), weir.npu.Event()

    def forward(self, x):
        y = x * 2
        self.ready.record()
        with weir.npu.stream(self.side):
            self.ready.wait()
            z = y + 1
        weir.npu.current_stream().wait_stream(self.side)
        return z


def test_streams_and_events_that_a_model_holds():
    model = Holder()
    run, backend = compiled(model)
    x = torch.randn(4, 4)
    for _ in range(3):
        torch.testing.assert_close(run(x), x * 2 + 1)
    assert nodes(backend)["Add_3"][0] == model.side.tag and len(backend.graphs) == 1


def test_texts_for_scopes_are_taken():
    def model(x):
        with weir.scope.limit_core_num("2", "3"), weir.scope.super_kernel("s", "any text:stream-fusion=1"):
            y = x * 2
            with weir.scope.super_kernel(None), weir.scope.super_kernel("t", None):
                return y + 1

    run, backend = compiled(model)
    x = torch.ones(4)
    with pytest.warns(UserWarning, match="no effect in weir: .*'any text'"):
        assert run(x).tolist() == [3] * 4
    text = backend.graphs[0].plans[None].graph.dump()
    assert '"_op_aicore_num" value { i: 2 }' in text and '"stream-fusion=1"' in text
    with pytest.raises(ValueError, match="op_vectorcore_num must be a number, not 'many'"):
        weir.scope.limit_core_num("1", "many")


def test_set_stream_inside_a_traced_function():
    def model(x):
        before = weir.npu.current_stream()
        a, b, event = weir.npu.Stream(), weir.npu.Stream(), weir.npu.Event()
        weir.npu.set_stream(a)
        y = torch.add(x, 1)
        weir.npu.set_stream(b)
        assert weir.npu.current_stream().tag == b.tag
        b.wait_stream(a)
        with weir.npu.stream(a):
            weir.npu.set_stream(before)
            z = torch.mul(x, 3)
        r = torch.sub(y, 2)
        weir.npu.set_stream(before)
        event.record(b)
        event.wait(before)
        return z, torch.neg(r)

    run, backend = compiled(model)
    x = torch.randn(4, 4)
    for _ in range(2):
        torch.testing.assert_close(run(x), (x * 3, 2 - (x + 1)))
    stream = {name.split("_")[0]: where for name, (where, _) in nodes(backend).items()}
    assert stream["Mul"] in (None, "default") and stream["Neg"] is None
    assert len({stream["Add"], stream["Sub"], None}) == 3


def test_passes_get_inputs_and_configuration_as_torchairs_do():
    seen = []

    def change(graph, example_inputs, config):
        seen.append((graph, len(example_inputs), config))

    config = weir.CompilerConfig()
    config.post_grad_custom_post_pass = change
    backend = weir.get_npu_backend(compiler_config=config)
    torch.compile(lambda x, y: x + y, backend=backend)(torch.ones(2), torch.ones(2))
    ((graph, inputs, given),) = seen
    assert isinstance(graph, torch.fx.GraphModule) and inputs == 2 and given is backend.config


def test_the_backend_has_a_name_and_takes_options():
    compat.install()
    import torch_npu  # noqa: F401  (registers npugraph_ex)

    seen = []
    x = torch.ones(3)
    for backend in ("weir", "npugraph_ex", weir.get_npu_backend()):
        torch._dynamo.reset()
        options = {"clone_input": False, "post_grad_custom_pre_pass": seen.append}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = torch.compile(lambda x: x + 1, backend=backend, options=options, fullgraph=True)
            assert run(x).tolist() == [2] * 3
    assert len(seen) == 3 and all(isinstance(m, torch.fx.GraphModule) for m in seen)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no option 'clone_inptu'; did you mean 'clone_input'"):
        torch.compile(lambda x: x + 2, backend="npugraph_ex", options={"clone_inptu": 1})(x)
    with pytest.raises(Exception, match="no option 'auto_stream'; did you mean 'auto_streams'"):
        torch.compile(lambda x: x + 2, backend="weir", options={"auto_stream": True})(x)
    points = importlib.metadata.entry_points(group="torch_dynamo_backends")
    (ours,) = {point.value for point in points if point.name == "weir"}
    assert callable(importlib.metadata.EntryPoint("weir", ours, "torch_dynamo_backends").load())


def test_a_tensor_is_recorded_on_a_stream():
    compat.install()
    import torch_npu  # noqa: F401

    def model(x):
        y = x + 1
        y.record_stream(torch.npu.current_stream())
        return y * 2

    model(torch.ones(2)).record_stream(torch.npu.Stream())
    assert compiled(model)[0](torch.ones(2)).tolist() == [4, 4]


def test_every_option_of_the_configuration_is_taken_and_said_once(tmp_path, monkeypatch):
    monkeypatch.setattr(configs, "_told", set())
    file = tmp_path / "switch.json"
    file.write_text("{}")
    config = weir.CompilerConfig()
    config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
    config.debug.aclgraph.static_capture_size_limit = 2
    config.debug.data_dump.type = "npy"
    config.debug.fx_summary.type = "csv"
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = str(tmp_path)
    config.dump_config.dump_step = "0|2-5"
    config.aoe_config.aoe_mode = "2"
    config.fusion_config.fusion_switch_file = str(file)
    config.export.export_name = "model"
    config.export.experimental.enable_lite_export = True
    config.aclgraph_config.use_custom_pool = object()
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    config.experimental_config.remove_noop_ops = False
    config.experimental_config.pattern_fusion_pass = False
    config.ge_config.oo_constant_folding = True
    with pytest.warns(UserWarning, match="no effect in weir: .*aoe_config.aoe_mode") as said:
        backend = weir.get_npu_backend(compiler_config=config)
    assert "static_capture_size_limit" not in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weir.get_npu_backend(compiler_config=config)
    run = torch.compile(lambda x: x + 1, backend=backend, dynamic=True, fullgraph=True)
    for n in (3, 4, 5, 6):
        assert run(torch.ones(n)).tolist() == [2] * n
    assert len(backend.graphs[0].plans) <= 2  # one serves all sizes
    for wrong in (
        lambda: setattr(config.dump_config, "dump_path", "/nowhere"),
        lambda: setattr(config.aoe_config, "aoe_config_file", "/nowhere"),
        lambda: setattr(config.dump_config, "dump_step", "first"),
        lambda: setattr(config.debug.aclgraph, "static_capture_size_limit", 0),
        lambda: setattr(config, "post_grad_custom_pre_pass", 3),
    ):
        with pytest.raises((OSError, ValueError, TypeError)):
            wrong()
