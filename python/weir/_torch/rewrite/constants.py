"""Constant folding: values that depend on no argument (masks, positions) are computed once."""

import operator

import torch

from .. import effects
from .nodes import _replace

LARGEST = 16 << 20  # the most bytes of a constant


def _is_pure(node):
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and not effects.is_ordered(node.target)


def _is_numbers(x):
    """Whether all sizes among the arguments are numbers."""
    if isinstance(x, (list, tuple)):
        return all(map(_is_numbers, x))
    return not isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _fold(module):
    """Computes the values that depend on no argument. -> {node: its value}"""
    known, returned = {}, _returned(module.graph)
    for node in list(module.graph.nodes):
        value = None if _memories(node) & returned else _value(node, known)
        if value is not None:
            known[node] = value
    frontier = [n for n in known if any(u not in known for u in n.users)]
    return {made: value for node in frontier for made, value in _settle(module, node, known)}


def _memories(node):
    val = node.meta.get("val")
    vals = val if isinstance(val, (list, tuple)) else [val]
    return {
        x.untyped_storage()._cdata
        for x in vals
        if isinstance(x, torch.Tensor) and x.layout is torch.strided
    }


def _returned(graph):
    """The memory of results, of which other values may be views."""
    (output,) = [n for n in graph.nodes if n.op == "output"]
    return set().union(*map(_memories, output.all_input_nodes))


def _value(node, known):
    inputs = node.all_input_nodes
    if not _is_pure(node) or not all(n in known for n in inputs):
        return None
    if not _is_numbers((node.args, tuple(node.kwargs.values()))):
        return None
    val = node.meta.get("val")
    for x in val if isinstance(val, (list, tuple)) else [val]:
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided or x.is_complex():
            return None
        if not all(isinstance(s, int) for s in x.shape):
            return None
        if x.numel() * x.element_size() > LARGEST:
            return None
    args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: known[n])
    try:
        return node.target(*args, **kwargs)
    except RuntimeError:  # the error will be raised when the graph runs
        return None


def _settle(module, node, known):
    """Makes the node's value a constant of the module. An expanded value stays an operator on
    smaller constants."""
    value = known[node]
    if not isinstance(value, torch.Tensor):
        return []
    if not node.all_input_nodes and value.numel() == 1:
        return [(node, value)]  # the node is a constant already
    if value.numel() and any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape)):
        inputs = [n for n in node.all_input_nodes if n in known]
        return [(node, value), *(x for n in inputs for x in _settle(module, n, known))]
    number = 0
    while hasattr(module, f"_weir_constant_{number}"):
        number += 1
    name = f"_weir_constant_{number}"
    module.register_buffer(name, value.detach().clone(), persistent=False)
    with module.graph.inserting_before(node):
        made = module.graph.get_attr(name)
    _replace(node, made)
    return [(made, value)]
