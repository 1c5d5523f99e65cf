"""NumPy's functions on weir's tensors.

``numpy.exp(t)``, ``array + t`` and so on call weir's operators if weir has them, so a function
written for NumPy can be captured by :func:`weir.compile`. Others run in NumPy on the values; in a
graph, whose tensors have no values, they are an error.

>>> import numpy as np
>>> np.maximum(weir.tensor([-1.0, 2.0]), 0).tolist()
[0.0, 2.0]
>>> f = weir.compile(lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True))
>>> f(np.zeros((1, 2), np.float32)).tolist()
[[0.5, 0.5]]
"""

from . import _C
from ._create import asarray

# Keyed by NumPy's names.
_UFUNCS = {
    "add": _C.add,
    "subtract": _C.sub,
    "multiply": _C.mul,
    "divide": _C.div,
    "power": _C.pow,
    "maximum": _C.maximum,
    "minimum": _C.minimum,
    "matmul": _C.matmul,
    "negative": _C.neg,
    "absolute": _C.abs,
    "exp": _C.exp,
    "log": _C.log,
    "sqrt": _C.sqrt,
    "tanh": _C.tanh,
    "square": lambda x: x * x,
    "bitwise_and": _C.bitwise_and,
    "bitwise_or": _C.bitwise_or,
    "bitwise_xor": _C.bitwise_xor,
    "invert": _C.bitwise_not,
    "left_shift": _C.bitwise_left_shift,
    "right_shift": _C.bitwise_right_shift,
    "equal": _C.eq,
    "not_equal": _C.ne,
    "less": _C.lt,
    "less_equal": _C.le,
    "greater": _C.gt,
    "greater_equal": _C.ge,
}


def _reduction(function):
    def call(a, axis=None, keepdims=False):
        return function(a, axis, keepdims)

    return call


def _transpose(a, axes=None):
    return a.T if axes is None else a.permute(axes)


_FUNCTIONS = {
    "sum": _reduction(_C.sum),
    "mean": _reduction(_C.mean),
    "max": _reduction(_C.max),
    "min": _reduction(_C.min),
    "amax": _reduction(_C.max),
    "amin": _reduction(_C.min),
    "argmax": _reduction(_C.argmax),
    "concatenate": lambda arrays, axis=0: _C.concat([_operand(a) for a in arrays], axis),
    "where": lambda condition, x, y: _C.where(_operand(condition), _operand(x), _operand(y)),
    "reshape": lambda a, shape: a.reshape(shape),
    "transpose": _transpose,
    "clip": lambda a, a_min=None, a_max=None: _C.clamp(a, a_min, a_max),
}


def _operand(x):
    """Converts arrays to tensors that share their memory, and NumPy's numbers to Python's."""
    if isinstance(x, _C.Tensor) or not hasattr(x, "__array_interface__"):
        return x
    return x.item() if x.ndim == 0 else asarray(x)


def _values(x, name):
    if isinstance(x, (list, tuple)):
        return type(x)(_values(item, name) for item in x)
    if not isinstance(x, _C.Tensor):
        return x
    try:
        return x.numpy()
    except RuntimeError as error:
        raise TypeError(f"numpy.{name} is not one of weir's operators, and needs values: {error}")


def _in_numpy(function, name, args, kwargs):
    args = [_values(x, name) for x in args]
    return function(*args, **{key: _values(x, name) for key, x in kwargs.items()})


def _promoted(name, inputs):
    """The operands in the type that NumPy computes in. That is another one than the tensors' where whole numbers are divided or
    meet floats or other whole numbers of NumPy's. None where weir has not that type."""
    import numpy

    tensors = [x for x in inputs if isinstance(x, _C.Tensor)]
    whole = len(inputs) > 1 and not any(t.dtype.is_floating_point for t in tensors)
    # Python's whole numbers have the tensor's type, but beside bools.
    weak = bool if any(t.dtype is _C.bool_ for t in tensors) else int
    others = [x for x in inputs if not isinstance(x, _C.Tensor | weak)]
    if not whole or not (others or name == "divide"):
        return [_operand(x) for x in inputs]
    kinds = [numpy.dtype(t.dtype.name) for t in tensors]
    wide = numpy.result_type(*kinds, *(x if type(x) in (int, float) else numpy.asarray(x).dtype for x in others))
    if name == "divide" and wide.kind in "biu":
        wide = numpy.dtype(numpy.float64)
    dtype = getattr(_C, "bool_" if wide.name == "bool" else wide.name, None)
    if dtype is None:
        return None
    made = [_operand(x) for x in inputs]
    return [x.cast(dtype) if isinstance(x, _C.Tensor) and x.dtype is not dtype else x for x in made]


def array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """Called by NumPy for ``numpy.exp(t)`` and ``array + t``."""
    ours = _UFUNCS.get(ufunc.__name__)
    if ours and method == "__call__" and not kwargs:
        operands = _promoted(ufunc.__name__, inputs)
        if operands is not None:
            return ours(*operands)
    return _in_numpy(getattr(ufunc, method), ufunc.__name__, inputs, kwargs)


def array_function(self, function, types, args, kwargs):
    """Called by NumPy for ``numpy.sum(t)``."""
    ours = _FUNCTIONS.get(function.__name__)
    if ours:
        try:
            return ours(*args, **kwargs)
        except TypeError as error:
            if "argument" not in str(error):  # else an argument that only NumPy has, such as dtype
                raise
    return _in_numpy(function, function.__name__, args, kwargs)


_C.Tensor.__array_ufunc__ = array_ufunc
_C.Tensor.__array_function__ = array_function
