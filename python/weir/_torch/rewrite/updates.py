"""Arguments that a graph writes.

PyTorch puts the mutations of a graph for inference at its end: ``copy_(argument, value)``. They
become further results, so that the rest of the graph is functional. A plan writes them to the
arguments' memory itself, or else they are copied after the run.

A value that is the argument with a part replaced (a token's keys in a cache) is computed in place,
if nothing reads the argument's old elements afterwards.
"""

import torch
from torch.utils import _pytree as pytree

from ..graph import places

aten = torch.ops.aten

# Operators that replace elements of their first argument. Their lowerings take `own`.
_IN_PLACE = {
    aten.index_put.default, aten.index_copy.default, aten.scatter.src, aten.scatter.value,
    aten.scatter_add.default, aten.slice_scatter.default, aten.select_scatter.default,
}  # fmt: skip
# Operators that return their argument's memory in weir, but new memory in PyTorch.
_VIEWS = {aten._unsafe_view.default, aten.reshape.default}


def _output(graph):
    (output,) = [n for n in graph.nodes if n.op == "output"]
    return output


def take(module):
    """Turns the mutations into results. -> the placeholders' indices, one for each such result."""
    graph = module.graph
    places_of = {n: i for i, n in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    found = [n for n in graph.nodes if n.target is aten.copy_.default]
    output = _output(graph)
    if not found or any(
        any(user is not output for user in n.users)
        or n.args[0] not in places_of
        or len(n.args) != 2
        or places.traced(n.args[1]) is None
        for n in found
    ):
        return []
    if len({n.args[0] for n in found}) != len(found):
        return []
    for node in found:  # the value of copy_ is the argument
        node.replace_all_uses_with(node.args[0])
    indexes = [places_of[n.args[0]] for n in found]
    output.args = ([*output.args[0], *(n.args[1] for n in found)],)
    for node in found:
        graph.erase_node(node)
    module.recompile()
    return indexes


def values(graph, indexes):
    """[(placeholder, its new value)] of a graph that :func:`take` has changed."""
    arguments = [n for n in graph.nodes if n.op == "placeholder"]
    leaves = pytree.tree_leaves(_output(graph).args[0])
    return [(arguments[i], v) for i, v in zip(indexes, leaves[len(leaves) - len(indexes) :])]


def made_in_place(graph, indexes):
    """The nodes that may replace elements of the argument in place."""
    found, order = set(), {n: i for i, n in enumerate(graph.nodes)}
    leaves = pytree.tree_leaves(_output(graph).args[0])
    for argument, value in values(graph, indexes):
        if value.target not in _IN_PLACE or value.args[0] is not argument:
            continue
        new, old = places.traced(value), places.traced(argument)
        if new.dtype != old.dtype or new.shape != old.shape:
            continue
        others = list(leaves)
        others.remove(value)
        if any(n in others for n in _aliases(value)):
            continue
        if all(_is_before(user, value, order) for n in _aliases(argument) for user in n.users):
            if all(x not in _aliases(argument) for x in _inputs_behind_first(value)):
                found.add(value)
    return found


def written_early(graph, indexes, in_place, few):
    """{a node: [(argument, value)]}: new values with few elements (counters of a step) that are
    written right after that node, since nothing reads the argument's old elements afterwards."""
    found, order = {}, {n: i for i, n in enumerate(graph.nodes)}
    arguments = {argument for argument, _ in values(graph, indexes)}
    for argument, value in values(graph, indexes):
        new = places.traced(value)
        if value in in_place or places.origin(value) in arguments or value.op != "call_function":
            continue
        if not all(isinstance(s, int) for s in new.shape) or new.numel() > few:
            continue
        users = (user for n in _aliases(argument) for user in n.users if user.op != "output")
        found.setdefault(max([value, *users], key=order.__getitem__), []).append((argument, value))
    return found


def _inputs_behind_first(node):
    rest = pytree.tree_leaves((node.args[1:], dict(node.kwargs)))
    return [x for x in rest if isinstance(x, torch.fx.Node)]


def _is_before(user, value, order):
    return user is value or user.op == "output" or order[user] < order[value]


def _aliases(node):
    """The node and all nodes that may be views of it."""
    found = [node]
    for one in found:
        for user in one.users:
            if user not in found and user.op == "call_function" and _is_view(user, one):
                found.append(user)
    return found


def _is_view(node, of):
    mine, other = places.traced(node), places.traced(of)
    if mine is None and not isinstance(node.meta.get("val"), (list, tuple)):
        return False  # a size
    if node.target in _VIEWS or mine is None or other is None:
        return True
    return mine.untyped_storage()._cdata == other.untyped_storage()._cdata


class Updating:
    """A plan whose last results are new values of arguments; copies them to the arguments."""

    def __init__(self, plan, indexes):
        self.plan, self.indexes = plan, indexes
        self.plans = getattr(plan, "plans", ())

    def run(self, args, *now):
        args = list(args)  # keep the arguments, as `run` may drop them
        results = self.plan.run(args, *now)
        first = len(results) - len(self.indexes)
        with torch.no_grad():
            for index, value in zip(self.indexes, results[first:]):
                args[index].copy_(value)
        return results[:first]
