"""Compiled functions give what eager PyTorch gives, down to the memory their results share."""

import os

import pytest

import weir

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import programs  # noqa: E402

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 2))


@pytest.fixture(autouse=True)
def fresh():
    programs.quiet()
    torch._dynamo.reset()


def check(function, make, sizes, dynamic):
    run = torch.compile(function, backend=weir.get_npu_backend(), dynamic=dynamic, fullgraph=True)
    for size in sizes:
        got, want = programs.call(run, make(size)), programs.call(function, make(size))
        assert programs.compare(got, want) == []


def halves(x, n):
    top, rest = x[:n], x[n:]
    y = x * 2
    return (
        top, rest, torch.chunk(x, 2), torch.split(x, n), x.narrow(0, 1, n), x[x.shape[0] // 2 :],
        y[n:], torch.chunk(y, 2, 1), x.t()[1:], (x + 1)[:, -1], y.t(), x.view(-1)[n:], x,
    )  # fmt: skip


def updates(x, n):
    x[n:].mul_(2)
    y = x + 1
    y[:, 0].zero_()
    return x[n:], y[1:], x, y.unbind(1)


@pytest.mark.parametrize("function, dynamic", [(halves, None), (halves, True), (updates, True)])
def test_returned_views_have_the_layout_of_eager_ones(function, dynamic):
    def make(size):
        n, m = size
        return torch.arange(float(2 * n * m)).view(2 * n, m)[1 : n + 1], n // 2

    check(function, make, [(4, 6), (6, 5)], dynamic)


def test_views_by_strides_read_the_memory_that_eager_ones_read():
    def function(x, y):
        v = x[1:]
        w = (y.t() * 2)[1:]
        return v.as_strided((2, 2), (3, 1), 1), w.as_strided((3,), (2,), 2), x.as_strided((2,), (1,))

    for dynamic in (False, True):
        torch._dynamo.reset()
        check(function, lambda n: torch.arange(8.0 * n).view(2, n, 4).unbind(), [5, 6], dynamic)


def test_a_view_by_strides_beyond_its_tensor_is_still_pytorchs():
    def function(x):
        return x.as_strided((2, 2), (4, 1), 0) + 1

    check(function, lambda n: (torch.arange(40.0).view(10, 4)[n:6, 1:3],), [2, 3], False)


def test_lazily_negated_tensors_keep_their_signs():
    def function(z, x):
        return z * 2, z.real + x, x * 3, z.conj(), z.imag, z.t()

    def make(n):
        z = torch.complex(torch.arange(3.0 * n).view(n, 3), torch.ones(n, 3))
        return z.t().conj(), z.conj().imag.t()

    check(function, make, [4], False)


def test_a_detached_view_stays_detached_beside_its_base():
    def function(x, n):
        y = x + n
        return y, y[1:], y[:1].detach(), x.detach()

    check(function, lambda n: (torch.ones(n, 3, requires_grad=True), 1), [4], True)


def test_random_programs_equal_eager_ones():
    found = []
    for seed in range(COUNT):
        found += programs.try_seed(seed, 10 if COUNT < 10 else 20, threads=2, calls=5)[1]
    assert not found, "\n".join(found)
