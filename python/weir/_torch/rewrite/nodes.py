"""Helpers for finding patterns in a traced graph."""

import operator

import torch

from .. import effects


def _one_user(node):
    return len(node.users) == 1


def _factors(node):
    """Both factors of a product, in both orders."""
    a, b = node.args
    if isinstance(a, torch.fx.Node) and isinstance(b, torch.fx.Node):
        yield a, b
        yield b, a


def _is(node, *targets):
    return isinstance(node, torch.fx.Node) and node.target in targets


def _dims(node):
    """The dims of a reduction; empty if it is over all of them."""
    return list(node.args[1]) if len(node.args) > 1 and node.args[1] is not None else []


def _val(node):
    val = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return val if isinstance(val, torch.Tensor) else None


def _shape(node):
    """The sizes, if they are numbers; else None."""
    val = _val(node)
    if val is None or not all(isinstance(s, int) for s in val.shape):
        return None
    return tuple(val.shape)


def _sizes(node):
    """The sizes, open ones as expressions; None if the value is no tensor."""
    val = _val(node)
    return None if val is None else tuple(s if isinstance(s, int) else s.node.expr for s in val.shape)


def _narrow(node):
    """The node before its conversion from a half to f32; else the node itself."""
    if not _is(node, torch.ops.aten._to_copy.default) or _val(node).dtype != torch.float32:
        return node
    source = _val(node.args[0])
    plain = set(node.kwargs) <= {"dtype", "layout", "device"} and source.device == _val(node).device
    return node.args[0] if plain and source.dtype in (torch.bfloat16, torch.float16) else node


def _tell(made, like):
    """Copies a node's metadata, except its value, to the node that replaces it."""
    made.meta.update({k: v for k, v in like.meta.items() if k != "val"})


def _replace(node, made):
    """Replaces the node by ``made``, and erases nodes that only the node used."""
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    _erase(node)


def _erase(node):
    if node._erased or node.users or node.op != "call_function":
        return
    if node.target is not operator.getitem and effects.is_ordered(node.target):
        return
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for other in inputs:
        _erase(other)
