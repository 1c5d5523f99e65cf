"""Attention: replaces constant masks by "causal" or no mask, and converts attention that PyTorch
has decomposed into products and a softmax back to one operator."""

import math
import operator

import torch

from .. import kernels
from .nodes import _erase, _is, _narrow, _one_user, _replace, _shape, _tell, _val

aten = torch.ops.aten

# By operator: the argument with the mask, and the index of the flag for causal.
_MASKED = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: ("attn_mask", 4),
    aten._scaled_dot_product_efficient_attention.default: (3, 6),
    aten._scaled_dot_product_cudnn_attention.default: (3, 6),
}
# Numbers that mask a key. For cuDNN PyTorch converts bools to a finite number instead of -inf.
_HIDES = {aten._scaled_dot_product_cudnn_attention.default: (-math.inf, -65504.0)}
_ALWAYS = (-math.inf,)


def _masked(graph, node, known):
    if node.op != "call_function" or node.target not in _MASKED:
        return False
    mask_at, causal_at = _MASKED[node.target]
    if isinstance(mask_at, str):
        mask = node.kwargs.get(mask_at)
    else:
        mask = node.args[mask_at] if len(node.args) > mask_at else None
    if mask is None or _shape(node.args[0]) is None or _shape(node.args[1]) is None:
        return False
    hides, says = _HIDES.get(node.target, _ALWAYS), None
    if mask in known:
        says = _meaning(known[mask], _shape(node.args[0])[-2], _shape(node.args[1])[-2], hides)
    if says is None:
        return not isinstance(mask_at, str) and _with_bools(graph, node, mask, known, hides)
    if isinstance(mask_at, str):
        args = [*node.args, *[0.0, False][len(node.args) - 3 :]]
        node.kwargs = {k: v for k, v in node.kwargs.items() if k != mask_at}
    else:
        args = [*node.args, *[None, False, 0.0, False][len(node.args) - 3 :]]
        args[mask_at] = None
    args[causal_at] = args[causal_at] or says == "causal"
    node.args = tuple(args)
    _erase(mask)
    return True


def _with_bools(graph, node, mask, known, hides):
    """On a GPU, uses weir's attention with the bools from which the mask of numbers was made.
    PyTorch's kernels take numbers only, so attention that stays PyTorch's (f32, long heads,
    gradients) is not changed."""
    q, k, v, *_ = node.args
    scale = node.kwargs.get("scale")
    if any(node.args[5:7]) or set(node.kwargs) - {"scale"}:  # dropout, or also causal
        return False
    if (scale is not None and scale <= 0) or _shape(v) is None:
        return False
    if not kernels.attends_on_gpu(_val(q).dtype, _shape(q)[-1], _shape(v)[-1]):
        return False
    used = [user for user in node.users if user.users]
    if any(not _is(user, operator.getitem) or user.args[1] != 0 for user in used):
        return False
    seen = _seen(graph, node, mask, known, hides)
    if seen is None:
        return False
    with graph.inserting_before(node):
        args = q, k, v, seen, False, scale or 1 / math.sqrt(_shape(q)[-1])
        made = graph.call_function(kernels.OVERLOADS["attention"], args)
    for user in used:
        _replace(user, made)
    # Dead code elimination would keep the old operator, as it may draw random numbers: erase it.
    inputs = node.all_input_nodes
    for unused in [*node.users, node]:
        graph.erase_node(unused)
    for other in inputs:
        _erase(other)
    return True


def _hidden(mask, hides):
    """Where a mask of numbers masks the key. The numbers may have been rounded to its type."""
    either = torch.zeros_like(mask, dtype=torch.bool)
    for number in hides:
        either |= (mask == number) | (mask == torch.tensor(number, dtype=mask.dtype))
    return either


def _seen(graph, node, mask, known, hides):
    """The bools from which the mask of numbers was made, or None. Programs also write the least f16
    themselves; then a row that is masked completely has another result."""
    if _is(mask, aten.expand.default) and not mask.kwargs:
        inner = _seen(graph, node, mask.args[0], known, hides)
        return inner and _made(graph, node, aten.expand.default, inner, mask.args[1])
    if not _is(mask, aten.where.self) or _val(mask.args[0]).dtype != torch.bool:
        return None
    choices = [known[x] if x in known else None for x in mask.args[1:]]
    if any(x is None or x.numel() != 1 for x in choices):
        return None
    shows = [x.item() == 0 for x in choices]
    dtype = _val(mask).dtype
    hides = _ALWAYS if dtype is torch.float16 else hides
    hidden = [_hidden(x.to(dtype), hides).all() for x in choices]
    if shows[0] and hidden[1]:
        return mask.args[0]
    if hidden[0] and shows[1]:
        return _made(graph, node, aten.logical_not.default, mask.args[0])
    return None


def _made(graph, node, target, *args):
    if target is aten.logical_not.default and _is(args[0], target, aten.bitwise_not.default):
        return args[0].args[0]
    with graph.inserting_before(node):
        made = graph.call_function(target, args)
    made.meta["val"] = target(_val(args[0]), *args[1:])
    _tell(made, node)
    return made


def _meaning(mask, queries, keys, hides=_ALWAYS):
    """"causal", "nothing", or None."""
    if mask.dtype is not torch.bool:
        if not mask.is_floating_point() or not ((mask == 0) | _hidden(mask, hides)).all():
            return None
        mask = mask == 0
    if mask.all():
        return "nothing"
    if queries != keys or tuple(mask.shape[-2:]) != (queries, keys):
        return None
    causal = torch.ones(queries, keys, dtype=torch.bool, device=mask.device).tril()
    return "causal" if (mask == causal).all() else None


# ---- decomposed attention ----

_RESHAPES = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default,
    aten.clone.default,
}  # fmt: skip


def _spelled_out(graph, node, known):
    """Finds softmax(q k' + mask) v, of [batch, heads, rows, columns], into which PyTorch decomposes
    attention if it has no kernel (keys and values of different sizes, on a host)."""
    if not _is(node, aten.bmm.default) or not _one_user(node) or _shape(node) is None:
        return False
    result = next(iter(node.users))
    if not _is(result, aten.view.default) or len(_shape(result) or ()) != 4:
        return False
    softmax, v = (_through(x) for x in node.args)
    found = _scores(softmax)
    if not found or len(_shape(softmax)) != 4 or len(_shape(v) or ()) != 4:
        return False
    q, k, mask, scale = found
    last, narrow = result, _narrow(v)
    if narrow is not v:  # computed in f32 and rounded at the end
        if not _one_user(result) or not _is(next(iter(result.users)), aten._to_copy.default):
            return False
        last = next(iter(result.users))
    q, k, v = _narrow(q), _narrow(k), narrow
    if len({_val(x).dtype for x in (q, k, v, last)}) != 1 or _shape(last) != (
        *_shape(q)[:3], _shape(v)[3]
    ):  # fmt: skip
        return False
    if _shape(k)[:3] != _shape(v)[:3] or _shape(q)[:2] != _shape(k)[:2] or _shape(q)[3] != _shape(k)[3]:
        return False
    mask, causal = _said(graph, last, mask, known, _shape(q)[2], _shape(k)[2])
    if mask is not None and _val(mask).dtype not in (torch.bool, _val(q).dtype):
        return False
    with graph.inserting_before(last):
        args = q, k, v, mask, causal, scale
        made = graph.call_function(kernels.OVERLOADS["attention"], args)
    _replace(last, made)
    return True


def _said(graph, node, mask, known, queries, keys):
    """(mask or None, causal) for attention with this mask."""
    if mask is None:
        return None, False
    if mask in known:
        says = _meaning(known[mask], queries, keys)
        if says is not None:
            return None, says == "causal"
    seen = _seen(graph, node, mask, known, _ALWAYS)
    return (mask if seen is None else seen), False


def _through(node):
    while _is(node, *_RESHAPES) and _one_user(node) and _shape(node) is not None:
        inner = node.args[0]
        if math.prod(_shape(inner) or (0,)) != math.prod(_shape(node)):
            break
        node = inner
        if len(_shape(node)) == 4 and not _is(node, aten.expand.default, aten.clone.default):
            break
    return node


def _scores(node):
    """(q, k, mask, scale) of softmax(q k' + mask)."""
    if not _is(node, aten._safe_softmax.default) or not _one_user(node) or node.args[1] not in (-1, 3):
        return None
    scores, mask = node.args[0], None
    if _is(scores, aten.add.Tensor) and not scores.kwargs and _one_user(scores):
        scores, mask = scores.args
        if _val(mask) is None or not 2 <= len(_shape(mask) or ()) <= 4:
            return None
    product = _through(scores)
    if not _is(product, aten.bmm.default) or not _one_user(product):
        return None
    sides = [_scaled(_through(x)) for x in product.args]
    if None in sides:
        return None
    (q, first), (turned, second) = sides
    if not _is(turned, aten.transpose.int) or sorted(d % 4 for d in turned.args[1:]) != [2, 3]:
        return None
    if len(_shape(q) or ()) != 4 or len(_shape(turned)) != 4:
        return None
    return q, turned.args[0], mask, first * second


def _scaled(node):
    """(x, the factor by which it is multiplied)."""
    if _is(node, aten.mul.Scalar, aten.mul.Tensor) and type(node.args[1]) is float and _one_user(node):
        return (node.args[0], node.args[1]) if node.args[1] > 0 else None
    return None
