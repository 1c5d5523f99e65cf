"""Gates of mixtures of experts: scores, the choice among groups and the weights become one
operator.

``_chosen`` and ``_biased`` find the two forms in models: the largest values of a softmax; and the
largest scores with a bias, for which the scores without bias are gathered. ``_renormalised`` and
``_scaled`` then include the operators on the weights.
"""

import operator

import torch

from .. import kernels
from .nodes import _dims, _is, _narrow, _one_user, _replace, _sizes, _tell, _val

aten = torch.ops.aten

_CHOICE = kernels.OVERLOADS["expert_choice"]
_MOST = 1024  # experts
_SAME = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default}
# Indices of the operator's arguments after logits.
_K, _BIAS, _GROUPS, _GROUP_K, _SIGMOID, _TWO, _NORM, _OUTSIDE, _EPS, _SCALE = range(1, 11)


def _scores(node):
    """(logits, whether the scores are sigmoids) if the node computes scores of experts in f32."""
    shape = _sizes(node)
    if shape is None or len(shape) != 2 or _val(node).dtype != torch.float32:
        return None
    if not isinstance(shape[1], int) or shape[1] > _MOST:
        return None
    if _is(node, aten.sigmoid.default):
        logits, sigmoid = node.args[0], True
    elif _is(node, aten._softmax.default) and node.args[1] in (-1, 1):
        logits, sigmoid = node.args[0], False
    else:
        return None
    logits = _narrow(logits)
    if _val(logits).dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return None
    return logits, sigmoid


def _largest(node):
    """(x, k) if the node is the k largest values of the last dim of x."""
    if not _is(node, aten.topk.default):
        return None
    x, k, dim, largest, *_ = [*node.args, *[None, None, -1, True][len(node.args) :]]
    last = len(_sizes(x) or ()) - 1
    return (x, k) if largest and type(k) is int and dim in (-1, last) and last >= 0 else None


def _make(graph, before, args, weights, experts):
    """Inserts the operator; its results replace the nodes weights and experts."""
    with graph.inserting_before(before):
        made = graph.call_function(_CHOICE, args)
        parts = [graph.call_function(operator.getitem, (made, i)) for i in range(2)]
    _tell(made, weights)
    made.meta["val"] = _val(weights), _val(experts)
    for node, part in zip((weights, experts), parts):
        part.meta["val"] = _val(node)
        _replace(node, part)
    return True


def _chosen(graph, node, known):
    """Finds the largest values of a softmax, with their indices."""
    found = _largest(node)
    scored = found and _one_user(found[0]) and _scores(found[0])
    if not scored:
        return False
    by_number = {u.args[1]: u for u in node.users if _is(u, operator.getitem)}
    if set(by_number) != {0, 1} or len(node.users) != 2:
        return False
    args = scored[0], found[1], None, 1, 1, scored[1], False, False, 0.0, 0.0, 1.0
    return _make(graph, node, args, by_number[0], by_number[1])


def _biased(graph, node, known):
    """Finds the scores of the experts whose scores with a bias are the largest."""
    if not _is(node, aten.gather.default) or node.args[1] not in (1, -1) or len(node.args) > 3:
        return False
    scores, _, experts = node.args
    scored = _scores(scores)
    if not scored or not _is(experts, operator.getitem) or experts.args[1] != 1:
        return False
    found = _largest(experts.args[0])
    if not found or not _one_user(experts.args[0]):
        return False
    choice, k = found
    groups = _left_out(choice)
    inner = groups[0] if groups else choice
    bias = _bias(inner, scores)
    if inner is not scores and bias is None:
        return False
    # The scores must have no other users.
    inside = {node, choice, inner, experts.args[0], *(groups[4] if groups else ())}
    if not set(scores.users) <= inside or not set(inner.users) <= inside:
        return False
    count, group_k, two, outside = groups[1:4] + (groups[5],) if groups else (1, 1, False, 0.0)
    args = scored[0], k, bias, count, group_k, scored[1], two, False, outside, 0.0, 1.0
    # The indices are computed before the gather: their users must be after it, too.
    if any(_comes_before(u, node) for u in experts.users if u is not node):
        return False
    return _make(graph, node, args, node, experts)


def _comes_before(a, b):
    """Whether a is before b in the graph."""
    while b.op != "root":
        if b is a:
            return True
        b = b.prev
    return False


def _bias(choice, scores):
    """The bias of scores + bias; None for any other node."""
    if not _is(choice, aten.add.Tensor) or choice.kwargs or choice.args[0] is not scores:
        return None
    bias = choice.args[1]
    same = _sizes(bias) == _sizes(scores)[1:] if _val(bias) is not None else False
    return bias if same and _val(bias).dtype in (torch.float32, torch.bfloat16) else None


def _left_out(node):
    """(choice, groups, group_k, best_two, nodes that use the choice, outside) of scores in which
    the experts outside of the best groups are replaced by the number ``outside``."""
    if not _is(node, aten.masked_fill.Scalar) or not _one_user(node):
        return None
    choice, mask, outside = node.args
    if not _is(mask, aten.bitwise_not.default, aten.logical_not.default) or not _one_user(mask):
        return None
    stays = mask.args[0]
    if not _is(stays, aten._to_copy.default) or _val(stays).dtype != torch.bool or not _one_user(stays):
        return None
    spread = _through(stays.args[0], _SAME)
    if not _is(spread, aten.expand.default) or not _is(spread.args[0], aten.unsqueeze.default):
        return None
    hits = spread.args[0].args[0]
    shape, grouped = _sizes(choice), _sizes(spread)
    if shape is None or grouped is None or len(grouped) != 3 or _sizes(spread.args[0]) != (*grouped[:2], 1):
        return None
    if not all(isinstance(n, int) for n in grouped[1:]):
        return None
    if (grouped[0], grouped[1] * grouped[2]) != shape or _sizes(hits) != grouped[:2]:
        return None
    found = _best_groups(hits, choice, grouped)
    if not found:
        return None
    group_k, two, looks = found
    return choice, grouped[1], group_k, two, (node, looks), float(outside)


def _through(node, targets):
    while _is(node, *targets) and _one_user(node):
        node = node.args[0]
    return node


def _best_groups(hits, choice, grouped):
    """(group_k, whether the best two count, the node that splits the choice into groups) of a mask
    with 1 at the best groups."""
    if not _is(hits, aten.scatter.value) or not _one_user(hits) or hits.args[1] not in (1, -1):
        return None
    zeros, _, places, one = hits.args
    if one != 1 or not _is(zeros, aten.zeros_like.default, aten.full_like.default, aten.full.default, aten.zeros.default):
        return None
    if _is(zeros, aten.full_like.default, aten.full.default) and zeros.args[1] != 0:
        return None
    if not _is(places, operator.getitem) or places.args[1] != 1 or not _one_user(places):
        return None
    found = _largest(places.args[0])
    if not found or not _one_user(places.args[0]):
        return None
    counted, group_k = found
    return _group_score(counted, choice, grouped, group_k, zeros)


def _group_score(counted, choice, grouped, group_k, zeros):
    if not set(counted.users) <= {zeros, *(u for u in counted.users if _is(u, aten.topk.default))}:
        return None
    last = ([-1], [2])
    if _is(counted, aten.sum.dim_IntList):
        best = counted.args[0]
        if _dims(counted) not in last or len(counted.args) > 2 or counted.kwargs:
            return None
        if not _is(best, operator.getitem) or best.args[1] != 0 or not _one_user(best):
            return None
        found = _largest(best.args[0])
        if not found or found[1] != 2 or grouped[2] < 2 or not _one_user(best.args[0]):
            return None
        cut, two = found[0], True
    elif _is(counted, aten.amax.default) and _dims(counted) in last and len(counted.args) < 3:
        cut, two = counted.args[0], False
    else:
        return None
    if not _is(cut, aten.view.default, aten.reshape.default) or cut.args[0] is not choice:
        return None
    return (group_k, two, cut) if _sizes(cut) == grouped and _one_user(cut) else None


def _weights(node):
    """The gate operator of which the node is the weights."""
    if _is(node, operator.getitem) and node.args[1] == 0 and _is(node.args[0], _CHOICE):
        return node.args[0]
    return None


def _set(made, **settings):
    args = list(made.args)
    for at, value in settings.values():
        args[at] = value
    made.args = tuple(args)


def _renormalised(graph, node, known):
    """Finds weights divided by their sum, or by their sum plus eps."""
    if not _is(node, aten.div.Tensor) or _weights(node.args[0]) is None:
        return False
    weights, total = node.args
    made, eps = _weights(weights), 0.0
    if made.args[_NORM] or made.args[_SCALE] != 1.0:
        return False
    looks = {node}
    if _is(total, aten.add.Tensor) and not total.kwargs and isinstance(total.args[1], float):
        eps = total.args[1]
        looks.add(total)
        if not _one_user(total):
            return False
        total = total.args[0]
    if not _is(total, aten.sum.dim_IntList) or total.args[0] is not weights or not _one_user(total):
        return False
    if _dims(total) not in ([-1], [1]) or total.args[2:] != (True,) or total.kwargs or eps < 0:
        return False
    if set(weights.users) != {node, total}:
        return False
    _set(made, norm=(_NORM, True), eps=(_EPS, eps))
    _take_in(node, weights)
    return True


def _scaled(graph, node, known):
    """Finds weights multiplied by a number."""
    if not _is(node, aten.mul.Tensor, aten.mul.Scalar) or _weights(node.args[0]) is None:
        return False
    weights, scale = node.args
    if type(scale) not in (int, float) or scale == 0 or not _one_user(weights):
        return False
    made = _weights(weights)
    if made.args[_SCALE] != 1.0:
        return False
    _set(made, scale=(_SCALE, float(scale)))
    _take_in(node, weights)
    return True


def _take_in(node, weights):
    """Replaces the node by the operator's weights."""
    _replace(node, weights)
