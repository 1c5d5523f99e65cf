"""What models write in several operators and weir has as one, or needs not compute at all.

A traced graph is rewritten once, before anything is built of it:

- what depends on no argument (masks, positions) is computed now, and becomes a constant;
- a mask that turns out to say "causal", or nothing, is said to attention that way;
- the root of the mean square with what is around it is ``rms_norm``, pairs of halves turned by
  angles are ``rotary``: both round once, where the operators one by one round each result;
- memory that is filled piece by piece is a concatenation;
- experts: the ends of groups in a sorted list are counted in one go, and indices that are known not
  to be negative are not looked at;
- elementwise operators move down to the first one that uses them, so that they are neighbours.

Graphs with scopes, tokens or events of the user's only have constants folded: which operators go
where is theirs to say.
"""

import operator
from fractions import Fraction

import torch

from . import effects, kernels, library

aten = torch.ops.aten

LARGEST = 16 << 20  # bytes of a constant
ENABLED = True

_ORDER = {
    library.scope_enter, library.scope_leave, library.wait_tensor, library.record, library.wait,
    library.event_record, library.event_wait,
}  # fmt: skip


def rewrite(module):
    """Rewrites the module's graph in place."""
    if not ENABLED:
        return
    graph = module.graph
    known = _fold(module)
    if not any(node.target in _ORDER for node in graph.nodes):
        for node in list(graph.nodes):
            for pattern in (_joined, _masked, _rms_norm, _rotary, _ends, _picked, _placed):
                if pattern(graph, node, known):
                    break
        _sink(graph)
    module.recompile()


# ---- what nodes are ----


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


def _only(node, user):
    return len(node.users) == 1 and user in node.users


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


# ---- constants ----


def _is_pure(node):
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and not effects.is_ordered(node.target)


def _is_numbers(x):
    """Whether sizes among the arguments are numbers."""
    if isinstance(x, (list, tuple)):
        return all(map(_is_numbers, x))
    return not isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _fold(module):
    """Computes what depends on nothing. -> {node: its value}"""
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
    """The memory of results, of which others may be views."""
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
    except RuntimeError:  # as it will be told when the graph runs
        return None


def _settle(module, node, known):
    """The node's value as a constant of the module; one that repeats itself stays as it is, made of
    constants."""
    value = known[node]
    if not isinstance(value, torch.Tensor):
        return []
    if not node.all_input_nodes and value.numel() == 1:
        return [(node, value)]  # it is one already
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


# ---- attention ----

# By operator: where the mask is, and whether it is causal.
_MASKED = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: ("attn_mask", 4),
    aten._scaled_dot_product_efficient_attention.default: (3, 6),
    aten._scaled_dot_product_cudnn_attention.default: (3, 6),
}


def _masked(graph, node, known):
    if node.op != "call_function" or node.target not in _MASKED:
        return False
    mask_at, causal_at = _MASKED[node.target]
    if isinstance(mask_at, str):
        mask = node.kwargs.get(mask_at)
    else:
        mask = node.args[mask_at] if len(node.args) > mask_at else None
    if mask not in known or _shape(node.args[0]) is None or _shape(node.args[1]) is None:
        return False
    says = _meaning(known[mask], _shape(node.args[0])[-2], _shape(node.args[1])[-2])
    if says is None:
        return False
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


def _meaning(mask, queries, keys):
    """"causal", "nothing", or None."""
    if mask.dtype is not torch.bool:
        if not mask.is_floating_point() or not ((mask == 0) | (mask == float("-inf"))).all():
            return None
        mask = mask == 0
    if mask.all():
        return "nothing"
    if queries != keys or tuple(mask.shape[-2:]) != (queries, keys):
        return None
    causal = torch.ones(queries, keys, dtype=torch.bool, device=mask.device).tril()
    return "causal" if (mask == causal).all() else None


# ---- norms ----


def _one_user(node):
    return len(node.users) == 1


def _factors(node):
    """Both factors of a product, in both orders."""
    a, b = node.args
    if isinstance(a, torch.fx.Node) and isinstance(b, torch.fx.Node):
        yield a, b
        yield b, a


def _rms_norm(graph, node, known):
    if not _is(node, aten.mul.Tensor) or _shape(node) is None:
        return False
    for weight, normed in _factors(node):
        found = _normed(node, normed)
        if found and _shape(weight) == _shape(node)[-1:]:
            x, eps = found
            if _shape(x) != _shape(node):
                continue  # the weight makes rows of single numbers longer
            if _val(x).dtype == _val(weight).dtype == _val(node).dtype:
                with graph.inserting_before(node):
                    args = x, weight, eps
                    made = graph.call_function(kernels.OVERLOADS["rms_norm"], args)
                _replace(node, made)
                return True
    return False


def _normed(node, normed):
    """(x, eps) if it is x / rms(x), in x's type; computed in f32."""
    if _val(normed) is None or _val(normed).dtype != _val(node).dtype:
        return None  # rounded to another type on the way
    if _is(normed, aten._to_copy.default) and _one_user(normed):
        normed = normed.args[0]
    if not _is(normed, aten.mul.Tensor) or not _one_user(normed):
        return None
    for wide, root in _factors(normed):
        eps = _root(root, wide)
        if eps is not None and _val(wide).dtype == torch.float32:
            x = wide
            if _is(wide, aten._to_copy.default) and set(wide.kwargs) <= {"dtype"}:
                x = wide.args[0]
            if _val(x).dtype == _val(node).dtype:
                return x, eps
    return None


def _root(root, wide):
    """eps of rsqrt(mean(wide ** 2, -1) + eps)."""
    if not _is(root, aten.rsqrt.default) or not _one_user(root):
        return None
    sum_ = root.args[0]
    if not _is(sum_, aten.add.Tensor) or not _one_user(sum_) or sum_.kwargs:
        return None
    mean, eps = sum_.args
    if not isinstance(eps, float) or not _is(mean, aten.mean.dim) or not _one_user(mean):
        return None
    square = mean.args[0]
    last = list(mean.args[1]) in ([-1], [len(_shape(wide) or ()) - 1])
    if not last or mean.args[2:] != (True,) or mean.kwargs or not _one_user(square):
        return None
    is_square = _is(square, aten.pow.Tensor_Scalar) and square.args == (wide, 2)
    is_square |= _is(square, aten.mul.Tensor) and square.args == (wide, wide)
    return eps if is_square else None


# ---- rotary positions ----


def _rotary(graph, node, known):
    if not _is(node, aten.add.Tensor) or node.kwargs or len(_shape(node) or ()) != 4:
        return False
    for plain, turned in _factors(node):
        found = _turning(plain, turned)
        if not found:
            continue
        x, cos, sin = found
        shape = _shape(x)
        dtype = _val(x).dtype
        if shape != _shape(node) or not all(_is_angle(a, shape, dtype) for a in (cos, sin)):
            continue
        if _val(node).dtype != dtype:  # wider angles make a wider result
            continue
        with graph.inserting_before(node):
            made = graph.call_function(kernels.OVERLOADS["rotary"], (x, cos, sin))
        _replace(node, made)
        return True
    return False


def _turning(plain, turned):
    """(x, cos, sin) of x * cos and (-b, a) * sin, where (a, b) are the halves of x."""
    if not _is(plain, aten.mul.Tensor) or not _is(turned, aten.mul.Tensor):
        return None
    if not _one_user(plain) or not _one_user(turned):
        return None
    for halves, sin in _factors(turned):
        x = _halves(halves)
        for other, cos in _factors(plain):
            if x is not None and other is x:
                return x, cos, sin
    return None


def _halves(cat):
    """x if it is (-b, a)."""
    if not _is(cat, aten.cat.default) or not _one_user(cat) or len(cat.args[0]) != 2:
        return None
    shape = _shape(cat)
    if shape is None or (cat.args[1] if len(cat.args) > 1 else 0) not in (-1, len(shape) - 1):
        return None
    neg, first = cat.args[0]
    if not _is(neg, aten.neg.default):
        return None
    second, half = neg.args[0], shape[-1] // 2
    x = first.args[0] if _is(first, aten.slice.Tensor) else None
    if shape[-1] % 2 or not _is(second, aten.slice.Tensor) or second.args[0] is not x:
        return None
    if _slice(first, shape) != (0, half) or _slice(second, shape) != (half, 2 * half):
        return None
    return x


def _slice(node, shape):
    """(start, end) of a slice of the last dim with step 1; else None."""
    _, dim, start, end, step = [*node.args, *[0, 0, None, None, 1][len(node.args) :]][:5]
    if dim not in (-1, len(shape) - 1) or step != 1 or _shape(node.args[0]) is None:
        return None
    size = _shape(node.args[0])[-1]
    return start or 0, min(size if end is None else end, size)


def _is_angle(node, shape, dtype):
    """Whether it is [1, 1, length, d], with both halves the same."""
    val = _val(node)
    if val is None or _shape(node) != (1, 1, shape[2], shape[3]):
        return False
    if val.dtype not in (dtype, torch.float32):
        return False
    while isinstance(node, torch.fx.Node) and not _is(node, aten.cat.default):
        if node.target not in _KEEPS_HALVES or not node.args:
            return False
        if node.target is aten.mul.Tensor and isinstance(node.args[1], torch.fx.Node):
            return False
        node = node.args[0]
    if not isinstance(node, torch.fx.Node) or len(node.args[0]) != 2:
        return False
    dim = node.args[1] if len(node.args) > 1 else 0
    return node.args[0][0] is node.args[0][1] and dim in (-1, len(_shape(node)) - 1)


_KEEPS_HALVES = {
    aten.unsqueeze.default, aten._to_copy.default, aten.mul.Tensor, aten.mul.Scalar,
    aten.cos.default, aten.sin.default,
}  # fmt: skip


# ---- memory that is filled in pieces ----


def _joined(graph, node, known):
    """slice_scatter of two pieces over memory that nobody has written, as cat."""
    first = node.args[0] if _is(node, aten.slice_scatter.default) else None
    if not _is(first, aten.slice_scatter.default):
        return False
    empty, shape = first.args[0], _shape(node)
    if not _is(empty, aten.new_empty.default, aten.empty_like.default, aten.empty.memory_format):
        return False
    cuts = [_cut(n, shape) for n in (first, node)] if shape else [None]
    if None in cuts or cuts[0][0] != cuts[1][0]:
        return False
    (dim, *a), (_, *b) = cuts
    if a != [0, b[0]] or b[1] != shape[dim] or _val(node).dtype != _val(first).dtype:
        return False
    pieces = [_source(n) for n in (first, node)]
    if any(_val(p) is None or _val(p).dtype != _val(node).dtype for p in pieces):
        return False
    sizes = [(*shape[:dim], end - start, *shape[dim + 1 :]) for start, end in (a, b)]
    if [_shape(p) for p in pieces] != sizes:
        return False
    # Others may look at the first piece in it.
    for user in list(first.users):
        if user is not node and not (_is(user, aten.slice.Tensor) and _unread(user, node)):
            return False
    with graph.inserting_before(node):
        made = graph.call_function(aten.cat.default, (pieces, dim))
    _replace(node, made)
    return True


def _unread(view, node):
    """Whether a view of the half-filled memory serves only as the target of a copy into it."""
    return all(
        _is(user, aten.copy.default) and user.args[0] is view and set(user.users) <= {node}
        for user in view.users
    )


def _source(scatter):
    piece = scatter.args[1]
    return piece.args[1] if _is(piece, aten.copy.default) else piece


def _cut(node, shape):
    """(dim, start, end) of a slice_scatter with step 1."""
    _, _, dim, start, end, step = [*node.args, *[None, None, 0, None, None, 1][len(node.args) :]]
    if step != 1 or not all(x is None or isinstance(x, int) for x in (start, end)):
        return None
    dim %= len(shape)
    size = shape[dim]
    return dim, start or 0, min(size if end is None else end, size)


# ---- experts ----

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


# ---- order ----

_ELEMENTWISE = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor,
    aten.silu.default, aten.gelu.default, aten.sigmoid.default, aten.tanh.default,
    aten.relu.default, aten.neg.default, aten.exp.default, aten.rsqrt.default, aten.cos.default,
    aten.sin.default, aten._to_copy.default, aten.pow.Tensor_Scalar, aten.where.self,
}  # fmt: skip


def _sink(graph):
    """Moves elementwise operators down to the first one that uses them, if that is one too."""
    place = {node: Fraction(i) for i, node in enumerate(graph.nodes)}
    for node in reversed(list(graph.nodes)):
        if node.target not in _ELEMENTWISE or not node.users:
            continue
        first = min(node.users, key=place.__getitem__)
        if first.target in _ELEMENTWISE and _shape(first) == _shape(node) and first.prev is not node:
            place[node] = (place[first.prev] + place[first]) / 2  # several may go to one
            first.prepend(node)
