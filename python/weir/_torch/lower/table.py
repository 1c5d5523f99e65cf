"""The table of lowerings, and their common helpers.

``TABLE`` contains a function for each of PyTorch's operators that weir supports; ``operators``,
``products``, ``composed``, ``indices``, ``backward`` and ``collectives`` fill it. A function takes
weir tensors (graph values), numbers and lists, and ``out``: the traced type of the result. It
raises Decline if weir's operator would not compute exactly the same; then PyTorch's kernel runs.
"""

import torch

from ... import _C
from ..._create import tensor
from ..values import DTYPES

aten = torch.ops.aten
_INTS = (_C.int64, _C.int32)
TABLE = {}
BY_NAME = {}  # operators of other packages, which may be imported later


class Decline(Exception):
    """weir has no equivalent operator for this call."""


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
    """Declines a fractional Python number for an integer type, which weir would refuse."""
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


# weir computes only the first output of these: they are lowered if the other outputs are unused.
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
    """Declines a result that does not have the traced type, on which its users rely."""
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
