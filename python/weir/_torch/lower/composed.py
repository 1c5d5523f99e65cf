"""Operators of PyTorch composed of several of weir's: quotients, norms, triangles, scans.

Sizes that may be open are written as -1 here, so that they vary with each run. shaping.is_safe
lists the exceptions."""

import math

import torch

from ... import _C
from .table import _INTS, BY_NAME, TABLE, _cast, _constant, _count, _cut, _is_tensor, _need
from .table import _wide, full, lowers

aten = torch.ops.aten


# ---- integers ----


def _floor_divide(a, b, out):
    _need(out in _INTS)
    a, b = _cast(a, out), _cast(b, out)
    # A zero divisor is an error on the host, and gives an undefined number on a GPU.
    _need(b.device.name.startswith("cuda") if _is_tensor(b) else b > 0)
    quotient = _C.div(a, b)
    rest = _C.sub(a, _C.mul(quotient, b))
    # weir's quotient rounds towards zero: subtract one if the signs of rest and divisor differ. A
    # product of the two would show this too, but it may overflow.
    other_sign = _C.lt(rest, 0)
    if _is_tensor(b):
        other_sign = _C.minimum(_C.ne(other_sign, _C.lt(b, 0)), _C.ne(rest, 0))
    return _C.sub(quotient, other_sign.cast(out))


@lowers(aten.floor_divide.default)
def _floor_div(a, b, out):
    return _floor_divide(a, b, out)


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_mode(a, b, out, rounding_mode=None):
    if rounding_mode is None:
        return TABLE[aten.div.Tensor](a, b, out)
    _need(rounding_mode == "floor")
    return _floor_divide(a, b, out)


@lowers(aten.remainder.Scalar, aten.remainder.Tensor)
def _remainder(a, b, out):
    return _C.sub(_cast(a, out), _C.mul(_floor_divide(a, b, out), _cast(b, out)))


@lowers(aten.masked_fill.Scalar)
def _masked_fill(x, mask, value, out):
    _need(mask.dtype is _C.bool_ and x.dtype is not _C.bool_)
    _need(x.dtype.is_floating_point or float(value).is_integer())
    return _C.where(mask, _constant(value, x.dtype), x)


@lowers(aten.reciprocal.default)
def _reciprocal(x, out):
    _need(out.is_floating_point)
    return _C.div(1, x.cast(out))


@lowers(aten.square.default)
def _square(x, out):
    return _C.mul(x, x)


def _gelu_tanh(x):
    wide = _wide(x)
    inner = (wide + wide * wide * wide * 0.044715) * math.sqrt(2 / math.pi)
    return (wide * 0.5 * (_C.tanh(inner) + 1)).cast(x.dtype)


_gelu_erf = TABLE[aten.gelu.default]


@lowers(aten.gelu.default)
def _gelu(x, out, approximate="none"):
    _need(out.is_floating_point)
    return _gelu_tanh(x) if approximate == "tanh" else _gelu_erf(x, out)


@lowers(aten._safe_softmax.default)
def _safe_softmax(x, dim, out, dtype=None):
    x = x.cast(out)
    empty = _C.eq(_C.max(x, (dim,), True), -math.inf)
    return _C.where(empty, _constant(0, out), _C.softmax(x, dim))


@lowers(aten.copy.default)
def _copy(x, source, out, non_blocking=False):
    if not _is_tensor(source):  # copy_ takes a number, too
        return TABLE[aten.fill.Scalar](x, source, out)
    _need(x.shape == source.shape)
    return source.clone() if source.dtype is out else source.cast(out)


# ---- products of groups ----


@lowers(aten._grouped_mm.default)
def _grouped_mm(a, b, offs=None, bias=None, out_dtype=None, out=None):
    _need(offs is not None and bias is None and a.dtype is b.dtype is out)
    _need(a.ndim + b.ndim < 6)
    return _C.grouped_matmul(a, b, offs)


BY_NAME["transformers::grouped_mm_fallback"] = _grouped_mm


# ---- reductions and scans ----


def _reversed(x):
    """Reverses the order of x: -x for floats; all bits of integers, whose least cannot be negated."""
    return _C.neg(x) if x.dtype.is_floating_point else _C.bitwise_not(x)


def _extreme(function, sign):
    def lower(x, dim, keepdim=False, out=None):
        _need(x.ndim > 0)
        turned = x if sign > 0 else _reversed(x)
        return [function(x, (dim,), keepdim), _C.argmax(turned, dim, keepdim)]

    return lower


TABLE[aten.max.dim] = _extreme(_C.max, 1)
TABLE[aten.min.dim] = _extreme(_C.min, -1)


@lowers(aten.argmin.default)
def _argmin(x, dim=None, keepdim=False, out=None):
    _need(dim is not None or not keepdim)
    return _C.argmax(_reversed(x), dim, keepdim)


def _some(function):
    def lower(x, dim=None, keepdim=False, out=None):
        x = x if x.dtype is _C.bool_ else _C.ne(x, 0)
        dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        return function(x.cast(_C.uint8), dims, keepdim).cast(out)  # the result for u8 is u8

    return lower


for _overload in ("default", "dim", "dims"):
    TABLE[getattr(aten.any, _overload)] = _some(_C.max)
    TABLE[getattr(aten.all, _overload)] = _some(_C.min)


def _total(function):
    def lower(x, dim, out, dtype=None):
        _need(x.ndim > 0 and out is not _C.bool_)
        # Scans of integers are i64; wrapped to a narrower type they equal that type's own.
        x = x.cast(out) if x.dtype.is_floating_point or out.is_floating_point else x
        return function(x, dim).cast(out)

    return lower


TABLE[aten.cumsum.default] = _total(_C.cumsum)
TABLE[aten.cumprod.default] = _total(_C.cumprod)


def _so_far(function):
    def lower(x, dim, out=None):
        _need(x.ndim > 0)
        return list(function(x, dim))

    return lower


TABLE[aten.cummax.default] = _so_far(_C.cummax)
TABLE[aten.cummin.default] = _so_far(_C.cummin)


@lowers(aten.histc.default)
def _histc(x, bins=100, min=0, max=0, out=None):
    _need(min < max and bins < 1 << 16)  # expert_order has one more
    x = x.reshape((-1,))
    wide = _wide(x) if x.dtype.is_floating_point else x.cast(_C.float64)
    # Rounds at the same points as PyTorch, so that numbers at the edges get the same bins.
    place = ((wide - min) * bins / (max - min)).cast(_C.int64)
    place = _C.minimum(place, bins - 1)
    inside = _C.minimum(_C.ge(wide, min), _C.le(wide, max))
    place = _C.where(inside, place, _constant(bins, _C.int64))
    ends = _C.expert_order(place, bins + 1, 1)[2][:bins]
    before = _C.concat([full((1,), 0, _C.int32), ends[: bins - 1]], 0)
    return _C.sub(ends, before).cast(out)


@lowers(aten.var.correction)
def _var(x, dim=None, out=None, correction=1, keepdim=False):
    _need(x.dtype.is_floating_point and x.ndim > 0)
    dims = tuple(dim or range(x.ndim))
    n = math.prod(x.shape[d] for d in dims)
    correction = 1 if correction is None else correction
    _need(n > correction)
    wide = _wide(x)
    away = _C.sub(wide, _C.mean(wide, dims, True))
    made = _C.mean(_C.mul(away, away), dims, keepdim)
    return (made * (n / (n - correction))).cast(out)


@lowers(aten.std.correction)
def _std(x, dim=None, out=None, correction=1, keepdim=False):
    return _C.sqrt(_var(_wide(x), dim, _wide(x).dtype, correction, keepdim)).cast(out)


# ---- filled tensors ----


@lowers(aten.fill.Scalar)
def _fill(x, value, out):
    _need(isinstance(value, (int, float)) and (out.is_floating_point or float(value).is_integer()))
    return _fill_tensor(x, _constant(value, out), out)


@lowers(aten.fill.Tensor)
def _fill_tensor(x, value, out):
    return value.cast(out).reshape((1,) * x.ndim).expand(tuple(x.shape)).clone()


# ---- norms ----


def _per_channel(v, ndim):
    return v.reshape((1, -1) + (1,) * (ndim - 2))


@lowers(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(x, weight, bias, mean, variance, momentum, eps, out):
    """Computes x * scale + shift with two numbers for each channel."""
    scale = _C.rsqrt(variance + eps)
    scale = scale if weight is None else _C.mul(scale, weight.cast(scale.dtype))
    shift = _C.neg(_C.mul(mean, scale))
    shift = shift if bias is None else _C.add(shift, bias.cast(shift.dtype))
    made = _C.mul(x.cast(scale.dtype), _per_channel(scale, x.ndim))
    return [_C.add(made, _per_channel(shift, x.ndim)).cast(x.dtype), None, None]


@lowers(aten.native_group_norm.default)
def _group_norm(x, weight, bias, n, channels, inner, groups, eps, out):
    wide = _wide(x)
    made = _C.layer_norm(wide.reshape((-1, groups, channels // groups * inner)), None, None, eps)
    made = made.reshape((-1, *x.shape[1:]))
    if weight is not None:
        made = _C.mul(made, _per_channel(weight.cast(wide.dtype), x.ndim))
    if bias is not None:
        made = _C.add(made, _per_channel(bias.cast(wide.dtype), x.ndim))
    return [made.cast(x.dtype), None, None]


# ---- convolutions along one dim ----


_conv2d = TABLE[aten.convolution.default]


@lowers(aten.convolution.default)
def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                 out=None):
    if x.ndim != 3:
        return _conv2d(x, weight, bias, stride, padding, dilation, transposed, output_padding,
                       groups, out)  # fmt: skip
    _need(not transposed)
    flat = x.reshape((-1, x.shape[1], 1, x.shape[2]))
    kernel = weight.reshape((*weight.shape[:2], 1, weight.shape[2]))
    made = _C.conv2d(flat, kernel, bias, (1, *stride), (0, *padding), (1, *dilation), groups)
    return made.reshape((-1, made.shape[1], made.shape[3]))


# ---- triangles, sorting ----


def _triangle(keeps):
    def lower(x, diagonal=0, out=None):
        rows, columns = x.shape[-2:]
        _need(rows * columns <= 1 << 22)
        distance = _C.sub(_count(columns).reshape((1, columns)), _count(rows).reshape((rows, 1)))
        kept = keeps(distance, diagonal)
        if x.dtype is _C.bool_:
            return _C.minimum(x, kept)
        return _C.where(kept, x, _constant(0, x.dtype))

    return lower


TABLE[aten.tril.default] = _triangle(_C.le)
TABLE[aten.triu.default] = _triangle(_C.ge)


@lowers(aten.sort.stable)
def _sort(x, stable=None, dim=-1, descending=False, out=None):
    _need(x.ndim > 0)
    return list(_C.sort(x, dim, descending))
