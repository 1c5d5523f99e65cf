"""Programs like patterns, networks of unusual layers, programs in scopes and programs that write to every type give what eager
PyTorch gives. WEIR_TEST_PROGRAMS is how many of each."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")

import lookalikes  # noqa: E402
import networks  # noqa: E402
import scoped  # noqa: E402
import typed_updates  # noqa: E402
from compiling import fresh  # noqa: E402,F401

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 3))


@pytest.mark.parametrize("kind, count", [(lookalikes, 4 * COUNT), (networks, 2 * COUNT), (scoped, COUNT), (typed_updates, 2 * COUNT)],
                         ids=["lookalikes", "networks", "scoped", "typed_updates"])  # fmt: skip
def test_random_programs_of_a_kind_equal_eager_ones(kind, count):
    found = []
    for seed in range(count):
        found += kind.try_seed(seed)[1]
    assert not found, "\n".join(found)
