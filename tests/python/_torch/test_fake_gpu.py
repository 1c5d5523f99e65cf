"""Operators as they are lowered for a GPU: eager's values from the sources of weir's kernels, on the
fake GPU that tests/cuda/fake is. WEIR_SOAK=1 runs every case; else a sample."""

import os

import pytest

pytest.importorskip("torch", reason="PyTorch cannot be installed here")
import test_gpu_values  # noqa: E402

SCRIPT = """
import sys
sys.path.insert(0, "_torch")
import fake_gpu
cases = {{**fake_gpu.named({names}), **fake_gpu.heads({sizes})}}
print("\\n".join(fake_gpu.run(cases) + fake_gpu.growing(20)) or "fine")
"""


def test_operators_and_attention_of_heads_of_any_size():
    names, sizes = ("index_put of", "floor division", "argmax", "int8"), [100]
    if "WEIR_SOAK" in os.environ:
        names, sizes = (), [*range(1, 257, 5), 7, 100, 255]
    assert test_gpu_values.run(SCRIPT.format(names=names, sizes=sizes), 200) == "fine\n"
