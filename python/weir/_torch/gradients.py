"""Gradients that a backward graph is given.

Guards say what the arguments of a forward graph are. Nobody guards the gradients that come for its
results: they may keep their signs in a bit of the tensor at one call, and in memory at the next.
"""

import torch


def plain(module, run):
    """The compiled function, for gradients whose signs are in memory."""
    arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
    # The name that PyTorch's partitioner knows them by.
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
