"""What operators do beside giving values, and which graphs that keeps from being weir's.

An operator with effects is run at every call, once, and in the program's order with others of
the kind, though nobody uses what it gives: collectives must meet those of the other ranks, and
random numbers follow one generator. Operators of namespaces that are not PyTorch's own may do
anything.
"""

import operator

import torch
from torch.fx.node import _side_effectful_functions

from .graph.places import Unsupported

_OURS = ("aten", "prims", "weir")
# What they give beside the bags, and take for gradients, is traced with other sizes than it has.
_BAGS = {"aten::_embedding_bag", "aten::_embedding_bag_forward_only"}
_GRADIENTS_OF_BAGS = {
    "aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward",
    "aten::_embedding_bag_per_sample_weights_backward",
}  # fmt: skip
_WITH_EFFECTS = torch.ops.higher_order.with_effects


def is_ordered(op):
    """Whether the operator has effects, as far as anybody can tell."""
    if not isinstance(op, torch._ops.OpOverload):
        return True  # a higher-order one: whatever is in its graphs
    if op.namespace not in _OURS or op in _side_effectful_functions:
        return True
    if torch.Tag.nondeterministic_seeded in op.tags or op._schema.is_mutable:
        return True
    return not any("Tensor" in str(r.type) for r in op._schema.returns)


def orders(module):
    """Whether the program says which operators go where, or after what."""
    return any(
        isinstance(n.target, torch._ops.OpOverload)
        and n.target.namespace == "weir"
        and is_ordered(n.target)
        for n in module.graph.nodes
    )


def meets(module):
    """Whether it has collectives."""
    return any(op_namespace(n.target) == "_c10d_functional" for n in module.graph.nodes)


def is_constant(op):
    """Whether the operator gives the same at every call without tensors among its arguments."""
    return not is_ordered(op)


def finished(op, results):
    """The results, once whoever makes them has: collectives return before that."""
    if op_namespace(op) in _OURS or not torch.distributed.is_available():
        return results
    wait = torch.ops._c10d_functional.wait_tensor
    return [wait(r) if isinstance(r, torch.Tensor) else r for r in results]


def op_namespace(op):
    return getattr(op, "namespace", "")


def check(module):
    """Raises Unsupported for a graph that only PyTorch can run."""
    for node in module.graph.nodes:
        if node.op == "call_function":
            _check_operator(node)
        vals = node.meta.get("val")
        for val in vals if isinstance(vals, (list, tuple)) else [vals]:
            if isinstance(val, torch.Tensor):
                _check_tensor(node, val)


def _check_operator(node):
    op = node.args[1] if node.target is _WITH_EFFECTS else node.target
    if isinstance(op, torch._ops.HigherOrderOperator) and node.users and "val" not in node.meta:
        raise Unsupported(f"PyTorch does not say what {op} gives")
    if not isinstance(op, torch._ops.OpOverload) or op.namespace == "weir":
        return
    if op._schema.is_mutable:
        raise Unsupported(f"{op} writes to its arguments")
    if op.namespace == "quantized" or "::quantize_per" in op._schema.name:
        raise Unsupported(f"{op} is about quantized tensors")  # fake ones are not marked as such
    name = op._schema.name
    if name in _GRADIENTS_OF_BAGS or name in _BAGS and any(_is_used(node, at) for at in (1, 2, 3)):
        raise Unsupported(f"{op} is traced with other sizes than it has")
    for place, returned in enumerate(op._schema.returns):
        kind = str(returned.type)
        if "Tensor" not in kind and op not in SIZES and _is_used(node, place):
            raise Unsupported(f"{op} gives a {kind} that is known only while the graph runs")


def _is_used(node, place):
    """Whether somebody takes that result: attention on a GPU gives sizes that nobody wants."""
    if node.target is _WITH_EFFECTS or len(node.target._schema.returns) == 1:
        return True
    return any(user.target is not operator.getitem or user.args[1] == place for user in node.users)


def _check_tensor(node, val):
    if val.layout is not torch.strided:
        raise Unsupported(f"{node.name} is a tensor of the layout {val.layout}")
    if val.is_quantized or val.is_nested:
        kind = "quantized" if val.is_quantized else "nested"
        raise Unsupported(f"{node.name} is a {kind} tensor")
    if val.device.type == "meta":
        raise Unsupported(f"{node.name} is on PyTorch's device 'meta'")


# Operators whose results are known with the sizes of the arguments.
SIZES = {
    torch.ops.aten.sym_size.int,
    torch.ops.aten.sym_numel.default,
    torch.ops.aten.sym_stride.int,
    torch.ops.aten.sym_storage_offset.default,
}
