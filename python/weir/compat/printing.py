"""``torchair.ops.npu_print``: prints tensors when they are computed, also in a compiled graph."""

import torch

from .._torch import library

_HERE = "\x00"  # marks a tensor's position in the text


def npu_print(*args, summarize_size=3, tensor_detail=False):
    """Prints the arguments; of each dim of a tensor the first and last ``summarize_size`` elements,
    or all for -1."""
    if isinstance(summarize_size, bool) or not isinstance(summarize_size, int) or (
        summarize_size < 1 and summarize_size != -1
    ):  # fmt: skip
        raise ValueError(f"npu_print: summarize_size is -1 or positive, not {summarize_size!r}")
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    if not tensors:
        raise ValueError("npu_print: one of the arguments must be a tensor")
    text = " ".join([_HERE if isinstance(x, torch.Tensor) else str(x) for x in args])
    torch.ops.weir.print_tensors(tensors, text, summarize_size, tensor_detail)


def _shown(tensor, size, detail):
    import numpy  # imported late, as PyTorch does not depend on it

    values = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    if size < 0 or size * 2 >= max(tensor.shape, default=0):
        size, threshold = 3, tensor.numel() + 1
    else:
        threshold = 0
    text = numpy.array2string(values.numpy(), threshold=threshold, edgeitems=size)
    if detail:
        return f"tensor({text}, shape={list(tensor.shape)}, dtype={tensor.dtype})"
    return text


def _print(tensors, text, size, detail):
    parts = text.split(_HERE)
    shown = [_shown(tensor, size, detail) for tensor in tensors]
    print("".join(a + b for a, b in zip(parts, [*shown, ""])), flush=True)


library.define(
    "print_tensors(Tensor[] tensors, str text, int size, bool detail) -> ()", _print
)
