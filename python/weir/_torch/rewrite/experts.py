"""Experts: the ends of groups in a sorted list are counted in one go, and indices that are known
not to be negative are not looked at."""

import operator

import torch

from .. import kernels
from .nodes import _is, _one_user, _replace, _shape, _val

aten = torch.ops.aten

_SAME_NUMBERS = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default,
    aten.squeeze.dim, aten.expand.default, aten.clone.default, aten.slice.Tensor,
}  # fmt: skip
_INTS = {torch.int32, torch.int64}


def _is_sorting(node):
    """Whether it is the second result of a sort: each index once."""
    return _is(node, operator.getitem) and node.args[1] == 1 and _is(
        node.args[0], aten.sort.default, aten.sort.stable
    )


def _counts(node, known):
    """Whether its numbers are whole and not negative, as far as one can tell."""
    if _val(node) is None or _val(node).dtype not in _INTS:
        return False
    if node in known:
        return bool((known[node] >= 0).all())
    if _is_sorting(node):
        return True
    if _is(node, operator.getitem):
        source, which = node.args
        if which == 1:
            return _is(source, aten.topk.default)
        return _is(source, aten.sort.default, aten.sort.stable) and _counts(source.args[0], known)
    if node.target in _SAME_NUMBERS:
        return _counts(node.args[0], known)
    if _is(node, aten.floor_divide.default):
        divisor = node.args[1]
        return isinstance(divisor, int) and divisor > 0 and _counts(node.args[0], known)
    if _is(node, aten.scatter.src):
        into, _, at, source = node.args
        every = _shape(into) == _shape(at) and len(_shape(at) or ()) == 1
        return bool(every) and _is_sorting(at) and _counts(source, known)
    return False


def _ends(graph, node, known):
    """cumsum(histc(ids, n, 0, n - 1)): how many are at most 0, 1, and so on."""
    if not _is(node, aten.cumsum.default) or len(_shape(node) or ()) != 1:
        return False
    counted, dim = node.args
    if not _is(counted, aten.histc.default) or not _one_user(counted) or dim not in (0, -1):
        return False
    x, n, *ends = counted.args
    if ends != [0, n - 1] or _val(node).dtype != torch.int32:
        return False
    if _is(x, aten._to_copy.default):
        x = x.args[0]
    shape = _shape(x) or ()
    if len(shape) != 1 or n < 2 or shape[0] * n > 1 << 22 or not _counts(x, known):
        return False
    with graph.inserting_before(node):
        made = graph.call_function(kernels.OVERLOADS["ends_of_groups"], (x, n))
    _replace(node, made)
    return True


def _picked(graph, node, known):
    """x[index] without a look at negative ones."""
    if not _is(node, aten.index.Tensor) or len(node.args[1]) != 1 or _shape(node.args[0]) is None:
        return False
    (index,) = node.args[1]
    if len(_shape(index) or ()) != 1 or not _counts(index, known):
        return False
    with graph.inserting_before(node):
        made = graph.call_function(aten.index_select.default, (node.args[0], 0, index))
    _replace(node, made)
    return True


def _placed(graph, node, known):
    """x with x[index] = source, in the same way."""
    if not _is(node, aten.index_put.default) or len(node.args) != 3 or node.kwargs:
        return False
    x, indices, source = node.args
    if len(indices) != 1 or len(_shape(x) or ()) != 1 or _val(source) is None:
        return False
    (index,) = indices
    if _shape(index) is None or _shape(index) != _shape(source) or not _counts(index, known):
        return False
    if _val(x).dtype != _val(source).dtype or len(_shape(index)) != 1:
        return False
    with graph.inserting_before(node):
        made = graph.call_function(aten.scatter.src, (x, 0, index, source))
    _replace(node, made)
    return True
