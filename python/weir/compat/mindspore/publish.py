"""Making the modules."""

import sys

import weir

from .. import shim
from . import context, nn, ops, tensor

_TYPES = "float32 float16 bfloat16 float64 int64 int32 int8 uint8 bool_".split()


def publish():
    """Makes ``mindspore`` and its submodules importable."""
    types = {name: getattr(weir, name) for name in _TYPES}
    tensor.extend()
    shim.publish(
        "mindspore",
        "MindSpore, by weir.",
        Tensor=tensor.Tensor,
        Parameter=tensor.Parameter,
        tensor=tensor.make,
        from_numpy=weir.from_numpy,
        set_context=context.set_context,
        get_context=context.get_context,
        set_device=context.set_device,
        set_seed=context.set_seed,
        PYNATIVE_MODE=context.PYNATIVE_MODE,
        GRAPH_MODE=context.GRAPH_MODE,
        jit=context.jit,
        **types,
    )
    for name, module in (("hal", weir.hal), ("runtime", weir.hal)):
        sys.modules[f"mindspore.{name}"] = module
        setattr(sys.modules["mindspore"], name, module)
    shim.publish("mindspore.context", context.__doc__, **_public(context))
    shim.publish("mindspore.ops", ops.__doc__, **_public(ops))
    sys.modules["mindspore.ops.functional"] = sys.modules["mindspore.ops"]
    shim.publish("mindspore.nn", nn.__doc__, **_public(nn))
    shim.publish("mindspore.common", "By weir.", Tensor=tensor.Tensor, Parameter=tensor.Parameter)
    shim.publish("mindspore.common.dtype", "By weir.", **types)
    sys.modules["mindspore"].dtype = sys.modules["mindspore.common.dtype"]


def _public(module):
    return {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__name__", "") != "weir"
    }
