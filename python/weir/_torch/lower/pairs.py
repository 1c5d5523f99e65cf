"""Complex numbers as pairs of weir's values; some models compute rotary embeddings with them."""

import torch
from torch.utils import _pytree as pytree

from ... import _C
from ..._log import logger
from ...errors import Error
from .. import values
from . import shaping, table

aten = torch.ops.aten


class Pair:
    """A complex64 value."""

    def __init__(self, real, imag):
        self.real, self.imag = real, imag

    @property
    def shape(self):
        return self.real.shape


def among(args):
    """Whether the arguments, or lists in them, contain a Pair."""
    return any(isinstance(x, Pair) for x in pytree.tree_leaves(args))


def _parts(args, which):
    return [(x.imag if which else x.real) if isinstance(x, Pair) else x for x in args]


def on_each(symbols, node, args, kwargs):
    """Applies one of EACH to both parts; None if weir lacks the operator."""
    op, both = node.target, [_parts(args, i) for i in range(2)]
    if symbols and op in shaping.TABLE:
        return Pair(*(shaping.TABLE[op](symbols, node, *each, **kwargs) for each in both))
    if symbols and not shaping.is_safe(node):
        return None
    try:
        return Pair(*(table.find(op)(*each, out=_C.float32, **kwargs) for each in both))
    except (table.Decline, TypeError, ValueError, Error) as reason:
        logger.debug("%s runs as PyTorch's kernel: %s", op, reason or "not exactly weir's")
        return None


def _complex(real, imag):
    shape = tuple(torch.broadcast_shapes(tuple(real.shape), tuple(imag.shape)))
    return Pair(*(x.expand(shape).clone() for x in (real, imag)))


def _polar(length, angle):
    return Pair(_C.mul(length, _C.cos(angle)), _C.mul(length, _C.sin(angle)))


def _of_real(x):
    last = x.ndim - 1
    halves = [_C.slice_dim(x, last, i, i + 1) for i in range(2)]
    shape = (*x.shape[:-1],)
    return Pair(*(h.reshape(shape) for h in halves))


# Operators from real to complex values.
MAKE = {
    aten.polar.default: _polar,
    aten.complex.default: _complex,
    aten.view_as_complex.default: _of_real,
}


def _to_real(x):
    shape = (*x.shape, 1)
    return _C.concat([x.real.reshape(shape), x.imag.reshape(shape)], len(shape) - 1)


def _mul(a, b):
    if not isinstance(a, Pair):
        a, b = b, a
    if not isinstance(b, Pair):
        if isinstance(b, (complex, values.Opaque)):
            return NotImplemented
        b = b.cast(_C.float32) if isinstance(b, _C.Tensor) else float(b)
        return Pair(_C.mul(a.real, b), _C.mul(a.imag, b))
    real = _C.sub(_C.mul(a.real, b.real), _C.mul(a.imag, b.imag))
    imag = _C.add(_C.mul(a.real, b.imag), _C.mul(a.imag, b.real))
    return Pair(real, imag)


TABLE = {aten.view_as_real.default: _to_real, aten.mul.Tensor: _mul}

# Operators that apply to both parts separately.
EACH = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.expand.default,
    aten.permute.default,
    aten.transpose.int,
    aten.slice.Tensor,
    aten.select.int,
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.index_select.default,
}
