"""``torch_npu`` and ``torch.npu``: the NPU is weir's device. Its memory is the host's, or that of
the GPU if weir's device is one."""

import torch

import weir

from .._follow import external, join
from .._torch import gpu
from . import accelerator, distributed, extras, graphs, profiler, shim, tensors


def publish():
    """Makes the modules and teaches PyTorch the device's name."""
    gpu.of_default()  # raises if PyTorch cannot use weir's GPU
    npu = _publish_modules()
    if not torch.cuda.is_available():
        _name_the_device(npu)
        accelerator.teach()
    tensors.teach()
    distributed.teach()
    join(weir.current_stream())


def _publish_modules():
    names = shim.public(weir.npu)
    operators = {name: thing for name, thing in names.items() if name.startswith("npu_")}
    shim.publish(
        "torch_npu",
        "torch_npu, by weir.",
        __version__=torch.__version__.partition("+")[0],
        npu_prefetch=extras.npu_prefetch,
        npu_quant_matmul=extras.npu_quant_matmul,
        **operators,
    )
    if torch.cuda.is_available():
        names.update(_cuda_graphs())
    else:
        names.update(shim.public(graphs))
    npu = shim.publish("torch.npu", weir.npu.__doc__, **names, **extras.TYPES, **extras.NPU)
    shim.place("torch_npu.npu", npu)
    parts = {
        "memory": {n: t for n, t in names.items() if "mem" in n or n.endswith("cache")},
        "streams": {n: names[n] for n in ("Stream", "Event", "ExternalEvent", "SyncLaunchStream")},
        "graphs": {n: names[n] for n in graphs.__all__ if n in names},
        "utils": {
            "get_cann_version": extras.get_cann_version,
            "_get_device_index": weir.npu._get_device_index,
            **names,
        },
        "amp": {"autocast": extras.autocast, "GradScaler": extras.grad_scaler},
    }
    for name, part in parts.items():
        shim.place(f"torch_npu.npu.{name}", shim.publish(f"torch.npu.{name}", "By weir.", **part))
    npu.mstx, npu._get_device_index = extras.mstx, weir.npu._get_device_index
    shim.publish("torch_npu._inductor", "Nothing: Inductor is PyTorch's own here.")
    shim.publish("torch_npu.utils", "By weir.")
    shim.publish("torch_npu.utils.collect_env", "By weir.", get_cann_version=extras.get_cann_version)
    shim.publish("torch_npu.profiler", profiler.__doc__, **shim.public(profiler))
    shim.publish("torch_npu.profiler.profiler", profiler.__doc__, **shim.public(profiler))
    shim.publish("torch_npu.contrib", "By weir.")
    shim.publish_later("torch_npu.contrib.transfer_to_npu", _transfer)
    shim.publish_later("torch_npu.testing", _testing)
    return npu


def _cuda_graphs():
    """On a GPU, uses PyTorch's own graphs."""

    class graph(torch.cuda.graph):
        def __init__(self, npu_graph, pool=None, stream=None, **options):
            if isinstance(stream, weir.npu.Stream):
                stream = external(torch, stream.stream)
            super().__init__(npu_graph, pool, stream)

    return {
        "NPUGraph": torch.cuda.CUDAGraph,
        "graph": graph,
        "graph_pool_handle": torch.cuda.graph_pool_handle,
        "is_current_stream_capturing": torch.cuda.is_current_stream_capturing,
        "make_graphed_callables": torch.cuda.make_graphed_callables,
    }


def _transfer():
    from . import transfer

    transfer.teach()
    shim.publish("torch_npu.contrib.transfer_to_npu", transfer.__doc__)


def _testing():
    from . import testing

    shim.publish("torch_npu.testing", testing.__doc__)
    for name in ("testcase", "common_utils", "decorator", "common_distributed"):
        shim.publish(f"torch_npu.testing.{name}", testing.__doc__, **shim.public(testing))


def _name_the_device(npu):
    """Makes torch.device("npu:0") valid, by renaming the one device type that PyTorch leaves
    free."""
    if torch._C._get_privateuse1_backend_name() != "npu":
        torch.utils.rename_privateuse1_backend("npu")
    npu._is_in_bad_fork = lambda: False  # called by torch.manual_seed
