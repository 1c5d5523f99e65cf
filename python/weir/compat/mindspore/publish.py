"""Creates the modules."""

import weir

from .. import shim
from . import communication, context, gradients, mint, nn, ops, primitives, runtime, tensor

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
        JitConfig=context.JitConfig,
        **shim.public(gradients),
        **types,
    )
    for name in ("hal", "runtime"):
        more = shim.public(runtime) if name == "runtime" else {}
        shim.publish(f"mindspore.{name}", weir.hal.__doc__, **shim.public(weir.hal), **more)
    functional = mint.FUNCTIONAL
    names = {name: thing for name, thing in shim.public(mint).items() if name != "FUNCTIONAL"}
    shim.publish("mindspore.mint", mint.__doc__, **names)
    shim.publish("mindspore.mint.nn", mint.__doc__)
    shim.publish("mindspore.mint.nn.functional", mint.__doc__, **functional)
    for name in ("mindspore.communication", "mindspore.communication.management"):
        shim.publish(name, communication.__doc__, **shim.public(communication))
    shim.publish("mindspore.context", context.__doc__, **shim.public(context))
    functions = shim.public(ops)
    whole = shim.publish("mindspore.ops", ops.__doc__, **functions, **shim.public(primitives))
    shim.publish("mindspore.ops.functional", ops.__doc__, **functions)
    shim.place("mindspore.ops.operations", whole)
    shim.publish("mindspore.nn", nn.__doc__, **shim.public(nn))
    shim.publish("mindspore.common", "By weir.", Tensor=tensor.Tensor, Parameter=tensor.Parameter)
    shim.place("mindspore.dtype", shim.publish("mindspore.common.dtype", "By weir.", **types))
