"""Operands of collectives: flat and packed, with what brings results back."""

from __future__ import annotations

import torch
from torch import distributed as dist

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.AVG: "mean",
}
# What weir has no reduction of, and a type that holds all their sums as well.
_WIDER = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}


def reduction(opts):
    op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
    for known, name in _OPS.items():
        if op == known:
            return name
    raise NotImplementedError(f"backend weir has no reduction {op}")


def device_of(tensors):
    """The device that they all are on; of none, the host."""
    found = {tensor.device for tensor in tensors}
    if len(found) > 1:
        raise ValueError(f"backend weir: tensors of a call are on {sorted(map(str, found))}")
    return found.pop() if found else torch.device("cpu")


def _check(tensor):
    if tensor.device.type not in ("cpu", "cuda") or tensor.layout != torch.strided:
        raise ValueError(
            "backend weir moves dense tensors of the host and of CUDA GPUs, not of "
            f"{tensor.device}, {tensor.layout}"
        )


def numbers(tensor, finish):
    """The tensor for a reduction; a copy, if weir cannot reduce it where it is."""
    _check(tensor)
    flat = tensor.detach()
    if flat.is_complex():
        flat = torch.view_as_real(flat)
    kind = _WIDER.get(flat.dtype, torch.uint8 if flat.dtype == torch.bool else flat.dtype)
    packed = flat.contiguous().view(-1) if kind == flat.dtype else flat.reshape(-1).to(kind)
    if packed.data_ptr() != flat.data_ptr():
        finish.append(lambda: flat.copy_(packed.view(flat.shape)))
    return packed


def as_bytes(tensor, finish=None):
    """The bytes of a tensor, to be moved; with `finish`, it is written."""
    _check(tensor)
    flat = tensor.detach()
    packed = flat.contiguous()
    if packed.data_ptr() != flat.data_ptr() and finish is not None:
        finish.append(lambda: flat.copy_(packed))
    return packed.view(-1).view(torch.uint8)


def check_size(got, want, what, tensor):
    if got != want:
        raise ValueError(f"{what} {tuple(tensor.shape)} has {got} bytes or elements, not {want}")


def apart(x, out):
    """The input, copied if the output is of the same memory: peers read it while that is written."""
    same = x.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()
    return x.clone() if same else x


def split_bytes(rows, tensor, ranks):
    """Bytes for each rank, from rows of the first dim."""
    if not rows:
        if not tensor.dim() or tensor.shape[0] % ranks:
            raise ValueError(f"all_to_all: {tuple(tensor.shape)} has no {ranks} equal parts")
        rows = [tensor.shape[0] // ranks] * ranks
    width = tensor.element_size()
    for size in tensor.shape[1:]:
        width *= size
    return [n * width for n in rows]


def cut(row, tensors):
    at = 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        tensor.detach().copy_(row[at : at + size].clone().view(tensor.dtype).view(tensor.shape))
        at += size


def place(whole, output, first):
    flat = torch.view_as_real(output.detach()) if output.is_complex() else output.detach()
    flat.copy_(whole[first : first + flat.numel()].view(flat.shape))
