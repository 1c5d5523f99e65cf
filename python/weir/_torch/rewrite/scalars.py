"""Numbers of a program that Dynamo passes as tensors.

For ``dynamic=True`` Dynamo makes a Python float, such as the eps of a norm, an argument: a tensor
of one f64. Such numbers hardly ever change, and weir's patterns require numbers. So a graph is
built for the numbers of its first call; when a call has other numbers, it is built again for any.
"""

import copy
import math

import torch

from .nodes import _is, _val

aten = torch.ops.aten
_CONVERT = torch.ops.prims.convert_element_type.default
_EITHER_WAY = {aten.add.Tensor, aten.mul.Tensor}
_SECOND = {aten.sub.Tensor, aten.div.Tensor}


def _converted(node):
    """Follows Dynamo's conversions of such a number: to its own type, then to others."""
    return [last for first in node.users for last in first.users]


def _takes(user, number):
    """Whether the operator gives the same result with a number instead of the tensor."""
    if user.kwargs or len(user.args) != 2 or user.args[0] is user.args[1]:
        return False
    if not (user.target in _EITHER_WAY or (user.target in _SECOND and user.args[1] is number)):
        return False
    other = _val(user.args[0] if user.args[1] is number else user.args[1])
    dtypes = {_val(number).dtype, _val(user).dtype, other.dtype if other is not None else None}
    return dtypes in ({torch.float32}, {torch.float64})


def _is_number(node):
    val = _val(node)
    if val is None or val.dtype != torch.float64 or val.ndim or val.device.type != "cpu":
        return False
    return bool(node.users) and all(
        _is(first, _CONVERT) and first.args[1] == torch.float64 and all(
            _is(last, _CONVERT) and all(_takes(user, last) for user in last.users)
            for last in first.users
        )
        for first in node.users
    )  # fmt: skip


def find(module):
    """The indices of arguments that are such numbers."""
    arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
    return tuple(i for i, n in enumerate(arguments) if _is_number(n))


def copied(module):
    """Returns the module with a copy of its graph."""
    return torch.fx.GraphModule(module, copy.deepcopy(module.graph))


def put(module, numbers):
    """Replaces arguments by the given numbers."""
    arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
    for index, value in numbers.items():
        for last in _converted(arguments[index]):
            for user in list(last.users):
                other = user.args[0] if user.args[1] is last else user.args[1]
                user.args = (other, value)
        for first in list(arguments[index].users):
            for last in list(first.users):
                module.graph.erase_node(last)
            module.graph.erase_node(first)
    module.recompile()


def key(number):
    """A key for such an argument: 0.0 and -0.0 have different keys."""
    value = number.item()
    return value, math.copysign(1.0, value)


def is_same(number, value):
    """Whether the argument equals the value for which the graph was built."""
    return key(number) == (value, math.copysign(1.0, value))


def are_finite(values):
    return all(math.isfinite(x) for x in values)
