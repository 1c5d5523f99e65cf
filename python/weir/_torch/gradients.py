"""Gradients that are passed to a backward graph.

Guards check the arguments of a forward graph, but not the gradients of its results: these may be
lazily negated (a bit of the tensor) at one call and not at the next.
"""

import torch


def plain(module, run):
    """Wraps the compiled function: resolves lazily negated gradients."""
    arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
    # PyTorch's partitioner gives gradients this name.
    places = [i for i, n in enumerate(arguments) if "tangents" in n.target and _may_have_signs(n)]

    def run_plain(args):
        for i in places:
            x = args[i]
            if isinstance(x, torch.Tensor) and (x.is_neg() or x.is_conj()):
                args[i] = x.resolve_conj().resolve_neg()
        return run(args)

    run_plain._boxed_call = True
    return run_plain if places else run


def _may_have_signs(node):
    val = node.meta.get("val")
    return not isinstance(val, torch.Tensor) or val.is_floating_point() or val.is_complex()
