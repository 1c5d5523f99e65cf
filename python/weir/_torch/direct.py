"""Calls of a compiled graph without PyTorch's wrappers.

AOTAutograd wraps the function of a backend: it writes mutations of inputs back, recreates results
that are views, disables gradients, and unwraps and wraps tensor subclasses (DTensor). Dynamo can
call a graph for inference directly if it needs none of that, which saves a quarter of the time of a
call of a small graph.
"""

import torch
from torch._guards import TracingContext
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# The fields of ViewAndMutationMeta that require a wrapper if they are not empty. A version of
# PyTorch that lacks one of them needs no wrapper for it; if it lacks the first three, it is not
# supported.
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
    fresh results, in the order in which Dynamo passes them. Call it inside the compiler, where
    PyTorch's analysis is available; False if a version of PyTorch does not provide it."""
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
    """Whether an argument or a result of Dynamo's graph is a tensor subclass that wraps others, as
    far as PyTorch says. The compiler, and so :func:`is_plain`, sees the graph without the
    wrappers."""
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
