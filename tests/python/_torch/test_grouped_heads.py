"""Attention whose keys and values a model repeats for groups of queries; powers that are products."""

import pytest

torch = pytest.importorskip("torch")

import weir  # noqa: E402


def _compiled(function, **options):
    torch._dynamo.reset()
    backend = weir.get_npu_backend()
    return torch.compile(function, backend=backend, fullgraph=True, **options), backend


def _repeat(x, times):
    b, h, n, d = x.shape
    return x[:, :, None].expand(b, h, times, n, d).reshape(b, h * times, n, d)


def _attend(q, k, v, mask=None, times=(2, 2), causal=False):
    k, v = _repeat(k, times[0]), _repeat(v, times[1])
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal
    )


def _plans(backend):
    (graph,) = backend.graphs
    return "\n".join(plan.list() for made in graph.plans.values() for plan in made.plans)


@pytest.mark.parametrize("rows, masked, causal", [(1, True, False), (5, False, True), (9, True, False)])
@pytest.mark.parametrize("heads, times", [(1, 4), (2, 2), (3, 3)])
def test_repeated_heads_are_attended_without_copies(heads, times, rows, masked, causal):
    torch.manual_seed(0)
    length = rows if causal else 17
    q = torch.randn(2, heads * times, rows, 16)
    k, v = torch.randn(2, heads, length, 16), torch.randn(2, heads, length, 16)
    mask = torch.rand(2, 1, rows, length) > 0.3 if masked else None

    def function(q, k, v):
        return _attend(q, k, v, mask, (times, times), causal)

    run, backend = _compiled(function)
    with torch.no_grad():
        got = run(q, k, v)
    torch.testing.assert_close(got, function(q, k, v), rtol=1e-5, atol=1e-6)
    assert "Attention" in _plans(backend) and "Copy" not in _plans(backend)
    assert not backend.coverage.fallback


def test_heads_in_another_order_or_number_are_not_treated_as_groups():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 1, 7, 8)

    def turns(q, k, v):  # k0 k1 k0 k1: no groups
        k = k[:, None].expand(1, 2, 2, 7, 8).reshape(1, 4, 7, 8)
        return torch.nn.functional.scaled_dot_product_attention(q, k, _repeat(v, 4))

    def uneven(q, k, v):
        return _attend(q, k, v, times=(2, 4))

    for function in (turns, uneven):
        run, _ = _compiled(function)
        with torch.no_grad():
            torch.testing.assert_close(run(q, k, v), function(q, k, v), rtol=1e-5, atol=1e-6)


def test_repeated_heads_of_open_lengths_are_attended_without_copies():
    torch.manual_seed(0)
    run, backend = _compiled(_attend, dynamic=True)
    with torch.no_grad():
        for length in (7, 12, 40, 9):
            args = torch.randn(1, 4, 2, 8), torch.randn(1, 2, length, 8), torch.randn(1, 2, length, 8)
            torch.testing.assert_close(run(*args), _attend(*args), rtol=1e-5, atol=1e-6)
    assert not backend.coverage.fallback


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("exponent", [2, 3, 2.0, 3.0, 0.5, -0.5, -1, 4])
def test_powers_have_the_bits_of_eager(dtype, exponent):
    torch.manual_seed(0)
    if dtype is torch.int64:
        if exponent == -1:
            pytest.skip("PyTorch has no negative powers of whole numbers")
        x = torch.arange(-9, 40)
    else:
        edges = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-30, 3e38]
        x = torch.cat([torch.randn(40).abs(), torch.tensor(edges)]).to(dtype)
    run, _ = _compiled(lambda x: x**exponent)
    exact = exponent in (2, 3) and dtype in (torch.float32, torch.float64)
    tolerance = dict(rtol=0, atol=0) if exact else {}
    with torch.no_grad():
        torch.testing.assert_close(run(x), x**exponent, equal_nan=True, **tolerance)


@pytest.mark.parametrize("kept", [False, True])
def test_results_with_heads_and_rows_exchanged_need_no_copy(kept):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 5, 3, 16).transpose(1, 2) for _ in range(3))  # as models have them

    def function(q, k, v):
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        joined = made.transpose(1, 2).reshape(2, 5, 48) @ torch.ones(48, 48)
        return (joined, made * 2) if kept else joined

    run, backend = _compiled(function)
    with torch.no_grad():
        torch.testing.assert_close(run(q, k, v), function(q, k, v), rtol=1e-5, atol=1e-6)
    assert ("Copy" in _plans(backend)) == kept
