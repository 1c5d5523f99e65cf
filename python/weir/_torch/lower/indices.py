"""Reading and writing by index, and replacing parts of tensors."""

import math
import threading

import torch

from ... import _C
from .table import _INTS, _constant, _cut, _is_tensor, _need, full, lowers

aten = torch.ops.aten


class _Wrapped(threading.local):
    def __init__(self):
        self.known = {}  # (id of an index, size of its dim): the index, and values derived from it


_wraps = _Wrapped()


def forget(written=None):
    """Clears the cache after a graph is built. If ``written`` is given, its elements have changed:
    drops the indices of its type, as it may be one of them."""
    kept = _wraps.known.items() if written is not None else ()
    _wraps.known = {k: v for k, v in kept if v[0].dtype is not written.dtype}


def _wrapped(index, n):
    """Converts negative indices. Cached, as keys and values are often written by the same index."""
    _need(index.dtype in _INTS)
    if _C.scope_depth():
        return _C.where(_C.lt(index, 0), _C.add(index, n), index)
    key = id(index), n
    if key not in _wraps.known:
        _wraps.known[key] = index, _C.where(_C.lt(index, 0), _C.add(index, n), index)
    return _wraps.known[key][1]


def places_of(node):
    """[(index, size)] for a node that writes: the nodes of its indices, and the sizes of their
    dims."""
    if node.target is aten.index_copy.default:
        x, dim, index = node.args[:3]
        return [(index, x.meta["val"].shape[dim])] if x.meta["val"].ndim else []
    if node.target is not aten.index_put.default:
        return []
    x, given = node.args[:2]
    return [(index, x.meta["val"].shape[d]) for d, index in enumerate(given) if index is not None]


def wrap_early(index, n):
    """Converts an index for a later write early, next to the operators that compute it."""
    if index.dtype in _INTS and index.ndim == 1 and not _C.scope_depth():
        _wrapped(index, n)


def _combined(index, others):
    """Combines indices for several dims into one; ``others`` has (index, size) of each dim but the
    first. An index that is out of range in one dim is mapped out of range of the result, so that it
    selects no other element."""
    index, inside = index.cast(_C.int64), None
    for other, n in others:
        other = _wrapped(other, n).cast(_C.int64)
        fits = _C.minimum(_C.ge(other, 0), _C.lt(other, n))
        inside = fits if inside is None else _C.minimum(inside, fits)
        index = _C.add(_C.mul(index, n), other)
    return _C.where(inside, index, _constant(-1, _C.int64))


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(x, indices, out):
    at = [d for d, i in enumerate(indices) if i is not None]
    _need(at and at == list(range(at[0], at[-1] + 1)) and all(_is_tensor(indices[d]) for d in at))
    first, last = at[0], at[-1] + 1
    index = _wrapped(indices[first], x.shape[first])
    if len(at) > 1:
        index = _combined(index, [(indices[d], x.shape[d]) for d in at[1:]])
        x = x.reshape((*x.shape[:first], math.prod(x.shape[first:last]), *x.shape[last:]))
    if first == 0:
        return _C.embedding(x, index)
    made = _C.index_select(x, first, index.reshape((-1,)))
    if index.ndim == 1:
        return made
    return made.reshape((*x.shape[:first], *index.shape, *x.shape[first + 1 :]))


def _along(index, source, dim):
    """Expands a 1-d index along dim to the shape of the source."""
    shape = [1] * source.ndim
    shape[dim] = -1
    return index.reshape(tuple(shape)).expand(tuple(source.shape))


# With `own`, elements of x are replaced in place (updates.py).


def _target(x, own):
    return x if own else x.clone()


@lowers(aten.index_put.default)
def _index_put(x, indices, source, accumulate=False, out=None, own=False):
    at = [d for d, i in enumerate(indices) if i is not None]
    _need(len(at) == 1 and source.dtype is x.dtype)
    (dim,), index = at, indices[at[0]]
    _need(index.ndim == 1)
    shape = list(x.shape)
    shape[dim] = index.shape[0]
    source = source.expand(tuple(shape))
    where = _along(_wrapped(index, x.shape[dim]), source, dim)
    made = _target(x, own)
    return made.scatter_add_(dim, where, source) if accumulate else made.scatter_(dim, where, source)


@lowers(aten.index_copy.default)
def _index_copy(x, dim, index, source, out, own=False):
    _need(index.ndim == 1 and x.ndim == source.ndim > 0 and source.dtype is x.dtype)
    dim %= x.ndim
    return _target(x, own).scatter_(dim, _along(index, source, dim), source)


@lowers(aten.scatter.src)
def _scatter(x, dim, index, source, out, own=False):
    _need(x.ndim > 0 and index.shape == source.shape and source.dtype is x.dtype)
    return _target(x, own).scatter_(dim, index, source)


@lowers(aten.scatter.value)
def _scatter_value(x, dim, index, value, out, own=False):
    _need(x.ndim > 0 and (x.dtype.is_floating_point or float(value).is_integer()))
    source = full((1,) * index.ndim, value, x.dtype).expand(tuple(index.shape))
    return _target(x, own).scatter_(dim, index, source)


@lowers(aten.slice_scatter.default)
def _slice_scatter(x, source, dim=0, start=None, end=None, step=1, out=None, own=False):
    dim, n = dim % x.ndim, x.shape[dim]
    start, end, step = slice(start, end, step).indices(n)
    _need(step == 1 and source.dtype is x.dtype)
    if own:
        if start < end:
            _cut(x, dim, start, end).copy_(source)
        return x
    parts = [_cut(x, dim, 0, start), source, _cut(x, dim, max(start, end), n)]
    return _C.concat([p for p in parts if p.shape[dim]] or parts[:1], dim)


@lowers(aten.select_scatter.default)
def _select_scatter(x, source, dim, index, out, own=False):
    dim %= x.ndim
    index %= x.shape[dim]
    shape = [*source.shape[:dim], 1, *source.shape[dim:]]
    return _slice_scatter(x, source.reshape(tuple(shape)), dim, index, index + 1, own=own)
