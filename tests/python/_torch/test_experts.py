"""Mixtures of experts as models write them: gates, the order of entries by expert and the weighted sum
are one operator each, concatenations of concatenations are one, and attention that PyTorch spells
out is one operator. Values are eager's."""

import math

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
F = torch.nn.functional
HIDDEN, WIDTH, EXPERTS, K = 32, 24, 8, 2


@pytest.fixture(autouse=True, params=["cpu", "npu:a3"])
def device(request):
    torch.manual_seed(0)
    before = weir.get_device()
    weir.set_device(request.param)
    yield request.param
    weir.set_device(before)


def compiled(function, *args, near=1e-5):
    """The plan's operators, after the values have been compared with eager's."""
    torch._dynamo.reset()
    backend = weir.get_npu_backend()
    with torch.no_grad():
        got = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*args)
        want = function(*args)
    torch.testing.assert_close(got, want, rtol=near, atol=near)
    assert not backend.coverage.fallback
    (graph,) = backend.graphs
    (made,) = graph.plans.values()
    names = [line.split("_")[0].split("/")[-1].strip() for line in made.plan.list().splitlines()]
    return [name for name in names if name and name[0].isupper()]


# ---- gates ----


def softmax_gate(logits, renormalise=True):
    weights, experts = torch.topk(F.softmax(logits, dim=-1, dtype=torch.float), K, dim=-1)
    if renormalise:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, experts


def grouped_gate(logits, bias, groups=4, group_k=2, fill=float("-inf")):
    """DeepSeek-V3's."""
    scores = logits.float().sigmoid()
    choice = scores + bias
    grouped = choice.view(-1, groups, EXPERTS // groups)
    counted = grouped.topk(2, dim=-1)[0].sum(dim=-1)
    best = torch.topk(counted, k=group_k, dim=-1, sorted=False)[1]
    mask = torch.zeros_like(counted).scatter_(1, best, 1)
    mask = mask.unsqueeze(-1).expand(-1, groups, EXPERTS // groups).reshape(-1, EXPERTS)
    choice = choice.masked_fill(~mask.bool(), fill)
    experts = torch.topk(choice, k=K, dim=-1, sorted=False)[1]
    weights = scores.gather(1, experts)
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
    return weights * 2.5, experts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("renormalise", [False, True])
def test_a_gate_of_the_largest_of_a_softmax_is_one_operator(dtype, renormalise):
    logits = torch.randn(40, EXPERTS).to(dtype)
    names = compiled(lambda x: softmax_gate(x, renormalise), logits)
    assert names == ["ExpertChoice"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fill", [float("-inf"), 0.0])
def test_a_gate_with_groups_and_a_bias_is_one_operator(dtype, fill):
    logits, bias = torch.randn(40, EXPERTS).to(dtype), torch.randn(EXPERTS).to(dtype)
    names = compiled(lambda x, b: grouped_gate(x, b, fill=fill), logits, bias)
    assert names == ["ExpertChoice"]


def test_operators_that_only_look_like_a_gate_are_not_rewritten():
    logits, bias = torch.randn(40, EXPERTS), torch.randn(EXPERTS)

    def scores_are_a_result(x, b):
        p = F.softmax(x, dim=-1)
        return p, *torch.topk(p, K, dim=-1)

    def scores_of_tokens(x, b):
        return torch.topk(F.softmax(x, dim=0), K, dim=-1)

    def smallest(x, b):
        return torch.topk(F.softmax(x, dim=-1), K, dim=-1, largest=False)

    def choice_is_a_result(x, b):
        scores = x.sigmoid()
        choice = scores + b
        experts = torch.topk(choice, K, dim=-1)[1]
        return scores.gather(1, experts), experts, choice

    def another_is_gathered(x, b):
        experts = torch.topk(x.sigmoid() + b, K, dim=-1)[1]
        return x.gather(1, experts), experts

    for function in (scores_are_a_result, scores_of_tokens, smallest, choice_is_a_result,
                     another_is_gathered):  # fmt: skip
        assert "ExpertChoice" not in compiled(function, logits, bias)


def test_weights_used_before_scaling_are_not_scaled_in_the_gate():
    def both(x):
        weights, experts = softmax_gate(x, False)
        return weights, weights * 2.0, experts

    assert "ExpertChoice" in compiled(both, torch.randn(40, EXPERTS))


# ---- experts ----


def experts_of(x, weights, experts, up, down, n=EXPERTS):
    """transformers' grouped_mm_experts_forward."""
    k, tokens = experts.size(-1), x.size(0)
    sample_weights, ids = weights.reshape(-1), experts.reshape(-1)
    sorted_ids, perm = torch.sort(ids)
    rows, weights_g = x[perm // k], sample_weights[perm]
    counts = torch.histc(sorted_ids.float(), bins=n, min=0, max=n - 1)
    ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
    gate, value = F.grouped_mm(rows, up, offs=ends).chunk(2, dim=-1)
    made = F.grouped_mm(F.silu(gate) * value, down, offs=ends)
    made = made * weights_g.unsqueeze(-1)
    inverse = torch.empty_like(perm)
    inverse[perm] = torch.arange(perm.size(0))
    return made[inverse].view(tokens, k, x.size(1)).sum(dim=1).to(x.dtype)


def layer():
    x = torch.randn(40, HIDDEN).bfloat16()
    gate = torch.randn(HIDDEN, EXPERTS).bfloat16()
    up = (torch.randn(EXPERTS, HIDDEN, 2 * WIDTH) / 6).bfloat16()
    down = (torch.randn(EXPERTS, WIDTH, HIDDEN) / 5).bfloat16()
    return x, gate, up, down


def test_a_layer_of_experts_is_one_operator_for_each_of_its_steps():
    def run(x, gate, up, down):
        weights, experts = softmax_gate(x @ gate)
        return experts_of(x, weights, experts, up, down)

    names = compiled(run, *layer(), near=5e-2)
    assert names == ["MatMul", "ExpertChoice", "ExpertOrder", "IndexSelect", "GroupedMatMul",
                     "Silu", "Mul", "GroupedMatMul", "ExpertSum"]  # fmt: skip


def test_a_layer_of_experts_is_the_same_operators_for_any_number_of_tokens():
    def soft(x, gate, up, down):
        weights, experts = softmax_gate(x @ gate)
        return experts_of(x, weights, experts, up, down)

    def grouped(x, gate, up, down):
        return experts_of(x, *grouped_gate(x @ gate, torch.arange(EXPERTS) / 8), up, down)

    def hidden(x, gate, up, down):
        """Experts that may be out of range are not ordered by expert; those that are so count for none."""
        ids = (x[:, :K].float() * 6).long()
        return torch.histc(torch.sort(ids.reshape(-1))[0].float(), EXPERTS, 0, EXPERTS - 1).cumsum(0, dtype=torch.int32)

    _, *rest = layer()
    for run in (soft, grouped, hidden):
        torch._dynamo.reset()
        backend = weir.get_npu_backend()
        compiled_run = torch.compile(run, backend=backend, fullgraph=True, dynamic=True)
        with torch.no_grad():
            for tokens in (40, 17, 64, 3):
                x = torch.randn(tokens, HIDDEN).bfloat16()
                torch.testing.assert_close(compiled_run(x, *rest), run(x, *rest), rtol=5e-2, atol=5e-2)
        (graph,) = backend.graphs
        (elastic,) = graph.elastic
        assert not backend.coverage.fallback and not graph.inelastic
        text = elastic.plan.list()
        if run is hidden:
            assert " Sort_" in text
            continue
        for name in ("ExpertChoice", "ExpertOrder", "IndexSelect", "ExpertSum"):
            assert text.count(f" {name}_") == 1, text
        assert not any(f" {name}_" in text for name in ("Sort", "TopK", "Scatter", "CumSum", "Embedding", "Gather"))


def test_the_sum_of_experts_is_as_accurate_as_eager():
    x, gate, up, down = layer()

    def run(x, gate, up, down):
        weights, experts = softmax_gate(x @ gate)
        return experts_of(x, weights, experts, up, down)

    weights, experts = softmax_gate((x @ gate).double())
    truth = torch.zeros(x.shape, dtype=torch.double)
    for t in range(x.shape[0]):
        for w, e in zip(weights[t], experts[t]):
            a, b = (x[t].double() @ up[e].double()).chunk(2)
            truth[t] += w * ((F.silu(a) * b) @ down[e].double())
    with torch.no_grad():
        mine = torch.compile(run, backend="weir", dynamic=False)(x, gate, up, down)
        eager = run(x, gate, up, down)
    assert (mine - truth).abs().max() <= 1.05 * (eager - truth).abs().max()


def test_experts_that_are_not_known_to_be_in_range_are_sorted():
    x, _, up, down = layer()
    ids = torch.randint(0, EXPERTS, (40, K))
    weights = torch.rand(40, K)
    names = compiled(lambda *a: experts_of(*a), x, weights, ids, up, down, near=5e-2)
    assert "Sort" in names


def test_sorted_experts_and_their_order_may_be_used():
    def run(x, gate, up, down):
        weights, experts = softmax_gate(x @ gate)
        made = experts_of(x, weights, experts, up, down)
        ids, perm = torch.sort(experts.reshape(-1), stable=True)
        return made, ids, experts.reshape(-1)[perm]

    assert "ExpertOrder" in compiled(run, *layer(), near=5e-2)


@pytest.mark.parametrize("kind", ["cudnn", "efficient", "flash"])
def test_causal_attention_of_a_gpu_is_for_any_sizes_only_if_queries_and_keys_are_as_many(kind):
    from torch.fx.experimental.proxy_tensor import make_fx
    from weir._torch.lower import shaping

    attend = getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention").default
    extra = (0.0,) if kind == "flash" else (None, False, 0.0)

    def is_safe(keys, causal):
        q, k = (torch.empty(2, 4, n, 16, dtype=torch.float16, device="meta") for n in (5, keys))
        run = lambda q, k: attend(q, k, k, *extra, causal)[0]  # noqa: E731
        nodes = make_fx(run, tracing_mode="symbolic")(q, k).graph.nodes
        (node,) = (n for n in nodes if n.target is attend)
        return shaping.is_safe(node)

    assert is_safe(5, True) and is_safe(7, False) and not is_safe(7, True)


# ---- concatenations ----


def test_a_concatenation_of_concatenations_is_one():
    a, b, c = torch.randn(2, 3, 4), torch.randn(2, 3, 5), torch.randn(2, 1, 6)

    def nested(a, b, c):
        return torch.cat((a, torch.cat((b, b), -1)), -1), torch.cat(
            (a, torch.cat((c, c), -1).expand(2, 3, 12)), -1
        )

    assert compiled(nested, a, b, c, near=0) == ["Concat", "Concat"]


def test_a_concatenation_with_other_users_or_along_another_dim_is_not_flattened():
    a, b = torch.randn(2, 3, 4), torch.randn(2, 3, 4)

    def used(a, b):
        inner = torch.cat((b, b), -1)
        return torch.cat((a, inner), -1), inner * 2

    def across(a, b):
        return torch.cat((torch.cat((a, b), 1), torch.cat((b, a), 1)), -1)

    assert compiled(used, a, b, near=0).count("Concat") == 2
    assert compiled(across, a, b, near=0).count("Concat") == 3


# ---- attention ----


def attend(q, k, v, mask=None, causal=False):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_pytorch_decomposes_is_one_operator(dtype):
    q, k = torch.randn(1, 2, 7, 16).to(dtype), torch.randn(1, 2, 7, 16).to(dtype)
    v = torch.randn(1, 2, 7, 8).to(dtype)
    near = 2e-2 if dtype is torch.bfloat16 else 1e-5

    def causal(q, k, v):
        at = torch.arange(7)
        return attend(q, k, v, mask=at[None, :] <= at[:, None])

    def window(q, k, v, mask):
        return attend(q, k, v, mask=mask)

    seen = torch.rand(1, 1, 7, 7) > 0.3
    seen[0, 0, 3] = False  # a query that sees nothing is 0
    assert compiled(attend, q, k, v, near=near) == ["Attention"]
    assert compiled(causal, q, k, v, near=near) == ["Attention"]
    assert compiled(window, q, k, v, seen, near=near) == ["Attention"]
    numbers = torch.randn(1, 1, 7, 7).to(dtype)
    assert compiled(window, q, k, v, numbers, near=near) == ["Attention"]


def traced(mask_of, dtype=torch.bfloat16, whole=False):
    """A graph as PyTorch traces it on a GPU, rewritten: its attention, the mask, and whether it is causal."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from weir._torch.rewrite import patterns

    def f(q, k, v, mask):
        cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention.default
        made = cudnn(q, k, v, mask_of(mask), False, 0.0, False, False, scale=0.25)
        return made[:2] if whole else made[0]

    with FakeTensorMode(allow_non_fake_inputs=True):
        rows = [torch.empty(2, 4, 3, 16, dtype=dtype) for _ in range(3)]
        mask = torch.empty(2, 1, 3, 3, dtype=torch.bool)
        module = make_fx(f)(*rows, mask)
    patterns.rewrite(module)
    module.graph.lint()
    (node,) = (n for n in module.graph.nodes if "attention" in str(n.target))
    if node.target is torch.ops.weir.attention.default:
        return "weir", node.args[3], node.args[4]
    return "cudnn", node.args[3], len(node.args) > 6 and node.args[6]


def scalar(x, dtype):
    return torch.ops.aten.scalar_tensor.default(x, dtype=dtype)


@pytest.mark.parametrize("number", [-65504.0, -math.inf])
def test_a_mask_of_bools_that_pytorch_made_numbers_is_bools_again(number):
    def newer(mask, dtype=torch.bfloat16):
        return torch.where(mask, 0.0, scalar(number, dtype))

    def older(mask, dtype=torch.bfloat16):
        return torch.where(mask.logical_not(), number, scalar(0.0, dtype))

    for pytorch in (newer, older):
        whose, mask, causal = traced(pytorch)
        assert whose == "weir" and mask.op == "placeholder" and not causal
        whose, mask, _ = traced(lambda m: pytorch(m).expand(2, 4, 3, 3))  # noqa: B023
        assert mask.target is torch.ops.aten.expand.default and mask.args[0].op == "placeholder"
        whose, mask, causal = traced(lambda m: pytorch(torch.ones(3, 3, dtype=torch.bool).tril()))  # noqa: B023
        assert whose == "cudnn" and mask is None and causal


def test_numbers_that_a_program_adds_stay_numbers():
    def least(dtype, number):
        return lambda mask: torch.where(mask, 0.0, scalar(number, dtype))

    for dtype, number in ((torch.bfloat16, -1000.0), (torch.float16, -65504.0)):
        whose, mask, _ = traced(least(dtype, number), dtype)
        assert whose == "cudnn" and mask.target is torch.ops.aten.where.self


def test_attention_that_stays_pytorchs_keeps_its_mask_of_numbers():
    """Its kernels refuse bools."""
    for dtype, whole in ((torch.float64, False), (torch.bfloat16, True)):
        whose, mask, _ = traced(
            lambda m: torch.where(m, 0.0, scalar(-math.inf, dtype)), dtype, whole  # noqa: B023
        )
        assert whose == "cudnn" and mask.target is torch.ops.aten.where.self


def test_operators_that_only_look_like_attention_are_not_rewritten():
    q, k, v = torch.randn(1, 2, 7, 16), torch.randn(1, 2, 7, 16), torch.randn(1, 2, 7, 8)

    def shows_its_weights(q, k, v):
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(16), -1)
        return p @ v, p

    def over_queries(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2), -2) @ v

    for function in (shows_its_weights, over_queries):
        assert "Attention" not in compiled(function, q, k, v)
