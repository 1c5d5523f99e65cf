"""From a traced graph (FX, in aten operators) to a weir graph for concrete sizes."""

import operator

import torch
from torch.fx.node import map_arg

from .. import _C, _dispatch
from .._create import from_dlpack
from .._log import logger
from ..errors import Error
from . import fallback, library, lowering, values

_WITH_EFFECTS = torch.ops.higher_order.with_effects

_SCOPE_NAMES = {
    "stream": "npu_stream_switch",
    "cores": "limit_core_num",
    "super_kernel": "super_kernel",
    "never_timeout": "op_never_timeout",
}


class Input:
    """How placeholder ``index`` is bound at each run."""

    def __init__(self, index, name, example):
        self.index, self.name = index, name
        self.dtype, self.shape = example.dtype, tuple(example.shape)
        # Memory that is dense in some order of dims is taken as it is; other memory is copied.
        self.order = values.dense_order(self.shape, example.stride())
        self.copied = self.order is None
        if self.copied:
            self.order = tuple(range(len(self.shape)))
        self.strides = None if self.order == tuple(range(len(self.shape))) else example.stride()

    def declare(self, graph):
        """(dtype, shape) of the memory, and the value that the graph's nodes see."""
        if not values.is_native(self.dtype, self.shape):
            self.copied = True
            stored = values.storage(self.dtype, self.shape)
            made = graph.input(self.name, stored[1], stored[0])
            return stored, values.Opaque(made, self.dtype, self.shape)
        shape = tuple(self.shape[d] for d in self.order)
        made = graph.input(self.name, shape, values.DTYPES[self.dtype])
        if self.strides is not None:
            made = made.permute(values.inverse(self.order))
        return (values.DTYPES[self.dtype], shape), made


class Output:
    """One result: memory that each run makes, or something that is known already, or a view
    (``place`` in its memory) of the result of that number."""

    def __init__(self, slot=None, dtype=None, shape=None, strides=None, given=None, argument=None,
                 base=None, place=None):  # fmt: skip
        self.slot, self.dtype, self.shape, self.strides = slot, dtype, shape, strides
        self.given, self.argument = given, argument
        self.base, self.place = base, place


_LARGEST_CONSTANT = 4 << 20  # bytes that a plan keeps for what it could make anew


class Built:
    """A weir graph with what is needed to run it on PyTorch's tensors."""

    def __init__(self, graph):
        self.graph = graph
        self.inputs, self.input_specs = [], []
        self.outputs, self.output_specs = [], []
        self.hidden = []  # outputs that are no results, for what would be taken for dead code


class Builder:
    """Walks the traced graph once, capturing weir operators."""

    def __init__(self, module, device, coverage, gpu=None):
        self.module, self.device, self.coverage = module, device, coverage
        self.gpu = gpu  # PyTorch's side of a device that is one (gpu.py)
        self.env = {}
        self.open = []  # scopes, as _enter got them
        self.constants = {}
        self.shared = []  # their tensors
        self.effects = []  # values that stand for what operators without results do

    def build(self, examples):
        graph = _C.Graph(self.device)
        built = Built(graph)
        for index, (node, example) in enumerate(zip(self._placeholders(), examples)):
            if not isinstance(example, torch.Tensor):
                self.env[node] = example
            elif node.users:
                bound = Input(index, node.name, example)
                spec, self.env[node] = bound.declare(graph)
                built.inputs.append(bound)
                built.input_specs.append(spec)
        with graph:
            try:
                for node in self.module.graph.nodes:
                    if node.op not in ("placeholder", "output"):
                        self.env[node] = self._run(node)
                self._check_scopes()
            finally:
                while self.open:
                    _dispatch.pop(self.open.pop()[0])
        self._name_outputs(built, graph, examples)
        return built

    def _placeholders(self):
        return [n for n in self.module.graph.nodes if n.op == "placeholder"]

    def _check_scopes(self):
        if self.open:
            raise RuntimeError(
                f"{_SCOPE_NAMES[self.open[-1][0]]} was entered and never left: use it in a with "
                "statement"
            )

    # ---- nodes ----

    def _run(self, node):
        if node.op == "get_attr":
            return self._constant(node.target)
        if node.op != "call_function":
            raise NotImplementedError(f"a node of kind {node.op} in a traced graph")
        op, args, kwargs = self._call_of(node)
        if node.target is _WITH_EFFECTS:
            made = self._operator(node, op, args, kwargs)
            made = made if isinstance(made, (list, tuple)) else [made]
            return [self.env[node.args[0]], *made]  # program order is kept anyway
        if node.target in self._ORDER:
            return getattr(self, self._ORDER[node.target])(*args)
        if not isinstance(node.target, torch._ops.OpOverload):
            return node.target(*args, **kwargs)  # getitem, and arithmetic on sizes
        if node.target in self._SIZES:
            return self._SIZES[node.target](*args)
        return self._operator(node, op, args, kwargs)

    def _call_of(self, node):
        """The operator, and its arguments as they are known by now. One with effects stands behind
        the token that orders it."""
        op, args = node.target, node.args
        if op is _WITH_EFFECTS:
            op, args = args[1], args[2:]
        return op, *map_arg((args, dict(node.kwargs)), lambda n: self.env[n])

    def _operator(self, node, op, args, kwargs):
        if op in self._LIKE:
            args = (self._like(node.args[0], args[0]), *args[1:])
        inputs = fallback.pytree.tree_leaves((args, kwargs), is_leaf=fallback._is_value)
        inputs = [x for x in inputs if fallback._is_value(x)]
        if not inputs and torch.Tag.nondeterministic_seeded not in op.tags:
            return self._share(op(*args, **kwargs))  # it gives the same at every run
        lower = self._lowering(node)
        if lower and not any(isinstance(x, values.Opaque) for x in inputs):
            try:
                made = lower(*args, out=lowering.out_dtype(node.meta.get("val")), **kwargs)
                self.coverage.native[str(op)] += 1
                return made
            except (lowering.Decline, TypeError, ValueError, Error) as reason:
                logger.debug("%s runs as PyTorch's kernel: %s", op, reason or "not exactly weir's")
        device = self.gpu and self.gpu.device
        made = fallback.add(op, args, kwargs, self._anchor(), device, self.effects)
        self.coverage.fallback[str(op)] += 1
        return made

    def _like(self, node, x):
        """For operators that ask only what x is like: PyTorch's own tensor of that kind, so that
        they are constants; x itself where those would be large. Its strides are those of a result
        that keeps x's, which are dense."""
        val = node.meta["val"]
        if values.numel(x.shape) * val.dtype.itemsize > _LARGEST_CONSTANT:
            return x
        shape = tuple(x.shape)
        traced = torch.empty_strided(shape, traced_strides(node, shape), device="meta")
        strides = torch.empty_like(traced).stride()
        return torch.empty_strided(shape, strides, dtype=val.dtype, device=val.device)

    def _lowering(self, node):
        """How weir says it; None if it cannot."""
        op, made = node.target, node.meta.get("val")
        if op in lowering.ONLY_FIRST and users_beyond_first(node):
            return None
        if self.gpu and isinstance(made, torch.Tensor) and not self.gpu.holds(made):
            return None
        return lowering.TABLE.get(op)

    def _anchor(self):
        if None not in self.constants:
            self.constants[None] = _C.empty((1,), _C.uint8, self.device)
        return self.constants[None]

    def _constant(self, target):
        if target not in self.constants:
            value = self.module
            for part in target.split("."):
                value = getattr(value, part)
            if not isinstance(value, torch.Tensor):
                raise NotImplementedError(f"'{target}' is a {type(value).__name__}, not a tensor")
            self.constants[target] = self._share(value)
        return self.constants[target]

    def _share(self, made):
        """PyTorch's tensors as constants of the graph."""
        if isinstance(made, (tuple, list)):
            return [self._share(x) for x in made]
        if not isinstance(made, torch.Tensor):
            return made
        made = made.detach().contiguous()
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
        _C.token_wait(tokens)

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
    }
    _SIZES = {
        torch.ops.aten.sym_size.int: lambda x, dim: x.shape[dim],
        torch.ops.aten.sym_numel.default: lambda x: values.numel(x.shape),
        torch.ops.aten.sym_stride.int: lambda x, dim: values.contiguous_strides(x.shape)[dim],
    }

    # ---- results ----

    def _name_outputs(self, built, graph, examples):
        (output,) = [n for n in self.module.graph.nodes if n.op == "output"]
        arguments = {n: i for i, n in enumerate(self._placeholders())}
        slots = {}
        leaves = fallback.pytree.tree_leaves(output.args[0])
        views = find_views(leaves)
        for node in leaves:
            if not isinstance(node, torch.fx.Node):
                built.outputs.append(Output(given=node))
            elif node in arguments:
                built.outputs.append(Output(argument=arguments[node]))
            elif not fallback._is_value(self.env[node]):
                built.outputs.append(Output(given=self.env[node]))
            elif node in slots:
                built.outputs.append(slots[node])
            elif node in views:
                built.outputs.append(views[node])
            else:
                slots[node] = self._output(built, graph, node)
                built.outputs.append(slots[node])
        for i, value in enumerate(self.effects):
            built.hidden.append(Output(len(built.output_specs), torch.float32, tuple(value.shape)))
            built.output_specs.append((value.dtype, value.shape))
            graph.output(f"effect{i}", value)

    def _output(self, built, graph, node):
        value = self._own(graph, self.env[node])
        slot = len(built.output_specs)
        if isinstance(value, values.Opaque):
            graph.output(node.name, value.tensor)
            built.output_specs.append(values.storage(value.dtype, value.shape))
            return Output(slot, value.dtype, value.shape)
        strides = traced_strides(node, value.shape)
        order = values.dense_order(value.shape, strides) or tuple(range(value.ndim))
        natural = order == tuple(range(value.ndim))
        stored = value if natural else value.permute(order)
        graph.output(node.name, stored)
        built.output_specs.append((value.dtype, stored.shape))
        return Output(
            slot, values.torch_dtype(value), value.shape, None if natural else strides
        )


    def _own(self, graph, value):
        """A constant that is a result becomes a copy that the graph makes."""
        tensor = value.tensor if isinstance(value, values.Opaque) else value
        if not any(tensor is c or shares(tensor, c) for c in self.shared):
            return value
        with graph:
            copy = tensor.clone()
        return values.wrap(copy, value.dtype, value.shape) if tensor is not value else copy


def _memory(node):
    """What a traced result's memory is known by, its type, sizes and place in it; None if that
    is not known as numbers."""
    val = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(val, torch.Tensor) or node.op == "placeholder":
        return None
    place = (tuple(val.shape), tuple(val.stride()), val.storage_offset())
    numbers = (*place[0], *place[1], place[2])
    if not all(isinstance(n, int) for n in numbers) or not values.is_native(val.dtype, place[0]):
        return None
    return (val.untyped_storage()._cdata, val.dtype), place, val.untyped_storage().nbytes()


def find_views(leaves):
    """{node: Output} of results that are views of another result: they stay so, since a program
    may write to one and read the other."""
    whole, views = {}, {}
    for at, node in enumerate(leaves):
        known = _memory(node)
        if known is None:
            continue
        memory, (shape, strides, offset), nbytes = known
        dense = offset == 0 and values.dense_order(shape, strides) is not None
        if dense and values.numel(shape) * memory[1].itemsize == nbytes:
            whole.setdefault(memory, (at, node))
    for node in leaves:
        known = _memory(node)
        at, base = whole.get(known[0], (None, node)) if known else (None, node)
        if base is not node:
            views[node] = Output(base=at, place=known[1])
    return views


def shares(tensor, constant):
    """Whether it is a view of the constant's memory."""
    return 0 <= tensor.data_ptr() - constant.data_ptr() < max(constant.nbytes, 1)


def users_beyond_first(node):
    return any(u.target is not operator.getitem or u.args[1] != 0 for u in node.users)


def traced_strides(node, shape):
    """What PyTorch expects of the result's layout, with sizes made concrete."""
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor):
        return values.contiguous_strides(shape)
    if all(isinstance(s, int) for s in val.stride()) and all(isinstance(s, int) for s in val.shape):
        return tuple(val.stride())
    # Symbolic: the order of strides is what counts.
    hints = [getattr(getattr(s, "node", None), "hint", s) for s in val.stride()]
    if any(not isinstance(h, int) for h in hints):
        return values.contiguous_strides(shape)
    order = sorted(range(len(shape)), key=lambda d: (-hints[d], d))
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)
