"""Lowerings that depend on sizes, for graphs of open sizes: padding, pools, indices, variances.

They are used where the lowerings of the other modules would be valid for the example's sizes only
(shaping.is_safe). Sizes are expressions; ``symbols`` maps an expression to a named size, or to a
value of the graph for arithmetic."""

import math

import torch
from torch.utils._sympy import functions

from ... import _C
from .. import values
from . import shaping, table, windows
from .indices import _target
from .table import _INTS, _constant, _cut, _is_tensor, _need, _wide

aten = torch.ops.aten
TABLE = {}


def opened(*overloads):
    def add(function):
        for overload in overloads:
            TABLE[overload] = function
        return function

    return add


def find(symbols, node):
    """The lowering for a node, with the signature of others; None if there is none."""
    made = TABLE.get(node.target)
    if made is None:
        return None
    return lambda *args, **kwargs: made(symbols, node, *args, **kwargs)


def _names(symbols, sizes):
    return tuple(symbols.name(s) for s in sizes)


def _spread(symbols, value, like, sizes):
    """A tensor filled with a number, of the type of ``like``. Named sizes belong to a graph's
    tensors, so the number is made from a tensor of the graph."""
    made = torch.full((1,) * len(sizes), value, dtype=values.torch_dtype(like))
    return symbols.hide(made).expand(_names(symbols, sizes))


# ---- padding and pools ----


def _pad(symbols, x, sizes, dim, before, after, value):
    """Pads x along a dim; returns it with its new sizes."""
    _need(type(before) is int and type(after) is int)
    parts = [x]
    for amount, at in ((before, 0), (after, len(parts) + 1)):
        if amount:
            piece = [*sizes[:dim], amount, *sizes[dim + 1 :]]
            parts.insert(at, _spread(symbols, value, x, piece))
    sizes = [*sizes[:dim], sizes[dim] + before + after, *sizes[dim + 1 :]]
    return (x if len(parts) == 1 else _C.concat(parts, dim)), sizes


@opened(aten.constant_pad_nd.default)
def _constant_pad(symbols, node, x, pad, value=0, out=None):
    _need(all(type(p) is int for p in pad))
    sizes = shaping.sizes(node, 0)
    for i in range(0, len(pad), 2):
        dim, (before, after) = x.ndim - 1 - i // 2, pad[i : i + 2]
        start, end = max(-before, 0), min(after, 0)
        if start or end:
            x = _cut(x, dim, start, symbols.name(sizes[dim] + end))
            sizes = [*sizes[:dim], sizes[dim] - start + end, *sizes[dim + 1 :]]
        x, sizes = _pad(symbols, x, sizes, dim, max(before, 0), max(after, 0), value)
    return x.clone() if not any(pad) else x


def _pool(symbols, node, x, n, size, stride, padding, dilation, ceil_mode, value, combine):
    """Combines the elements of each window. With rounding down, all windows are in the padded
    tensor."""
    _need(x.ndim in (n + 1, n + 2) and x.dtype.is_floating_point and not ceil_mode)
    size, padding, dilation = (windows.for_each(v, n) for v in (size, padding, dilation))
    stride = windows.for_each(stride, n) if stride or isinstance(stride, int) else size
    sizes, val = shaping.sizes(node, 0), node.meta["val"]
    counts = [shaping.expression(s) for s in (val[0] if isinstance(val, tuple) else val).shape]
    made = x
    for i in range(n):
        dim = x.ndim - n + i
        made, sizes = _pad(symbols, made, sizes, dim, padding[i], padding[i], value)
        wide, made = made, None
        for k in range(size[i]):
            start = k * dilation[i]
            stop = start + (counts[dim] - 1) * stride[i] + 1
            part = _cut(wide, dim, start, symbols.name(stop), stride[i])
            made = part if made is None else combine(made, part)
        sizes = [*sizes[:dim], counts[dim], *sizes[dim + 1 :]]
    return made.clone() if all(k == 1 for k in size) else made


def _max(n):
    def lower(symbols, node, x, size, stride=(), padding=0, dilation=1, ceil_mode=False, out=None):
        return [_pool(symbols, node, x, n, size, stride, padding, dilation, ceil_mode, -math.inf,
                      _C.maximum), None]  # fmt: skip

    return lower


def _mean(n):
    def lower(symbols, node, x, size, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
              divisor_override=None, out=None):  # fmt: skip
        _need(count_include_pad or divisor_override or not any(windows.for_each(padding, n)))
        total = _pool(symbols, node, _wide(x), n, size, stride, padding, 1, ceil_mode, 0, _C.add)
        return (total / (divisor_override or math.prod(windows.for_each(size, n)))).cast(x.dtype)

    return lower


opened(aten.max_pool2d_with_indices.default)(_max(2))
opened(aten.max_pool3d_with_indices.default)(_max(3))
opened(aten.avg_pool2d.default)(_mean(2))
opened(aten.avg_pool3d.default)(_mean(3))


# ---- convolutions and norms ----


@opened(aten.convolution.default)
def _convolution(symbols, node, x, weight, bias, stride, padding, dilation, transposed,
                 output_padding, groups, out=None):  # fmt: skip
    if x.ndim == 4:  # this case does not depend on sizes
        return table.TABLE[aten.convolution.default](
            x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out
        )
    _need(x.ndim == 3 and not transposed and not _open(node, 1))
    batch, channels, length = shaping.sizes(node, 0)
    flat = x.reshape(_names(symbols, (batch, channels, 1, length)))
    kernel = weight.reshape((*weight.shape[:2], 1, weight.shape[2]))
    made = _C.conv2d(flat, kernel, bias, (1, *stride), (0, *padding), (1, *dilation), groups)
    return made.reshape(symbols.names_of(node.meta["val"].shape))


def _open(node, at):
    return any(not isinstance(s, int) for s in shaping.sizes(node, at))


@opened(aten.native_group_norm.default)
def _group_norm(symbols, node, x, weight, bias, n, channels, inner, groups, eps, out=None):
    _need(type(channels) is int and type(groups) is int)
    sizes = shaping.sizes(node, 0)
    row = channels // groups * math.prod(sizes[2:])
    wide = _wide(x)
    made = wide.reshape(_names(symbols, (sizes[0], groups, row)))
    made = _C.layer_norm(made, None, None, eps).reshape(_names(symbols, sizes))
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    if weight is not None:
        made = _C.mul(made, weight.cast(wide.dtype).reshape(per_channel))
    if bias is not None:
        made = _C.add(made, bias.cast(wide.dtype).reshape(per_channel))
    return [made.cast(x.dtype), None, None]


# ---- filled tensors ----


@opened(aten.fill.Scalar)
def _fill(symbols, node, x, value, out=None):
    _need(isinstance(value, (int, float)) and (out.is_floating_point or float(value).is_integer()))
    return _spread(symbols, value, x, shaping.sizes(node, 0)).clone()


@opened(aten.copy.default)
def _copy(symbols, node, x, source, out=None, non_blocking=False):
    _need(not _is_tensor(source))
    return _fill(symbols, node, x, source, out)


@opened(aten.fill.Tensor)
def _fill_tensor(symbols, node, x, value, out=None):
    value = value.cast(out).reshape((1,) * x.ndim)
    return value.expand(_names(symbols, shaping.sizes(node, 0))).clone()


# ---- indices ----


def _wrapped(symbols, index, n):
    """Converts negative indices."""
    _need(index.dtype in _INTS)
    if not isinstance(n, int):
        n = symbols.value(n).cast(index.dtype)
    return _C.where(_C.lt(index, 0), _C.add(index, n), index)


@opened(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(symbols, node, x, indices, out=None):
    at = [d for d, i in enumerate(indices) if i is not None]
    _need(at and at == list(range(at[0], at[-1] + 1)) and all(_is_tensor(indices[d]) for d in at))
    sizes, first, last = shaping.sizes(node, 0), at[0], at[-1] + 1
    if len(at) == 1:
        index = _wrapped(symbols, indices[first], sizes[first])
    else:
        whole = [_wrapped(symbols, indices[d].cast(_C.int64), sizes[d]) for d in at]
        each = [s if isinstance(s, int) else symbols.value(s) for s in sizes[first + 1 : last]]
        index = _combined_open(whole, each)
        joined = math.prod(sizes[first:last])
        x = x.reshape(_names(symbols, [*sizes[:first], joined, *sizes[last:]]))
    if first == 0:
        return _C.embedding(x, index)
    made = _C.index_select(x, first, index.reshape((-1,)))
    shape = [shaping.expression(s) for s in node.meta["val"].shape]
    return made if index.ndim == 1 else made.reshape(_names(symbols, shape))


def _combined_open(indices, sizes):
    """As indices._combined, for indices that are not negative."""
    index, inside = indices[0], None
    for other, n in zip(indices[1:], sizes):
        fits = _C.minimum(_C.ge(other, 0), _C.lt(other, n))
        inside = fits if inside is None else _C.minimum(inside, fits)
        index = _C.add(_C.mul(index, n), other)
    return _C.where(inside, index, _constant(-1, _C.int64))


def _along(symbols, index, sizes, dim):
    shape = [1] * len(sizes)
    shape[dim] = -1
    return index.reshape(tuple(shape)).expand(_names(symbols, sizes))


@opened(aten.index_put.default)
def _index_put(symbols, node, x, indices, source, accumulate=False, out=None, own=False):
    at = [d for d, i in enumerate(indices) if i is not None]
    _need(len(at) == 1 and source.dtype is x.dtype)
    (dim,), index = at, indices[at[0]]
    _need(index.ndim == 1)
    sizes = shaping.sizes(node, 0)
    places = [*sizes[:dim], shaping.sizes_of(node.args[1][dim])[0], *sizes[dim + 1 :]]
    source = source.expand(_names(symbols, places))
    where = _along(symbols, _wrapped(symbols, index, sizes[dim]), places, dim)
    made = _target(x, own)
    return made.scatter_add_(dim, where, source) if accumulate else made.scatter_(dim, where, source)


@opened(aten.index_copy.default)
def _index_copy(symbols, node, x, dim, index, source, out=None, own=False):
    _need(index.ndim == 1 and x.ndim == source.ndim > 0 and source.dtype is x.dtype)
    dim %= x.ndim
    where = _along(symbols, index, shaping.sizes(node, 3), dim)
    return _target(x, own).scatter_(dim, where, source)


@opened(aten.scatter.value)
def _scatter_value(symbols, node, x, dim, index, value, out=None, own=False):
    _need(x.ndim > 0 and isinstance(value, (int, float)))
    _need(x.dtype.is_floating_point or float(value).is_integer())
    source = _spread(symbols, value, x, shaping.sizes(node, 2))
    return _target(x, own).scatter_(dim, index, source)


def _replaced(symbols, x, sizes, dim, start, source, length, own):
    """Returns x with elements start .. start + length - 1 of dim replaced by the source."""
    end = start + length
    if own:
        _cut(x, dim, symbols.name(start), symbols.name(end)).copy_(source)
        return x
    parts = [source]
    if start != 0:
        parts.insert(0, _cut(x, dim, 0, symbols.name(start)))
    if end != sizes[dim]:
        parts.append(_cut(x, dim, symbols.name(end), symbols.name(sizes[dim])))
    return _C.concat(parts, dim) if len(parts) > 1 else source.clone()


@opened(aten.slice_scatter.default)
def _slice_scatter(symbols, node, x, source, dim=0, start=None, end=None, step=1, out=None,
                   own=False):  # fmt: skip
    dim %= x.ndim
    start = 0 if start is None else start
    _need(step == 1 and source.dtype is x.dtype and type(start) is int)
    sizes, length = shaping.sizes(node, 0), shaping.sizes(node, 1)[dim]
    if start and not isinstance(sizes[dim], int):
        # For some sizes the start may be before the first element or after the last one: clamp it.
        n = sizes[dim]
        start = functions.Max(n + start, 0) if start < 0 else functions.Min(start, n)
    elif start < 0:
        start = max(sizes[dim] + start, 0)
    return _replaced(symbols, x, sizes, dim, start, source, length, own)


@opened(aten.select_scatter.default)
def _select_scatter(symbols, node, x, source, dim, index, out=None, own=False):
    _need(type(index) is int and source.dtype is x.dtype)
    dim %= x.ndim
    sizes = shaping.sizes(node, 0)
    row = source.reshape(_names(symbols, [*sizes[:dim], 1, *sizes[dim + 1 :]]))
    start = index if index >= 0 else sizes[dim] + index
    return _replaced(symbols, x, sizes, dim, start, row, 1, own)


# ---- variances ----


@opened(aten.std.correction)
def _std(symbols, node, x, dim=None, out=None, correction=1, keepdim=False):
    return _C.sqrt(_var(symbols, node, _wide(x), dim, _wide(x).dtype, correction, keepdim)).cast(out)


@opened(aten.var.correction)
def _var(symbols, node, x, dim=None, out=None, correction=1, keepdim=False):
    _need(x.dtype.is_floating_point and x.ndim > 0 and isinstance(correction, (int, float, type(None))))
    dims = tuple(dim or range(x.ndim))
    n = math.prod(shaping.sizes(node, 0)[d] for d in dims)
    correction = 1 if correction is None else correction
    wide = _wide(x)
    away = _C.sub(wide, _C.mean(wide, dims, True))
    made = _C.mean(_C.mul(away, away), dims, keepdim)
    if isinstance(n, int):
        _need(n > correction)
        return (made * (n / (n - correction))).cast(out)
    n = symbols.value(n).cast(made.dtype)
    return _C.mul(made, _C.div(n, _C.maximum(n - correction, 0))).cast(out)
