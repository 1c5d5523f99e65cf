"""Splits a traced graph on a GPU, in which some operators are PyTorch's, into steps (see steps.py).

Consecutive operators that weir supports, on one stream, become one plan. Anything else ends the
plan.
"""

import operator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import _C, _dispatch
from ..._create import from_dlpack, with_values
from ..._log import logger
from ...errors import Error
from .. import effects, values
from ..graph import build, open_sizes, places, results
from ..graph.places import Unsupported
from ..lower import fallback, grouped, indices, table
from ..rewrite import updates
from .program import Stitched
from .steps import CallStep, OrderStep, PlanStep, Value


class _Segment:
    """A weir graph that is being captured."""

    def __init__(self, device, tag):
        self.tag = tag
        self.built = open_sizes.Built(_C.Graph(device))
        self.reads, self.symbols = [], {}  # Values, and the graph's values for them
        self.writes = False  # whether it writes to arguments
        self.nodes = []  # traced nodes whose values are in the graph


class _Token:
    """The point of a stream after a step."""

    def __init__(self, step):
        self.step = step


def _is_symbol(x):
    return isinstance(x, _C.Tensor)


class Stitcher(build.Builder):
    """Walks the traced graph like Builder, and ends plans where necessary. ``compile`` makes a
    plan's function of a Built."""

    def __init__(self, module, gpu, coverage, compile, single_stream=False, written=()):
        super().__init__(module, gpu.weir, coverage, gpu, written)
        self.compile, self.single_stream = compile, single_stream
        self.segment, self.steps = None, []
        self.constants, self.tensors = {}, []  # by name; [(slot, tensor)]
        self.shared = {}  # the same for plans: {slot: weir tensor}
        self.waits = {}  # {tag: steps that the stream's next step must wait for}
        self.priorities = {}
        self.size = 0  # number of slots so far

    def stitch(self, examples):
        placeholders = self.placeholders()
        self.sizes = places.Sizes(placeholders, examples)
        self.written = () if effects.orders(self.module) else self._plan_writes(examples)
        self._find_bases()
        self.size = len(examples)
        for slot, (node, example) in enumerate(zip(placeholders, examples)):
            is_tensor = isinstance(example, torch.Tensor)
            self.env[node] = Value.like(slot, example) if is_tensor else example
        try:
            for node in self.module.graph.nodes:
                if node.op not in ("placeholder", "output"):
                    self.env[node] = self._run(node)
            self._check_scopes()
            self._write_arguments()
            self._close()
        finally:
            self._abandon()
            indices.forget()
        made = Stitched(
            self.gpu, self.steps, self.priorities, self.tensors, len(examples), self._results()
        )
        made.written = self.written
        return made

    def _find_bases(self):
        """Finds the bases of results that are views: the bases' values are needed, those of the
        views are not."""
        (output,) = [n for n in self.module.graph.nodes if n.op == "output"]
        leaves = pytree.tree_leaves(output.args[0])
        self.leaves = leaves[: len(leaves) - len(self.written)]
        self.bases, self.output = {}, output
        shared = places.shared(self.leaves)
        for node in self.leaves:
            if places.traced(node) is not None:
                base = places.origin(node)
                whole = base.op == "placeholder" or places.is_dense(self.sizes, base)
                if places.traced(base).untyped_storage()._cdata in shared:
                    whole = whole or places.can_spread(self.sizes, base)
                self.bases[node] = base if whole else node
        self.needed = set(self.bases.values())
        self.needed |= {v for _, v in updates.values(self.module.graph, self.written)}

    def _write_arguments(self):
        """Writes arguments' new values that are not written yet, in the last plan."""
        pairs = updates.values(self.module.graph, self.written)
        left = [(argument, node) for argument, node in pairs if node not in self.placed]
        if not left:
            return
        if self.segment is None:
            self._begin()
        arguments, writes = {argument for argument, _ in pairs}, []
        for argument, node in left:
            target, value = (
                self._bring(x) if isinstance(x, Value) else x
                for x in (self.env[argument], self.env[node])
            )
            value = value.cast(target.dtype).expand(tuple(target.shape))
            if places.origin(node) in arguments:  # which may be written to first
                value = value.clone()
            writes.append((target, value))
            self._note_write(argument)
        for target, value in writes:
            target.copy_(value)

    def _note_write(self, argument):
        """Notes that the open plan writes to an argument."""
        self.segment.writes = True
        self.segment.built.written += (self.segment.reads.index(self.env[argument]),)

    def _is_needed(self, node):
        """Whether a later node uses the node's value."""
        if node in self.needed:
            return True
        return any(u not in self.env and u is not self.output for u in node.users)

    # ---- plans ----

    def _tag(self):
        streams = [s for s in self.open if s[0] == "stream" and not self.single_stream]
        tag = streams[-1][1] if streams else None
        return None if tag == "default" else tag

    def _cores(self):
        limits = [scope for scope in self.open if scope[0] == "cores"]
        return limits[-1][2:] if limits else None

    def _inner(self):
        """The scopes that apply inside plans."""
        return [scope for scope in self.open if scope[0] != "stream"]

    def _begin(self):
        self.segment = _Segment(self.device, self._tag())
        self.segment.built.graph.__enter__()
        for scope in self._inner():
            _dispatch.push(*scope)

    def _leave_graph(self):
        indices.forget()
        for scope in reversed(self._inner()):
            _dispatch.pop(scope[0])
        self.segment.built.graph.__exit__(None, None, None)

    def _abandon(self):
        """Discards the open plan after an error."""
        if self.segment is not None:
            self._leave_graph()
            self.segment = None

    def _close(self):
        """Closes the plan. Its values that later steps use become Values."""
        segment = self.segment
        if segment is None:
            return
        self._leave_graph()
        self.segment = None
        made = {}  # by the identity of the graph's value: each view is an output of its own
        for node in segment.nodes:
            self.env[node] = self._publish(segment, node, self.env[node], made)
        if made or segment.writes:
            run = self.compile(segment.built)
            makes = [value for _, value in made.values()]
            self._add(PlanStep(segment.tag, segment.reads, run, makes))

    def _publish(self, segment, node, value, made):
        if isinstance(value, (list, tuple)):
            # Each used element of a list is a separate value.
            wanted = {u.args[1] for u in node.users if u not in self.env}
            return [
                self._publish_one(segment, f"{node.name}_{i}", x, None, made)
                if i in wanted and _is_symbol(x) else x
                for i, x in enumerate(value)
            ]
        if not _is_symbol(value) or not self._is_needed(node):
            return value
        return self._publish_one(segment, node.name, value, node, made)

    def _publish_one(self, segment, name, symbol, node, made):
        if id(symbol) in made:
            return made[id(symbol)][1]
        built, dtype = segment.built, values.TORCH_DTYPES[symbol.dtype.name]
        for read, known in segment.symbols.items():
            if known is symbol:  # the plan did not change it
                return read
        strides = values.contiguous_strides(symbol.shape)
        if node is not None:
            strides = self.sizes.numbers(places.traced(node).stride())
        order = values.dense_order(symbol.shape, strides)
        if order is None:
            order, strides = tuple(range(symbol.ndim)), values.contiguous_strides(symbol.shape)
        natural = order == tuple(range(symbol.ndim))
        with built.graph:
            stored = symbol if natural else symbol.permute(order)
            if self._is_constant(symbol):
                stored = stored.clone()
        slot = built.add_output(name, stored, (tuple(symbol.shape), tuple(strides), dtype, 0))
        built.outputs.append(open_sizes.Output(slot))
        value = Value(self._new_slot(), dtype, symbol.shape, strides, self.gpu.device)
        value.step = len(self.steps)
        made[id(symbol)] = symbol, value
        return value

    def _is_constant(self, symbol):
        return any(symbol is c or results.shares(symbol, c) for c in self.shared.values())

    def _bring(self, value):
        """Returns the open plan's value for a Value."""
        segment = self.segment
        if value.slot in self.shared:
            return self.shared[value.slot]
        if value not in segment.symbols:
            bound = open_sizes.Input(len(segment.reads), f"v{value.slot}", value)
            spec, symbol = bound.declare(segment.built.graph)
            segment.built.inputs.append(bound)
            segment.built.input_specs.append(spec)
            segment.symbols[value] = symbol
            segment.reads.append(value)
        return segment.symbols[value]

    # ---- nodes ----

    def _run(self, node):
        made = super()._run(node)
        if node.target is operator.getitem and self.segment is not None and _is_symbol(made):
            self.segment.nodes.append(node)  # the node is in the open plan
        return made

    def _operator(self, node, op, args, kwargs):
        if op in self._LIKE:
            args = (self._like(node.args[0], args[0]), *args[1:])
        leaves = [x for x in pytree.tree_leaves((args, kwargs), is_leaf=_is_value) if _is_value(x)]
        if not leaves and effects.is_constant(op):
            return self._share(op(*args, **kwargs))  # a constant: the same at every run
        lower = self._lowering(node)
        if lower and all(self._fits(x) for x in leaves):
            made = self._lower(node, lower, args, kwargs)
            if made is not None:
                return made
        self._close()
        # Closing the plan changed its values to Values: look the arguments up again.
        return self._call(node, *self._call_of(node))

    def _fits(self, x):
        if _is_symbol(x):
            return True
        return values.is_native(x.dtype, x.shape) and x.device == self.gpu.device

    def _lower(self, node, lower, args, kwargs):
        if self.segment is None:
            self._begin()
        bring = lambda x: self._bring(x) if isinstance(x, Value) else x  # noqa: E731
        try:
            args, kwargs = pytree.tree_map(bring, (args, kwargs), is_leaf=_is_value)
            own = {"own": True} if node in self.in_place else {}
            more = {**own, **grouped.layout(node), **kwargs}
            made = lower(*args, out=table.out_dtype(node.meta.get("val")), **more)
            if not own:
                table.check(made, node.meta.get("val"))
        except (table.Decline, TypeError, ValueError, Error) as reason:
            logger.debug("%s runs as PyTorch's kernel: %s", node.target, reason or "not weir's")
            return None
        if own:
            self.placed.add(node)
            indices.forget()  # values derived from the old elements
            self._note_write(node.args[0])
            made = args[0]  # the argument itself
        self.coverage.native[str(node.target)] += 1
        self.segment.nodes.append(node)
        return made

    def _call(self, node, op, args, kwargs):
        if isinstance(op, torch._ops.OpOverload):
            made = fallback.infer(op, args, kwargs, _is_value, _fake)
        else:
            made = self._traced_values(node)
        several = isinstance(made, (tuple, list))
        results = [
            Value.like(self._new_slot(), r, len(self.steps)) if isinstance(r, torch.Tensor) else None
            for r in (made if several else [made])
        ]
        reads = [x for x in pytree.tree_leaves((args, kwargs), is_leaf=_is_value) if _is_value(x)]
        given = results if several else results[0]
        self._add(CallStep(self._tag(), self._cores(), reads, op, args, kwargs, given))
        self.coverage.fallback[str(op)] += 1
        back = [r if v is None else v for r, v in zip(made if several else [made], results)]
        return back if several else back[0]

    def _traced_values(self, node):
        """The node's results as fake tensors with the sizes of this call."""

        def fake(x):
            if not isinstance(x, torch.Tensor):
                return x
            shape, strides, _ = self.sizes.layout(x)
            return torch.empty_strided(shape, strides, dtype=x.dtype, device="meta").to(x.device)

        with FakeTensorMode(allow_non_fake_inputs=True):
            return pytree.tree_map(fake, node.meta["val"])

    def _as_strided(self, node, *args, **kwargs):
        raise Unsupported(f"{node.target} is a view by strides")

    _as_strided_scatter = _as_strided

    def _share(self, made):
        """Makes PyTorch's tensors constants, for its own kernels and for plans."""
        if isinstance(made, (tuple, list)):
            return [self._share(x) for x in made]
        if not isinstance(made, torch.Tensor):
            return made
        made = made.detach()
        value = Value.like(self._new_slot(), made)
        self.tensors.append((value.slot, made))
        if self._fits(value):
            self.shared[value.slot] = from_dlpack(with_values(made).contiguous(), self.device)
        return value

    def _new_slot(self):
        self.size += 1
        return self.size - 1

    def _add(self, step):
        step.waits |= self.waits.pop(step.tag, set())
        self.steps.append(step)

    # ---- scopes, waits and tokens ----

    def _enter(self, kind, text, first, second):
        if kind == "stream":
            self._close()
            self.priorities.setdefault(text, first)
        elif self.segment is not None:
            _dispatch.push(kind, text, first, second)
        self.open.append((kind, text, first, second))

    def _leave(self, kind):
        self._check_leave(kind)
        if kind == "stream":
            self._close()
        elif self.segment is not None:
            _dispatch.pop(kind)
        self.open.pop()

    def _await(self, step):
        self._close()
        if step is not None and self.steps[step].tag != self._tag():
            self.waits.setdefault(self._tag(), set()).add(step)

    def _wait_tensor(self, tensor, dependency):
        if isinstance(dependency, Value):  # else it is in this stream's open plan
            self._await(dependency.step)

    def _record(self, anchor=None):
        self._close()
        own = [i for i, step in enumerate(self.steps) if step.tag == self._tag()]
        return _Token(own[-1] if own else None)

    def _wait(self, tokens):
        for token in tokens:
            if isinstance(token, (_Token, Value)):  # else it is in this stream's open plan
                self._await(token.step)

    def _record_event(self, tag):
        self._close()
        self._add(OrderStep(self._tag(), lambda: _C.tagged_event_record(self.device, tag)))

    def _wait_event(self, tag):
        self._close()
        self._add(OrderStep(self._tag(), lambda: _C.tagged_event_wait(self.device, tag)))

    # ---- results ----

    def _results(self):
        """[(kind, what)]: see program.py."""
        return [self._result(node) for node in self.leaves]

    def _result(self, node):
        if not isinstance(node, torch.fx.Node):
            return "given", node
        base = self.bases.get(node)
        if base is None or base is node:
            return self._plain_result(node)
        return "view", (self._plain_result(base), self._place(node, base))

    def _place(self, node, base):
        return places.Place(self.sizes, node, base)

    def _plain_result(self, node):
        value = self.env[node]
        if not isinstance(value, Value):
            return "given", value
        if value.step is not None:
            made = "made", (value.slot, self.steps[value.step].place)
            _, strides, offset = places.layout(self.sizes, node)
            if value.strides == strides and offset == 0:
                return made
            return "spread", (made, places.Spread(self.sizes, node))
        is_argument = value.slot < len(self.placeholders())
        return ("argument" if is_argument else "constant"), value.slot


def _is_value(x):
    return isinstance(x, (Value, _C.Tensor))


def _fake(value):
    return torch.empty_strided(value.shape, value.strides, dtype=value.dtype, device=value.device)
