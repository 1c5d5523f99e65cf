"""Tensors whose values are not what is in their memory, or that have none: zeros without memory, as gradients of what is
constant are, and signs or conjugates that are turned around as they are read."""

import pytest

import weir
from compiling import compiled, fresh  # noqa: F401

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")


def _zeros(x):
    return torch._efficientzerotensor(x.shape, dtype=x.dtype)


KINDS = {
    "as it is": lambda x: x,
    "zeros without memory": _zeros,
    "negated": lambda x: x._neg_view(),
    "turned": lambda x: x.t().contiguous().t(),
    "negated and turned": lambda x: x.t().contiguous()._neg_view().t(),
    "one element for all": lambda x: x[:1, :1].expand(x.shape),
    "no memory of one's own": lambda x: x.flatten().as_strided(x.shape, (1, 1)),
    "imaginary part": lambda x: torch.complex(x, x + 1).imag,
    "imaginary part of a conjugate": lambda x: torch.complex(x, x + 1).conj().imag,
}  # fmt: skip


@pytest.mark.parametrize("n", [4, 40])  # what is copied for a call, and what is not
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_every_kind_reach_the_backward_graph(kind, n):
    run, _ = compiled(lambda x: x * 2 + 1)
    x = torch.arange(float(n * n)).view(n, n).requires_grad_(True)
    for at in range(5):
        given = KINDS[kind](torch.arange(n * n).view(n, n) * 0.5 + at)
        (grad,) = torch.autograd.grad(run(x), x, given)
        assert torch.equal(grad, given * 2), at
        # The next call's gradient may be of another kind.
        (grad,) = torch.autograd.grad(run(x), x, torch.ones(n, n))
        assert torch.equal(grad, torch.full((n, n), 2.0)), at


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_arguments_of_every_kind_are_read(kind, dynamic):
    def function(x, y):
        return x * 2 + y, x.t() - 1, x.sum(0), torch.linalg.vector_norm(x) + y

    run = torch.compile(function, backend=weir.get_npu_backend(), dynamic=dynamic)
    for at, (n, m) in enumerate([(4, 4), (6, 6), (4, 4), (40, 40)]):
        x = KINDS[kind](torch.arange(float(n * m)).view(n, m) + at)
        for got, want in zip(run(x, torch.ones(n, m)), function(x, torch.ones(n, m))):
            torch.testing.assert_close(got.clone(), want.clone())


def test_a_gradient_that_is_always_zero_is_zero():
    run, _ = compiled(torch.sgn)
    for eager_end in (False, True):
        x = torch.tensor([-2.0, 0.0, 3.0], requires_grad=True)
        y = run(x) if not eager_end else compiled(lambda x: x * 3)[0](x).sgn()
        y.sum().backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_zeros_without_memory_are_not_written_to():
    run, _ = compiled(lambda x: x.add_(1) * 2)
    with pytest.raises((ValueError, RuntimeError)):
        run(torch._efficientzerotensor((3,)))


def test_tensors_of_weir_have_the_values():
    whole = torch.arange(12.0).view(3, 4)
    for kind, make in KINDS.items():
        x = make(whole)
        assert weir.tensor(x).tolist() == weir.asarray(x).tolist() == x.clone().tolist(), kind
        if x.is_neg() or x._is_zerotensor():
            with pytest.raises(BufferError, match="clone it"):
                weir.from_dlpack(x)
        else:
            assert weir.from_dlpack(x).tolist() == x.tolist()
