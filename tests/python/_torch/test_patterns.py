"""Graphs as rewrite/patterns.py rewrites them: what is left of them, and their values."""

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
from weir._torch.lower import products, table  # noqa: E402
from weir._torch.rewrite import attention, patterns  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def compiled(function, *args, near=0, **options):
    """The nodes' operators, after the values have been compared with eager's."""
    torch._dynamo.reset()
    backend = weir.get_npu_backend()
    run = torch.compile(function, backend=backend, fullgraph=True, dynamic=False, **options)
    with torch.no_grad():
        got, want = run(*args), function(*args)
    torch.testing.assert_close(got, want, rtol=near, atol=near)
    (graph,) = backend.graphs
    (plan,) = graph.plans.values()
    names = [line.split("_")[0].split("/")[-1].strip() for line in plan.plan.list().splitlines()]
    return [name for name in names if name and name[0].isupper()]


def norm(x, weight, eps=1e-6):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


def turn(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)


def angles(x, scale=1.0):
    at = torch.arange(x.shape[2])[None, :, None].float()
    at = at * torch.linspace(0.1, 1, x.shape[3] // 2)
    at = torch.cat((at, at), -1)
    return (at.cos() * scale).to(x.dtype)[:, None], (at.sin() * scale).to(x.dtype)[:, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_norm_is_one_operator(dtype):
    x, weight = torch.randn(3, 5, 32).to(dtype), torch.randn(32).to(dtype)
    near = 2e-2 if dtype is torch.bfloat16 else 1e-5
    assert compiled(norm, x, weight, near=near) == ["RmsNorm"]


def test_a_norm_of_halves_is_as_accurate_as_eager():
    torch.manual_seed(0)
    x, weight = torch.randn(64, 256).bfloat16(), torch.randn(256).bfloat16()
    wide = x.double()
    truth = weight.double() * wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    with torch.no_grad():
        mine = torch.compile(norm, backend="weir")(x, weight)
    assert (mine - truth).abs().mean() <= (norm(x, weight) - truth).abs().mean()


def test_operators_that_only_look_like_a_norm_are_not_rewritten():
    x, weight = torch.randn(4, 8), torch.randn(8)

    def other_dim(x, weight):
        return weight * (x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6))

    def cubes(x, weight):
        return weight * (x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + 1e-6))

    def of_another(x, weight):
        return weight * ((x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def looked_at(x, weight):
        root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * (x * root), root

    for function in (other_dim, cubes, of_another, looked_at):
        assert "RmsNorm" not in compiled(function, x, weight, near=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_positions_are_one_operator(dtype):
    x = torch.randn(2, 6, 3, 8).to(dtype).transpose(1, 2)

    def rotary(x):
        cos, sin = angles(x)
        return x * cos + turn(x) * sin

    def angles_of_an_argument(x, at):
        at = torch.cat((at, at), -1)[:, None]
        return x * at.cos().to(x.dtype) + turn(x) * at.sin().to(x.dtype)

    near = 5e-2 if dtype is torch.bfloat16 else 1e-5
    at = torch.rand(1, 6, 4)
    assert "Rotary" in compiled(angles_of_an_argument, x, at, near=near)
    # Constants do not show that their halves are the same.
    assert "Rotary" not in compiled(rotary, x, near=near)


def test_operators_that_only_look_like_rotary_are_not_rewritten():
    x, at = torch.randn(2, 3, 6, 8), torch.rand(1, 6, 4)

    def halves_differ(x, at):
        at = torch.cat((at, at + 1), -1)[:, None]
        return x * at.cos() + turn(x) * at.sin()

    def batches(x, at):
        at = torch.cat((at, at), -1)[:, None].repeat(2, 1, 1, 1)
        return x * at.cos() + turn(x) * at.sin()

    def of_another(x, at):
        at = torch.cat((at, at), -1)[:, None]
        return x * at.cos() + turn(x + 1) * at.sin()

    def thirds(x, at):
        at = torch.cat((at, at), -1)[:, None]
        return x * at.cos() + torch.cat((-x[..., 3:], x[..., :3]), -1) * at.sin()

    for function in (halves_differ, batches, of_another, thirds):
        assert "Rotary" not in compiled(function, x, at, near=1e-5)


def attend(q, mask):
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


@pytest.mark.parametrize("as_numbers", [False, True])
def test_constant_masks_become_flags_of_attention(as_numbers):
    q = torch.randn(2, 2, 8, 16)

    def causal(q):
        at = torch.arange(8)
        mask = at[None, :] <= at[:, None]
        return attend(q, torch.where(mask, 0.0, float("-inf")) if as_numbers else mask)

    def nothing(q):
        return attend(q, torch.ones(8, 8, dtype=torch.bool))

    def window(q):
        at = torch.arange(8)
        return attend(q, (at[None, :] <= at[:, None]) & (at[None, :] > at[:, None] - 3))

    for function in (causal, nothing):
        assert set(compiled(function, q, near=1e-5)) == {"Attention"}
    compiled(window, q, near=1e-5)
    long = torch.ones(2, 3, dtype=torch.bool)
    assert attention._meaning(long, 2, 3) == "nothing"
    assert attention._meaning(long.tril(), 2, 3) is None  # weir's ends are aligned otherwise
    assert attention._meaning(torch.tensor([[0.0, 1.0]]), 1, 2) is None


def test_values_that_depend_on_no_argument_are_computed_once():
    def function(x):
        return x + torch.arange(4).cumsum(0).float().exp().expand(3, 4)

    assert compiled(function, torch.randn(3, 4), near=1e-6) == ["Add"]


def test_results_that_are_constants_are_the_callers_own():
    def function(x):
        y = torch.arange(4.0) * 2
        return x + y, y, y[1:]

    backend = weir.get_npu_backend()
    run = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        _, y, z = run(torch.zeros(4))
        assert y.tolist() == [0, 2, 4, 6]
        y.zero_()
        assert z.tolist() == [0, 0, 0]  # a view of it, as eagerly


def test_memory_filled_in_pieces_is_a_concatenation():
    def function(x, y):
        made = x.new_empty(2, 3, 8)
        made[..., :5] = x
        made[..., 5:] = y.expand(2, 3, 3)
        return made * 2

    x, y = torch.randn(2, 3, 5), torch.randn(1, 3, 3)
    assert compiled(function, x, y) == ["Concat", "Mul"]

    def with_a_gap(x, y):
        made = torch.zeros(2, 3, 9)
        made[..., :5] = x
        made[..., 6:] = y.expand(2, 3, 3)
        return made * 2

    def read_in_between(x, y):
        made = torch.ones(2, 3, 8)
        made[..., :5] = x
        made[..., 5:] += y.expand(2, 3, 3)
        return made * 2

    for other in (with_a_gap, read_in_between):
        compiled(other, x, y)


def test_elementwise_operators_become_neighbours():
    def function(x, gate, up):
        return F.silu(x @ gate) * (x @ up)

    x, gate, up = torch.randn(4, 8), torch.randn(8, 16), torch.randn(8, 16)
    assert compiled(function, x, gate, up, near=1e-5) == ["MatMul", "MatMul", "Silu", "Mul"]


def test_operators_stay_on_the_users_streams():
    def function(x, gate, up):
        with weir.scope.npu_stream_switch("side"):
            a = F.silu(x @ gate)
        return a * (x @ up)

    x, gate, up = torch.randn(4, 8), torch.randn(8, 16), torch.randn(8, 16)
    run = torch.compile(function, backend=weir.get_npu_backend(), fullgraph=True)
    torch.testing.assert_close(run(x, gate, up), function(x, gate, up))


def test_rewrites_do_not_change_training():
    weight = torch.randn(32, requires_grad=True)
    x = torch.randn(3, 32, requires_grad=True)
    torch.compile(norm, backend=weir.get_npu_backend())(x, weight).sum().backward()
    got = x.grad, weight.grad
    x.grad = weight.grad = None
    norm(x, weight).sum().backward()
    torch.testing.assert_close(got, (x.grad, weight.grad), rtol=1e-4, atol=1e-4)


def test_attention_with_heads_that_the_gpu_kernel_lacks_is_pytorchs():
    class Shaped:
        def __init__(self, dtype, size):
            self.dtype, self.shape = dtype, (1, 2, 4, size)

    half, full = weir.bfloat16, weir.float32
    products._on_gpu(*[Shaped(half, 128)] * 3)
    products._on_gpu(Shaped(half, 192), Shaped(half, 192), Shaped(half, 128))
    for sizes in ((264, 128), (512, 512)):
        with pytest.raises(table.Decline):
            products._on_gpu(Shaped(half, sizes[0]), None, Shaped(half, sizes[1]))
    for kind, size in ((full, 20), (full, 18), (half, 20), (half, 1)):  # whole 16 bytes or not
        products._on_gpu(*[Shaped(kind, size)] * 3)
    for kind, size in ((full, 264), (half, 257), (weir.float64, 64)):
        with pytest.raises(table.Decline):
            products._on_gpu(*[Shaped(kind, size)] * 3)


def route(logits, x, k=2):
    weights, experts = torch.topk(logits, k)
    ids, order = torch.sort(experts.reshape(-1))
    rows = x[order // k] * weights.reshape(-1)[order][:, None]
    ends = torch.histc(ids.float(), logits.shape[1], 0, logits.shape[1] - 1).cumsum(0, dtype=torch.int32)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return rows[back].reshape(-1, k, x.shape[1]).sum(1), ends


def test_routing_of_experts_is_one_operator_per_step():
    logits, x = torch.randn(20, 6), torch.randn(20, 4)
    names = compiled(route, logits, x, near=1e-6)
    assert "Where" not in names and "Concat" not in names and len(names) < 24


def test_indices_that_are_arguments_are_checked_for_negative_values():
    def function(x, index):
        return x[index], torch.zeros(5).index_put((index,), x[:3]), x[torch.sort(index)[0]]

    compiled(function, torch.randn(5), torch.tensor([-1, 0, -5]))


def test_counts_that_may_be_negative_are_not_rewritten():
    def function(ids):
        return torch.histc(ids.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)

    compiled(function, torch.tensor([0, 1, -7, 3, 9]))


# ---- types: a rewritten graph has the results of the one before, whatever is promoted to what ----

TYPES = [torch.float32, torch.bfloat16, torch.float16]


def rewritten(function, *args):
    """(results, results of the rewritten graph, the operators of that one)"""
    from torch.fx.experimental.proxy_tensor import make_fx

    module = make_fx(function, tracing_mode="fake")(*args)
    want = module(*args)
    patterns.rewrite(module)
    return want, module(*args), {str(node.target) for node in module.graph.nodes}


def check_types(function, *args):
    want, got, operators = rewritten(function, *args)
    assert got.dtype is want.dtype
    near = {torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 4e-3}
    worst = max(near[x.dtype] for x in (want, *args) if x.dtype in near)
    torch.testing.assert_close(got, want, rtol=worst, atol=worst)
    return operators


@pytest.mark.parametrize("x", TYPES)
@pytest.mark.parametrize("middle", TYPES)
@pytest.mark.parametrize("weight", TYPES)
def test_norms_of_mixed_types_keep_the_types_of_their_results(x, middle, weight):
    def mixed(x, weight):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * wide.to(middle)

    operators = check_types(mixed, torch.randn(3, 32).to(x), torch.randn(32).to(weight))
    assert ("weir.rms_norm.default" in operators) == (x is middle is weight)


def test_a_norm_with_an_intermediate_rounding_keeps_it():
    def rounded(x, weight):
        wide = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * wide.to(torch.bfloat16)

    want, got, _ = rewritten(rounded, torch.randn(3, 32), torch.ones(32))
    assert torch.equal(got, want)


@pytest.mark.parametrize("x", TYPES)
@pytest.mark.parametrize("cos", TYPES)
@pytest.mark.parametrize("sin", TYPES)
def test_rotary_of_mixed_types_keeps_the_type_of_its_result(x, cos, sin):
    def mixed(x, at):
        at = torch.cat((at, at), -1)[None, None]
        return x * at.cos().to(cos) + turn(x) * at.sin().to(sin)

    operators = check_types(mixed, torch.randn(1, 2, 6, 8).to(x), torch.rand(6, 4))
    assert ("weir.rotary.default" in operators) == (x is cos is sin)


@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("values", [torch.int32, torch.int64, torch.float32])
def test_routing_of_mixed_types_keeps_the_types_of_its_results(ids, values):
    def counted(x):
        order = x.to(ids).sort().values
        return torch.histc(order.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)

    def placed(x, source):
        at = x.sort().indices
        return torch.zeros(6, dtype=values).index_put((at,), source.to(values))[at]

    x = torch.tensor([3, 0, 2, 2, 1, 3])
    for function, args in ((counted, (x,)), (placed, (x, torch.arange(6)))):
        want, got, _ = rewritten(function, *args)
        assert got.dtype is want.dtype and torch.equal(got, want)
