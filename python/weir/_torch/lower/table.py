"""The table of lowerings, and what every lowering uses.

``TABLE`` has a function for each of PyTorch's operators that weir has; ``operators``, ``products``,
``composed``, ``indices``, ``backward`` and ``collectives`` fill it. Each function gets weir tensors
(graph values), numbers and lists, and ``out``: the type of the result as PyTorch traced it. It
raises Decline where weir's operator would not do exactly that; then PyTorch's kernel runs.
"""

import torch

from ... import _C
from ..._create import tensor
from ..values import DTYPES

aten = torch.ops.aten
_INTS = (_C.int64, _C.int32)
TABLE = {}
BY_NAME = {}  # of operators that other packages define, maybe after this one is imported


class Decline(Exception):
    """weir has no operator for this call."""


def lowers(*overloads):
    def add(function):
        for overload in overloads:
            TABLE[overload] = function
        return function

    return add


def find(overload):
    """The function for an overload; None if there is none."""
    made = TABLE.get(overload)
    if made is None and isinstance(overload, torch._ops.OpOverload):
        made = BY_NAME.get(overload.name())
    return made


def _is_tensor(x):
    return isinstance(x, _C.Tensor)


def _need(condition):
    if not condition:
        raise Decline


def _cast(x, dtype):
    return x.cast(dtype) if _is_tensor(x) else x


def _wide_enough(x, dtype):
    """A Python number must be a value of the type, or weir refuses what PyTorch would wrap."""
    _need(_is_tensor(x) or dtype.is_floating_point or float(x).is_integer())
    return x


def full(shape, value, dtype):
    return _C.empty(shape, dtype, None).fill_(value)


def _constant(value, dtype):
    return full((), value, dtype)


def _wide(x):
    return x.cast(_C.float32) if x.dtype in (_C.float16, _C.bfloat16) else x


def _cut(x, dim, start, stop=None, step=1):
    return _C.slice_dim(x, dim, start, stop, step)


def _count(n):
    return tensor(list(range(n)))


# weir gives only the first of these outputs: they are weir's where nobody asks for the others.
ONLY_FIRST = {
    aten.native_layer_norm.default,
    aten._fused_rms_norm.default,
    aten._native_batch_norm_legit_no_training.default,
    aten.native_group_norm.default,
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
}


def check(made, val):
    """Declines what is not of the type that PyTorch traced: those who use it count on that."""
    if not isinstance(made, (tuple, list)):
        made, val = [made], [val]
    for x, traced in zip(made, val):
        if _is_tensor(x) and isinstance(traced, torch.Tensor):
            _need(x.dtype is DTYPES.get(traced.dtype) and x.ndim == traced.ndim)


def out_dtype(val):
    """weir's type for a traced result, None where that is no tensor. Declines a type that weir has not."""
    if isinstance(val, (tuple, list)):
        val = val[0] if val else None
    _need(not isinstance(val, torch.Tensor) or val.dtype in DTYPES)
    return DTYPES[val.dtype] if isinstance(val, torch.Tensor) else None
