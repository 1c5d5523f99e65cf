"""``mindspore.mint``: functions with PyTorch's names and arguments, as weir's own."""

import weir as _weir

_SAME = (
    "abs add argmax argsort clone div empty eq exp full gather ge gt index_select le "
    "log lt matmul maximum mean minimum mul ne neg nonzero ones permute pow relu reshape rsqrt "
    "sigmoid silu softmax sqrt sub sum tanh topk transpose where zeros"
).split()
_FUNCTIONAL = "gelu linear relu sigmoid silu softmax tanh".split()

globals().update({name: getattr(_weir, name) for name in _SAME})
bmm = mm = _weir.matmul
broadcast_to = _weir.expand


def cat(tensors, dim=0):
    """The tensors one after the other along a dim."""
    return _weir.concat(tensors, dim)


concat = cat


def clamp(input, min=None, max=None):
    """Limits values to min..max."""
    return _weir.clamp(input, min, max)


def square(input):
    """input * input."""
    return input * input


def max(input):
    """The largest value; for a reduction over a dim see mindspore.ops."""
    return _weir.max(input)


def min(input):
    """The smallest value."""
    return _weir.min(input)


FUNCTIONAL = {name: getattr(_weir, name) for name in _FUNCTIONAL}
