"""The process group backend ``hccl``: weir's if the NPU's memory is the host's, nccl on GPUs."""

import functools

import torch
from torch import distributed as dist

from .tensors import home


def teach():
    """Registers the backend with PyTorch."""
    if not dist.is_available() or hasattr(dist.Backend, "HCCL"):
        return
    kind = home().partition(":")[0]
    dist.Backend.register_backend("hccl", _make[kind], extended_api=True, devices=kind)
    if kind == "cpu":
        # Makes "cpu:gloo,npu:hccl" and NPU devices work.
        dist.Backend.default_device_backend_map["npu"] = "hccl"
        dist.barrier = _without(dist.barrier, "device_ids")
        parallel = torch.nn.parallel.DistributedDataParallel
        parallel.__init__ = _without(parallel.__init__, "device_ids", "output_device")


def _without(function, *numbers):
    """Wraps the function: drops the device numbers, which PyTorch takes for its own devices."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **{k: v for k, v in kwargs.items() if k not in numbers})

    return call


def _weir(options, backend_options):
    from ..distributed import ProcessGroupWeir

    return ProcessGroupWeir(
        options.store, options.group_rank, options.group_size, options.timeout, "hccl"
    )


def _nccl(options, backend_options):
    chosen = dist.ProcessGroupNCCL.Options()
    chosen._timeout = options.timeout
    return dist.ProcessGroupNCCL(
        options.store, options.group_rank, options.group_size, chosen
    )


_make = {"cpu": _weir, "cuda": _nccl}
