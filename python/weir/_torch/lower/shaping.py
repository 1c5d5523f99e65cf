"""Views in graphs of open sizes: use the traced sizes instead of the example's."""

import torch

from ... import _C
from .. import kernels
from ..graph import places
from ..graph.symbols import NotElastic
from . import table

aten = torch.ops.aten
TABLE = {}


def shapes(*overloads):
    def add(function):
        for overload in overloads:
            TABLE[overload] = function
        return function

    return add


@shapes(
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze.default,
)
def _reshape(symbols, node, x, *args):
    return x.reshape(symbols.names_of(places.traced(node).shape))


@shapes(aten.expand.default)
def _expand(symbols, node, x, *args, **kwargs):
    return x.expand(symbols.names_of(places.traced(node).shape))


def _cut(x, dim, start, end, step=1):
    return _C.slice_dim(x, dim, 0 if start is None else start, end, step)


@shapes(aten.slice.Tensor)
def _slice(symbols, node, x, dim=0, start=None, end=None, step=1):
    return _cut(x, dim, symbols.name(start), symbols.name(end), step)


@shapes(aten.select.int)
def _select(symbols, node, x, dim, index):
    index = int(index)  # for -1 the slice must not end at 0
    row = _cut(x, dim, index, index + 1 or None)
    return row.reshape(symbols.names_of(places.traced(node).shape))


@shapes(aten.unbind.int)
def _unbind(symbols, node, x, dim=0):
    names = symbols.names_of(node.meta["val"][0].shape)
    return [_cut(x, dim, i, i + 1).reshape(names) for i in range(len(node.meta["val"]))]


@shapes(aten.split.Tensor, aten.split_with_sizes.default)
def _split(symbols, node, x, sizes, dim=0):
    parts, start = [], 0
    for val in node.meta["val"]:
        size = val.shape[dim]
        end = start + (size.node.expr if isinstance(size, torch.SymInt) else size)
        parts.append(_cut(x, dim, symbols.name(start), symbols.name(end)))
        start = end
    return parts


@shapes(aten.stack.default)
def _stack(symbols, node, tensors, dim=0):
    made = list(places.traced(node).shape)
    made[dim] = 1
    try:
        names, out = symbols.names_of(made), table.out_dtype(node.meta["val"])
    except table.Decline:
        raise NotElastic(f"a stack of type {places.traced(node).dtype}") from None
    return table.TABLE[aten.cat.default]([t.reshape(names) for t in tensors], dim, out=out)


# Operators for which a size is an operand of arithmetic.
ARITHMETIC = {
    getattr(getattr(aten, name), overload)
    for name in "add sub rsub mul div floor_divide eq ne lt le gt ge".split()
    for overload in ("Tensor", "Scalar", "default")
    if hasattr(getattr(aten, name), overload)
}

# ---- lowerings that depend on sizes ----


def expression(size):
    return size.node.expr if isinstance(size, torch.SymInt) else size


def sizes_of(node):
    return [expression(s) for s in places.traced(node).shape]


def sizes(node, at):
    """The sizes of an argument; open ones as expressions."""
    return sizes_of(node.args[at])


def _is_open(sizes):
    return any(not isinstance(s, int) for s in sizes)


def _has_open(node):
    shapes = [places.traced(n).shape for n in node.all_input_nodes if places.traced(n) is not None]
    return any(isinstance(s, torch.SymInt) for shape in shapes for s in shape)


def _attends_safely(at):
    """Whether attention, whose argument `at` says that it is causal, has a query for each key."""

    def test(node):
        causal = node.args[at] if len(node.args) > at else node.kwargs.get("is_causal")
        return not causal or sizes(node, 0)[-2] == sizes(node, 1)[-2]

    return test


def _rest_is_fixed(node):
    """Whether all sizes but the first, which is written as -1, are fixed."""
    return not _is_open(sizes(node, 0)[1:])


def _ends_fixed(node):
    return not _is_open(sizes(node, 0)[-2:])


def _indexed_is_fixed(node):
    x = sizes(node, 0)
    at = [d for d, i in enumerate(node.args[1]) if i is not None]
    if len(at) != 1 or not isinstance(x[at[0]], int):
        return False
    # Indexing a later one of several dims uses the sizes of the dims before it.
    return at[0] == 0 or places.traced(node.args[1][at[0]]).ndim == 1


def _copies_safely(node):
    """Of a number, it goes by the first one's sizes."""
    return isinstance(node.args[1], torch.fx.Node) and sizes(node, 0) == sizes(node, 1)


def _rows_are_fixed(node):
    return isinstance(sizes(node, 0)[-1], int)


def _nothing_is_open(node):
    return not _has_open(node)


# weir's own operators of rows, or of a fixed number of results, take any number of rows.
_FREE = "expert_choice expert_order expert_sum grouped_matmul ends_of_groups silu int_matmul".split()

# Tests whether a lowering's decisions by size hold for all sizes; lowerings not listed make none.
_SAFE = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attends_safely(4),
    aten._scaled_dot_product_flash_attention.default: _attends_safely(4),
    aten._scaled_dot_product_efficient_attention.default: _attends_safely(6),
    aten._scaled_dot_product_cudnn_attention.default: _attends_safely(6),
    aten.scatter_add.default: lambda node: sizes(node, 2) == sizes(node, 3),
    aten.scatter.src: lambda node: sizes(node, 2) == sizes(node, 3),
    aten.copy.default: _copies_safely,
    aten.convolution.default: _rest_is_fixed,
    aten.native_group_norm.default: _rest_is_fixed,
    aten._adaptive_avg_pool2d.default: _rest_is_fixed,
    aten.tril.default: _ends_fixed,
    aten.triu.default: _ends_fixed,
    aten.index.Tensor: _indexed_is_fixed,
    aten._unsafe_index.Tensor: _indexed_is_fixed,
    aten.embedding_dense_backward.default: _rows_are_fixed,
    **dict.fromkeys(
        (
            aten.var.correction,
            aten.std.correction,
            aten.fill.Scalar,
            aten.fill.Tensor,
            aten.constant_pad_nd.default,
            aten.max_pool2d_with_indices.default,
            aten.max_pool3d_with_indices.default,
            aten.avg_pool2d.default,
            aten.avg_pool3d.default,
            aten.index_put.default,
            aten.index_copy.default,
            aten.scatter.value,
            aten.slice_scatter.default,
            aten.select_scatter.default,
            aten.view_as_complex.default,
            *(overload for name, overload in kernels.OVERLOADS.items() if name not in _FREE),
        ),
        _nothing_is_open,
    ),
}


def is_safe(node):
    """Whether the operator's lowering is valid for all values of the open sizes."""
    safe = _SAFE.get(node.target)
    return safe is None or not _has_open(node) or safe(node)
