"""Padding and pools. A pool combines, for each offset in the window, the elements of all
windows."""

import math

import torch

from ... import _C
from ..._create import tensor
from .table import _cut, _need, _wide, full, lowers

aten = torch.ops.aten


def _pad(x, dim, before, after, value):
    parts = [x]
    for amount, at in ((before, 0), (after, len(parts) + 1)):
        if amount:
            shape = [*x.shape]
            shape[dim] = amount
            parts.insert(at, full(tuple(shape), value, x.dtype))
    return x if len(parts) == 1 else _C.concat(parts, dim)


@lowers(aten.constant_pad_nd.default)
def _constant_pad(x, pad, value=0, out=None):
    for i in range(0, len(pad), 2):
        dim, (before, after) = x.ndim - 1 - i // 2, pad[i : i + 2]
        if before < 0 or after < 0:
            x = _cut(x, dim, max(-before, 0), x.shape[dim] + min(after, 0))
        x = _pad(x, dim, max(before, 0), max(after, 0), value)
    return x.clone() if not any(pad) else x


class _Windows:
    """The windows of a pool along one dim of n elements."""

    def __init__(self, n, size, stride, padding, dilation, ceil_mode):
        self.n, self.size, self.stride, self.padding, self.dilation = n, size, stride, padding, dilation
        self.reach = dilation * (size - 1) + 1
        room = n + 2 * padding - self.reach
        self.count = -(-room // stride) + 1 if ceil_mode else room // stride + 1
        # The last window must begin in the tensor or in the padding before it.
        if ceil_mode and (self.count - 1) * stride >= n + padding:
            self.count -= 1
        _need(self.count > 0)

    def along(self, x, dim, value, combine):
        """Pads with the value and combines the elements of each window."""
        end = (self.count - 1) * self.stride + self.reach - self.padding
        x = _pad(x, dim, self.padding, max(end - self.n, 0), value)
        made, last = None, (self.count - 1) * self.stride + 1
        for i in range(self.size):
            start = i * self.dilation
            part = _cut(x, dim, start, start + last, self.stride)
            made = part if made is None else combine(made, part)
        return made

    def sizes(self, padded):
        """The number of elements in each window, with or without padding. Elements that rounding up
        adds after the padding never count."""
        most, least = (self.n + self.padding, -self.padding) if padded else (self.n, 0)
        starts = [i * self.stride - self.padding for i in range(self.count)]
        return [min(at + self.size, most) - max(at, least) for at in starts]


def for_each(x, n):
    """Expands one number to n dims; a list of n numbers stays."""
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    return x * n if len(x) == 1 else x


def _windows(x, n, size, stride, padding, dilation, ceil_mode):
    _need(x.ndim in (n + 1, n + 2) and x.dtype.is_floating_point and 0 not in x.shape)
    size = for_each(size, n)
    stride = for_each(stride, n) if stride or isinstance(stride, int) else size
    given = zip(x.shape[-n:], size, stride, for_each(padding, n), for_each(dilation, n), strict=True)
    return [_Windows(*each, ceil_mode) for each in given]


def _pool(x, windows, value, combine):
    made = x
    for i, each in enumerate(windows):
        made = each.along(made, x.ndim - len(windows) + i, value, combine)
    return made.clone() if all(each.size == 1 for each in windows) else made


def _max(n):
    def lower(x, size, stride=(), padding=0, dilation=1, ceil_mode=False, out=None):
        windows = _windows(x, n, size, stride, padding, dilation, ceil_mode)
        return [_pool(x, windows, -math.inf, _C.maximum), None]

    return lower


def _mean(n):
    def lower(x, size, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
              divisor_override=None, out=None):  # fmt: skip
        windows = _windows(x, n, size, stride, padding, 1, ceil_mode)
        total = _pool(_wide(x), windows, 0, _C.add)
        if divisor_override is not None:
            return (total / divisor_override).cast(x.dtype)
        for each in windows:
            each.counts = each.sizes(count_include_pad)
        if all(len(set(each.counts)) == 1 for each in windows):
            return (total / math.prod(each.counts[0] for each in windows)).cast(x.dtype)
        counts = [1]
        for each in windows:
            counts = [a * b for a in counts for b in each.counts]
        _need(len(counts) <= 1 << 20)
        counts = tensor(counts).reshape(tuple(each.count for each in windows))
        return _C.div(total, counts.cast(total.dtype)).cast(x.dtype)

    return lower


lowers(aten.max_pool2d_with_indices.default)(_max(2))
lowers(aten.max_pool3d_with_indices.default)(_max(3))
lowers(aten.avg_pool2d.default)(_mean(2))
lowers(aten.avg_pool3d.default)(_mean(3))


@lowers(aten._adaptive_avg_pool2d.default)
def _adaptive_avg_pool(x, size, out):
    """Pools with windows of one size; declines sizes that do not divide."""
    _need(x.dtype.is_floating_point)
    if list(size) == [1, 1]:
        return _C.mean(x, (x.ndim - 2, x.ndim - 1), True)
    rows, columns = x.shape[-2:]
    _need(all(size) and 0 not in x.shape and rows % size[0] == 0 and columns % size[1] == 0)
    # The first size may be open, so it is -1.
    cut = x.reshape((-1, *x.shape[1:-2], size[0], rows // size[0], size[1], columns // size[1]))
    return _C.mean(cut, (cut.ndim - 3, cut.ndim - 1), False)
