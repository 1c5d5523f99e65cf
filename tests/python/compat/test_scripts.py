"""What scripts for NPUs write beyond the seeds' samples, and what they are told where weir has
no such thing."""

import pytest

import weir
from weir import compat

compat.install()


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
    import torch_npu  # noqa: F401

    torch._dynamo.reset()
    torch.manual_seed(0)
    return torch


def close(got, want, tolerance=1e-4):
    import torch

    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "weir"])
def test_replaced_functions_of_pytorch_distinguish_equal_numbers(torch, backend):
    """Dynamo calls torch.as_tensor for numbers: were weir's compiled by itself, its guards would take 0.0 and
    -0.0 for one, and it would be compiled for each number."""

    def arithmetic(x, s):
        return x / s, x * s, x + s

    run, x = torch.compile(arithmetic, backend=backend, dynamic=True), torch.tensor([1.0, -2.0, -0.0])
    run(x, 2.5)
    torch._dynamo.utils.counters.clear()
    for s in (0.0, -0.0, 3.0, -0.0, 0.0, *range(20)):
        for got, want in zip(run(x, float(s)), arithmetic(x, float(s))):
            assert torch.equal(got.view(torch.int32), want.view(torch.int32)), s
    assert torch._dynamo.utils.counters["frames"]["total"] <= 1


# ---- torch_npu ----


def turned(torch, x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def test_norms_rotation_and_gating(torch):
    import torch_npu

    x, gamma = torch.randn(2, 5, 16), torch.randn(16)
    y, rstd = torch_npu.npu_rms_norm(x, gamma, epsilon=1e-5)
    close(y, torch.nn.functional.rms_norm(x, (16,), gamma, 1e-5))
    close(rstd, (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt())
    half, _ = torch_npu.npu_rms_norm(x.half(), gamma)
    assert half.dtype == torch.float16
    close(half.float(), torch.nn.functional.rms_norm(x, (16,), gamma, 1e-6), 5e-3)
    y, _, added = torch_npu.npu_add_rms_norm(x, x, gamma)
    close(added, x + x)
    close(y, torch.nn.functional.rms_norm(x + x, (16,), gamma, 1e-6))
    q, cos, sin = torch.randn(2, 5, 4, 8), torch.randn(1, 5, 1, 8), torch.randn(1, 5, 1, 8)
    close(torch_npu.npu_rotary_mul(q, cos, sin), q * cos + turned(torch, q) * sin)
    pairs = torch.stack((-q[..., 1::2], q[..., ::2]), -1).flatten(-2)
    close(torch_npu.npu_rotary_mul(q, cos, sin, "interleave"), q * cos + pairs * sin)
    weights, experts, rows = torch_npu.npu_moe_gating_top_k_softmax(x[0], k=2)
    want = x[0].softmax(-1).topk(2)
    close(weights, want.values)
    assert torch.equal(experts.long(), want.indices) and experts.dtype == torch.int32
    assert rows.tolist() == [[i, 5 + i] for i in range(5)] and rows.dtype == torch.int32
    assert torch_npu.npu_format_cast(x, 29) is x
    assert torch_npu.npu_dtype_cast(x, torch.float16).dtype == torch.float16


@pytest.mark.parametrize(
    "layout, shape, order",
    [("BNSD", (2, 4, 5, 8), None), ("BSND", (2, 5, 4, 8), (0, 2, 1, 3)),
     ("BSH", (2, 5, 32), (0, 2, 1, 3)), ("SBH", (5, 2, 32), (1, 2, 0, 3))],
)  # fmt: skip
def test_attention_in_each_layout(torch, layout, shape, order):
    import torch_npu

    q, k, v = (torch.randn(shape) for _ in range(3))
    heads = [x if order is None else x.reshape(*shape[:2], 4, 8).permute(order) for x in (q, k, v)]
    hidden = torch.ones(5, 5).triu(1).bool()
    want = torch.nn.functional.scaled_dot_product_attention(*heads, ~hidden, scale=0.3)
    if order is not None:
        want = want.permute([order.index(d) for d in range(4)]).reshape(shape)
    for mask, mode in ((hidden, 0), (hidden.to(torch.uint8), 1), (None, 2), (hidden, 3)):
        got = torch_npu.npu_fusion_attention(
            q, k, v, 4, layout, atten_mask=mask, scale=0.3, sparse_mode=mode
        )
        close(got[0], want)
    close(
        torch_npu.npu_prompt_flash_attention(
            q, k, v, num_heads=4, input_layout=layout, scale_value=0.3, atten_mask=hidden
        ),
        want,
    )


def test_attention_with_shared_heads_and_unsupported_options(torch):
    import torch_npu

    q, k = torch.randn(2, 8, 3, 4), torch.randn(2, 2, 7, 4)
    options = {"num_heads": 8, "num_key_value_heads": 2, "input_layout": "BNSD", "scale": 0.5}
    got, _ = torch_npu.npu_fused_infer_attention_score(q, k, k, sparse_mode=3, **options)
    seen = torch.ones(3, 7).tril(4).bool()  # the ends are aligned
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, k, seen, scale=0.5, enable_gqa=True
    )
    close(got, want)
    with pytest.raises(NotImplementedError, match="no 'block_table'"):
        torch_npu.npu_fused_infer_attention_score(q, k, k, block_table=1, **options)
    with pytest.raises(NotImplementedError, match="keep_prob"):
        torch_npu.npu_fusion_attention(q, k, k, 8, "BNSD", keep_prob=0.9)
    with pytest.raises(ValueError, match="BNSD, BSND, BSH, SBH, not 'TND'"):
        torch_npu.npu_fusion_attention(q, k, k, 8, "TND")


def test_the_same_operators_are_weirs_in_a_graph_and_have_gradients(torch):
    import torch_npu
    import torchair

    def layer(x, gamma, up, q, k):
        y, _ = torch_npu.npu_rms_norm(x, gamma)
        a, _ = torch_npu.npu_fused_infer_attention_score(
            q, k, k, num_heads=4, num_key_value_heads=2, input_layout="BNSD", sparse_mode=3
        )
        weights, experts, _ = torch_npu.npu_moe_gating_top_k_softmax(x, k=2)
        turned_q = torch_npu.npu_rotary_mul(q, q[:1], q[:1])
        return torch_npu.npu_swiglu(torch_npu.npu_linear(y, up)), a, weights, experts, turned_q

    args = [torch.randn(s) for s in ((5, 16), (16,), (8, 16), (2, 4, 3, 8), (2, 2, 6, 8))]
    with weir.trace() as trace:
        want = layer(*args)
    assert trace.named("RmsNorm") and trace.named("Attention") and trace.named("MoeGating")
    backend = torchair.get_npu_backend()
    model = torch.compile(layer, backend=backend, fullgraph=True)
    for got, each in zip(model(*args), want):
        close(got, each)
    assert backend.coverage.fallback.total() == 0, backend.coverage
    up = args[2].requires_grad_(True)
    model(*args)[0].sum().backward()
    got, up.grad = up.grad, None
    layer(*args)[0].sum().backward()
    close(got, up.grad)


def test_types_that_weir_does_not_combine_run_as_pytorchs_operators(torch):
    import torch_npu
    import torchair

    q, wide = torch.randn(1, 3, 2, 8).half(), torch.randn(1, 3, 1, 8)

    def model(q, wide):
        return torch_npu.npu_rotary_mul(q, wide, wide)

    want = q * wide + turned(torch, q) * wide
    close(model(q, wide), want)
    close(torch.compile(model, backend=torchair.get_npu_backend(), fullgraph=True)(q, wide), want)


def test_the_device_by_its_many_names(torch):
    device = torch.device("npu:0")
    model = torch.nn.Linear(2, 2).to(device).half().float()
    x = torch.ones(2, 2, device=device).to("npu", non_blocking=True).npu()
    assert model(x).shape == (2, 2) and torch.zeros(2, device=torch.device("npu")).sum() == 0
    model(x).sum().backward()
    with torch.npu.device(0):
        assert torch.npu.current_device() == 0
    torch.npu.set_device(device)
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total and torch.npu.get_device_properties().cube_core_num > 0
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record(torch.npu.current_stream())
    torch.npu.synchronize()
    assert start.elapsed_time(end) >= 0
    for bad in (
        lambda: torch.npu.current_stream().wait_event(3),
        lambda: torch.npu.current_stream().wait_stream(start),
        lambda: start.record("s"),
        lambda: start.elapsed_time(None),
        lambda: torch.npu.set_stream("s"),
    ):
        with pytest.raises(TypeError, match="must be a"):
            bad()


def test_moving_to_the_device_inside_a_model(torch):
    import torchair

    device = torch.device("npu:0")

    def model(x):
        with torch.autocast("npu", dtype=torch.bfloat16):
            y = x.npu() @ torch.ones(3, 3, device="npu")
        return y, x.to(device) + torch.arange(3, device=x.device) + torch.zeros(3, device=device)

    x = torch.ones(2, 3)
    got = torch.compile(model, backend=torchair.get_npu_backend(), fullgraph=True)(x)
    assert got[0].dtype == torch.bfloat16 and got[0].tolist() == [[3] * 3] * 2
    assert got[1].tolist() == [[1, 2, 3]] * 2
    with pytest.raises(RuntimeError, match="no 'npu:1'"):
        x.npu("npu:1")


# ---- MindSpore ----


def test_a_network_of_cells_and_primitives():
    np = pytest.importorskip("numpy")
    import mindspore as ms
    from mindspore import Tensor, nn, ops
    from mindspore.ops import functional as fn, operations as prims

    ms.set_seed(1)

    class Block(nn.Cell):
        def __init__(self, n):
            super().__init__()
            self.norm, self.up = nn.LayerNorm((n,)), nn.Dense(n, 4 * n, activation="gelu")
            self.down, self.drop = nn.Dense(4 * n, n, weight_init="ones"), nn.Dropout(p=0.1)
            self.matmul, self.sum = prims.MatMul(transpose_b=True), ops.ReduceSum(keep_dims=True)

        def construct(self, x):
            y = self.drop(self.down(self.up(self.norm(x)))) + x
            return self.sum(self.matmul(y, y), -1)

    x = Tensor(np.random.randn(3, 8).astype(np.float32))
    block = nn.SequentialCell([Block(8)])[0]
    a = x.asnumpy()
    normal = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-7)
    up = normal @ block.up.weight.asnumpy().T
    erf = np.vectorize(__import__("math").erf)
    up = up * (1 + erf(up / 2**0.5)) / 2
    y = up.sum(1, keepdims=True) + a
    np.testing.assert_allclose(
        nn.SequentialCell(block)(x).asnumpy(), (y @ y.T).sum(1, keepdims=True), rtol=1e-3, atol=1e-2
    )
    assert len(block.get_parameters()) == 6 and fn.relu(x).shape == (3, 8)
    np.testing.assert_allclose(x.sum(axis=0).asnumpy(), a.sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(x.mean(axis=1, keep_dims=True).asnumpy(), a.mean(1, keepdims=True), rtol=1e-4, atol=1e-6)
    for got, want in (
        (ops.stack([x, x], 1), np.stack([a, a], 1)),
        (ops.split(x, 3, 1)[2], a[:, 6:]),
        (ops.chunk(x, 2, axis=-1)[1], a[:, 4:]),
        (ops.squeeze(x.expand_dims(0)), a),
        (ops.tile(x, (2, 2)), np.tile(a, (2, 2))),
        (ops.gather(x, Tensor([[0, 2]]), 0), a[[[0, 2]]]),
        (ops.flatten(x.view(3, 2, 4)), a),
        (ops.arange(0, 1, 0.25), np.arange(0, 1, 0.25)),
        (ops.Concat(-1)((x, x)), np.concatenate([a, a], -1)),
        (nn.Embedding(3, 8, embedding_table=x)(Tensor([2, 0])), a[[2, 0]]),
    ):
        np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-6)
    assert nn.Conv2d(1, 2, 3, has_bias=True)(ops.ones((1, 1, 4, 4))).shape == (1, 2, 4, 4)
    with pytest.raises(TypeError, match="ops.MatMul has these options: transpose_a, transpose_b"):
        ops.MatMul(transposed=True)
    with pytest.raises(ValueError, match="do not make up axis 1 of size 8"):
        ops.split(x, [3, 3], 1)


# ---- what is not there ----


@pytest.mark.parametrize(
    "line, said",
    [
        ("from mindspore import nothing", "weir does not provide mindspore.nothing; there are"),
        ("from mindspore.nn import Dence", "mindspore.nn.Dence; the nearest is 'Dense'"),
        ("import mindspore.dataset as ds", "mindspore.dataset; there are"),
        ("from mindspore.train import Model", "weir does not provide mindspore.train;"),
        ("from mindspore.hal import Streams", "mindspore.hal.Streams; the nearest is 'Stream'"),
        ("import mindspore; mindspore.hal.synchronise", "the nearest is 'synchronize'"),
        ("import mindspore.ops as o; o.LayerNorm", "there is mindspore.nn.LayerNorm"),
        ("import torch_npu; torch_npu.npu_rmsnorm", "the nearest is 'npu_rms_norm'"),
        ("import torch_npu; torch_npu.npu_mla_prolog", "torch_npu.npu_mla_prolog;"),
        ("from torch_npu.contrib import function", "does not provide torch_npu.contrib.function"),
        ("import torch, torch_npu; torch.npu.MemPool", "weir does not provide torch.npu.MemPool"),
        ("import torch, torch_npu; torch.npu.set_stream_limits", "nearest is 'set_stream_limit'"),
        ("import torchair; torchair.scope.limit_cores", "torchair.scope.limit_cores; the nearest"),
        ("import torchair; torchair.scope.data_dump", "weir does not provide torchair.scope.data_dump"),
        ("import torchair.ge", "weir does not provide torchair.ge"),
        ("from torchair import dynamo_export", "weir does not provide torchair.dynamo_export"),
        ("import torchair; torchair.ge", "'weir cann' runs the real torch_npu on weir"),
        ("import torch_npu; torch_npu.npu_mla_prolog", "'weir cann' runs the real torch_npu"),
        ("import mindspore; mindspore.vmap", "'weir cann' runs the real MindSpore on weir"),
        ("from mindspore import mint; mint.erfinv", "'weir cann' runs the real MindSpore on weir"),
    ],
)
def test_a_missing_name_is_an_error_that_suggests_the_nearest(line, said):
    if "mindspore" not in line:
        pytest.importorskip("torch", reason="PyTorch cannot be installed here")
    with pytest.raises((AttributeError, ImportError)) as error:
        exec(line)
    assert said in str(error.value)


def test_gradients_of_mindspore_are_refused_when_they_are_called():
    from mindspore import grad, ops

    with pytest.raises(NotImplementedError, match="mindspore.grad is not provided. 'weir cann'"):
        grad(ops.abs)


def test_functions_of_mint_take_pytorchs_arguments():
    from mindspore import Tensor, mint

    x = Tensor([[1.0, -2.0], [3.0, 4.0]])
    assert mint.sum(x, dim=1).asnumpy().tolist() == [-1, 7]
    assert mint.cat([x, x], dim=1).shape == (2, 4) and mint.max(x).asnumpy() == 4
    assert mint.clamp(x, min=0, max=3).asnumpy().tolist() == [[1, 0], [3, 3]]
    assert mint.nn.functional.relu(mint.mm(x, x)).asnumpy().tolist() == [[0, 0], [15, 10]]
    assert mint.transpose(mint.square(x), 0, 1).asnumpy().tolist() == [[1, 9], [4, 16]]
