"""Layouts of a graph of open sizes, as one function of a call's arguments.

A plan of open sizes is bound once. For a call with other sizes, a generated function computes the
sizes and strides of inputs and outputs from the traced expressions; this module writes its Python
source. The function returns None if the layouts may differ in more than numbers: for sizes below 2,
where PyTorch's strides have another meaning, or if a fixed size would change. Then the plan is
bound again for those sizes (`OpenSizes.at`).
"""

import math

import sympy
import torch
from torch.utils._sympy import printers

from .. import values
from ..rewrite import scalars
from . import places

_READ = {"shape": "a[{}].shape[{}]", "stride": "a[{}].stride({})",
         "offset": "a[{}].storage_offset()", "value": "a[{}]"}  # fmt: skip


class _NotWritten(Exception):
    """Something must be computed again for each set of sizes, so no function can be generated."""


class _Text:
    """The source text of the function, and the objects to which it refers."""

    def __init__(self, sizes):
        self.sizes, self.names, self.checks = sizes, {"math": math, "torch": torch}, []

    def number(self, x):
        """Returns the text of an int or an expression."""
        if not isinstance(x, sympy.Basic):
            return str(int(x))
        if not all(s in self.sizes.sources for s in x.free_symbols):
            raise _NotWritten
        return f"({printers.PythonPrinter().doprint(x)})"

    def numbers(self, xs):
        return f"({''.join(self.number(x) + ', ' for x in xs)})"

    def object(self, x):
        name = f"o{len(self.names)}"
        self.names[name] = x
        return name

    def at_least_two(self, shape):
        """Requires that open sizes are and stay at least 2: then layouts differ in numbers only."""
        for x in shape:
            if _is_open(x):
                if self.sizes.number_of(x) < 2:
                    raise _NotWritten
                self.checks.append(f"{self.number(x)} > 1")

    def same(self, x, y):
        if sympy.expand(sympy.sympify(x) - sympy.sympify(y)) != 0:
            self.checks.append(f"{self.number(x)} == {self.number(y)}")


def _is_open(x):
    return isinstance(x, sympy.Basic) and bool(x.free_symbols)


def _any_open(*parts):
    return any(_is_open(x) for part in parts for x in part)


def _input(text, bound, val):
    """Text of the input's sizes in memory; None if they never change. ``val`` is the traced
    value."""
    shape = [places.expression(x) for x in val.shape]
    if not _any_open(shape):
        return None
    text.at_least_two(shape)
    return text.numbers([shape[d] for d in bound.order])


def _output(text, sizes, node, order):
    """Text of (sizes in memory, arguments of the maker); None if they never change."""
    shape, strides, (offset,) = sizes.expressions(places.traced(node))
    if not _any_open(shape, strides, [offset]):
        return None
    if offset != 0 or places.origin(node).target in places.LAID_OUT_AS_ARGUMENT:
        raise _NotWritten
    text.at_least_two(shape)
    step = 1
    for d in reversed([d for d in order if shape[d] != 1]):
        text.same(strides[d], step)
        step = step * shape[d]
    dtype = text.object(places.traced(node).dtype)
    made = f"({text.numbers(shape)}, {text.numbers(strides)}, {dtype})"
    return text.numbers([shape[d] for d in order]), made


def _place(text, sizes, output):
    """Text of the view's Place for other sizes; None if it never changes."""
    place = output.place
    own, base = (sizes.expressions(places.traced(n)) for n in place.nodes)
    if not _any_open(*own, *base):
        return None
    text.at_least_two(own[0])
    text.at_least_two(base[0])
    (at,), (before,) = own[2], base[2]
    units = place.units
    offset = at * units[0] - before * units[1]
    numbers = [text.numbers(x) for x in (own[0], own[1], base[1])]
    return f"{text.object(place)}.at({', '.join(numbers)}, {text.number(offset)})"


def write(builder, built, numbers):
    """Generates the function for a graph of open sizes; None if that is not possible. The function
    returns: the sizes of inputs and outputs in memory and the arguments of the outputs' makers
    (None for unchanged ones); the inputs that need another layout; (result, place) of views and
    (result, number) of sizes that change; and the inputs after the arguments (None if unchanged).
    ``numbers`` are arguments whose value the graph was built for."""
    try:
        return _write(builder, built, numbers)
    except _NotWritten:
        return None


def _write(builder, built, numbers):
    sizes, text = builder.sizes, _Text(builder.sizes)
    if numbers:
        same = text.object(scalars.is_same)
        text.checks += [f"{same}(a[{index}], {value!r})" for index, value in numbers.items()]
    vals = [n.meta.get("val") for n in builder.placeholders()]
    inputs, special = [], []
    for bound in built.inputs:
        if bound.index < 0:
            # Constants that are recomputed for each set of sizes: read their sizes afterwards.
            open_ = any(place == -1 - bound.index for place, _ in built.made)
            inputs.append(f"h[{-1 - bound.index}].shape" if open_ else "None")
            continue
        shape = _input(text, bound, vals[bound.index])
        inputs.append(shape or "None")
        if bound.is_special():
            own = shape and text.numbers(places.expression(x) for x in vals[bound.index].shape)
            bound = text.object(bound)
            special.append(f"{bound}.at({own})" if shape else bound)
    shapes, makers = [], []
    for node, order in zip(built.output_nodes, built.orders):
        shape, maker = _output(text, sizes, node, order) or ("None", "None")
        shapes.append(shape)
        makers.append(maker)
    moved, given = [], []
    for at, output in enumerate(built.outputs):
        if output.spread is not None:
            raise _NotWritten
        if output.place is not None and (place := _place(text, sizes, output)):
            moved.append(f"({at}, {place})")
        if output.size is not None:
            given.append(f"({at}, {text.number(output.size.expression)})")
    for expression, value in builder.symbols.fixed.items():
        text.checks.append(f"{text.number(expression)} == {value}")
    return _compile(text, built, inputs + shapes, makers, special, moved, given)


def _compile(text, built, shapes, makers, special, moved, given):
    lines = ["def layouts(a):"]
    for symbol, (index, kind, dim) in text.sizes.sources.items():
        lines.append(f"    {symbol} = {_READ[kind].format(index, dim)}")
    if text.checks:
        checks = " and ".join(dict.fromkeys(text.checks))
        lines.append(f"    if not ({checks}): return None")
    lines.append(f"    h = make([{', '.join(str(s) for s in text.sizes.sources)}])"
                 if built.made else "    h = None")  # fmt: skip
    tuples = [f"({''.join(x + ', ' for x in xs)})" for xs in (shapes, makers, special, moved, given)]
    lines.append(f"    return {', '.join(tuples)}, h")
    names = {**text.names, "make": _maker(text.sizes, built)}
    exec("\n".join(lines), names)  # noqa: S102
    return names["layouts"]


def _maker(sizes, built):
    symbols = tuple(sizes.sources)

    def make(numbers):
        now = sizes.at(dict(zip(symbols, numbers)))
        hidden = list(built.hidden)
        for place, made in built.made:
            hidden[place] = made(now)
        return hidden

    return make
