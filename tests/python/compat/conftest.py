"""An NPU for programs written for torch_npu."""

import pytest

import weir
from weir import compat


@pytest.fixture(params=[compat.DEFAULT_DEVICE, "npu:a3"])
def npu(request):
    before = weir.get_device()
    weir.set_device(request.param)
    compat.install()
    import torch_npu

    yield torch_npu.npu
    weir.set_device(before)
