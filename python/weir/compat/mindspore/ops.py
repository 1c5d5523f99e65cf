"""``mindspore.ops``: functions, with MindSpore's argument names."""

import builtins as _builtins
import math as _math

import weir as _weir

add, sub, mul, div, pow = _weir.add, _weir.sub, _weir.mul, _weir.div, _weir.pow
maximum, minimum = _weir.maximum, _weir.minimum
matmul = bmm = mm = _weir.matmul
neg, abs, exp, log, sqrt, rsqrt = (
    _weir.neg, _weir.abs, _weir.exp, _weir.log, _weir.sqrt, _weir.rsqrt,
)  # fmt: skip
sigmoid, tanh, relu, silu = _weir.sigmoid, _weir.tanh, _weir.relu, _weir.silu
equal, not_equal, less, greater = _weir.eq, _weir.ne, _weir.lt, _weir.gt
less_equal, greater_equal = _weir.le, _weir.ge
cast, where, nonzero = _weir.cast, _weir.where, _weir.nonzero
gather_elements, gather_d = _weir.gather, _weir.gather
reshape, transpose, permute, broadcast_to = (
    _weir.reshape, _weir.permute, _weir.permute, _weir.expand,
)  # fmt: skip


def gelu(input, approximate="none"):
    """x * Phi(x)."""
    if approximate != "none":
        raise ValueError("weir's gelu is exact: approximate='none'")
    return _weir.gelu(input)


def sum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum over a dim, several, or all."""
    return _weir.sum(input if dtype is None else input.cast(dtype), dim, keepdim)


def mean(x, axis=None, keep_dims=False):
    """The mean over an axis, several, or all."""
    return _weir.mean(x, axis, keep_dims)


def amax(input, axis=None, keepdims=False):
    """The largest over an axis, several, or all."""
    return _weir.max(input, axis, keepdims)


def amin(input, axis=None, keepdims=False):
    """The smallest over an axis, several, or all."""
    return _weir.min(input, axis, keepdims)


def argmax(input, dim=None, keepdim=False):
    """The index of the largest value."""
    return _weir.argmax(input, dim, keepdim)


def square(input):
    """input * input."""
    return input * input


def softmax(input, axis=-1):
    """exp over its sum along the axis."""
    return _weir.softmax(input, axis)


def cat(tensors, axis=0):
    """Joins the tensors along the axis."""
    return _weir.concat(tensors, axis)


concat = cat


def stack(tensors, axis=0):
    """Joins the tensors along a new axis."""
    return cat([expand_dims(t, axis) for t in tensors], axis)


def split(tensor, split_size_or_sections, axis=0):
    """Parts of a size, or of several, along the axis: views."""
    n, sizes = tensor.shape[axis], split_size_or_sections
    if isinstance(sizes, int):
        sizes = [min(sizes, n - start) for start in range(0, n, sizes)]
    if _builtins.sum(sizes) != n:
        raise ValueError(f"split: parts of {list(sizes)} do not make up axis {axis} of size {n}")
    parts, start = [], 0
    for size in sizes:
        keys = (slice(None),) * (axis % tensor.ndim) + (slice(start, start + size),)
        parts.append(tensor[keys])
        start += size
    return tuple(parts)


def chunk(input, chunks, axis=0):
    """Splits the tensor into parts along the axis; the last part may be smaller. Returns views."""
    return split(input, -(-input.shape[axis] // chunks), axis)


def expand_dims(input_x, axis):
    """A dim of size 1 before ``axis``."""
    shape = list(input_x.shape)
    shape.insert(axis if axis >= 0 else axis + input_x.ndim + 1, 1)
    return _weir.reshape(input_x, shape)


unsqueeze = expand_dims


def squeeze(input, axis=None):
    """Without dims of size 1: all of them, or those named."""
    named = range(input.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    named = {a % input.ndim for a in named} if input.ndim else set()
    for a in named:
        if axis is not None and input.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} of {input.shape} is not of size 1")
    return _weir.reshape(
        input, [n for a, n in enumerate(input.shape) if n != 1 or a not in named]
    )


def flatten(input, order="C", *, start_dim=1, end_dim=-1):
    """The dims from start_dim to end_dim as one."""
    if order != "C":
        raise ValueError(f"flatten: weir has the order 'C', not {order!r}")
    end = end_dim % input.ndim + 1
    return _weir.reshape(input, (*input.shape[:start_dim], -1, *input.shape[end:]))


def tile(input, dims):
    """Repeats the tensor along each dim."""
    dims = (1,) * (input.ndim - len(dims)) + tuple(dims)
    for _ in range(len(dims) - input.ndim):
        input = expand_dims(input, 0)
    for axis, times in enumerate(dims):
        input = cat([input] * times, axis)
    return input


def gather(input_params, input_indices, axis, batch_dims=0):
    """Slices along the axis by index; indices of any shape."""
    if batch_dims:
        raise ValueError("gather: weir has batch_dims 0")
    axis %= input_params.ndim
    flat = _weir.index_select(input_params, axis, _weir.reshape(input_indices, (-1,)))
    shape = input_params.shape
    return _weir.reshape(flat, (*shape[:axis], *input_indices.shape, *shape[axis + 1 :]))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 along the last dim, then weight and bias."""
    if len(normalized_shape) != 1:
        raise ValueError("layer_norm: weir normalises the last dim: normalized_shape of one size")
    return _weir.layer_norm(input, weight, bias, eps)


def rms_norm(x, gamma, epsilon=1e-6):
    """(y, rstd): y is x * rstd * gamma, where rstd is 1 / the root mean square of the last dim."""
    return _weir.npu.npu_rms_norm(x, gamma, epsilon)


def swiglu(input, dim=-1):
    """silu of the first half along dim, times the second half."""
    return _weir.swiglu(input, dim)


def topk(input, k, dim=-1, largest=True, sorted=True):
    """The k largest values along dim, sorted, and their indices."""
    return _weir.topk(input, k, dim, largest)


def clamp(input, min=None, max=None):
    """Limits values to two bounds."""
    return _weir.clamp(input, min, max)


clip_by_value = clamp


def dense(input, weight, bias=None):
    """input x weight transposed + bias."""
    return _weir.linear(input, weight, bias)


def zeros(size, dtype=None):
    """A tensor of zeros."""
    return _weir.zeros(size, dtype or _weir.float32)


def ones(shape, dtype=None):
    """A tensor of ones."""
    return _weir.ones(shape, dtype or _weir.float32)


def full(size, fill_value, *, dtype=None):
    """A tensor of one value."""
    return _weir.full(size, fill_value, dtype or _weir.float32)


def zeros_like(input, *, dtype=None):
    """Zeros in the shape of another tensor."""
    return _weir.zeros(input.shape, dtype or input.dtype)


def ones_like(input, *, dtype=None):
    """Ones in the shape of another tensor."""
    return _weir.ones(input.shape, dtype or input.dtype)


def arange(start=0, end=None, step=1, *, dtype=None):
    """start, start + step, ... before end."""
    start, end = (0, start) if end is None else (start, end)
    whole = all(isinstance(v, int) for v in (start, end, step))
    n = _builtins.max(0, _math.ceil((end - start) / step))
    return _weir.arange(n, start, step, dtype or (_weir.int64 if whole else _weir.float32))


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def conv2d(input, weight, bias=None, stride=1, pad_mode="valid", padding=0, dilation=1, groups=1):
    """2-d convolution; pad_mode is 'valid', 'same' or 'pad' (then ``padding`` counts)."""
    stride, dilation = _pair(stride), _pair(dilation)
    if pad_mode == "valid":
        padding = (0, 0)
    elif pad_mode == "pad":
        padding = _pair(padding)
    elif pad_mode == "same":
        padding = tuple(d * (k - 1) // 2 for d, k in zip(dilation, weight.shape[2:]))
        if any(d * (k - 1) % 2 for d, k in zip(dilation, weight.shape[2:])) or stride != (1, 1):
            raise ValueError("weir pads 'same' for odd kernels with stride 1; give 'pad' instead")
    else:
        raise ValueError(f"pad_mode must be 'valid', 'same' or 'pad', not {pad_mode!r}")
    return _weir.conv2d(input, weight, bias, stride, padding, dilation, groups)
