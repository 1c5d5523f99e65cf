"""Keys and values that models repeat for every query of a group: attention takes them once. Results whose heads and rows are
exchanged at once: attention makes them so."""

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
    """The arguments of the node's operator, as ``env`` has them, with keys and values before they
    were repeated; ``args`` where they were not."""
    if node is None or node.target not in _ATTENTION:
        return args
    found = [_unrepeated(x) for x in node.args[1:3]]
    if None in found:
        return args
    (k, times), (v, others) = found
    return (args[0], env[k], env[v], *args[3:]) if times == others else args


def layout(node):
    """What the lowering of an attention is told: whether all who use its result [batch, heads, rows, columns] exchange heads and
    rows, so that they need no copy if it lies that way."""
    if node is None or node.target not in _EVERY_ATTENTION:
        return {}
    results = [u for u in node.users if u.target is operator.getitem and u.args[1] == 0]
    return {"rows_first": True} if results and all(map(_is_exchanged, results)) else {}


def _is_exchanged(node):
    """Whether all who use it exchange its heads and rows, or make it a view of the same sizes that is."""
    same = {u for u in node.users if u.target in _RESHAPES and _sizes(u) == _sizes(node)}
    return bool(node.users) and all(_is_exchanged(u) if u in same else _exchanges(u) for u in node.users)


def _exchanges(node):
    if node.target is aten.transpose.int:
        return len(node.meta["val"].shape) == 4 and {d % 4 for d in node.args[1:3]} == {1, 2}
    return node.target is aten.permute.default and [d % 4 for d in node.args[1]] == [0, 2, 1, 3]


def _unrepeated(node):
    """(x, times) of a node that is x [batch, heads, rows, columns] with each head so many times; None
    of any other."""
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
    """What the node is made of, if it is one of those."""
    is_one = isinstance(node, torch.fx.Node) and node.target in targets
    return node.args[0] if is_one else None


def _sizes(node):
    """Numbers, and expressions of open sizes."""
    shape = node.meta["val"].shape
    return [s.node.expr if isinstance(s, torch.SymInt) else int(s) for s in shape]
