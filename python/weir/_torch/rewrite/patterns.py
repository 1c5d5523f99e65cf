"""Patterns of several operators that weir has as one operator, or need not compute.

A traced graph is rewritten once, before a weir graph is built of it:

- values that depend on no argument (masks, positions) become constants;
- a constant mask that is causal, or masks nothing, becomes a flag of attention; and attention that
  PyTorch decomposes into products and a softmax becomes one operator (attention.py);
- the operators of an RMS norm become ``rms_norm``, and those of a rotary embedding ``rotary``; both
  round once, while the separate operators round each result;
- memory that is filled piece by piece becomes a concatenation;
- experts: the gate, the sorting of entries by expert, and the weighted sum of the experts' results
  become one operator each (gates.py, experts.py); indices that cannot be negative are not
  converted;
- elementwise operators move down to their first user, so that the two are neighbours; those on a
few
  numbers that depend only on arguments, such as counters of each layer, move up to the beginning.

In graphs with the user's scopes, tokens or events only constants are folded: there the user decides
where operators run.
"""

import math
from fractions import Fraction

import torch

from .. import kernels, library
from .attention import _masked, _spelled_out
from .constants import _fold
from .experts import _ends, _inverse, _picked, _placed, _summed, tokens_of_entries
from .gates import _biased, _chosen, _renormalised, _scaled
from .nodes import _dims, _erase, _factors, _is, _one_user, _replace, _shape, _val

aten = torch.ops.aten

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
            for pattern in _PATTERNS:
                if not node._erased and pattern(graph, node, known):
                    break
        tokens_of_entries(graph)
        _sink(graph)
        _raise(graph)
    module.recompile()


# ---- norms ----


def _rms_norm(graph, node, known):
    if not _is(node, aten.mul.Tensor) or _shape(node) is None:
        return False
    for weight, normed in _factors(node):
        found = _normed(node, normed)
        if found and _shape(weight) == _shape(node)[-1:]:
            x, eps = found
            if _shape(x) != _shape(node):
                continue  # the weight expands rows of one element
            if _val(x).dtype == _val(weight).dtype == _val(node).dtype:
                with graph.inserting_before(node):
                    args = x, weight, eps
                    made = graph.call_function(kernels.OVERLOADS["rms_norm"], args)
                _replace(node, made)
                return True
    return False


def _normed(node, normed):
    """(x, eps) if the node is x / rms(x) in x's type, computed in f32."""
    if _val(normed) is None or _val(normed).dtype != _val(node).dtype:
        return None  # an intermediate result is rounded to another type
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
    last = _dims(mean) in ([-1], [len(_shape(wide) or ()) - 1])
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
        if _val(node).dtype != dtype:  # angles of a wider type give a wider result
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
    """x if the node is (-b, a) of the halves (a, b) of x."""
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
    """Whether the node is [1, 1, length, d] with equal halves."""
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
    """Replaces slice_scatter of two pieces over uninitialised memory by cat."""
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
    # Other nodes may read the first piece from the memory.
    for user in list(first.users):
        if user is not node and not (_is(user, aten.slice.Tensor) and _unread(user, node)):
            return False
    with graph.inserting_before(node):
        made = graph.call_function(aten.cat.default, (pieces, dim))
    _replace(node, made)
    _flattened(graph, made, known)
    return True


def _unread(view, node):
    """Whether a view of the half-filled memory is only the target of a copy."""
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


def _flattened(graph, node, known):
    """Flattens nested concatenations along the same dim."""
    if not _is(node, aten.cat.default) or _shape(node) is None:
        return False
    dim = (node.args[1] if len(node.args) > 1 else 0) % len(_shape(node))
    pieces = [p for x in node.args[0] for p in _pieces(graph, node, x, dim)]
    if len(pieces) == len(node.args[0]) or len(pieces) > 16:
        return False
    with graph.inserting_before(node):
        made = graph.call_function(aten.cat.default, (pieces, dim))
    _replace(node, made)
    return True


def _pieces(graph, node, x, dim):
    """The pieces of which x is concatenated along dim, in x's type; an expanded piece stays so."""
    inner = x.args[0] if _is(x, aten.expand.default) and _one_user(x) else x
    if not _is(inner, aten.cat.default) or not _one_user(inner) or len(_shape(inner)) != len(_shape(x)):
        return [x]
    own = (inner.args[1] if len(inner.args) > 1 else 0) % len(_shape(inner))
    if own != dim or _shape(inner)[dim] != _shape(x)[dim] or _val(inner).dtype != _val(node).dtype:
        return [x]
    if any(_val(p).dtype != _val(node).dtype or not _shape(p)[dim:] for p in inner.args[0]):
        return [x]
    found = []
    for piece in inner.args[0]:
        shape = [*_shape(x)]
        shape[dim] = _shape(piece)[dim]
        if tuple(shape) != _shape(piece):
            with graph.inserting_before(node):
                spread = graph.call_function(aten.expand.default, (piece, shape))
            spread.meta["val"] = _val(piece).expand(shape)
            piece = spread
        found.append(piece)
    return found


# ---- order ----

_ELEMENTWISE = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor,
    aten.silu.default, aten.gelu.default, aten.sigmoid.default, aten.tanh.default,
    aten.relu.default, aten.neg.default, aten.exp.default, aten.rsqrt.default, aten.cos.default,
    aten.sin.default, aten._to_copy.default, aten.pow.Tensor_Scalar, aten.where.self,
}  # fmt: skip


def _sink(graph):
    """Moves elementwise operators down to their first user, if that is elementwise too."""
    place = {node: Fraction(i) for i, node in enumerate(graph.nodes)}
    for node in reversed(list(graph.nodes)):
        if node.target not in _ELEMENTWISE or not node.users:
            continue
        first = min(node.users, key=place.__getitem__)
        if first.target in _ELEMENTWISE and _shape(first) == _shape(node) and first.prev is not node:
            place[node] = (place[first.prev] + place[first]) / 2  # between the two; several may move there
            first.prepend(node)


FEW = 64  # an operator on at most this many elements takes less time than its launch
_SMALL_STEPS = _ELEMENTWISE | {
    aten.arange.default, aten.arange.start, aten.arange.start_step, aten.view.default,
    aten.unsqueeze.default, aten.squeeze.dim, aten.lt.Scalar, aten.lt.Tensor, aten.le.Tensor,
    aten.ge.Tensor, aten.gt.Tensor,
}  # fmt: skip


def _raise(graph):
    """Moves elementwise operators on a few elements that depend only on arguments to the beginning,
    so that those of all layers of a model become neighbours."""
    first = next(n for n in graph.nodes if n.op != "placeholder")
    early = {n for n in graph.nodes if n.op == "placeholder"}
    for node in list(graph.nodes):
        short = node.target in _SMALL_STEPS and _is_short(node)
        if node.op != "get_attr" and not (short and early.issuperset(node.all_input_nodes)):
            continue
        early.add(node)
        if node is first:
            first = node.next
        else:
            first.prepend(node)


def _is_short(node):
    shape = _shape(node)
    return shape is not None and math.prod(shape) <= FEW


# Each is tried on every node, in the order of the graph; the first that matches is applied.
_PATTERNS = (
    _joined, _flattened, _masked, _spelled_out, _rms_norm, _rotary, _chosen, _biased, _renormalised, _scaled, _ends, _inverse,
    _picked, _placed, _summed,
)  # fmt: skip
