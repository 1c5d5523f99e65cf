"""Maps sizes of a traced graph to named sizes of a weir graph, so that one plan serves all
sizes."""

import functools
import math

import sympy
import torch
from torch.utils._sympy import functions, printers


class NotElastic(Exception):
    """The graph cannot serve all sizes; the text says why."""


def _number(expression):
    return int(expression) if isinstance(expression, (int, sympy.Integer)) else None


@functools.lru_cache(maxsize=4096)
def compiled(expression):
    """(symbols, function of their values) for a size."""
    symbols = tuple(sorted(expression.free_symbols, key=str))
    text = printers.PythonPrinter().doprint(expression)
    names = ", ".join(str(s) for s in symbols)
    return symbols, eval(f"lambda {names}: {text}", {"math": math, "torch": torch})


def evaluate(expression, known):
    """The value of an expression; ``known`` contains its symbols' values."""
    symbols, function = compiled(expression)
    return int(function(*(known[s] for s in symbols)))


class Size:
    """An open size as an argument of an operator. Code that uses it as a number gets the number in
    the example, and thereby fixes the size: other values need another plan."""

    __slots__ = ("expression", "symbols")

    def __init__(self, expression, symbols):
        self.expression, self.symbols = expression, symbols

    def __index__(self):
        return self.symbols.fix(self.expression)

    __int__ = __index__

    def __float__(self):
        return float(self.__index__())

    def __bool__(self):
        return bool(self.__index__())

    def __eq__(self, other):
        return self.__index__() == other

    __hash__ = None


def _with_index(name):
    def method(self, *others):
        return getattr(self.__index__(), name)(*(int(o) if isinstance(o, Size) else o for o in others))

    return method


for _name in ("lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "rmul", "floordiv",
              "rfloordiv", "mod", "rmod", "truediv", "rtruediv", "neg", "abs", "pow"):  # fmt: skip
    setattr(Size, f"__{_name}__", _with_index(f"__{_name}__"))


class Symbols:
    """The named sizes of one weir graph. ``free`` are the symbols that are sizes of its inputs;
    ``known`` are the values of all symbols in the example."""

    def __init__(self, graph, free, known):
        self.graph, self.known = graph, known
        self.names = {symbol: graph.size(int(known[symbol])) for symbol in free}
        self.fixed = {}  # expressions that must keep their value in the example
        self.traced = {}  # traced sizes of values, by the values' id
        # Functions of the graph's builder: make an expression's value, or PyTorch's tensors, an
        # input.
        self.value = self.hide = None

    def fix(self, expression):
        value = evaluate(expression, self.known)
        self.fixed.setdefault(expression, value)
        return value

    def note(self, val, value):
        """Stores the traced sizes of a value. Values live as long as the builder."""
        if isinstance(val, (list, tuple)) and isinstance(value, (list, tuple)):
            for pair in zip(val, value):
                self.note(*pair)
        elif isinstance(val, torch.Tensor):
            self.traced[id(value)] = val.shape

    def fits(self, known):
        """Whether all fixed expressions keep their values for these values of the symbols."""
        return all(evaluate(e, known) == value for e, value in self.fixed.items())

    def name(self, size):
        """The number that represents a traced size, an expression or an int."""
        if isinstance(size, torch.SymInt):
            size = size.node.expr
        if isinstance(size, Size):
            size = size.expression
        if (number := _number(size)) is not None:
            return number
        if not isinstance(size, sympy.Basic):
            return size
        found = self.names.get(size)
        if found is None:
            found = self.names[size] = self._make(size)
        return found

    def names_of(self, shape):
        return tuple(self.name(s) for s in shape)

    def _make(self, e):
        args = e.args
        if isinstance(e, sympy.Add):
            return self._fold("add", args)
        if isinstance(e, sympy.Mul) and all(a.is_integer for a in args):
            return self._fold("mul", args)
        if isinstance(e, sympy.Pow) and _number(args[1]) and 0 < args[1] <= 4:
            return self._fold("mul", [args[0]] * int(args[1]))
        if isinstance(e, (functions.FloorDiv, functions.CleanDiv)):
            return self._fold("floordiv", args)
        if isinstance(e, (functions.Mod, functions.PythonMod)):
            return self._fold("mod", args)
        if isinstance(e, functions.Max):
            return self._fold("max", args)
        if isinstance(e, functions.Min):
            return self._fold("min", args)
        return self.fix(e)  # for example a symbol that is no size of an input

    def _fold(self, op, args):
        made, *rest = (self.name(a) for a in args)
        for other in rest:
            made = self.graph.size(op, made, other)
        return made
