"""Grouped attention: models repeat keys and values for every query of a group; weir's attention
takes them unrepeated. If heads and rows of the result are exchanged, attention writes it in that
layout."""

import operator

import torch

aten = torch.ops.aten

_ATTENTION = {aten._scaled_dot_product_flash_attention_for_cpu.default}
_EVERY_ATTENTION = _ATTENTION | {
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
}
_RESHAPES = {aten.view.default, aten._unsafe_view.default, aten.reshape.default}


def once(node, args, env):
    """The arguments of the node's operator, as values in ``env``, with unrepeated keys and values;
    or ``args`` if they are not repeated."""
    if node is None or node.target not in _ATTENTION:
        return args
    found = [_unrepeated(x) for x in node.args[1:3]]
    if None in found:
        return args
    (k, times), (v, others) = found
    return (args[0], env[k], env[v], *args[3:]) if times == others else args


def layout(node):
    """The layout for an attention's result [batch, heads, rows, columns]: whether all users
    exchange heads and rows, so that the exchanged layout saves a copy."""
    if node is None or node.target not in _EVERY_ATTENTION:
        return {}
    results = [u for u in node.users if u.target is operator.getitem and u.args[1] == 0]
    return {"rows_first": True} if results and all(map(_is_exchanged, results)) else {}


def _is_exchanged(node):
    """Whether all users exchange heads and rows, directly or after views of the same sizes."""
    same = {u for u in node.users if u.target in _RESHAPES and _sizes(u) == _sizes(node)}
    return bool(node.users) and all(_is_exchanged(u) if u in same else _exchanges(u) for u in node.users)


def _exchanges(node):
    if node.target is aten.transpose.int:
        return len(node.meta["val"].shape) == 4 and {d % 4 for d in node.args[1:3]} == {1, 2}
    return node.target is aten.permute.default and [d % 4 for d in node.args[1]] == [0, 2, 1, 3]


def _unrepeated(node):
    """(x, times) if the node repeats each head of x [batch, heads, rows, columns] that many times;
    else None."""
    wide = _through(_through(node, _RESHAPES), {aten.clone.default})
    tall = _through(wide, {aten.expand.default})
    x = _through(tall, {aten.unsqueeze.default})
    if x is None or tall.args[1] not in (2, -3):
        return None
    sizes, spread, made = (_sizes(n) for n in (x, wide, node))
    if len(sizes) != 4 or len(spread) != 5 or type(spread[2]) is not int or type(sizes[1]) is not int:
        return None
    if spread[:2] + spread[3:] != sizes or made != [sizes[0], sizes[1] * spread[2], *sizes[2:]]:
        return None
    return x, spread[2]


def _through(node, targets):
    """The node's argument, if its operator is one of the targets; else None."""
    is_one = isinstance(node, torch.fx.Node) and node.target in targets
    return node.args[0] if is_one else None


def _sizes(node):
    """The node's sizes as numbers, and as expressions if they are open."""
    shape = node.meta["val"].shape
    return [s.node.expr if isinstance(s, torch.SymInt) else int(s) for s in shape]
