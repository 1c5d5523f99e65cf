"""Side effects of operators, and graphs that weir cannot run because of them.

An operator with effects runs exactly once per call, and in the program's order with other such
operators, even if its result is unused: collectives must meet those of the other ranks, and random
numbers come from one generator. Operators outside of PyTorch's own namespaces may have any effect.
"""

import operator

import torch
from torch.fx.node import _side_effectful_functions

from .graph.places import Unsupported

_OURS = ("aten", "prims", "weir")
# The sizes of their further results, and of the gradients' arguments, are traced incorrectly.
_BAGS = {"aten::_embedding_bag", "aten::_embedding_bag_forward_only"}
_GRADIENTS_OF_BAGS = {
    "aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward",
    "aten::_embedding_bag_per_sample_weights_backward",
}  # fmt: skip
_WITH_EFFECTS = torch.ops.higher_order.with_effects


def is_ordered(op):
    """Whether the operator may have effects."""
    if not isinstance(op, torch._ops.OpOverload):
        return True  # a higher-order operator: its graphs may contain anything
    if op.namespace not in _OURS or op in _side_effectful_functions:
        return True
    if torch.Tag.nondeterministic_seeded in op.tags or op._schema.is_mutable:
        return True
    return not any("Tensor" in str(r.type) for r in op._schema.returns)


def orders(module):
    """Whether the program places or orders operators itself."""
    return any(
        isinstance(n.target, torch._ops.OpOverload)
        and n.target.namespace == "weir"
        and is_ordered(n.target)
        for n in module.graph.nodes
    )


def meets(module):
    """Whether the module has collectives."""
    return any(op_namespace(n.target) == "_c10d_functional" for n in module.graph.nodes)


def is_constant(op):
    """Whether the operator, called without tensors, returns the same at every call."""
    return not is_ordered(op)


def finished(op, results):
    """Waits for the results of a collective, which returns before they are computed."""
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
        raise Unsupported(f"PyTorch does not say what {op} returns")
    if not isinstance(op, torch._ops.OpOverload) or op.namespace == "weir":
        return
    if op._schema.is_mutable:
        raise Unsupported(f"{op} writes to its arguments")
    if op.namespace == "quantized" or "::quantize_per" in op._schema.name:
        raise Unsupported(f"{op} uses quantized tensors")  # fake tensors are not marked as quantized
    name = op._schema.name
    if name in _GRADIENTS_OF_BAGS or name in _BAGS and any(_is_used(node, at) for at in (1, 2, 3)):
        raise Unsupported(f"{op} is traced with other sizes than it has")
    for place, returned in enumerate(op._schema.returns):
        kind = str(returned.type)
        if "Tensor" not in kind and op not in SIZES and _is_used(node, place):
            raise Unsupported(f"{op} returns a {kind} that is known only while the graph runs")


def _is_used(node, place):
    """Whether that result is used: attention on a GPU returns sizes that are mostly unused."""
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


# Operators whose results depend only on the sizes of the arguments.
SIZES = {
    torch.ops.aten.sym_size.int,
    torch.ops.aten.sym_numel.default,
    torch.ops.aten.sym_stride.int,
    torch.ops.aten.sym_storage_offset.default,
}
