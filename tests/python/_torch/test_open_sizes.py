"""torch.compile with sizes that change: one plan serves them, with eager's values."""

import random

import pytest
import torch

import weir
from stand_in import host  # noqa: F401


@pytest.fixture(autouse=True, params=["host", "as on a GPU"])
def fresh(request):
    torch._dynamo.reset()
    if request.param != "host":
        request.getfixturevalue("host")
    yield
    torch._dynamo.reset()


def compiled(function):
    backend = weir.get_npu_backend()
    return torch.compile(function, backend=backend, dynamic=True), backend


def check(function, make, sizes):
    """The values of eager calls for all sizes; gives the graphs that were compiled."""
    run, backend = compiled(function)
    for size in sizes:
        args = make(*size) if isinstance(size, tuple) else make(size)
        got, want = run(*args), function(*args)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    return backend.graphs


def one_plan(graphs):
    return all(len(g.elastic) == 1 and not g.inelastic for g in graphs)


def bound_once(graphs):
    return one_plan(graphs) and all(len(g.plans) == 1 for g in graphs)


def test_a_growing_size_is_served_by_one_plan():
    def grow(x, new):
        both = torch.cat((x, new), 0)
        scores = both @ both.transpose(0, 1)
        return both, torch.softmax(scores, -1) @ both

    graphs = check(grow, lambda n: (torch.randn(n, 8), torch.randn(1, 8)), range(2, 150))
    assert len(graphs) == 1 and bound_once(graphs)


def test_sizes_meet_fixed_ones_and_slices_of_each_other():
    def mix(x, y):
        n = x.shape[0]
        a = x[: n // 2].reshape(-1, 2, 4) * 3
        b = y[n - n // 2 :].unsqueeze(1).expand(-1, 2, 4)[:, :, 1:]
        c = x.reshape(n * 2, 4).sum(0) + torch.arange(n, dtype=torch.float32).sum()
        return a, b + 1, c, torch.stack((x[0], x[-1])), x.split(2, 1)[1] + y[:n, :2]

    draw = random.Random(1)
    sizes = [(n := draw.randint(3, 70), n + draw.randint(0, 9)) for _ in range(40)]
    graphs = check(mix, lambda n, m: (torch.randn(n, 8), torch.randn(m, 4)), sizes)
    assert one_plan(graphs)


def test_results_that_are_views_follow_the_sizes():
    def views(x):
        y = x * 2
        return y, y[1:], y.transpose(0, 1), x[2:], y.permute(1, 0)[:, 1:].contiguous()

    run, backend = compiled(views)
    for n in (5, 9, 4, 31):
        x = torch.randn(n, 6)
        got, want = run(x), views(x)
        for a, b in zip(got, want):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
        got[0].zero_()
        assert not got[1].any() and not got[2].any()
    assert bound_once(backend.graphs)


def test_results_of_one_element_or_none_are_laid_out_as_those_of_many():
    def parts(x):
        n = x.shape[0]
        y = x[: n // 3].transpose(0, 1) * 2
        return y, y[1:], (x[: n // 4] + 1).unsqueeze(2), n // 2

    run, backend = compiled(parts)
    for n in (12, 3, 5, 2, 9, 4, 30):
        x = torch.randn(n, 6)
        got, want = run(x), parts(x)
        for a, b in zip(got[:3], want[:3]):
            torch.testing.assert_close(a, b)
            strides = zip(a.shape, a.stride(), b.stride())  # which mean nothing where a size is 1
            assert not b.numel() or all(x == y for size, x, y in strides if size > 1)
        assert got[3] == want[3]


def test_small_results_of_other_sizes_have_memory_of_their_own():
    def small(x):
        return x * 2, x.sum(1)

    run, backend = compiled(small)
    kept = []
    for n in [*range(2, 30), *range(29, 2, -1)]:
        x = torch.randn(n, 3)
        kept.append((run(x), small(x)))
    assert bound_once(backend.graphs)
    for got, want in kept:
        torch.testing.assert_close(got, want)


def test_transposed_arguments_are_used_without_a_copy():
    graphs = check(
        lambda x: torch.relu(x) + x.sum(0), lambda n: (torch.randn(6, n).t(),), range(2, 40, 3)
    )
    assert bound_once(graphs)


def test_a_number_computed_from_sizes_gets_a_plan_for_each_value():
    graphs = check(lambda x: x * x.shape[0], lambda n: (torch.randn(n, 2),), (3, 5, 3, 9, 5))
    assert all(g.elastic or g.inelastic for g in graphs)


def test_threads_with_different_sizes_get_their_own_results():
    import threading

    def model(x):
        return torch.softmax(x @ x.transpose(0, 1), -1) @ x

    run, _ = compiled(model)
    run(torch.randn(4, 8))
    wrong = []

    def work(seed):
        draw = torch.Generator().manual_seed(seed)
        for i in range(60):
            x = torch.randn(2 + (i * 7 + seed * 3) % 37, 8, generator=draw)
            if not torch.allclose(run(x), model(x), rtol=1e-4, atol=1e-5):
                wrong.append(x.shape)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_gradients_follow_the_sizes():
    def loss(x, w):
        return torch.tanh(x @ w).square().mean()

    run, backend = compiled(loss)
    for n in (3, 8, 21, 5):
        x, w = torch.randn(n, 4), torch.randn(4, 4, requires_grad=True)
        run(x, w).backward()
        got, w.grad = w.grad, None
        loss(x, w).backward()
        torch.testing.assert_close(got, w.grad)


# ---- numbers that come as arguments ----


def test_numbers_of_the_first_call_are_constants_until_one_changes():
    def scaled(x, factor, offset):
        return x * factor + offset, x.sum(0) - factor

    run, backend = compiled(scaled)
    for n, factor in ((3, 2.5), (7, 2.5), (5, 0.125), (7, 2.5), (9, float("inf")), (4, -1.0)):
        x = torch.randn(n, 4)
        got, want = run(x, factor, 0.5), scaled(x, factor, 0.5)
        torch.testing.assert_close(got, want, equal_nan=True)
    assert all(one_plan([g]) and not g.numbers for g in backend.graphs if g.elastic)


def test_a_norm_of_a_module_with_an_eps_of_its_own_is_one_operator():
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.randn(8)), 1e-5

        def forward(self, x, cache):
            rows = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
            return torch.cat((cache, self.weight * rows))

    norm = Norm()
    run, backend = compiled(norm)
    with torch.no_grad():
        for n in (3, 9, 40):
            x, cache = torch.randn(1, 8), torch.randn(n, 8)
            torch.testing.assert_close(run(x, cache), norm(x, cache))
        assert "RmsNorm" in backend.graphs[0].elastic[0].plan.list()
        norm.eps = 4.0
        torch.testing.assert_close(run(x, cache), norm(x, cache))


def test_threads_with_different_numbers_get_their_own_results():
    import threading

    def scaled(x, factor):
        return x * factor + factor

    run, _ = compiled(scaled)
    wrong = []

    def work(seed):
        for i in range(40):
            x, factor = torch.randn(2 + (i * 5 + seed) % 11, 4), float(seed + i // 30 * 0.5)
            if not torch.equal(run(x, factor), scaled(x, factor)):
                wrong.append((x.shape, factor))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_an_index_of_two_dims_behind_an_open_one():
    def pick(x, i):
        parts = x.view(x.shape[0], 8, 3)
        return parts[:, i], torch.ops.aten._unsafe_index(parts, [None, i - 8])

    check(pick, lambda n: (torch.randn(n, 24), torch.randint(0, 8, (n, 3))), (2, 8, 3, 4))


def test_an_unsafe_index_of_open_dims_counts_from_their_ends():
    def pick(x, i, j):
        return torch.ops.aten._unsafe_index(x, [i, j]), torch.ops.aten._unsafe_index(x, [j])

    check(pick, lambda n: (torch.randn(n, n + 1), torch.tensor([-1, 0, 1]), torch.tensor([-1, 1, -2])), (2, 8, 3, 4))


@pytest.mark.parametrize("dynamic", [True, False, None])
def test_views_by_strides_count_from_the_start_of_the_memory(dynamic):
    def change(x):
        read = torch.as_strided(x, (2, 2), (2, 1), 4) * 2
        torch.as_strided(x, (2, 2), (2, 1), 5).add_(1)
        return read, torch.as_strided_scatter(x, read, (2, 2), (2, 1), 4), x[1:]

    run = torch.compile(change, backend="weir", dynamic=dynamic)
    for begin in (0, 1, 4, 1):
        for n in (9, 12):
            ours, theirs = torch.arange(40.0), torch.arange(40.0)
            got, want = run(ours[begin : begin + n]), change(theirs[begin : begin + n])
            for a, b in zip(got, want):
                assert torch.equal(a, b)
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("bound_again", [False, True])
def test_constants_of_other_sizes_are_ordered_for_every_stream_of_a_gpu(host, monkeypatch, bound_again):  # noqa: F811
    """They are made at each call, or once when the plan is bound for its sizes: then each stream must find them made. Their
    memory is kept for the stream that uses it, which may not be the one that made them."""
    waits, used = [], []
    monkeypatch.setattr(host, "synchronize", lambda: waits.append(len(used)))
    monkeypatch.setattr(host, "use", lambda tensor, stream=None: used.append(tensor))
    if bound_again:
        monkeypatch.setattr("weir._torch.runtime.layouts.write", lambda *_: None)
    function = lambda x: x * torch.arange(x.shape[0]) + 1  # noqa: E731
    run, backend = compiled(function)
    counts = []
    for n in (3, 4, 4, 5):
        x = torch.randn(n)
        torch.testing.assert_close(run(x), function(x))
        assert used[-1].shape == (n,)
        counts.append(len(waits))
    assert one_plan(backend.graphs) and len(used) == 4
    new, again, other = (b - a for a, b in zip(counts, counts[1:]))
    assert (new, again, other) == ((1, 0, 1) if bound_again else (0, 0, 0))
    assert (used[1] is used[2]) == bound_again
