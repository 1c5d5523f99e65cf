"""Builds a weir graph for concrete sizes of a traced graph (FX, in aten operators)."""

import functools
import operator

import torch
from torch.fx.node import map_arg

from ... import _C, _dispatch
from ..._create import from_dlpack, with_values
from ..._log import logger
from ...errors import Error
from .. import effects, library, values
from ..lower import backward, fallback, grouped, indices, opened, pairs, shaping, table
from . import origins, places
from .open_sizes import Built, Input, OpenSizes
from .places import Unsupported
from .results import Results
from .symbols import NotElastic

aten = torch.ops.aten
_WITH_EFFECTS = torch.ops.higher_order.with_effects

_SCOPE_NAMES = {
    "stream": "npu_stream_switch",
    "cores": "limit_core_num",
    "super_kernel": "super_kernel",
    "never_timeout": "op_never_timeout",
}


_LARGEST_CONSTANT = 4 << 20  # bytes of a constant that a plan keeps instead of recomputing


class Builder(Results, OpenSizes):
    """Walks the traced graph once, capturing weir operators."""

    def __init__(self, module, device, coverage, gpu=None, written=()):
        """``written``: the placeholders whose new values are the last results (updates.py)."""
        self.module, self.device, self.coverage = module, device, coverage
        self.written, self.in_place, self.placed = written, set(), set()
        self.gpu = gpu  # PyTorch's side of a GPU (gpu.py), or None
        self.env = {}
        self.open = []  # open scopes: the arguments of _enter
        self.constants = {}
        self.shared = []  # their PyTorch tensors
        self.effect = None  # token of the last operator with effects
        self.symbols = None  # for a graph of open sizes
        self.early, self.indices = {}, {}  # see _follow
        self.hosted = False  # whether a result that the graph makes must be in the host's memory

    def build(self, examples, elastic=False):
        """Builds the graph for the sizes of the examples, or for all sizes if ``elastic``. Raises
        NotElastic if the latter is not possible."""
        graph = _C.Graph(self.device)
        built = self.built = Built(graph)
        built.origins = origins.Origins(graph)
        self.sizes = places.Sizes(self.placeholders(), examples)
        if elastic:
            self._open_sizes(graph)
        built.written = () if elastic else self._plan_writes(examples)
        given = [(n, x) for n, x in zip(self.placeholders(), examples) if isinstance(x, torch.Tensor)]
        self.begins = {n: x.storage_offset() for n, x in given}
        for index, (node, example) in enumerate(zip(self.placeholders(), examples)):
            if not isinstance(example, torch.Tensor):
                self.env[node] = self._size(node.meta.get("val"), example)
            elif node.users or index in built.written:
                bound = Input(index, node.name, example, self.gpu)
                if self.symbols:
                    names = self.symbols.names_of(node.meta["val"].shape)
                    self.env[node] = bound.declare_open(graph, names)
                    spec = bound.spec()
                else:
                    spec, self.env[node] = bound.declare(graph)
                built.inputs.append(bound)
                built.input_specs.append(spec)
        with graph:
            try:
                for node in self.module.graph.nodes:
                    if node.op not in ("placeholder", "output"):
                        built.origins.enter(node)
                        self.env[node] = self._run(node)
                        self._follow(node)
                    if self.symbols:
                        self.symbols.note(node.meta.get("val"), self.env.get(node))
                self._check_scopes()
                self._join_results()
                self._write(built)
            finally:
                while self.open:
                    _dispatch.pop(self.open.pop()[0])
                built.origins.leave()
                indices.forget()
        self._name_outputs(built)
        built.origins.leave()
        return built

    # ---- the trace ----

    @functools.cached_property
    def _ends(self):
        """The graph's placeholders, and its output."""
        nodes = self.module.graph.nodes
        (output,) = [n for n in nodes if n.op == "output"]
        return [n for n in nodes if n.op == "placeholder"], output

    def placeholders(self):
        return self._ends[0]

    def _check_scopes(self):
        if self.open:
            raise RuntimeError(
                f"{_SCOPE_NAMES[self.open[-1][0]]} was entered and never left: use it in a with "
                "statement"
            )

    # ---- nodes ----

    def _follow(self, node):
        """Builds values that are placed right after a node, next to their neighbours: the wrapped
        index if the node is an index for writing, and new values of arguments with few elements."""
        for n in self.indices.get(node, ()):
            if isinstance(self.env[node], _C.Tensor):
                indices.wrap_early(self.env[node], n)
        for argument, value in self.early.get(node, ()):
            made, target = self.env[value], self.env[argument]
            if not isinstance(made, values.Opaque):
                target.copy_(made.cast(target.dtype).expand(tuple(target.shape)))
                self.placed.add(value)

    def _run(self, node):
        if node.op == "get_attr":
            return self._constant(node.target)
        if node.op != "call_function":
            raise NotImplementedError(f"a node of kind {node.op} in a traced graph")
        op, args, kwargs = self._call_of(node)
        if node.target is _WITH_EFFECTS:
            made = self._operator(node, op, args, kwargs)
            made = made if isinstance(made, (list, tuple)) else [made]
            return [self.env[node.args[0]], *made]  # nodes stay in program order
        if node.target in self._ORDER:
            return getattr(self, self._ORDER[node.target])(*args)
        if node.target in effects.SIZES:
            return self._size(node.meta["val"], self.sizes.number(node.meta["val"]))
        if self.symbols and isinstance(node.meta.get("val"), torch.SymInt):
            return self._size(node.meta["val"], None)
        if node.target in self._BY_STRIDES:
            return getattr(self, self._BY_STRIDES[node.target])(node, *args, **kwargs)
        if not isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
            return node.target(*args, **kwargs)  # getitem, and arithmetic on sizes
        return self._operator(node, op, args, kwargs)

    def _call_of(self, node):
        """Returns the operator, and its arguments as values of the graph. An operator with effects
        is ordered after the token."""
        op, args = node.target, node.args
        if op is _WITH_EFFECTS:
            op, args = args[1], args[2:]
        return op, *map_arg((args, dict(node.kwargs)), lambda n: self.env[n])

    def _operator(self, node, op, args, kwargs):
        if op in self._LIKE:
            args = (self._like(node.args[0], args[0]), *args[1:])
        if pairs.among((args, kwargs)):
            return self._on_pairs(node, op, args, kwargs)
        inputs = fallback.values_in((args, kwargs))
        if not inputs and effects.is_constant(op):
            return self._make_constant(node, op, args, kwargs)
        if self.symbols and op in shaping.TABLE:
            self.coverage.native[str(op)] += 1
            return shaping.TABLE[op](self.symbols, node, *args, **kwargs)
        if op in pairs.MAKE and self._makes_pair(node):
            self.coverage.native[str(op)] += 1
            return pairs.MAKE[op](*args)
        lower = self._lowering(node)
        if self.symbols and lower and not shaping.is_safe(node):
            lower = opened.find(self.symbols, node) if lower is table.find(op) else None
        if lower and not any(isinstance(x, values.Opaque) for x in inputs):
            try:
                own = {"own": True} if node in self.in_place else {}
                out = table.out_dtype(node.meta.get("val"))
                given, wide = args, out
                if self.symbols and op in shaping.ARITHMETIC:
                    given, wide = self._sizes_as_values(op, args, out)
                once = grouped.once(node, given, self.env)
                made = lower(*once, out=wide, **own, **grouped.layout(node), **kwargs)
                made = made if wide is out else made.cast(out)
                if own:
                    self.placed.add(node)
                    indices.forget(made)  # values derived from the old elements
                else:
                    table.check(made, node.meta.get("val"))
                self.coverage.native[str(op)] += 1
                return made
            except (table.Decline, TypeError, ValueError, Error) as reason:
                logger.debug("%s runs as PyTorch's kernel: %s", op, reason or "not exactly weir's")
        made = None if self.symbols else self._made(node)
        return self._fallback(op, args, kwargs, made, node)

    def _made(self, node):
        """(type, sizes) of the results of a node's operator, None for results that are no tensors,
        nested in lists like the results."""
        val = node.meta.get("val")
        if node.target is _WITH_EFFECTS:
            val = val[1:] if len(val) != 2 else val[1]

        def made(x):
            if isinstance(x, (list, tuple)):
                return [made(one) for one in x]
            return (x.dtype, self.sizes.numbers(x.shape)) if isinstance(x, torch.Tensor) else None

        return made(val)

    def _on_pairs(self, node, op, args, kwargs):
        """Lowers an operator on complex numbers, which are pairs of values."""
        if op in pairs.TABLE and node.meta["val"].dtype in (torch.complex64, torch.float32):
            made = pairs.TABLE[op](*args)
            if made is not NotImplemented:
                self.coverage.native[str(op)] += 1
                return made
        if op in pairs.EACH and (made := pairs.on_each(self.symbols, node, args, kwargs)):
            self.coverage.native[str(op)] += 1
            return made
        args, kwargs = fallback.pytree.tree_map(
            lambda x: self._joined(x) if isinstance(x, pairs.Pair) else x, (args, kwargs)
        )
        return self._operator(node, op, args, kwargs)

    def _makes_pair(self, node):
        is_open = self.symbols and any(isinstance(s, torch.SymInt) for s in node.meta["val"].shape)
        return node.meta["val"].dtype is torch.complex64 and not is_open

    def _joined(self, pair):
        """Converts a pair to PyTorch's complex layout."""
        if self.symbols:
            raise NotElastic("a complex value is used by PyTorch's operators")
        made = torch.complex64, tuple(pair.real.shape)
        return self._fallback(aten.complex.default, (pair.real, pair.imag), {}, made)

    def _fallback(self, op, args, kwargs, made, node=None):
        if self.symbols:
            back = self._fallback_open(node, op, args, kwargs)
            self.coverage.fallback[str(op)] += 1
            return back
        ordered = effects.is_ordered(op)
        behind = self.effect if ordered else None
        unused = fallback.unused(node)
        back, tensor = fallback.add(op, args, kwargs, made, self._anchor(), behind, unused)
        if ordered:
            self.effect = tensor
        self.coverage.fallback[str(op)] += 1
        return back

    def _like(self, node, x):
        """For operators that use only the type and sizes of x: returns a tensor of PyTorch like x,
        so that the operators become constants; or x itself if these would be large. The tensor has
        the strides of a result that preserves x's, which are dense."""
        val = node.meta["val"]
        if self.symbols:
            return self._like_open(val)
        if values.numel(x.shape) * val.dtype.itemsize > _LARGEST_CONSTANT:
            return x
        shape = tuple(x.shape)
        traced = torch.empty_strided(shape, self.sizes.numbers(val.stride()), device="meta")
        strides = torch.empty_like(traced).stride()
        return torch.empty_strided(shape, strides, dtype=val.dtype, device=val.device)

    def _lowering(self, node):
        """The lowering of the node's operator; None if weir has none."""
        op, made = node.target, node.meta.get("val")
        if op in table.ONLY_FIRST and users_beyond_first(node):
            return backward.ALL_OUTPUTS.get(op)
        if not self._may_be_here(node):
            return None
        return table.find(op)

    def _may_be_here(self, node):
        """Whether the device can compute the value: on a GPU, if it is a tensor there or a number
        that only such tensors are made of."""
        made = places.traced(node)
        return not self.gpu or made is None or self.gpu.holds(made) or node in self._inside

    @functools.cached_property
    def _inside(self):
        """The host's numbers that are used only for values on the GPU, directly or through each
        other. A result, a tensor of the host or a size that is made of a number needs it there."""
        inside = set()
        for node in reversed(self.module.graph.nodes):
            made = places.traced(node)
            if made is not None and not made.ndim and node.users:
                if all(user in inside or self._is_there(user) for user in node.users):
                    inside.add(node)
        return inside

    def _is_there(self, node):
        """Whether the node's value is a tensor in the GPU's memory."""
        return places.traced(node) is not None and self.gpu.holds(places.traced(node))

    def _anchor(self):
        if None not in self.constants:
            self.constants[None] = _C.empty((1,), _C.uint8, self.device)
        return self.constants[None]

    def _constant(self, target):
        if target not in self.constants:
            value = self.module
            for part in target.split("."):
                value = getattr(value, part)
            self.constants[target] = self._share(value)
        return self.constants[target]

    def _share(self, made):
        """Makes PyTorch's tensors constants of the graph."""
        if self.symbols:
            return self._hide(made)
        if isinstance(made, (tuple, list)):
            return [self._share(x) for x in made]
        if not isinstance(made, torch.Tensor):
            return made
        made = with_values(made.detach()).contiguous()
        if self.gpu and not self.gpu.holds(made):
            made = made.to(self.gpu.device)
        native = values.is_native(made.dtype, made.shape)
        if not native and not made.numel():
            flat = torch.empty(0, dtype=torch.uint8, device=made.device)
        else:
            flat = made if native else made.view(-1).view(torch.uint8)
        self.shared.append(from_dlpack(flat, self.device))
        return values.wrap(self.shared[-1], made.dtype, tuple(made.shape))

    # ---- scopes, waits and tokens ----

    def _enter(self, kind, text, first, second):
        _dispatch.push(kind, text, first, second)
        self.open.append((kind, text, first, second))

    def _leave(self, kind):
        self._check_leave(kind)
        _dispatch.pop(self.open.pop()[0])

    def _check_leave(self, kind):
        if not self.open or self.open[-1][0] != kind:
            inside = "without its enter"
            if self.open:
                inside = f"inside {_SCOPE_NAMES[self.open[-1][0]]}"
            raise RuntimeError(f"{_SCOPE_NAMES[kind]} is left {inside}")

    def _wait_tensor(self, tensor, dependency):
        _C.wait_tensor(
            tensor.tensor if isinstance(tensor, values.Opaque) else tensor,
            dependency.tensor if isinstance(dependency, values.Opaque) else dependency,
        )

    def _record(self, anchor=None):
        return _C.token_record(self.device)

    def _wait(self, tokens):
        _C.token_wait([t.tensor if isinstance(t, values.Opaque) else t for t in tokens])

    def _record_event(self, tag):
        _C.tagged_event_record(self.device, tag)

    def _wait_event(self, tag):
        _C.tagged_event_wait(self.device, tag)

    _ORDER = {
        library.scope_enter: "_enter",
        library.scope_leave: "_leave",
        library.wait_tensor: "_wait_tensor",
        library.record: "_record",
        library.wait: "_wait",
        library.event_record: "_record_event",
        library.event_wait: "_wait_event",
    }
    _LIKE = {
        torch.ops.aten.zeros_like.default,
        torch.ops.aten.ones_like.default,
        torch.ops.aten.full_like.default,
        torch.ops.aten.new_zeros.default,
        torch.ops.aten.new_ones.default,
        torch.ops.aten.new_full.default,
        torch.ops.aten.empty_like.default,
        torch.ops.aten.new_empty.default,
    }
    _BY_STRIDES = {
        aten.as_strided.default: "_as_strided",
        aten.as_strided_copy.default: "_as_strided",
        aten.as_strided_scatter.default: "_as_strided_scatter",
    }

    # ---- operators that depend on memory layout ----

    def _flat(self, node):
        """The value's elements as one dim, in the order of PyTorch's memory, with the order of
        dims."""
        shape, strides, _ = self.sizes.layout(places.traced(node))
        order, value = values.dense_order(shape, strides), self.env[node]
        if order is None or isinstance(value, values.Opaque):
            raise Unsupported(f"a view by strides of {node.name}, which has gaps")
        return value.permute(order).reshape((values.numel(shape),)), order

    def _begins(self, node):
        """The offset of the node's value in its memory. Guards do not check it for arguments."""
        base = places.origin(node)
        own, before = (places.traced(n).storage_offset() for n in (node, base))
        if base in self.begins:
            start = self.begins[base]
        elif base.target in places.LAID_OUT_AS_ARGUMENT:
            start = self._begins(base.args[0])
        else:
            start = self.sizes.number(before)
        return start + self.sizes.number(own) - self.sizes.number(before)

    def _as_strided(self, node, x, size, stride, offset=None):
        source = node.args[0]
        base = places.origin(source)
        if offset is None:
            offset = self.sizes.number(places.traced(source).storage_offset())
            offset -= self.sizes.number(places.traced(base).storage_offset())
        else:
            offset -= self._begins(base)
        flat, _ = self._flat(base)
        end = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride))
        if offset < 0 or end > max(flat.shape[0], 1):
            raise Unsupported(f"{node.name} extends beyond {base.name}")
        made = self._made(node)
        return self._fallback(aten.as_strided.default, (flat, size, stride, offset), {}, made)

    def _as_strided_scatter(self, node, x, source, size, stride, offset=None):
        shape = self.sizes.layout(places.traced(node.args[0]))[0]
        flat, order = self._flat(node.args[0])
        offset = 0 if offset is None else offset - self._begins(node.args[0])
        made = values.torch_dtype(flat), tuple(flat.shape)
        args = flat, source, size, stride, offset
        written = self._fallback(aten.as_strided_scatter.default, args, {}, made)
        written = written.reshape(tuple(shape[d] for d in order))
        return written.permute(values.inverse(order))


def users_beyond_first(node):
    return any(u.target is not operator.getitem or u.args[1] != 0 for u in node.users)
