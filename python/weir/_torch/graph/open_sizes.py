"""The binding of a traced graph, and graphs whose sizes vary between runs (open sizes).

A graph of open sizes is built once, with the sizes of its first call as an example. Its sizes are
symbols (``symbols``). Its constants are further inputs after the arguments; constants that depend
on sizes are computed for each set of sizes.
"""

import copy
import itertools

import torch
from torch.utils import _pytree as pytree

from ... import _C
from ..._create import with_values
from .. import effects, values
from ..lower import fallback, shaping
from .symbols import NotElastic, Size, Symbols


_TABLE = 32  # sizes in a table of numbers
_HALVES = (_C.float16, _C.bfloat16)


class Input:
    """How placeholder ``index`` is bound at each run."""

    def __init__(self, index, name, example, gpu=None):
        self.index, self.name = index, name
        # A number in the host's memory: the GPU gets a copy.
        self.away = gpu and not example.ndim and not gpu.holds(example)
        self.dtype, self.shape = example.dtype, tuple(example.shape)
        # Memory that is dense in some order of dims is used directly; other memory is copied.
        self.order = values.dense_order(self.shape, example.stride())
        self.copied = self.order is None
        if self.copied:
            self.order = tuple(range(len(self.shape)))
        self.strides = None if self.order == tuple(range(len(self.shape))) else example.stride()
        # Lazily conjugated or negated tensors: their values are not in memory.
        self.lazy = isinstance(example, torch.Tensor) and (example.is_conj() or example.is_neg())

    def at(self, shape):
        """The same for other sizes; None if dense memory of these sizes has another order of
        dims."""
        other = copy.copy(self)
        other.shape = shape
        if self.strides is not None:
            inner = values.contiguous_strides(tuple(shape[d] for d in self.order))
            other.strides = tuple(inner[place] for place in values.inverse(self.order))
        return other

    def is_special(self):
        """Whether the argument cannot be used directly."""
        return self.copied or self.strides is not None or self.lazy or self.away

    def spec(self):
        return values.DTYPES[self.dtype], tuple(self.shape[d] for d in self.order)

    def declare_open(self, graph, names):
        """Declares the input with named sizes and returns its value; NotElastic if that is not
        possible."""
        if not values.is_native(self.dtype, self.shape):
            raise NotElastic(f"an argument of type {self.dtype}")
        shape = tuple(names[d] for d in self.order)
        made = graph.input(self.name, shape, values.DTYPES[self.dtype])
        return made if self.strides is None else made.permute(values.inverse(self.order))

    def declare(self, graph):
        """Declares the input. Returns (dtype, shape) of its memory, and its value in the graph."""
        if not values.is_native(self.dtype, self.shape):
            self.copied, self.strides = True, None
            stored = values.storage(self.dtype, self.shape)
            made = graph.input(self.name, stored[1], stored[0])
            return stored, values.Opaque(made, self.dtype, self.shape)
        shape = tuple(self.shape[d] for d in self.order)
        made = graph.input(self.name, shape, values.DTYPES[self.dtype])
        if self.strides is not None:
            made = made.permute(values.inverse(self.order))
        return (values.DTYPES[self.dtype], shape), made


class Output:
    """One result: memory that each run allocates (``slot``), or an argument, or a known value; and
    how to convert it: first to memory of another layout (``spread``), then to a view (``place``)."""

    def __init__(self, slot=None, argument=None, given=None, place=None, size=None, spread=None):
        """``size``: the Size whose number is ``given``."""
        self.slot, self.argument, self.given, self.place = slot, argument, given, place
        self.size, self.spread = size, spread

    def kind(self):
        """The part of the result's description that does not depend on sizes."""
        return self.slot, self.argument, type(self.place), type(self.spread)


class Built:
    """A weir graph with the data needed to run it on PyTorch's tensors."""

    def __init__(self, graph):
        self.graph = graph
        self.origins = None  # modules and lines of its nodes
        self.inputs, self.input_specs = [], []
        self.outputs = []
        self.written = ()  # arguments that the graph writes to
        self.output_specs, self.output_layouts = [], []  # of the graph's outputs; PyTorch's layouts
        self.hidden = []  # values of the inputs after the arguments, which are not passed by the caller
        self.made = []  # of a graph of open sizes: (place in hidden, function of sizes)
        self.orders = []  # by output of the graph: the order of dims in memory,
        self.output_nodes = []  # and its traced node

    def add_output(self, name, tensor, layout):
        """Adds an output, whose memory a run allocates; returns its slot. ``layout`` is
        (sizes, strides, type, offset)."""
        self.graph.output(name, tensor)
        return self.note_output((tensor.dtype, tensor.shape), layout)

    def note_output(self, spec, layout):
        self.output_specs.append(spec)
        self.output_layouts.append(layout)
        return len(self.output_specs) - 1


class _Like:
    """A placeholder for a tensor of which only type, sizes and device are used."""

    def __init__(self, shape, dtype, device):
        self.shape, self.dtype, self.device = shape, dtype, device


def _now(x, sizes):
    if isinstance(x, Size):
        return sizes.number_of(x.expression)
    if isinstance(x, _Like):
        return torch.empty([_now(s, sizes) for s in x.shape], dtype=x.dtype, device=x.device)
    return x


class OpenSizes:
    """The part of a Builder for open sizes."""

    _symbols_input = None  # the values of the symbols, for PyTorch's kernels

    def _open_sizes(self, graph):
        used = [n.meta.get("val") for n in self.placeholders() if n.users]
        dims = [d for v in used if isinstance(v, torch.Tensor) for d in v.shape]
        self._numbers = {}  # sizes that are values, by expression
        self._tables = []  # inputs of the graph: tables of these values
        free = {d.node.expr for d in dims if isinstance(d, torch.SymInt)}
        free = [e for e in free if e in self.sizes.known]
        self.symbols = Symbols(graph, free, self.sizes.known)
        self.symbols.value, self.symbols.hide = self._number, self._hide

    def _size(self, traced, number):
        """Returns a number of the trace, or a Size if it may change."""
        if not self.symbols or not isinstance(traced, torch.SymInt):
            return number
        expression = traced.node.expr
        return Size(expression, self.symbols) if expression.free_symbols else int(expression)

    def _hide(self, made):
        """Makes PyTorch's tensors inputs of the graph."""
        if isinstance(made, (tuple, list)):
            return [self._hide(x) for x in made]
        return self._hide_tensor(made, made.shape) if isinstance(made, torch.Tensor) else made

    def _hide_tensor(self, made, names, make=None):
        """Makes a tensor an input of the graph; ``make`` computes it for other sizes."""
        made = with_values(made.detach()).contiguous()
        if not values.is_native(made.dtype, made.shape):
            raise NotElastic(f"a constant of type {made.dtype}")
        built = self.built
        bound = Input(-1 - len(built.hidden), f"hidden_{len(built.hidden)}", made)
        if make:
            built.made.append((len(built.hidden), make))
        built.hidden.append(made)
        built.inputs.append(bound)
        built.input_specs.append(bound.spec())
        return bound.declare_open(built.graph, tuple(names))

    def _make_constant(self, node, op, args, kwargs):
        """Computes an operator whose result depends only on sizes."""
        if not self.symbols:
            return self._share(op(*args, **kwargs))
        leaves, spec = pytree.tree_flatten((args, kwargs))
        val = node.meta.get("val")
        if not any(isinstance(x, (Size, _Like)) for x in leaves):
            return self._hide(op(*args, **kwargs))
        if not isinstance(val, torch.Tensor):
            raise NotElastic(f"{op} of an open size")

        def make(sizes):
            args, kwargs = pytree.tree_unflatten([_now(x, sizes) for x in leaves], spec)
            return op(*args, **kwargs).detach().contiguous()

        return self._hide_tensor(make(self.sizes), self.symbols.names_of(val.shape), make)

    def _like_open(self, val):
        sizes = [self._size(s, s) for s in val.shape]
        return _Like(sizes, val.dtype, val.device)

    def _sizes_as_values(self, op, args, out):
        """For arithmetic with sizes: replaces each by an input of the graph with one element, of
        the type in which PyTorch computes. Returns the arguments and that type."""
        others = [x for x in args if isinstance(x, _C.Tensor)]
        if not others or not any(isinstance(x, Size) for x in args):
            return args, out
        if out in _HALVES and (op in shaping.SCALING or (self.gpu and op in shaping.IN_RESULTS_TYPE)):
            out = _C.float32  # as a half, 65536 would be infinite
        operand = others[0].dtype
        kind = operand if op in shaping.IN_OPERANDS_TYPE else out
        made = []
        for x in args:
            if isinstance(x, Size):
                x = self._number(x.expression)
                # PyTorch converts integers and bools to one type before it compares them.
                x = x if kind is None or operand is kind is _C.bool_ else x.cast(kind)
            made.append(x)
        return made, out

    def _number(self, expression):
        """The graph's value of a size: an element of a table that is an input of the graph."""
        if expression not in self._numbers:
            if len(self._numbers) % _TABLE == 0:
                self._begin_table()
            at = len(self._numbers) % _TABLE
            self._numbers[expression] = self._tables[-1][at]
        return self._numbers[expression]

    def _begin_table(self):
        first = len(self._tables) * _TABLE

        def make(sizes):
            known = itertools.islice(self._numbers, first, first + _TABLE)
            numbers = [sizes.number_of(expression) for expression in known]
            numbers += [0] * (_TABLE - len(numbers))
            if self.gpu:
                return self.gpu.numbers(numbers)
            return torch.tensor(numbers, dtype=torch.int64)

        self._tables.append(self._hide_tensor(make(self.sizes), (_TABLE,), make))

    def _fallback_open(self, node, op, args, kwargs):
        """Adds PyTorch's kernel to a graph of open sizes; it reads the sizes from an input of the
        graph."""
        if self.gpu:
            raise NotElastic(f"{op} is a kernel of PyTorch's")
        if node is None or effects.is_ordered(op):
            raise NotElastic(f"{op} has an effect, or depends on strides")
        if self._symbols_input is None:
            names = tuple(self.sizes.sources)

            def make(sizes):
                return torch.tensor([int(sizes.known[s]) for s in names], dtype=torch.int64)

            self._symbols_input = self._hide_tensor(make(self.sizes), (len(names),), make)
        return fallback.add_open(op, args, kwargs, node, self.sizes, self.symbols,
                                 self._symbols_input)  # fmt: skip

    def _now(self, x):
        """Converts a Size to its number in the example."""
        return _now(x, self.sizes)

    def at(self, built, known):
        """The binding of a graph of open sizes for other values of the symbols: inputs, specs,
        outputs. None if the graph is not valid for them."""
        if not self.symbols.fits(known):
            return None
        sizes = self.sizes.at(known)
        other = Built(None)
        other.hidden = list(built.hidden)
        for place, make in built.made:
            other.hidden[place] = make(sizes)
        vals = [n.meta.get("val") for n in self.placeholders()]
        for bound, spec in zip(built.inputs, built.input_specs):
            shape = bound.shape
            if bound.index >= 0 and any(isinstance(d, torch.SymInt) for d in vals[bound.index].shape):
                shape = sizes.numbers(vals[bound.index].shape)
            elif bound.index < 0:
                shape = tuple(other.hidden[-1 - bound.index].shape)
            if shape != bound.shape:
                bound = bound.at(shape)
                spec = bound.spec()
            other.inputs.append(bound)
            other.input_specs.append(spec)
        before, self.sizes = self.sizes, sizes
        try:
            self._name_outputs(other)
        finally:
            self.sizes = before
        same = [o.kind() for o in other.outputs] == [o.kind() for o in built.outputs]
        return other if same and other.orders == built.orders else None
