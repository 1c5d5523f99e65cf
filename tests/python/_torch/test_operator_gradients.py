"""Gradients of PyTorch's own samples of its operators are eager ones. WEIR_TEST_PROGRAMS is how many operators are tried."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import programs  # noqa: E402

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 4))


def test_gradients_of_random_operators_are_eager_ones():
    try:
        import operator_gradients
    except ImportError as error:
        pytest.skip(f"this PyTorch has no samples: {error}")
    programs.quiet()
    done, found = 0, []
    for seed in range(COUNT):
        samples, wrong = operator_gradients.try_seed(seed)
        done, found = done + samples, found + wrong
    assert not found, "\n".join(found)
    assert done
