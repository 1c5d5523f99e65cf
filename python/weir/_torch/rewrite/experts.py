"""Mixtures of experts: sorting entries by expert, and the weighted sum of the experts' results,
each become one operator; indices that cannot be negative are not converted."""

import operator

import torch

from .. import kernels
from .nodes import _dims, _factors, _is, _one_user, _replace, _shape, _sizes, _tell, _val

aten = torch.ops.aten

_SAME_NUMBERS = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default,
    aten.squeeze.dim, aten.expand.default, aten.clone.default, aten.slice.Tensor,
}  # fmt: skip
_INTS = {torch.int32, torch.int64}


def _is_sorting(node):
    """Whether the node is the second result of a sort: a permutation."""
    return _is(node, operator.getitem) and node.args[1] == 1 and _is(
        node.args[0], aten.sort.default, aten.sort.stable
    )


def _is_part(node, name, *which):
    """Whether the node is one of those results of weir's operator."""
    is_one = _is(node, operator.getitem) and node.args[1] in which
    return is_one and _is(node.args[0], kernels.OVERLOADS[name])


def _is_at_most(size, n):
    return isinstance(size, int) and size <= n


def _below(node, n):
    """Whether its values are indices of experts in 0..n - 1, chosen for a token."""
    while _is(node, *_SAME_NUMBERS):
        node = node.args[0]
    if _is_part(node, "expert_choice", 1):
        return _is_at_most(_sizes(node.args[0].args[0])[1], n)
    if not _is(node, operator.getitem) or node.args[1] != 1 or not _is(node.args[0], aten.topk.default):
        return False
    args = node.args[0].args
    shape, dim = _sizes(args[0]), args[2] if len(args) > 2 else -1
    return bool(shape) and _is_at_most(shape[dim], n)


def _counts(node, known):
    """Whether its values are known to be integers >= 0."""
    if _val(node) is None or _val(node).dtype not in _INTS:
        return False
    if node in known:
        return bool((known[node] >= 0).all())
    if _is_sorting(node) or _is_part(node, "expert_order", 0, 1):
        return True
    if _is(node, operator.getitem):
        source, which = node.args
        if _is_part(node, "expert_choice", 1):
            return True
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
    """cumsum(histc(ids, n, 0, n - 1)): the numbers of ids that are at most 0, 1, ..."""
    if not _is(node, aten.cumsum.default) or len(_sizes(node) or ()) != 1:
        return False
    counted, dim = node.args
    if not _is(counted, aten.histc.default) or not _one_user(counted) or dim not in (0, -1):
        return False
    x, n, *ends = counted.args
    if ends != [0, n - 1] or _val(node).dtype != torch.int32:
        return False
    if _is(x, aten._to_copy.default):
        x = x.args[0]
    if len(_sizes(x) or ()) != 1 or not 1 < n < 1 << 16:  # weir's operator takes up to 1 << 16
        return False
    if _ordered(graph, node, x, n):
        return True
    if not _counts(x, known):
        return False
    with graph.inserting_before(node):
        made = graph.call_function(kernels.OVERLOADS["ends_of_groups"], (x, n))
    _replace(node, made)
    return True


def _ordered(graph, node, ids, n):
    """Finds entries sorted by expert, and where each expert ends."""
    if not _is(ids, operator.getitem) or ids.args[1] != 0:
        return False
    sort = ids.args[0]
    if not _is(sort, aten.sort.default) or not _below(sort.args[0], n):
        return False
    if sort.kwargs or list(sort.args[1:]) not in ([], [-1], [0], [-1, False], [0, False]):
        return False
    with graph.inserting_after(sort):
        made = graph.call_function(kernels.OVERLOADS["expert_order"], (sort.args[0], n, 1))
    with graph.inserting_after(made):
        order, places, ends = (graph.call_function(operator.getitem, (made, i)) for i in range(3))
    example = _val(ids)
    _tell(made, sort)
    order.meta["val"] = places.meta["val"] = example
    ends.meta["val"] = _val(node)
    made.meta["val"] = (example, example, _val(node))
    _replace(node, ends)
    for user in list(sort.users):
        if user.args[1] == 1:
            _replace(user, order)
    for user in list(sort.users):  # remaining users of the sorted experts
        if user.args[1] == 0 and user.users:
            with graph.inserting_after(order):
                again = graph.call_function(aten.index_select.default, (sort.args[0], 0, order))
            _replace(user, again)
    return True


def _is_count(node, known):
    """Whether its values are 0, 1, 2, ..."""
    if node in known:
        return bool((known[node] == torch.arange(len(known[node]), device=known[node].device)).all())
    if _is(node, aten.arange.start_step):
        return node.args[0] == 0 and (len(node.args) < 3 or node.args[2] == 1)
    return _is(node, aten.arange.default)


def _inverse(graph, node, known):
    """Finds y with y[order] = 0, 1, 2, ...: the inverse permutation."""
    if not _is(node, aten.index_put.default) or len(node.args) != 3 or node.kwargs:
        return False
    x, indices, source = node.args
    if len(indices) != 1 or not _is_part(indices[0], "expert_order", 0):
        return False
    shape, made = _sizes(indices[0]), indices[0].args[0]
    if shape != _sizes(x) or _val(x).dtype != torch.int64 or made.args[2] != 1:
        return False
    if _sizes(source) != shape or not _is_count(source, known):
        return False
    places = [u for u in made.users if u.args[1] == 1]
    with graph.inserting_after(made):
        place = places[0] if places else graph.call_function(operator.getitem, (made, 1))
    _replace(node, place)
    return True


def _summed(graph, node, known):
    """Finds the sum of the experts' rows, times weights, in the order of tokens."""
    if not _is(node, aten.sum.dim_IntList) or _dims(node) != [1] or node.kwargs:
        return False
    stacked = node.args[0]
    if node.args[2:] not in ((), (False,)) or len(_sizes(stacked) or ()) != 3:
        return False
    found = _weighted(stacked)
    if not found:
        return False
    rows, places, weights = found
    k = _sizes(stacked)[1]
    if not isinstance(k, int):
        return False
    last = node
    if _val(node).dtype != _val(rows).dtype:
        if not _one_user(node) or not _is(next(iter(node.users)), aten._to_copy.default):
            return False
        last = next(iter(node.users))
    if _val(last).dtype != _val(rows).dtype or _val(weights).dtype not in (_val(rows).dtype, torch.float32):
        return False
    with graph.inserting_before(node):
        args = [graph.call_function(aten.view.default, (x, [-1, k])) for x in (places, weights)]
        for made, x in zip(args, (places, weights)):
            made.meta["val"] = _val(x).view(_val(stacked).shape[:2])
        made = graph.call_function(kernels.OVERLOADS["expert_sum"], (rows, *args))
    _replace(last, made)
    return True


def _weighted(stacked):
    """(rows, places, weights of entries) of (rows * weights[order])[places] as [tokens, k, width]."""
    if not _is(stacked, aten.view.default) or not _one_user(stacked):
        return None
    back = stacked.args[0]
    if not _is(back, aten.index_select.default) or not _one_user(back) or back.args[1] != 0:
        return None
    product, _, places = back.args
    if not _is_part(places, "expert_order", 1) or not _is(product, aten.mul.Tensor):
        return None
    if not _one_user(product) or len(_sizes(product) or ()) != 2:
        return None
    for rows, column in _factors(product):
        if not _is(column, aten.unsqueeze.default) or _sizes(column) != (_sizes(product)[0], 1):
            continue
        weights = column.args[0]
        if not _is(weights, aten.index_select.default) or weights.args[1] != 0:
            continue
        entries, _, order = weights.args
        own = _is_part(order, "expert_order", 0) and order.args[0] is places.args[0]
        if own and order.args[0].args[2] == 1 and _sizes(rows) == _sizes(product):
            return rows, places, entries
    return None


def tokens_of_entries(graph):
    """Divides the numbers of entries by k in the operator, if only their tokens are used."""
    for made in [n for n in graph.nodes if _is(n, kernels.OVERLOADS["expert_order"])]:
        orders = [u for u in made.users if u.args[1] == 0]
        users = [u for o in orders for u in o.users]
        if not users or not all(_is(u, aten.floor_divide.default) for u in users):
            continue
        divisors = {u.args[1] for u in users}
        if len(divisors) != 1 or not all(type(d) is int and d > 0 for d in divisors):
            continue
        made.args = (*made.args[:2], divisors.pop())
        for user in users:
            user.replace_all_uses_with(user.args[0])
            graph.erase_node(user)


def _picked(graph, node, known):
    """x[index] without the conversion of negative indices."""
    if not _is(node, aten.index.Tensor) or len(node.args[1]) != 1 or _val(node.args[0]) is None:
        return False
    (index,) = node.args[1]
    if len(_sizes(index) or ()) != 1 or not _counts(index, known):
        return False
    with graph.inserting_before(node):
        made = graph.call_function(aten.index_select.default, (node.args[0], 0, index))
    _replace(node, made)
    return True


def _placed(graph, node, known):
    """x with x[index] = source, without the conversion of negative indices."""
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
