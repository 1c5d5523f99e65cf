"""Gradients of compiled functions are eager ones, whatever comes for results and whatever changes between calls."""

import pytest

import weir
from compiling import fresh  # noqa: F401

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
from torch.utils.checkpoint import checkpoint  # noqa: E402

F = torch.nn.functional


def gradients(function, given, *leaves):
    """Results, and the gradients of the leaves for what is given for the first result."""
    leaves = [x.detach().clone().requires_grad_(True) for x in leaves]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    return [*results, *torch.autograd.grad(results[0], leaves, given)]


def equal(run, function, given, *leaves):
    for got, want in zip(gradients(run, given, *leaves), gradients(function, given, *leaves), strict=True):
        torch.testing.assert_close(got, want)


def test_gradients_may_be_lazily_negated_at_some_calls():
    def wave(x):
        return x * x.sin()

    run = torch.compile(wave, backend="weir")
    for turned in (False, True, False):
        x, g = torch.randn(2, 4, 5)
        equal(run, wave, torch._neg_view(g) if turned else g, x)


def test_gradients_of_complex_results_may_be_lazy_conjugates_at_some_calls():
    def square(z):
        return z * z * 2

    run = torch.compile(square, backend="weir")
    for turned in (False, True, False):
        z, g = torch.randn(2, 4, 5, dtype=torch.complex64)
        equal(run, square, g.conj() if turned else g, z)


def test_random_numbers_of_checkpoints_are_drawn_again():
    weight = torch.randn(5, 5)

    def layer(x):
        return F.dropout((F.dropout(x, 0.3) @ weight).sin(), 0.5)

    def model(x):
        return checkpoint(layer, x, use_reentrant=False).sum()

    run = torch.compile(model, backend="weir", fullgraph=True)
    for seed in range(3):
        x, made = torch.randn(4, 5), []
        for function in (run, model):
            torch.manual_seed(seed)
            made.append(gradients(function, torch.tensor(2.0), x))
        assert all(map(torch.equal, *made))
        assert torch.count_nonzero(made[0][1]) < 20


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_embedding_tables_follow_each_calls_indices(dynamic):
    def look_up(table, words):
        return F.embedding(words, table, padding_idx=0).sum(1) * 2

    run = torch.compile(look_up, backend="weir", dynamic=dynamic)
    for rows, columns in ((3, 5), (4, 5), (2, 7), (1, 5), (6, 4)):
        table = torch.randn(9, columns if dynamic else 5)
        words = torch.arange(rows * 3).reshape(rows, 3) * 7 % 9
        given = torch.randn(rows, table.shape[1])
        equal(lambda t, w=words: run(t, w), lambda t, w=words: look_up(t, w), given, table)


def test_an_operator_may_give_lists_of_lists():
    def count(x):
        hist, edges = torch.histogramdd(x, bins=[3, 2], range=[0.0, 3.0, 0.0, 2.0])
        return hist, edges[0] * 2, edges[1]

    run = torch.compile(count, backend="weir", fullgraph=True)
    x = torch.rand(20, 2) * 2
    for got, want in zip(run(x), count(x), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_of_halves_train_with_weights_of_f32(dtype):
    def norms(x, weight, bias):
        y, (mean, var) = x.transpose(1, 2), weight.detach().abs()[None] * torch.ones(2, 1)
        return torch.stack([
            F.layer_norm(x, (6,), weight, bias).transpose(1, 2), F.group_norm(y, 3, weight, bias),
            F.batch_norm(y, mean, var, weight, bias, training=True), F.batch_norm(y, mean, var, training=True),
            F.instance_norm(y, None, None, weight, bias),
        ])  # fmt: skip

    run = torch.compile(norms, backend="weir")
    x, weight, bias = torch.randn(4, 5, 6) + 30, torch.randn(6), torch.randn(6)  # a mean of many bits
    x, given = x.to(dtype), torch.randn(5, 4, 6, 5).to(dtype)
    got, want = (gradients(f, given, x, weight, bias) for f in (run, norms))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=2e-2, atol=0.1)
    exact = gradients(norms, given.double(), x.double(), weight.double(), bias.double())
    for a, b in zip(got[2:], exact[2:]):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-3)


def test_weight_norms_of_f16_train():
    def norm(v, g):
        return torch._weight_norm(v, g, 0)

    v, g = torch.randn(4, 6).half(), torch.randn(4, 1).half()
    run = torch.compile(norm, backend="weir")
    for a, b in zip(gradients(run, torch.ones(4, 6).half(), v, g), gradients(norm, torch.ones(4, 6).half(), v, g)):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)


def test_autocast_trains_norms():
    import copy

    ours = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.SiLU(), torch.nn.Linear(16, 4))
    theirs, made = copy.deepcopy(ours), []
    x = torch.randn(3, 8)
    for model, run in ((ours, torch.compile(ours, backend="weir")), (theirs, theirs)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made.append(run(x).float().square().mean())
        made[-1].backward()
    torch.testing.assert_close(*made, rtol=2e-2, atol=2e-2)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=5e-2, atol=2e-2)
