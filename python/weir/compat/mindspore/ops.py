"""``mindspore.ops``: functions, with MindSpore's argument names."""

import weir as _weir

add, sub, mul, div, pow = _weir.add, _weir.sub, _weir.mul, _weir.div, _weir.pow
maximum, minimum, matmul, bmm = _weir.maximum, _weir.minimum, _weir.matmul, _weir.matmul
neg, abs, exp, log, sqrt, rsqrt = (
    _weir.neg, _weir.abs, _weir.exp, _weir.log, _weir.sqrt, _weir.rsqrt,
)  # fmt: skip
sigmoid, tanh, relu, silu = _weir.sigmoid, _weir.tanh, _weir.relu, _weir.silu
equal, not_equal, less, greater = _weir.eq, _weir.ne, _weir.lt, _weir.gt
less_equal, greater_equal = _weir.le, _weir.ge
cast, where, nonzero, gather_elements = _weir.cast, _weir.where, _weir.nonzero, _weir.gather
reshape, transpose = _weir.reshape, _weir.permute


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


def softmax(input, axis=-1):
    """exp over its sum along the axis."""
    return _weir.softmax(input, axis)


def cat(tensors, axis=0):
    """One behind the other along the axis."""
    return _weir.concat(tensors, axis)


concat = cat


def topk(input, k, dim=-1, largest=True, sorted=True):
    """The k largest along dim, sorted, and where they were."""
    return _weir.topk(input, k, dim, largest)


def clamp(input, min=None, max=None):
    """Values held between two bounds."""
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
