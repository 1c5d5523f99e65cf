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
    """A tensor of a Cell. weir computes no gradients, so it is a plain tensor."""


def _renamed(method):
    """Wraps a reduction so that it also takes MindSpore's argument names."""
    names = {"axis": "dim", "keep_dims": "keepdim", "keepdims": "keepdim"}

    def call(self, *args, **kwargs):
        return method(self, *args, **{names.get(name, name): v for name, v in kwargs.items()})

    call.__doc__ = method.__doc__
    return call


def _cast_to(dtype):
    def call(self):
        return self.cast(dtype)

    call.__doc__ = f"The same values as {dtype.name}."
    return call


def _flatten(self, start_dim=0, end_dim=-1):
    """The dims from start_dim to end_dim as one."""
    return ops.flatten(self, start_dim=start_dim, end_dim=end_dim)


def _view(self, *shape):
    """The same elements in another shape, as sizes or as a tuple."""
    return self.reshape(shape[0] if len(shape) == 1 else shape)


def _value(self):
    """The tensor itself."""
    return self


def _dim(self):
    """The number of dims."""
    return self.ndim


def _numel(self):
    """The number of elements."""
    return self.size


# The methods of MindSpore's tensors that weir's lack.
_REDUCTIONS = ("sum", "mean", "max", "min", "argmax")
METHODS = {
    **{name: _renamed(getattr(weir.Tensor, name)) for name in _REDUCTIONS},
    "expand_dims": ops.expand_dims,
    "unsqueeze": ops.expand_dims,
    "squeeze": ops.squeeze,
    "flatten": _flatten,
    "split": ops.split,
    "float": _cast_to(weir.float32),
    "half": _cast_to(weir.float16),
    "int": _cast_to(weir.int32),
    "bool": _cast_to(weir.bool_),
    "dim": _dim,
    "numel": _numel,
    "asnumpy": weir.Tensor.numpy,
    "astype": weir.Tensor.cast,
    "copy": weir.Tensor.clone,
    "value": _value,
    "itemsize": property(lambda self: self.dtype.itemsize, doc="Bytes of an element."),
    "swapaxes": weir.Tensor.transpose,
    "view": _view,
}


def extend():
    """Adds those methods to weir's tensors."""
    for name, method in METHODS.items():
        setattr(weir.Tensor, name, method)
