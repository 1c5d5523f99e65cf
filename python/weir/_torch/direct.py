"""Calls that need nothing of what PyTorch puts around a compiled graph.

AOTAutograd wraps what a backend gives it: mutations of inputs are written back, results that are
views are made again, gradients are held off, tensors that stand for others (DTensor) are taken
apart and put together. A graph for inference that has none of that can be called by Dynamo itself,
which is a quarter of what a call of a small graph costs.
"""

import torch
from torch._guards import TracingContext
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# What ViewAndMutationMeta counts or keeps that a wrapper would have to act on. A version of
# PyTorch that has no such thing has nothing to do for it, but without the first three it would
# be another one altogether.
_WORK = (
    "num_mutated_inp_runtime_indices",
    "num_outputs_aliased",
    "num_intermediate_bases",
    "num_mutated_graph_handled_indices",
    "num_outputs_rng_offset",
    "num_graphsafe_rng_states",
    "act_input_indices",
    "dynamic_outputs",
    "tokens",
)


def is_plain(example_inputs):
    """Whether the graph that is being compiled for inference maps these tensors and numbers to
    fresh results, in the order in which Dynamo passes them. Asked inside the compiler, where
    PyTorch says what it found out; False wherever a version of PyTorch does not say."""
    context = TracingContext.try_get()
    found = getattr(context, "fw_metadata", None)
    if found is None or torch._C._is_any_autocast_enabled():
        return False
    if not all(hasattr(found, name) for name in _WORK[:3]):
        return False
    if any(getattr(found, name, None) for name in _WORK):
        return False
    if getattr(found, "grad_enabled_mutation", None) is not None:
        return False
    return len(found.input_info) == len(example_inputs)


def has_shells(module, example_inputs):
    """Whether an argument or a result of Dynamo's graph is a tensor around others, as far as PyTorch
    says: the compiler sees the graph without them, and what :func:`is_plain` asks is about that one."""
    graph = getattr(module, "graph", None)
    if graph is None:
        return True
    results = graph.output_node().all_input_nodes
    values = [*example_inputs, *(x.meta.get("example_value", x.meta.get("val")) for x in results)]
    return any(x is None or is_traceable_wrapper_subclass(x) for x in values)


def writes_arguments():
    """Whether the graph that is being compiled writes to arguments, as far as PyTorch says."""
    found = getattr(TracingContext.try_get(), "fw_metadata", None)
    return any(getattr(x, "mutates_data", True) for x in getattr(found, "input_info", ()))
