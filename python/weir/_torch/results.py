"""Memory for results on the host."""

import torch

from .. import _C

# What torch.compile's own code makes its results with, where there is such a thing: half the
# time of torch.empty_strided.
empty = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None) or (
    lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype)
)

# As DLPack names them: 0 is a signed integer, 1 an unsigned one, 2 a float, 4 a bfloat, 6 a bool.
_TYPES = [
    (torch.float32, 2, 32), (torch.bfloat16, 4, 16), (torch.float16, 2, 16), (torch.float64, 2, 64),
    (torch.int64, 0, 64), (torch.int32, 0, 32), (torch.int8, 0, 8), (torch.uint8, 1, 8),
    (torch.bool, 6, 8),
]  # fmt: skip


def _keeping():
    """As ``empty``, but memory of large results keeps its pages when they die, for those of the next
    call: what a system takes to give a process new pages can be half of what a call takes. Such a
    result is a tensor like any other, but for resize_() to more than it has."""
    take = getattr(torch._C, "_from_dlpack", None)
    if take is None:
        return empty
    _C.set_result_makers(empty, take, _TYPES)
    return _C.make_result


kept = _keeping()
