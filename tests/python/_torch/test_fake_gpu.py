"""Operators as they are lowered for a GPU: eager's values from the sources of weir's kernels, on the
fake GPU that tests/cuda/fake is. WEIR_SOAK=1 runs every case; else a sample."""

import os

import pytest

pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import test_gpu_values  # noqa: E402

ALL = "WEIR_SOAK" in os.environ


def run(asked):
    code = f"""
import sys
sys.path.insert(0, "_torch")
import fake_gpu
print("\\n".join(fake_gpu.run({asked})) or "fine")
"""
    assert test_gpu_values.run(code, 1200 if ALL else 200) == "fine\n"


def test_operators_that_are_several_of_weirs():
    names = ("index_put", "floor division", "histc", "argmax", "int8")
    run(f"fake_gpu.named({'' if ALL else names!r})")


def test_attention_of_heads_of_any_size():
    every = list(range(1, 257)) if ALL else [7, 100]
    run(f"fake_gpu.heads({every})")
