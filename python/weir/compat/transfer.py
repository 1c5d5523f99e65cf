"""``torch_npu.contrib.transfer_to_npu``: a script written for CUDA uses the NPU instead of the GPU.
Importing the module installs it."""

import functools

import torch

import weir

from . import graphs, shim, tensors


def teach():
    """Makes torch.cuda, "cuda" and nccl mean the NPU. Nothing to do if the NPU is a GPU."""
    if torch.cuda.is_available() and tensors.home() != "cpu":
        return
    tensors.names.add("cuda")
    for name, thing in {**shim.public(weir.npu), **shim.public(graphs)}.items():
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, thing)
    torch.cuda.CUDAGraph = graphs.NPUGraph
    torch.Tensor.cuda, torch.nn.Module.cuda = torch.Tensor.npu, torch.nn.Module.npu
    torch.Tensor.is_cuda = torch.Tensor.is_npu
    dist = torch.distributed
    if dist.is_available():
        dist.init_process_group = _over_hccl(dist.init_process_group)
        dist.new_group = _over_hccl(dist.new_group)
        dist.is_nccl_available = lambda: True


def _over_hccl(function):
    """Wraps the function: replaces nccl by hccl."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if isinstance(kwargs.get("backend"), str):
            kwargs["backend"] = _renamed(kwargs["backend"])
        args = tuple(_renamed(a) if isinstance(a, str) else a for a in args)
        return function(*args, **kwargs)

    return call


def _renamed(backend):
    return backend.replace("cuda:nccl", "npu:hccl").replace("nccl", "hccl")
