"""The memory layout of a traced graph's results.

PyTorch expects a compiled graph to behave like the traced one: a result that is a view of an
argument or of another result must be such a view here too, with the same sizes, strides and offset.
Programs write to one tensor and read the other, and PyTorch makes further views of results.
"""

import collections
import contextlib
import copy
import operator

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import values
from . import symbols


class Unsupported(Exception):
    """weir cannot run the graph; the text says why."""


class Sizes:
    """The sizes of a traced graph for the arguments of one call."""

    def __init__(self, placeholders, args):
        self.known, self._numbers, self._layouts = {}, {}, {}
        self._traced = {}  # by id: a traced tensor, and the expressions of its layout
        self.sources = {}  # how each symbol is read from the arguments: (index, what, dim)
        for index, (node, arg) in enumerate(zip(placeholders, args)):
            val = node.meta.get("val")
            if isinstance(val, torch.Tensor) and isinstance(arg, torch.Tensor):
                self._learn(index, "shape", val.shape, arg.shape)
                self._learn(index, "stride", val.stride(), arg.stride())
                self._learn(index, "offset", [val.storage_offset()], [arg.storage_offset()])
            else:
                self._learn(index, "value", [val], [arg])

    def _learn(self, index, what, traced, numbers):
        for dim, (symbol, number) in enumerate(zip(traced, numbers)):
            if isinstance(symbol, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                expression = symbol.node.expr
                if isinstance(expression, sympy.Symbol) and expression not in self.known:
                    self.known[expression] = sympy.sympify(number)
                    self.sources[expression] = index, what, dim

    def at(self, known):
        """The same for other values of the symbols."""
        other = object.__new__(Sizes)
        other.known, other._numbers, other._layouts = known, {}, {}
        other._traced = self._traced
        other.sources = self.sources
        return other

    def number(self, x):
        """The number of a traced size."""
        if not isinstance(x, torch.SymInt):
            return x
        return self.number_of(x.node.expr)

    def number_of(self, expression):
        found = self._numbers.get(expression)
        if found is None:
            names, function = symbols.compiled(expression)
            if not all(name in self.known for name in names):
                raise Unsupported(f"the size {expression} is known only while the graph runs")
            found = int(function(*(self.known[name] for name in names)))
            self._numbers[expression] = found
        return found

    def numbers(self, traced):
        return tuple(self.number(x) for x in traced)

    def layout(self, val):
        """(sizes, strides, offset) of a traced tensor."""
        found = self._layouts.get(id(val))
        if found is None:
            sizes, strides, (offset,) = (
                tuple(x if type(x) is int else self.number_of(x) for x in part)
                for part in self.expressions(val)
            )
            found = self._layouts[id(val)] = sizes, strides, offset
        return found

    def expressions(self, val):
        """Sizes, strides and [offset] of a traced tensor, as ints and expressions."""
        # Keep the tensor alive, so that no other tensor gets its id.
        if id(val) not in self._traced:
            parts = val.shape, val.stride(), (val.storage_offset(),)
            self._traced[id(val)] = val, [[expression(x) for x in part] for part in parts]
        return self._traced[id(val)][1]


def expression(x):
    """A traced size as an int or an expression."""
    return x.node.expr if isinstance(x, torch.SymInt) else int(x)


def traced(node):
    """The node's value as PyTorch traced it, if it is a tensor; else None."""
    val = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return val if isinstance(val, torch.Tensor) else None


def _memories(node):
    """The identities of the memory of each tensor in the node's value."""
    val = node.meta.get("val")
    vals = val if isinstance(val, (list, tuple)) else [val]
    return [x.untyped_storage()._cdata for x in vals if _has_memory(x)]


def memory(node):
    """The identity of the memory of the node's value; None if that is no tensor with memory."""
    val = traced(node)
    return val.untyped_storage()._cdata if val is not None and _has_memory(val) else None


def _has_memory(x):
    return isinstance(x, torch.Tensor) and x.layout is torch.strided


def _above(node, memory):
    """The node from whose value this node's value has its memory; None if it has its own."""
    for up in node.all_input_nodes:
        if memory in _memories(up):
            return up if traced(up) is not None else _above(up, memory)
    return None


def mend_parts(module):
    """Adds missing metadata to nodes that PyTorch inserts (random numbers that are drawn again),
    from the nodes that use their parts."""
    for node in module.graph.nodes:
        if node.op == "call_function" and "val" not in node.meta and node.users:
            parts = {u.args[1]: u.meta.get("val") for u in node.users if u.target is operator.getitem}
            if sorted(parts) == [0, 1] and len(parts) == len(node.users):
                node.meta["val"] = parts[0], parts[1]


def mend_views(module):
    """Traces views again whose memory is not that of their base: PyTorch replaces nodes by others
    (a number that is an argument becomes a part of arithmetic) without updating the nodes after
    them."""
    for node in module.graph.nodes:
        val, up = traced(node), node.args[0] if node.args else None
        if val is None or traced(up) is None or not _is_view_of_first(node.target):
            continue
        if _has_memory(val) and _has_memory(traced(up)) and _memories(node) != _memories(up):
            args, kwargs = torch.fx.node.map_arg(
                (node.args, dict(node.kwargs)), lambda n: n.meta["val"]
            )
            with val.fake_mode if isinstance(val, FakeTensor) else contextlib.nullcontext():
                node.meta["val"] = node.target(*args, **kwargs)


def _is_view_of_first(op):
    if not isinstance(op, torch._ops.OpOverload) or len(op._schema.returns) != 1:
        return False
    first, made = op._schema.arguments[:1], op._schema.returns[0].alias_info
    return bool(first) and made is not None and first[0].alias_info is not None and not made.is_write


def origin(node):
    """The node of whose value this node's value is a view; itself if it is no view. Cached in the
    node, since graphs do not change once building has begun."""
    found = node.meta.get("weir_origin")
    if found is None:
        found = node.meta["weir_origin"] = _find_origin(node)
    return found


def _find_origin(node):
    (memory,) = _memories(node)
    while (up := _above(node, memory)) is not None:
        node = up
    return node


def _is_detached(node, base):
    """Whether the program detached the view from gradients. Every other view of a result that
    requires a gradient requires one too, even if it was made under no_grad."""
    first = node
    found = first.meta.get("weir_detached")
    if found is not None and found[0] is base:
        return found[1]
    (memory,), detached = _memories(node), False
    while node is not None and node is not base and not detached:
        detached = node.target is torch.ops.aten.detach.default
        node = _above(node, memory)
    first.meta["weir_detached"] = base, detached
    return detached


# These copy their argument with its strides and its offset. Fake tensors do not always show this,
# and PyTorch relies on it if an argument is written through a view that is returned.
LAID_OUT_AS_ARGUMENT = {
    torch.ops.aten.slice_scatter.default,
    torch.ops.aten.select_scatter.default,
    torch.ops.aten.diagonal_scatter.default,
    torch.ops.aten.as_strided_scatter.default,
}


def layout(sizes, node):
    """(sizes, strides, offset) of the node's result when PyTorch runs it."""
    shape, strides, offset = sizes.layout(traced(node))
    base = origin(node)
    if base.target in LAID_OUT_AS_ARGUMENT:
        offset -= sizes.number(traced(base).storage_offset())
        offset += layout(sizes, base.args[0])[2]
    return shape, strides, offset


class Place:
    """How to make a view of its base: ``offset`` is relative to the base's own offset, in bytes if
    the types differ."""

    def __init__(self, sizes, node, base):
        self.nodes = node, base
        self.detached = _is_detached(node, base)
        val, base = traced(node), traced(base)
        self.shape, self.strides, offset = sizes.layout(val)
        base_shape, base_strides, before = sizes.layout(base)
        self.dims = [d for d, n in enumerate(base_shape) if n > 1]
        self.base_strides = base_strides
        self.dtype = val.dtype if val.dtype != base.dtype else None
        # The units of the two offsets.
        self.units = (val.dtype.itemsize, base.dtype.itemsize) if self.dtype else (1, 1)
        self.offset = offset * self.units[0] - before * self.units[1]
        self.conj = val.is_conj() != base.is_conj()
        self.neg = val.is_neg() != base.is_neg()

    def at(self, shape, strides, base_strides, offset):
        """The same with other numbers."""
        other = copy.copy(self)
        other.shape, other.strides = shape, strides
        other.base_strides, other.offset = base_strides, offset
        return other

    def of(self, base):
        found = base.stride()
        if any(found[d] != self.base_strides[d] for d in self.dims):
            # A gradient, for example, may have another layout than the traced one.
            like = torch.empty_strided(
                base.shape, self.base_strides, dtype=base.dtype, device=base.device
            )
            base = like.copy_(base)
        if self.dtype:
            at = base.storage_offset() * base.dtype.itemsize + self.offset
            view = torch.empty(0, dtype=self.dtype, device=base.device)
            at //= self.dtype.itemsize
            view.set_(base.untyped_storage(), at, self.shape, self.strides)
        else:
            at = base.storage_offset() + self.offset
            view = base.as_strided(self.shape, self.strides, at)
        view = torch._conj(view) if self.conj else view
        view = torch._neg_view(view) if self.neg else view
        return view.detach() if self.detached else view


_BY_OFFSET = {
    torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default,
    torch.ops.aten.as_strided_scatter.default,
}  # fmt: skip


def seen_by_offset(module):
    """The arguments whose offset in memory the graph depends on."""
    seen = set()
    for node in module.graph.nodes:
        if node.target in _BY_OFFSET:
            base = _find_origin(node.args[0])
            while base.target in LAID_OUT_AS_ARGUMENT:
                base = _find_origin(base.args[0])
            seen.add(base)
    arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
    return tuple(i for i, n in enumerate(arguments) if n in seen)


def is_dense(sizes, node):
    """Whether the node's value has no gaps and is not lazily negated or conjugated: then memory of
    the same layout can hold its views."""
    val = traced(node)
    dense = values.dense_order(*sizes.layout(val)[:2]) is not None
    return dense and not (val.is_conj() or val.is_neg())


def shared(results):
    """The memories that several of these nodes have."""
    count = collections.Counter(memory(n) for n in set(results))
    return {one for one, nodes in count.items() if nodes > 1 and one is not None}


def can_spread(sizes, node):
    """Whether a copy can have the layout of the node's value: no elements share memory."""
    val = traced(node)
    shape, strides, _ = sizes.layout(val)
    apart = all(s for n, s in zip(shape, strides) if n > 1) or 0 in shape
    return apart and not (val.is_conj() or val.is_neg())


class Spread:
    """A result whose memory has gaps and that is no view of an argument or result: the value is
    copied to such memory."""

    def __init__(self, sizes, node):
        self.shape, self.strides, self.offset = layout(sizes, node)

    def of(self, dense):
        shape = self.shape
        if 0 in shape:
            return torch.empty_strided(shape, self.strides, dtype=dense.dtype, device=dense.device)
        if any(n > 1 and not s for n, s in zip(shape, self.strides)):
            return dense  # elements that share memory cannot be a copy's target
        span = self.offset + 1 + sum((n - 1) * s for n, s in zip(shape, self.strides))
        memory = torch.empty(span, dtype=dense.dtype, device=dense.device)
        return memory.as_strided(shape, self.strides, self.offset).copy_(dense)
