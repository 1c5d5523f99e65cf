"""Functional collectives of a traced graph as nodes of the plan.

Each group of backend ``weir`` has its own stream in the plan. ``wait_tensor`` returns its argument:
a node on another stream that uses the value waits for it, so operators between a collective and the
use of its result overlap with the collective.
"""

import torch

from ... import _dispatch
from .table import Decline, lowers

_OPS = {"sum": "sum", "avg": "mean", "product": "prod", "min": "min", "max": "max"}


def _group(name, x):
    """The group on the device of x; declines groups of other backends."""
    from torch.distributed.distributed_c10d import _resolve_process_group

    found = _resolve_process_group(name)
    if not hasattr(found, "_plan_group"):
        raise Decline("the group is not of backend weir")
    return found._plan_group(x.device)


def _call(function, name, x):
    group = _group(name, x)
    _dispatch.push("stream", f"collectives {name}", 0, 0)
    try:
        return function(group)
    finally:
        _dispatch.pop("stream")


def _op(name):
    if name not in _OPS:
        raise Decline(f"no reduction {name}")
    return _OPS[name]


def _register():
    ops = torch.ops._c10d_functional

    @lowers(ops.all_reduce.default)
    def all_reduce(x, op, group, out):
        op = _op(op)
        return _call(lambda g: g.reduced(x, op), group, x)

    @lowers(ops.all_gather_into_tensor.default)
    def all_gather(x, size, group, out):
        if not x.shape:
            raise Decline("a tensor without dims has no rows")
        return _call(lambda g: g.gathered(x), group, x)

    @lowers(ops.reduce_scatter_tensor.default)
    def reduce_scatter(x, op, size, group, out):
        op = _op(op)
        return _call(lambda g: g.reduced(x, op, True), group, x)

    @lowers(ops.broadcast.default)
    def broadcast(x, source, group, out):
        return _call(lambda g: g.broadcasted(x, source), group, x)

    @lowers(ops.all_to_all_single.default)
    def all_to_all(x, output_rows, input_rows, group, out):
        return _call(lambda g: g.exchanged(x, input_rows, output_rows), group, x)

    @lowers(ops.all_reduce_coalesced.default)
    def all_reduce_coalesced(xs, op, group, out):
        return [all_reduce(x, op, group, out) for x in xs]

    @lowers(ops.all_gather_into_tensor_coalesced.default)
    def all_gather_coalesced(xs, size, group, out):
        return [all_gather(x, size, group, out) for x in xs]

    @lowers(ops.reduce_scatter_tensor_coalesced.default)
    def reduce_scatter_coalesced(xs, op, size, group, out):
        return [reduce_scatter(x, op, size, group, out) for x in xs]

    @lowers(ops.wait_tensor.default)
    def wait(x, out):
        return x


if torch.distributed.is_available():
    _register()
