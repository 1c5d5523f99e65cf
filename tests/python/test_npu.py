"""weir.npu against torch.npu, weir.scope and weir.ops against torchair's, the configuration."""

import pytest

import weir
from weir import npu, ops, scope


def test_limits_are_independent_per_stream_and_fall_back(split):
    a, b = npu.Stream(), npu.Stream()
    full = {"cube_core_num": 24, "vector_core_num": 48}
    assert npu.get_stream_limit(a) == full
    npu.set_stream_limit(a, 3, 8)
    npu.set_stream_limit(b, vector_num=5)
    assert npu.get_stream_limit(a) == {"cube_core_num": 3, "vector_core_num": 8}
    assert npu.get_stream_limit(b) == {"cube_core_num": 24, "vector_core_num": 5}
    npu.set_stream_limit(a, -1, 9)
    assert npu.get_stream_limit(a) == {"cube_core_num": 3, "vector_core_num": 9}
    npu.reset_stream_limit(a)
    assert npu.get_stream_limit(a) == full
    npu.set_device_limit(0, 12, 24)
    assert npu.get_device_limit(0) == {"cube_core_num": 12, "vector_core_num": 24}
    assert npu.get_stream_limit(a) == npu.get_device_limit(0)
    with pytest.raises(RuntimeError, match="once"):
        npu.set_device_limit(0, 1, 1)
    with pytest.raises(ValueError, match="49.*1..48"):
        npu.set_stream_limit(a, 1, 49)
    for bad in (lambda: npu.set_stream_limit(None, 1, 1), lambda: npu.set_stream_limit(a, "1", 1)):
        with pytest.raises(AssertionError):
            bad()


def test_streams_and_events():
    s = npu.Stream(priority=-2)
    assert s.priority == -2 and s == npu.Stream(stream=s.stream) and s != 3
    with npu.stream(s):
        assert npu.current_stream() == s
        with npu.stream(None):
            assert npu.current_stream() == s
    with s:
        assert npu.current_stream() == s
    assert npu.current_stream() == npu.default_stream()
    event = s.record_event()
    npu.default_stream().wait_event(event)
    npu.default_stream().wait_stream(s)
    event.synchronize()
    assert event.query() and s.query()
    npu.synchronize()
    with pytest.raises(RuntimeError, match="no 'npu:3'"):
        npu.current_stream("npu:3")
    assert npu.npu_swiglu(weir.tensor([0.0, 1.0])).tolist() == [0]


def test_scopes_nest_and_the_innermost_wins(split):
    x, y = weir.ones((256, 256)), weir.ones((1 << 20,))
    weir.synchronize()
    with weir.trace() as t:
        with scope.limit_core_num(6, 12):
            with scope.npu_stream_switch("a"):
                x @ x
                with scope.npu_stream_switch("b"), scope.limit_core_num(2, -1):
                    x @ x
                y + y
    # Nothing orders the two streams.
    first, second = sorted(t.named("MatMul"), key=lambda op: op["stream"])
    (add,) = t.named("Add")
    assert (first["stream"], first["cores"]) == ("a", 6)
    assert (second["stream"], second["cores"]) == ("b", 2)
    assert (add["stream"], add["cores"]) == ("a", 12)


def test_scopes_are_left_on_an_error_and_checked():
    with pytest.raises(KeyError):
        with scope.npu_stream_switch("a"):
            raise KeyError
    assert weir._C.scope_depth() == 0
    with pytest.raises(RuntimeError):
        scope.npu_stream_switch("a").__exit__(None, None, None)
    with pytest.raises(ValueError, match="-8"):
        scope.npu_stream_switch("a", 99).__enter__()
    with pytest.raises(ValueError):
        scope.limit_core_num(0, 1).__enter__()
    for bad in (
        lambda: scope.npu_stream_switch(1),
        lambda: scope.limit_core_num(1.5, 2),
        lambda: scope.op_never_timeout(1),
        lambda: scope.super_kernel(3),
    ):
        with pytest.raises(TypeError):
            bad()


def test_super_kernels_fuse_in_a_graph():
    g = weir.Graph()
    x = g.input("x", (4,))
    with g:
        with scope.super_kernel("sk", "stream-fusion=1"):
            y = (x + 1) * 2
            with scope.super_kernel(None):
                z = y.sum()
    g.output("z", z)
    text = g.dump()
    assert '"sk"' in text and text.count("_super_kernel_scope") == 2
    plan = g.compile(mode="reduce-overhead")
    assert plan.stats()["launches"] == 2
    assert plan(weir.ones((4,))).item() == 16


def test_wait_tensor_orders_across_streams():
    a = weir.ones((300, 300))
    b = a @ a
    with scope.npu_stream_switch("waits"):
        assert scope.npu_wait_tensor(a, b) is a
        c = a + b
    assert c[0, 0].item() == 301
    with pytest.raises(TypeError):
        scope.npu_wait_tensor(a, 3)


def test_tokens_and_tagged_events():
    from weir import _dispatch

    before, _dispatch.torch_ops = _dispatch.torch_ops, None
    try:
        token = ops.record()
        with scope.npu_stream_switch("t"):
            ops.wait([token])
        event = ops.npu_create_tagged_event("tag of the test")
        with pytest.raises(ValueError, match="tagged event tag tag of the test is already in use"):
            ops.npu_create_tagged_event("tag of the test")
        ops.npu_tagged_event_record(event)
        ops.npu_tagged_event_wait(event)
        ops.npu_destroy_tagged_event(event)
        with pytest.raises(ValueError):
            ops.npu_tagged_event_wait(event)
        x = weir.ones((2,))
        ops.npu_record_tagged_stream(x, "default")
        with pytest.raises(TypeError):
            ops.npu_record_tagged_stream(x, 1)
        for bad in ([], None, [3], [token, 3], [None]):
            with pytest.raises(ValueError):
                ops.wait(bad)
    finally:
        _dispatch.torch_ops = before


def test_the_configuration_checks_names_and_values():
    config = weir.CompilerConfig()
    assert config.mode == "max-autotune" and config.as_dict() == {}
    config.mode = "reduce-overhead"
    config.debug.graph_dump.type = "pbtxt"
    config.ge_config.aicore_num = "24|48"
    assert config.as_dict() == {
        "mode": "reduce-overhead",
        "debug.graph_dump.type": "pbtxt",
        "ge_config.aicore_num": "24|48",
    }
    with pytest.raises(ValueError, match="'max-autotune', 'reduce-overhead'"):
        config.mode = "fast"
    with pytest.raises(AttributeError, match="did you mean 'enable_single_stream'"):
        config.ge_config.enable_singel_stream = True
    with pytest.raises(AttributeError, match="group"):
        config.debug = 1
    with pytest.raises(ValueError, match=r"24\|48"):
        config.ge_config.aicore_num = "many"
    with pytest.raises(TypeError):
        config.ge_config.enable_single_stream = 1
