"""``torch_npu`` and ``torch.npu``: the NPU is weir's device, and its memory is the host's."""

import functools
import sys

import torch

import weir

from . import shim

_FACTORIES = (
    "arange empty eye full linspace ones rand randint randn randperm tensor zeros empty_like "
    "full_like ones_like rand_like randn_like zeros_like as_tensor"
).split()


def publish():
    """Makes the modules and teaches PyTorch the device's name."""
    npu = weir.npu
    shim.publish("torch_npu", "torch_npu, by weir.", npu=npu, npu_swiglu=npu.npu_swiglu)
    sys.modules["torch_npu.npu"] = sys.modules["torch.npu"] = npu
    torch.npu = npu
    torch.Tensor.npu = _stay
    torch.Tensor.is_npu = property(lambda self: True, doc="Every tensor is on weir's device.")
    torch.nn.Module.npu = _stay
    torch.Tensor.to = _without_npu(torch.Tensor.to)
    torch.nn.Module.to = _without_npu(torch.nn.Module.to)
    for name in _FACTORIES:
        setattr(torch, name, _without_npu(getattr(torch, name)))


def _stay(self, device=None, non_blocking=False, **options):
    """Moves to the NPU: device memory is host memory, so it is there already."""
    weir.npu._check_device(device)
    return self


def _is_npu(device):
    return isinstance(device, str) and (device == "npu" or device.startswith("npu:"))


def _without_npu(function):
    """The function with 'npu' among its arguments taken for the memory it is in."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if _is_npu(kwargs.get("device")):
            weir.npu._check_device(kwargs["device"])
            kwargs["device"] = "cpu"
        if any(_is_npu(a) for a in args):
            args = tuple("cpu" if _is_npu(a) else a for a in args)
        return function(*args, **kwargs)

    return call
