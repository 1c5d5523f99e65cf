"""Random graphs give what NumPy gives, on every device, loaded from their text, and in threads."""

import os

import random_graphs

COUNT = int(os.environ.get("WEIR_TEST_PROGRAMS", 30))


def test_random_graphs_equal_numpy():
    found = []
    for seed in range(COUNT):
        found += random_graphs.try_seed(seed)[1]
    assert not found, "\n".join(found)
