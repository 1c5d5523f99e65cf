"""Expressions of tensors of different types and numbers at the edges give what eager PyTorch gives.

WEIR_TEST_PROGRAMS is how many programs of 24 random expressions are tried.
"""

import os

import pytest

from compiling import compiled, fresh  # noqa: F401

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
mixed_values = pytest.importorskip("mixed_values")

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 6))


def test_random_expressions_of_mixed_types_give_what_eager_ones_give():
    wrong = [text for seed in range(COUNT) for text in mixed_values.try_seed(5000 + seed)[1]]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("operator", [torch.mul, torch.div])
def test_halves_are_scaled_by_numbers_that_are_no_halves(operator, dtype):
    """A scale of 65536, as losses have, is infinite as a half."""
    x = (torch.rand(64, generator=torch.Generator().manual_seed(1)) + 0.1).to(dtype)
    for scale in (65536.0, 1.2345678, torch.tensor(1.2345678).double(), [100003]):
        scale = torch.as_tensor(scale)
        run, backend = compiled(lambda x, scale: (operator(x, scale), operator(scale, x), x * x))
        got, want = run(x, scale), (operator(x, scale), operator(scale, x), x * x)
        assert not backend.coverage.fallback
        for a, b in zip(got, want):
            assert a.dtype == b.dtype and torch.equal(a, b), (scale, a, b)
