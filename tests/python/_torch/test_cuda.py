"""weir and PyTorch on one GPU: tensors, streams, limits and compiled models."""

import importlib.util
import pathlib
import re

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
np = pytest.importorskip("numpy")


def _why_not():
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU here"
    try:
        weir.Device("cuda:0").close()
    except weir.Error as error:
        return str(error)


WHY_NOT = _why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")


@pytest.fixture(scope="module")
def gpu():
    device = weir.Device("cuda:0")
    yield device
    torch.cuda.synchronize()


@pytest.fixture(autouse=True)
def chosen(gpu):
    before = weir.get_device()
    weir.set_device(gpu)
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield gpu
    weir.default_stream().set_current()
    torch.cuda.synchronize()
    weir.set_device(before)


def busy(n=2048, rounds=20):
    """Some milliseconds of work on PyTorch's current stream."""
    x = torch.randn(n, n, device="cuda")
    for _ in range(rounds):
        x = (x @ x).clamp_(-1, 1)
    return x


def long():
    """As much as makes sure that PyTorch's current stream is not done when it is asked."""
    torch.cuda._sleep(100_000_000)


# ---- tensors ----


def test_values_come_and_go():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = weir.tensor(a)
    assert t.numpy().tolist() == a.tolist() and t.tolist() == a.tolist()
    assert (t.T @ t + 1).numpy() == pytest.approx(a.T @ a + 1)
    assert "cuda:0" in repr(t) and t[1, 2].item() == 5
    assert weir.asarray(a).tolist() == a.tolist()
    assert weir.tensor([True, False]).tolist() == [True, False]
    for dtype in (weir.bfloat16, weir.float16, weir.int32, weir.uint8):
        assert t.cast(dtype).tolist() == a.tolist()
    on_host = t.to(weir.Device("cpu"))
    assert on_host.tolist() == a.tolist() and on_host.to(weir.get_device()).tolist() == a.tolist()
    with pytest.raises(weir.UnavailableError, match="copy it to the device"):
        weir.from_numpy(a)


def test_memory_is_shared_both_ways():
    x = torch.arange(6.0, device="cuda")
    t = weir.from_dlpack(x)
    assert t.data_ptr() == x.data_ptr() and t.__dlpack_device__() == (2, 0)
    y = torch.from_dlpack(t * 2)
    assert y.is_cuda and y.tolist() == [0, 2, 4, 6, 8, 10]
    whole = weir.tensor([[1.0, 2.0], [3.0, 4.0]])
    view = torch.from_dlpack(whole.T)
    assert view.data_ptr() == whole.data_ptr() and view.stride() == (1, 2)
    view += 1
    weir.current_stream().wait_native(torch.cuda.current_stream().cuda_stream)
    assert whole.tolist() == [[2, 3], [4, 5]]
    with pytest.raises(weir.Error, match="device type 1"):
        weir.from_dlpack(torch.zeros(2))
    assert weir.tensor(torch.ones(2)).tolist() == [1, 1]  # a copy


@pytest.mark.parametrize("own_stream", [False, True])
def test_values_are_waited_for_across_libraries(own_stream):
    side = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    for i in range(5):
        with torch.cuda.stream(side):
            x = busy(1024, 4)
            x.fill_(i)
            t = weir.from_dlpack(x)  # of work that is under way
            for _ in range(20):
                t = t + 1
            back = torch.from_dlpack(t)
            assert (back - 20).sum().item() == i * 1024 * 1024


def test_memory_that_pytorch_frees_is_not_reused_too_soon():
    for i in range(20):
        t = weir.full((1 << 20,), i)
        x = torch.from_dlpack(t)
        del t
        busy(1024, 2)
        total = x.sum()
        del x  # the sum is still to come
        weir.full((1 << 20,), -1)
        assert total.item() == i << 20


# ---- streams ----


def test_pytorch_runs_on_weirs_streams():
    s = weir.npu.Stream()
    x = torch.ones(4, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.current_stream()
    with weir.npu.stream(s):
        now = torch.cuda.current_stream()
        assert now.cuda_stream == s.stream.native and now != before
        y = x + 1
        event = s.record_event()
        with weir.npu.stream(weir.npu.default_stream()):
            assert torch.cuda.current_stream() != now
        assert torch.cuda.current_stream() == now
    assert torch.cuda.current_stream() == before
    event.synchronize()
    assert y.tolist() == [2, 2, 2, 2]


def test_events_and_syncs_count_pytorchs_work():
    one, two = weir.npu.Stream(), weir.npu.Stream()
    start, end = (weir.npu.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    for i in range(5):
        with weir.npu.stream(one):
            start.record()
            x = busy()
            long()
            x.fill_(i)
            end.record()
        two.wait_stream(one)
        with weir.npu.stream(two):
            y = x * 2
        if i:  # CUDA waits for the GPU when it loads a kernel, which the first round makes it do
            assert not one.query()
        two.synchronize()
        assert one.query() and two.query()
        assert (y == 2 * i).all().item()
    assert start.elapsed_time(end) > 10
    with weir.npu.stream(one):
        long()
    assert not one.query()
    weir.npu.synchronize()
    assert one.query()


def test_limits_hold_for_pytorchs_kernels():
    s, x = weir.npu.Stream(), torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()

    def took():
        start, end = (weir.npu.Event(enable_timing=True) for _ in range(2))
        with weir.npu.stream(s):
            x @ x
            start.record()
            for _ in range(5):
                x @ x
            end.record()
        return start.elapsed_time(end)

    took()
    free = took()
    weir.npu.set_stream_limit(s, 16, 16)
    limited = took()
    assert limited > 3 * free  # 132 cores, and 16 of them
    weir.npu.reset_stream_limit(s)
    assert took() < 1.5 * free
    with weir.npu.stream(s):
        weir.npu.set_stream_limit(s, 16, 16)  # also while it is current
        now = torch.cuda.current_stream().cuda_stream
        assert now == s.stream.native
        weir.npu.reset_stream_limit(s)
        assert torch.cuda.current_stream().cuda_stream != now


def test_the_sample_of_the_page_runs():
    page = (pathlib.Path(__file__).parents[3] / "docs/python.md").read_text()
    (text,) = (b for b in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "torch.cuda" in b)
    names = {"weir": weir, "torch": torch, "x_cuda": torch.ones(64, 64, device="cuda")}
    torch.cuda.synchronize()
    exec(text, names)
    names["event"].synchronize()
    assert names["z"].is_cuda and names["z"].shape == (64, 32)
    assert names["z"].sum().item() == pytest.approx(64.0**2 * 64 * 32, rel=1e-5)


def test_memory_counts():
    before = weir.npu.memory_allocated()
    x = torch.empty(1 << 20, device="cuda")
    t = weir.empty((1 << 20,))
    assert weir.npu.memory_allocated() - before >= 8 << 20
    assert weir.npu.memory_reserved() >= weir.npu.memory_allocated()
    del x, t


# ---- torch.compile ----


def check(function, *args, **options):
    backend = weir.get_npu_backend()
    run = torch.compile(function, backend=backend, fullgraph=True, **options)
    with torch.no_grad():
        want = function(*args)
        for _ in range(3):
            torch.testing.assert_close(run(*args), want, rtol=1e-4, atol=1e-4)
    return backend


def randn(*shape):
    return torch.randn(*shape, device="cuda")


def test_a_graph_of_weirs_operators_is_one_plan():
    def f(x, w):
        with weir.scope.npu_stream_switch("side"):
            y = torch.relu(x @ w)
        return y + torch.softmax(x, -1), x.t()

    backend = check(f, randn(64, 64), randn(64, 64))
    assert not backend.coverage.fallback
    assert weir.current_stream() == weir.default_stream()


def test_results_follow_the_current_stream():
    f = torch.compile(lambda x: torch.relu(x) + 1, backend=weir.get_npu_backend())
    side = torch.cuda.Stream()
    with torch.no_grad():
        for stream in (torch.cuda.current_stream(), side):
            with torch.cuda.stream(stream):
                for i in range(4):
                    x = busy(1024, 4)
                    x.fill_(i)
                    assert f(x).sum().item() == (i + 1) * 1024 * 1024
        s = weir.npu.Stream()
        with weir.npu.stream(s):
            x = busy(1024, 4)
            x.fill_(3)
            assert f(x).sum().item() == 4 * 1024 * 1024


def test_other_operators_are_pytorchs_on_the_same_streams():
    def f(x):
        with weir.scope.npu_stream_switch("side"):
            a = torch.logcumsumexp(x * 2, 0)
        with weir.scope.limit_core_num(16, 16):
            b = torch.logcumsumexp(x + 1, 1)
        weir.scope.npu_wait_tensor(b, a)
        return a + b, torch.linalg.norm(b), torch.sort(a, 1).indices

    backend = check(f, randn(256, 256))
    assert backend.coverage.fallback and backend.coverage.native


def test_traces_show_pytorchs_kernels_among_weirs():
    def f(x):
        y = torch.relu(x @ x) + 1
        with weir.scope.npu_stream_switch("side"):
            z = torch.logcumsumexp(y, 0)
        return torch.logcumsumexp(z * 2, 1) + y

    x = randn(1024, 1024)
    backend = check(f, x)
    run = torch.compile(f, backend=backend, fullgraph=True)
    with torch.no_grad():
        run(x)
        with weir.trace() as trace:
            torch.testing.assert_close(run(x), f(x), rtol=1e-4, atol=1e-4)
            weir.synchronize()
    pytorchs = [op for op in trace.ops if op["name"] == "PyTorch: aten.logcumsumexp.default"]
    assert sorted(op["stream"] for op in pytorchs) == ["default", "side"]
    first, second = sorted(pytorchs, key=lambda op: op["start_us"])
    assert 1 < first["end_us"] - first["start_us"] < 10_000
    weirs = [op for op in trace.ops if op not in pytorchs and op["start_us"] >= first["end_us"]]
    assert first["stream"] == "side" and any(op["end_us"] <= second["start_us"] for op in weirs)


def test_sizes_that_change():
    f = lambda x: torch.logcumsumexp(torch.relu(x), 0) @ x.t()  # noqa: E731
    run = torch.compile(f, backend=weir.get_npu_backend(), dynamic=True)
    with torch.no_grad():
        for n in (3, 50, 7):
            x = randn(n, 16)
            torch.testing.assert_close(run(x), f(x), rtol=1e-4, atol=1e-4)


def test_arguments_that_are_written_to_and_tensors_of_the_host():
    scale = torch.tensor(2.0)

    def f(x, host):
        x.mul_(scale)
        return x + host.sum(), host * 2

    run = torch.compile(f, backend=weir.get_npu_backend())
    a, b, host = torch.ones(4, device="cuda"), torch.ones(4, device="cuda"), torch.ones(3)
    with torch.no_grad():
        for got, want in zip(run(a, host), f(b, host)):
            torch.testing.assert_close(got, want)
    torch.testing.assert_close(a, b)


# ---- one launch ----


def captured(backend):
    (graph,) = backend.graphs
    (made,) = graph.plans.values()
    return made.captured


def test_kernels_of_both_are_one_launch_and_results_stay():
    def f(x, w):
        y = torch.relu(x) @ w
        z = torch.logcumsumexp(y, 0)
        return z * 2, y[1:], torch.sort(z, 1).indices

    backend, w = weir.get_npu_backend(), randn(64, 64)
    run = torch.compile(f, backend=backend, fullgraph=True)
    with torch.no_grad():
        xs = [randn(64, 64) * 0.1 for _ in range(8)]
        got = [run(x, w) for x in xs]
        for x, results in zip(xs, got):
            for mine, want in zip(results[:2], f(x, w)[:2]):
                torch.testing.assert_close(mine, want, rtol=1e-3, atol=1e-3)
    assert captured(backend).reason is None and captured(backend).launches >= 4


def test_one_launch_follows_the_current_stream():
    f = lambda x: torch.logcumsumexp(x + 1, 0) * 2  # noqa: E731
    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    x = torch.zeros(64, 64, device="cuda")
    with torch.no_grad():
        for i in range(12):
            stream = torch.cuda.Stream() if i % 3 == 2 else torch.cuda.current_stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                busy(512, 2)
                x.fill_(i * 1e-3)
                got = run(x)
                torch.testing.assert_close(got, f(x))
            torch.cuda.current_stream().wait_stream(stream)
    assert captured(backend).launches


def test_an_index_out_of_range_in_one_launch_is_told():
    def f(x, i):
        return torch.logcumsumexp(torch.nn.functional.embedding(i, x), 0) * 2

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    x, i = randn(10, 8), torch.arange(4, device="cuda")
    side = weir.Stream()
    with torch.no_grad():
        with weir.stream(side):
            for _ in range(5):
                torch.testing.assert_close(run(x, i), f(x, i))
            i.fill_(12)
            run(x, i)
            with pytest.raises(weir.Error, match="index 12 is out of range"):
                side.synchronize()
        i.fill_(3)
        torch.cuda.synchronize()
        torch.testing.assert_close(run(x, i), f(x, i))
    assert captured(backend).launches >= 3


def test_graphs_that_synchronise_with_the_gpu_run_step_by_step():
    def f(x):
        return torch.linalg.cholesky(x @ x.t() + 4) * 2

    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    x = torch.eye(8, device="cuda") * 2
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(run(x), f(x), rtol=1e-4, atol=1e-4)
    if any("check_errors" in str(op) for op in backend.coverage.fallback):  # PyTorch 2.11 drops the question
        assert captured(backend).reason
    assert (x + 1).sum().item() == 80  # the GPU is well


@pytest.mark.parametrize("keys, values", [(192, 128), (256, 256), (64, 64), (320, 320)])
def test_attention_of_any_head_size(keys, values):
    q, k = randn(1, 4, 64, keys).bfloat16(), randn(1, 4, 64, keys).bfloat16()
    v = randn(1, 4, 64, values).bfloat16()
    f = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(run(q, k, v), f(q, k, v), rtol=2e-2, atol=2e-2)
    assert bool(backend.coverage.fallback) == (keys > 256)


@pytest.mark.parametrize("dtype, size", [(torch.float32, 64), (torch.bfloat16, 320), (torch.bfloat16, 64)])
def test_attention_with_a_mask_of_bools(dtype, size):
    """PyTorch's own kernels, which have what weir's do not hold, refuse a mask of bools."""
    q, k, v = (randn(2, 4, 64, size).to(dtype) for _ in range(3))
    mask = torch.rand(2, 1, 64, 64, device="cuda") < 0.7
    mask[..., 0] = True
    f = lambda q, k, v, m: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m)  # noqa: E731
    run = torch.compile(f, backend=weir.get_npu_backend(), fullgraph=True)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(run(q, k, v, mask), f(q, k, v, mask), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, size", [(64, 64), (1, 128), (40, 256)])
def test_attention_of_f32_has_the_precision_of_f32(queries, size, causal):
    q, k, v = (randn(2, 4, n, size) for n in (queries, queries if causal else 70, queries if causal else 70))
    f = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
    backend = weir.get_npu_backend()
    run = torch.compile(f, backend=backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(q, k, v), f(q.double(), k.double(), v.double()).float(), rtol=1e-5, atol=1e-5)
    assert not backend.coverage.fallback


def test_complex_rotary_embeddings_are_weirs():
    x, angles = randn(2, 4, 6, 16), randn(6, 8)

    def rotary(x, angles):
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)

    backend = weir.get_npu_backend()
    run = torch.compile(rotary, backend=backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x, angles), rotary(x, angles), rtol=1e-5, atol=1e-5)
    assert not backend.coverage.fallback


def test_gradients():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).cuda()
    x = randn(8, 16)
    want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    run = torch.compile(model, backend=weir.get_npu_backend())
    got = torch.autograd.grad(run(x).square().sum(), list(model.parameters()))
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_mixture_of_experts():
    path = pathlib.Path(__file__).parents[3] / "examples/python/moe_transformer.py"
    spec = importlib.util.spec_from_file_location("moe_transformer", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = example.Transformer(dim=128, layers=2).eval().cuda()
    tokens = torch.randint(0, 256, (1, 96), device="cuda")
    backend = check(model, tokens, dynamic=False)
    assert backend.coverage.native.total() > 10 * backend.coverage.fallback.total()
    with torch.no_grad(), weir.trace() as trace:
        torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(tokens)
        weir.synchronize()
    assert len([op for op in trace.ops if op["stream"] == "shared"]) >= 4
