"""Operators of PyTorch that correspond to one of weir's (see table.py for the rules)."""

import torch

from ... import _C
from ..._npu_operators import KERNELS
from .. import kernels
from .table import TABLE, _cast, _is_tensor, _need, _wide_enough, lowers

aten = torch.ops.aten


# ---- elementwise ----


def _arithmetic(function):
    def lower(a, b, out):
        _need(out is not None)
        return function(_cast(_wide_enough(a, out), out), _cast(_wide_enough(b, out), out))

    return lower


def _scaling(function):
    """Products and quotients by a 0-d tensor of another type than the result's. On the host PyTorch
    does not round the number to a half first: as a half, a scale of 65536 would be infinite."""
    plain, halves = _arithmetic(function), (_C.float16, _C.bfloat16)

    def lower(a, b, out):
        one = _is_tensor(a) and _is_tensor(b) and all(n == 1 for n in b.shape)
        if not one or out not in halves or b.dtype is out or b.device.name.startswith("cuda"):
            return plain(a, b, out)
        return function(_cast(_cast(a, out), _C.float32), _cast(b, _C.float32)).cast(out)

    return lower


def _binary(name, function, rule=_arithmetic):
    packet = getattr(aten, name)
    lower = rule(function)
    for overload in ("Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "default"):
        if hasattr(packet, overload):
            TABLE[getattr(packet, overload)] = lower


_binary("mul", _C.mul, _scaling)
_binary("maximum", _C.maximum)
_binary("minimum", _C.minimum)
_binary("pow", _C.pow)


@lowers(aten.pow.Tensor_Scalar)
def _power(x, exponent, out):
    """Computes squares and cubes as products, and roots as roots, like PyTorch: sqrt(-inf) is NaN,
    but (-inf) ** 0.5 is infinite. For f16 on the host PyTorch uses powers."""
    if type(exponent) not in (int, float) or out is None or not out.is_floating_point:
        return _arithmetic(_C.pow)(x, exponent, out)
    if exponent in (0.5, -0.5) and (out is not _C.float16 or x.device.name.startswith("cuda")):
        x = _cast(_wide_enough(x, out), out)
        return _C.sqrt(x) if exponent > 0 else _C.rsqrt(x)
    if exponent in (2, 3) and out in (_C.float32, _C.float64):
        x = _cast(_wide_enough(x, out), out)
        square = _C.mul(x, x)
        return square if exponent == 2 else _C.mul(square, x)
    return _arithmetic(_C.pow)(x, exponent, out)


@lowers(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, aten.true_divide.Scalar)
def _div(a, b, out):
    _need(out is not None and out.is_floating_point)
    return _scaling(_C.div)(a, b, out)


def _scaled(b, alpha):
    if alpha == 1:
        return b
    return b * alpha


@lowers(aten.add.Tensor, aten.add.Scalar)
def _add(a, b, out, alpha=1):
    _need(out is not None and out is not _C.bool_)
    return _arithmetic(_C.add)(a, _scaled(_cast(b, out), alpha), out)


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def _sub(a, b, out, alpha=1):
    _need(out is not None and out is not _C.bool_)
    return _arithmetic(_C.sub)(a, _scaled(_cast(b, out), alpha), out)


@lowers(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(a, b, out, alpha=1):
    return _sub(b, a, out, alpha)


def _comparison(function):
    def lower(a, b, out):
        if _is_tensor(a) and _is_tensor(b):
            _need(a.dtype is b.dtype)
        else:
            t, number = (a, b) if _is_tensor(a) else (b, a)
            _need(t.dtype is not _C.bool_ and not isinstance(number, bool))
            # PyTorch converts integers to floats before it compares them with a float.
            _need(t.dtype.is_floating_point or not isinstance(number, float))
            _wide_enough(number, t.dtype)
        return function(a, b)

    return lower


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _overload in ("Tensor", "Scalar"):
        TABLE[getattr(getattr(aten, _name), _overload)] = _comparison(getattr(_C, _name))


def _unary(name, function, floats=True):
    def lower(x, out):
        if floats:
            _need(out is not None and out.is_floating_point)
            x = x.cast(out)
        _need(x.dtype is not _C.bool_)
        return function(x)

    TABLE[getattr(aten, name).default] = lower


for _name in ("exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "silu", "sin", "cos"):
    _unary(_name, getattr(_C, _name))
for _name in ("neg", "abs", "relu"):
    _unary(_name, getattr(_C, _name), floats=False)


@lowers(aten.gelu.default)
def _gelu(x, out, approximate="none"):
    _need(approximate == "none")
    return _C.gelu(x)


@lowers(aten.clamp.default)
def _clamp(x, low=None, high=None, out=None):
    _need(x.dtype is out and out.is_floating_point)
    return _C.clamp(x, low, high)


@lowers(aten.clamp_min.default)
def _clamp_min(x, low, out):
    return _clamp(x, low, None, out)


@lowers(aten.clamp_max.default)
def _clamp_max(x, high, out):
    return _clamp(x, None, high, out)


@lowers(aten.where.self)
def _where(condition, a, b, out):
    _need(condition.dtype is _C.bool_)
    return _C.where(condition, a.cast(out), b.cast(out))


def _kernel(function):
    def lower(*args, out=None):
        made = function(*args)
        return made if _is_tensor(made) else list(made)

    return lower


for _name, _overload in kernels.OVERLOADS.items():
    TABLE[_overload] = _kernel(KERNELS[_name])


# ---- moving ----


@lowers(aten._to_copy.default)
def _to_copy(x, out, **options):
    _need(out is not None)
    # A float out of an integer type's range: undefined in PyTorch, saturated in weir.
    return x.clone() if x.dtype is out else x.cast(out)


@lowers(torch.ops.prims.convert_element_type.default)
def _convert(x, dtype, out):
    return _to_copy(x, out)


@lowers(aten.clone.default, aten.lift_fresh_copy.default)
def _clone(x, out, memory_format=None):
    return x.clone()


@lowers(aten.alias.default, aten.detach.default, aten.lift_fresh.default)
def _alias(x, out):
    return x


@lowers(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def _view(x, shape, out):
    return x.reshape(tuple(shape))


@lowers(aten.t.default)
def _t(x, out):
    return x if x.ndim < 2 else x.transpose(0, 1)


@lowers(aten.transpose.int)
def _transpose(x, dim0, dim1, out):
    return x.transpose(dim0, dim1) if x.ndim else x


@lowers(aten.permute.default)
def _permute(x, dims, out):
    return x.permute(tuple(dims))


@lowers(aten.expand.default)
def _expand(x, shape, out, implicit=False):
    return x.expand(tuple(shape))


@lowers(aten.unsqueeze.default)
def _unsqueeze(x, dim, out):
    shape = list(x.shape)
    shape.insert(dim if dim >= 0 else dim + x.ndim + 1, 1)
    return _review(x, shape)


def _review(x, shape):
    """Adds or removes dims of size 1; a view for any strides."""
    return x.reshape(tuple(shape))


@lowers(aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(x, dims, out):
    dims = {d % max(x.ndim, 1) for d in ([dims] if isinstance(dims, int) else dims)}
    return _review(x, [s for d, s in enumerate(x.shape) if s != 1 or d not in dims])


@lowers(aten.squeeze.default)
def _squeeze_all(x, out):
    return _review(x, [s for s in x.shape if s != 1])


def _at(dim, key):
    return (slice(None),) * dim + (key,)


@lowers(aten.select.int)
def _select(x, dim, index, out):
    return x[_at(dim % x.ndim, index)]


@lowers(aten.slice.Tensor)
def _slice(x, dim=0, start=None, end=None, step=1, out=None):
    return x[_at(dim % x.ndim, slice(start, end, step))]


@lowers(aten.split.Tensor)
def _split(x, size, dim=0, out=None):
    n = x.shape[dim]
    return [x[_at(dim % x.ndim, slice(i, min(i + size, n)))] for i in range(0, max(n, 1), size)]


@lowers(aten.split_with_sizes.default)
def _split_sizes(x, sizes, dim=0, out=None):
    parts, start = [], 0
    for size in sizes:
        parts.append(x[_at(dim % x.ndim, slice(start, start + size))])
        start += size
    return parts


@lowers(aten.unbind.int)
def _unbind(x, dim=0, out=None):
    return [x[_at(dim % x.ndim, i)] for i in range(x.shape[dim])]


@lowers(aten.cat.default)
def _cat(tensors, dim=0, out=None):
    # PyTorch ignores empty 1-d tensors in a concatenation.
    tensors = [t for t in tensors if t.shape != (0,)] or tensors
    _need(len(tensors) <= 64)
    return _C.concat([t.cast(out) for t in tensors], dim)


@lowers(aten.stack.default)
def _stack(tensors, dim=0, out=None):
    return _cat([_unsqueeze(t, dim, out) for t in tensors], dim, out)


# ---- reductions ----


def _reduction(function):
    def lower(x, dims=None, keepdim=False, out=None, dtype=None):
        x = x.cast(out) if out.is_floating_point or dtype is not None else x
        made = function(x, None if dims is None else tuple(dims) or None, keepdim)
        return made.cast(out)  # weir's sums of integers are always i64

    return lower


TABLE[aten.sum.dim_IntList] = _reduction(_C.sum)
TABLE[aten.mean.dim] = _reduction(_C.mean)
TABLE[aten.amax.default] = _reduction(_C.max)
TABLE[aten.amin.default] = _reduction(_C.min)


@lowers(aten.sum.default)
def _sum_all(x, out, dtype=None):
    return _reduction(_C.sum)(x, out=out, dtype=dtype)


@lowers(aten.mean.default)
def _mean_all(x, out, dtype=None):
    return _reduction(_C.mean)(x, out=out, dtype=dtype)


@lowers(aten.max.default)
def _max_all(x, out):
    return _C.max(x)


@lowers(aten.min.default)
def _min_all(x, out):
    return _C.min(x)


@lowers(aten.argmax.default)
def _argmax(x, dim=None, keepdim=False, out=None):
    _need(dim is not None or not keepdim)
    return _C.argmax(x, dim, keepdim)


@lowers(aten._softmax.default)
def _softmax(x, dim, half_to_float, out):
    return _C.softmax(x.cast(out), dim)


@lowers(aten.native_layer_norm.default)
def _layer_norm(x, shape, weight, bias, eps, out):
    _need(len(shape) == 1 and all(w is None or w.dtype is x.dtype for w in (weight, bias)))
    return [_C.layer_norm(x, weight, bias, eps), None, None]


@lowers(aten._fused_rms_norm.default)
def _rms_norm(x, shape, weight, eps, out=None):
    _need(len(shape) == 1 and eps is not None and (weight is None or weight.dtype is x.dtype))
    return [_C.rms_norm(x, weight, eps), None]


# ---- indices ----


@lowers(aten.embedding.default)
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False, out=None):
    return _C.embedding(weight, indices)


@lowers(aten.gather.default)
def _gather(x, dim, index, out=None, sparse_grad=False):
    _need(x.ndim == index.ndim and x.ndim > 0)
    return _C.gather(x, dim, index)


@lowers(aten.index_select.default)
def _index_select(x, dim, index, out):
    _need(index.ndim == 1 and x.ndim > 0)
    return _C.index_select(x, dim, index)


@lowers(aten.scatter_add.default)
def _scatter_add(x, dim, index, source, out, own=False):
    _need(index.shape == source.shape and x.dtype is source.dtype and x.ndim > 0)
    return (x if own else x.clone()).scatter_add_(dim, index, source)


@lowers(aten.topk.default)
def _topk(x, k, dim=-1, largest=True, sorted=True, out=None):
    _need(x.ndim > 0)
    return list(_C.topk(x, k, dim, largest))


@lowers(aten.sort.default)
def _sort(x, dim=-1, descending=False, out=None):
    _need(x.ndim > 0)
    return list(_C.sort(x, dim, descending))
