"""weir's representation of a traced graph's values: types and memory layouts."""

import torch

from .. import _C

DTYPES = {
    torch.float32: _C.float32,
    torch.float16: _C.float16,
    torch.bfloat16: _C.bfloat16,
    torch.float64: _C.float64,
    torch.int64: _C.int64,
    torch.int32: _C.int32,
    torch.int8: _C.int8,
    torch.uint8: _C.uint8,
    torch.bool: _C.bool_,
}
TORCH_DTYPES = {v.name: k for k, v in DTYPES.items()}
MAX_DIMS = 8


class Opaque:
    """A value of a type or rank that weir lacks (complex, int16, nine dims): bytes that only
    PyTorch's kernels interpret. ``tensor`` is flat uint8."""

    def __init__(self, tensor, dtype, shape):
        self.tensor, self.dtype, self.shape = tensor, dtype, tuple(shape)


def is_native(dtype, shape):
    """Whether weir has tensors of that type and rank."""
    return dtype in DTYPES and len(shape) <= MAX_DIMS


def storage(dtype, shape):
    """(dtype, shape) of the weir tensor that stores such a value."""
    if is_native(dtype, shape):
        return DTYPES[dtype], tuple(shape)
    return _C.uint8, (numel(shape) * dtype.itemsize,)


def wrap(tensor, dtype, shape):
    """The value that a weir tensor with that storage represents."""
    return tensor if is_native(dtype, shape) else Opaque(tensor, dtype, shape)


def torch_dtype(value):
    return value.dtype if isinstance(value, Opaque) else TORCH_DTYPES[value.dtype.name]


def numel(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def contiguous_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dense_order(shape, strides):
    """The order of dims in which the memory is contiguous, (0, 1, ...) for row-major; None if there
    are gaps or elements share memory."""
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], d))
    # Dims of size 1 may have any stride: they keep their position.
    if any(s == 0 for s in shape):
        return tuple(range(len(shape)))
    rest = [d for d in order if shape[d] != 1]
    step = 1
    for d in reversed(rest):
        if strides[d] != step:
            return None
        step *= shape[d]
    if rest == sorted(rest):
        return tuple(range(len(shape)))
    return tuple(order)


def inverse(order):
    back = [0] * len(order)
    for place, dim in enumerate(order):
        back[dim] = place
    return tuple(back)
