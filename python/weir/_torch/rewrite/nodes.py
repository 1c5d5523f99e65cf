"""What nodes of a traced graph are, for those who look for patterns in it."""

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


def _val(node):
    val = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return val if isinstance(val, torch.Tensor) else None


def _shape(node):
    """The sizes, if they are numbers; else None."""
    val = _val(node)
    if val is None or not all(isinstance(s, int) for s in val.shape):
        return None
    return tuple(val.shape)


def _replace(node, made):
    """``made`` stands for the node from now on; what only the node needed goes."""
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
