"""Prepares operands of collectives (flat and contiguous), and copies results back."""

from __future__ import annotations

import functools

import torch
from torch import distributed as dist

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.AVG: "mean",
}
_KINDS = ("cpu", "cuda")
_MOVES = "backend weir moves dense tensors of the host and of CUDA GPUs"
# Types that weir cannot reduce, with a wider type that can hold the sums.
_WIDER = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}


# Reductions that are computed here, from the bytes of all ranks.
_BITS = {
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
# Reductions of bools, as a sum of u8 would overflow at 256.
_OF_BOOLS = {"sum": "max", "prod": "min", "max": "max", "min": "min"}


def _name_of(op):
    names = (name for name in dir(dist.ReduceOp) if name.isupper())
    return next((name for name in names if op == getattr(dist.ReduceOp, name)), str(op))


def reduction(opts, tensors):
    """weir's name for the reduction, or a function of two tensors."""
    op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
    found = next((to for known, to in [*_OPS.items(), *_BITS.items()] if op == known), None)
    if found is None:
        raise NotImplementedError(f"backend weir has no reduction {_name_of(op)}")
    for tensor in tensors:
        kind = tensor.dtype
        if tensor.is_complex() and found not in ("sum", "mean"):
            raise ValueError(f"{_name_of(op)} of {kind}: complex numbers can only be summed and averaged")
        if callable(found) and kind.is_floating_point:
            raise ValueError(f"{_name_of(op)} of {kind}: bits exist only for integers and bools")
        if kind == torch.bool and found == "mean":
            raise ValueError(f"{_name_of(op)} of {kind}: bools have no average")
    return found


def of_type(op, tensor):
    return _OF_BOOLS[op] if tensor.dtype == torch.bool else op


def device_of(tensors):
    """The device of all tensors; the host if there are none."""
    found = {tensor.device for tensor in tensors}
    if len(found) > 1:
        raise ValueError(f"backend weir: tensors of a call are on {sorted(map(str, found))}")
    where = found.pop() if found else torch.device("cpu")
    if where.type not in _KINDS:
        raise ValueError(f"{_MOVES}, not of {where}")
    return where


def _check(tensor):
    if tensor.device.type not in _KINDS or tensor.layout != torch.strided:
        raise ValueError(f"{_MOVES}, not of {tensor.device}, {tensor.layout}")


def numbers(tensor, finish):
    """Returns the tensor for a reduction, or a copy if weir cannot reduce it in place."""
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
    """Returns the bytes of a tensor to be moved. With `finish` the tensor will be written."""
    _check(tensor)
    flat = tensor.detach()
    packed = flat.contiguous()
    if packed.data_ptr() != flat.data_ptr() and finish is not None:
        finish.append(lambda: flat.copy_(packed))
    # A single element may have any stride.
    return packed.as_strided((packed.numel(),), (1,)).view(torch.uint8)


def check_size(got, want, what, tensor):
    if got != want:
        raise ValueError(f"{what} {tuple(tensor.shape)} has {got} bytes or elements, not {want}")


def check_parts(parts, ranks, what, name):
    if len(parts) != ranks:
        raise ValueError(f"{what}: {len(parts)} {name} of {ranks} ranks")


def apart(x, out):
    """Returns the input, or a copy if the output overlaps it: peers read it while that is
    written."""
    same = x.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()
    return x.clone() if same else x


def split_bytes(rows, tensor, ranks):
    """Converts rows of the first dim per rank to bytes per rank."""
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


TAG_BYTES = 8


def with_tag(packed, tag):
    end = torch.tensor([tag], dtype=torch.int64).view(torch.uint8)
    return torch.cat([packed, end.to(packed.device)])


def take_tagged(row, tensor, tag, source):
    came = row[-TAG_BYTES:].clone().view(torch.int64).item()
    if came != tag:
        raise ValueError(
            f"a message of tag {came} came from rank {source} where one of tag {tag} is received: "
            "messages of backend weir come in the order they are sent in"
        )
    cut(row[:-TAG_BYTES], [tensor])


def combine(row, output, op):
    """Combines rows of bytes, one per rank, in the order of the ranks."""
    size = output.numel() * output.element_size()
    parts = [row[at : at + size].clone().view(output.dtype) for at in range(0, row.numel(), size or 1)]
    if parts:
        output.detach().copy_(functools.reduce(op, parts).view(output.shape))


def place(whole, output, first):
    flat = torch.view_as_real(output.detach()) if output.is_complex() else output.detach()
    flat.copy_(whole[first : first + flat.numel()].view(flat.shape))
