"""Common subexpression elimination in a traced graph.

Models repeat computations in each layer, such as a mask as numbers, positions, or the base of an
index. Two operators without effects and with the same arguments become one, unless both results are
returned to the caller: these must not share memory.
"""

import torch
from torch.fx.node import map_aggregate

from ... import _exact
from .. import effects
from ..graph import places

aten = torch.ops.aten

_UNWRITTEN = {
    aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default,
    aten.empty_strided.default, aten.new_empty_strided.default, aten.empty_permuted.default,
}  # fmt: skip


def share(module):
    """Rewrites the module's graph in place."""
    graph, seen, changed = module.graph, {}, False
    (output,) = [n for n in graph.nodes if n.op == "output"]
    returned = {m for n in output.all_input_nodes for m in places._memories(n)}
    for node in list(graph.nodes):
        if not _is_pure(node) or returned & set(places._memories(node)):
            continue
        first = seen.setdefault(_key(node), node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            changed = True
    if changed:
        module.recompile()


def _is_pure(node):
    if node.op != "call_function" or node.target in _UNWRITTEN:
        return False
    if not isinstance(node.target, torch._ops.OpOverload) or effects.is_ordered(node.target):
        return False
    return isinstance(node.meta.get("val"), torch.Tensor)


def _key(node):
    """A key that is equal for nodes with the same value."""
    args = node.args, tuple(sorted(node.kwargs.items()))
    return node.target, _exact.key(map_aggregate(args, _plain))


def _plain(x):
    """Converts traced sizes to expressions, and devices to names."""
    if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return "symbol", str(x.node.expr)
    return ("device", str(x)) if isinstance(x, torch.device) else x
