"""The results of a traced graph, in PyTorch's memory layout, and writes to arguments."""

import torch

from .. import effects, values
from ..lower import fallback, indices, pairs
from ..rewrite import patterns, updates
from . import places
from .open_sizes import Input, Output
from .places import Unsupported
from .symbols import Size


class Results:
    """The part of a Builder (build.py) that names results."""

    def _join_results(self):
        """Converts complex results, and what they are views of, to single values."""
        _, output = self._ends
        leaves = fallback.pytree.tree_leaves(output.args[0])
        shared = places.shared(leaves[: len(leaves) - len(self.built.written)])
        for node in leaves:
            if not isinstance(node, torch.fx.Node):
                continue
            joined = [node] if isinstance(self.env[node], pairs.Pair) else []
            if joined or places.memory(node) in shared:
                # Real parts of one complex value, too, are views of that value.
                joined.append(places.origin(node))
            for one in joined:
                if isinstance(self.env[one], pairs.Pair):
                    self.env[one] = self._joined(self.env[one])

    def _plan_writes(self, examples):
        """Decides which arguments the graph itself writes to: all or none. Their memory must have
        the bound layout."""
        bound = [Input(i, "", examples[i]) for i in self.written]
        new = [places.traced(value) for _, value in updates.values(self.module.graph, self.written)]
        if not all(
            values.is_native(b.dtype, b.shape) and not b.copied and not b.lazy for b in bound
        ) or not all(values.is_native(x.dtype, self.sizes.numbers(x.shape)) for x in new):
            return ()
        if self.gpu and not all(map(self.gpu.holds, [*new, *(examples[i] for i in self.written)])):
            return ()
        graph = self.module.graph
        self.in_place = updates.made_in_place(graph, self.written)
        if not effects.orders(self.module):
            self.early = updates.written_early(graph, self.written, self.in_place, patterns.FEW)
            self.indices = self._short_indices()
        return tuple(self.written)

    def _short_indices(self):
        found = {}
        for node in self.in_place:
            for index, n in indices.places_of(node):
                traced = places.traced(index)
                if traced is not None and self.sizes.numbers(traced.shape)[:1] <= (patterns.FEW,):
                    found.setdefault(index, set()).add(self.sizes.number(n))
        return found

    def _write(self, built):
        """Writes the arguments' new values that were not written early."""
        pairs_ = updates.values(self.module.graph, built.written)
        arguments = {argument for argument, _ in pairs_}
        writes = []
        for argument, node in pairs_:
            if node in self.placed:
                continue
            value, target = self.env[node], self.env[argument]
            built.origins.enter(node)
            if isinstance(value, values.Opaque):
                raise Unsupported(f"the new value of {argument.name} is not a value of weir")
            value = value.cast(target.dtype).expand(tuple(target.shape))
            if places.origin(node) in arguments:  # which may be written to first
                value = value.clone()
            writes.append((node, target, value))
        for node, target, value in writes:
            built.origins.enter(node)
            target.copy_(value)

    def _name_outputs(self, built):
        _, output = self._ends
        arguments = {n: i for i, n in enumerate(self.placeholders())}
        slots, outputs = {}, {}  # by memory, and by node
        leaves = fallback.pytree.tree_leaves(output.args[0])
        leaves = leaves[: len(leaves) - len(built.written)]
        self.shared_results = places.shared(leaves)
        for node in leaves:
            if node not in outputs:
                outputs[node] = self._output(built, node, arguments, slots)
            built.outputs.append(outputs[node])
        if self.effect is not None:  # else it would be removed as dead code
            built.add_output("effect", self.effect, ((0,), (1,), torch.float32, 0))

    def _output(self, built, node, arguments, slots):
        if not isinstance(node, torch.fx.Node):
            return Output(given=node)
        if node in arguments:
            return Output(argument=arguments[node])
        if not fallback._is_value(self.env[node]):
            made = self.env[node]
            return Output(given=self._now(made), size=made if isinstance(made, Size) else None)
        base = places.origin(node)
        if base in arguments:
            place = places.Place(self.sizes, node, base)
            return Output(argument=arguments[base], place=place)
        self.hosted = self.hosted or bool(self.gpu and not self._is_there(node))
        memory = places.memory(node)
        if memory not in slots and self._can_hold(base):
            slots[memory] = base, self._slot(built, base), None
        if memory not in slots:
            if memory not in self.shared_results or not places.can_spread(self.sizes, base):
                return Output(self._slot(built, node), spread=places.Spread(self.sizes, node))
            slots[memory] = base, self._slot(built, base), places.Spread(self.sizes, base)
        base, slot, spread = slots[memory]
        place = None if node is base else places.Place(self.sizes, node, base)
        return Output(slot, place=place, spread=spread)

    def _can_hold(self, node):
        """Whether memory allocated for the node's value has PyTorch's layout."""
        if isinstance(self.env[node], pairs.Pair):
            return False
        order = values.dense_order(*self.sizes.layout(places.traced(node))[:2])
        is_opaque = isinstance(self.env[node], values.Opaque)
        return places.is_dense(self.sizes, node) and not (is_opaque and list(order) != sorted(order))

    def _slot(self, built, node):
        """Makes the node's value an output of the graph, with PyTorch's layout if that has no
        gaps."""
        if built.origins:
            built.origins.enter(node)
        value = self._own(built.graph, self.env[node])
        shape, strides, offset = places.layout(self.sizes, node)
        if built.graph is not None and tuple(value.shape) != shape:
            raise AssertionError(f"{node.name} has the shape {tuple(value.shape)}, not {shape}")
        dtype, natural = values.torch_dtype(value), tuple(range(len(shape)))
        if not self._can_hold(node):
            strides, offset = values.contiguous_strides(shape), 0
        order = values.dense_order(shape, strides)
        if isinstance(value, values.Opaque):
            value, order = value.tensor, natural
        layout = shape, strides, dtype, offset
        built.orders.append(order)
        built.output_nodes.append(node)
        if built.graph is None:
            return built.note_output((value.dtype, tuple(shape[d] for d in order)), layout)
        stored = value if order == natural else value.permute(order)
        return built.add_output(node.name, stored, layout)

    def _own(self, graph, value):
        """Replaces a constant result by a copy that the graph makes."""
        tensor = value.tensor if isinstance(value, values.Opaque) else value
        if not any(tensor is c or shares(tensor, c) for c in self.shared):
            return value
        with graph:
            copy = tensor.clone()
        return values.wrap(copy, value.dtype, value.shape) if tensor is not value else copy


def shares(tensor, constant):
    """Whether the tensor shares the constant's memory."""
    return 0 <= tensor.data_ptr() - constant.data_ptr() < max(constant.nbytes, 1)
