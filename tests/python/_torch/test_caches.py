"""Sessions of random decoders with caches equal eager ones: caches that grow, are cropped, reordered, copied, shared,
written to and continued twice. WEIR_TEST_PROGRAMS is how many sessions there are, each on the host and as on a GPU."""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import caches  # noqa: E402
import programs  # noqa: E402
from stand_in import host  # noqa: E402, F401

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 1))


@pytest.mark.parametrize("where", ["host", "as on a GPU"])
def test_random_sessions_with_caches_equal_eager_ones(where, request):
    if where != "host":
        request.getfixturevalue("host")
    programs.quiet()
    calls, found = 16 if COUNT > 2 else 6, []
    for seed in range(COUNT):
        found += caches.try_seed(seed + 1000 * (where != "host"), calls)[1]
    assert not found, "\n".join(found)
