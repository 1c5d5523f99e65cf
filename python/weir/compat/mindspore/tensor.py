"""``mindspore.Tensor``: weir's own tensors, with MindSpore's constructor and methods."""

import weir

from . import ops


class _TensorMeta(type):
    def __call__(cls, input_data=None, dtype=None, shape=None, init=None, **options):
        if input_data is not None:
            return make(input_data, dtype)
        if shape is None:
            raise ValueError("Tensor() needs input_data, or a shape and a dtype")
        return weir.zeros(shape, dtype or weir.float32)

    def __instancecheck__(cls, instance):
        return isinstance(instance, weir.Tensor)


class Tensor(metaclass=_TensorMeta):
    """Tensor(input_data, dtype): a copy of the data; an instance is a weir.Tensor."""


def make(input_data, dtype=None):
    """A tensor with a copy of the data."""
    return weir.tensor(input_data, dtype)


class Parameter(metaclass=_TensorMeta):
    """A tensor that a Cell holds; weir computes no gradients, so there is nothing more to it."""


def _renamed(method):
    """A reduction that takes MindSpore's names of its arguments too."""
    names = {"axis": "dim", "keep_dims": "keepdim", "keepdims": "keepdim"}

    def call(self, *args, **kwargs):
        return method(self, *args, **{names.get(name, name): v for name, v in kwargs.items()})

    call.__doc__ = method.__doc__
    return call


# What MindSpore's tensors have beside weir's.
METHODS = {
    **{name: _renamed(getattr(weir.Tensor, name)) for name in ("sum", "mean", "max", "min", "argmax")},
    "expand_dims": ops.expand_dims,
    "unsqueeze": ops.expand_dims,
    "squeeze": ops.squeeze,
    "flatten": lambda self, start_dim=0, end_dim=-1: ops.flatten(
        self, start_dim=start_dim, end_dim=end_dim
    ),
    "split": ops.split,
    "float": lambda self: self.cast(weir.float32),
    "half": lambda self: self.cast(weir.float16),
    "int": lambda self: self.cast(weir.int32),
    "bool": lambda self: self.cast(weir.bool_),
    "dim": lambda self: self.ndim,
    "numel": lambda self: self.size,
    "asnumpy": weir.Tensor.numpy,
    "astype": weir.Tensor.cast,
    "copy": weir.Tensor.clone,
    "value": lambda self: self,
    "itemsize": property(lambda self: self.dtype.itemsize, doc="Bytes of an element."),
    "swapaxes": weir.Tensor.transpose,
    "view": lambda self, *shape: self.reshape(shape[0] if len(shape) == 1 else shape),
}


def extend():
    """Gives weir's tensors those methods."""
    for name, method in METHODS.items():
        setattr(weir.Tensor, name, method)
