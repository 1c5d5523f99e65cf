"""Bitwise operators on integers and bool, and logical operators on any numbers."""

import torch

from ... import _C
from ..._create import tensor
from .table import TABLE, _is_tensor, _need, lowers

aten = torch.ops.aten

_WIDTH = {_C.int64: 64, _C.int32: 32, _C.int8: 8, _C.uint8: 8}


def _number(x, out):
    """A Python number reduced to the bits of the type, as in PyTorch."""
    _need(isinstance(x, int))  # bool is a subclass of int
    if out is _C.bool_:
        _need(x in (0, 1))
        return int(x)
    x %= 1 << _WIDTH[out]
    if out is not _C.uint8 and x >> (_WIDTH[out] - 1):
        x -= 1 << _WIDTH[out]
    # Numbers are passed as doubles with 53 bits; larger ones are passed as tensors.
    return x if abs(x) < 1 << 53 else tensor([x], dtype=out).reshape(())


def _bits(function, types):
    def lower(a, b, out=None):
        _need(out in types)
        a, b = (x.cast(out) if _is_tensor(x) else _number(x, out) for x in (a, b))
        return function(a, b)

    return lower


def _add(packet, lower):
    for overload in packet.overloads():
        if overload.split("_")[0] in ("Tensor", "Scalar") and not overload.endswith("out"):
            TABLE[getattr(packet, overload)] = lower


for _name in ("and", "or", "xor"):
    _lower = _bits(getattr(_C, f"bitwise_{_name}"), (*_WIDTH, _C.bool_))
    _add(getattr(aten, f"bitwise_{_name}"), _lower)
    _add(getattr(aten, f"__{_name}__"), _lower)
for _name in ("left", "right"):
    _lower = _bits(getattr(_C, f"bitwise_{_name}_shift"), _WIDTH)
    _add(getattr(aten, f"bitwise_{_name}_shift"), _lower)
    _add(getattr(aten, f"__{_name[0]}shift__"), _lower)


@lowers(aten.bitwise_not.default)
def _not(x, out):
    _need(x.dtype is out and (out in _WIDTH or out is _C.bool_))
    return _C.bitwise_not(x)


# ---- logic: a number is true if it is not zero; NaN is true ----


def _truth(x):
    return x if x.dtype is _C.bool_ else _C.ne(x, 0)


def _truths(function):
    def lower(a, b, out=None):
        _need(_is_tensor(a) and _is_tensor(b))
        return function(_truth(a), _truth(b))

    return lower


for _name in ("and", "or", "xor"):
    TABLE[getattr(aten, f"logical_{_name}").default] = _truths(getattr(_C, f"bitwise_{_name}"))


@lowers(aten.logical_not.default)
def _logical_not(x, out):
    return _C.bitwise_not(x) if x.dtype is _C.bool_ else _C.eq(x, 0)
