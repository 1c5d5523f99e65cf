"""Allocates results of compiled functions on the host."""

import torch

from .. import _C

# The function with which torch.compile's own code allocates results, if this PyTorch has it: it
# takes half the time of torch.empty_strided.
empty = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None) or (
    lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype)
)

# DLPack's type codes: 0 is a signed integer, 1 an unsigned one, 2 a float, 4 a bfloat, 6 a bool.
_TYPES = [
    (torch.float32, 2, 32), (torch.bfloat16, 4, 16), (torch.float16, 2, 16), (torch.float64, 2, 64),
    (torch.int64, 0, 64), (torch.int32, 0, 32), (torch.int8, 0, 8), (torch.uint8, 1, 8),
    (torch.bool, 6, 8),
]  # fmt: skip


def _keeping():
    """As ``empty``, but the memory of a large result keeps its pages when the result is freed, for
    results of later calls: fresh pages can cost half the time of a call. Such a result behaves like
    any other tensor, except that resize_() to more bytes than it has is an error."""
    take = getattr(torch._C, "_from_dlpack", None)
    if take is None:
        return empty
    _C.set_result_makers(empty, take, _TYPES)
    return _C.make_result


kept = _keeping()
