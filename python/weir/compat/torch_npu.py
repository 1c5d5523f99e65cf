"""``torch_npu`` and ``torch.npu``: the NPU is weir's device. Its memory is the host's, or that of
the GPU if weir's device is one."""

import functools

import torch

import weir

from .._follow import gpu_of, join
from .._torch import gpu
from . import shim

_FACTORIES = (
    "arange empty eye full linspace ones rand randint randn randperm tensor zeros empty_like "
    "full_like ones_like rand_like randn_like zeros_like as_tensor"
).split()


def publish():
    """Makes the modules and teaches PyTorch the device's name."""
    gpu.of_default()  # says so if PyTorch cannot be where weir is
    names = shim.public(weir.npu)
    operators = {name: thing for name, thing in names.items() if name.startswith("npu_")}
    shim.publish("torch_npu", "torch_npu, by weir.", **operators)
    npu = shim.publish("torch.npu", weir.npu.__doc__, **names)
    shim.place("torch_npu.npu", npu)
    if not torch.cuda.is_available():
        _name_the_device(npu)
    torch.Tensor.npu = torch.nn.Module.npu = _move
    torch.Tensor.is_npu = property(_is_there, doc="Whether the tensor is on weir's device.")
    torch.Tensor.to = _without_npu(torch.Tensor.to)
    torch.nn.Module.to = _without_npu(torch.nn.Module.to)
    torch.set_default_device = _without_npu(torch.set_default_device)
    torch.load = _without_npu(torch.load)
    torch.autocast.__init__ = _cast_where_it_is(torch.autocast.__init__)
    for name in _FACTORIES:
        setattr(torch, name, _without_npu(getattr(torch, name)))
    join(weir.current_stream())


def _name_the_device(npu):
    """Makes torch.device("npu:0") a device: PyTorch lends its one free name. It then takes the NPU
    for an accelerator with streams and memory of its own, which it is not: its tensors are the
    CPU's."""
    if torch._C._get_privateuse1_backend_name() != "npu":
        torch.utils.rename_privateuse1_backend("npu")
    npu._is_in_bad_fork = lambda: False  # asked by torch.manual_seed
    torch.accelerator.is_available = lambda: False
    torch.accelerator.current_accelerator = lambda check_available=False: None


@torch._dynamo.assume_constant_result
def _home():
    """Where PyTorch has the tensors of weir's device."""
    number = gpu_of(weir.get_device())
    return "cpu" if number is None else f"cuda:{number}"


def _move(self, device=None, non_blocking=False, **options):
    """Moves to the NPU. Where its memory is the host's, it is there already."""
    weir.npu._check_name(device)
    home = _home()
    if home == "cpu":
        return self
    return self.to(home, non_blocking=non_blocking)


def _is_there(self):
    return str(self.device) == _home()


def _is_npu(device):
    if isinstance(device, torch.device):
        return device.type == "npu"
    return isinstance(device, str) and (device == "npu" or device.startswith("npu:"))


def _without_npu(function):
    """The function with 'npu' among its arguments taken for the memory it is in."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        for name in ("device", "map_location"):
            if _is_npu(kwargs.get(name)):
                weir.npu._check_name(kwargs[name])
                kwargs[name] = _home()
        if any(_is_npu(a) for a in args):
            args = tuple(_home() if _is_npu(a) else a for a in args)
        return function(*args, **kwargs)

    return call


def _cast_where_it_is(init):
    """torch.autocast("npu") casts what its tensors' own kind of device computes."""

    @functools.wraps(init)
    def call(self, device_type, *args, **kwargs):
        kind = _home().partition(":")[0] if _is_npu(device_type) else device_type
        init(self, kind, *args, **kwargs)

    return call
