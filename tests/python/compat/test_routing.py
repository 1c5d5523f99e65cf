"""torch_npu's way of a mixture of experts: to the experts and back."""

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
np = pytest.importorskip("numpy")

N, K, EXPERTS, WIDTH = 6, 2, 4, 3


@pytest.fixture
def rows():
    """(x, numbers, experts) as npu_moe_gating_top_k_softmax gives them."""
    torch.manual_seed(1)
    x = torch.randn(N, WIDTH)
    logits = torch.randn(N, EXPERTS)
    _, experts, numbers = weir.npu.npu_moe_gating_top_k_softmax(logits, k=K)
    return x, numbers, experts


def as_weir(*tensors):
    return [weir.tensor(t.numpy()) for t in tensors]


def values(tensors):
    return [np.asarray(t.tolist()) for t in tensors]


def test_rows_go_to_their_experts_in_order(rows):
    x, numbers, experts = rows
    flat, numbered = experts.flatten().tolist(), numbers.flatten().tolist()
    # By expert, those of one as they stand in memory.
    pairs = sorted((e, at, number) for at, (e, number) in enumerate(zip(flat, numbered)))
    for tensors in ((x, numbers, experts), as_weir(x, numbers, experts)):
        for active in (N, 2, 100):
            to, where, sorted_experts = values(weir.npu.npu_moe_init_routing(*tensors, active))
            assert sorted_experts.tolist() == [e for e, _, _ in pairs]
            assert [where[number] for _, _, number in pairs] == list(range(N * K))
            taken = pairs[: min(active, N) * K]
            np.testing.assert_allclose(to, [x[number % N].tolist() for _, _, number in taken], 1e-6)
        ends = values([weir.npu.npu_moe_compute_expert_tokens(
            weir.npu.npu_moe_init_routing(*tensors, N)[2], EXPERTS)])[0]  # fmt: skip
        assert ends.tolist() == [sum(e <= i for e, _, _ in pairs) for i in range(EXPERTS)]


def layer(x, weights, logits):
    """Experts that are matrices, by torch_npu's operators."""
    scales, experts, numbers = weir.npu.npu_moe_gating_top_k_softmax(logits, k=K)
    to, where, ordered = weir.npu.npu_moe_init_routing(x, numbers, experts, N)
    ends = weir.npu.npu_moe_compute_expert_tokens(ordered, EXPERTS)
    made = weir.npu.npu_grouped_matmul([to], [weights], group_list=ends, split_item=3, group_type=0)
    return weir.npu.npu_moe_finalize_routing(made[0], x, None, None, scales, where, experts)


def test_a_layer_is_the_sum_over_its_experts():
    torch.manual_seed(2)
    x, logits = torch.randn(N, WIDTH), torch.randn(N, EXPERTS)
    weights = torch.randn(EXPERTS, WIDTH, WIDTH)
    best, chosen = logits.softmax(-1).topk(K)
    want = x.clone()
    for j in range(K):
        want += best[:, j, None] * torch.einsum("nw,nwv->nv", x, weights[chosen[:, j]])
    torch.testing.assert_close(layer(x, weights, logits), want)
    (got,) = values([layer(*as_weir(x, weights, logits))])
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_results_of_experts_come_back_with_biases_and_skips(rows):
    x, numbers, experts = rows
    where = weir.npu.npu_moe_init_routing(x, numbers, experts, N)[1]
    made, bias, scales = torch.randn(N * K, WIDTH), torch.randn(EXPERTS, WIDTH), torch.rand(N, K)
    want = x + 2 * x
    for i in range(N):
        for j in range(K):
            want[i] += scales[i, j] * (made[where[j * N + i]] + bias[experts[i, j]])
    tensors = made, x, 2 * x, bias, scales, where, experts
    torch.testing.assert_close(weir.npu.npu_moe_finalize_routing(*tensors), want)
    (got,) = values([weir.npu.npu_moe_finalize_routing(*as_weir(*tensors))])
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)
    half = weir.npu.npu_moe_finalize_routing(made.half(), None, None, None, None, where, None)
    assert half.dtype == torch.float16 and half.shape == (N * K, WIDTH)
    with pytest.raises(NotImplementedError, match="drop_pad_mode 0, not 1"):
        weir.npu.npu_moe_finalize_routing(*tensors, drop_pad_mode=1)
    with pytest.raises(ValueError, match="a bias needs"):
        weir.npu.npu_moe_finalize_routing(made, None, None, bias, None, where, None)
    with pytest.raises(ValueError, match="must be of the same rows"):
        weir.npu.npu_moe_init_routing(x[:2], numbers, experts, N)


def test_routing_compiles():
    def f(x, logits):
        _, experts, numbers = weir.npu.npu_moe_gating_top_k_softmax(logits, k=K)
        to, where, ordered = weir.npu.npu_moe_init_routing(x, numbers, experts, N)
        ends = weir.npu.npu_moe_compute_expert_tokens(ordered, EXPERTS)
        return weir.npu.npu_moe_finalize_routing(to, None, None, None, None, where, None), ends

    torch._dynamo.reset()
    x, logits = torch.randn(N, WIDTH), torch.randn(N, EXPERTS)
    run = torch.compile(f, backend=weir.get_npu_backend(), fullgraph=True)
    with torch.no_grad():
        for got, want in zip(run(x, logits), f(x, logits)):
            torch.testing.assert_close(got, want)


def test_products_in_groups():
    a, w, b = torch.randn(5, 3), torch.randn(3, 3, 2), torch.randn(3, 2)
    want = [a[:2] @ w[0] + b[0], a[2:2] @ w[1] + b[1], a[2:] @ w[2] + b[2]]
    for x, weights, whole in ((a, w, b), as_weir(a, w, b)):
        biases = [whole[i] for i in range(3)]
        several = [weights[i] for i in range(3)]
        got = weir.npu.npu_grouped_matmul(
            [x], several, bias=biases, group_list=[2, 2, 5], split_item=1)  # fmt: skip
        assert [tuple(y.shape) for y in got] == [(2, 2), (0, 2), (3, 2)]
        np.testing.assert_allclose(got[2].tolist(), want[2].numpy(), rtol=1e-4, atol=1e-5)
        (got,) = weir.npu.npu_grouped_matmul(
            [x], [weights], bias=biases, group_list=[2, 0, 3], group_list_type=1,
            split_item=3)  # fmt: skip
        np.testing.assert_allclose(got.tolist(), torch.cat(want).numpy(), rtol=1e-4, atol=1e-5)
        got = weir.npu.npu_grouped_matmul([x, x], several[:2])
        np.testing.assert_allclose(got[1].tolist(), (a @ w[1]).numpy(), rtol=1e-4, atol=1e-5)
        (got,) = weir.npu.npu_grouped_matmul(
            [x], [weights], bias=[whole], group_list=[2, 2, 5], split_item=3)  # fmt: skip
        np.testing.assert_allclose(got.tolist(), torch.cat(want).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="3 x, 3 weights and 2 biases"):
        weir.npu.npu_grouped_matmul([a], [w], bias=[b[:2]], group_list=[2, 2, 5])
    with pytest.raises(ValueError, match=r"groups of \[2, 1\] rows are not the 5 rows"):
        weir.npu.npu_grouped_matmul([a], [w[:2]], group_list=[2, 3])
    with pytest.raises(ValueError, match="2 x, 3 weights"):
        weir.npu.npu_grouped_matmul([a, a], [w])
    with pytest.raises(NotImplementedError, match="weir has not 'scale'"):
        weir.npu.npu_grouped_matmul([a], [w], scale=[b])
    with pytest.raises(NotImplementedError, match="group_type 2"):
        weir.npu.npu_grouped_matmul([a], [w], group_type=2)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_tensor_of_group_ends_or_sizes_is_not_read_by_the_host(kind, monkeypatch):
    a, w, b = torch.randn(6, 3), torch.randn(3, 3, 2), torch.randn(3, 2)
    want = torch.cat([a[:2] @ w[0] + b[0], a[2:5] @ w[2] + b[2], torch.zeros(1, 2)])
    groups = torch.tensor([2, 0, 3] if kind else [2, 2, 5])

    def product(x, weights, biases, groups):
        return weir.npu.npu_grouped_matmul(
            [x], [weights], bias=[biases], group_list=groups, group_list_type=kind, split_item=3,
            group_type=0)[0]  # fmt: skip

    monkeypatch.setattr("weir._npu_routing._sizes", None)
    torch._dynamo.reset()
    run = torch.compile(product, backend=weir.get_npu_backend(), fullgraph=True)
    for got in (
        product(a, w, b, groups), product(*as_weir(a, w, b, groups)), run(a, w, b, groups)
    ):  # fmt: skip
        np.testing.assert_allclose(got.tolist(), want.numpy(), rtol=1e-4, atol=1e-5)
    w.requires_grad_()
    product(a, w, b, groups).sum().backward()
    torch.testing.assert_close(w.grad[2], a[2:5].sum(0)[:, None].expand(3, 2))


def test_groups_of_experts_are_weirs_on_bfloat16_and_give_eagers_gradients():
    x, w = torch.randn(40, 16).bfloat16(), torch.randn(3, 16, 24).bfloat16()
    ends = torch.tensor([7, 7, 40], dtype=torch.int32)

    def step(run):
        a, b = (t.clone().requires_grad_() for t in (x, w))
        made = run(a, b)
        made.float().square().sum().backward()
        return made.detach(), a.grad, b.grad

    def product(a, b):
        return torch._grouped_mm(a, b, offs=ends)

    torch._dynamo.reset()
    backend = weir.get_npu_backend()
    for got, want in zip(step(torch.compile(product, backend=backend)), step(product)):
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    assert not any("grouped" in name for name in backend.coverage.fallback)


def test_products_in_groups_have_the_type_of_x_or_that_asked_for():
    # 2049 is no float16: the sum with it is rounded once, at the end.
    x, w, b = torch.ones(4, 2).half(), torch.ones(2, 2, 3).half(), torch.full((2, 3), 2049.0)
    for a, weights, bias in ((x, w, b), as_weir(x, w, b)):
        half, wide = (torch.float16, torch.float32) if a is x else (weir.float16, weir.float32)

        def product(bias=None, dtype=None):
            made = weir.npu.npu_grouped_matmul(
                [a], [weights], bias=bias, group_list=[1, 4], split_item=3,
                output_dtype=dtype)  # fmt: skip
            return made[0].dtype, made[0].tolist()[3][2]

        assert product() == (half, 2.0)
        assert product([bias]) == (half, 2052.0)  # 2051 is between 2050 and 2052
        assert product([bias], wide) == (wide, 2051.0)
        for dtype in (torch.float32, weir.float32):  # of either, for either
            assert product(dtype=dtype) == (wide, 2.0)


def test_routing_stays_on_the_device_of_its_tensors():
    other = weir.Device("cpu:threads=1")
    x, logits = (t.to(other) for t in as_weir(torch.randn(N, WIDTH), torch.randn(N, EXPERTS)))
    scales, experts, numbers = weir.npu.npu_moe_gating_top_k_softmax(logits, k=K)
    to, where, ordered = weir.npu.npu_moe_init_routing(x, numbers, experts, N)
    ends = weir.npu.npu_moe_compute_expert_tokens(ordered, EXPERTS)
    back = weir.npu.npu_moe_finalize_routing(to, None, None, None, scales, where, None)
    made = x, numbers, to, where, ends, back
    assert weir.get_device() != other and all(t.device == other for t in made)
    assert ends.tolist()[-1] == N * K
