"""``weir.compile``: functions of weir tensors, captured once per set of shapes."""

import collections
import functools
from collections.abc import Callable
from typing import Any

from . import _C, _exact
from ._create import asarray
from .errors import InvalidError

KEPT = 64  # the most plans kept per function

_Leaf = collections.namedtuple("_Leaf", "number")  # stands for a tensor


def _like(value, items):
    """A list or tuple of the same type, including named tuples."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _flatten(value, leaves):
    """Returns nested lists, tuples and dicts with tensors replaced by their indices in
    ``leaves``."""
    if isinstance(value, _C.Tensor):
        leaves.append(value)
        return _Leaf(len(leaves) - 1)
    if isinstance(value, (list, tuple)):
        return _like(value, [_flatten(v, leaves) for v in value])
    if isinstance(value, dict):
        return {k: _flatten(v, leaves) for k, v in value.items()}
    return value


def _fill(structure, leaves):
    if isinstance(structure, _Leaf):
        return leaves[structure.number]
    if isinstance(structure, (list, tuple)):
        return _like(structure, [_fill(v, leaves) for v in structure])
    if isinstance(structure, dict):
        return {k: _fill(v, leaves) for k, v in structure.items()}
    return structure


def _adopt(value):
    """Converts arrays of other libraries to tensors that share their memory."""
    if isinstance(value, (list, tuple)):
        return _like(value, [_adopt(v) for v in value])
    if isinstance(value, dict):
        return {k: _adopt(v) for k, v in value.items()}
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return value if isinstance(value, _C.Tensor) else asarray(value)
    return value


def _extent(t):
    """The addresses of the first byte and after the last byte."""
    first = t.data_ptr()
    if not t.size:
        return first, first
    last = sum((n - 1) * step for n, step in zip(t.shape, t.strides))
    return first, first + (last + 1) * t.dtype.itemsize


class Compiled:
    """A function that runs as plans. ``plans`` contains the plans made so far."""

    def __init__(self, function, options):
        functools.update_wrapper(self, function)
        self.function, self.options = function, options
        self.plans = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = []
        structure = _flatten(_adopt((args, kwargs)), leaves)
        key = (_exact.key(structure), tuple((t.shape, t.dtype, id(t.device)) for t in leaves))
        entry = self.plans.get(key)
        if entry is None:
            entry = self._capture(structure, leaves)
            if len(self.plans) >= KEPT:
                self.plans.pop(next(iter(self.plans)))
            self.plans[key] = entry
        plan, results, written = entry
        given = [t.contiguous() for t in leaves]
        copied = written and [i for i, t in enumerate(leaves) if not t.is_contiguous()]
        if copied:
            self._check_apart(leaves, written)
        made = plan(*given)
        for i in copied:
            if i in written:
                leaves[i].copy_(given[i])
        return _fill(results, made if isinstance(made, list) else [made])

    def _check_apart(self, leaves, written):
        """Raises if a written argument overlaps another and one of them must be copied for the
        plan."""
        extents = [_extent(t) for t in leaves]
        for i in written:
            first, end = extents[i]
            for k, (other, other_end) in enumerate(extents):
                if k != i and first < other_end and other < end:
                    raise InvalidError(
                        f"{self.function.__name__} writes argument {i}, which shares memory with argument {k}, "
                        f"and not both are contiguous: argument {i} needs memory of its own"
                    )

    def _capture(self, structure, leaves):
        if not leaves:
            raise ValueError(f"{self.function.__name__} has no tensor among its arguments")
        graph = _C.Graph(leaves[0].device)
        inputs = [graph.input(f"x{i}", t.shape, t.dtype) for i, t in enumerate(leaves)]
        args, kwargs = _fill(structure, inputs)
        with graph:
            results = self.function(*args, **kwargs)
        made = []
        results = _flatten(results, made)
        if not made:
            raise ValueError(f"{self.function.__name__} returns no tensor")
        for i, t in enumerate(made):
            graph.output(f"y{i}", t)
        plan = graph.compile(**self.options)
        return plan, results, [i for i in range(len(leaves)) if plan.writes(i)]


def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Captures a function of tensors at its first call with each set of shapes; later calls run
    the plan. Options are those of :meth:`weir.Graph.compile`. Other numbers and strings among the
    arguments cause another capture. Any other object is read only during the capture: a change of
    the same object does not cause another one.

    >>> @weir.compile
    ... def f(x):
    ...     return weir.relu(x) * 2
    >>> f(weir.tensor([-1.0, 3.0])).tolist()
    [0.0, 6.0]
    """
    if function is None:
        return lambda f: Compiled(f, options)
    return Compiled(function, options)
