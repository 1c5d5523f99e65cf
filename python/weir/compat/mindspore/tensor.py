"""``mindspore.Tensor``: weir's own tensors, with MindSpore's constructor and methods."""

import weir


class _TensorMeta(type):
    def __call__(cls, input_data=None, dtype=None, shape=None, init=None, **options):
        return make(input_data, dtype) if input_data is not None else weir.zeros(shape, dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, weir.Tensor)


class Tensor(metaclass=_TensorMeta):
    """Tensor(input_data, dtype): a copy of the data; an instance is a weir.Tensor."""


def make(input_data, dtype=None):
    """A tensor with a copy of the data."""
    return weir.tensor(input_data, dtype)


class Parameter(metaclass=_TensorMeta):
    """A tensor that a Cell holds; weir computes no gradients, so there is nothing more to it."""


# What MindSpore's tensors have beside weir's.
METHODS = {
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
