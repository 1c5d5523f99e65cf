"""Scopes, waits and tokens as operators of PyTorch.

Eagerly a scope enters weir's own, and the other operators do nothing, since PyTorch's CPU tensors
are ready when they are returned. The purpose of the operators is to appear in the traced graph, in
program order, and never to be removed as dead code.
"""

import torch
from torch.fx.node import has_side_effect

from .. import _C, _dispatch
from .._dispatch import pop, push

_library = torch.library.Library("weir", "DEF")


def define(schema, function, fake=lambda *args: None, effect=True):
    """Defines torch.ops.weir.NAME; with ``effect`` it is never removed as dead code."""
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    # Tracing must not enter scopes or record events.
    torch.library.register_fake(f"weir::{name}", fake, lib=_library)
    overload = getattr(torch.ops.weir, name).default
    if effect:
        has_side_effect(overload)
    return overload


def _token(anchor=None):
    return torch.empty(0, dtype=torch.uint8)


scope_enter = define("scope_enter(str kind, str text, int first, int second) -> ()", push)
scope_leave = define("scope_leave(str kind) -> ()", pop)
wait_tensor = define("wait_tensor(Tensor self, Tensor dependency) -> ()", lambda a, b: None)
# PyTorch treats an operator without a tensor argument as a factory of tensors on a device.
record = define("record(Tensor? anchor=None) -> Tensor", _token, _token)
wait = define("wait(Tensor[] tokens) -> ()", lambda tokens: None)
event_record = define(
    "tagged_event_record(str tag) -> ()", lambda tag: _C.tagged_event_record(None, tag)
)
event_wait = define(
    "tagged_event_wait(str tag) -> ()", lambda tag: _C.tagged_event_wait(None, tag)
)


_dispatch.torch_ops = torch.ops.weir
_dispatch.is_compiling = torch.compiler.is_dynamo_compiling


@torch._dynamo.assume_constant_result
def _constant(function):
    return function()


_dispatch.constant = _constant
