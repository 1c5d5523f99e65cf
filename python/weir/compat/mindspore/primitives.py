"""The operators of ``mindspore.ops`` that are classes: constructed with options, then called."""

import weir as _weir

from . import ops as _ops


def _of(name, function, *options, **defaults):
    """Makes a class whose instances call ``function`` with the options of their constructor.

    ``options`` are their names in order, ``defaults`` their values.
    """

    def __init__(self, *args, **kwargs):
        given = {**defaults, **dict(zip(options, args)), **kwargs}
        unknown = set(given) - set(options)
        if len(args) > len(options) or unknown:
            known = ", ".join(options) or "none"
            raise TypeError(f"ops.{name} has these options: {known}")
        self._options = given

    def __call__(self, *args):
        return function(*args, **self._options)

    doc = f"{name}({', '.join(f'{o}={defaults[o]!r}' for o in options)}), called with tensors."
    return type(name, (), {"__init__": __init__, "__call__": __call__, "__doc__": doc})


def _matmul(a, b, transpose_a=False, transpose_b=False):
    a = a.transpose(-1, -2) if transpose_a else a
    return _weir.matmul(a, b.transpose(-1, -2) if transpose_b else b)


def _reduce(function):
    def call(x, axis=(), keep_dims=False):
        return function(x, None if axis == () else axis, keep_dims)

    return call


MatMul = _of("MatMul", _matmul, "transpose_a", "transpose_b", transpose_a=False, transpose_b=False)
BatchMatMul = _of(
    "BatchMatMul", _matmul, "transpose_a", "transpose_b", transpose_a=False, transpose_b=False
)
ReduceSum = _of("ReduceSum", _reduce(_weir.sum), "keep_dims", keep_dims=False)
ReduceMean = _of("ReduceMean", _reduce(_weir.mean), "keep_dims", keep_dims=False)
ReduceMax = _of("ReduceMax", _reduce(_weir.max), "keep_dims", keep_dims=False)
Softmax = _of("Softmax", _ops.softmax, "axis", axis=-1)
Concat = _of("Concat", _ops.cat, "axis", axis=0)
Stack = _of("Stack", _ops.stack, "axis", axis=0)
for _name, _function in {
    "Add": _weir.add, "Sub": _weir.sub, "Mul": _weir.mul, "Div": _weir.div, "RealDiv": _weir.div,
    "Pow": _weir.pow, "Neg": _weir.neg, "Abs": _weir.abs, "Exp": _weir.exp, "Log": _weir.log,
    "Sqrt": _weir.sqrt, "Rsqrt": _weir.rsqrt, "Sigmoid": _weir.sigmoid, "Tanh": _weir.tanh,
    "ReLU": _weir.relu, "GeLU": _weir.gelu, "SiLU": _weir.silu, "Maximum": _weir.maximum,
    "Minimum": _weir.minimum, "Cast": _weir.cast, "Reshape": _weir.reshape,
    "Transpose": _weir.permute, "ExpandDims": _ops.expand_dims, "Gather": _ops.gather,
    "Square": _ops.square, "Tile": _ops.tile, "ZerosLike": _ops.zeros_like,
    "OnesLike": _ops.ones_like,
}.items():  # fmt: skip
    globals()[_name] = _of(_name, _function)
