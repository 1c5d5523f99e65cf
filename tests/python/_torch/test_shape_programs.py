"""Random programs of open sizes give what eager PyTorch gives, whatever sizes come after which."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import programs  # noqa: E402
import shape_programs  # noqa: E402

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 1))


def test_random_programs_of_open_sizes_equal_eager_ones():
    programs.quiet()
    wrong = [text for seed in range(COUNT) for text in shape_programs.try_seed(seed)[1]]
    assert not wrong, "\n".join(wrong)
