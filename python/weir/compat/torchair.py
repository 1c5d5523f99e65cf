"""``torchair`` and ``torch.npu.npugraph_ex``: weir's backend for torch.compile, under their names."""

import logging

import torch

import weir

from .. import _torch  # makes scopes operators of PyTorch
from . import printing, shim

EVENT_LEVEL = 35  # of torchair's logger: between warnings and errors


def publish():
    """Makes the modules and gives the logger a handler."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(levelname)s] TORCHAIR(%(process)d) %(message)s"))
    weir.logger.addHandler(handler)
    weir.logger.setLevel(logging.ERROR)
    torchair = shim.publish(
        "torchair",
        "TorchAir, by weir.",
        get_npu_backend=weir.get_npu_backend,
        get_compiler=get_compiler,
        patch_for_hcom=patch_for_hcom,
        register_replacement=register_replacement,
        use_internal_format_weight=use_internal_format_weight,
        CompilerConfig=weir.CompilerConfig,
        logger=weir.logger,
    )
    shim.publish("torchair.scope", weir.scope.__doc__, **shim.public(weir.scope))
    shim.publish(
        "torchair.ops",
        weir.ops.__doc__,
        npu_print=printing.npu_print,
        npu_fused_infer_attention_score=weir.npu.npu_fused_infer_attention_score,
        **shim.public(weir.ops),
    )
    inference = {"cache_compile": cache_compile, "set_dim_gears": set_dim_gears}
    shim.publish("torchair.inference", "Inference, by weir.", **inference)
    for name in ("configs", "config"):  # both spellings are in use
        shim.publish(f"torchair.{name}", "Configuration, by weir.")
        shim.publish(
            f"torchair.{name}.compiler_config",
            "Configuration, by weir.",
            CompilerConfig=weir.CompilerConfig,
        )
    shim.publish("torchair.core", "By weir.")
    logging.addLevelName(EVENT_LEVEL, "EVENT")
    shim.publish("torchair.core.utils", "By weir.", logger=weir.logger, EVENT_LEVEL=EVENT_LEVEL)
    shim.publish("torch_npu.dynamo", "By weir.")
    shim.place("torch_npu.dynamo.torchair", torchair)
    _publish_npugraph_ex()
    for name in ("npu", "npugraphs", "npugraph_ex"):  # torch.compile(backend="npu")
        _torch.register(name)


def _publish_npugraph_ex():
    whole = shim.publish(
        "torch.npu.npugraph_ex",
        "npugraph_ex, by weir.",
        compile_fx=compile_fx,
        register_replacement=register_replacement,
    )
    scope = {"limit_core_num": weir.scope.limit_core_num}
    for name in ("torch.npu.npugraph_ex", "torch_npu.npu.npugraph_ex"):
        shim.place(name, whole)
        shim.publish(f"{name}.scope", weir.scope.__doc__, **scope)
        shim.publish(f"{name}.inference", "Inference, by weir.", cache_compile=cache_compile)


def get_compiler(compiler_config=None):
    """Returns a compiler for AOTAutograd: (module, example inputs) -> function."""
    backend = weir.get_npu_backend(compiler_config=compiler_config)

    def compile(module, example_inputs):
        run = backend._compile(module, example_inputs)

        def call(*args):
            return run(list(args))

        call.backend = backend
        return call

    return compile


def compile_fx(gm, example_inputs=None, options=None):
    """Compiles a graph, for use in a backend of torch.compile."""
    return weir.get_npu_backend()(gm, example_inputs, options=options)


def patch_for_hcom():
    """Does nothing: collectives in a compiled function run as PyTorch's own."""


def register_replacement(search_fn, replace_fn, example_inputs, **options):
    """Only warns: weir fuses by its own rules, and the original operators compute the same."""
    weir.logger.warning(
        "register_replacement has no effect: weir does not replace %s",
        getattr(search_fn, "__name__", search_fn),
    )


def use_internal_format_weight(model):
    """Returns the model unchanged: weir has one memory format."""
    return model


def cache_compile(func, *, config=None, backend=None, dynamic=True, cache_dir=None,
                  global_rank=None, tp_rank=None, pp_rank=None, custom_decompositions=None,
                  ge_cache=False, **options):  # fmt: skip
    """Compiles the function for this process: weir compiles in milliseconds and writes no cache."""
    if not callable(func):
        raise TypeError(f"cache_compile compiles a function, not a {type(func).__name__}")
    made = weir.get_npu_backend(
        compiler_config=config, custom_decompositions=custom_decompositions
    )
    return torch.compile(func, backend=made, dynamic=dynamic, fullgraph=True)


def set_dim_gears(t, dim_gears):
    """Declares the sizes of dims, {dim: [sizes]}. weir only checks them: it compiles sizes on
    demand."""
    if not isinstance(t, torch.Tensor) or not isinstance(dim_gears, dict):
        raise AssertionError("set_dim_gears takes a tensor and a dict of dims and sizes")
    for dim, sizes in dim_gears.items():
        if not isinstance(dim, int) or not -t.ndim <= dim < t.ndim:
            raise AssertionError(f"set_dim_gears: a tensor of {t.ndim} dims has no dim {dim!r}")
        if not isinstance(sizes, (list, tuple)) or not all(isinstance(n, int) for n in sizes):
            raise AssertionError(f"set_dim_gears: the sizes of dim {dim} must be ints, not {sizes!r}")
        if t.shape[dim] not in sizes:
            raise AssertionError(
                f"set_dim_gears: dim {dim} has {t.shape[dim]} now, which is not one of {list(sizes)}"
            )
