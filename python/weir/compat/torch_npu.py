"""``torch_npu`` and ``torch.npu``: the NPU is weir's device. Its memory is the host's, or that of
the GPU if weir's device is one."""

import torch

import weir

from .._follow import join
from .._torch import gpu
from . import accelerator, distributed, shim, tensors


def publish():
    """Makes the modules and teaches PyTorch the device's name."""
    gpu.of_default()  # says so if PyTorch cannot be where weir is
    names = shim.public(weir.npu)
    operators = {name: thing for name, thing in names.items() if name.startswith("npu_")}
    version = torch.__version__.partition("+")[0]
    shim.publish("torch_npu", "torch_npu, by weir.", __version__=version, **operators)
    npu = shim.publish("torch.npu", weir.npu.__doc__, **names)
    shim.place("torch_npu.npu", npu)
    if not torch.cuda.is_available():
        _name_the_device(npu)
        accelerator.teach()
    tensors.teach()
    distributed.teach()
    join(weir.current_stream())


def _name_the_device(npu):
    """Makes torch.device("npu:0") a device: PyTorch lends its one free name."""
    if torch._C._get_privateuse1_backend_name() != "npu":
        torch.utils.rename_privateuse1_backend("npu")
    npu._is_in_bad_fork = lambda: False  # asked by torch.manual_seed
